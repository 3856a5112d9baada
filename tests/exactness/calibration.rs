//! Claims that simulation passes exact posteriors and finds planted faults, whose direction it names.

use burn::module::Module;
use burn::tensor::Tensor;
use fixtures::{ConjugateGaussian, conjugate};
use partita::core::{
    Key, Latents, LkjCholesky, LogDensity, Minibatch, Noise, Purpose, SiloNoise, Simulated, SimulatedData,
    special::log_normal_cumulative,
};
use partita::inference::{
    AlgorithmChoice, Calibration, CalibrationOptions, Error, Finding, PosteriorCalibration, Progress, RunRecord,
    StartFrom, StepInfo, calibrate, plot::PlotError,
};
use partita::models::{GaussianMean, LinearRegression, MeasuredRows, MixedLogistic, RepeatedBinary};
use partita::{
    Censoring, Design, Device, Exponential, FamilyPlan, FitOptions, Gaussian, Groups, LogNormal, Model, Normal, Nuts,
    Result, Schedule, Scope, Settings, SiteTable,
};

/// The seed of every calibration here, literal: each test has the same outcome at every run.
const SEED: u64 = 23;

/// Draws of each posterior, and of its round of trust: fewer than the defaults, so that a fit takes milliseconds.
const DRAWS: u32 = 1_000;
const TRUST_DRAWS: usize = 512;

fn options(fits: u32) -> CalibrationOptions {
    let fit =
        FitOptions { summary_draws: DRAWS, trust_draws: Some(TRUST_DRAWS), elbo_draws: 2, ..FitOptions::default() };
    CalibrationOptions { fits, seed: SEED, threads: 2, fit, ..CalibrationOptions::default() }
}

/// Numbers of two silos; what they are does not matter.
fn numbers(device: &Device, rows: [usize; 2]) -> Vec<(String, Tensor<1>)> {
    let silo = |(name, rows): (&str, usize)| (name.to_owned(), device.tensor(vec![1.0; rows], [rows]));
    ["a", "b"].into_iter().zip(rows).map(silo).collect()
}

/// [`GaussianMean`] with its densities to a power, which its draws do not know: a posterior of another width.
#[derive(Module, Debug)]
struct Powered {
    #[module(skip)]
    power: f64,
}

impl Model for Powered {
    type Globals = Tensor<1>;
    type Data = Tensor<1>;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
        scope.weighted(self.power, |scope| GaussianMean {}.global(scope))
    }

    fn local(&self, scope: &mut Scope<'_>, mu: &Tensor<1>, data: &Tensor<1>) -> Result<()> {
        scope.weighted(self.power, |scope| GaussianMean {}.local(scope, mu, data))
    }
}

/// [`GaussianMean`] whose posterior starts, with the deviation of the prior, at a place of its own.
#[derive(Module, Debug)]
struct Started {
    #[module(skip)]
    at: f64,
}

impl Model for Started {
    type Globals = Tensor<1>;
    type Data = Tensor<1>;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
        scope.sample("mu", Normal::new(0.0, 1.0).start(self.at).start_scale(1.0))
    }

    fn local(&self, scope: &mut Scope<'_>, mu: &Tensor<1>, data: &Tensor<1>) -> Result<()> {
        GaussianMean {}.local(scope, mu, data)
    }
}

/// A factor of two correlated effects, of which an element is always zero, and a number that the model keeps to itself.
#[derive(Module, Debug)]
struct Correlated {}

impl Model for Correlated {
    type Globals = [Tensor<1>; 2];
    type Data = Tensor<1>;

    fn global(&self, scope: &mut Scope<'_>) -> Result<[Tensor<1>; 2]> {
        let factor: Tensor<2> = scope.sample("factor", LkjCholesky::new(2.0, 2))?;
        let hidden = scope.sample_unreported("hidden", Normal::new(0.0, 1.0))?;
        Ok([factor.slice([1..2, 0..1]).reshape([1]), hidden])
    }

    fn local(&self, scope: &mut Scope<'_>, [correlation, hidden]: &[Tensor<1>; 2], y: &Tensor<1>) -> Result<()> {
        let mean = correlation.clone() + hidden.clone();
        scope.plate("row", y.dims()[0], |scope, rows| {
            scope.observe("y", Normal::new(mean.expand([rows.len()]), 0.5), rows.take(y)?)
        })
    }
}

