//! Declares twenty posteriors of one or two globals, easy and hard, with their data and a box that holds each.

use partita::burn::{self, module::Module, tensor::Tensor};
use partita::core::Distribution;
use partita::{
    Bernoulli, Beta, Cauchy, Exponential, Gamma, HalfNormal, Model, Normal, Poisson, Result, Scope, StudentT,
};

use crate::harness::real;

/// Posteriors of one or two globals, easy and hard, chosen before the first run; a line and the funnel were narrowed after it,
/// since the grid did not resolve them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Case {
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
pub(super) struct Hard {
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
            let index = Tensor::<1>::cat(
                (0..count).map(|row| data.clone().narrow(0, 0, 1) * 0.0 + real(row as u64)).collect(),
                0,
            );
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

impl Hard {
    pub(super) fn new(case: Case) -> Self {
        Self { case }
    }
}

/// Data, and the sides of a box of the unconstrained scale that holds the posterior.
pub(super) fn given(case: Case) -> (Vec<f64>, Vec<[f64; 2]>) {
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

/// All of them, in the order of the page.
pub(super) const CASES: [Case; 20] = [
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
