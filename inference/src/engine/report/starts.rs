//! Says how several starts of one fit compare by their bounds, and which of them was kept.

use serde::{Deserialize, Serialize};

use super::text::nats;
use super::{Report, Severity, Warning};
use crate::engine::run::{Counters, RunRecord};

/// The bound that one of several starts had reached when the best was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StartBound {
    /// The bound in nats; not a number where the fit from this start failed.
    #[serde(with = "super::number")]
    pub elbo: f64,
    /// Its Monte Carlo standard error in nats.
    #[serde(with = "super::number")]
    pub elbo_se: f64,
    /// Whether the fit went on from it.
    pub is_kept: bool,
}

/// Standard errors of a difference beyond which two bounds are said to differ.
const ERRORS: f64 = 4.0;

impl StartBound {
    /// The largest difference of two of these bounds, where it is larger than their errors.
    fn difference(bounds: &[Self]) -> Option<f64> {
        let found = || bounds.iter().filter(|bound| bound.elbo.is_finite());
        let pairs = found().flat_map(|one| found().map(move |other| (one, other)));
        let beyond = pairs.filter(|(one, other)| one.elbo - other.elbo > ERRORS * one.elbo_se.hypot(other.elbo_se));
        beyond.map(|(one, other)| one.elbo - other.elbo).max_by(f64::total_cmp)
    }

    /// A line for people: every bound with its error.
    pub(super) fn line(bounds: &[Self]) -> String {
        let kept = bounds.iter().position(|bound| bound.is_kept).map_or(0, |kept| kept + 1);
        let each: Vec<String> =
            bounds.iter().map(|bound| format!("{} ± {}", nats(bound.elbo), nats(bound.elbo_se))).collect();
        format!("{} starts, went on from the {}: bounds {}", bounds.len(), ordinal(kept), each.join(", "))
    }
}

fn ordinal(number: usize) -> String {
    match (number % 10, number % 100) {
        (1, tens) if tens != 11 => format!("{number}st"),
        (2, tens) if tens != 12 => format!("{number}nd"),
        (3, tens) if tens != 13 => format!("{number}rd"),
        _ => format!("{number}th"),
    }
}

impl Report {
    /// Adds the bounds of several starts and what the short fits from them took, with a warning where they differ.
    pub(crate) fn begun(&mut self, bounds: Vec<StartBound>, spent: Counters, record: &mut RunRecord) {
        if let Some(difference) = StartBound::difference(&bounds) {
            let problem = "the bounds of the starts differ by more than their errors";
            let remedy = "The best was kept; the posterior may have several modes, or the short fits were too short: \
                          try more starts and more steps.";
            self.warn(vec![Warning::new(Severity::Limit, problem, remedy).measured(difference)]);
        }
        self.starts = bounds;
        self.rounds += spent.rounds;
        self.messages += spent.messages;
        self.bytes += spent.bytes_to_silos + spent.bytes_from_silos;
        self.bytes_from_silos += spent.bytes_from_silos;
        self.gradient_steps += spent.gradient_steps;
        self.clipped_steps += spent.clipped_steps;
        self.silo_steps += spent.silo_steps;
        record.counters += spent;
    }
}
