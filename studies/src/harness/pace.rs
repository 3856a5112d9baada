//! Declares the option that lets a run find its own learning rate.

use clap::Args;
use partita::Schedule;

/// Whether the learning rate is the study's or the run's.
#[derive(Args, Debug, Clone, Copy)]
pub struct Pace {
    /// Lets the run find its learning rate and its end, as `fit` does by default; steps are a limit then.
    #[arg(long)]
    adaptive: bool,
}

impl Pace {
    /// The schedule of a run whose rate begins at `initial` and falls to zero along a cosine, unless the run finds it.
    #[must_use]
    pub fn schedule(self, initial: f64) -> Schedule {
        if self.adaptive { Schedule::adaptive() } else { Schedule::Cosine { initial, last: 0.0 } }
    }
}
