//! Counts numbers in cells that every silo has alike, so that counts add up and silos together have the quantiles of the pooled file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The range of numbers, and how many of them have the same first digits.
///
/// A number $`x`$ is cut towards zero to a multiple $`k \, 10^p`$, where the range $`r`$ of the numbers has
/// $`10^{p + 2} \le r < 10^{p + 3}`$: a hundredth to a thousandth of the range. A larger $`p`$ cuts what a smaller one has cut as
/// it cuts the number itself. So the cells of a silo are parts of those that all silos have together.
///
/// # Example
/// ```
/// use partita_formula::Histogram;
/// let ages = Histogram::of(&[31.25, 47.0, 31.29, 80.0], 1);
/// assert_eq!((ages.low, ages.high, ages.knots), (31.25, 80.0, 1));
/// let cells: Vec<(i64, u64)> = ages.cells.iter().map(|cell| (cell.at, cell.rows)).collect();
/// assert_eq!(cells, [(312, 2), (470, 1), (800, 1)]); // in tenths
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Histogram {
    /// The smallest number, zero of none.
    pub low: f64,
    /// The largest number, zero of none.
    pub high: f64,
    /// The cells that have numbers, from the lowest.
    pub cells: Vec<HistogramCell>,
    /// How many quantiles, at probabilities equally far apart, are asked of all silos' numbers.
    pub knots: usize,
}

/// A cell of a histogram: the numbers that are cut to one multiple of its width.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistogramCell {
    /// The multiple $`k`$.
    pub at: i64,
    /// The number of rows.
    pub rows: u64,
}

/// The significant digits that cells tell apart where numbers are far from zero and close to each other.
const DIGITS: i32 = 15;

impl Histogram {
    /// The histogram of `values`, of which `knots` quantiles are asked.
    #[must_use]
    pub fn of(values: &[f64], knots: usize) -> Self {
        let (low, high) = range(values).unwrap_or_default();
        let power = power(low, high);
        Self { low, high, cells: counted(values.iter().map(|value| (cut(*value, power), 1))), knots }
    }

    /// The number of rows.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.cells.iter().fold(0, |sum, cell| sum.saturating_add(cell.rows))
    }

    /// Whether numbers can have given it.
    pub(super) fn is_plain(&self) -> bool {
        let ordered =
            self.cells.is_sorted_by(|one, next| one.at < next.at) && self.cells.iter().all(|cell| cell.rows > 0);
        let total = self.cells.iter().try_fold(0_u64, |sum, cell| sum.checked_add(cell.rows));
        let ranged = self.low.is_finite() && self.high.is_finite() && self.low <= self.high;
        ordered && total.is_some() && ranged && {
            let power = power(self.low, self.high);
            let ends = self.cells.first().zip(self.cells.last());
            ends.is_none_or(|(first, last)| (first.at, last.at) == (cut(self.low, power), cut(self.high, power)))
        }
    }

    /// The histogram of the numbers of all `silos`, which are plain, and none if no silo has a number.
    pub(super) fn merged(silos: &[&Self]) -> Option<Self> {
        let with_rows = silos.iter().filter(|silo| !silo.cells.is_empty());
        let ends: Vec<f64> = with_rows.clone().flat_map(|silo| [silo.low, silo.high]).collect();
        let (low, high) = range(&ends)?;
        let all = power(low, high);
        let coarser = |silo: &&&Self| {
            let finer_by = all.abs_diff(power(silo.low, silo.high));
            // A cell is the cut of one of its own numbers, so that it is cut as they are.
            let width = 10_i64.checked_pow(finer_by);
            silo.cells.iter().map(move |cell| (width.map_or(0, |width| cell.at / width), cell.rows)).collect::<Vec<_>>()
        };
        let knots = silos.first().map_or(0, |silo| silo.knots);
        Some(Self { low, high, cells: counted(with_rows.flat_map(|silo| coarser(&silo))), knots })
    }

    /// The quantiles asked, of the numbers as they are cut, by the definition of R's `quantile`.
    pub(super) fn quantiles(&self) -> Vec<f64> {
        let rows = self.rows();
        let power = power(self.low, self.high);
        let value = |place: u64| {
            let mut before = 0;
            let holds = |cell: &&HistogramCell| {
                before += cell.rows;
                place < before
            };
            let cell = self.cells.iter().find(holds).or(self.cells.last());
            // The lowest cell begins at the smallest number.
            cell.map_or(f64::NAN, |cell| multiple(cell.at, power).clamp(self.low, self.high))
        };
        let quantile = |index: usize| {
            let place = rows.saturating_sub(1) as f64 * ((index + 1) as f64 / (self.knots + 1) as f64);
            let (below, part) = (place.floor() as u64, place.fract());
            value(below) + part * (value(below + 1) - value(below))
        };
        (0..self.knots).map(quantile).collect()
    }

    /// The cells in words, `1.2 (3), 1.3 (1)`.
    pub(super) fn listed(&self) -> String {
        let power = power(self.low, self.high);
        let words: Vec<String> =
            self.cells.iter().map(|cell| format!("{} ({})", multiple(cell.at, power), cell.rows)).collect();
        words.join(", ")
    }
}

/// The smallest and the largest of `values`, if there are any.
pub(super) fn range(values: &[f64]) -> Option<(f64, f64)> {
    let low = values.iter().copied().min_by(f64::total_cmp)?;
    let high = values.iter().copied().max_by(f64::total_cmp)?;
    Some((low, high))
}

