//! Compares verdicts of fits of larger models with long chains: a wrong answer must not be called right.
#![allow(clippy::print_stderr, reason = "the table of verdicts is printed")]

use fixtures::{six_cities_data, six_cities_model};
use partita::burn::{module::Module, tensor::Tensor};
use partita::core::{Distribution, Key, Noise, NoiseStream, Purpose};
use partita::inference::{AlgorithmChoice, FedOptOptions, PviOptions, RoundOptions, SiteSummary, Verdict};
use partita::{
    Bernoulli, Device, FamilyPlan, FitOptions, Gamma, Gaussian, HalfCauchy, HalfNormal, Model, Normal, Nuts, Poisson,
    Result, Schedule, Scope, Settings, StudentT, fit,
};

/// Posteriors of several globals, over one silo or two, chosen before the first run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Case {
    /// Lines on calendar years and on incomes, as they are.
    Years,
    Incomes,
    /// Columns that are nearly the same, and twenty that share most of what they are.
    Collinear,
    TwentyCorrelated,
    /// Two events in two hundred rows; no overlap of successes and failures along four columns.
    RareEvents,
    SeparableFour,
    /// Counts with an effect of each row, of unknown deviation.
    CountsWithEffects,
    /// Few groups, centred and not; eight of them with known errors.
    ThreeGroups,
    ThreeGroupsCentred,
    CentredSchools,
    /// Neal's funnel with nine rows that hardly say anything.
    FunnelOfRows,
    /// Two silos that disagree; one silo of a single row.
    SilosInConflict,
    OneRowAlone,
    /// Ten clusters of two binary outcomes.
    SmallClusters,
    /// Residuals of unknown tail with three outliers.
    Outliers,
    /// Two deviations of which only the sum of squares is known.
    Confounded,
    /// A shape and a rate.
    ShapeAndRate,
    /// Twenty neighbours that hardly differ from each other.
    RandomWalk,
    /// Coefficients of which most are nearly zero.
    Horseshoe,
    /// Rows of four latents, which few rounds do not integrate.
    FourEffects,
}

/// How effects of rows are declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// As the case says.
    Declared,
    /// All non-centred, which chains can follow.
    NonCentred,
}

#[derive(Module, Debug)]
struct Larger {
    #[module(skip)]
    case: Case,
    #[module(skip)]
    form: Form,
}

impl Larger {
    /// Effects around a mean, centred unless the form says otherwise.
    fn centred(&self, mean: Tensor<1>, deviation: Tensor<1>) -> Distribution<1> {
        let law = Normal::new(mean, deviation);
        if self.form == Form::NonCentred { law.non_centred() } else { law }
    }
}

/// Columns and outcomes of rows.
#[derive(Debug, Clone)]
struct Rows {
    columns: Tensor<2>,
    outcomes: Tensor<2>,
}

struct Globals {
    beta: Tensor<1>,
    scale: Tensor<1>,
    other: Tensor<1>,
}

impl Model for Larger {
    type Globals = Globals;
    type Data = Rows;

