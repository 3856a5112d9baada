//! Names a statistic of observed numbers, in words that a file and a message hold, and takes it.

use std::fmt;
use std::str::FromStr;

use partita_core::Array;
use serde::{Deserialize, Serialize};

use crate::engine::error::{Error, Result};
use crate::engine::family::real;

/// A number that sums up what was observed at a site, by which data and replicates of them are compared.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Statistic {
    /// The mean; of zeros and ones their part of ones.
    Mean,
    /// The standard deviation, with the number of observations as its divisor.
    StandardDeviation,
    /// The smallest.
    Smallest,
    /// The largest.
    Largest,
    /// The part that is zero.
    Zeros,
    /// The smallest number that at least such a part of the observations does not exceed, from 0 to 1.
    Quantile(f64),
    /// The standard deviation of the means of outermost rows, such as patients with all visits: how much they differ.
    DeviationOfRows,
}

const NAMES: [(&str, Statistic); 6] = [
    ("mean", Statistic::Mean),
    ("sd", Statistic::StandardDeviation),
    ("smallest", Statistic::Smallest),
    ("largest", Statistic::Largest),
    ("zeros", Statistic::Zeros),
    ("sd of rows", Statistic::DeviationOfRows),
];
const QUANTILE: &str = "quantile ";

impl Statistic {
    /// The statistic of what a site has; not a number where it has nothing.
    ///
    /// # Shapes
    /// `values`: rows along the first axis; `outermost`: the outermost row of each, where they stand in others.
    #[must_use]
    pub fn of(self, Array { values, shape }: &Array, outermost: Option<&[usize]>) -> f64 {
        match self {
            Self::Mean => mean(values),
            Self::StandardDeviation => deviation(values),
            Self::Smallest => values.iter().copied().reduce(f64::min).unwrap_or(f64::NAN),
            Self::Largest => values.iter().copied().reduce(f64::max).unwrap_or(f64::NAN),
            Self::Zeros => mean(&values.iter().map(|own| f64::from(u8::from(own.abs() <= 0.0))).collect::<Vec<_>>()),
            Self::Quantile(part) => quantile(values.clone(), part),
            Self::DeviationOfRows => {
                let rows = shape.first().copied().unwrap_or(1).max(1);
                let width = (values.len() / rows).max(1);
                let mut sums: Vec<(f64, usize)> = Vec::new();
                for (index, own) in values.chunks(width).enumerate() {
                    let row = outermost.map_or(Some(index), |rows| rows.get(index).copied()).unwrap_or(index);
                    sums.resize(sums.len().max(row + 1), (0.0, 0));
                    sums[row].0 += own.iter().sum::<f64>();
                    sums[row].1 += own.len();
                }
                let seen = sums.iter().filter(|(_, count)| *count > 0);
                deviation(&seen.map(|(sum, count)| sum / real(*count)).collect::<Vec<_>>())
            }
        }
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / real(values.len())
}

fn deviation(values: &[f64]) -> f64 {
    let centre = mean(values);
    mean(&values.iter().map(|own| (own - centre).powi(2)).collect::<Vec<_>>()).sqrt()
}

fn quantile(mut values: Vec<f64>, part: f64) -> f64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a length")]
    let place = ((part * real(values.len())).ceil() as usize).clamp(1, values.len().max(1)) - 1;
    if values.is_empty() { f64::NAN } else { *values.select_nth_unstable_by(place, f64::total_cmp).1 }
}

impl fmt::Display for Statistic {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, NAMES.iter().find(|(_, own)| own == self)) {
            (_, Some((name, _))) => formatter.write_str(name),
            (Self::Quantile(part), None) => write!(formatter, "{QUANTILE}{part}"),
            (_, None) => Err(fmt::Error),
        }
    }
}

/// A posterior predictive check: a statistic of what is observed at a site. Its text is such as `mean of wheeze`,
/// `zeros of visits`, `quantile 0.9 of cost` or `sd of rows of wheeze`.
///
/// # Example
/// ```
/// use partita_inference::{PredictiveCheck, Statistic};
/// let check: PredictiveCheck = "quantile 0.9 of cost".parse()?;
/// assert_eq!(check, PredictiveCheck { statistic: Statistic::Quantile(0.9), site: "cost".into() });
/// assert_eq!(check.to_string(), "quantile 0.9 of cost");
/// assert!("mode of cost".parse::<PredictiveCheck>().is_err());
/// # Ok::<(), partita_inference::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PredictiveCheck {
    /// What is compared.
    pub statistic: Statistic,
    /// The observed site.
    pub site: String,
}

impl fmt::Display for PredictiveCheck {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} of {}", self.statistic, self.site)
    }
}

impl From<PredictiveCheck> for String {
    fn from(check: PredictiveCheck) -> Self {
        check.to_string()
    }
}

impl TryFrom<String> for PredictiveCheck {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl FromStr for PredictiveCheck {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut named = NAMES.iter().filter_map(|(name, own)| Some((*own, site(text.strip_prefix(name)?)?)));
        // `sd of rows of y` is the statistic of the longer name: no site has the name `rows of y` by accident.
        let (named, of_quantile) = (named.next_back(), || {
            let (part, site) = text.strip_prefix(QUANTILE)?.split_once(" of ")?;
            let part: f64 = part.trim().parse().ok().filter(|part| (0.0..=1.0).contains(part))?;
            Some((Statistic::Quantile(part), site))
        });
        match named.or_else(of_quantile) {
            Some((statistic, site)) if !site.is_empty() && !site.contains('\n') => {
                Ok(Self { statistic, site: site.to_owned() })
            }
            _ => Err(Error::Setting {
                setting: "checks",
                found: format!("`{text}`"),
                expected: "a statistic of an observed site: `mean of y`, `sd of y`, `smallest of y`, `largest of y`, `zeros of y`, `sd of rows of y`, or `quantile 0.9 of y`",
            }),
        }
    }
}

/// What follows the name of a statistic.
fn site(rest: &str) -> Option<&str> {
    rest.strip_prefix(" of ")
}
