//! Compares verdicts of default fits with posteriors on a grid: a wrong answer must not be called right.
#![allow(clippy::print_stderr, reason = "the table of verdicts is printed")]

use partita::burn::{module::Module, tensor::Tensor};
use partita::core::{Distribution, Latents, LogDensity};
use partita::inference::Verdict;
use partita::{
    Bernoulli, Beta, Cauchy, Device, Exponential, FitOptions, Gamma, HalfNormal, Model, Normal, Poisson, Result, Scope,
    SiteTable, StudentT, fit,
};

/// Posteriors of one or two globals, easy and hard, chosen before the first run; a line and the funnel were narrowed after it,
/// since the grid did not resolve them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Case {
    KnownDeviation,
    UnknownDeviation,
    TwoObservations,
    Line,
    ShiftedLine,
    Ridge,
    HeavyTailedData,
    HeavyTailedPrior,
    Banana,
    StrongBanana,
    Funnel,
    Separable,
    OneSuccess,
    SmallCounts,
    OnlyZeros,
    Waiting,
    TwoModes,
    NearModes,
    ConflictWithPrior,
    ProductOfTwo,
}

#[derive(Module, Debug)]
struct Hard {
    #[module(skip)]
    case: Case,
}

/// A number of a vector.
fn at(values: &Tensor<1>, index: usize) -> Tensor<1> {
    values.clone().narrow(0, index, 1)
}

impl Model for Hard {
    type Globals = Tensor<1>;
    type Data = Tensor<1>;

    fn global(&self, scope: &mut Scope) -> Result<Tensor<1>> {
        let wide = || Normal::new(0.0, 10.0);
        let two = |scope: &mut Scope, prior: Distribution<1>| scope.sample("b", prior.iid([2]));
        match self.case {
            Case::KnownDeviation => scope.sample("m", wide()),
            Case::UnknownDeviation | Case::TwoObservations => {
                let mean = scope.sample("m", wide())?;
                let deviation = scope.sample("s", HalfNormal::new(5.0))?;
                Ok(Tensor::cat(vec![mean, deviation], 0))
            }
            Case::Line | Case::Separable | Case::Ridge => two(scope, wide()),
            Case::ShiftedLine => two(scope, Normal::new(0.0, 100.0)),
            Case::HeavyTailedData => scope.sample("m", wide()),
            Case::HeavyTailedPrior => scope.sample("m", StudentT::new(2.0, 0.0, 3.0)),
            Case::Banana | Case::StrongBanana => {
                let x = scope.sample("x", Normal::new(0.0, 1.0))?;
                let scale = if self.case == Case::Banana { 1.0 } else { 0.1 };
                scope.sample("w", Normal::new(x.powi_scalar(2), scale))
            }
            Case::Funnel => {
                let log_scale = scope.sample("v", Normal::new(0.0, 1.0))?;
                scope.sample("x", Normal::new(0.0, (log_scale / 2.0).exp()))
            }
            Case::OneSuccess => scope.sample("p", Beta::new(0.5, 0.5)),
            Case::SmallCounts | Case::OnlyZeros => scope.sample("log_rate", Normal::new(0.0, 3.0)),
            Case::Waiting => scope.sample("rate", Gamma::new(2.0, 1.0)),
            Case::TwoModes | Case::NearModes => scope.sample("m", Normal::new(0.0, 3.0).start(1.0)),
            Case::ConflictWithPrior => scope.sample("m", Normal::new(0.0, 0.1)),
            Case::ProductOfTwo => two(scope, Normal::new(0.0, 1.0)),
        }
    }

