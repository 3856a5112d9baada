//! Claims that fits begin where a model, a plan or the data say, by every method.

use partita::burn::module::Module;
use partita::burn::tensor::Tensor;
use partita::inference::{Nuts, PviOptions, Verdict, Warning, parties};
use partita::{
    AlgorithmChoice, Device, FamilyPlan, Fit, FitOptions, Gamma, Gaussian, Model, Normal, Result, RoundOptions,
    Schedule, Scope, Settings, SiteTable, fit,
};

/// Squares of a number whose sign the data do not know, and of numbers a row of which the same is true.
#[derive(Module, Debug)]
struct Squares {
    #[module(skip)]
    start: f64,
}

impl Model for Squares {
    type Globals = Tensor<1>;
    type Data = Tensor<1>;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
        scope.sample("root", Normal::new(0.0, 3.0).start(self.start).start_scale(0.05))
    }

    fn local(&self, scope: &mut Scope<'_>, root: &Tensor<1>, data: &Tensor<1>) -> Result<()> {
        scope.plate("row", data.dims()[0], |scope, rows| {
            let own = scope.sample("own", Normal::new(0.0, 3.0).start(-self.start).start_scale(0.05).over(rows))?;
            scope.observe("whole", Normal::new(root.clone() * root.clone(), 0.5).over(rows), rows.take(data)?)?;
            scope.observe("part", Normal::new(own.clone() * own, 0.5), rows.take(data)?)
        })
    }
}

fn squares(device: &Device, count: usize) -> Vec<(String, Tensor<1>)> {
    let silos = [("a", vec![4.1, 3.8]), ("b", vec![4.0, 4.3, 3.9])];
    let made = silos.into_iter().map(|(name, values)| {
        let rows = values.len();
        (name.to_owned(), device.tensor(values, [rows]))
    });
    made.take(count).collect()
}

#[test]
fn every_method_keeps_to_the_mode_that_a_start_names() {
    let device = Device::flex();
    let rounds = RoundOptions { scale_entropy: true, ..RoundOptions::paper(50) };
    let choices = [
        (AlgorithmChoice::Sfvi, 2),
        (AlgorithmChoice::Central, 1),
        (AlgorithmChoice::SfviAvg(rounds), 2),
        (AlgorithmChoice::Pvi(PviOptions::new(100)), 2),
        (AlgorithmChoice::OnDevice { interval: 100 }, 1),
    ];
    for sign in [-1.0, 1.0] {
        let model = Squares { start: 2.0 * sign };
        for (algorithm, count) in choices.clone() {
            let name = format!("{algorithm:?}");
            let family = FamilyPlan::new().local(Gaussian::diagonal());
            let settings = Settings { steps: 800, family, ..Settings::default() };
            let options =
                FitOptions { algorithm, settings, elbo_draws: 50, trust_draws: Some(0), ..FitOptions::default() };
            let mut fit = fit(&model, &squares(&device, count), &device, &options, None).unwrap();
            let found = fit.report.site("root").unwrap().mean;
            assert!((found - 2.0 * sign).abs() < 0.1, "{name}: {found}");
            for silo in fit.exchange.programs() {
                let own = silo.local_moments().unwrap().swap_remove(0).0;
                assert!(own.iter().all(|mean| (mean + 2.0 * sign).abs() < 0.3), "{name}: {own:?}");
            }
        }
        let nuts = Nuts { warmup: 200, draws: 100, chains: 3, ..Nuts::default() };
        let sampled = nuts.sample(&model, &squares(&device, 2), &device).unwrap();
        assert!((sampled.sites[0].mean - 2.0 * sign).abs() < 0.1, "{}", sampled.sites[0].mean);
    }
}

