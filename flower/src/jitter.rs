//! Spreads pauses between attempts, so that parties which failed together do not all come back together.

use std::time::Duration;

/// The longest pause where none was asked.
const SOON: Duration = Duration::from_secs(1);

/// Between half of a pause and one and a half times it, by chance; up to a second where none was asked, since requests that
/// were sent together are also late together.
pub(crate) fn spread(pause: Duration) -> Duration {
    let mut bytes = [0; 4];
    // Without random numbers all wait equally long: that serves too.
    let share = match getrandom::fill(&mut bytes) {
        Ok(()) => f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX),
        Err(_) => 0.5,
    };
    if pause.is_zero() { SOON.mul_f64(share) } else { pause.mul_f64(0.5 + share) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_spread_around_what_was_asked() {
        let second = Duration::from_secs(1);
        let all: Vec<Duration> = (0..200).map(|_| spread(second)).collect();
        assert!(all.iter().all(|own| (second / 2..=second * 3 / 2).contains(own)));
        let mean = all.iter().sum::<Duration>() / 200;
        // Six standard errors of a uniform number.
        assert!(mean.abs_diff(second) < second.mul_f64(6.0 * 0.289 / 200_f64.sqrt()), "{mean:?}");
        assert!(all.iter().any(|own| own.abs_diff(second) > second / 4));
    }

    #[test]
    fn what_is_late_together_is_not_sent_again_together() {
        let all: Vec<Duration> = (0..200).map(|_| spread(Duration::ZERO)).collect();
        assert!(all.iter().all(|own| *own <= SOON));
        let mean = all.iter().sum::<Duration>() / 200;
        // Six standard errors of a uniform number.
        assert!(mean.abs_diff(SOON / 2) < SOON.mul_f64(6.0 * 0.289 / 200_f64.sqrt()), "{mean:?}");
    }
}
