//! Predicts outcomes of rows, new ones and those that were fitted, from the answer of a fit.

use std::collections::HashMap;

use partita_core::{Device, DrawNoise, Key, Noise, Predictive, Purpose, SiteTable, expected_values, predictive_draw};
use partita_formula::{ColumnKind, Columns, Design};
use partita_inference::{AnswerDraws, Fit, SiteSummary};
use partita_models::regression::{Family, RegressionRows};

use super::family::Kind;
use super::groups::Chain;
use super::known_groups::{KNOWN_GROUPS, KnownGroups, Silo};
use super::prior_predictive::quoted;
use super::{Prepared, SiloTable, Study, StudyError};

/// Whose groups rows have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// Those of the silo of this place: groups that it has rows of are known, and so is its own effect.
    Silo(usize),
    /// Those of a silo never seen: no group is known.
    New,
}

/// What is predicted of some rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// For each row which of its groups are known and which are new, in words; empty without groups.
    pub groups: Vec<String>,
    /// For each row the expected outcome; NaN for a family without one.
    pub expected: Vec<SiteSummary>,
    /// For each row a new outcome.
    pub outcomes: Vec<SiteSummary>,
}

/// Draws of the posterior that predictions are made with, and the most numbers that are kept of them.
const DRAWS: usize = 1_000;
const MOST_NUMBERS: usize = 40_000_000;
/// The fewest draws that quantiles are told from.
const FEWEST: usize = 200;

impl Study {
    /// Predicts the rows of a file, which needs no outcome.
    ///
    /// Of each draw of the answer of the report ([`Fit::answer_draws`]) the expected outcome is $E(y \mid \theta, b)$ with the
    /// effects $b$ of the row's groups: those of known groups given the rows of the silo, those of new groups from their
    /// distribution given $\theta$. A new outcome is drawn around it. Both integrate over $\theta$ and $b$. Outcomes with
    /// trials are those of one trial.
    ///
    /// # Errors
    /// [`StudyError`] for a file that lacks a column, or has levels that no silo had; for more rows than fit the memory.
    pub fn predict(
        &self,
        file: &SiloTable,
        whose: Whose,
        prepared: &Prepared,
        fit: &mut Fit,
        device: &Device,
    ) -> Result<Prediction, StudyError> {
        let without = Self { formula: self.formula.clone().without_outcome(), ..self.clone() };
        let columns = without.columns(file)?;
        let OutcomeFree { design, rows } = self.without_outcome(&columns, prepared, device)?;
        let groups = design.random.iter().map(|term| (term.levels.as_slice(), term.group.as_slice())).collect();
        prepared.predicted(&Rows { rows: &rows, groups, count: design.rows }, whose, fit, device)
    }
}

/// Rows whose outcome is not asked for.
pub(super) struct OutcomeFree {
    pub(super) design: Design,
    pub(super) rows: RegressionRows,
}

impl Study {
    /// Rows as the model reads them, with an outcome that stands for any.
    pub(super) fn without_outcome(
        &self,
        columns: &Columns,
        prepared: &Prepared,
        device: &Device,
    ) -> Result<OutcomeFree, StudyError> {
        prepared.same_kinds(columns, columns.silo())?;
        let design = Design::of(&self.formula.clone().without_outcome(), columns, &prepared.agreement)?;
        let design = self.with_columns_of_parameters(design, columns, &prepared.agreement)?;
        let outcome = if self.family.kind == Kind::Beta { 0.5 } else { 1.0 };
        let rows = self.rows_with(vec![outcome; design.rows], &design, &prepared.plan, device)?;
        Ok(OutcomeFree { design, rows })
    }
}

/// Rows with the groups of each random term.
struct Rows<'a> {
    rows: &'a RegressionRows,
    groups: Vec<(&'a [String], &'a [usize])>,
    count: usize,
}

impl Prepared {
    /// The rows of a silo that were fitted, as [`Study::predict`] has new ones: every group is known.
    ///
    /// # Errors
    /// As for [`Study::predict`].
    pub fn fitted(&self, silo: usize, fit: &mut Fit, device: &Device) -> Result<Prediction, StudyError> {
        let (_, rows) = &self.silos[silo];
        let groups = self.groups[silo].iter().map(|own| (own.levels.as_slice(), own.group.as_slice())).collect();
        self.predicted(&Rows { rows, groups, count: rows.len() }, Whose::Silo(silo), fit, device)
    }