    fn global(&self, scope: &mut Scope) -> Result<Globals> {
        let nothing = scope.device().tensor(vec![0.0], [1]);
        let mut beta = |deviation: f64, count: usize| scope.sample("beta", Normal::new(0.0, deviation).iid([count]));
        let beta = match self.case {
            Case::Years => beta(2_000.0, 2)?,
            Case::Incomes => beta(100.0, 2)?,
            Case::Collinear => beta(10.0, 3)?,
            Case::TwentyCorrelated => beta(1.0, 20)?,
            Case::RareEvents => beta(10.0, 2)?,
            Case::SeparableFour | Case::FourEffects => beta(10.0, 4)?,
            Case::RandomWalk => beta(1.0, 20)?,
            Case::Horseshoe => beta(1.0, 5)?,
            Case::FunnelOfRows => beta(3.0, 1)?,
            _ => beta(10.0, 1)?,
        };
        let scale = match self.case {
            Case::Years | Case::TwentyCorrelated | Case::Outliers => scope.sample("s", HalfNormal::new(5.0))?,
            Case::Incomes => scope.sample("s", HalfNormal::new(10.0))?,
            Case::CountsWithEffects | Case::SmallClusters | Case::Confounded => {
                scope.sample("s", HalfNormal::new(2.0))?
            }
            Case::ThreeGroups | Case::ThreeGroupsCentred => scope.sample("s", HalfNormal::new(10.0))?,
            Case::CentredSchools => scope.sample("s", HalfCauchy::new(5.0))?,
            Case::FourEffects => scope.sample("s", HalfNormal::new(1.0))?,
            Case::ShapeAndRate => scope.sample("s", Gamma::new(2.0, 0.5))?,
            Case::Horseshoe => scope.sample("s", HalfCauchy::new(0.2))?,
            _ => nothing.clone(),
        };
        let other = match self.case {
            Case::Outliers => scope.sample("nu", Gamma::new(2.0, 0.1))?,
            Case::Confounded => scope.sample("r", HalfNormal::new(2.0))?,
            Case::ShapeAndRate => scope.sample("rate", Gamma::new(2.0, 0.5))?,
            Case::Horseshoe => scope.sample("lambda", HalfCauchy::new(1.0).iid([5]))?,
            _ => nothing,
        };
        if self.case == Case::RandomWalk {
            let steps = beta.clone().narrow(0, 1, 19) - beta.clone().narrow(0, 0, 19);
            scope.factor("steps", steps.powi_scalar(2).sum() * -50.0)?;
        }
        Ok(Globals { beta, scale, other })
    }

    fn local(&self, scope: &mut Scope, globals: &Globals, data: &Rows) -> Result<()> {
        let [all, of_each] = data.outcomes.dims();
        scope.plate("row", all, |s, rows| {
            let (columns, y) = (rows.take(&data.columns)?, rows.take(&data.outcomes)?);
            let shape = [rows.len(), of_each];
            let wide = |value: Tensor<1>| value.reshape([1, 1]).expand(shape);
            let by_row = |value: Tensor<1>| value.reshape([rows.len(), 1]).expand(shape);
            let (beta, scale) = (globals.beta.clone(), globals.scale.clone());
            let predictor = |beta: Tensor<1>| {
                let count = beta.dims()[0];
                columns.clone().narrow(1, 0, count).matmul(beta.reshape([count, 1])).expand(shape)
            };
            match self.case {
                Case::Years | Case::Incomes | Case::TwentyCorrelated => {
                    s.observe("y", Normal::new(predictor(beta), wide(scale)), y)
                }
                Case::Collinear => s.observe("y", Normal::new(predictor(beta), 1.0), y),
                Case::RareEvents | Case::SeparableFour => s.observe("y", Bernoulli::logits(predictor(beta)), y),
                Case::CountsWithEffects => {
                    let effect = s.sample("b", Normal::new(0.0, scale).non_centred())?;
                    s.observe("y", Poisson::log_rate(wide(beta) + by_row(effect)), y)
                }
                Case::ThreeGroups => {
                    let effect = s.sample("b", Normal::new(beta, scale).non_centred())?;
                    s.observe("y", Normal::new(by_row(effect), 1.0), y)
                }
                Case::ThreeGroupsCentred => {
                    let effect = s.sample("b", self.centred(beta, scale))?;
                    s.observe("y", Normal::new(by_row(effect), 1.0), y)
                }
                Case::CentredSchools => {
                    let effect = s.sample("b", self.centred(beta, scale))?;
                    s.observe("y", Normal::new(by_row(effect), columns.narrow(1, 0, 1)), y)
                }
                Case::FunnelOfRows => {
                    let effect = s.sample("b", Normal::new(0.0, (beta / 2.0).exp()).non_centred())?;
                    s.observe("y", Normal::new(by_row(effect), 10.0), y)
                }
                Case::SilosInConflict | Case::OneRowAlone => s.observe("y", Normal::new(wide(beta), 1.0), y),
                Case::SmallClusters => {
                    let effect = s.sample("b", Normal::new(0.0, scale).non_centred())?;
                    s.observe("y", Bernoulli::logits(wide(beta) + by_row(effect)), y)
                }
                Case::Outliers => {
                    s.observe("y", StudentT::new(wide(globals.other.clone()), wide(beta), wide(scale)), y)
                }
                Case::Confounded => {
                    let effect = s.sample("b", self.centred(beta, scale))?;
                    s.observe("y", Normal::new(by_row(effect), wide(globals.other.clone())), y)
                }
                Case::ShapeAndRate => s.observe("y", Gamma::new(wide(scale), wide(globals.other.clone())), y),
                Case::RandomWalk => {
                    let level = columns.matmul(beta.reshape([20, 1])).expand(shape);
                    s.observe("y", Normal::new(level, 0.5), y)
                }
                Case::Horseshoe => {
                    let shrunk = beta * globals.other.clone() * scale.expand([5]);
                    s.observe("y", Normal::new(predictor(shrunk), 1.0), y)
                }
                Case::FourEffects => {
                    let effects = s.sample("b", Normal::new(0.0, scale.reshape([1, 1]).expand(shape)).non_centred())?;
                    let mean = effects + beta.reshape([1, 4]).expand([rows.len(), 4]);
                    s.observe("y", Normal::new(mean, 0.5), y)
                }
            }
        })
    }
}

