//! Predicts outcomes of rows, new ones and those that were fitted, from the answer of a fit.

use std::collections::HashMap;

use partita_core::{
    Array, Device, DrawNoise, Key, Noise, Predictive, Purpose, SiteTable, expected_values, predictive_draw,
    replicated_log_likelihood,
};
use partita_inference::{AnswerDraws, Fit, SiteSummary};
use partita_models::regression::RegressionRows;

use super::csv::{cells, quoted};
use super::known_groups::{KNOWN_GROUPS, KnownGroups};
use super::new_groups::{Globals, NewGroups};
use super::prepare::{RowGroups, RowPlaces};
use super::shared_model::{OutcomeFree, SharedModel, spread, unfit};
use super::{Plan, Prepared, SiloTable, Study, StudyError};

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
    /// The place of each row in its file, the first of which is 1: rows that were left out count.
    pub rows: Vec<usize>,
    /// For each row which of its groups are known and which are new, in words; empty without groups.
    pub groups: Vec<String>,
    /// For each row the expected outcome; NaN for a family without one.
    pub expected: Vec<SiteSummary>,
    /// For each row a new outcome; none of an outcome of levels.
    pub outcomes: Vec<SiteSummary>,
    /// Of an outcome of levels each level, with its probability for each row.
    pub levels: Vec<(String, Vec<SiteSummary>)>,
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
    /// trials are those of one trial. Of an outcome of levels it is the probability $p(y = k \mid \theta, b)$ of each level $k$.
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
        let rows = prepared.shared().rows_of(file, device)?;
        prepared.predicted(&rows, whose, fit, device)
    }
}

impl Prepared {
    /// The rows of a silo that were fitted, as [`Study::predict`] has new ones: every group is known.
    ///
    /// # Errors
    /// As for [`Study::predict`].
    pub fn fitted(&self, silo: usize, fit: &mut Fit, device: &Device) -> Result<Prediction, StudyError> {
        let (globals, seed) = self.globals(fit, device)?;
        self.shared().fitted(self.known(silo, fit)?, &globals, seed, device)
    }

    pub(crate) fn predicted(
        &self,
        rows: &OutcomeFree,
        whose: Whose,
        fit: &mut Fit,
        device: &Device,
    ) -> Result<Prediction, StudyError> {
        let (globals, seed) = self.globals(fit, device)?;
        let known = match whose {
            Whose::Silo(silo) => Some(self.known(silo, fit)?),
            Whose::New => None,
        };
        self.shared().predicted(rows, known, &globals, seed, device)
    }

    fn globals(&self, fit: &Fit, device: &Device) -> Result<(Vec<Vec<f64>>, u64), StudyError> {
        let answer = fit.answer_draws(&self.plan.model, device).map_err(StudyError::Inference)?;
        Ok((globals(&answer), fit.report.seed))
    }

    fn known(&self, place: usize, fit: &mut Fit) -> Result<KnownSilo<'_>, StudyError> {
        let moments = fit.exchange.programs()[place].local_moments().map_err(StudyError::Inference)?;
        Ok(self.known_with(place, moments))
    }

    /// The silo of this place, with posterior means and standard deviations of its latents, block by block.
    pub(crate) fn known_with(&self, place: usize, moments: Vec<(Vec<f64>, Vec<f64>)>) -> KnownSilo<'_> {
        KnownSilo { rows: &self.silos[place].1, places: &self.places[place], moments, place }
    }
}

/// The draws of the globals that predictions are made with.
pub(crate) fn globals(answer: &AnswerDraws) -> Vec<Vec<f64>> {
    spread(&answer.latents, DRAWS).cloned().collect()
}

/// A silo whose groups are known where its rows are.
pub(crate) struct KnownSilo<'a> {
    pub(crate) rows: &'a RegressionRows,
    pub(crate) places: &'a RowPlaces,
    /// Posterior means and standard deviations of its latents, block by block.
    pub(crate) moments: Vec<(Vec<f64>, Vec<f64>)>,
    pub(crate) place: usize,
}

/// Rows with the groups of each random term.
struct Rows<'a> {
    rows: &'a RegressionRows,
    places: &'a RowPlaces,
    /// Groups that no silo has, of groupings whose groups all silos know.
    new: Option<&'a NewGroups>,
}

