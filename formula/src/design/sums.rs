//! Sums the columns of a silo's design, from which all silos learn their scales and which columns say the same.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::error::DesignError;
use super::matrix::{Design, Matrix};
use super::outcome::Outcome;
use crate::agree::Moments;

/// Count, means and products about the means of the columns of a design, and the moments of outcome and offset.
///
/// A silo sends it after the agreement: it needs the columns that all have. Of the products an owner may send the
/// squares alone ([`ColumnSums::without_products`]); then no party learns which columns are collinear.
///
/// # Example
/// ```
/// # use partita_formula::{Agreement, Declared, Design, Formula, Frame, MissingCells, Profile, ReadOptions};
/// # let formula = Formula::parse("y ~ age + twice")?;
/// # let text = "y,age,twice\n1,7,14\n2,8,16\n4,9,18\n";
/// # let frame = Frame::from_bytes("north.csv", text.as_bytes(), ReadOptions::default())?;
/// # let columns = frame.columns("north", &[&formula], MissingCells::Refuse)?;
/// # let profile = Profile::of(&[&formula], &columns, &Declared::default())?;
/// # let agreement = Agreement::merge(&[profile], &Declared::default())?;
/// # let design = Design::of(&formula, &columns, &agreement)?;
/// let sums = design.sums(); // of y ~ age + twice, where `twice` is twice the age
/// assert_eq!(sums.sds()[1], 1.0);
/// assert_eq!(sums.collinear()[0].to_string(), "`twice` is 2 times `age`");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColumnSums {
    /// The silo, or the silos merged.
    pub silo: String,
    /// The names of the columns.
    pub names: Vec<String>,
    /// The number of rows.
    pub count: u64,
    /// The mean of each column.
    pub means: Vec<f64>,
    /// The sum of squares of each column about its mean.
    pub squares: Vec<f64>,
    /// The sums of products of two columns about their means, row by row below the diagonal.
    pub products: Option<Vec<f64>>,
    /// The moments of an outcome of numbers.
    pub outcome: Option<Moments>,
    /// The moments of an outcome of numbers less the offset, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub less_offset: Option<Moments>,
    /// The moments of the offset, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<Moments>,
}

impl Design {
    /// The sums of its fixed columns.
    #[must_use]
    pub fn sums(&self) -> ColumnSums {
        let outcome = match &self.outcome {
            Some(Outcome::Numbers(values)) => Some(values),
            _ => None,
        };
        let rest = outcome.zip(self.offset.as_ref()).map(|(outcome, offset)| {
            let rest: Vec<f64> = outcome.iter().zip(offset).map(|(y, own)| y - own).collect();
            Moments::of(&rest)
        });
        ColumnSums {
            outcome: outcome.map(|own| Moments::of(own)),
            less_offset: rest,
            offset: self.offset.as_ref().map(|own| Moments::of(own)),
            ..self.sums_of(&self.fixed)
        }
    }

    /// The sums of the columns of each parameter that has a formula of its own, by its name.
    #[must_use]
    pub fn parameter_sums(&self) -> Vec<(String, ColumnSums)> {
        self.parameters.iter().map(|(name, columns)| (name.clone(), self.sums_of(columns))).collect()
    }

    fn sums_of(&self, columns: &Matrix) -> ColumnSums {
        let width = columns.names.len();
        let rows = || columns.values.chunks_exact(width.max(1));
        let mut means = vec![0.0; width];
        rows().for_each(|row| means.iter_mut().zip(row).for_each(|(mean, value)| *mean += value));
        means.iter_mut().for_each(|mean| *mean /= self.rows.max(1) as f64);
        let (mut squares, mut products) = (vec![0.0; width], vec![0.0; width * width.saturating_sub(1) / 2]);
        let mut about = vec![0.0; width];
        for row in rows() {
            about.iter_mut().zip(row).zip(&means).for_each(|((about, value), mean)| *about = value - mean);
            let mut place = products.iter_mut();
            for (at, one) in about.iter().enumerate() {
                squares[at] += one * one;
                about[..at].iter().zip(&mut place).for_each(|(two, product)| *product += one * two);
            }
        }
        let (silo, names, count) = (self.silo.clone(), columns.names.clone(), self.rows as u64);
        let products = Some(products);
        ColumnSums { silo, names, count, means, squares, products, outcome: None, less_offset: None, offset: None }
    }
}

