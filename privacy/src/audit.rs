//! Bounds epsilon from below by one run: how many canaries were told apart from rows that were left out.

use crate::error::{Error, Result};

/// The result of guessing, for each of several canaries, whether a run had it among its rows.
///
/// Each canary is put in or left out by a fair coin. If the run is $\varepsilon$-differentially private, the number of
/// right ones of $r$ guesses is stochastically at most binomial with probability $e^\varepsilon / (1 + e^\varepsilon)$.
///
/// # Example
/// ```
/// use partita_privacy::Audit;
/// let all_right = Audit { canaries: 1000, guesses: 1000, right: 1000 };
/// assert!((all_right.epsilon(0.0, 0.95)? - 5.81).abs() < 5e-3);
/// # Ok::<(), partita_privacy::Error>(())
/// ```
///
/// # References
/// Steinke, Nasr and Jagielski (2023), Privacy auditing with one (1) training run, theorem 5.2 and appendix D.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Audit {
    /// The canaries, each put in or left out by a fair coin.
    pub canaries: u64,
    /// How many of them were guessed; the others were passed over.
    pub guesses: u64,
    /// How many guesses were right.
    pub right: u64,
}

impl Audit {
    /// The largest epsilon that the guesses refute at `delta`, with probability `confidence` of being a lower bound;
    /// zero where they refute none.
    ///
    /// # Errors
    /// [`Error::Setting`] for more right guesses than guesses, more guesses than canaries or more than a million, a
    /// delta outside [0, 1) or a confidence outside (0, 1).
    pub fn epsilon(self, delta: f64, confidence: f64) -> Result<f64> {
        let ordered = self.right <= self.guesses && self.guesses <= self.canaries && self.canaries <= 1_000_000;
        if !(ordered && (0.0..1.0).contains(&delta) && confidence > 0.0 && confidence < 1.0) {
            return Err(Error::Setting {
                operation: "an audit by one run",
                what: "its counts, delta and confidence",
                found: format!("{self:?}, {delta}, {confidence}"),
                expected: "right <= guesses <= canaries <= 1000000, delta in [0, 1), confidence in (0, 1)",
                remedy: "Count each canary once.",
            });
        }
        let refuted = |epsilon: f64| self.probability(epsilon, delta) < 1.0 - confidence;
        if !refuted(0.0) {
            return Ok(0.0);
        }
        let (mut low, mut high) = (0.0, 1.0);
        while refuted(high) && high < 64.0 {
            (low, high) = (high, 2.0 * high);
        }
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            let slot = if refuted(middle) { &mut low } else { &mut high };
            *slot = middle;
        }
        Ok(low)
    }

    /// The largest probability of at least so many right guesses under `epsilon` and `delta`.
    fn probability(self, epsilon: f64, delta: f64) -> f64 {
        let (log_right, log_wrong) = (-(-epsilon).exp().ln_1p(), -epsilon - (-epsilon).exp().ln_1p());
        // Log of the probability of every count, by the ratio of neighbours.
        let mut log_mass = vec![self.guesses as f64 * log_wrong];
        for count in 0..self.guesses {
            let ratio = ((self.guesses - count) as f64 / (count + 1) as f64).ln();
            log_mass.push(log_mass[count as usize] + ratio + log_right - log_wrong);
        }
        let right = self.right as usize;
        let tail: f64 = log_mass[right..].iter().map(|log| log.exp()).sum();
        let (mut sum, mut largest) = (0.0, 0.0_f64);
        for fewer in 1..=right {
            sum += log_mass[right - fewer].exp();
            largest = largest.max(sum / fewer as f64);
        }
        (tail + largest * delta * 2.0 * self.canaries as f64).min(1.0)
    }
}