#[test]
fn a_start_is_where_the_posterior_is_before_the_first_step() {
    #[derive(Module, Debug)]
    struct Starts {}
    impl Model for Starts {
        type Globals = Tensor<1>;
        type Data = Tensor<1>;
        fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
            let device = scope.device().clone();
            let level = scope.sample("level", Normal::new(5.0, 2.0).start(6.0).start_scale(3.0))?;
            scope.sample("shifted", Normal::new(level, 2.0).non_centred().start(10.0))?;
            scope.sample("rate", Gamma::new(2.0, 1.0).truncated(1.0, f64::INFINITY).start(3.0))?;
            let cuts = device.tensor(vec![-1.0, 0.0, 2.0], [3]);
            scope.sample("cuts", Normal::new(0.0, 1.0).iid([3]).ordered().start(cuts))?;
            scope.sample("plain", Normal::new(0.0, 1.0))
        }
        fn local(&self, scope: &mut Scope<'_>, plain: &Tensor<1>, data: &Tensor<1>) -> Result<()> {
            scope.observe("y", Normal::new(plain.clone(), 1.0), data.clone())
        }
    }
    let device = Device::flex();
    let silos = [("a".to_owned(), device.tensor(vec![0.5], [1]))];
    for family in [Gaussian::full_rank(), Gaussian::diagonal()] {
        let settings = Settings { family: FamilyPlan::new().global(family), ..Settings::default() };
        let options = FitOptions { settings, ..FitOptions::default() };
        let (algorithm, _) = parties(&Starts {}, &silos, &device, &options).unwrap();
        let posterior = algorithm.posterior();
        let table = SiteTable::globals(&Starts {}, &device).unwrap();
        let values = table.natural_globals(&Starts {}, &device, &posterior.family.mean(posterior.parameters)).unwrap();
        let flat: Vec<f64> = values.into_iter().flat_map(|(_, array)| array.values).collect();
        for (found, expected) in flat.iter().zip([6.0, 10.0, 3.0, -1.0, 0.0, 2.0, 0.0]) {
            assert!((found - expected).abs() < 1e-12, "{flat:?}");
        }
        let sds = posterior.family.covariance_matrix(posterior.parameters).deviations();
        assert!((sds[0] - 3.0).abs() < 1e-12 && sds[1..].iter().all(|sd| (sd - 0.1).abs() < 1e-12), "{sds:?}");
    }
}

/// The square of a number, whose negative root the prior makes less probable.
#[derive(Module, Debug)]
struct Root {}

impl Model for Root {
    type Globals = Tensor<1>;
    type Data = Tensor<1>;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
        scope.sample("root", Normal::new(1.0, 1.0).start(-1.0))
    }

    fn local(&self, scope: &mut Scope<'_>, root: &Tensor<1>, data: &Tensor<1>) -> Result<()> {
        scope.plate("row", data.dims()[0], |scope, rows| {
            scope.observe("y", Normal::new(root.clone() * root.clone(), 0.5).over(rows), rows.take(data)?)
        })
    }
}

#[test]
fn of_several_starts_the_best_is_kept_and_all_are_reported() {
    let device = Device::flex();
    let fitted = |starts, threads| {
        // Steps are counted: an adaptive rate may end before the last of them.
        let settings = Settings { steps: 3_000, schedule: Schedule::cosine(), ..Settings::default() };
        let options = FitOptions { settings, starts, threads, elbo_draws: 200, ..FitOptions::default() };
        fit(&Root {}, &squares(&device, 2), &device, &options, None).unwrap()
    };
    let one = fitted(1, 1).report;
    assert!((one.site("root").unwrap().mean + 2.0).abs() < 0.1 && one.starts.is_empty(), "{one}");
    // Draws of the round of trust go as far as the other mode, which one start misses.
    assert_eq!(one.verdict, Verdict::DoNotTrust, "{one}");
    let many = fitted(6, 1).report;
    assert!((many.site("root").unwrap().mean - 2.0).abs() < 0.1, "{many}");
    let kept: Vec<_> = many.starts.iter().filter(|start| start.is_kept).collect();
    assert!(many.starts.len() == 6 && kept.len() == 1, "{many}");
    assert!(many.starts.iter().all(|start| start.elbo <= kept[0].elbo) && !many.starts[0].is_kept);
    // The priors of the two modes are 4 nats apart.
    let differ = |warning: &&Warning| warning.problem.contains("starts differ");
    let Some(warning) = many.warnings.iter().find(differ) else { panic!("{many}") };
    assert!((warning.number.unwrap() - 4.0).abs() < 1.0, "{warning}");
    assert!(many.to_string().contains("6 starts, went on from the"), "{many}");
    // Six tenths of the steps, and what was left of the kept one.
    assert_eq!(many.gradient_steps, 5 * 300 + 3_000);
    let again = fitted(6, 2).report;
    assert_eq!((many.elbo.to_bits(), many.starts), (again.elbo.to_bits(), again.starts));
}

