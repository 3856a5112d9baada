//! Makes what silos would say of their rows from what a study declares of its columns, so that no silo is asked.

use std::collections::BTreeMap;
use std::fmt::Write;

use partita_core::{Device, DrawNoise, Key, Noise, Predictive, Purpose, SiteTable, predictive_draw};
use partita_formula::{Agreement, Columns, Design, Formula, Frame, Grouping, Item, ReadOptions};
use partita_inference::PrivateRoundsOptions;
use partita_models::regression::RegressionRows;
use serde::{Deserialize, Serialize};

use super::csv::quoted;
use super::prepare::Prepared;
use super::priors::INTERCEPT;
use super::shared_model::SharedModel;
use super::summary::{CrossedGroupings, DesignSummary};
use super::{Agreed, SiloTable, Study, StudyError};

/// What a study declares of a column of its files: `[-2, 1]` for whole numbers, `[0.5, 9.0]` for other numbers, or levels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum DeclaredColumn {
    /// Whole numbers from the first to the second.
    Whole([i64; 2]),
    /// Numbers from the first to the second.
    Real([f64; 2]),
    /// The levels of a column of text.
    Levels(Vec<String>),
}

/// The name of the table that stands in for the rows of silos.
const NAME: &str = "stand-in";
/// Its rows, and those of a group.
const ROWS: u32 = 4096;
const ROWS_OF_A_GROUP: u32 = 4;
/// The column that every file has without naming it.
const SILO: &str = "silo";

impl SharedModel<'_> {
    /// Rows spread evenly over what is declared of the columns, with outcomes that stand in for theirs.
    pub(crate) fn stand_in(
        &self,
        declared: &BTreeMap<String, DeclaredColumn>,
        device: &Device,
    ) -> Result<RegressionRows, StudyError> {
        self.study.rows(&self.stand_in_design(declared)?, self.plan, device)
    }

    fn stand_in_design(&self, declared: &BTreeMap<String, DeclaredColumn>) -> Result<Design, StudyError> {
        let Self { study, agreement, .. } = self;
        study.design(&study.stand_in_columns(declared, &study.groupings())?, agreement)
    }

    /// Rows spread evenly over what is declared of the columns, with outcomes drawn at these globals; none where times are
    /// censored, or an observation is no number of its row.
    pub(crate) fn simulated(
        &self,
        declared: &BTreeMap<String, DeclaredColumn>,
        globals: &[f64],
        seed: u64,
        device: &Device,
    ) -> Result<Option<RegressionRows>, StudyError> {
        let Self { study, plan, .. } = self;
        let design = self.stand_in_design(declared)?;
        let rows = study.rows(&design, plan, device)?;
        let table = SiteTable::of(&plan.model, device, &rows)?;
        let noise = Noise::new(seed);
        let mut stream = noise.stream(Key::new(Purpose::Predictive, seed));
        let mut locals: Vec<Vec<f64>> =
            table.blocks().iter().map(|block| vec![0.0; block.rows * block.width]).collect();
        locals.iter_mut().for_each(|own| stream.normal(own));
        let at = Predictive { globals, locals: Some(&locals), noise: DrawNoise { noise, index: seed } };
        let drawn = predictive_draw(&plan.model, device, &table, &rows, at)?.observed;
        match drawn.into_iter().next() {
            Some((_, outcome)) if outcome.values.len() == design.rows && design.status.is_none() => {
                study.rows_with(outcome.values, &design, plan, device).map(Some)
            }
            _ => Ok(None),
        }
    }
}

impl Agreed {
    /// The mean of each column, by its coefficient, for the intercept.
    pub(crate) fn middles(&self) -> BTreeMap<String, BTreeMap<String, f64>> {
        let sums = &self.summary.sums;
        let columns = sums.names.iter().zip(&sums.means).filter(|(name, _)| *name != INTERCEPT);
        let columns: BTreeMap<String, f64> = columns.map(|(name, mean)| (name.clone(), *mean)).collect();
        if columns.is_empty() { BTreeMap::new() } else { [(INTERCEPT.to_owned(), columns)].into() }
    }
}

