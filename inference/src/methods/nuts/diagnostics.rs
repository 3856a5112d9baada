//! Judges whether the chains of a sampler may be believed: R-hat, effective sample sizes, divergences, warnings.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::engine::metrics::{bulk_effective_sample_size, r_hat, tail_effective_sample_size};

/// The largest R-hat of chains that agree.
const LARGEST_R_HAT: f64 = 1.01;

/// The least effective sample size for each chain.
const LEAST_A_CHAIN: f64 = 100.0;

/// How well the chains agree on one number of a global site, or on the numbers of a local site of a silo.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Convergence {
    /// The number of a global site, such as `beta[2]`, on its natural scale; or the name of a local site, whose numbers
    /// are judged on the unconstrained scale.
    pub label: String,
    /// The silo of a local site.
    pub silo: Option<String>,
    /// [`r_hat`]; the largest over the numbers of a local site.
    pub r_hat: f64,
    /// [`bulk_effective_sample_size`]; the smallest over the numbers of a local site.
    pub bulk: f64,
    /// [`tail_effective_sample_size`]; the smallest over the numbers of a local site.
    pub tail: f64,
}

impl Convergence {
    /// The worst of both in every respect; a number that never moves is the worst.
    pub(super) fn worse(self, other: Self) -> Self {
        let r_hat = pick(self.r_hat, other.r_hat, f64::max);
        let bulk = pick(self.bulk, other.bulk, f64::min);
        let tail = pick(self.tail, other.tail, f64::min);
        Self { r_hat, bulk, tail, ..self }
    }
}

/// The chosen one of two numbers; NaN if either is, which `f64::max` and `f64::min` would leave out.
fn pick(own: f64, other: f64, choose: fn(f64, f64) -> f64) -> f64 {
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
    pub mean_depth: f64,
    /// The mean step size; the sampler varies it by up to a tenth from draw to draw.
    pub step_size: f64,
    /// Gradients of the log density.
    pub gradients: u64,
    /// Gradients of the log density during warm-up.
    pub warmup_gradients: u64,
}

/// A reason not to believe the draws.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum SamplerWarning {
    /// The chains do not agree.
    RHat {
        /// The number, as in [`Convergence::label`].
        label: String,
        /// Its R-hat.
        found: f64,
    },
    /// There are too few effective draws in the bulk.
    BulkSampleSize {
        /// The number.
        label: String,
        /// Its effective sample size.
        found: f64,
        /// What is asked for: 100 a chain.
        expected: f64,
    },
    /// There are too few effective draws in the tails.
    TailSampleSize {
        /// The number.
        label: String,
        /// Its effective sample size.
        found: f64,
        /// What is asked for: 100 a chain.
        expected: f64,
    },
    /// A number is the same in every draw.
    NeverMoves {
        /// The number.
        label: String,
    },
    /// Trajectories diverged.
    Divergences {
        /// Over all chains.
        found: usize,
        /// Draws over all chains.
        draws: usize,
    },
    /// Trajectories were cut at the largest depth.
    MaxDepth {
        /// Over all chains.
        found: usize,
        /// Draws over all chains.
        draws: usize,
    },
}

impl fmt::Display for SamplerWarning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RHat { label, found } => write!(
                formatter,
                "R-hat of `{label}` is {found:.4}, expected at most {LARGEST_R_HAT}: the chains do not agree. Draw more, or state the model so that its posterior is easier, for example non-centred."
            ),
            Self::BulkSampleSize { label, found, expected } => write!(
                formatter,
                "the effective sample size of `{label}` is {found:.0} in the bulk, expected at least {expected:.0}. Draw more."
            ),
            Self::TailSampleSize { label, found, expected } => write!(
                formatter,
                "the effective sample size of `{label}` is {found:.0} in the tails, expected at least {expected:.0}. Draw more, or do not report its outer quantiles."
            ),
            Self::NeverMoves { label } => {
                write!(formatter, "`{label}` is the same in every draw: it has not been sampled.")
            }
            Self::Divergences { found, draws } => write!(
                formatter,
                "{found} of {draws} trajectories diverged: parts of the posterior may be missing. Raise `target_accept`, or state the model non-centred."
            ),
            Self::MaxDepth { found, draws } => write!(
                formatter,
                "{found} of {draws} trajectories were cut at the largest depth: draws are dependent for longer. Raise `max_depth`."
            ),
        }
    }
}