/// Regressions in the units in which people have their data.
mod raw_scales {
    use std::ops::Range;

    use super::*;
    use fixtures::cut::cut_and_resumed;
    use partita::core::{Bernoulli, HalfNormal, Key, Noise, NoiseStream, Purpose};
    use partita::inference::{Algorithm, StartFrom, coordinator, fit_parties};
    use partita::models::{LinearRegression, MeasuredRows};

    fn noise(number: u64) -> NoiseStream {
        Noise::new(22).stream(Key::new(Purpose::Prior, number))
    }

    fn options(algorithm: AlgorithmChoice) -> FitOptions {
        let settings = Settings { steps: 2_000, ..Settings::default() };
        FitOptions { algorithm, settings, elbo_draws: 50, ..FitOptions::default() }
    }

    /// A case: columns, the standard deviations of noise and prior, covariates row by row, outcomes.
    struct Case {
        name: &'static str,
        columns: usize,
        sds: [f64; 2],
        x: Vec<f64>,
        y: Vec<f64>,
    }

    impl Case {
        fn new(name: &'static str, sds: [f64; 2], rows: &dyn Fn(&mut NoiseStream) -> (Vec<f64>, f64)) -> Self {
            let mut stream = noise(name.len() as u64);
            let (mut x, mut y, mut columns) = (Vec::new(), Vec::new(), 0);
            for _ in 0..120 {
                let (row, mean) = rows(&mut stream);
                columns = row.len();
                x.extend(row);
                y.push(mean + sds[0] * stream.standard_normal());
            }
            Self { name, columns, sds, x, y }
        }

        fn model(&self) -> LinearRegression {
            LinearRegression::new(self.columns, self.sds[0]).prior_sd(self.sds[1])
        }

        fn rows(&self, range: Range<usize>) -> MeasuredRows {
            let x = &self.x[self.columns * range.start..self.columns * range.end];
            MeasuredRows::new(x, self.columns, &self.y[range], &Device::flex()).unwrap()
        }
    }

    /// All rows pooled, and in two silos of which the first has so many.
    fn pooled_and_split<T>(
        [first, all]: [usize; 2],
        rows: impl Fn(Range<usize>) -> T,
    ) -> [(AlgorithmChoice, Vec<(String, T)>); 2] {
        let split = vec![("a".to_owned(), rows(0..first)), ("b".to_owned(), rows(first..all))];
        [(AlgorithmChoice::Central, vec![("all".to_owned(), rows(0..all))]), (AlgorithmChoice::Sfvi, split)]
    }