impl Study {
    /// What silos would agree on, and say of their designs, if their rows were spread evenly over what is declared of the
    /// columns: the same at every party, and a function of the study alone.
    ///
    /// # Errors
    /// [`StudyError::Unfit`] for what is not declared; otherwise as for a file with such rows.
    pub(crate) fn declared_alone(&self, declared: &BTreeMap<String, DeclaredColumn>) -> Result<Agreed, StudyError> {
        let mut terms =
            self.formulas().into_iter().flat_map(|own| own.random_labels().into_iter().zip(own.groupings()));
        if let Some((label, _)) = terms.find(|(_, grouping)| grouping.label() == SILO) {
            return Err(unfit(
                format!("`({label})`, an effect of the silo, which ties all its rows together"),
                "effects of groups within silos: a row, or a group, is what is protected",
                "Take it out, or write the silo as a fixed factor.",
            ));
        }
        let groupings = self.groupings();
        if let [one, two, ..] = groupings.as_slice() {
            return Err(unfit(
                format!("the groupings `{}` and `{}`", one.label(), two.label()),
                "one grouping within silos at most: which lies within which would follow from rows",
                "Take one out, or name the groups of one under `[declared]`, with `groups_across_silos`.",
            ));
        }
        let columns = self.stand_in_columns(declared, &groupings)?;
        let profile = self.profile(&columns)?;
        let is_public = |item: &&Item| matches!(item, Item::Rows { .. } | Item::Kind { .. } | Item::Design { .. });
        if let Some(item) = profile.items.iter().find(|item| !is_public(item)) {
            return Err(unfit(
                format!("`{}`, which silos would say of their rows", item.name()),
                "it in the study: under `[declared]`, or in the formula",
                "Levels, scalings, splines and polynomials stand in tables of `[declared]`; times at which a hazard changes in the formula.",
            ));
        }
        let mut agreement = self.agree(&[profile])?;
        let summary = DesignSummary::of(&self.design(&columns, &agreement)?);
        agreement.silos.clear();
        Ok(Agreed { agreement, summary })
    }

    fn stand_in_columns(
        &self,
        declared: &BTreeMap<String, DeclaredColumn>,
        groupings: &[&Grouping],
    ) -> Result<Columns, StudyError> {
        let text = self.stand_in(declared, groupings)?;
        let frame = Frame::from_bytes(NAME, text.as_bytes(), ReadOptions::default())?;
        Ok(frame.columns(NAME, &self.formulas(), self.missing)?)
    }

    /// [`Study::prepare`] without asking silos for anything of their rows.
    ///
    /// # Errors
    /// As for that, and [`StudyError::Unfit`] for what the study does not declare.
    pub(super) fn prepare_declared(
        &self,
        silos: &[SiloTable],
        declared: &BTreeMap<String, DeclaredColumn>,
        device: &Device,
    ) -> Result<Prepared, StudyError> {
        let Agreed { agreement, summary } = self.declared_alone(declared)?;
        let designs = silos.iter().map(|silo| {
            let columns = self.columns(silo)?;
            self.declared_design(&columns, &agreement)
        });
        let designs = designs.collect::<Result<Vec<_>, StudyError>>()?;
        self.prepared(silos, designs, agreement, &summary, device)
    }

    /// The design of a silo whose columns hold what is declared of them.
    ///
    /// # Errors
    /// [`StudyError::Unfit`] for a column that holds something else, and for groupings that cross; [`StudyError::Design`].
    pub(crate) fn declared_design(&self, columns: &Columns, agreement: &Agreement) -> Result<Design, StudyError> {
        for (name, kind) in &agreement.kinds {
            if let Some(found) = columns.kind(name).filter(|found| found != kind) {
                return Err(unfit(
                    format!("`{name}` of silo `{}`, which holds {found}", columns.silo()),
                    &format!("{kind}, as the study declares"),
                    "Correct the file, or the study at all parties.",
                ));
            }
        }
        let design = self.design(columns, agreement)?;
        match CrossedGroupings::of(&design).first() {
            None => Ok(design),
            Some(CrossedGroupings { outer, inner, silo }) => Err(unfit(
                format!("`{outer}` and `{inner}`, which cross in {silo}"),
                "one grouping within silos",
                "Name the groups of one under `[declared]`, with `groups_across_silos`.",
            )),
        }
    }

    /// What one unit of a private study is: a group of its grouping within silos, or a row where there is none.
    pub(crate) fn protected(&self) -> String {
        self.groupings().first().map_or_else(|| PrivateRoundsOptions::UNIT.to_owned(), |own| own.label())
    }

    /// The groupings within silos.
    pub(super) fn groupings(&self) -> Vec<&Grouping> {
        let mut found: Vec<&Grouping> = Vec::new();
        for grouping in self.formulas().into_iter().flat_map(Formula::groupings) {
            let label = grouping.label();
            let is_known = label == SILO || self.declared.groups_across_silos.contains(&label);
            if !is_known && found.iter().all(|own| own.label() != label) {
                found.push(grouping);
            }
        }
        found
    }