impl SharedModel<'_> {
    /// Predicts rows, of which a silo may know groups, at draws of the globals.
    pub(crate) fn predicted(
        &self,
        rows: &OutcomeFree,
        silo: Option<KnownSilo<'_>>,
        globals: &[Vec<f64>],
        seed: u64,
        device: &Device,
    ) -> Result<Prediction, StudyError> {
        let OutcomeFree { rows, places, new } = rows;
        self.prediction(&Rows { rows, places, new: new.as_ref() }, silo, globals, seed, device)
    }

    /// Predicts the rows of a silo that were fitted.
    pub(crate) fn fitted(
        &self,
        silo: KnownSilo<'_>,
        globals: &[Vec<f64>],
        seed: u64,
        device: &Device,
    ) -> Result<Prediction, StudyError> {
        // A level has the chance that it has in one row, however often the row counts.
        let once = (!self.plan.levels.is_empty()).then(|| {
            let count = silo.rows.len();
            silo.rows.clone().with_weights(device.tensor(vec![1.0; count], [count]))
        });
        let rows = Rows { rows: once.as_ref().unwrap_or(silo.rows), places: silo.places, new: None };
        self.prediction(&rows, Some(silo), globals, seed, device)
    }

    fn prediction(
        &self,
        rows: &Rows<'_>,
        silo: Option<KnownSilo<'_>>,
        globals: &[Vec<f64>],
        seed: u64,
        device: &Device,
    ) -> Result<Prediction, StudyError> {
        let (model, levels) = (&self.plan.model, &self.plan.levels);
        let row_count = rows.rows.len();
        let numbers = row_count * levels.len().max(1);
        let count = (MOST_NUMBERS / numbers.max(1)).min(globals.len());
        if count < FEWEST.min(globals.len()) {
            return Err(unfit(
                format!("{row_count} rows to predict"),
                &format!("at most {}", MOST_NUMBERS / FEWEST / levels.len().max(1)),
                "Predict them in parts.",
            ));
        }
        let table = SiteTable::of(model, device, rows.rows)?;
        let places = Places::of(self.plan, &table, rows, silo.as_ref());
        let mut known = match silo {
            Some(silo) if places.any_known() => Some(KnownGroups::new(self.plan, device, silo, seed)?),
            _ => None,
        };
        let noise = Noise::new(seed);
        let mut fresh = noise.stream(Key::new(Purpose::Predictive, u64::MAX).block(KNOWN_GROUPS));
        let [mut expected, mut outcomes] = [0, 1].map(|_| vec![Vec::new(); row_count]);
        let mut probabilities = vec![vec![Vec::new(); row_count]; levels.len()];
        for (index, globals) in (0_u64..).zip(spread(globals, count)) {
            let mut locals: Vec<Vec<f64>> =
                table.blocks().iter().map(|block| vec![0.0; block.rows * block.width]).collect();
            locals.iter_mut().for_each(|own| fresh.normal(own));
            if let Some(known) = &mut known {
                places.fill(known.draw(globals)?, &mut locals);
            }
            let with_new = match rows.new {
                Some(new) => Some(new.put(rows.rows, Globals { model, device, table: &table, globals }, &mut fresh)?),
                None => None,
            };
            let of = with_new.as_ref().unwrap_or(rows.rows);
            let at = Predictive { globals, locals: Some(&locals), noise: DrawNoise { noise, index } };
            if levels.is_empty() {
                put(&mut expected, expected_values(model, device, &table, of, at)?);
                put(&mut outcomes, predictive_draw(model, device, &table, of, at)?.observed);
            } else {
                let chances = self.chances(&table, of, at, device)?.into_iter().flatten();
                probabilities.iter_mut().flatten().zip(chances).for_each(|(all, own)| all.push(own));
            }
        }
        let outcome = self.study.outcome();
        let summary = |draws: &Vec<f64>| SiteSummary::of(outcome.to_owned(), outcome.to_owned(), draws);
        let all = |draws: &[Vec<f64>]| draws.iter().filter(|own| !own.is_empty()).map(summary).collect();
        Ok(Prediction {
            rows: rows.places.numbers.clone(),
            groups: places.words(row_count),
            expected: all(&expected),
            outcomes: all(&outcomes),
            levels: levels.iter().cloned().zip(probabilities.iter().map(|own| all(own))).collect(),
        })
    }

    /// For each level of the outcome its chance in each row.
    pub(super) fn chances(
        &self,
        table: &SiteTable,
        rows: &RegressionRows,
        at: Predictive<'_>,
        device: &Device,
    ) -> Result<Vec<Vec<f64>>, StudyError> {
        let Plan { model, levels, .. } = self.plan;
        let mut drawn = predictive_draw(model, device, table, rows, at)?;
        let mut all = Vec::with_capacity(levels.len());
        for code in 0..levels.len() {
            // The density of every row, if its outcome were this level.
            drawn.observed.iter_mut().for_each(|(_, own)| own.values.fill(code as f64));
            let found = replicated_log_likelihood(model, device, table, rows, &drawn, at)?;
            all.push(found.iter().flat_map(|(_, own)| &own.values).map(|own| own.exp()).collect());
        }
        Ok(all)
    }
}

