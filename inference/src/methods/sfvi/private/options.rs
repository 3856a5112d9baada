//! States how private SFVI is carried out: how many exchanges, with how much noise, over which sample of rows.

use serde::{Deserialize, Serialize};

use crate::engine::believing::ROUNDS;
use crate::engine::error::{Error, Result};
use crate::engine::whitened::Draws;

/// The options of private SFVI, the same for all parties.
///
/// The facade's `private::PrivateOptions` makes them of epsilon and delta alone; `noise` is what these need.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PrivateSfviOptions {
    /// Epsilon of all exchanges together, for the report.
    pub epsilon: f64,
    /// Delta, for the report.
    pub delta: f64,
    /// Times that the posterior moves, each by the sums at all draws: the number is fixed before the run, since the data
    /// may not decide on it.
    pub rounds: u64,
    /// The scale of the noise on each number that leaves a silo, in units of the clip.
    pub noise: f64,
    /// How many silos have that noise together, each a share of it, where masks hide their single sums: all but those that may
    /// collude. 1 where every silo has all of it.
    #[serde(default = "one")]
    pub shares: u64,
    /// The probability with which each row is in a sum: a sample is drawn anew for each, and below 1 saves the evaluation
    /// of rows.
    pub rate: f64,
    /// The clip of a row's gradient in units of its root mean square over rows where the posterior is right: there
    /// squares sum to the number of globals, so that it is chosen without a look at data.
    pub clip: f64,
    /// The most that the standard deviation of an unconstrained global is at the start, in the units of the model. It is 0.8
    /// of the scale of the global's prior, and 0.5 for the logarithm of a number above zero; a site that declares its scale
    /// ([`partita_core::Distribution::start_scale`]), as coefficients of a regression do, has no such limit.
    pub start: f64,
    /// Steps of every row's own posterior before a sum: they stay in the silo, and cost no privacy. `None` where rows with at most
    /// three latents have no posterior of their own, but are integrated as in few rounds; others then take ten.
    #[serde(default)]
    pub local_steps: Option<u64>,
    /// The fewest rows of a silo that answers.
    pub least_rows: usize,
}

impl PrivateSfviOptions {
    /// The options for a promise and the noise that keeps it; the others are at their defaults.
    #[must_use]
    pub fn new(epsilon: f64, delta: f64, noise: f64) -> Self {
        let (rounds, rate, local_steps, least_rows) = (ROUNDS, 1.0, None, 1);
        Self { epsilon, delta, noise, shares: one(), rounds, rate, clip: 3.0, start: 2.0, local_steps, least_rows }
    }

    /// The steps of a row's own posterior unless options say otherwise.
    pub(super) const LOCAL_STEPS: u64 = 10;

    /// The sums that every silo gives in so many rounds of a model with so many globals.
    ///
    /// # Example
    /// ```
    /// use partita_inference::PrivateSfviOptions;
    /// // Five globals have sixteen draws a round.
    /// assert_eq!(PrivateSfviOptions::releases(12, 5), 192);
    /// ```
    #[must_use]
    pub fn releases(rounds: u64, globals: usize) -> u64 {
        rounds.saturating_mul(Draws::usual(globals) as u64)
    }

    /// # Errors
    /// [`Error::Setting`] for a number outside its range.
    pub(super) fn check(&self) -> Result<()> {
        let Self { noise, clip, start, rate, rounds, shares, .. } = *self;
        let positive = [("noise", noise), ("clip", clip), ("start", start)];
        positive.into_iter().try_for_each(|(setting, value)| Error::unless_positive(setting, value))?;
        Error::unless(rate > 0.0 && rate <= 1.0, "rate", rate, "a number above 0 and at most 1")?;
        Error::unless(rounds > 0, "rounds", rounds, "at least 1")?;
        Error::unless(shares > 0, "shares", shares, "at least 1")
    }
}

fn one() -> u64 {
    1
}
