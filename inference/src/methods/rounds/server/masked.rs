//! Holds back the numbers about whose direction the silos disagree: gradient-masked averaging over any server rule.

use serde::{Deserialize, Serialize};

use super::ServerRule;
use crate::engine::error::{Error, Result};

/// Which numbers of a step [`Masked`] lets through.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Mask {
    /// The agreement $\tau$ from which a number moves freely: 0 for always, 1 for unanimity.
    pub threshold: f64,
    /// Multiplies what agrees less by its agreement, as the paper does, instead of holding it back altogether.
    pub soft: bool,
}

impl Mask {
    /// Refuses a threshold that is negative or not a number.
    ///
    /// # Errors
    /// [`Error::Setting`].
    pub fn check(self) -> Result<()> {
        let expected = "a share of silos >= 0, such as 0.4; above 1 nothing moves";
        Error::unless(self.threshold >= 0.0, "mask.threshold", self.threshold, expected)
    }
}

/// Gradient-masked averaging: each number of another rule's step is let through where enough silos moved it the same
/// way.
///
/// ```math
/// A_j = \frac1{|S|}\Bigl|\sum_{m \in S}\operatorname{sign}(w_{m,j} - w_j)\Bigr|, \qquad
/// w'_j = w_j + \mu_j\,(u_j - w_j), \qquad
/// \mu_j = \begin{cases} 1 & A_j \ge \tau \\ A_j \text{ or } 0 & A_j < \tau \end{cases}
/// ```
/// with $w$ = `before`, $u$ what the inner rule makes of it, $S$ the silos asked in the round and $\tau$ =
/// [`Mask::threshold`]. The paper multiplies by $`A_j`$ below the threshold ([`Mask::soft`]); the thesis on generalised
/// partitioned inference prints zero there, and divides by the number of all silos, asked or not, which would let
/// nothing through where few are asked. Every silo has one vote, whatever its weight, and one that did not move a
/// number has none. State of the inner rule sees the changes unmasked.
///
/// # Laws
/// At $`\tau = 0`$ the step is the inner rule's, bit for bit. At $`\tau > 1`$ a hard mask moves nothing.
///
/// # Example
/// ```
/// use partita_inference::{Mask, Masked, ServerMean, ServerRule};
/// let mut rule = Masked::new(Box::new(ServerMean { rate: 1.0 }), Mask { threshold: 0.5, soft: false });
/// // All go up in the first number; in the second two of three do: |2 - 1|/3 is below one half.
/// let members = [vec![1.0, 3.0], vec![2.0, 3.0], vec![3.0, -3.0]];
/// assert_eq!(rule.apply(&[0.0, 0.0], &members, &[0.25, 0.5, 0.25]), [2.0, 0.0]);
/// ```
///
/// # References
/// Tenison et al. (2023), Gradient masked averaging for federated learning, arXiv:2201.11986.
#[derive(Debug)]
pub struct Masked {
    inner: Box<dyn ServerRule>,
    mask: Mask,
}

impl Masked {
    /// Masks the steps of `inner`.
    #[must_use]
    pub fn new(inner: Box<dyn ServerRule>, mask: Mask) -> Self {
        Self { inner, mask }
    }
}

/// The share by which those who moved each number up outnumber those who moved it down, or the other way round.
fn agreement(before: &[f64], members: &[Vec<f64>]) -> Vec<f64> {
    let mut votes = vec![0_i64; before.len()];
    for member in members {
        for ((vote, own), from) in votes.iter_mut().zip(member).zip(before) {
            *vote += i64::from(own > from) - i64::from(own < from);
        }
    }
    votes.into_iter().map(|vote| vote.unsigned_abs() as f64 / members.len() as f64).collect()
}

impl ServerRule for Masked {
    fn apply(&mut self, before: &[f64], members: &[Vec<f64>], weights: &[f64]) -> Vec<f64> {
        let mut after = self.inner.apply(before, members, weights);
        for ((slot, from), agreement) in after.iter_mut().zip(before).zip(agreement(before, members)) {
            if agreement < self.mask.threshold {
                *slot = if self.mask.soft { from + agreement * (*slot - from) } else { *from };
            }
        }
        after
    }

    fn save(&self) -> Vec<(String, Vec<f64>)> {
        self.inner.save()
    }

    fn load(&mut self, state: Vec<(String, Vec<f64>)>) -> bool {
        self.inner.load(state)
    }
}