    fn local(&self, scope: &mut Scope, globals: &Tensor<1>, data: &Tensor<1>) -> Result<()> {
        scope.plate("row", data.dims()[0], |s, rows| {
            let y = rows.take(data)?;
            let count = rows.len();
            let index =
                Tensor::<1>::cat((0..count).map(|k| data.clone().narrow(0, 0, 1) * 0.0 + k as f64).collect(), 0);
            let all = |value: Tensor<1>| value.expand([count]);
            match self.case {
                Case::UnknownDeviation | Case::TwoObservations => {
                    s.observe("y", Normal::new(all(at(globals, 0)), all(at(globals, 1))), y)
                }
                Case::Line => s.observe("y", Normal::new(all(at(globals, 0)) + all(at(globals, 1)) * index, 1.0), y),
                Case::ShiftedLine => {
                    s.observe("y", Normal::new(all(at(globals, 0)) + all(at(globals, 1)) * (index + 8.0), 1.0), y)
                }
                Case::Ridge => s.observe("y", Normal::new(all(at(globals, 0)) + all(at(globals, 1)), 0.5), y),
                Case::ProductOfTwo => s.observe("y", Normal::new(all(at(globals, 0)) * all(at(globals, 1)), 0.5), y),
                Case::Separable => {
                    let logits = all(at(globals, 0)) + all(at(globals, 1)) * (index - 4.5);
                    s.observe("y", Bernoulli::logits(logits), y)
                }
                Case::HeavyTailedData => s.observe("y", Cauchy::new(all(globals.clone()), 1.0), y),
                Case::OneSuccess => {
                    let chance = all(globals.clone());
                    s.observe("y", Bernoulli::logits(chance.clone().log() - (chance.neg() + 1.0).log()), y)
                }
                Case::SmallCounts | Case::OnlyZeros => s.observe("y", Poisson::log_rate(all(globals.clone())), y),
                Case::Waiting => s.observe("y", Exponential::new(all(globals.clone())), y),
                Case::TwoModes => s.observe("y", Normal::new(all(globals.clone().powi_scalar(2)), 1.0), y),
                Case::NearModes => s.observe("y", Normal::new(all(globals.clone().powi_scalar(2)), 4.0), y),
                Case::Banana | Case::StrongBanana | Case::Funnel => {
                    s.observe("y", Normal::new(all(globals.clone()), 20.0), y)
                }
                Case::KnownDeviation | Case::HeavyTailedPrior | Case::ConflictWithPrior => {
                    s.observe("y", Normal::new(all(globals.clone()), 1.0), y)
                }
            }
        })
    }
}

/// Data, and the sides of a box of the unconstrained scale that holds the posterior.
fn given(case: Case) -> (Vec<f64>, Vec<[f64; 2]>) {
    match case {
        Case::KnownDeviation => (vec![1.0, 2.0, 1.5, 0.3], vec![[-3.0, 5.0]]),
        Case::UnknownDeviation => {
            (vec![1.0, 2.0, 1.5, 0.3, 2.2, -0.4, 1.1, 0.9, 1.8, 2.5], vec![[-1.5, 4.0], [-1.5, 2.0]])
        }
        Case::TwoObservations => (vec![0.0, 1.0], vec![[-30.0, 30.0], [-6.0, 4.0]]),
        Case::Line => (vec![0.1, 0.9, 2.2, 2.8, 4.3], vec![[-5.0, 5.0], [-1.0, 3.0]]),
        Case::ShiftedLine => (vec![2.0, 2.4, 3.1, 3.4, 4.2, 4.4], vec![[-12.0, 10.0], [-0.8, 1.8]]),
        Case::Ridge => (vec![1.0, 1.2, 0.8], vec![[-40.0, 40.0], [-40.0, 40.0]]),
        Case::HeavyTailedData => (vec![-3.0, 0.0, 4.0], vec![[-30.0, 30.0]]),
        Case::HeavyTailedPrior => (vec![9.0], vec![[-10.0, 20.0]]),
        Case::Banana => (vec![1.0], vec![[-4.5, 4.5], [-5.0, 20.0]]),
        Case::StrongBanana => (vec![1.0], vec![[-4.5, 4.5], [-1.0, 20.0]]),
        Case::Funnel => (vec![0.0], vec![[-4.0, 4.5], [-16.0, 16.0]]),
        Case::Separable => (vec![0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0], vec![[-40.0, 40.0], [-2.0, 45.0]]),
        Case::OneSuccess => (vec![1.0], vec![[-12.0, 40.0]]),
        Case::SmallCounts => (vec![2.0, 0.0, 1.0, 3.0, 1.0], vec![[-3.0, 3.0]]),
        Case::OnlyZeros => (vec![0.0; 5], vec![[-16.0, 3.0]]),
        Case::Waiting => (vec![0.7, 1.9], vec![[-5.0, 4.0]]),
        Case::TwoModes => (vec![4.2, 3.9, 4.4, 3.6], vec![[-4.0, 4.0]]),
        Case::NearModes => (vec![1.2], vec![[-5.0, 5.0]]),
        Case::ConflictWithPrior => (vec![4.0, 5.0, 6.0, 4.5, 5.5], vec![[-1.0, 2.0]]),
        Case::ProductOfTwo => (vec![2.0, 1.5, 2.5], vec![[-4.5, 4.5], [-4.5, 4.5]]),
    }
}