    fn cases() -> Vec<Case> {
        let year = |s: &mut NoiseStream| (1950.0 + 70.0 * s.uniform()).floor();
        vec![
            Case::new("calendar years", [0.5, 1e3], &|s| {
                let x = year(s);
                (vec![x], 3.0 + 0.02 * (x - 1985.0))
            }),
            Case::new("incomes", [1.0, 1e2], &|s| {
                let x = (10.0 + 0.5 * s.standard_normal()).exp();
                (vec![x], 1.0 + 1e-4 * x)
            }),
            Case::new("an intelligence quotient", [5.0, 1e3], &|s| {
                let x = 100.0 + 15.0 * s.standard_normal();
                (vec![x], 20.0 + 0.5 * x)
            }),
            Case::new("an outcome near a million", [2e4, 1e8], &|s| {
                let x = s.standard_normal();
                (vec![x], 1e6 + 5e4 * x)
            }),
            Case::new("columns of a millionth and a million", [1.0, 1e8], &|s| {
                let (one, other) = (1e-6 * s.standard_normal(), 1e6 * s.standard_normal());
                (vec![one, other], 2e6 * one - 3e-6 * other)
            }),
            Case::new("25 correlated columns", [1.0, 10.0], &|s| {
                let common = s.standard_normal();
                let x: Vec<f64> = (0..25).map(|_| 0.95 * common + 0.3 * s.standard_normal()).collect();
                let mean = x.iter().zip(0..).map(|(x, column)| 0.1 * f64::from(column - 12) * x).sum();
                (x, mean)
            }),
        ]
    }

    #[test]
    fn linear_regressions_on_raw_scales_have_their_exact_posteriors() {
        let device = Device::flex();
        for case in cases() {
            let model = case.model();
            let exact = model.posterior(&[case.rows(0..120)]).unwrap().coefficients;
            for (algorithm, silos) in pooled_and_split([50, 120], |range| case.rows(range)) {
                let fit = fit(&model, &silos, &device, &options(algorithm), None).unwrap();
                assert_near(case.name, &fit, exact.mean(), &exact.variances(), [0.01, 0.01]);
            }
        }
    }

    /// Holds the globals of a fit to these means and variances: so many standard deviations, and that part of them.
    fn assert_near(name: &str, fit: &Fit, means: &[f64], variances: &[f64], [by_mean, by_sd]: [f64; 2]) {
        let (found, sds) = fixtures::moments(fit.posterior());
        let exactly = means.iter().zip(variances);
        for (place, ((mean, sd), (exact, variance))) in found.iter().zip(&sds).zip(exactly).enumerate() {
            let away = (mean - exact) / variance.sqrt();
            assert!(away.abs() < by_mean, "{name}, {place}: mean {mean}, exact {exact}: {away} sds");
            let ratio = sd / variance.sqrt();
            assert!((ratio - 1.0).abs() < by_sd, "{name}, {place}: sd {ratio} of the exact one");
        }
    }

    /// Holds averages over so many rows twice and visits of two silos to the exact posteriors, from this start.
    fn averages_and_factors_are_exact(
        case: &Case,
        [twin, first, all]: [usize; 3],
        [rounds, visits]: [(AlgorithmChoice, u64); 2],
        start: StartFrom,
    ) {
        // Twins stand in for each other exactly: local steps of either have the posterior of all rows as target.
        for ((algorithm, steps), silos) in [(rounds, [0..twin, 0..twin]), (visits, [0..first, first..all])] {
            let (model, silos) = (case.model(), silos.map(|own| case.rows(own)));
            let exact = model.posterior(&silos).unwrap().coefficients;
            let mut options = options(algorithm.clone());
            (options.settings.steps, options.settings.start) = (steps, start);
            let silos: Vec<_> = ["a", "b"].map(str::to_owned).into_iter().zip(silos).collect();
            let fit = fit(&model, &silos, &Device::flex(), &options, None).unwrap();
            let name = format!("{} by {algorithm:?}", case.name);
            assert_near(&name, &fit, exact.mean(), &exact.variances(), [0.05, 0.05]);
        }
    }

    #[test]
    fn averages_and_factors_on_raw_scales_have_their_exact_posteriors() {
        for case in cases() {
            let rounds = (AlgorithmChoice::SfviAvg(RoundOptions::paper(100)), 2_000);
            let visits = (AlgorithmChoice::Pvi(PviOptions::new(1_500)), 6_000);
            averages_and_factors_are_exact(&case, [60, 50, 120], [rounds, visits], StartFrom::default());
        }
    }