#[test]
fn numbers_that_are_always_the_same_have_no_rank_and_hidden_ones_are_left_out() {
    let device = Device::flex();
    let calibration = calibrate(&Correlated {}, &numbers(&device, [20, 20]), &device, &options(24), None).unwrap();
    let labels: Vec<&str> = calibration.fitted.numbers.iter().map(|number| number.label.as_str()).collect();
    assert!(calibration.failed.is_empty() && labels == ["factor[1,0]", "factor[1,1]"], "{labels:?}\n{calibration}");
    assert!(calibration.is_calibrated(), "{calibration}");
    // Chains move in the two numbers that are left, and agree.
    let data = [("a".to_owned(), device.tensor((0..20).map(|row| 0.1 * f64::from(row) - 0.8).collect(), [20]))];
    let fit =
        Nuts { warmup: 300, draws: 400, chains: 2, ..Nuts::default() }.sample(&Correlated {}, &data, &device).unwrap();
    assert!(!fit.to_string().contains("the same in every draw"), "{fit}");
    assert!(fit.diagnostics.convergence.iter().all(|one| one.r_hat.is_finite()), "{:?}", fit.diagnostics.convergence);
}

#[test]
fn exact_posteriors_pass_and_the_places_of_the_truth_are_those_of_closed_forms() {
    let device = Device::flex();
    let shapes = [[2, 3], [4, 1], [1, 5]];
    let silos: Vec<(String, Tensor<2>)> = shapes
        .into_iter()
        .enumerate()
        .map(|(silo, shape)| (format!("clinic-{silo}"), device.tensor(vec![0.0; shape[0] * shape[1]], shape)))
        .collect();
    let calibration = calibrate(&conjugate(), &silos, &device, &options(100), None).unwrap();
    assert!(calibration.is_calibrated() && calibration.fitted.is_calibrated(), "{calibration}");
    let mu = calibration.fitted.number("mu").unwrap();
    // One of a right one's tests in a hundred has a smaller p-value.
    assert!(mu.symmetry.p_value > 0.01, "{:?}", mu.symmetry);
    let corrected = calibration.corrected.as_ref().unwrap().number("mu").unwrap();
    for number in 0..100 {
        let drawn = |(silo, (_, data)): (u32, &(String, Tensor<2>))| {
            let noise = SiloNoise { noise: Noise::new(SEED), draw: number, silo };
            SimulatedData::draw(&conjugate(), &device, data, noise).unwrap()
        };
        let drawn: Vec<_> = (0..).zip(&silos).map(drawn).collect();
        // Silos share globals, and nothing else.
        let truth = drawn[0].globals()[0].1.values[0];
        assert!(drawn.iter().all(|own| own.globals() == drawn[0].globals()));
        assert!((drawn[0].outcomes()[0].1.values[0] - drawn[1].outcomes()[0].1.values[0]).abs() > 1e-9);
        let groups = |own: &SimulatedData<Tensor<2>>| -> Vec<Vec<f64>> {
            let y = &own.outcomes()[0].1;
            y.values.chunks_exact(y.shape[1]).map(<[f64]>::to_vec).collect()
        };
        let groups: Vec<Vec<f64>> = drawn.iter().flat_map(groups).collect();
        let exact = ConjugateGaussian::posterior(&conjugate(), &groups);
        let expected = log_normal_cumulative((truth - exact.mean) / exact.sd).exp();
        // Five standard errors of a share of the draws.
        let count = f64::from(DRAWS);
        let error = 5.0 * (expected * (1.0 - expected) / count).sqrt().max(1.0 / count);
        let place = number as usize;
        let found = [mu.probabilities[place], corrected.probabilities[place]];
        assert!(found.iter().all(|own| (own - expected).abs() < error), "{number}: {found:?}, exact {expected}");
    }
}

/// Times of which some are censored, on one side or the other.
#[derive(Module, Debug)]
struct Times {
    #[module(skip)]
    is_right: bool,
}

impl Model for Times {
    type Globals = Tensor<1>;
    type Data = [Tensor<1>; 2];

    fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
        scope.sample("rate", LogNormal::new(0.0, 0.3))
    }

    fn local(&self, scope: &mut Scope<'_>, rate: &Tensor<1>, [times, status]: &[Tensor<1>; 2]) -> Result<()> {
        scope.plate("patient", times.dims()[0], |scope, rows| {
            let status = rows.take(status)?;
            let known = if self.is_right { Censoring::right(status) } else { Censoring::left(status) };
            scope.observe("time", Exponential::new(rate.clone()).over(rows).censored(known), rows.take(times)?)
        })
    }
}

#[test]
fn drawn_times_of_censored_rows_are_seen_up_to_their_limits_and_the_others_without_one() {
    let device = Device::flex();
    // Limits of every second row; what stands in the others does not matter.
    let limits: Vec<f64> = (0..40).map(|row| 0.2 + 0.05 * f64::from(row)).collect();
    let statuses: Vec<f64> = (0..40).map(|row| f64::from(row % 2)).collect();
    let tensor = |values: &[f64]| device.tensor(values.to_vec(), [40]);
    for is_right in [true, false] {
        let (model, data) = (Times { is_right }, [tensor(&limits), tensor(&statuses)]);
        let noise = SiloNoise { noise: Noise::new(SEED), draw: 0, silo: 0 };
        let simulated = SimulatedData::draw(&model, &device, &data, noise).unwrap();
        let drawn = &simulated.outcomes()[0].1.values;
        let is_hidden = |row: usize| {
            let beyond = if is_right { drawn[row] > limits[row] } else { drawn[row] <= limits[row] };
            statuses[row] == 0.0 && beyond
        };
        let hidden = (0..40).filter(|row| is_hidden(*row)).count();
        assert!((3..18).contains(&hidden), "{hidden} of 20");
        let seen: Vec<f64> = (0..40).map(|row| if is_hidden(row) { limits[row] } else { drawn[row] }).collect();
        let known: Vec<f64> = (0..40).map(|row| if is_hidden(row) { 0.0 } else { 1.0 }).collect();
        let by_hand = [tensor(&seen), tensor(&known)];
        let density = |at: f64| {
            let table = SiteTable::of(&model, &device, &data).unwrap();
            let (globals, locals) = ([at], vec![Vec::new(); table.blocks().len()]);
            let latents = Latents { globals: &globals, locals: &locals };
            let plain = LogDensity::new(&model, &device, &table).local(latents, &by_hand).unwrap();
            let other = Simulated::new(model.clone());
            let table = SiteTable::of(&other, &device, &simulated).unwrap();
            let found = LogDensity::new(&other, &device, &table).local(latents, &simulated).unwrap();
            (found.value, plain.value)
        };
        for at in [-0.4, 0.0, 0.7] {
            let (found, plain) = density(at);
            assert!((found - plain).abs() < 1e-12, "{found} {plain}");
        }
    }
}

#[test]
fn drawn_outcomes_stand_in_for_those_of_the_data_in_minibatches_and_inner_plates_too() {
    let (device, model) = (Device::flex(), MixedLogistic::new(2));
    let visits = Groups::of_sizes(&[2, 1, 3]).unwrap();
    let design = Design::new((0..12).map(|cell| f64::from(cell % 5) - 2.0).collect(), [6, 2]).unwrap();
    let data = |outcomes| RepeatedBinary::new(visits.clone(), design.clone(), outcomes, &device).unwrap();
    let noise = SiloNoise { noise: Noise::new(SEED), draw: 0, silo: 0 };
    let drawn = SimulatedData::draw(&model, &device, &data(vec![0.0; 6]), noise).unwrap();
    let outcomes = drawn.outcomes()[0].1.values.clone();
    assert!(outcomes.contains(&0.0) && outcomes.contains(&1.0), "{outcomes:?}");
    let (simulated, replaced) = (Simulated::new(MixedLogistic::new(2)), data(outcomes));
    let table = SiteTable::of(&model, &device, &replaced).unwrap();
    let (globals, minibatch) = ([0.3, -0.2, 0.4], [Minibatch::new("child", vec![2, 0])]);
    for (minibatch, levels) in [(&[][..], vec![0.5, -1.0, 0.2]), (&minibatch[..], vec![0.2, 0.5])] {
        let locals = [levels, Vec::new()];
        let latents = Latents { globals: &globals, locals: &locals };
        let expected = LogDensity::new(&model, &device, &table).minibatch(minibatch).local(latents, &replaced).unwrap();
        let found = LogDensity::new(&simulated, &device, &table).minibatch(minibatch).local(latents, &drawn).unwrap();
        assert_eq!((found.value, found.globals, found.locals), (expected.value, expected.globals, expected.locals));
    }
}

