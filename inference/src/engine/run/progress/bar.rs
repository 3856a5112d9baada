//! Shows the steps done as a bar on the terminal, where the feature `progress` is on; shows nothing without it.

#[cfg(feature = "progress")]
use std::time::Duration;

#[cfg(feature = "progress")]
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};

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
        Self::styled(ProgressBar::new(steps), "{bar:30} {pos}/{len} steps, {msg}, {elapsed} (left {eta})")
    }

    /// A line that says what is done, where it is not known how long that takes.
    pub(super) fn line(what: &str) -> Self {
        let own = Self::styled(ProgressBar::new_spinner(), "{spinner} {msg}, {elapsed}");
        own.bar.set_message(what.to_owned());
        own.bar.enable_steady_tick(Duration::from_millis(200));
        own
    }

    fn styled(bar: ProgressBar, style: &str) -> Self {
        let bar = bar.with_finish(ProgressFinish::AndClear);
        match ProgressStyle::with_template(style) {
            Ok(style) => Self { bar: bar.with_style(style) },
            Err(_) => Self { bar },
        }
    }

    /// So many steps are done, with this ELBO.
    pub(super) fn show(&self, step: u64, elbo: f64) {
        match self.bar.length() {
            Some(_) => {
                self.bar.set_position(step);
                self.bar.set_message(format!("ELBO {elbo:.2} nats"));
            }
            None => self.bar.set_message(format!("step {step}, ELBO {elbo:.2} nats")),
        }
    }

    /// Leaves a line in place of the bar: how many steps there were, and the bound where there is one.
    pub(super) fn last(&mut self, steps: u64, bound: f64) {
        self.clear();
        *self = Self::styled(ProgressBar::new_spinner(), "{msg}");
        let bound = if bound.is_finite() { format!(", ELBO {bound:.2} nats") } else { String::new() };
        self.bar.finish_with_message(format!("{steps} steps{bound}"));
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

    pub(super) fn line(_: &str) -> Self {
        Self {}
    }

    pub(super) fn show(&self, _: u64, _: f64) {}

    pub(super) fn last(&mut self, _: u64, _: f64) {}

    pub(super) fn clear(&self) {}
}
