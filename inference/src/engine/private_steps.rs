//! States how the local steps of a silo know its rows by noised sums over clipped ones alone, and what that promises.

use serde::{Deserialize, Serialize};

use crate::engine::clipped::{ClippedCount, CountedSums};
use crate::engine::error::{Error, Result};
use crate::engine::report::Privacy;

/// Local steps that know the rows by noised sums alone: what a silo answers follows from these, and may leave it as it is.
///
/// A step takes each row with probability `rate`. Row $i$ contributes its gradients by the globals at the $K$ draws of the
/// step, one after another: a vector that is clipped to the norm $`C\sqrt K`$, with `clip` as $C$. A row that is longer
/// adds a mark of half that norm, clipped with it, so that clipped rows are counted. One row more or less moves the sum by
/// at most $`S = C\sqrt{1.25 K}`$, whatever the row; noise of `noise` times $S$ is added to every number of it, and only then is
/// it multiplied by what rows count. Cavity, prior, entropy and proximal terms depend on no row, and latents of rows stay where they
/// are. So a run of `sums` steps is that many subsampled Gaussian mechanisms, and all else follows from these. The noise is
/// **not** in the posterior: its deviations are those of a posterior without noise.
///
/// With `whole_silo` what is protected is a silo, and local steps see its rows as they are: what they change of the parameters in a
/// round is clipped to `clip` and noised, and `sums` are rounds.
///
/// # References
/// Abadi et al. (2016), Deep learning with differential privacy; Heikkilä, Ashman, Swaroop, Turner and Honkela (2023),
/// Differentially private partitioned variational inference, TMLR; McMahan, Ramage, Talwar and Zhang (2018), Learning
/// differentially private recurrent language models, who clip what a client changes instead; Sharma et al. (2019),
/// Differentially private federated variational inference.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PrivateSteps {
    /// Epsilon of everything that one silo sends in the run, for the report.
    pub epsilon: f64,
    /// Delta, for the report.
    pub delta: f64,
    /// The scale of the noise on each number, in units of the clip.
    pub noise: f64,
    /// The norm to which a row's gradient at one draw of the globals is clipped.
    pub clip: f64,
    /// The probability with which each row is in the sum of a step.
    pub rate: f64,
    /// The sums of a silo in the whole run: its rounds, or visits, times their local steps; its rounds, with `whole_silo`.
    pub sums: u64,
    /// Whether the silo as a whole is protected, and not one of its rows.
    #[serde(default)]
    pub whole_silo: bool,
}

impl PrivateSteps {
    /// Refuses constants outside their ranges.
    pub(crate) fn check(self) -> Result<()> {
        Error::unless_positive("noise", self.noise)?;
        Error::unless_positive("clip", self.clip)?;
        let rate = self.rate;
        Error::unless(rate > 0.0 && rate <= 1.0, "rate", rate, "a number above 0 and at most 1")?;
        let found = format_args!("{rate} where a whole silo is protected");
        Error::unless(!self.whole_silo || rate >= 1.0, "rate", found, "1: its rows have no noise")?;
        Error::unless(self.sums > 0, "sums", self.sums, "at least 1")
    }

    /// What is promised by silos with so many rows in all that take so many local steps a round; the noise is not in the
    /// posterior.
    pub(crate) fn report(self, clipped: ClippedCount, sizes: &[usize], local_steps: u64) -> Privacy {
        let Self { epsilon, delta, noise, rate, sums: releases, .. } = self;
        let sums = CountedSums { silos: sizes.len() as f64, a_round: local_steps as f64, noise, rate };
        let clipped = clipped.share(sums, sizes.iter().sum::<usize>().max(1) as f64);
        let unit = if self.whole_silo { Privacy::WHOLE_SILO } else { Privacy::ROW }.to_owned();
        Privacy { clipped, unit, ..Privacy::promised(epsilon, delta, releases, noise) }
    }
}
