//! Keeps what is known of the draws of chains: how well these agree, and how each went.

use serde::{Deserialize, Serialize};

use crate::engine::report::{Warning, number};

/// How well the chains agree on one number of a global site, or on the numbers of a local site of a silo.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Convergence {
    /// The number of a global site, such as `beta[2]`, on its natural scale; or the name of a local site, whose numbers
    /// are judged on the unconstrained scale.
    pub label: String,
    /// The silo of a local site.
    pub silo: Option<String>,
    /// [`crate::metrics::r_hat`]; the largest over the numbers of a local site.
    #[serde(with = "number")]
    pub r_hat: f64,
    /// [`crate::metrics::bulk_effective_sample_size`]; the smallest over the numbers of a local site.
    #[serde(with = "number")]
    pub bulk: f64,
    /// [`crate::metrics::tail_effective_sample_size`]; the smallest over the numbers of a local site.
    #[serde(with = "number")]
    pub tail: f64,
    /// Draws that are no finite number: of one that overflowed nothing else is known. The most over the numbers of a local site.
    #[serde(default)]
    pub overflowed: usize,
}

/// The chosen one of two numbers; NaN if either is, which `f64::max` and `f64::min` would leave out.
pub(crate) fn pick(own: f64, other: f64, choose: fn(f64, f64) -> f64) -> f64 {
    if own.is_nan() || other.is_nan() { f64::NAN } else { choose(own, other) }
}

/// How one chain went after its warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct ChainSummary {
    /// Trajectories that left the region in which the integrator is accurate.
    pub divergences: usize,
    /// Trajectories that were still not turning when the tree was as deep as allowed.
    pub at_max_depth: usize,
    /// The mean depth of the trees.
    #[serde(with = "number")]
    pub mean_depth: f64,
    /// The mean step size; the sampler varies it by up to a tenth from draw to draw.
    #[serde(with = "number")]
    pub step_size: f64,
    /// Gradients of the log density.
    pub gradients: u64,
    /// Gradients of the log density during warm-up.
    pub warmup_gradients: u64,
}

/// What is known of the quality of draws.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ChainDiagnostics {
    /// Agreement of the chains: every number of the globals in the order of the draws, then every local site of each
    /// silo.
    pub convergence: Vec<Convergence>,
    /// How each chain went.
    pub chains: Vec<ChainSummary>,
    /// The draws of each chain that were kept.
    pub draws: usize,
    /// The draws of each chain before them, which adapted it.
    pub warmup: usize,
    /// Reasons not to believe the draws; none is good news. A report that was written has them as its own.
    #[serde(skip)]
    pub warnings: Vec<Warning>,
}

impl ChainDiagnostics {
    /// The largest R-hat; NaN without any number, and where one is the same in every draw.
    ///
    /// # Example
    /// ```
    /// use partita_inference::{Convergence, ChainDiagnostics};
    /// let one = |r_hat| Convergence { label: "beta".into(), silo: None, r_hat, bulk: 400.0, tail: 400.0, overflowed: 0 };
    /// let of = |found: [f64; 2]| ChainDiagnostics { convergence: found.map(one).into(), ..ChainDiagnostics::default() };
    /// assert_eq!(of([1.002, 1.007]).worst_r_hat(), 1.007);
    /// assert!(of([1.002, f64::NAN]).worst_r_hat().is_nan() && of([f64::NAN, 1.002]).worst_r_hat().is_nan());
    /// ```
    #[must_use]
    pub fn worst_r_hat(&self) -> f64 {
        let each = self.convergence.iter().map(|one| one.r_hat);
        each.reduce(|worst, own| pick(worst, own, f64::max)).unwrap_or(f64::NAN)
    }

    /// Divergent trajectories of all chains.
    #[must_use]
    pub fn divergences(&self) -> usize {
        self.chains.iter().map(|chain| chain.divergences).sum()
    }
}