    /// Refuses columns that hold something else than those of the silos did.
    pub(super) fn same_kinds(&self, columns: &Columns, of: &str) -> Result<(), StudyError> {
        let other = |(name, agreed): (&String, &ColumnKind)| {
            let found = columns.kind(name).filter(|found| found != agreed)?;
            Some((name.clone(), found, *agreed))
        };
        match self.agreement.kinds.iter().find_map(other) {
            None => Ok(()),
            Some((name, found, agreed)) => Err(unfit(
                format!("`{name}` of {of} holds {found}"),
                &format!("{agreed}, as in the files of the fit"),
                "Write its values as those files do.",
            )),
        }
    }

    fn predicted(
        &self,
        rows: &Rows<'_>,
        whose: Whose,
        fit: &mut Fit,
        device: &Device,
    ) -> Result<Prediction, StudyError> {
        self.has_numbers()?;
        let model = &self.plan.model;
        let AnswerDraws { latents, .. } = fit.answer_draws(model, device).map_err(StudyError::Inference)?;
        let count = (MOST_NUMBERS / rows.count.max(1)).min(DRAWS).min(latents.len());
        if count < FEWEST.min(latents.len()) {
            return Err(unfit(
                format!("{} rows to predict", rows.count),
                &format!("at most {}", MOST_NUMBERS / FEWEST),
                "Predict them in parts.",
            ));
        }
        let seed = fit.report.seed;
        let table = SiteTable::of(model, device, rows.rows)?;
        let places = Places::of(self, &table, rows, whose);
        let mut known = match whose {
            Whose::Silo(silo) if places.any_known() => Some(self.known_groups(silo, fit, device, seed)?),
            _ => None,
        };
        let noise = Noise::new(seed);
        let mut fresh = noise.stream(Key::new(Purpose::Predictive, u64::MAX).block(KNOWN_GROUPS));
        let [mut expected, mut outcomes] = [0, 1].map(|_| vec![Vec::with_capacity(count); rows.count]);
        for draw in 0..count {
            // Spread over all draws: those that were resampled stand in the order of what they were resampled from.
            let globals = &latents[draw * latents.len() / count];
            let mut locals: Vec<Vec<f64>> =
                table.blocks().iter().map(|block| vec![0.0; block.rows * block.width]).collect();
            locals.iter_mut().for_each(|own| fresh.normal(own));
            if let Some(known) = &mut known {
                places.fill(known.draw(globals)?, &mut locals);
            }
            let at = Predictive { globals, locals: Some(&locals), noise: DrawNoise { noise, index: draw as u64 } };
            let means = expected_values(model, device, &table, rows.rows, at)?;
            let drawn = predictive_draw(model, device, &table, rows.rows, at)?.observed;
            for (all, found) in [(&mut expected, means), (&mut outcomes, drawn)] {
                let values = found.iter().flat_map(|(_, own)| &own.values);
                all.iter_mut().zip(values).for_each(|(own, value)| own.push(*value));
            }
        }
        let summary = |draws: &Vec<f64>| SiteSummary::of(self.outcome.clone(), self.outcome.clone(), draws);
        Ok(Prediction {
            groups: places.words(rows.count),
            expected: expected.iter().map(summary).collect(),
            outcomes: outcomes.iter().map(summary).collect(),
        })
    }

    /// Refuses outcomes of levels, which have no mean.
    pub(super) fn has_numbers(&self) -> Result<(), StudyError> {
        match self.plan.model.plan().response.family {
            Family::Cumulative { .. } | Family::Categorical { .. } => Err(unfit(
                format!("`{}`, an outcome of levels", self.outcome),
                "an outcome of numbers, which has a mean",
                "Read the probabilities of levels from posterior.csv, or fit whether a level is reached: bernoulli.",
            )),
            _ => Ok(()),
        }
    }

    fn known_groups<'a>(
        &'a self,
        silo: usize,
        fit: &mut Fit,
        device: &'a Device,
        seed: u64,
    ) -> Result<KnownGroups<'a>, StudyError> {
        let moments = fit.exchange.programs()[silo].local_moments().map_err(StudyError::Inference)?;
        let Chain { groupings, .. } = &self.plan.chain;
        let groups = groupings.iter().map(|own| (own.name.as_str(), &self.groups[silo][own.terms[0]])).collect();
        let place = silo as u64;
        KnownGroups::new(&self.plan.model, device, Silo { rows: &self.silos[silo].1, groups, moments, place }, seed)
    }
}