    #[test]
    fn an_adaptive_rate_leads_averages_and_factors_from_afar_to_exact_posteriors() {
        let mut stream = noise(31);
        let x: Vec<f64> = (0..160).map(|_| stream.standard_normal()).collect();
        let y: Vec<f64> = x.chunks(2).map(|x| 3.0 + 0.5 * x[0] - 2.0 * x[1] + stream.standard_normal()).collect();
        let case = Case { name: "from afar", columns: 2, sds: [1.0, 10.0], x, y };
        let rounds = (AlgorithmChoice::SfviAvg(RoundOptions::paper(100)), 10_000);
        let visits = (AlgorithmChoice::Pvi(PviOptions::new(2_500)), 10_000);
        averages_and_factors_are_exact(&case, [40, 30, 80], [rounds, visits], StartFrom::Declared);
    }

    #[test]
    fn a_hundred_coefficients_on_raw_scales_begin_at_their_mode_and_end_at_their_best_diagonal() {
        const COLUMNS: usize = 99;
        let (device, mut stream) = (Device::flex(), noise(41));
        // Columns of sizes from a thousandth to a thousand, and one that is not centred.
        let sizes: Vec<f64> = (0..98_u32).map(|column| 10_f64.powf(f64::from(column * 37 % 98) / 16.0 - 3.0)).collect();
        let (mut x, mut y) = (Vec::new(), Vec::new());
        for _ in 0..600 {
            let mut row: Vec<f64> = sizes.iter().map(|size| size * stream.standard_normal()).collect();
            let terms = (0..98_u32).zip(&row).zip(&sizes).map(|((at, x), size)| f64::from(at).sin() * x / size);
            let mean: f64 = terms.sum();
            row.push(10.0 + (10.0 * stream.standard_normal()).floor());
            y.push(mean + 0.1 * row[COLUMNS - 1] + stream.standard_normal());
            x.extend(row);
        }
        let case = Case { name: "a hundred coefficients", columns: COLUMNS, sds: [1.0, 1e4], x, y };
        let model = case.model();
        let exact = model.posterior(&[case.rows(0..600)]).unwrap();
        let (means, variances) = (exact.coefficients.mean(), exact.mean_field_variances());
        for (algorithm, silos) in pooled_and_split([200, 600], |range| case.rows(range)) {
            let fit = fit(&model, &silos, &device, &options(algorithm.clone()), None).unwrap();
            assert_near(&format!("{algorithm:?}"), &fit, means, &variances, [0.5, 0.1]);
        }
    }

    #[test]
    fn a_start_at_the_mode_has_the_same_bits_for_any_threads_and_after_a_checkpoint() {
        let device = Device::flex();
        let case = cases().swap_remove(0);
        let model = case.model();
        let families = [Gaussian::full_rank(), Gaussian::diagonal(), Gaussian::low_rank(1)];
        for (algorithm, silos) in pooled_and_split([50, 120], |range| case.rows(range)) {
            for family in families {
                let mut options = options(algorithm.clone());
                options.settings.family = FamilyPlan::new().global(family);
                (options.settings.steps, options.settings.particles) = (300, 2);
                let whole = fit(&model, &silos, &device, &options, None).unwrap();
                let threads = FitOptions { threads: 3, ..options.clone() };
                let threads = fit(&model, &silos, &device, &threads, None).unwrap();
                assert_eq!(whole.posterior().parameters, threads.posterior().parameters);
                let [_, resumed] = cut_and_resumed(&options, [130, 40], |options, progress| {
                    fit(&model, &silos, &device, options, progress).unwrap()
                });
                assert_eq!(whole.posterior().parameters, resumed.posterior().parameters, "{algorithm:?} {family:?}");
                assert_eq!(whole.report.rounds, resumed.report.rounds);
            }
        }
    }

