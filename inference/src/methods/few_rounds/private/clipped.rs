//! Counts the rows that were longer than the clip of a noised sum, by one more number that each row adds to it.

/// What a clipped row adds to the sum besides its own numbers, in units of the clip: the larger it is, the better rows are
/// counted, and the more noise all other numbers have.
const WEIGHT: f64 = 0.5;

/// The norm of a clipped row with its mark, in units of the clip of its own numbers.
pub(super) fn whole() -> f64 {
    WEIGHT.hypot(1.0)
}

/// Adds a mark to what a row contributes: zero, or of a row longer than the clip so much that the mark is as long as
/// [`WEIGHT`] clips when both have been shortened together to [`whole`] clips.
pub(super) fn mark(row: &mut Vec<f64>, clip: f64) {
    let norm = row.iter().map(|value| value * value).sum::<f64>().sqrt();
    row.push(if norm > clip { WEIGHT * norm } else { 0.0 });
}

/// The clipped rows of some rounds, with noise.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct ClippedCount {
    /// The sum over rounds of how many rows were clipped.
    rows: f64,
    /// The rounds.
    rounds: f64,
}

/// How many rows were clipped in a sum, and the deviation of the noise on that number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct MeanCount {
    pub(super) rows: f64,
    pub(super) deviation: f64,
}

impl ClippedCount {
    /// Counts the marks of one round, a sum over all silos.
    pub(super) fn add(&mut self, marks: f64, clip: f64) {
        self.rows += marks / (WEIGHT * clip);
        self.rounds += 1.0;
    }

    /// The mean over the rounds, where sums of so many silos have noise of `noise` times the clip of a whole row; `None` before
    /// the first.
    pub(super) fn mean(&self, silos: f64, noise: f64) -> Option<MeanCount> {
        let Self { rows, rounds } = *self;
        let deviation = noise * whole() / WEIGHT * (silos / rounds).sqrt();
        (rounds > 0.0).then(|| MeanCount { rows: rows / rounds, deviation })
    }

    /// Both numbers, for a saved state.
    pub(super) fn flat(self) -> [f64; 2] {
        [self.rows, self.rounds]
    }

    /// From [`ClippedCount::flat`].
    pub(super) fn of_flat([rows, rounds]: [f64; 2]) -> Self {
        Self { rows, rounds }
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
        assert_eq!(count.mean(1.0, 1.0), None);
        count.add(total, clip);
        count.add(0.0, clip);
        let MeanCount { rows, deviation } = count.mean(2.0, 6.0).unwrap();
        // Two rows in one of two rounds; noise of 6 √5 rows a silo and round.
        assert!((rows - 1.0).abs() < 1e-12 && (deviation - 6.0 * 5_f64.sqrt()).abs() < 1e-12, "{rows} {deviation}");
        assert_eq!(ClippedCount::of_flat(count.flat()), count);
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
