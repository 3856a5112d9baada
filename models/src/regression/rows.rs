//! Holds the rows of one silo as a regression reads them, each in its groups.

use burn::tensor::Tensor;
use partita_core::{Design, Device, Error, Groups, Result};

use super::RegressionPlan;

/// The columns whose coefficients vary with a group.
#[derive(Debug, Clone)]
pub enum EffectRows {
    /// A column of ones alone.
    Intercepts,
    /// Any columns, `[rows, K]`.
    Columns(Box<Tensor<2>>),
}

/// One grouping: patients, or the wards that hold them.
#[derive(Debug, Clone)]
pub struct Level {
    /// Its name, which is that of its plate.
    pub name: String,
    /// How many groups the silo has.
    pub groups: usize,
    /// The group of the level outside of each; `None` for the outermost level.
    pub outer: Option<Groups>,
    /// The columns of each of its effects.
    pub effects: Vec<EffectRows>,
}

/// The rows of one silo.
#[derive(Debug, Clone)]
pub struct RegressionRows {
    pub(super) fixed: Design<2>,
    pub(super) outcome: Tensor<1>,
    pub(super) offset: Option<Tensor<1>>,
    pub(super) trials: Option<Tensor<1>>,
    pub(super) status: Option<Tensor<1>>,
    pub(super) weights: Option<Tensor<1>>,
    /// The columns of each parameter of the response that they move.
    pub(super) parameters: Vec<Design<2>>,
    pub(super) silo: Vec<EffectRows>,
    pub(super) levels: Vec<Level>,
    pub(super) visits: Option<Groups>,
}

impl RegressionRows {
    /// Rows without groups.
    ///
    /// # Shapes
    /// `fixed`: `[rows, columns]`, row by row; `outcome`: `[rows]`.
    ///
    /// # Errors
    /// [`Error::Length`] and [`Error::NotFinite`] for columns that do not fit the outcomes or are no numbers.
    pub fn new(fixed: Vec<f64>, columns: usize, outcome: Vec<f64>, device: &Device) -> Result<Self> {
        let rows = outcome.len();
        Ok(Self {
            fixed: Design::new(fixed, [rows, columns])?,
            outcome: device.tensor(outcome, [rows]),
            offset: None,
            trials: None,
            status: None,
            weights: None,
            parameters: Vec::new(),
            silo: Vec::new(),
            levels: Vec::new(),
            visits: None,
        })
    }

    /// The same with a number for each row that is added to the linear predictor.
    #[must_use]
    pub fn with_offset(self, offset: Tensor<1>) -> Self {
        Self { offset: Some(offset), ..self }
    }

    /// The same with the trials behind each outcome.
    #[must_use]
    pub fn with_trials(self, trials: Tensor<1>) -> Self {
        Self { trials: Some(trials), ..self }
    }

    /// The same with 1 where the event of a row happened, and 0 where the time was censored on the right.
    #[must_use]
    pub fn with_status(self, status: Tensor<1>) -> Self {
        Self { status: Some(status), ..self }
    }

    /// The same where the log likelihood of each row counts as often as its weight says.
    #[must_use]
    pub fn with_weights(self, weights: Tensor<1>) -> Self {
        Self { weights: Some(weights), ..self }
    }

    /// The same with the columns that move the next parameter of the response, in the order of the plan.
    ///
    /// # Errors
    /// [`Error::Length`] and [`Error::NotFinite`] for columns that do not fit the outcomes or are no numbers.
    pub fn with_parameter(mut self, columns: Vec<f64>, count: usize) -> Result<Self> {
        self.parameters.push(Design::new(columns, [self.len(), count])?);
        Ok(self)
    }

    /// The same with the columns of effects of the silo itself.
    #[must_use]
    pub fn with_silo_effects(self, silo: Vec<EffectRows>) -> Self {
        Self { silo, ..self }.in_silo()
    }

    /// The same in groups, outermost level first; `visits` says in which innermost group each row is.
    #[must_use]
    pub fn in_groups(self, levels: Vec<Level>, visits: Option<Groups>) -> Self {
        Self { levels, visits, ..self }.in_silo()
    }

    /// The same with all that is outermost in the silo, if that has effects: it is a group of its own.
    fn in_silo(mut self) -> Self {
        if self.silo.is_empty() {
            return self;
        }
        match self.levels.first_mut() {
            Some(level) => level.outer = Some(Groups::one(level.groups)),
            None => self.visits = Some(Groups::one(self.len())),
        }
        self
    }

    /// The number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.fixed.shape()[0]
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Refuses rows of another plan.
    pub(super) fn check(&self, plan: &RegressionPlan) -> Result<()> {
        let brings = [self.offset.is_some(), self.trials.is_some(), self.status.is_some()];
        if let Some(found) = plan.response.unused(brings) {
            let expected = "what the family of the plan has a place for; leave it out";
            return Err(Error::argument("rows of a regression", "rows", found, expected));
        }
        let shape = |levels: &[usize], silo: usize, columns: &[usize]| [levels, &[silo], columns].concat();
        let own: Vec<usize> = self.levels.iter().map(|level| level.effects.len()).collect();
        let planned: Vec<usize> = plan.levels.iter().map(Vec::len).collect();
        let mut columns = vec![self.fixed.shape()[1] * plan.response.predictors()];
        columns.extend(self.parameters.iter().map(|own| own.shape()[1]));
        let mut coefficients = vec![plan.width()];
        coefficients.extend(plan.linear.iter().map(|own| own.coefficients.len()));
        let found = shape(&own, self.silo.len(), &columns);
        let expected = shape(&planned, plan.silo.len(), &coefficients);
        let is_grouped = !(self.silo.is_empty() && self.levels.is_empty());
        if found == expected && self.visits.is_some() == is_grouped {
            return Ok(());
        }
        Err(Error::Shape {
            operation: "rows of a regression (effects of each level, effects of the silo, columns of each predictor)"
                .into(),
            found,
            expected,
            remedy: "Make the rows of the plan's own formula; rows in groups say in which innermost group each is."
                .into(),
        })
    }
}