#[test]
fn posteriors_of_half_or_double_the_deviation_are_found_and_named() {
    let (device, silos) = (Device::flex(), numbers(&Device::flex(), [2, 3]));
    let found = |power| {
        let calibration = calibrate(&Powered { power }, &silos, &device, &options(100), None).unwrap();
        let mu = calibration.fitted.number("mu").unwrap().clone();
        (calibration.is_calibrated(), mu.finding, mu.symmetry.p_value > 0.01, calibration.to_string())
    };
    assert!(found(1.0).0);
    // The power of a normal density divides its variance: by four, by two (its entropy counts half), and by a quarter.
    for (power, finding, words) in [
        (4.0, Finding::TooNarrow, "too narrow: intervals of 90 % hold the truth in"),
        (2.0, Finding::TooNarrow, "too narrow: intervals of 90 % hold the truth in"),
        (0.25, Finding::TooWide, "too wide: intervals of 90 % hold the truth in"),
    ] {
        let (is_calibrated, own, is_symmetric, text) = found(power);
        assert!(!is_calibrated && own == finding && text.contains(words), "{power}: {text}");
        // Their centre is right, and the test of the centre alone says so.
        assert!(is_symmetric, "{power}: {text}");
        assert!(text.starts_with("calibration: not calibrated\n"), "{text}");
    }
}

#[test]
fn pictures_have_a_histogram_of_each_number_over_its_band() {
    let (device, silos) = (Device::flex(), numbers(&Device::flex(), [2, 3]));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ranks.svg");
    let calibration = calibrate(&Powered { power: 4.0 }, &silos, &device, &options(50), None).unwrap();
    let own = &calibration.fitted;
    let histogram = &own.number("mu").unwrap().histogram;
    own.write_picture(&path).unwrap();
    let picture = std::fs::read_to_string(&path).unwrap();
    assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>") && !picture.contains("NaN"));
    for words in ["mu: too narrow", "rank of the truth", "what chance alone makes"] {
        assert_eq!(picture.matches(words).count(), 1, "{words}");
    }
    // Beside the line of the legend in its colour, the band has a part a bin, and a bar is a line of four points.
    assert_eq!(picture.matches("<rect").count() - picture.matches("fill=\"#FFFFFF\"").count(), own.band.len());
    let bars = picture.split("points=\"").skip(1).map(|rest| rest.split('"').next().unwrap());
    let bars: Vec<Vec<f64>> = bars
        .map(|points| points.split([' ', ',']).filter_map(|number| number.parse().ok()).collect())
        .filter(|points: &Vec<f64>| points.len() == 8 && points[1].total_cmp(&points[7]).is_eq())
        .collect();
    assert_eq!(bars.len(), histogram.len());
    // Heights are proportional to counts, within the units that are drawn in.
    let most = *histogram.iter().max().unwrap() as f64;
    let tallest = bars.iter().map(|bar| bar[1] - bar[3]).fold(0.0, f64::max);
    for (bar, count) in bars.iter().zip(histogram) {
        assert!(((bar[1] - bar[3]) / tallest - *count as f64 / most).abs() < 2.0 / tallest, "{bar:?} {count}");
    }
    let nothing = PosteriorCalibration { edges: Vec::new(), band: Vec::new(), numbers: Vec::new() };
    assert!(matches!(nothing.write_picture(&path), Err(PlotError::Empty { .. })));
}