/// Mean and sd of every number of a site, by the trapezoid rule.
fn exact(model: &Hard, data: &Tensor<1>, sides: &[[f64; 2]], device: &Device) -> Vec<[f64; 2]> {
    let table = SiteTable::of(model, device, data).unwrap();
    let density = LogDensity::new(model, device, &table);
    let each: usize = if sides.len() == 1 { 2_000 } else { 160 };
    let count = each.pow(u32::try_from(sides.len()).unwrap());
    let locals = vec![Vec::new(); table.blocks().len()];
    let mut points = Vec::with_capacity(count);
    for index in 0..count {
        let place = |(axis, [low, high]): (usize, &[f64; 2])| {
            let own = index / each.pow(u32::try_from(axis).unwrap()) % each;
            low + (high - low) * (own as f64 + 0.5) / each as f64
        };
        let globals: Vec<f64> = sides.iter().enumerate().map(place).collect();
        let latents = Latents { globals: &globals, locals: &locals };
        let value = density.joint(latents, data).unwrap().value;
        let natural = table.natural_globals(model, device, &globals).unwrap();
        points.push((value, natural.into_iter().flat_map(|(_, array)| array.values).collect::<Vec<f64>>()));
    }
    let largest = points.iter().map(|(value, _)| *value).fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = points.iter().map(|(value, _)| (value - largest).exp()).sum();
    let mean = |of: &dyn Fn(&[f64]) -> f64| {
        points.iter().map(|(value, natural)| (value - largest).exp() / total * of(natural)).sum::<f64>()
    };
    (0..points[0].1.len())
        .map(|index| {
            let centre = mean(&|natural| natural[index]);
            [centre, mean(&|natural| (natural[index] - centre).powi(2)).sqrt()]
        })
        .collect()
}

const CASES: [Case; 20] = [
    Case::KnownDeviation,
    Case::UnknownDeviation,
    Case::TwoObservations,
    Case::Line,
    Case::ShiftedLine,
    Case::Ridge,
    Case::HeavyTailedData,
    Case::HeavyTailedPrior,
    Case::Banana,
    Case::StrongBanana,
    Case::Funnel,
    Case::Separable,
    Case::OneSuccess,
    Case::SmallCounts,
    Case::OnlyZeros,
    Case::Waiting,
    Case::TwoModes,
    Case::NearModes,
    Case::ConflictWithPrior,
    Case::ProductOfTwo,
];

#[test]
fn no_wrong_answer_is_called_right() {
    let device = Device::flex();
    let (mut comforted, mut doubted, mut right) = (Vec::new(), Vec::new(), 0);
    for case in CASES {
        let (data, sides) = given(case);
        let rows = data.len();
        let data = device.tensor(data, [rows]);
        let model = Hard { case };
        let truth = exact(&model, &data, &sides, &device);
        let silos = [("a".to_owned(), data)];
        let report = match fit(&model, &silos, &device, &FitOptions::default(), None) {
            Ok(fit) => fit.report,
            Err(error) => {
                eprintln!("{case:?}: {error}");
                continue;
            }
        };
        let off = |(found, [mean, sd]): (&&partita::inference::SiteSummary, &[f64; 2])| {
            ((found.mean - mean).abs() / sd, found.sd / sd)
        };
        let answer = report.answer();
        let offs: Vec<(f64, f64)> = answer.iter().zip(&truth).map(off).collect();
        // A mean off by a fifth of a standard deviation, or a standard deviation by a quarter.
        let is_right = offs.iter().all(|(mean, sd)| *mean <= 0.2 && (sd - 1.0).abs() <= 0.25);
        let k = report.trust.correction().map_or(f64::NAN, |own| own.pareto_k);
        let ess = report.trust.correction().map_or(f64::NAN, |own| own.effective_sample_size);
        eprintln!("{case:?}: {:?}, right {is_right}, off {offs:.3?}, k {k:.2}, {ess:.0} draws", report.verdict);
        right += usize::from(is_right);
        match (is_right, report.verdict) {
            (false, Verdict::Trust | Verdict::TrustWithLimits) => comforted.push(case),
            (true, Verdict::DoNotTrust) => doubted.push(case),
            _ => {}
        }
    }
    eprintln!("{right} of {} right, {doubted:?} doubted", CASES.len());
    assert_eq!(comforted, []);
    assert!(10 * doubted.len() <= right, "{doubted:?}");
}