fn noise(case: Case) -> NoiseStream {
    Noise::new(11).stream(Key::new(Purpose::Prior, case as u64))
}

/// Rows of columns and outcomes, in silos.
fn given(case: Case, device: &Device) -> Vec<(String, Rows)> {
    let mut stream = noise(case);
    let mut normal = |count: usize| {
        let mut numbers = vec![0.0; count];
        stream.normal(&mut numbers);
        numbers
    };
    let rows = |columns: Vec<f64>, outcomes: Vec<f64>, count: usize| Rows {
        columns: device.tensor(columns.clone(), [count, columns.len() / count]),
        outcomes: device.tensor(outcomes.clone(), [count, outcomes.len() / count]),
    };
    let one = |rows: Rows| vec![("a".to_owned(), rows)];
    let two = |first: Rows, second: Rows| vec![("a".to_owned(), first), ("b".to_owned(), second)];
    let plain = |outcomes: Vec<f64>, count: usize| rows(vec![1.0; count], outcomes, count);
    let line = |x: &[f64], y: Vec<f64>| rows(x.iter().flat_map(|x| [1.0, *x]).collect(), y, x.len());
    match case {
        Case::Years => {
            let (x, errors) = ((0..30).map(|year| 1_990.0 + f64::from(year)).collect::<Vec<_>>(), normal(30));
            let y = x.iter().zip(&errors).map(|(x, error)| 0.3 * (x - 2_000.0) + 20.0 + 1.5 * error).collect();
            one(line(&x, y))
        }
        Case::Incomes => {
            let (x, errors): (Vec<f64>, _) =
                (normal(40).iter().map(|z| 50_000.0 * (0.4 * z).exp()).collect(), normal(40));
            let y = x.iter().zip(&errors).map(|(x, error)| 3.0 + x * 1e-4 + 2.0 * error).collect();
            one(line(&x, y))
        }
        Case::Collinear => {
            let (x, off, errors) = (normal(50), normal(50), normal(50));
            let columns = x.iter().zip(&off).flat_map(|(x, off)| [1.0, *x, x + 0.02 * off]).collect();
            one(rows(columns, x.iter().zip(&errors).map(|(x, error)| x + error).collect(), 50))
        }
        Case::TwentyCorrelated => {
            let (shared, own, errors) = (normal(120), normal(2_400), normal(120));
            let columns = (0..2_400).map(|at| shared[at / 20] + 0.3 * own[at]).collect();
            one(rows(columns, shared.iter().zip(&errors).map(|(x, error)| x + 2.0 * error).collect(), 120))
        }
        Case::RareEvents => {
            let x = normal(200);
            let y = (0..200).map(|row| f64::from(row == 3 || row == 77)).collect();
            one(line(&x, y))
        }
        Case::SeparableFour => {
            let columns = normal(240);
            let y = columns.chunks(4).map(|x| f64::from(x[0] + x[1] > 0.0)).collect();
            one(rows(columns, y, 60))
        }
        Case::CountsWithEffects => {
            let y = normal(40).iter().map(|z| (0.5 + 0.8 * z).exp().floor()).collect();
            one(plain(y, 40))
        }
        Case::ThreeGroups | Case::ThreeGroupsCentred => {
            let errors = normal(15);
            one(plain((0..15).map(|at| [1.0, 4.0, -2.0][at / 5] + errors[at]).collect(), 3))
        }
        Case::CentredSchools => {
            let errors = vec![15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0];
            one(rows(errors, vec![28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0], 8))
        }
        Case::FunnelOfRows => one(plain(normal(9), 9)),
        Case::SilosInConflict => {
            let far = normal(20).iter().map(|z| 10.0 + z).collect();
            two(plain(normal(20), 20), plain(far, 20))
        }
        Case::OneRowAlone => two(plain(normal(50), 50), plain(vec![2.5], 1)),
        Case::SmallClusters => {
            let effects = normal(10);
            let y = (0..20).map(|at| f64::from(1.5 * effects[at / 2] + [0.4, -0.4][at % 2] > 0.0)).collect();
            one(plain(y, 10))
        }
        Case::Outliers => {
            let mut y = normal(40);
            (y[3], y[17], y[31]) = (9.0, -12.0, 15.0);
            one(plain(y, 40))
        }
        Case::Confounded => one(plain(normal(30).iter().map(|z| 1.5 * z).collect(), 30)),
        Case::ShapeAndRate => one(plain(normal(20).iter().map(|z| (0.6 * z).exp()).collect(), 20)),
        Case::RandomWalk => {
            let errors = normal(20);
            let identity = (0..400).map(|at| f64::from(at / 20 == at % 20)).collect();
            one(rows(identity, (0..20).map(|t| f64::from(t) * 0.05 + 0.5 * errors[t as usize]).collect(), 20))
        }
        Case::Horseshoe => {
            let (columns, errors) = (normal(150), normal(30));
            let y = columns.chunks(5).zip(&errors).map(|(x, error)| 2.0 * x[0] + error).collect();
            one(rows(columns, y, 30))
        }
        Case::FourEffects => {
            let errors = normal(100);
            let y = (0..100).map(|at| [1.0, -1.0, 0.5, 0.0][at % 4] + errors[at]).collect();
            one(plain(y, 25))
        }
    }
}