    /// A file of rows spread evenly over what is declared of each column.
    fn stand_in(
        &self,
        declared: &BTreeMap<String, DeclaredColumn>,
        groupings: &[&Grouping],
    ) -> Result<String, StudyError> {
        let mut names: Vec<String> = Vec::new();
        for name in self.formulas().into_iter().flat_map(|formula| formula.columns()) {
            if !names.contains(&name) && (name != SILO || declared.contains_key(&name)) {
                names.push(name);
            }
        }
        if let Some(name) = declared.keys().find(|name| !names.contains(name)) {
            return Err(unfit(
                format!("`{name}` under `[privacy.columns]`"),
                &format!("columns of the formula: {}", names.join(", ")),
                "Correct its name, or take it out.",
            ));
        }
        let of_grouping = |name: &String| groupings.iter().any(|own| own.has(name));
        let columns = names.iter().map(|name| match (declared.get(name), self.levels_declared(name)) {
            (Some(own), _) => Spread::of(name, own),
            (None, Some(levels)) => Spread::of(name, &DeclaredColumn::Levels(levels.clone())),
            (None, None) if of_grouping(name) => Ok(Spread::Groups),
            (None, None) => Err(unfit(
                format!("the column `{name}`, of which the study declares nothing"),
                "its range, such as `age = [18, 90]`, or its levels, such as `sex = [\"f\", \"m\"]`",
                "Write it under `[privacy.columns]`: silos say nothing of their rows.",
            )),
        });
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let mut text = names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(",") + "\n";
        let columns: Vec<(Spread, u32)> = columns.into_iter().zip(primes()).collect();
        for row in 0..ROWS {
            let cells = columns.iter().map(|(column, prime)| quoted(&column.cell(row, *prime)));
            writeln!(text, "{}", cells.collect::<Vec<_>>().join(",")).unwrap_or_default();
        }
        Ok(text)
    }

    /// The levels that the study declares of a column, as it stands or as a factor.
    fn levels_declared(&self, column: &str) -> Option<&Vec<String>> {
        let written = [column.to_owned(), format!("factor({column})"), format!("as.factor({column})")];
        written.iter().find_map(|label| self.declared.levels.get(label))
    }
}

/// The fractional parts of multiples of their square roots are spread evenly, each apart from the others.
fn primes() -> impl Iterator<Item = u32> {
    (2..).filter(|number| (2..*number).take_while(|own| own * own <= *number).all(|own| number % own != 0))
}

/// How the cells of a column are spread.
enum Spread {
    /// Over whole numbers from the first on, so many of them.
    Whole(i64, u32),
    Real([f64; 2]),
    Levels(Vec<String>),
    Groups,
}

impl Spread {
    fn of(name: &str, declared: &DeclaredColumn) -> Result<Self, StudyError> {
        let wrong = |found: String, expected| {
            Err(unfit(format!("{found} for the column `{name}`"), expected, "Correct it under `[privacy.columns]`."))
        };
        match declared {
            DeclaredColumn::Whole([low, high]) => {
                match high.checked_sub(*low).and_then(|apart| u32::try_from(apart).ok()?.checked_add(1)) {
                    Some(count) if count > 1 => Ok(Self::Whole(*low, count)),
                    _ => wrong(format!("[{low}, {high}]"), "a smaller and a larger number, less than 2^32 apart"),
                }
            }
            DeclaredColumn::Real([low, high]) if low.is_finite() && high.is_finite() && low < high => {
                Ok(Self::Real([*low, *high]))
            }
            DeclaredColumn::Real([low, high]) => {
                wrong(format!("[{low}, {high}]"), "a smaller and a larger finite number")
            }
            DeclaredColumn::Levels(levels) if levels.len() > 1 => Ok(Self::Levels(levels.clone())),
            DeclaredColumn::Levels(levels) => wrong(format!("{} levels", levels.len()), "two levels or more"),
        }
    }

    fn cell(&self, row: u32, prime: u32) -> String {
        let share = ((f64::from(row) + 0.5) * f64::from(prime).sqrt()).fract();
        let place = |count: u32| ((share * f64::from(count)) as u32).min(count - 1);
        match self {
            Self::Whole(low, count) => (low + i64::from(place(*count))).to_string(),
            Self::Real([low, high]) => (low + share * (high - low)).to_string(),
            Self::Levels(levels) => {
                let count = u32::try_from(levels.len()).unwrap_or(u32::MAX);
                levels[place(count) as usize].clone()
            }
            Self::Groups => format!("g{}", row / ROWS_OF_A_GROUP),
        }
    }
}