/// The cells of numbers that are cut, each with how often it is there.
fn counted(cut: impl Iterator<Item = (i64, u64)>) -> Vec<HistogramCell> {
    let mut cells = BTreeMap::<i64, u64>::new();
    for (at, rows) in cut {
        let cell = cells.entry(at).or_default();
        *cell = cell.saturating_add(rows);
    }
    cells.into_iter().map(|(at, rows)| HistogramCell { at, rows }).collect()
}

/// The power of ten that numbers between `low` and `high` are cut to multiples of. It grows with the range.
fn power(low: f64, high: f64) -> i32 {
    let of = |x: f64| Digits::of(x).magnitude();
    // Twice the largest number is more than the numbers that there are.
    let range = (high - low).min(f64::MAX);
    of(range).saturating_sub(2).max(of(low.abs().max(high.abs())).saturating_sub(DIGITS))
}

/// The number of whole $`10^p`$ in `value`, towards zero.
fn cut(value: f64, power: i32) -> i64 {
    let Digits { whole, exponent } = Digits::of(value);
    let shift = exponent.saturating_sub(power);
    let ten = 10_i64.checked_pow(shift.unsigned_abs());
    match ten {
        Some(ten) if shift >= 0 => whole.saturating_mul(ten),
        Some(ten) => whole / ten,
        None => 0,
    }
}

/// $`k \, 10^p`$, rounded once.
fn multiple(at: i64, power: i32) -> f64 {
    format!("{at}e{power}").parse().unwrap_or(f64::NAN)
}

/// The shortest decimal number that reads back as the same float: a whole number times a power of ten.
struct Digits {
    whole: i64,
    exponent: i32,
}

impl Digits {
    fn of(value: f64) -> Self {
        let text = format!("{value:e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (first, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        // A float has at most seventeen digits.
        let whole = format!("{first}{part}").parse().unwrap_or(0);
        Self { whole, exponent: exponent.parse().unwrap_or(0) - part.len() as i32 }
    }

    /// The power of ten of its first digit; of zero, less than that of any number.
    fn magnitude(&self) -> i32 {
        self.whole.checked_abs().and_then(i64::checked_ilog10).map_or(i32::MIN / 2, |log| log as i32 + self.exponent)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_are_cut_by_their_decimal_digits() {
        for (value, power, expected) in [
            (0.29, -2, 29),
            (0.3, -1, 3),
            (-0.29, -1, -2),
            (2_013.0, 0, 2_013),
            (2_013.0, 1, 201),
            (1e300, 298, 100),
            (5e-324, -324, 5),
            (0.0, i32::MIN / 2, 0),
            (123.0, 200, 0),
        ] {
            assert_eq!(cut(value, power), expected, "{value} to {power}");
        }
        assert_eq!([power(0.0, 99.0), power(2_001.0, 2_020.0), power(7.0, 7.0)], [-1, -1, -15]);
        assert!(power(-f64::MAX, f64::MAX) == 306 && power(1e15, 1e15 + 0.25) == 0);
        assert_eq!((multiple(29, -2), multiple(-7, -1), multiple(0, i32::MIN / 2)), (0.29, -0.7, 0.0));
    }

    #[test]
    fn quantiles_are_those_of_r_where_cells_cut_nothing_off() {
        let even: Vec<f64> = (0..=100).map(f64::from).collect();
        assert_eq!(Histogram::of(&even, 3).quantiles(), [25.0, 50.0, 75.0]);
        // quantile(c(1, 2, 4, 8), 1:4 / 5), and a constant.
        let four = Histogram::of(&[8.0, 1.0, 4.0, 2.0], 4).quantiles();
        let expected = [1.6, 2.4, 3.6, 5.6];
        assert!(four.iter().zip(expected).all(|(found, own)| (found - own).abs() < 1e-12), "{four:?}");
        assert_eq!(Histogram::of(&[7.0; 5], 3).quantiles(), [7.0; 3]);
        // Cut to tenths; the lowest cell begins at the smallest number.
        assert_eq!(Histogram::of(&[10.06, 10.07, 95.0], 1).quantiles(), [10.06]);
        assert_eq!(Histogram::of(&[10.06, 40.37, 95.0], 1).quantiles(), [40.3]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: proptest::test_runner::RngSeed::Fixed(26), failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn silos_together_are_the_pooled_file(
            digits in proptest::collection::vec((-100_000_i64..100_000, 0_usize..3), 1..60),
            scale in -6..6_i32,
            shift in prop_oneof![Just(0.0), Just(2_000.0), Just(-1e12)],
        ) {
            let values: Vec<f64> = digits.iter().map(|(digit, _)| shift + multiple(*digit, scale)).collect();
            let of = |silo: usize| {
                let own: Vec<f64> = values.iter().zip(&digits).filter(|(_, (_, at))| *at == silo).map(|(value, _)| *value).collect();
                Histogram::of(&own, 5)
            };
            let silos = [of(0), of(1), of(2)];
            let pooled = Histogram::of(&values, 5);
            prop_assert!(silos.iter().all(Histogram::is_plain) && pooled.is_plain());
            prop_assert!(pooled.cells.len() <= 1_001);
            let merged = Histogram::merged(&[&silos[0], &silos[1], &silos[2]]).unwrap();
            prop_assert_eq!(merged.quantiles(), pooled.quantiles());
            prop_assert_eq!(merged, pooled);
        }
    }
}