#[test]
fn biased_posteriors_are_found_and_the_direction_is_named() {
    let (device, silos) = (Device::flex(), numbers(&Device::flex(), [1, 1]));
    // One step leaves the posterior where it starts, and importance weights take it to where it belongs.
    let (schedule, start) = (Schedule::cosine(), StartFrom::Declared);
    let settings = Settings { steps: 1, start, schedule, ..Settings::default() };
    let fit = FitOptions { algorithm: AlgorithmChoice::Sfvi, settings, ..options(60).fit };
    let options = CalibrationOptions { fit, ..options(60) };
    for (at, finding, words) in [
        (0.0, Finding::Calibrated, "calibrated: "),
        (1.0, Finding::TooHigh, "too high: the truth is above the median in"),
        (-1.0, Finding::TooLow, "too low: the truth is above the median in"),
    ] {
        let calibration = calibrate(&Started { at }, &silos, &device, &options, None).unwrap();
        let (mu, text) = (calibration.fitted.number("mu").unwrap(), calibration.to_string());
        assert!(mu.finding == finding && text.contains(words), "{at}: {text}");
        assert_eq!(mu.symmetry.p_value > 0.01, finding == Finding::Calibrated, "{at}: {text}");
        assert_eq!(mu.above_median() < 0.4, finding == Finding::TooHigh, "{at}: {text}");
        let corrected = calibration.corrected.as_ref().unwrap().number("mu").unwrap();
        assert!(corrected.symmetry.p_value > 0.01 && calibration.distrusted > 0, "{at}: {text}");
    }
}

#[test]
fn a_family_too_small_is_too_narrow_and_the_correction_is_calibrated() {
    let device = Device::flex();
    let mut noise = Noise::new(5).stream(Key::new(Purpose::Check, 0));
    // Two columns with a correlation of .8: mean-field deviations are three fifths of the exact ones.
    let rows = (0..30).flat_map(|_| {
        let common = noise.standard_normal();
        [common, 0.8 * common + 0.6 * noise.standard_normal()]
    });
    let data = MeasuredRows::new(&rows.collect::<Vec<f64>>(), 2, &[0.0; 30], &device).unwrap();
    let family = FamilyPlan::new().global(Gaussian::diagonal());
    let fit = FitOptions {
        algorithm: AlgorithmChoice::Sfvi,
        settings: Settings { steps: 300, family, ..Settings::default() },
        trust_draws: None,
        ..options(80).fit
    };
    let options = CalibrationOptions { fit, ..options(80) };
    let silos = [("pooled".to_owned(), data)];
    let calibration = calibrate(&LinearRegression::new(2, 1.0), &silos, &device, &options, None).unwrap();
    for label in ["beta[1]", "beta[2]"] {
        assert_eq!(calibration.fitted.number(label).unwrap().finding, Finding::TooNarrow, "{calibration}");
    }
    assert!(!calibration.fitted.is_calibrated() && calibration.is_calibrated(), "{calibration}");
}

/// What a calibration was told of.
#[derive(Default)]
struct Heard {
    steps: Vec<u64>,
    ends: usize,
}

impl Progress for Heard {
    fn step(&mut self, info: &StepInfo, _: &partita::inference::Counters) {
        self.steps.push(info.step);
    }

    fn end(&mut self, _: &RunRecord) {
        self.ends += 1;
    }
}

#[test]
fn bits_do_not_depend_on_threads_nor_on_what_was_kept() {
    let (device, silos) = (Device::flex(), numbers(&Device::flex(), [2, 3]));
    let folder = tempfile::tempdir().unwrap();
    let run = |options: CalibrationOptions| -> std::result::Result<(Calibration, Heard), Error> {
        let mut heard = Heard::default();
        let found = calibrate(&Powered { power: 2.0 }, &silos, &device, &options, Some(&mut heard))?;
        Ok((found, heard))
    };
    let kept = |fits| CalibrationOptions { folder: Some(folder.path().into()), ..options(fits) };
    let (alone, heard) = run(CalibrationOptions { threads: 1, ..options(16) }).unwrap();
    assert_eq!((heard.steps, heard.ends), ((1..=16).collect(), 1));
    let (together, _) = run(CalibrationOptions { threads: 3, ..options(16) }).unwrap();
    assert_eq!(alone, together);
    run(kept(11)).unwrap();
    let (resumed, heard) = run(kept(16)).unwrap();
    assert_eq!((heard.steps, heard.ends), ((12..=16).collect(), 1));
    assert_eq!(alone, resumed);
    // All is read, and nothing fitted again.
    let (read, heard) = run(kept(16)).unwrap();
    assert!(alone == read && heard.steps.is_empty());
    let json = folder.path().join("calibration.json");
    read.write_json(&json).unwrap();
    let again: Calibration = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!(again, alone);
    // Other seeds, other settings, another model and other data are refused.
    let refused = |found: std::result::Result<(Calibration, Heard), Error>| matches!(found, Err(Error::Checkpoint { problem, .. }) if problem.contains("other settings, another model"));
    assert!(refused(run(CalibrationOptions { seed: SEED + 1, ..kept(16) })));
    assert!(refused(run(CalibrationOptions { draws: 127, ..kept(16) })));
    let fit = FitOptions { trust_draws: Some(64), ..options(16).fit };
    assert!(refused(run(CalibrationOptions { fit, ..kept(16) })));
    let elsewhere = numbers(&device, [2, 4]);
    let other = calibrate(&Powered { power: 2.0 }, &elsewhere, &device, &kept(16), None);
    assert!(matches!(other, Err(Error::Checkpoint { .. })));
    std::fs::write(folder.path().join("fit-000003.json"), "{").unwrap();
    assert!(matches!(run(kept(16)), Err(Error::Checkpoint { problem, .. }) if problem.starts_with("it is damaged")));
}

