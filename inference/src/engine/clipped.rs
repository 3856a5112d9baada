//! Counts the rows that were longer than the clip of a noised sum, by one more number that each row adds to it.

use crate::engine::error::Result;
use crate::engine::report::ClippedShare;
use crate::engine::wire::message::Message;

/// What a clipped row adds to the sum besides its own numbers, in units of the clip: the larger it is, the better rows are
/// counted, and the more noise all other numbers have.
const WEIGHT: f64 = 0.5;

/// The norm of a clipped row with its mark, in units of the clip of its own numbers.
pub(crate) fn whole() -> f64 {
    WEIGHT.hypot(1.0)
}

/// Adds a mark to what a row contributes: zero, or of a row longer than the clip so much that the mark is as long as
/// [`WEIGHT`] clips when both have been shortened together to [`whole`] clips.
pub(crate) fn mark(row: &mut Vec<f64>, clip: f64) {
    let norm = row.iter().map(|value| value * value).sum::<f64>().sqrt();
    row.push(if norm > clip { WEIGHT * norm } else { 0.0 });
}

/// How many rows were clipped in a sum over rows that are each in it with probability `rate`, of its marks.
pub(crate) fn counted(marks: f64, clip: f64, rate: f64) -> f64 {
    marks / (WEIGHT * clip * rate)
}

/// The clipped rows of some rounds, with noise.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct ClippedCount {
    /// The sum over rounds of how many rows were clipped.
    rows: f64,
    /// The rounds.
    rounds: f64,
}

/// The sums of which a count is the mean: those of a round of each of so many silos, or of as many as have their noise
/// together, where each has a share of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CountedSums {
    pub(crate) silos: f64,
    pub(crate) a_round: f64,
    /// The scale of the noise in units of the clip of a whole row.
    pub(crate) noise: f64,
    /// The probability with which each row is in a sum.
    pub(crate) rate: f64,
}

impl ClippedCount {
    /// Counts so many rows of a round, or of a part of it.
    pub(crate) fn add(&mut self, rows: f64, rounds: f64) {
        self.rows += rows;
        self.rounds += rounds;
    }

    /// The mean over the rounds as a share of all rows, with the deviation of noise and of samples on it; `None` before the
    /// first.
    pub(crate) fn share(&self, sums: CountedSums, all: f64) -> Option<ClippedShare> {
        let Self { rows, rounds } = *self;
        let (CountedSums { silos, a_round, noise, rate }, mean) = (sums, rows / rounds);
        let of_noise = silos * (noise * whole() / (WEIGHT * rate)).powi(2);
        let variance = (of_noise + mean.max(0.0) * (1.0 - rate) / rate) / (rounds * a_round);
        (rounds > 0.0).then(|| ClippedShare { share: mean / all, deviation: variance.sqrt() / all })
    }

    /// Adds it to a saved state.
    pub(crate) fn write(self, state: Message, name: &str) -> Message {
        state.floats(name, &[self.rows, self.rounds])
    }

    /// From [`ClippedCount::write`].
    pub(crate) fn read(state: &Message, name: &str) -> Result<Self> {
        match state.expect_floats(name, 2)?[..] {
            [rows, rounds] => Ok(Self { rows, rounds }),
            _ => Ok(Self::default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_count_the_rows_that_are_longer_than_the_clip() {
        let (clip, mut total) = (0.5, 0.0);
        for own in [[0.3, 0.4], [0.3, -0.41], [30.0, 40.0], [0.0, 0.0]] {
            let mut row = own.to_vec();
            mark(&mut row, clip);
            let norm = row.iter().map(|value| value * value).sum::<f64>().sqrt();
            let shorten = (clip * whole() / norm).min(1.0);
            let kept = own.map(|value| value * shorten);
            // What is left of the row is what the clip alone leaves of it.
            let alone = (clip / own[0].hypot(own[1])).min(1.0);
            assert!(kept.iter().zip(own).all(|(found, value)| (found - alone * value).abs() < 1e-12), "{kept:?}");
            total += shorten * row[2];
        }
        let mut count = ClippedCount::default();
        let sums = CountedSums { silos: 2.0, a_round: 1.0, noise: 6.0, rate: 1.0 };
        assert_eq!(count.share(sums, 10.0), None);
        count.add(counted(total, clip, 1.0), 1.0);
        count.add(0.0, 1.0);
        let ClippedShare { share, deviation } = count.share(sums, 10.0).unwrap();
        // Two rows of ten in one of two rounds; noise of 6 √5 rows a silo and round.
        assert!((share - 0.1).abs() < 1e-12 && (deviation - 0.6 * 5_f64.sqrt()).abs() < 1e-12, "{share} {deviation}");
        // Samples of a half have twice the noise on a count, and are off by a row themselves; of sixteen a round that is a fourth.
        let sampled = CountedSums { a_round: 16.0, rate: 0.5, ..sums };
        let found = count.share(sampled, 10.0).unwrap().deviation;
        assert!((found - 0.1 * ((1_440.0 + 1.0) / 32.0_f64).sqrt()).abs() < 1e-12, "{found}");
        assert_eq!(ClippedCount::read(&count.write(Message::new("state"), "own"), "own").unwrap(), count);
    }

    #[test]
    fn a_row_that_is_no_number_has_no_mark_that_is_one() {
        for own in [f64::INFINITY, f64::NAN] {
            let mut row = vec![own, 1.0];
            mark(&mut row, 1.0);
            assert!(!row.iter().all(|value| value.is_finite()));
        }
    }
}
