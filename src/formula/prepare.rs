//! Makes the model and the rows of every silo of a formula, a family and files.

use std::collections::BTreeMap;
use std::path::PathBuf;

use partita_core::Device;
use partita_formula::{
    Agreement, ColumnKind, Columns, Declared, Design, Formula, Frame, GroupScope, MissingCells, Profile, RandomDesign,
    ReadOptions, nearest,
};
use partita_inference::{Effect, PredictiveCheck, PriorLine, Scale, SiteSummary};
use partita_models::regression::{AcrossEffects, EffectLatents, Regression, RegressionPlan, RegressionRows};

use super::StudyError;
use super::family::ResponseFamily;
use super::groups::{Chain, Crossing};
use super::names::OUTCOME;
use super::predictors::{Predictors, with_parameters};
use super::priors::{INTERCEPT, effects, lines, parameters};
use super::stand_in::DeclaredColumn;
use super::stated_prior::{self, StatedPrior};
use super::summary::{DesignSummary, RandomSummary};

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
    /// The formula, as the family reads it.
    pub formula: Formula,
    /// Formulas of other parameters of the family, such as `sigma ~ age`.
    pub parameters: Vec<Formula>,
    /// The family of its outcome.
    pub family: ResponseFamily,
    /// How files are read.
    pub read: ReadOptions,
    /// What happens to rows with missing cells.
    pub missing: MissingCells,
    /// What is fixed in advance.
    pub declared: Declared,
    /// Priors in place of the usual ones, by the name of a number or of a class: `b`, `sd`, `cor`.
    pub priors: BTreeMap<String, StatedPrior>,
    /// Columns that every file has to have, with their units: `age`, `years`.
    pub units: BTreeMap<String, String>,
    /// What is declared of columns where silos are to say nothing of their rows: the model then follows from it alone.
    pub stand_in: Option<BTreeMap<String, DeclaredColumn>>,
}

/// A model that is the same at all parties.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The model.
    pub model: Regression,
    /// The prior of every global number.
    pub priors: Vec<PriorLine>,
    /// The coefficients on the scale that people read, for a forest plot; without the intercept.
    pub effects: Vec<Effect>,
    pub(super) chain: Chain,
    /// The levels of an outcome of levels, in their order; none of numbers.
    pub(super) levels: Vec<String>,
}

impl Plan {
    /// The coefficients of an answer on the scale that people read, as odds ratios; no text where that is their own.
    #[must_use]
    pub fn readings(&self, answer: &[&SiteSummary]) -> String {
        readings(&self.effects, answer)
    }
}

/// The effects of an answer that are read as ratios; no text without any.
pub(crate) fn readings(effects: &[Effect], answer: &[&SiteSummary]) -> String {
    let mut text = String::new();
    let shown = || effects.iter().filter(|effect| effect.scale == Scale::Exponential);
    let names = shown().flat_map(|own| [own.name.chars().count(), own.unit.chars().count()]);
    let width = names.max().unwrap_or_default().max(16);
    for effect in shown() {
        if text.is_empty() {
            text = format!("\n{:<width$} {:>9} {:>9} {:>9}\n", effect.unit, "median", "2.5 %", "97.5 %");
        }
        if let Some(own) = answer.iter().find(|own| own.label == effect.label) {
            let [middle, low, high] = own.interval_on(Scale::Exponential);
            text += &format!("{:<width$} {middle:>9} {low:>9} {high:>9}\n", effect.name);
        }
    }
    text
}

/// A model with the rows of all silos, ready for [`crate::fit()`].
#[derive(Debug)]
pub struct Prepared {
    /// The model.
    pub plan: Plan,
    /// The rows of each silo.
    pub silos: Vec<(String, RegressionRows)>,
    /// What one should know of the files: rows that were left out.
    pub notes: Vec<String>,
    /// What silos agreed on.
    pub agreement: Agreement,
    /// The study.
    pub(super) study: Study,
    /// The files of the silos.
    pub(super) tables: Vec<SiloTable>,
    /// For each silo where its rows stand.
    pub(super) places: Vec<RowPlaces>,
}

/// Where the rows of a file stand: in the file, and in groups.
#[derive(Debug, Clone)]
pub(crate) struct RowPlaces {
    /// The place of each row in the file, the first of which is 1.
    pub(super) numbers: Vec<usize>,
    /// The groups of the rows in each random term.
    pub(super) groups: Vec<RowGroups>,
}

impl RowPlaces {
    pub(crate) fn of(design: Design) -> Self {
        Self { numbers: design.numbers, groups: design.random.into_iter().map(RowGroups::of).collect() }
    }
}

/// The groups of the rows of a silo in one random term.
#[derive(Debug, Clone)]
pub(crate) struct RowGroups {
    pub(super) scope: GroupScope,
    pub(super) levels: Vec<String>,
    /// How many of the levels silos agreed on.
    pub(super) agreed: usize,
    pub(super) group: Vec<usize>,
}

