//! Counts numbers and takes their mean and squares about it, of one silo or, merged, of all.

use serde::{Deserialize, Serialize};

/// The count $`n`$ of numbers, their mean $`m`$, and $`\sum (x - m)^2`$.
///
/// # Example
/// ```
/// use partita_formula::Moments;
/// let mut moments = Moments::of(&[1.0, 3.0]);
/// moments.add(&Moments::of(&[8.0]));
/// assert_eq!((moments.count, moments.mean), (3, 4.0));
/// assert!((moments.sd() - 13.0_f64.sqrt()).abs() < 1e-12);
/// ```
///
/// # References
/// T. F. Chan, G. H. Golub and R. J. LeVeque, "Algorithms for computing the sample variance", 1983.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Moments {
    /// The count.
    pub count: u64,
    /// The mean.
    pub mean: f64,
    /// The sum of squares about the mean.
    pub squares: f64,
}

impl Moments {
    /// The moments of `values`; of none, zeros.
    #[must_use]
    pub fn of(values: &[f64]) -> Self {
        let count = values.len() as u64;
        let mean = values.iter().sum::<f64>() / (count.max(1) as f64);
        // The second sum is zero but for the rounding of the mean, which it takes out.
        let (squares, rest) = values.iter().map(|x| x - mean).fold((0.0, 0.0), |(s, r), d| (s + d * d, r + d));
        Self { count, mean, squares: squares - rest * rest / (count.max(1) as f64) }
    }

    /// Adds the moments of other numbers.
    pub fn add(&mut self, other: &Self) {
        let (n, m) = (self.count as f64, other.count as f64);
        let apart = other.mean - self.mean;
        self.count = self.count.saturating_add(other.count);
        let all = (self.count.max(1)) as f64;
        self.mean += apart * m / all;
        self.squares += other.squares + apart * apart * n * m / all;
    }

    /// The standard deviation, with the divisor $`n - 1`$.
    #[must_use]
    pub fn sd(&self) -> f64 {
        (self.squares / (self.count as f64 - 1.0)).sqrt()
    }

    pub(crate) fn is_plain(&self) -> bool {
        self.count > 0 && self.mean.is_finite() && self.squares.is_finite() && self.squares >= 0.0
    }
}
