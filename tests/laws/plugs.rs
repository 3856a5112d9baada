//! Holds every divergence, average, server rule and solver of a fit to its laws, and the laws to planted faults.

use partita::inference::{
    Averaging, Barycentre, BetaDivergence, Conjugate, Diverged, Divergence, Expectation, FDivergence, Family,
    GammaDivergence, GradientDescent, JensenShannon, KullbackLeibler, Lbfgs, LocalProblem, LocalSolver, LocalUpdate,
    LogPool, Means, NaturalGradient, NoDivergence, NormalFamily, ParameterMean, PointMass, PowerExpectation, Renyi,
    ReverseKullbackLeibler, ServerMean, ServerOptimiser, ServerRule, SiteFamily, Solved, SolverState, Start,
};
use partita::{Device, Gaussian, Plug, Schedule, Settings};
use partita_laws::{
    AveragingLaw, DivergenceLaw, LocalSolverLaw, ServerRuleLaw, SolverCheck, Violation, averaging, divergence, family,
    local_solver, server_rule,
};

#[test]
fn the_families_that_a_plan_takes_keep_the_laws() {
    let choices: [Plug<dyn SiteFamily>; 5] = [
        Gaussian::diagonal().into(),
        Gaussian::isotropic().into(),
        Gaussian::full_rank().into(),
        Gaussian::low_rank(1).into(),
        PointMass.into(),
    ];
    for choice in choices {
        family(&*choice.over(3).unwrap()).unwrap();
    }
}

#[test]
fn every_divergence_keeps_the_laws_but_the_one_that_is_zero_everywhere() {
    divergence(&KullbackLeibler).unwrap();
    divergence(&ReverseKullbackLeibler).unwrap();
    for index in [0.6, 1.0, 1.4] {
        divergence(&Renyi { alpha: index }).unwrap();
        divergence(&BetaDivergence { beta: index }).unwrap();
        divergence(&GammaDivergence { gamma: index }).unwrap();
    }
    divergence(&FDivergence::new(JensenShannon, 500)).unwrap();
    let found = divergence(&NoDivergence);
    assert!(matches!(found, Err(Violation { law: DivergenceLaw::Positive { found: 0.0 }, .. })), "{found:?}");
}

/// Kullback and Leibler's divergence with one planted mistake.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Crooked {
    Shifted,
    Negative,
    Slope,
    Moments,
    MeanParameters,
}

impl Divergence for Crooked {
    fn evaluate(&self, family: &NormalFamily, q: &[f64], p: &[f64]) -> partita::inference::Result<Diverged> {
        let Diverged { mut value, mut gradient } = KullbackLeibler.evaluate(family, q, p)?;
        match self {
            Self::Shifted => value += 1e-6,
            Self::Negative => value = -value,
            Self::Slope => gradient.mean.iter_mut().for_each(|slope| *slope *= 1.001),
            Self::Moments | Self::MeanParameters => {}
        }
        Ok(Diverged { value, gradient })
    }

    fn evaluate_at(
        &self,
        family: &NormalFamily,
        mean: &[f64],
        covariance: &partita::inference::CovarianceMatrix,
        p: &[f64],
    ) -> partita::inference::Result<Diverged> {
        let Diverged { value, gradient } = self.evaluate(family, &family.natural_of_moments(mean, covariance)?, p)?;
        Ok(Diverged { value: if *self == Self::Moments { 1.1 * value } else { value }, gradient })
    }

    fn by_mean_parameters(&self, family: &NormalFamily, q: &[f64], p: &[f64]) -> partita::inference::Result<Vec<f64>> {
        let factor = if *self == Self::MeanParameters { 1.01 } else { 1.0 };
        let found = KullbackLeibler.by_mean_parameters(family, q, p)?;
        Ok(found.into_iter().map(|slope| factor * slope).collect())
    }
}

