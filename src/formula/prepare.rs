//! Makes the model and the rows of every silo of a formula, a family and files.

use std::path::PathBuf;

use partita_core::Device;
use partita_formula::{
    Agreement, ColumnSums, Columns, Declared, Design, Formula, Frame, MissingCells, Profile, ReadOptions,
};
use partita_inference::Effect;
use partita_models::regression::{Regression, RegressionPlan, RegressionRows};

use super::StudyError;
use super::family::{OutcomeScale, ResponseFamily};
use super::groups::Chain;
use super::priors::{INTERCEPT, PriorLine, coefficients, effects, lines, lines_of_effects, short};

/// The file of one silo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiloTable {
    /// The name of the silo.
    pub name: String,
    /// Its CSV file.
    pub path: PathBuf,
}

/// A formula with what it is fitted to.
#[derive(Debug, Clone)]
pub struct Study {
    /// The formula.
    pub formula: Formula,
    /// The family of its outcome.
    pub family: ResponseFamily,
    /// How files are read.
    pub read: ReadOptions,
    /// What happens to rows with missing cells.
    pub missing: MissingCells,
    /// What is fixed in advance.
    pub declared: Declared,
}

/// A model with the rows of all silos, ready for [`crate::fit()`].
#[derive(Debug)]
pub struct Prepared {
    /// The model.
    pub model: Regression,
    /// The rows of each silo.
    pub silos: Vec<(String, RegressionRows)>,
    /// The prior of every global number.
    pub priors: Vec<PriorLine>,
    /// The coefficients on the scale that people read, for a forest plot; without the intercept.
    pub effects: Vec<Effect>,
    /// What one should know of the files: rows that were left out.
    pub notes: Vec<String>,
}

impl Study {
    /// A formula and a family with every other choice as usual.
    ///
    /// # Errors
    /// [`StudyError::Formula`].
    pub fn new(formula: &str, family: ResponseFamily) -> Result<Self, StudyError> {
        Ok(Self {
            formula: Formula::parse(formula)?,
            family,
            read: ReadOptions::default(),
            missing: MissingCells::Refuse,
            declared: Declared::default(),
        })
    }

    /// Reads the files, lets silos agree, and makes the model with the rows of each.
    ///
    /// # Errors
    /// [`StudyError`], with the place in formula or file.
    pub fn prepare(&self, silos: &[SiloTable], device: &Device) -> Result<Prepared, StudyError> {
        let formulas = [&self.formula];
        let read = |silo: &SiloTable| {
            Ok(Frame::from_path(&silo.path, self.read.clone())?.columns(&silo.name, &formulas, self.missing)?)
        };
        let columns: Vec<Columns> = silos.iter().map(read).collect::<Result<_, StudyError>>()?;
        let notes = columns.iter().filter(|own| own.dropped() > 0);
        let notes = notes.map(|own| format!("{}: {} rows with missing cells were left out", own.silo(), own.dropped()));
        let notes = notes.collect();
        let profiles = columns.iter().map(|own| Profile::of(&formulas, own, &self.declared));
        let agreement = Agreement::merge(&profiles.collect::<Result<Vec<_>, _>>()?, &self.declared)?;
        let designs = columns.iter().map(|own| Design::of(&self.formula, own, &agreement));
        let designs: Vec<Design> = designs.collect::<Result<_, _>>()?;
        let sums = ColumnSums::merge(&designs.iter().map(Design::sums).collect::<Vec<_>>())?;
        self.refuse(&designs, &sums)?;
        let scale = self.family.scale(sums.outcome);
        let chain = Chain::of(&designs)?;
        let plan = self.plan(&designs[0], &sums, &chain, &scale);
        let rows = designs.iter().map(|design| Ok((design.silo.clone(), self.rows(design, &chain, device)?)));
        let silos = rows.collect::<Result<_, StudyError>>()?;
        let (unit, shown) = self.family.reading();
        let shown = sums.names.iter().filter(|name| *name != INTERCEPT).map(|name| Effect {
            label: name.clone(),
            name: name.clone(),
            unit: unit.into(),
            scale: shown,
        });
        let (effects, priors) = (shown.collect(), self.priors(&plan, &scale));
        Ok(Prepared { model: Regression::new(plan), silos, priors, effects, notes })
    }

    /// Refuses what no model here serves.
    fn refuse(&self, designs: &[Design], sums: &ColumnSums) -> Result<(), StudyError> {
        let unfit = |found: String, expected: &str, remedy: &str| {
            let operation = "model of a formula";
            Err(StudyError::Unfit { operation, found, expected: expected.into(), remedy: remedy.into() })
        };
        if let Some(own) = sums.collinear().first() {
            return unfit(
                own.to_string(),
                "columns of which none is given by others",
                "Take one of them out of the formula.",
            );
        }
        if designs.iter().any(|design| design.weights.is_some()) {
            return unfit("weights(...)".into(), "rows that count alike", "Give each row as often as it counts.");
        }
        Ok(())
    }

    fn plan(&self, design: &Design, sums: &ColumnSums, chain: &Chain, scale: &OutcomeScale) -> RegressionPlan {
        let of = |place: &usize| {
            let term = &design.random[*place];
            effects(&term.grouping, &term.columns, term.correlated, sums, scale)
        };
        let levels = chain.groupings.iter().map(|own| own.terms.iter().map(of).collect());
        RegressionPlan {
            response: self.family.response(scale),
            coefficients: coefficients(sums, scale),
            silo: chain.silo.iter().map(of).collect(),
            levels: levels.collect(),
        }
    }

    fn rows(&self, design: &Design, chain: &Chain, device: &Device) -> Result<RegressionRows, StudyError> {
        let outcome = self.family.outcome(design, self.formula.outcome().unwrap_or("the outcome"))?;
        let tensor = |values: &Vec<f64>| device.tensor(values.clone(), [values.len()]);
        let mut rows = RegressionRows::new(design.fixed.values.clone(), design.fixed.names.len(), outcome, device)?;
        if let Some(offset) = &design.offset {
            rows = rows.with_offset(tensor(offset));
        }
        if let Some(trials) = &design.trials {
            rows = rows.with_trials(tensor(trials));
        }
        if let Some(status) = &design.status {
            rows = rows.with_status(tensor(status));
        }
        chain.place(rows, design, device)
    }

    fn priors(&self, plan: &RegressionPlan, scale: &OutcomeScale) -> Vec<PriorLine> {
        let groups = plan.silo.iter().chain(plan.levels.iter().flatten()).flat_map(lines_of_effects);
        let line = |name: &str, prior: String| PriorLine { name: name.into(), prior };
        let sigma = || line("sigma", format!("half-student-t(3, 0, {})", short(2.5 * scale.unit)));
        let own = match self.family {
            ResponseFamily::Gaussian | ResponseFamily::LogNormal => vec![sigma()],
            ResponseFamily::Student => vec![sigma(), line("nu", "gamma(2, 0.1)".into())],
            ResponseFamily::Bernoulli | ResponseFamily::Binomial | ResponseFamily::Poisson => Vec::new(),
            ResponseFamily::BetaBinomial | ResponseFamily::Beta => vec![line("phi", "gamma(0.01, 0.01)".into())],
            ResponseFamily::NegativeBinomial | ResponseFamily::Gamma => vec![line("shape", "gamma(0.01, 0.01)".into())],
            ResponseFamily::Weibull => vec![line("shape", "lognormal(0, 1)".into())],
        };
        lines(&plan.coefficients).into_iter().chain(groups).chain(own).collect()
    }
}
