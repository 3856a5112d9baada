//! Says what one should know of the files of silos before a fit: what they hold that decides what the fit can find.

use std::collections::{BTreeMap, HashMap};

use partita_formula::{Agreement, Columns, Design, GroupScope, Outcome};
use partita_models::regression::Link;

use super::Study;
use super::family::Kind;
use super::priors::INTERCEPT;
use super::summary::{DesignSummary, RandomSummary};

impl Study {
    /// What one should know of what silos agree on: levels that differ in case alone, which of two levels of text is the event,
    /// columns with slopes of groups that lie far from 0, and groups of one row each.
    pub(crate) fn notes_on(&self, agreement: &Agreement, summary: &DesignSummary) -> Vec<String> {
        let mut notes = agreement.levels_alike();
        if let ([other, event], Kind::Bernoulli) = (summary.levels.as_slice(), self.family.kind) {
            let name = self.outcome();
            notes.push(format!(
                "the model is of the chance that `{name}` is {event:?}, against {other:?}; of the other by `factor({name}, levels = c({event:?}, {other:?}))`"
            ));
        }
        notes.extend(self.never_happens(summary));
        notes.extend(far_from_zero(summary));
        notes.extend(self.groups_of_one_row(summary));
        notes
    }

    /// What one should know of groups where no party sees the names of another's: a line for each grouping within silos.
    pub(crate) fn notes_of_groups(&self) -> Vec<String> {
        let of = |name: String| {
            format!(
                "groups of `{name}` are of one silo each: a group that two silos have, by the same name, is taken as two. If groups \
                 span silos, write `groups_across_silos = [\"{name}\"]` into `[declared]` of study.toml at all parties; silos then \
                 say the names"
            )
        };
        self.groupings().into_iter().map(|own| of(own.label())).collect()
    }

    /// Groups of one row each, whose intercepts are a second residual: rows tell the sum of both variances alone.
    fn groups_of_one_row(&self, summary: &DesignSummary) -> Option<String> {
        let has_residual = match self.family.kind {
            Kind::Gaussian => self.family.link == Link::Identity,
            Kind::LogNormal | Kind::HurdleLogNormal => true,
            _ => false,
        };
        // Weights, and a sigma that follows columns, tell the two apart.
        let varies = self.formula.has_weights() || summary.parameters.iter().any(|(name, _)| name == "sigma");
        // Levels that the study declares may have no row, and rows that stand in for a silo's say nothing of its groups.
        let is_alone = |term: &&RandomSummary| {
            let has_intercept = term.columns.iter().any(|column| column == INTERCEPT);
            let is_counted = self.stand_in.is_none() && !self.declared.levels.contains_key(&term.grouping);
            has_intercept && is_counted && term.groups == summary.sums.count
        };
        let term = summary.random.iter().find(is_alone).filter(|_| has_residual && !varies)?;
        let group = &term.grouping;
        Some(format!(
            "every group of `{group}` has one row: sd({INTERCEPT} | {group}) and sigma cannot be told apart, and hang on their \
             priors. Take `(1 | {group})` out, or name groups that have several rows"
        ))
    }

    /// What the owner of a silo's file should know of it.
    pub(crate) fn notes_of_file(&self, columns: &Columns) -> Vec<String> {
        left_out(columns).into_iter().chain(columns.doubts(&self.formulas())).collect()
    }

    /// What one should know of the rows of all silos, where they are in one process.
    pub(super) fn notes_of(&self, designs: &[Design]) -> Vec<String> {
        let others = self.no_zeros(designs).into_iter().chain(self.no_events(designs));
        shared_names(designs).into_iter().chain(others).collect()
    }

    /// An outcome of numbers that is zero in all rows of all silos, or for a chance one.
    fn never_happens(&self, summary: &DesignSummary) -> Option<String> {
        let moments = summary.sums.outcome.as_ref().filter(|own| own.count > 0 && self.stand_in.is_none())?;
        let always = |value: f64| (moments.mean - value).abs() <= 0.0 && moments.squares <= 0.0;
        let value = match self.family.kind {
            Kind::Bernoulli if always(1.0) => 1,
            kind if always(0.0) && !matches!(kind, Kind::Gaussian | Kind::Student) => 0,
            _ => return None,
        };
        Some(format!("`{}` is {value} in every row of all silos: {FROM_THE_PRIOR}", self.outcome()))
    }

    /// Events of times that no silo has, and two levels of which only one is in the files.
    fn no_events(&self, designs: &[Design]) -> Option<String> {
        let name = self.outcome();
        let statuses = || designs.iter().flat_map(|own| own.status.iter().flatten());
        if statuses().next().is_some() && statuses().all(|own| *own <= 0.0) {
            return Some(format!("`{name}` has no event in any silo, every time is censored: {FROM_THE_PRIOR}"));
        }
        if self.family.kind != Kind::Bernoulli {
            return None;
        }
        let mut found = designs.iter().flat_map(|own| match &own.outcome {
            Some(Outcome::Levels { levels, codes }) => {
                codes.iter().filter_map(|code| levels.get(*code)).collect::<Vec<&String>>()
            }
            _ => Vec::new(),
        });
        let first = found.next()?;
        found
            .all(|own| own == first)
            .then(|| format!("`{name}` is {first:?} in every row of all silos: {FROM_THE_PRIOR}"))
    }