#[test]
fn the_laws_find_a_divergence_with_a_mistake() {
    use DivergenceLaw as Law;
    let found = |mistake: Crooked| divergence(&mistake).unwrap_err().law;
    assert!(matches!(found(Crooked::Shifted), Law::Zero { what: "the value", .. }));
    assert!(matches!(found(Crooked::Negative), Law::Positive { .. }));
    assert!(matches!(found(Crooked::Slope), Law::Gradient { by: "parameter", index: 0, .. }));
    assert!(matches!(found(Crooked::Moments), Law::Moments { .. }));
    assert!(matches!(found(Crooked::MeanParameters), Law::Gradient { by: "mean parameter", index: 0, .. }));
}

#[test]
fn every_average_keeps_the_laws() {
    let averages: [&dyn Averaging; 3] = [&Barycentre, &ParameterMean, &LogPool];
    for average in averages {
        averaging(average).unwrap();
    }
}

/// An average with one planted mistake.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Lopsided {
    Sum,
    First,
    Short,
    Twice,
}

impl Averaging for Lopsided {
    fn average(&self, _: &dyn Family, members: &[Vec<f64>], _: &[f64]) -> partita::inference::Result<Vec<f64>> {
        let sums = (0..members[0].len()).map(|index| members.iter().map(|member| member[index]).sum());
        Ok(match self {
            Self::Sum => sums.collect(),
            Self::First => members[0].clone(),
            Self::Short => members[0][1..].to_vec(),
            Self::Twice => sums.map(|sum| sum / members.len() as f64).collect(),
        })
    }

    fn means(&self, _: &dyn Family, _: &[f64]) -> Option<Means> {
        let of = |_: &dyn Family, numbers: &[f64]| Ok(numbers.to_vec());
        let back = |_: &dyn Family, numbers: &[f64]| Ok(numbers.iter().map(|number| 2.0 * number).collect());
        (*self == Self::Twice).then_some(Means { of, back })
    }
}

#[test]
fn the_laws_find_an_average_with_a_mistake() {
    use AveragingLaw as Law;
    let found = |mistake: Lopsided| averaging(&mistake).unwrap_err().law;
    assert!(matches!(found(Lopsided::Sum), Law::Equal { index: 0, .. }));
    assert!(matches!(found(Lopsided::First), Law::Order { index: 0, .. }));
    assert!(matches!(found(Lopsided::Short), Law::Length { expected: 6, found: 5, .. }));
    assert!(matches!(found(Lopsided::Twice), Law::Means { index: 0, .. }));
}

/// A server rule with momentum and one planted mistake.
#[derive(Debug, Clone, Default)]
struct Careless {
    mistake: &'static str,
    momentum: Vec<f64>,
}

impl ServerRule for Careless {
    fn apply(&mut self, before: &[f64], members: &[Vec<f64>], weights: &[f64]) -> Vec<f64> {
        let mean = ServerMean { rate: 1.0 }.apply(before, members, weights);
        self.momentum.resize(before.len(), 0.0);
        let drift = if self.mistake == "drifts" { 1e-3 } else { 0.0 };
        let moves = self.momentum.iter_mut().zip(before).zip(mean);
        moves
            .map(|((momentum, from), to)| {
                *momentum = 0.5 * *momentum + (to - from);
                from + *momentum + drift
            })
            .collect()
    }

    fn save(&self) -> Vec<(String, Vec<f64>)> {
        match self.mistake {
            "forgets" => Vec::new(),
            _ if self.momentum.is_empty() => Vec::new(),
            "shortens" => vec![("momentum".into(), vec![1.0])],
            _ => vec![("momentum".into(), self.momentum.clone())],
        }
    }

    fn load(&mut self, state: Vec<(String, Vec<f64>)>) -> bool {
        match (self.mistake, <[_; 1]>::try_from(state)) {
            ("refuses", _) => false,
            (_, Err(state)) => state.is_empty(),
            (mistake, Ok([(name, momentum)])) if name == "momentum" || mistake == "takes all" => {
                self.momentum = momentum;
                true
            }
            _ => false,
        }
    }
}