    #[test]
    fn a_climb_ends_at_the_first_answer_of_a_silo_with_latents_of_rows() {
        // Of these a log density by the globals alone would be an integral.
        let (device, model) = (Device::flex(), Squares { start: 2.0 });
        let options = |start| {
            let settings = Settings { steps: 50, start, ..Settings::default() };
            FitOptions { settings, ..FitOptions::default() }
        };
        let of = |start| fit(&model, &squares(&device, 2), &device, &options(start), None).unwrap();
        let (declared, mode) = (of(StartFrom::Declared), of(StartFrom::Mode));
        assert_eq!(declared.posterior().parameters, mode.posterior().parameters);
        assert_eq!(declared.report.rounds, mode.report.rounds);
        // A coordinator that does not know its silos asks once.
        let (options, names) = (options(StartFrom::Mode), ["a".to_owned(), "b".to_owned()]);
        let mut algorithm = coordinator(&model, &names, &[2, 3], &device, &options).unwrap();
        let (_, mut exchange) = parties(&model, &squares(&device, 2), &device, &options).unwrap();
        let report = fit_parties(&model, &device, &options, &mut *algorithm, &mut exchange, None).unwrap().report;
        assert_eq!(declared.posterior().parameters, algorithm.posterior().parameters);
        assert_eq!(declared.report.rounds + 1, report.rounds);
        let fields = |algorithm: &dyn Algorithm| algorithm.manifest().fields.len();
        assert_eq!(fields(&*declared.algorithm) + 2, fields(&*algorithm));
    }

    #[test]
    fn averages_climb_before_their_first_round_and_go_on_after_a_checkpoint() {
        let device = Device::flex();
        let case = cases().swap_remove(0);
        let model = case.model();
        let split = [("a".to_owned(), case.rows(0..50)), ("b".to_owned(), case.rows(50..120))];
        let folder = tempfile::tempdir().unwrap();
        let fitted = |steps, start, resume| {
            let mut options = options(AlgorithmChoice::SfviAvg(RoundOptions::paper(20)));
            // The rate must not depend on where a run is cut.
            options.settings.schedule = Schedule::Constant { rate: 0.01 };
            (options.settings.steps, options.settings.start) = (steps, start);
            let checkpoint = (steps == 60 || resume).then(|| (folder.path().to_owned(), 20));
            let options = FitOptions { checkpoint, resume, trust_draws: Some(0), ..options };
            fit(&model, &split, &device, &options, None).unwrap()
        };
        let (whole, declared) = (fitted(100, StartFrom::Mode, false), fitted(100, StartFrom::Declared, false));
        // A gradient at the start, and some for each of the two coefficients.
        let climb = whole.record.counters.rounds - declared.record.counters.rounds;
        assert!((4..40).contains(&climb), "{climb} exchanges");
        fitted(60, StartFrom::Mode, false);
        let resumed = fitted(100, StartFrom::Mode, true);
        assert_eq!(whole.posterior().parameters, resumed.posterior().parameters);
        assert_eq!(whole.record.counters.rounds, resumed.record.counters.rounds);
    }

    /// A logistic trend over years, with what is taken off them and what they are divided by.
    #[derive(Module, Debug)]
    struct Trend {
        #[module(skip)]
        units: [f64; 2],
    }

    impl Model for Trend {
        type Globals = [Tensor<1>; 2];
        type Data = [Tensor<1>; 2];
        fn global(&self, scope: &mut Scope<'_>) -> Result<[Tensor<1>; 2]> {
            let intercept = scope.sample("intercept", Normal::new(0.0, 1e4))?;
            Ok([intercept, scope.sample("slope", Normal::new(0.0, 1e3))?])
        }
        fn local(
            &self,
            scope: &mut Scope<'_>,
            [intercept, slope]: &[Tensor<1>; 2],
            [x, y]: &[Tensor<1>; 2],
        ) -> Result<()> {
            scope.plate("row", x.dims()[0], |scope, rows| {
                let x = (rows.take(x)? - self.units[0]) / self.units[1];
                let logits = x * slope.clone() + intercept.clone();
                scope.observe("y", Bernoulli::logits(logits), rows.take(y)?)
            })
        }
    }