/// What is known of the quality of draws.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct NutsDiagnostics {
    /// Agreement of the chains: every number of the globals in the order of the draws, then every local site of each
    /// silo.
    pub convergence: Vec<Convergence>,
    /// How each chain went.
    pub chains: Vec<ChainSummary>,
    /// Reasons not to believe the draws; none is good news.
    pub warnings: Vec<SamplerWarning>,
}

impl NutsDiagnostics {
    /// The largest R-hat; NaN without any number, and where one is the same in every draw.
    ///
    /// # Example
    /// ```
    /// use partita_inference::{Convergence, NutsDiagnostics};
    /// let one = |r_hat| Convergence { label: "beta".into(), silo: None, r_hat, bulk: 400.0, tail: 400.0 };
    /// let of = |found: [f64; 2]| NutsDiagnostics { convergence: found.map(one).into(), ..NutsDiagnostics::default() };
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

    /// Complains of numbers, and of chains of `draws` draws.
    pub(super) fn complain(&mut self, draws: usize) {
        #[expect(clippy::cast_precision_loss, reason = "chains are few")]
        let expected = LEAST_A_CHAIN * self.chains.len() as f64;
        for Convergence { label, r_hat, bulk, tail, .. } in &self.convergence {
            let (r_hat, bulk, tail, label) = (*r_hat, *bulk, *tail, label.clone());
            if r_hat.is_nan() {
                self.warnings.push(SamplerWarning::NeverMoves { label });
                continue;
            }
            if r_hat > LARGEST_R_HAT {
                self.warnings.push(SamplerWarning::RHat { label: label.clone(), found: r_hat });
            }
            // A sample size that cannot be computed is not enough.
            if bulk.is_nan() || bulk < expected {
                self.warnings.push(SamplerWarning::BulkSampleSize { label: label.clone(), found: bulk, expected });
            }
            if tail.is_nan() || tail < expected {
                self.warnings.push(SamplerWarning::TailSampleSize { label, found: tail, expected });
            }
        }
        let draws = draws * self.chains.len();
        let (diverged, cut) = (self.divergences(), self.chains.iter().map(|chain| chain.at_max_depth).sum());
        if diverged > 0 {
            self.warnings.push(SamplerWarning::Divergences { found: diverged, draws });
        }
        if cut > 0 {
            self.warnings.push(SamplerWarning::MaxDepth { found: cut, draws });
        }
    }
}

/// How well chains agree on one number; NaN for a number that never moves.
pub(super) fn converged(label: &str, silo: Option<&str>, chains: &[&[f64]]) -> Convergence {
    let or_nan = |found: Result<f64, crate::engine::metrics::MetricError>| found.unwrap_or(f64::NAN);
    Convergence {
        label: label.to_owned(),
        silo: silo.map(str::to_owned),
        r_hat: or_nan(r_hat(chains)),
        bulk: or_nan(bulk_effective_sample_size(chains)),
        tail: or_nan(tail_effective_sample_size(chains)),
    }
}

#[cfg(test)]
mod tests {
    use super::{ChainSummary, Convergence, NutsDiagnostics, SamplerWarning};

    #[test]
    fn a_sample_size_that_cannot_be_computed_is_complained_of() {
        let one = Convergence { label: "beta".into(), silo: None, r_hat: 1.0, bulk: f64::NAN, tail: f64::NAN };
        let chains = vec![ChainSummary::default(); 2];
        let mut found = NutsDiagnostics { convergence: vec![one], chains, warnings: Vec::new() };
        found.complain(10);
        let [SamplerWarning::BulkSampleSize { .. }, SamplerWarning::TailSampleSize { .. }] = found.warnings.as_slice()
        else {
            panic!("{:?}", found.warnings)
        };
    }
}