fn unfit(found: String, expected: &str, remedy: &str) -> StudyError {
    StudyError::Unfit { operation: "a private study", found, expected: expected.into(), remedy: remedy.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn study(formula: &str) -> Study {
        Study::new(formula, "bernoulli".parse().unwrap()).unwrap()
    }

    fn columns(text: &str) -> BTreeMap<String, DeclaredColumn> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn what_is_declared_alone_gives_the_columns_and_scales_of_rows_like_it() {
        let study = study("wheeze ~ smoke * age + (1 | child)");
        let declared = columns(r#"{"wheeze": [0, 1], "smoke": [0, 1], "age": [-2, 1]}"#);
        let found = study.declared_alone(&declared).unwrap();
        assert_eq!(found.summary.sums.names, ["(Intercept)", "smoke", "age", "smoke:age"]);
        let sds = found.summary.sums.sds();
        // A fair coin, and four numbers equally often.
        assert!((sds[1] - 0.5).abs() < 2e-3 && (sds[2] - 1.25_f64.sqrt()).abs() < 5e-3, "{sds:?}");
        assert_eq!((found.agreement.silos.len(), found.summary.random.len()), (0, 1));
        assert_eq!(found, study.declared_alone(&declared).unwrap());
        study.plan(&found.summary).unwrap();
    }

    #[test]
    fn what_is_not_declared_is_refused_by_its_name() {
        let refused =
            |formula: &str, declared: &str| study(formula).declared_alone(&columns(declared)).unwrap_err().to_string();
        let both = r#"{"y": [0, 1], "x": [0.0, 2.5]}"#;
        for (formula, declared, words) in [
            ("y ~ x", r#"{"y": [0, 1]}"#, "the column `x`, of which the study declares nothing"),
            ("y ~ x + (1 | silo)", both, "`(1 | silo)`, an effect of the silo, which ties all its rows together"),
            ("y ~ x + (x || silo)", both, "| silo)`, an effect of the silo"),
            ("y ~ scale(x)", both, "`mean-sd:scale(x)`, which silos would say"),
            ("y ~ poly(x, 2)", both, "`sums:poly(x, 2)`"),
            ("y ~ bs(x, df = 5)", both, "`quantiles:bs(x, df = 5)`"),
            ("y ~ x", r#"{"y": [0, 1], "x": ["a", "b"]}"#, "`levels:x`"),
            ("y ~ x", r#"{"y": [0, 1], "x": [1, 1]}"#, "[1, 1] for the column `x`"),
            ("y ~ x", r#"{"y": [0, 1], "x": [0.0, 2.5], "z": [0, 1]}"#, "`z` under `[privacy.columns]`"),
            ("y ~ x + (1 | a/b)", both, "the groupings `b:a` and `a`"),
        ] {
            let found = refused(formula, declared);
            assert!(found.contains(words), "{words}: {found}");
        }
    }
    #[test]
    fn what_is_protected_is_the_grouping_however_its_term_is_written() {
        let declared = columns(r#"{"y": [0, 1], "x": [0.0, 2.5]}"#);
        let of = |formula: &str, across: &[&str]| {
            let mut study = study(formula);
            study.declared.groups_across_silos = across.iter().map(|own| (*own).to_owned()).collect();
            study.declared.levels =
                across.iter().map(|own| ((*own).to_owned(), vec!["a".into(), "b".into()])).collect();
            let found = study.declared_alone(&declared);
            (study.protected(), found.unwrap_or_else(|error| panic!("{formula}: {error}")).summary.random.len())
        };
        assert_eq!(of("y ~ x + (1 || g)", &[]), ("g".into(), 1));
        assert_eq!(of("y ~ x + (1 | g) + (0 + x || g)", &[]), ("g".into(), 2));
        assert_eq!(of("y ~ x + (1 | `a:b`)", &[]), ("`a:b`".into(), 1));
        // Rows are clipped where all parties know the effects of the groups.
        assert_eq!(of("y ~ x + (1 + x || school)", &["school"]), (PrivateRoundsOptions::UNIT.into(), 1));
    }

    #[test]
    fn columns_of_many_are_spread_each_apart_from_the_others() {
        let names: Vec<String> = (0..40).map(|place| format!("x{place}")).collect();
        let mut declared: BTreeMap<_, _> =
            names.iter().map(|name| (name.clone(), DeclaredColumn::Real([0.0, 1.0]))).collect();
        declared.insert("y".into(), DeclaredColumn::Whole([0, 1]));
        let study = study(&format!("y ~ {}", names.join(" + ")));
        let found = study.declared_alone(&declared).unwrap();
        study.plan(&found.summary).unwrap();
    }
}