impl RowGroups {
    fn of(term: RandomDesign) -> Self {
        Self { scope: term.scope, levels: term.levels, agreed: term.agreed, group: term.group }
    }
}

/// How much rows have to say of an effect of one unit, in outcomes of that standard deviation, for effects to be known
/// better than from the standard deviation of all: from there on Pareto's k is the smaller of the two.
const KNOWN: f64 = 5.0;

impl Study {
    /// A formula and a family with every other choice as usual.
    ///
    /// # Errors
    /// [`StudyError::Formula`].
    pub fn new(formula: &str, family: ResponseFamily) -> Result<Self, StudyError> {
        Ok(Self {
            formula: family.reads(Formula::parse(formula)?),
            parameters: Vec::new(),
            family,
            read: ReadOptions::default(),
            missing: MissingCells::Refuse,
            declared: Declared::default(),
            priors: BTreeMap::new(),
            units: BTreeMap::new(),
            stand_in: None,
        })
    }

    /// The same with the formula of a parameter of the family, `sigma ~ age`, in which the logarithm of the parameter is
    /// linear, or the log odds of `zi` and `hu`.
    ///
    /// # Errors
    /// [`StudyError::Formula`].
    pub fn with_parameter(mut self, formula: &str) -> Result<Self, StudyError> {
        self.parameters.push(Formula::parse_parameter(formula)?);
        Ok(self)
    }

    /// The same checks, where those of the outcome by its own name are of `y`, as the model calls it.
    ///
    /// # Errors
    /// [`StudyError::Unfit`] for checks of times of which some are censored: when the others would have been is not known; and
    /// for checks of anything but the outcome.
    pub(crate) fn checks(&self, asked: &[PredictiveCheck]) -> Result<Vec<PredictiveCheck>, StudyError> {
        if let (Some(check), false) = (asked.first(), self.formula.status_columns().is_empty()) {
            let found = format!("`{check}`, where times may be censored");
            let expected = "an outcome that is known in every row: when a time with an event would have been censored is not known, so that a model cannot draw others like it";
            let remedy = "Judge the model by rows left out (`leave_one_out_draws` of a study), and the method by `partita calibrate`.";
            return Err(unfit(found, expected, remedy));
        }
        let names = [self.formula.outcome(), self.formula.outcome_column()];
        let own = |check: &PredictiveCheck| match check.site.as_str() {
            name if name == OUTCOME || names.contains(&Some(name)) => {
                Ok(PredictiveCheck { site: OUTCOME.into(), ..check.clone() })
            }
            _ => {
                let outcome = self.outcome();
                let expected = format!("a statistic of the outcome, as in `{} of {outcome}`", check.statistic);
                Err(unfit(format!("the check `{check}`"), &expected, "The model draws no other column."))
            }
        };
        asked.iter().map(own).collect()
    }

    /// Reads the files, lets silos agree, and makes the model with the rows of each: what silos and coordinator do apart
    /// over an engine, in one process.
    ///
    /// # Errors
    /// [`StudyError`], with the place in formula or file.
    pub fn prepare(&self, silos: &[SiloTable], device: &Device) -> Result<Prepared, StudyError> {
        if let Some(declared) = &self.stand_in {
            return self.prepare_declared(silos, declared, device);
        }
        let columns: Vec<Columns> = silos.iter().map(|silo| self.columns(silo)).collect::<Result<_, _>>()?;
        let (mut study, mut notes) = (self.clone(), Vec::new());
        let (agreement, designs, summary) = loop {
            let profiles = columns.iter().map(|own| study.profile(own));
            let agreement = study.agree(&profiles.collect::<Result<Vec<_>, _>>()?)?;
            let designs = columns.iter().map(|own| study.design(own, &agreement));
            let designs: Vec<Design> = designs.collect::<Result<_, _>>()?;
            let summary = DesignSummary::merge(&designs.iter().map(DesignSummary::of).collect::<Vec<_>>())?;
            let chain = Chain::of(&summary.random)?;
            let Some(crossed) = chain.crossing(&summary.crossed) else {
                break (agreement, designs, summary);
            };
            let crossing = Crossing::of(crossed, &designs);
            crossing.is_small()?;
            notes.push(crossing.note());
            study.declared.groups_across_silos.insert(crossing.fewer);
        };
        notes.extend(columns.iter().flat_map(|own| self.notes_of_file(own)));
        notes.extend(self.notes_of(&designs));
        let prepared = study.prepared(silos, designs, agreement, &summary, device)?;
        notes.extend_from_slice(&prepared.notes);
        Ok(Prepared { notes, ..prepared })
    }

