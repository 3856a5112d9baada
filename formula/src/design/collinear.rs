//! Finds the columns that others already give, from the sums over all silos, and names these others.

use std::fmt::{Display, Formatter};

use super::sums::ColumnSums;
use crate::syntax::number_text;

/// A column that is a combination of earlier ones in every row of all silos.
#[derive(Debug, Clone, PartialEq)]
pub struct Collinear {
    /// The column.
    pub column: String,
    /// The earlier columns, and how often each is taken.
    pub of: Vec<(String, f64)>,
}

/// The share of a column's square that the others must leave. Sums of products in double precision are good to about
/// 1e-14 of it; a column that leaves less than this has no digits of its own in them.
const LEFT: f64 = 1e-11;

/// Smaller multiples, of columns of unit length, are rounding.
const SHOWN: f64 = 1e-6;

/// The triangle $`L`$ with $`L L^\top`$ the products of columns of unit length, of those that earlier ones do not give.
struct Factor {
    /// The length of every column: about its mean with an intercept, else about zero.
    lengths: Vec<f64>,
    /// The columns that earlier ones do not give, and their rows of the triangle.
    kept: Vec<usize>,
    rows: Vec<Vec<f64>>,
    /// The others, and what they are along the kept ones.
    given: Vec<(usize, Vec<f64>)>,
}

impl ColumnSums {
    /// The place of the intercept.
    pub(super) fn constant(&self) -> Option<usize> {
        self.names.iter().position(|name| name == "(Intercept)")
    }

    /// None if the products are not there.
    fn factor(&self) -> Option<Factor> {
        let products = self.products.as_ref()?;
        let (width, constant, count) = (self.names.len(), self.constant(), self.count as f64);
        // With an intercept, products about the means; else about zero.
        let about = |i: usize, j: usize| if constant.is_some() { 0.0 } else { count * self.means[i] * self.means[j] };
        let product = |i: usize, j: usize| {
            let (high, low) = (i.max(j), i.min(j));
            about(i, j) + if high == low { self.squares[high] } else { products[high * (high - 1) / 2 + low] }
        };
        let lengths: Vec<f64> = (0..width).map(|column| product(column, column).sqrt()).collect();
        let (mut kept, mut rows, mut given) = (Vec::new(), Vec::<Vec<f64>>::new(), Vec::new());
        for column in (0..width).filter(|column| Some(*column) != constant) {
            let length = lengths[column];
            let whole = (count * self.means[column] * self.means[column]).sqrt();
            let mut row: Vec<f64> = Vec::with_capacity(kept.len() + 1);
            let mut left = if length > 1e-7 * whole && length > 0.0 { 1.0 } else { 0.0 };
            if left > 0.0 {
                for (at, other) in kept.iter().enumerate() {
                    let inner = product(column, *other) / (length * lengths[*other]);
                    let known: f64 = row.iter().zip(&rows[at]).map(|(a, b)| a * b).sum();
                    row.push((inner - known) / rows[at][at]);
                }
                left -= row.iter().map(|part| part * part).sum::<f64>();
            }
            if left > LEFT {
                row.push(left.sqrt());
                kept.push(column);
                rows.push(row);
            } else {
                given.push((column, row));
            }
        }
        Some(Factor { lengths, kept, rows, given })
    }

    /// The columns that earlier columns give; none if the products are not there.
    #[must_use]
    pub fn collinear(&self) -> Vec<Collinear> {
        let Some(Factor { lengths, kept, rows, given }) = self.factor() else { return Vec::new() };
        let count = self.count as f64;
        let of = |(column, row): (usize, Vec<f64>)| {
            // A column may be given before all that are kept were.
            let earlier = row.len();
            let multiples = solved(&rows[..earlier], row);
            let mut of: Vec<(usize, f64)> =
                kept.iter().copied().zip(multiples).filter(|(_, m)| m.abs() > SHOWN).collect();
            of.iter_mut().for_each(|(other, multiple)| *multiple *= lengths[column] / lengths[*other]);
            let rest =
                self.means[column] - of.iter().map(|(other, multiple)| multiple * self.means[*other]).sum::<f64>();
            let size = self.means[column].abs() + (self.squares[column] / count).sqrt();
            let mut of: Vec<(String, f64)> = of.into_iter().map(|(other, m)| (self.names[other].clone(), m)).collect();
            if let Some(at) = self.constant().filter(|_| rest.abs() > SHOWN * size) {
                of.insert(0, (self.names[at].clone(), rest));
            }
            Collinear { column: self.names[column].clone(), of }
        };
        given.into_iter().map(of).collect()
    }

    /// The standard deviation of what all other columns leave of each column, with the divisor $`n - 1`$: 0 for one that others
    /// give, and the standard deviation of the column itself if the products are not there.
    ///
    /// ```math
    /// s_j = \big( (n - 1)\, (S^{-1})_{jj} \big)^{-1/2}
    /// ```
    /// with the sums of products $`S`$ about the means, or about zero of columns without an intercept.
    #[must_use]
    pub fn left_sds(&self) -> Vec<f64> {
        let Some(Factor { lengths, kept, rows, given }) = self.factor() else { return self.sds() };
        let mut sds = self.sds();
        given.iter().for_each(|(column, _)| sds[*column] = 0.0);
        for (at, column) in kept.iter().enumerate() {
            // The column `at` of the triangle's inverse.
            let mut inverse = vec![0.0; kept.len()];
            for row in at..kept.len() {
                let before: f64 = (at..row).map(|earlier| rows[row][earlier] * inverse[earlier]).sum();
                inverse[row] = (f64::from(u8::from(row == at)) - before) / rows[row][row];
            }
            let inverse = inverse.iter().map(|own| own * own).sum::<f64>();
            sds[*column] = lengths[*column] / ((self.count as f64 - 1.0) * inverse).sqrt();
        }
        sds
    }
}

/// Solves $`L^\top x = b`$ for the lower triangle in `rows`; nothing where a column is constant.
fn solved(rows: &[Vec<f64>], mut b: Vec<f64>) -> Vec<f64> {
    for at in (0..b.len()).rev() {
        let later: f64 = (at + 1..b.len()).map(|row| rows[row][at] * b[row]).sum();
        b[at] = (b[at] - later) / rows[at][at];
    }
    b
}

impl Display for Collinear {
    fn fmt(&self, out: &mut Formatter<'_>) -> std::fmt::Result {
        let rounded = |multiple: f64| number_text((multiple * 1e6).round() / 1e6);
        let part = |(name, multiple): &(String, f64)| match rounded(*multiple).as_str() {
            "1" => format!("`{name}`"),
            multiple => format!("{multiple} times `{name}`"),
        };
        let parts: Vec<String> = self.of.iter().map(part).collect();
        let of = if parts.is_empty() { "zero in every row".into() } else { parts.join(" plus ") };
        write!(out, "`{}` is {of}", self.column)
    }
}
