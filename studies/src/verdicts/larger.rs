//! Declares twenty posteriors of several globals, with rows of latents and silos in conflict among them.

use partita::burn::{self, module::Module, tensor::Tensor};
use partita::core::Distribution;
use partita::{Bernoulli, Gamma, HalfCauchy, HalfNormal, Model, Normal, Poisson, Result, Scope, StudentT};

/// Posteriors of several globals, over one silo or two, chosen before the first run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Case {
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

impl Case {
    /// Whether the right answer is there in seconds: a quick run leaves out those whose chains take longer.
    pub(super) const fn is_quick(self) -> bool {
        matches!(
            self,
            Self::Years
                | Self::Incomes
                | Self::RareEvents
                | Self::ThreeGroups
                | Self::CentredSchools
                | Self::SilosInConflict
                | Self::OneRowAlone
                | Self::SmallClusters
                | Self::Confounded
                | Self::ShapeAndRate
        )
    }
}

/// How effects of rows are declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// As the case says.
    Declared,
    /// All non-centred, which chains can follow.
    NonCentred,
}

#[derive(Module, Debug)]
pub(super) struct Larger {
    #[module(skip)]
    case: Case,
    #[module(skip)]
    form: Form,
}

impl Larger {
    pub(super) fn new(case: Case, form: Form) -> Self {
        Self { case, form }
    }

    /// Effects around a mean, centred unless the form says otherwise.
    fn centred(&self, mean: Tensor<1>, deviation: Tensor<1>) -> Distribution<1> {
        let law = Normal::new(mean, deviation);
        if self.form == Form::NonCentred { law.non_centred() } else { law }
    }
}

/// Columns and outcomes of rows.
#[derive(Debug, Clone)]
pub(super) struct Rows {
    pub(super) columns: Tensor<2>,
    pub(super) outcomes: Tensor<2>,
}

pub(super) struct Globals {
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

/// All of them, in the order of the page.
pub(super) const CASES: [Case; 20] = [
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