    /// The model with the rows of all silos, once it is known what they agree on.
    pub(super) fn prepared(
        &self,
        silos: &[SiloTable],
        designs: Vec<Design>,
        agreement: Agreement,
        summary: &DesignSummary,
        device: &Device,
    ) -> Result<Prepared, StudyError> {
        let plan = self.plan(summary)?;
        let rows = designs.iter().map(|design| Ok((design.silo.clone(), self.rows(design, &plan, device)?)));
        let rows = rows.collect::<Result<_, StudyError>>()?;
        let places = designs.into_iter().map(RowPlaces::of).collect();
        let (study, tables, notes) = (self.clone(), silos.to_vec(), self.notes_on(&agreement, summary));
        Ok(Prepared { plan, silos: rows, notes, agreement, study, tables, places })
    }

    /// The cells of a silo's file that the formula needs.
    ///
    /// # Errors
    /// [`StudyError::Frame`]; [`StudyError::Unfit`] for a column of [`Study::units`] that the file lacks.
    pub fn columns(&self, silo: &SiloTable) -> Result<Columns, StudyError> {
        self.columns_as(silo, &BTreeMap::new())
    }

    /// The same, where columns that are text by `kinds` hold levels.
    pub(super) fn columns_as(
        &self,
        silo: &SiloTable,
        kinds: &BTreeMap<String, ColumnKind>,
    ) -> Result<Columns, StudyError> {
        let frame = Frame::from_path(&silo.path, self.read.clone())?;
        if let Some((name, unit)) = self.units.iter().find(|(name, _)| !frame.names().contains(name)) {
            let near = nearest(name, frame.names().iter().map(String::as_str));
            let near = near.map(|own| format!(" Did you mean `{own}`?")).unwrap_or_default();
            return Err(unfit(
                format!("no column `{name}` in {}", silo.path.display()),
                &format!("every column of `[columns]`, this one in {unit}"),
                &format!("Name the column so in the file, or correct the study.{near}"),
            ));
        }
        Ok(frame.columns_as(kinds, &silo.name, &self.formulas(), self.missing)?)
    }

    /// What a silo says of its rows before the agreement, once nothing is wrong in its file that its owner can see alone.
    ///
    /// # Errors
    /// [`StudyError::Design`] and, for an outcome that the family does not have, [`StudyError::Unfit`], with the line of the
    /// file.
    pub fn profile(&self, columns: &Columns) -> Result<Profile, StudyError> {
        self.family.outcome_alone(&Design::left_side(&self.formula, columns)?, self.outcome())?;
        Ok(Profile::of(&self.formulas(), columns, &self.declared)?)
    }

    /// What silos agree on, from the profile of each.
    ///
    /// # Errors
    /// [`StudyError::Agreement`].
    pub fn agree(&self, profiles: &[Profile]) -> Result<Agreement, StudyError> {
        Ok(Agreement::merge(profiles, &self.declared)?)
    }

    /// Refuses what an owner does not say of the rows, where the study cannot do without it.
    pub(crate) fn does_without(&self, item: &str) -> Result<(), StudyError> {
        let why = match item {
            "rows" | "columns" => "priors of all silos follow from means over rows",
            "groups" => "the model has its groups",
            "outcome" if self.family.kind.has_prior_of_outcome() => {
                "priors follow the mean and the spread of the outcome"
            }
            _ => return Ok(()),
        };
        Err(StudyError::Unfit {
            operation: "what a silo refuses to say",
            found: format!("`{item}`"),
            expected: format!("nothing that this study needs: {why}"),
            remedy: "Take it out of `refuse` in the silo's file, or do not take part.".into(),
        })
    }

    /// The design of a silo.
    ///
    /// # Errors
    /// [`StudyError::Design`] and, for an outcome that the family does not have, [`StudyError::Unfit`].
    pub fn design(&self, columns: &Columns, agreement: &Agreement) -> Result<Design, StudyError> {
        let design = Design::of(&self.formula, columns, agreement)?;
        self.family.outcome(&design, self.outcome())?;
        self.complete(design, columns, agreement)
    }

