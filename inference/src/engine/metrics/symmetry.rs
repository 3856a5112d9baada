//! Tests whether probabilities lie symmetrically around one half: whether an answer is as often too high as too low.

use serde::{Deserialize, Serialize};

use super::real;

/// How far probabilities are from symmetry around one half.
///
/// Where $`p_r = q_r(z < z_r)`$ is the probability, under the approximation fitted to data drawn at $`z_r`$, of what is
/// below $`z_r`$, a symmetric distribution of the $`p_r`$ says that the centre of the approximation is unbiased.
///
/// # References
/// Yao, Vehtari, Simpson and Gelman (2018), Yes, but did it work? Evaluating variational inference, ICML, section 3 (VSBC);
/// Butler (1969), A test for symmetry using the sample distribution function.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Symmetry {
    /// The Kolmogorov-Smirnov distance between the probabilities and one minus them.
    pub distance: f64,
    /// The probability of at least this distance where the distribution is symmetric.
    pub p_value: f64,
}

/// Distances from one half that differ by less are one distance.
const EQUAL: f64 = 1e-12;

impl Symmetry {
    /// Of these probabilities.
    ///
    /// The distance is $`D = \max_k |S_k| / n`$, where $`S_k`$ adds up the signs of $`p - 1/2`$ of the $`k`$ probabilities
    /// farthest from one half. Under symmetry signs are those of fair coins, so that $`S`$ is a random walk: the p-value is
    /// exact, where probabilities are continuous. The usual two-sample test is not, since both samples are one.
    ///
    /// # Example
    /// ```
    /// use partita_inference::metrics::Symmetry;
    /// let found = Symmetry::of(&[0.6, 0.7, 0.8, 0.9]);
    /// // All four coins show heads, or all tails.
    /// assert_eq!((found.distance, found.p_value), (1.0, 0.125));
    /// ```
    #[must_use]
    pub fn of(probabilities: &[f64]) -> Self {
        let mut centred: Vec<f64> = probabilities.iter().map(|probability| probability - 0.5).collect();
        centred.retain(|own| own.abs() > EQUAL);
        centred.sort_by(|a, b| b.abs().total_cmp(&a.abs()));
        let (mut sum, mut largest) = (0.0_f64, 0.0_f64);
        for (index, own) in centred.iter().enumerate() {
            sum += own.signum();
            let is_tied = centred.get(index + 1).is_some_and(|next| own.abs() - next.abs() <= EQUAL);
            if !is_tied {
                largest = largest.max(sum.abs());
            }
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a sum of that many signs")]
        let p_value = reaches(centred.len(), largest as usize);
        Self { distance: largest / real(probabilities.len().max(1)), p_value }
    }
}

/// The probability that a fair random walk of this many steps is ever as far as `distance` from where it began.
fn reaches(steps: usize, distance: usize) -> f64 {
    if distance == 0 {
        return 1.0;
    }
    // The probability of each place that is nearer, the walk never having been as far.
    let mut inside = vec![0.0; 2 * distance - 1];
    inside[distance - 1] = 1.0;
    for _ in 0..steps {
        let at = |place: Option<usize>| place.and_then(|place| inside.get(place)).copied().unwrap_or(0.0);
        inside = (0..inside.len()).map(|place| 0.5 * (at(place.checked_sub(1)) + at(Some(place + 1)))).collect();
    }
    (1.0 - inside.iter().sum::<f64>()).max(0.0)
}