/// Where the effects of the groups of rows stand among those of a silo.
struct Places<'a> {
    blocks: Vec<BlockPlaces<'a>>,
}

/// The groups of rows in one block of latents.
struct BlockPlaces<'a> {
    block: usize,
    width: usize,
    name: String,
    /// The group of each row; `None` where all rows are in one.
    group: Option<&'a [usize]>,
    /// Of each group its place among those of the silo; `None` of new ones.
    known: Vec<Option<usize>>,
}

impl<'a> Places<'a> {
    fn of(prepared: &Prepared, table: &SiteTable, rows: &Rows<'a>, whose: Whose) -> Self {
        let Chain { groupings, .. } = &prepared.plan.chain;
        let mut blocks = Vec::new();
        for (block, own) in table.blocks().iter().enumerate().filter(|(_, own)| own.width > 0) {
            let grouping = own.plate.as_ref().and_then(|plate| groupings.iter().find(|own| own.name == *plate));
            let place = |term: usize| {
                let (levels, group) = rows.groups[term];
                let own: HashMap<&str, usize> = match whose {
                    Whose::Silo(silo) => {
                        prepared.groups[silo][term].levels.iter().map(String::as_str).zip(0..).collect()
                    }
                    Whose::New => HashMap::new(),
                };
                (Some(group), levels.iter().map(|level| own.get(level.as_str()).copied()).collect())
            };
            let (group, known) = match grouping {
                Some(grouping) => place(grouping.terms[0]),
                None => (None, vec![if let Whose::Silo(_) = whose { Some(0) } else { None }]),
            };
            let name = grouping.map_or_else(|| "silo".to_owned(), |own| own.name.clone());
            blocks.push(BlockPlaces { block, width: own.width, name, group, known });
        }
        Self { blocks }
    }

    fn any_known(&self) -> bool {
        self.blocks.iter().any(|own| own.known.iter().any(Option::is_some))
    }

    /// Puts the latents of known groups where the rows have them.
    fn fill(&self, from: &[Vec<f64>], to: &mut [Vec<f64>]) {
        for BlockPlaces { block, width, known, .. } in &self.blocks {
            for (group, place) in known.iter().enumerate().filter_map(|(group, place)| Some((group, (*place)?))) {
                let latents = &from[*block][place * width..(place + 1) * width];
                to[*block][group * width..(group + 1) * width].copy_from_slice(latents);
            }
        }
    }

    /// For each row which of its groups are known.
    fn words(&self, rows: usize) -> Vec<String> {
        let of_row = |row: usize| {
            let one = |own: &BlockPlaces<'_>| {
                let is_known = own.known[own.group.map_or(0, |group| group[row])].is_some();
                format!("{} {}", own.name, if is_known { "known" } else { "new" })
            };
            self.blocks.iter().map(one).collect::<Vec<_>>().join(", ")
        };
        (0..rows).map(of_row).collect()
    }
}

/// The names of the columns of a prediction, after those that say which row it is.
pub(super) const COLUMNS: &str = "groups,mean,sd,p2_5,p50,p97_5,new_mean,new_sd,new_p2_5,new_p50,new_p97_5";

impl Prediction {
    /// The predictions as comma-separated values, a row a line, with the names of their silos or files.
    #[must_use]
    pub fn csv(predictions: &[(String, Self)]) -> String {
        let mut text = format!("file,row,{COLUMNS}\n");
        for (name, own) in predictions {
            for (row, ((groups, expected), outcome)) in
                own.groups.iter().zip(&own.expected).zip(&own.outcomes).enumerate()
            {
                let numbers = [expected, outcome].map(|own| {
                    let SiteSummary { mean, sd, quantiles: q, .. } = own;
                    let all = [*mean, *sd, q.p2_5, q.p50, q.p97_5];
                    all.map(|own| if own.is_nan() { "NA".to_owned() } else { own.to_string() }).join(",")
                });
                text += &format!("{},{},{},{}\n", quoted(name), row + 1, quoted(groups), numbers.join(","));
            }
        }
        text
    }
}

fn unfit(found: String, expected: &str, remedy: &str) -> StudyError {
    StudyError::Unfit { operation: "prediction", found, expected: expected.into(), remedy: remedy.into() }
}