const CASES: [Case; 20] = [
    Case::Years,
    Case::Incomes,
    Case::Collinear,
    Case::TwentyCorrelated,
    Case::RareEvents,
    Case::SeparableFour,
    Case::CountsWithEffects,
    Case::ThreeGroups,
    Case::ThreeGroupsCentred,
    Case::CentredSchools,
    Case::FunnelOfRows,
    Case::SilosInConflict,
    Case::OneRowAlone,
    Case::SmallClusters,
    Case::Outliers,
    Case::Confounded,
    Case::ShapeAndRate,
    Case::RandomWalk,
    Case::Horseshoe,
    Case::FourEffects,
];

/// The mean and the standard deviation of one number.
#[derive(Debug, Clone, Copy)]
struct Moments {
    mean: f64,
    sd: f64,
}

impl Moments {
    fn of(sites: &[SiteSummary]) -> Vec<Self> {
        sites.iter().map(|own| Self { mean: own.mean, sd: own.sd }).collect()
    }
}

/// Exact moments by sums over a grid of log deviations, where outcomes are normal around `beta` given two of them, and
/// chains are slow: their tails are long.
fn exact(case: Case, rows: &Rows) -> Option<Vec<Moments>> {
    let numbers = |tensor: &Tensor<2>| tensor.clone().into_data().iter::<f64>().collect::<Vec<f64>>();
    let (y, columns) = (numbers(&rows.outcomes), numbers(&rows.columns));
    let half_normal = |x: f64| -x * x / 8.0;
    let half_cauchy = |x: f64| -(x / 5.0).mul_add(x / 5.0, 1.0).ln();
    let count = 1_200;
    // From e⁻¹² to e¹², with the Jacobian of the logarithm.
    let log = |at: usize| -12.0 + 24.0 * f64::from(u32::try_from(at).unwrap()) / f64::from(count);
    let (log_prior, others): (&dyn Fn(f64) -> f64, usize) = match case {
        Case::CentredSchools => (&half_cauchy, 0),
        Case::Confounded => (&half_normal, 1_200),
        _ => return None,
    };
    let (mut total, mut sums) = (0.0, [[0.0; 2]; 3]);
    for (at, other) in (0..=1_200).flat_map(|at| (0..=others).map(move |other| (at, other))) {
        let (s, r) = (log(at).exp(), if others > 0 { log(other).exp() } else { 0.0 });
        let variance = |row: usize| if others > 0 { s * s + r * r } else { s * s + columns[row] * columns[row] };
        let precision = 0.01 + (0..y.len()).map(|row| 1.0 / variance(row)).sum::<f64>();
        let mean = (0..y.len()).map(|row| y[row] / variance(row)).sum::<f64>() / precision;
        let square: f64 = (0..y.len()).map(|row| y[row] * y[row] / variance(row) + variance(row).ln()).sum();
        let prior = log(at) + log_prior(s) + if others > 0 { log(other) + log_prior(r) } else { 0.0 };
        let weight = (prior - 0.5 * (square - precision * mean * mean + precision.ln()) + 60.0).exp();
        total += weight;
        for (sum, [one, two]) in sums.iter_mut().zip([[mean, mean * mean + 1.0 / precision], [s, s * s], [r, r * r]]) {
            sum[0] += weight * one;
            sum[1] += weight * two;
        }
    }
    let moments =
        |[one, two]: [f64; 2]| Moments { mean: one / total, sd: (two / total - (one / total).powi(2)).sqrt() };
    Some(sums.into_iter().map(moments).take(if others > 0 { 3 } else { 2 }).collect())
}