/// A model without a density for some draws of its prior.
#[derive(Module, Debug)]
struct SometimesImpossible {}

impl Model for SometimesImpossible {
    type Globals = Tensor<1>;
    type Data = Tensor<1>;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
        scope.sample("variance", Normal::new(4.0, 6.0).start(9.0))
    }

    fn local(&self, scope: &mut Scope<'_>, variance: &Tensor<1>, data: &Tensor<1>) -> Result<()> {
        scope.plate("row", data.dims()[0], |scope, rows| {
            scope.observe("y", Normal::new(0.0, variance.clone().sqrt()).over(rows), rows.take(data)?)
        })
    }
}

#[test]
fn fits_that_fail_are_named_and_forbid_the_verdict() {
    let (device, silos) = (Device::flex(), numbers(&Device::flex(), [30, 30]));
    let calibration = calibrate(&SometimesImpossible {}, &silos, &device, &options(40), None).unwrap();
    let fitted = calibration.fitted.numbers[0].ranks.len();
    assert!(fitted > 10 && !calibration.failed.is_empty() && !calibration.is_calibrated(), "{calibration}");
    assert_eq!(fitted + calibration.failed.len(), 40);
    let first = &calibration.failed[0];
    assert!(calibration.to_string().contains(&format!("fit {} failed: {}", first.number, first.reason)));
}

/// [`GaussianMean`] with a factor, which nothing can be drawn from.
#[derive(Module, Debug)]
struct Factored {}

impl Model for Factored {
    type Globals = Tensor<1>;
    type Data = Tensor<1>;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
        GaussianMean {}.global(scope)
    }

    fn local(&self, scope: &mut Scope<'_>, mu: &Tensor<1>, data: &Tensor<1>) -> Result<()> {
        scope.factor("penalty", mu.clone().neg())?;
        GaussianMean {}.local(scope, mu, data)
    }
}

#[test]
fn what_cannot_be_simulated_and_settings_out_of_range_are_refused() {
    let (device, silos) = (Device::flex(), numbers(&Device::flex(), [2, 3]));
    let refused = calibrate(&Factored {}, &silos, &device, &options(20), None).unwrap_err().to_string();
    assert!(refused.contains("silo `a`") && refused.contains("drawing site `penalty`"), "{refused}");
    let fit = FitOptions { checkpoint: Some(("nowhere".into(), 10)), ..FitOptions::default() };
    for (wrong, name) in [
        (CalibrationOptions { fits: 9, ..options(20) }, "fits"),
        (CalibrationOptions { draws: 8, ..options(20) }, "draws"),
        (CalibrationOptions { level: 1.0, ..options(20) }, "level"),
        (CalibrationOptions { threads: 0, ..options(20) }, "threads"),
        (CalibrationOptions { fit, ..options(20) }, "checkpoint"),
    ] {
        let found = calibrate(&GaussianMean {}, &silos, &device, &wrong, None);
        assert!(matches!(found, Err(Error::Setting { setting, .. }) if setting == name), "{name}");
    }
    assert!(matches!(calibrate(&GaussianMean {}, &[], &device, &options(20), None), Err(Error::NoSilos)));
}