    /// The model, from what all silos together say of their designs.
    ///
    /// # Errors
    /// [`StudyError::Unfit`] for what no model here serves.
    pub fn plan(&self, summary: &DesignSummary) -> Result<Plan, StudyError> {
        let sums = &summary.sums;
        if let Some(own) = sums.collinear().first() {
            let remedy = match own.of.is_empty() {
                true => "Take it out of the formula; or look whether what it compares is written as in the files.",
                false => {
                    "Take one of them out of the formula. Where levels of two factors never meet, make one factor of the pairs that do."
                }
            };
            let remedy = with_place(remedy, &self.formula, &own.column);
            return Err(unfit(own.to_string(), "columns of which none is given by others", &remedy));
        }
        if let Some(moments) =
            sums.outcome.filter(|own| own.sd() <= 1e-12 * own.mean.abs() && self.family.kind.needs_spread())
        {
            return Err(unfit(
                format!("`{}`, which is {} in every row", self.outcome(), moments.mean),
                "an outcome that varies: this family has a parameter for how much",
                "Look whether it is the right column.",
            ));
        }
        let scale = self.family.scale(sums);
        let chain = Chain::of(&summary.random)?;
        chain.check_nested(summary)?;
        let of = |place: &usize| effects(&summary.random[*place], sums, &scale);
        let levels = chain.groupings.iter().map(|own| own.terms.iter().map(of).collect());
        let across = |place: &usize| AcrossEffects {
            effects: effects(&summary.random[*place], sums, &scale),
            groups: summary.random[*place].levels.clone(),
            latents: self.latents(&summary.random[*place], sums.count),
        };
        let Predictors { response, coefficients, linear, baseline } = self.predictors(summary, &scale)?;
        let mut parameters = parameters(&response, &scale);
        parameters.retain(|(name, _)| linear.iter().all(|own| own.name != *name));
        let mut plan = RegressionPlan {
            response,
            coefficients,
            silo: chain.silo.iter().map(of).collect(),
            levels: levels.collect(),
            across: chain.across.iter().map(across).collect(),
            parameters,
            linear,
            baseline,
        };
        self.check_names(&plan, &summary.random)?;
        let before = plan.clone();
        stated_prior::put(&self.priors, &mut plan)?;
        let (unit, shown) = self.family.reading(&self.parameters);
        // Levels in the place of an intercept are compared with nothing.
        let in_place_of_intercept = sums.levels();
        let is_effect = |(place, name): &(usize, &String)| {
            !name.ends_with(INTERCEPT) && !in_place_of_intercept.contains(&(place % sums.names.len().max(1)))
        };
        let names = plan.coefficients.iter().map(|(name, _)| name).enumerate().filter(is_effect);
        let shown = names.map(|(_, name)| Effect {
            label: name.clone(),
            name: self.units.get(name).map_or_else(|| name.clone(), |unit| format!("{name} ({unit})")),
            unit: unit.into(),
            scale: shown,
        });
        let (effects, priors) = (shown.collect(), lines(&plan, &before));
        let levels = if self.family.kind.has_levels() { summary.levels.clone() } else { Vec::new() };
        Ok(Plan { model: Regression::new(plan), priors, effects, chain, levels })
    }

    /// In which numbers the effects of groups that all silos know are fitted.
    fn latents(&self, term: &RandomSummary, rows: u64) -> EffectLatents {
        #[expect(clippy::cast_precision_loss, reason = "rows are countable")]
        let each = rows as f64 / term.groups.max(1) as f64;
        let is_known = self.family.information() * each >= KNOWN;
        if is_known { EffectLatents::Effects } else { EffectLatents::Standardised }
    }

    /// The rows of a silo as the model reads them.
    ///
    /// # Errors
    /// [`StudyError::Unfit`] for groupings that cross in this silo; [`StudyError::Model`].
    pub fn rows(&self, design: &Design, plan: &Plan, device: &Device) -> Result<RegressionRows, StudyError> {
        let outcome = self.family.outcome(design, self.outcome())?;
        self.rows_with(outcome, design, plan, device)
    }

    /// The same with these outcomes in place of the design's own.
    pub(super) fn rows_with(
        &self,
        outcome: Vec<f64>,
        design: &Design,
        plan: &Plan,
        device: &Device,
    ) -> Result<RegressionRows, StudyError> {
        let tensor = |values: &Vec<f64>| device.tensor(values.clone(), [values.len()]);
        let fixed = self.columns_of_mean(&design.fixed);
        let columns = plan.chain.columns(&fixed, design);
        let width = plan.model.plan().width() / plan.model.plan().response.predictors();
        let mut rows = RegressionRows::new(columns, width, outcome, device)?;
        if let Some(offset) = &design.offset {
            rows = rows.with_offset(tensor(offset));
        }
        if let Some(trials) = &design.trials {
            rows = rows.with_trials(tensor(trials));
        }
        if let Some(status) = &design.status {
            rows = rows.with_status(tensor(status));
        }
        plan.chain.place(with_parameters(rows, design, tensor)?, design, device)
    }

    pub(super) fn outcome(&self) -> &str {
        self.formula.outcome().unwrap_or("the outcome")
    }
}

/// A remedy, with the place of the term of `formula` that has the column.
pub(super) fn with_place(remedy: &str, formula: &Formula, column: &str) -> String {
    formula.place_of_column(column).map_or_else(|| remedy.to_owned(), |place| format!("{remedy}\n{place}"))
}

pub(super) fn unfit(found: String, expected: &str, remedy: &str) -> StudyError {
    let operation = "model of a formula";
    StudyError::Unfit { operation, found, expected: expected.into(), remedy: remedy.into() }
}