/// What a fit says beside what is right.
#[derive(Debug, Default)]
struct Tally {
    right: usize,
    comforted: Vec<String>,
    doubted: Vec<String>,
}

impl Tally {
    /// A mean off by a fifth of a standard deviation is wrong, and so is a standard deviation by a quarter.
    fn count(&mut self, name: &str, verdict: Verdict, answer: &[&SiteSummary], truth: &[Moments]) {
        let off = |(found, exact): (&&SiteSummary, &Moments)| {
            ((found.mean - exact.mean).abs() / exact.sd, found.sd / exact.sd)
        };
        let offs: Vec<(f64, f64)> = answer.iter().zip(truth).map(off).collect();
        let is_right = !offs.is_empty() && offs.iter().all(|(mean, sd)| *mean <= 0.2 && (sd - 1.0).abs() <= 0.25);
        let worst = offs.iter().fold((0.0_f64, 1.0_f64), |worst, own| {
            let sd = if (own.1 - 1.0).abs() > (worst.1 - 1.0).abs() { own.1 } else { worst.1 };
            (worst.0.max(own.0), sd)
        });
        eprintln!("{name}: {verdict:?}, right {is_right}, worst {worst:.3?}");
        self.right += usize::from(is_right);
        match (is_right, verdict) {
            (false, Verdict::Trust | Verdict::TrustWithLimits) => self.comforted.push(name.to_owned()),
            (true, Verdict::DoNotTrust) => self.doubted.push(name.to_owned()),
            _ => {}
        }
    }
}

