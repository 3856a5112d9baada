//! Merges the profiles of silos, in their order, to what all of them compute their designs with.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::histogram::range;
use super::item::{ChebyshevSums, DesignPart};
use super::{AgreementError, Boundary, Declared, Histogram, Item, Moments, OrthogonalPolynomial, Profile};
use crate::read::ColumnKind;
use crate::syntax::number_text;

/// What silos agree on. It is the same at all parties, and says nothing of one silo but its name and number of rows.
///
/// # Laws
/// Of the rows of several files, and of these rows in one file, the agreement is the same up to rounding
/// (`three_silos_with_an_agreement_have_the_designs_of_the_pooled_file`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Agreement {
    /// The silos, in the order of the merge, with the rows used of those that say it.
    pub silos: Vec<(String, Option<u64>)>,
    /// What columns hold.
    pub kinds: BTreeMap<String, ColumnKind>,
    /// The levels of factors: by size if all are numbers, or by their bytes.
    pub levels: BTreeMap<String, Vec<String>>,
    /// The moments for `scale`.
    pub moments: BTreeMap<String, Moments>,
    /// The ranges and knots for `bs`.
    pub splines: BTreeMap<String, Boundary>,
    /// The polynomials of `poly`.
    pub polynomials: BTreeMap<String, OrthogonalPolynomial>,
    /// What the study fixed.
    pub declared: Declared,
}

impl Agreement {
    /// Merges `profiles`, one a silo, made with the same formulas and the same `declared`.
    ///
    /// # Errors
    /// [`AgreementError`], which names the silos that differ.
    pub fn merge(profiles: &[Profile], declared: &Declared) -> Result<Self, AgreementError> {
        one_each(profiles)?;
        let mut agreement = Self {
            silos: Vec::new(),
            kinds: BTreeMap::new(),
            levels: BTreeMap::new(),
            moments: BTreeMap::new(),
            splines: BTreeMap::new(),
            polynomials: BTreeMap::new(),
            declared: declared.clone(),
        };
        let mut items: BTreeMap<String, Vec<(&str, &Item)>> = BTreeMap::new();
        for profile in profiles {
            let rows = profile.items.iter().find_map(|item| match item {
                Item::Rows { used, .. } => Some(*used),
                _ => None,
            });
            agreement.silos.push((profile.silo.clone(), rows));
            for item in &profile.items {
                let name = item.name();
                if !item.is_plain() {
                    return Err(AgreementError::Malformed { silo: profile.silo.clone(), item: name });
                }
                items.entry(name).or_default().push((&profile.silo, item));
            }
        }
        // What is said of designs is said later, and the number of rows is told by their sums too.
        let later = |name: &str| name == "rows" || DesignPart::ALL.iter().any(|part| part.name() == name);
        let needed = |name: &&String| !later(name);
        for profile in profiles {
            if let Some(item) = profile.refused.iter().find(needed) {
                return Err(AgreementError::Refused { silo: profile.silo.clone(), item: item.clone() });
            }
        }
        for (name, of) in items.iter().filter(|(name, _)| needed(name)) {
            let lacks = profiles.iter().find(|profile| of.iter().all(|(silo, _)| *silo != profile.silo));
            if let (Some(lacks), Some((has, _))) = (lacks, of.first()) {
                let (item, has, lacks) = (name.clone(), (*has).to_owned(), lacks.silo.clone());
                return Err(AgreementError::Absent { item, has, lacks });
            }
            agreement.add(of)?;
        }
        Ok(agreement)
    }

    /// What one should know of levels that differ in case and white space alone, a line for each such factor: two silos may
    /// write one level in two ways.
    #[must_use]
    pub fn levels_alike(&self) -> Vec<String> {
        let written = |level: &str| level.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
        let of = |(name, levels): (&String, &Vec<String>)| {
            let mut seen: BTreeMap<String, &String> = BTreeMap::new();
            levels.iter().find_map(|level| {
                let first = seen.insert(written(level), level)?;
                Some(format!(
                    "warning: the levels {first:?} and {level:?} of `{name}` differ in case or white space alone, and are taken as two: write them alike in all files if they are one"
                ))
            })
        };
        self.levels.iter().filter_map(of).collect()
    }

    /// The levels of the factor or grouping `label`, those of the study first.
    pub(crate) fn levels_of(&self, label: &str) -> Option<&Vec<String>> {
        self.declared.levels.get(label).or_else(|| self.levels.get(label))
    }

