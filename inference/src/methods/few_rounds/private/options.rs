//! States how private rounds are carried out: how many, with how much noise, and for which promise.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::engine::believing::ROUNDS;
use crate::engine::clipped::whole;
use crate::engine::error::{Error, Result};

/// The options of private rounds, the same for all parties.
///
/// The facade's `private::PrivateOptions` makes them of epsilon and delta alone; `noise` is what these need.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PrivateRoundsOptions {
    /// Epsilon of all rounds together, for the report.
    pub epsilon: f64,
    /// Delta, for the report.
    pub delta: f64,
    /// Rounds: their number is fixed before the run, since the data may not decide on it.
    pub rounds: u64,
    /// The scale of the noise on each number that leaves a silo, in units of the clip.
    pub noise: f64,
    /// How many silos have that noise together, each a share of it, where masks hide their single sums: all but those that may
    /// collude. 1 where every silo has all of it.
    #[serde(default = "one")]
    pub shares: u64,
    /// The clip of a row's gradient in units of its root mean square over rows where the posterior is right: there
    /// squares sum to the number of globals, so that it is chosen without a look at data. `None` for as much as lets noise widen
    /// standard deviations by about 6 %, and at least 3: longer rows are shorter in the sums, which moves the answer, and moves it
    /// farther in its standard deviations the more rows there are.
    #[serde(default)]
    pub clip: Option<f64>,
    /// What a row's curvature weighs in the clipped norm, in units of what makes it as long as the gradient.
    pub curvature: f64,
    /// The most that the standard deviation of an unconstrained global is at the start, in the units of the model. It is 0.8
    /// of the scale of the global's prior, and 0.5 for the logarithm of a number above zero; a site that declares its scale
    /// ([`partita_core::Distribution::start_scale`]), as coefficients of a regression do, has no such limit.
    pub start: f64,
    /// For the site of an intercept, the middle of the column of each site that is a coefficient: the intercept begins as
    /// what is expected there. Empty where columns are around zero.
    #[serde(default)]
    pub middles: BTreeMap<String, BTreeMap<String, f64>>,
    /// What is protected, in a word for the report: `row`, or the name of a grouping whose groups rows of the model are.
    #[serde(default = "row")]
    pub unit: String,
    /// The fewest rows of a silo that answers.
    pub least_rows: usize,
}

impl PrivateRoundsOptions {
    /// The options for a promise and the noise that keeps it; the others are at their defaults.
    #[must_use]
    pub fn new(epsilon: f64, delta: f64, noise: f64) -> Self {
        let (rounds, middles) = (Self::ROUNDS, BTreeMap::new());
        Self {
            epsilon,
            delta,
            noise,
            shares: one(),
            rounds,
            clip: None,
            curvature: 0.25,
            start: 2.0,
            middles,
            unit: row(),
            least_rows: 1,
        }
    }

    /// The rounds unless options say otherwise, in few rounds and in SFVI.
    pub const ROUNDS: u64 = ROUNDS;

    /// What is protected unless options say otherwise.
    pub const UNIT: &str = "row";

    /// The clip in root mean squares, of a run over so many rows in all and silos for so many globals.
    ///
    /// After $`T`$ sums of $`J`$ silos over $`N`$ rows, noise of $`\sigma`$ clips is about
    /// $`\sigma c \sqrt{d J / (N T)}`$ standard deviations of the posterior of $`d`$ globals, with the clip $`c`$; of $`S`$
    /// shares it is less by $`\sqrt S`$.
    #[expect(clippy::cast_precision_loss, reason = "rows, silos, rounds and globals are far fewer than 2^52")]
    pub(super) fn times(&self, globals: usize, rows: f64, silos: usize) -> f64 {
        let (noises, rounds) = ((globals * silos) as f64 / self.shares as f64, self.rounds as f64);
        let one = self.noise * whole() * (noises / (rows * rounds)).sqrt();
        self.clip.unwrap_or_else(|| (OF_NOISE / one).clamp(LEAST_CLIP, MOST_CLIP))
    }

    /// # Errors
    /// [`Error::Setting`] for a number outside its range.
    pub(super) fn check(&self) -> Result<()> {
        let clip = self.clip.unwrap_or(LEAST_CLIP);
        let positive = [("noise", self.noise), ("clip", clip), ("curvature", self.curvature), ("start", self.start)];
        positive.into_iter().try_for_each(|(setting, value)| Error::unless_positive(setting, value))?;
        Error::unless(self.rounds > 0, "rounds", self.rounds, "at least 1")?;
        Error::unless(self.shares > 0, "shares", self.shares, "at least 1")
    }
}

fn one() -> u64 {
    1
}

fn row() -> String {
    PrivateRoundsOptions::UNIT.into()
}

/// The part of a standard deviation that noise is, where the clip is as large as that allows.
const OF_NOISE: f64 = 0.35;
/// The least and the most of such clips, in root mean squares.
const LEAST_CLIP: f64 = 3.0;
const MOST_CLIP: f64 = 30.0;