fn chains() -> Nuts {
    Nuts { warmup: 600, draws: 1_500, chains: 4, threads: 2, target_accept: 0.95, ..Nuts::default() }
}

#[test]
fn no_wrong_answer_of_a_larger_model_is_called_right() {
    let (device, mut tally) = (Device::flex(), Tally::default());
    for case in CASES {
        let (model, silos) = (Larger { case, form: Form::Declared }, given(case, &device));
        let truth = exact(case, &silos[0].1).unwrap_or_else(|| {
            let reference = chains().sample(&Larger { case, form: Form::NonCentred }, &silos, &device).unwrap();
            eprintln!("chains: {:?}", reference.verdict);
            Moments::of(&reference.sites)
        });
        let found = fit(&model, &silos, &device, &FitOptions { threads: 2, ..FitOptions::default() }, None);
        match found {
            Ok(found) => {
                let k = found.report.trust.correction().map_or(f64::NAN, |own| own.pareto_k);
                eprintln!("k {k:.2}");
                tally.count(&format!("{case:?}"), found.report.verdict, &found.report.answer(), &truth);
            }
            Err(error) => eprintln!("{case:?}: {error}"),
        }
    }
    eprintln!("{} of {} right", tally.right, CASES.len());
    assert!(tally.comforted.is_empty(), "{tally:?}");
    assert!(tally.right >= 18 && 10 * tally.doubted.len() <= tally.right, "{tally:?}");
}

#[test]
fn no_wrong_answer_of_other_methods_on_six_cities_is_called_right() {
    let device = Device::flex();
    let silos: Vec<_> = ["a", "b"].map(String::from).into_iter().zip(six_cities_data(2, &device)).collect();
    let model = six_cities_model();
    let reference = Moments::of(&chains().sample(&model, &silos, &device).unwrap().sites);
    let settings = |steps, schedule, family| Settings { steps, schedule, family, ..Settings::default() };
    let (full, diagonal) = (FamilyPlan::new(), FamilyPlan::new().global(Gaussian::diagonal()));
    let rounds = RoundOptions::paper(100);
    let cases = [
        ("too few steps", AlgorithmChoice::Sfvi, settings(60, Schedule::cosine(), full.clone())),
        ("a rate too high", AlgorithmChoice::Sfvi, settings(600, Schedule::Constant { rate: 0.5 }, full.clone())),
        ("a diagonal family", AlgorithmChoice::Sfvi, settings(4_000, Schedule::cosine(), diagonal)),
        ("averages", AlgorithmChoice::SfviAvg(rounds), settings(3_000, Schedule::cosine(), full.clone())),
        ("partitioned", AlgorithmChoice::Pvi(PviOptions::new(200)), settings(3_000, Schedule::cosine(), full)),
    ];
    let mut tally = Tally::default();
    for (name, algorithm, settings) in cases {
        let options = FitOptions { algorithm, settings, threads: 2, ..FitOptions::default() };
        match fit(&model, &silos, &device, &options, None) {
            Ok(found) => tally.count(name, found.report.verdict, &found.report.answer(), &reference),
            Err(error) => eprintln!("{name}: {error}"),
        }
    }
    assert!(tally.comforted.is_empty(), "{tally:?}");
}

#[test]
fn a_point_is_not_called_a_posterior() {
    let device = Device::flex();
    let (model, silos) = (Larger { case: Case::Collinear, form: Form::Declared }, given(Case::Collinear, &device));
    let algorithm = AlgorithmChoice::FedOpt(FedOptOptions::fed_avg(10));
    let settings = Settings { steps: 2_000, ..Settings::default() };
    let options = FitOptions { algorithm, settings, ..FitOptions::default() };
    let report = fit(&model, &silos, &device, &options, None).unwrap().report;
    println!("{report}");
    assert_eq!(report.verdict, Verdict::DoNotTrust, "{report}");
    assert!(report.to_string().contains("has no uncertainty"), "{report}");
}