#[test]
fn the_laws_find_a_server_rule_with_a_mistake() {
    use ServerRuleLaw as Law;
    let found = |mistake: &'static str| {
        server_rule(mistake, || Box::new(Careless { mistake, momentum: Vec::new() })).unwrap_err().law
    };
    assert!(matches!(found("drifts"), Law::Rest { index: 0, .. }));
    assert!(matches!(found("forgets"), Law::Resumed { .. }));
    assert!(matches!(found("shortens"), Law::Length { found: 1, expected: 3, .. }));
    assert!(matches!(found("refuses"), Law::Refused { rounds: 0, .. }));
    assert!(matches!(found("takes all"), Law::Accepted));
    server_rule("mean", || ServerMean { rate: 0.5 }.start()).unwrap();
}

/// Visits of so many steps that end this near to the exact solution.
fn held(solver: &dyn LocalSolver, steps: u64, bound: f64) -> Result<(), Violation<LocalSolverLaw>> {
    let schedule = Schedule::Cosine { initial: 0.05, last: 0.0 };
    let check = SolverCheck { steps, bound, settings: Settings { schedule, ..Settings::default() } };
    local_solver(solver, &check, &Device::flex())
}

#[test]
fn every_local_solver_keeps_the_laws() {
    let expectation = Expectation::GaussHermite { points: 20 };
    held(&Conjugate, 1, 1e-9).unwrap();
    held(&NaturalGradient { rate: 0.5, expectation }, 200, 1e-9).unwrap();
    held(&Lbfgs::new(expectation), 200, 1e-5).unwrap();
    held(&PowerExpectation::new(0.5), 100, 1e-9).unwrap();
    // Adam from sampled gradients that vanish at the solution; the optimiser and the last solution are its state.
    for start in [Start::Received, Start::Previous, Start::Plan] {
        let descent = GradientDescent { start, keep_optimiser: true, ..GradientDescent::default() };
        held(&descent, 4_000, 0.1).unwrap();
    }
}

/// A solver that answers cavity times likelihood, with one planted mistake.
#[derive(Debug, Clone)]
struct Sloppy {
    mistake: &'static str,
    visits: u64,
}

impl LocalSolver for Sloppy {
    fn start(&self, _: &Settings, _: &Device) -> Box<dyn SolverState> {
        Box::new(self.clone())
    }
}

impl SolverState for Sloppy {
    fn solve(&mut self, problem: &mut dyn LocalProblem, visit: &LocalUpdate) -> partita::inference::Result<Solved> {
        let mut conjugate = Conjugate.start(&Settings::default(), &Device::flex());
        let mut solved = conjugate.solve(problem, visit)?;
        self.visits += 1;
        match self.mistake {
            "misses" => solved.natural[1] += 1e-3,
            "forgets" => solved.natural[0] += if self.visits > 1 { 1e-12 } else { 0.0 },
            _ => {}
        }
        Ok(solved)
    }

    fn load(&mut self, state: Vec<(String, Vec<f64>)>) -> bool {
        match self.mistake {
            "refuses" => false,
            "takes all" => true,
            _ => state.is_empty(),
        }
    }
}

#[test]
fn the_laws_find_a_local_solver_with_a_mistake() {
    use LocalSolverLaw as Law;
    held(&Sloppy { mistake: "none", visits: 0 }, 1, 1e-9).unwrap();
    let found = |mistake| held(&Sloppy { mistake, visits: 0 }, 1, 1e-9).unwrap_err().law;
    assert!(matches!(found("misses"), Law::Solution { index: 1, .. }));
    assert!(matches!(found("forgets"), Law::Resumed { index: 0, .. }));
    assert!(matches!(found("refuses"), Law::Refused));
    assert!(matches!(found("takes all"), Law::Accepted));
}