    /// What one should know of zeros that a family has a probability of, and no silo has.
    fn no_zeros(&self, designs: &[Design]) -> Option<String> {
        let has_zero = |design: &Design| match &design.outcome {
            Some(Outcome::Numbers(values)) => values.iter().any(|y| y.abs() <= 0.0),
            _ => true,
        };
        let (parameter, remedy) = match self.family.kind {
            Kind::ZeroInflatedPoisson | Kind::ZeroInflatedNegativeBinomial | Kind::ZeroInflatedBinomial => {
                ("zi", "the family without `zero_inflated_` says the same of the mean")
            }
            Kind::HurdleGamma | Kind::HurdleLogNormal => {
                ("hu", "the family without `hurdle_` says the same of the mean")
            }
            Kind::HurdlePoisson | Kind::HurdleNegativeBinomial => (
                "hu",
                "where zeros could have been counted take the family without `hurdle_`; where not, a prior such as \
                 `--prior 'hu ~ beta(2, 20)'` lets the fit be judged",
            ),
            _ => return None,
        };
        (!designs.iter().any(has_zero)).then(|| {
            format!(
                "`{}` is zero in no row of any silo: all that is known of `{parameter}` is that it is small, which hangs on its \
                 prior; {remedy}",
                self.outcome()
            )
        })
    }
}

/// What a fit says of an outcome that does not vary.
const FROM_THE_PRIOR: &str = "no likelihood is largest, and rows say of the intercept in which direction it lies alone. How far it lies \
                              follows from the prior, and so do the coefficients. Look whether the column is the right one, state \
                              what is known (`--prior '(Intercept) ~ normal(-4, 1)'`, in a study `[priors]`), or add rows that differ";

/// How many standard deviations of a column its mean may be from 0 where groups have intercepts and slopes of it.
const FAR: f64 = 20.0;

/// Columns far from 0 with slopes of groups: intercepts, at 0, then hang on the slopes so closely that few methods find either.
fn far_from_zero(summary: &DesignSummary) -> Vec<String> {
    let sums = &summary.sums;
    let columns = sums.names.iter().zip(sums.means.iter().zip(sums.sds()));
    let far = columns.filter(|(_, (mean, sd))| mean.abs() > FAR * sd && *sd > 0.0);
    let of_terms = |(name, (mean, sd)): (&String, (&f64, f64))| {
        let has =
            |own: &&RandomSummary| own.columns.contains(name) && own.columns.iter().any(|column| column == INTERCEPT);
        let term = summary.random.iter().find(has)?;
        let middle = mean.round();
        Some(format!(
            "`{name}` is about {middle} in all rows, {:.0} of its standard deviations from 0, where the intercepts of `{}` are: \
             a fit may not find them. Write `I({name} - {middle})` in place of `{name}`",
            mean.abs() / sd,
            term.grouping
        ))
    };
    far.filter_map(of_terms).collect()
}

/// Groups of one name in several files, which are taken as different: of each grouping the first such name.
fn shared_names(designs: &[Design]) -> Vec<String> {
    let (mut first, mut notes) = (HashMap::new(), BTreeMap::new());
    for design in designs {
        for term in design.random.iter().filter(|term| term.scope == GroupScope::WithinSilo) {
            let grouping = term.grouping.as_str();
            for name in &term.levels {
                let silo = *first.entry((grouping, name)).or_insert(&design.silo);
                if silo != &design.silo {
                    notes.entry(grouping).or_insert_with(|| said_twice(grouping, name, [silo, &design.silo]));
                }
            }
        }
    }
    notes.into_values().collect()
}

fn said_twice(grouping: &str, name: &str, [one, other]: [&String; 2]) -> String {
    format!(
        "`{grouping}` has a group `{name}` in silo `{one}` and in silo `{other}`: they are taken as different groups, each of \
         its silo. If they are the same, say `--across-silos {grouping}`, or `groups_across_silos = [\"{grouping}\"]` in \
         `[declared]` of a study."
    )
}

/// That rows are left out.
fn left_out(columns: &Columns) -> Option<String> {
    let lost = columns.dropped();
    let rows = if lost == 1 { "row with missing cells was" } else { "rows with missing cells were" };
    (lost > 0).then(|| format!("{}: {lost} {rows} left out", columns.silo()))
}

#[cfg(all(test, feature = "cli"))]
mod tests {
    use super::*;

    #[test]
    fn groups_that_stay_within_silos_are_told_of_and_others_are_not() {
        let formula = "y ~ x + (1 + x | ward/child) + (1 | school) + (1 | silo)";
        let mut study = Study::new(formula, "gaussian".parse().unwrap()).unwrap();
        study.declared.groups_across_silos.insert("school".into());
        let notes = study.notes_of_groups();
        assert_eq!(notes.len(), 2, "{notes:?}");
        for (note, name) in notes.iter().zip(["child:ward", "ward"]) {
            let words = [format!("groups of `{name}` are of one silo"), format!("groups_across_silos = [\"{name}\"]")];
            assert!(words.iter().all(|own| note.contains(own)), "{note}");
        }
        assert!(Study::new("y ~ x", "gaussian".parse().unwrap()).unwrap().notes_of_groups().is_empty());
    }
}