impl ColumnSums {
    /// Adds the sums of all silos, in their order.
    ///
    /// # Errors
    /// [`DesignError::Columns`] if two silos have other columns, or one's numbers are not as many as its columns.
    pub fn merge(silos: &[Self]) -> Result<Self, DesignError> {
        let mut silos = silos.iter();
        let nothing = || DesignError::Columns { silo: "none".into(), found: Vec::new(), expected: Vec::new() };
        let mut all = silos.next().ok_or_else(nothing)?.clone();
        all.fits(&all.names)?;
        for silo in silos {
            silo.fits(&all.names)?;
            all.add(silo);
        }
        Ok(all)
    }

    fn fits(&self, names: &[String]) -> Result<(), DesignError> {
        let width = names.len();
        let products = self.products.as_ref().is_none_or(|p| p.len() == width * width.saturating_sub(1) / 2);
        if self.names == names && self.means.len() == width && self.squares.len() == width && products {
            return Ok(());
        }
        Err(DesignError::Columns { silo: self.silo.clone(), found: self.names.clone(), expected: names.to_vec() })
    }

    fn add(&mut self, other: &Self) {
        let (n, m) = (self.count as f64, other.count as f64);
        let all = (n + m).max(1.0);
        let apart: Vec<f64> = other.means.iter().zip(&self.means).map(|(two, one)| two - one).collect();
        for (at, apart) in apart.iter().enumerate() {
            self.squares[at] += other.squares[at] + apart * apart * n * m / all;
            self.means[at] += apart * m / all;
        }
        self.products = self.products.take().zip(other.products.as_ref()).map(|(mut sums, others)| {
            let pairs = (0..apart.len()).flat_map(|at| (0..at).map(move |before| (at, before)));
            for ((sum, other), (at, before)) in sums.iter_mut().zip(others).zip(pairs) {
                *sum += other + apart[at] * apart[before] * n * m / all;
            }
            sums
        });
        let both = |(mut one, two): (Moments, Moments)| {
            one.add(&two);
            one
        };
        self.outcome = self.outcome.zip(other.outcome).map(both);
        self.less_offset = self.less_offset.zip(other.less_offset).map(both);
        self.offset = self.offset.zip(other.offset).map(both);
        self.count = self.count.saturating_add(other.count);
        self.silo = format!("{}, {}", self.silo, other.silo);
    }

    /// The sums less the products of two columns.
    #[must_use]
    pub fn without_products(mut self) -> Self {
        self.products = None;
        self
    }

    /// The standard deviation of each column, with the divisor $`n - 1`$.
    #[must_use]
    pub fn sds(&self) -> Vec<f64> {
        self.squares.iter().map(|squares| (squares / (self.count as f64 - 1.0)).sqrt()).collect()
    }

    /// The places of the columns that stand for all levels of a factor, in the place of an intercept: zeros and ones that add up
    /// to one in every row. Empty where there are none.
    #[must_use]
    pub fn levels(&self) -> Range<usize> {
        if self.constant().is_some() {
            return 0..0;
        }
        let count = self.count as f64;
        let is_level = |place: usize| {
            let (mean, squares) = (self.means[place], self.squares[place]);
            (squares - count * mean * (1.0 - mean)).abs() <= 1e-9 * count
        };
        // Of two such columns no row has both.
        let is_apart = |one: usize, other: usize| {
            let product = self.products.as_ref().map(|all| all[one * (one - 1) / 2 + other]);
            product.is_none_or(|own| (own + count * self.means[one] * self.means[other]).abs() <= 1e-9 * count)
        };
        for first in 0..self.names.len() {
            let mut sum = 0.0;
            for place in first..self.names.len() {
                if !is_level(place) || !(first..place).all(|other| is_apart(place, other)) {
                    break;
                }
                sum += self.means[place];
                if (sum - 1.0).abs() <= 1e-9 {
                    return first..place + 1;
                }
            }
        }
        0..0
    }
}