    /// Adds the items of one name, one a silo.
    fn add(&mut self, items: &[(&str, &Item)]) -> Result<(), AgreementError> {
        let Some((_, first)) = items.first() else { return Ok(()) };
        match first {
            Item::Rows { .. } | Item::Design { .. } => {}
            Item::Kind { of, kind } => {
                for (silo, item) in items {
                    if let (Item::Kind { kind: other_kind, .. }, Some((one, _))) = (item, items.first())
                        && other_kind != kind
                    {
                        return Err(AgreementError::Kind {
                            column: of.clone(),
                            one: (*one).into(),
                            kind: *kind,
                            other: (*silo).into(),
                            other_kind: *other_kind,
                        });
                    }
                }
                self.kinds.insert(of.clone(), *kind);
            }
            Item::Levels { of, .. } => {
                let all = items.iter().filter_map(|(silo, item)| match item {
                    Item::Levels { levels, .. } => Some((*silo, levels.as_slice())),
                    _ => None,
                });
                let all: Vec<(&str, &[String])> = all.collect();
                written_alike(of, &all)?;
                self.levels.insert(of.clone(), union(all.iter().flat_map(|(_, levels)| *levels)));
            }
            Item::MeanSd { of, .. } => {
                let mut moments = Moments { count: 0, mean: 0.0, squares: 0.0 };
                items.iter().for_each(|(_, item)| {
                    if let Item::MeanSd { moments: part, .. } = item {
                        moments.add(part);
                    }
                });
                self.moments.insert(of.clone(), moments);
            }
            Item::Range { of, .. } => {
                let ends = items.iter().filter_map(|(_, item)| match item {
                    Item::Range { low, high, .. } => Some([*low, *high]),
                    _ => None,
                });
                let (low, high) = range(&ends.flatten().collect::<Vec<f64>>()).unwrap_or((f64::NAN, f64::NAN));
                self.splines.insert(of.clone(), Boundary { low, high, knots: Vec::new() });
            }
            Item::Quantiles { of, counts: first } => {
                let all: Vec<&Histogram> = same(items, |item| match item {
                    Item::Quantiles { counts, .. } => Some(counts).filter(|own| own.knots == first.knots),
                    _ => None,
                })?;
                let Some(counts) = Histogram::merged(&all) else {
                    let (expected, remedy) = if of.starts_with("surv(") {
                        (
                            "an event",
                            "No row of any silo has a status of 1: look whether the column of the status is the right one.",
                        )
                    } else {
                        ("a row of which it is known", "Leave it out.")
                    };
                    let (call, expected) = (of.clone(), expected.into());
                    return Err(AgreementError::TooFewValues { call, expected, remedy });
                };
                let knots = counts.quantiles();
                self.splines.insert(of.clone(), Boundary { low: counts.low, high: counts.high, knots });
            }
            Item::Sums { of, sums: first } => {
                let all: Vec<&ChebyshevSums> = same(items, |item| match item {
                    Item::Sums { sums, .. } => Some(sums).filter(|sums| sums.sums.len() == first.sums.len()),
                    _ => None,
                })?;
                let polynomial = OrthogonalPolynomial::of(&all).ok_or_else(|| AgreementError::TooFewValues {
                    call: of.clone(),
                    expected: format!("more than {} values that differ", first.sums.len() / 2),
                    remedy: "Lower the degree.",
                })?;
                self.polynomials.insert(of.clone(), polynomial);
            }
        }
        Ok(())
    }
}

/// What `of` takes from each item, or an error that names the silo whose item is of another shape.
fn same<'a, T>(
    items: &[(&str, &'a Item)],
    of: impl Fn(&'a Item) -> Option<&'a T>,
) -> Result<Vec<&'a T>, AgreementError> {
    let one = |(silo, item): &(&str, &'a Item)| {
        of(item).ok_or_else(|| AgreementError::Malformed { silo: (*silo).into(), item: item.name() })
    };
    items.iter().map(one).collect()
}

fn one_each(profiles: &[Profile]) -> Result<(), AgreementError> {
    let twice = (1..profiles.len()).find(|at| profiles[..*at].iter().any(|other| other.silo == profiles[*at].silo));
    match (profiles.is_empty(), twice) {
        (true, _) => Err(AgreementError::Silos { found: "none".into() }),
        (_, Some(at)) => Err(AgreementError::Silos { found: format!("two of silo `{}`", profiles[at].silo) }),
        _ => Ok(()),
    }
}

/// Refuses levels that are one number and that silos write in several ways; one that writes two of them means two levels.
fn written_alike(of: &str, silos: &[(&str, &[String])]) -> Result<(), AgreementError> {
    let mut spellings: BTreeMap<String, BTreeMap<&String, Vec<String>>> = BTreeMap::new();
    for (silo, levels) in silos {
        for level in *levels {
            let alike = spellings.entry(level.split(':').map(as_number).collect::<Vec<_>>().join(":")).or_default();
            alike.entry(level).or_default().push((*silo).into());
        }
    }
    let has_both = |alike: &BTreeMap<&String, Vec<String>>| {
        silos.iter().any(|(_, levels)| levels.iter().filter(|level| alike.contains_key(level)).count() > 1)
    };
    match spellings.into_values().find(|alike| alike.len() > 1 && !has_both(alike)) {
        None => Ok(()),
        Some(alike) => {
            let spellings = alike.into_iter().map(|(level, silos)| (level.clone(), silos)).collect();
            Err(AgreementError::Spellings { of: of.into(), spellings })
        }
    }
}

/// A number as R writes it, if it has no more digits than a number keeps; any other text as it is.
fn as_number(text: &str) -> String {
    let number = text.parse::<f64>().ok().filter(|own| own.is_finite());
    let digits = text.trim_start_matches(['-', '+', '0']).bytes().filter(u8::is_ascii_digit).count();
    number.filter(|_| digits <= 15).map_or_else(|| text.to_owned(), number_text)
}

/// The levels of all silos, each once: by size if all are numbers, or by their bytes.
fn union<'a>(silos: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut levels: Vec<String> = silos.cloned().collect();
    levels.sort_unstable();
    levels.dedup();
    let numbers: Option<Vec<f64>> = levels.iter().map(|level| level.parse().ok()).collect();
    if let Some(numbers) = numbers.filter(|numbers: &Vec<f64>| numbers.iter().all(|number| number.is_finite())) {
        let mut order: Vec<usize> = (0..levels.len()).collect();
        order.sort_by(|a, b| numbers[*a].total_cmp(&numbers[*b]));
        levels = order.into_iter().map(|at| levels[at].clone()).collect();
    }
    levels
}
