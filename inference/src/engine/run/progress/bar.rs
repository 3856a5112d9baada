//! Shows the steps done as a bar on the terminal, where the feature `progress` is on; shows nothing without it.

#[cfg(feature = "progress")]
use indicatif::{ProgressBar, ProgressStyle};

/// A bar on standard error, hidden where that is no terminal.
#[derive(Debug)]
pub(super) struct Bar {
    #[cfg(feature = "progress")]
    bar: ProgressBar,
}

#[cfg(feature = "progress")]
impl Bar {
    /// A bar for so many steps.
    pub(super) fn new(steps: u64) -> Self {
        let bar = ProgressBar::new(steps);
        match ProgressStyle::with_template("{bar:30} {pos}/{len} steps, {msg}, {elapsed} (left {eta})") {
            Ok(style) => Self { bar: bar.with_style(style) },
            Err(_) => Self { bar },
        }
    }

    /// So many steps are done, with this ELBO.
    pub(super) fn show(&self, step: u64, elbo: f64) {
        self.bar.set_position(step);
        self.bar.set_message(format!("ELBO {elbo:.2} nats"));
    }

    /// Takes the bar away.
    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(not(feature = "progress"))]
#[allow(clippy::unused_self, reason = "the same calls as with the feature")]
impl Bar {
    pub(super) fn new(_: u64) -> Self {
        Self {}
    }

    pub(super) fn show(&self, _: u64, _: f64) {}

    pub(super) fn clear(&self) {}
}