/// Where the effects of the groups of rows stand among those of a silo.
struct Places<'a> {
    blocks: Vec<BlockPlaces<'a>>,
    /// The groupings whose groups all silos know.
    across: Vec<(&'a str, &'a RowGroups)>,
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
    fn of(plan: &'a Plan, table: &SiteTable, rows: &Rows<'a>, silo: Option<&KnownSilo<'_>>) -> Self {
        let mut blocks = Vec::new();
        for (block, own) in table.blocks().iter().enumerate().filter(|(_, own)| own.width > 0) {
            let grouping = own.plate.as_ref().and_then(|plate| plan.chain.grouping(plate));
            let place = |term: usize| {
                let RowGroups { levels, group, .. } = &rows.places.groups[term];
                let own: HashMap<&str, usize> = match silo {
                    Some(silo) => silo.places.groups[term].levels.iter().map(String::as_str).zip(0..).collect(),
                    None => HashMap::new(),
                };
                (Some(group.as_slice()), levels.iter().map(|level| own.get(level.as_str()).copied()).collect())
            };
            let (group, known) = match grouping {
                Some(grouping) => place(grouping.terms[0]),
                None => (None, vec![silo.map(|_| 0)]),
            };
            let name = grouping.map_or_else(|| "silo".to_owned(), |own| own.name.clone());
            blocks.push(BlockPlaces { block, width: own.width, name, group, known });
        }
        let names = plan.model.plan().across.iter().map(|own| own.effects.group.as_str());
        let across = names.zip(plan.chain.across.iter().map(|term| &rows.places.groups[*term])).collect();
        Self { blocks, across }
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
            let blocks = self
                .blocks
                .iter()
                .map(|own| (own.name.as_str(), own.known[own.group.map_or(0, |group| group[row])].is_some()));
            let across = self.across.iter().map(|(name, own)| (*name, own.group[row] < own.agreed));
            let mut words: Vec<String> = Vec::new();
            for (name, is_known) in blocks.chain(across) {
                let word = format!("{name} {}", if is_known { "known" } else { "new" });
                if !words.contains(&word) {
                    words.push(word);
                }
            }
            words.join(", ")
        };
        (0..rows).map(of_row).collect()
    }
}

/// Adds what was found of every row to the draws of each.
fn put(all: &mut [Vec<f64>], found: Vec<(String, Array)>) {
    let values = found.into_iter().flat_map(|(_, own)| own.values);
    all.iter_mut().zip(values).for_each(|(own, value)| own.push(value));
}

/// Mean, standard deviation and quantiles with commas between them.
fn numbers(own: &SiteSummary) -> String {
    let SiteSummary { mean, sd, quantiles: q, .. } = own;
    let all = [*mean, *sd, q.p2_5, q.p50, q.p97_5];
    cells(all)
}

/// The names of the columns of a prediction, after those that say which row it is.
pub(super) const COLUMNS: &str = "groups,mean,sd,p2_5,p50,p97_5,new_mean,new_sd,new_p2_5,new_p50,new_p97_5";

impl Prediction {
    /// The predictions as comma-separated values, a row a line, with the names of their silos or files.
    #[must_use]
    pub fn csv(predictions: &[(String, Self)]) -> String {
        let has_levels = predictions.iter().any(|(_, own)| !own.levels.is_empty());
        let columns = if has_levels { "groups,level,probability,sd,p2_5,p50,p97_5" } else { COLUMNS };
        let mut text = format!("file,row,{columns}\n");
        for (name, own) in predictions {
            for (row, (number, groups)) in own.rows.iter().zip(&own.groups).enumerate() {
                for (level, all) in &own.levels {
                    let place = format!("{},{number},{},{}", quoted(name), quoted(groups), quoted(level));
                    text += &format!("{place},{}\n", numbers(&all[row]));
                }
            }
            let outcomes = own.expected.iter().zip(&own.outcomes);
            for ((number, groups), (expected, outcome)) in own.rows.iter().zip(&own.groups).zip(outcomes) {
                let numbers = [expected, outcome].map(numbers);
                text += &format!("{},{number},{},{}\n", quoted(name), quoted(groups), numbers.join(","));
            }
        }
        text
    }
}