    #[test]
    fn a_logistic_trend_over_calendar_years_is_that_of_the_sampler_on_standardised_ones() {
        let (device, mut stream) = (Device::flex(), noise(7));
        let years: Vec<f64> = (0..300).map(|_| (1950.0 + 70.0 * stream.uniform()).floor()).collect();
        let y: Vec<f64> = years
            .iter()
            .map(|year| f64::from(u8::from(stream.uniform() < 1.0 / (1.0 + (-0.04 * (year - 1990.0)).exp()))))
            .collect();
        let rows = |range: Range<usize>| {
            let count = range.len();
            [&years, &y].map(|all| device.tensor(all[range.clone()].to_vec(), [count]))
        };
        let nuts = Nuts { draws: 4_000, ..Nuts::default() };
        let standardised = Trend { units: [1985.0, 20.0] };
        let exact = nuts.sample(&standardised, &[("all".to_owned(), rows(0..300))], &device).unwrap();
        let (mean, sd) = (exact.sites[1].mean / 20.0, exact.sites[1].sd / 20.0);
        let raw = Trend { units: [0.0, 1.0] };
        for (algorithm, silos) in pooled_and_split([120, 300], rows) {
            let report = fit(&raw, &silos, &device, &options(algorithm), None).unwrap().report;
            let slope = report.site("slope").unwrap();
            assert!((slope.mean - mean).abs() < 0.1 * sd, "{report}\nNUTS {mean} {sd}");
            assert!((slope.sd / sd - 1.0).abs() < 0.1, "{report}\nNUTS {mean} {sd}");
        }
    }

    /// Blood pressures with unknown mean and standard deviation.
    #[derive(Module, Debug)]
    struct Pressure {}

    impl Model for Pressure {
        type Globals = [Tensor<1>; 2];
        type Data = Tensor<1>;
        fn global(&self, scope: &mut Scope<'_>) -> Result<[Tensor<1>; 2]> {
            let mean = scope.sample("mean", Normal::new(120.0, 50.0))?;
            Ok([mean, scope.sample("sd", HalfNormal::new(50.0))?])
        }
        fn local(&self, scope: &mut Scope<'_>, [mean, sd]: &[Tensor<1>; 2], data: &Tensor<1>) -> Result<()> {
            scope.plate("row", data.dims()[0], |scope, rows| {
                scope.observe("y", Normal::new(mean.clone(), sd.clone()).over(rows), rows.take(data)?)
            })
        }
    }

    #[test]
    fn blood_pressures_of_unknown_mean_and_spread_are_found_from_zero() {
        let (device, mut stream) = (Device::flex(), noise(9));
        let pressures: Vec<f64> = (0..60).map(|_| 135.0 + 13.0 * stream.standard_normal()).collect();
        let rows = |range: Range<usize>| {
            let count = range.len();
            device.tensor(pressures[range].to_vec(), [count])
        };
        let nuts = Nuts { draws: 4_000, ..Nuts::default() };
        let exact = nuts.sample(&Pressure {}, &[("all".to_owned(), rows(0..60))], &device).unwrap();
        for (algorithm, silos) in pooled_and_split([20, 60], rows) {
            let report = fit(&Pressure {}, &silos, &device, &options(algorithm), None).unwrap().report;
            for (found, exact) in report.sites.iter().zip(&exact.sites) {
                assert!((found.mean - exact.mean).abs() < 0.1 * exact.sd, "{report}\n{exact:?}");
                assert!((found.sd / exact.sd - 1.0).abs() < 0.1, "{report}\n{exact:?}");
            }
        }
    }
}
