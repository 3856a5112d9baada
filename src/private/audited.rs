//! Audits the sums of private silos, and methods, by one run: canaries are put in by coins, and told apart from those left out.

mod told;
mod whole;

pub(crate) use whole::AuditedMethod;

use partita_inference::{Mechanism, Result, RowSum};
use partita_privacy::{Audit, Entropy, Grid, SystemEntropy};

use super::{NoisedSums, Sums, declined};

/// The canaries of an audit: rows of the longest norm that a clip allows, each along an axis of its own.
pub(crate) const CANARIES: usize = 1_000;
/// How many are guessed where there is noise: those of which the guesser is surest.
const SUREST: usize = 100;
/// The probability with which a bound is one.
const CONFIDENCE: f64 = 0.95;

/// What one run of an audit has found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Audited {
    pub(crate) guesses: u64,
    pub(crate) right: u64,
    /// The epsilon that the guesses refute, at a confidence of 95 %.
    pub(crate) epsilon: f64,
}

/// Whether the sums of an audit have noise; without it they are over all canaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Noise {
    On,
    Off,
}

/// A guess of whether a canary was in.
#[derive(Debug, Clone, Copy)]
struct Guess {
    /// How far it seems to be in, or out, below zero.
    seems_in: f64,
    was_in: bool,
}

/// What guesses refute: all of them at a delta of zero, or with noise those of which the guesser is surest.
fn refuted(mut guesses: Vec<Guess>, noise: Noise, delta: f64) -> Result<Audited> {
    let canaries = guesses.len() as u64;
    let delta = match noise {
        Noise::On => {
            guesses.sort_by(|a, b| b.seems_in.abs().total_cmp(&a.seems_in.abs()));
            guesses.truncate(SUREST);
            delta
        }
        Noise::Off => 0.0,
    };
    let right = guesses.iter().filter(|own| (own.seems_in > 0.0) == own.was_in).count() as u64;
    let found = Audit { canaries, guesses: guesses.len() as u64, right };
    let epsilon = found.epsilon(delta, CONFIDENCE).map_err(declined)?;
    Ok(Audited { guesses: found.guesses, right, epsilon })
}

/// The clipped sum of rows, to the unit of the grid.
fn on_grid(length: usize, clip: f64, rows: Vec<Vec<f64>>) -> Result<Vec<f64>> {
    let grid = Grid::new(clip, Grid::STEPS).map_err(declined)?;
    Ok(grid.sum(length, rows).map_err(declined)?.exact().to_floats())
}

/// One run of sums over canaries and no other row.
///
/// Whoever guesses knows every canary and sees every sum: the number that is a canary's own, added over the releases. With
/// noise the hundred farthest from the middle are guessed, and all without it. Where silos divide the noise, what is seen is the
/// sum over as many as have it together, of which one has the canaries.
///
/// # Errors
/// [`partita_inference::Error::Declined`] where there are no random bits.
pub(crate) fn audited(sums: Sums, noise: Noise, delta: f64, bits: &mut dyn Entropy) -> Result<Audited> {
    let Sums { count: releases, noise: scale, rate, shares } = sums;
    let mut coins = vec![0; CANARIES];
    bits.fill(&mut coins).map_err(declined)?;
    let is_in = |at: usize| coins[at] % 2 == 1;
    let canary = |at: usize| (0..CANARIES).map(|number| f64::from(u8::from(number == at))).collect::<Vec<f64>>();
    let mut rows = |of: &[usize]| Ok(of.iter().copied().filter(|at| is_in(*at)).map(canary).collect::<Vec<_>>());
    let all: Vec<usize> = (0..CANARIES).collect();
    let mut total = vec![0.0; CANARIES];
    let mut mechanism = NoisedSums::new(None, Box::new(SystemEntropy::default())).shared(shares);
    let mut no_rows = |_: &[usize]| Ok(Vec::<Vec<f64>>::new());
    for round in 0..releases {
        let released = match noise {
            Noise::On => {
                let (length, count, sums) = (CANARIES, CANARIES, releases);
                let sum = RowSum { length, clip: 1.0, noise: scale, count, rate, sums, rows: &mut rows };
                let mut released = mechanism.release(&round.to_le_bytes(), sum)?;
                for _ in 1..shares.count {
                    let sum = RowSum { length, clip: 1.0, noise: scale, count: 0, rate, sums, rows: &mut no_rows };
                    let own = mechanism.release(&round.to_le_bytes(), sum)?;
                    released.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
                }
                released
            }
            Noise::Off => on_grid(CANARIES, 1.0, rows(&all)?)?,
        };
        total.iter_mut().zip(released).for_each(|(sum, own)| *sum += own);
    }
    // Half of a canary's share is as far from in as from out.
    let share = if noise == Noise::On { rate } else { 1.0 };
    let middle = releases as f64 * share / 2.0;
    let guess = |(total, at): (f64, usize)| Guess { seems_in: total - middle, was_in: is_in(at) };
    refuted(total.into_iter().zip(0..).map(guess).collect(), noise, delta)
}

#[cfg(test)]
mod tests {
    use partita_privacy::Accountant;

    use super::*;
    use crate::private::Shares;

    #[test]
    fn without_noise_more_than_five_is_refuted_and_with_it_no_more_than_is_accounted() {
        let mut bits = SystemEntropy::default();
        let sums = |noise, rate| Sums { count: 3, noise, rate, shares: Shares::WHOLE };
        let open = audited(sums(1.0, 1.0), Noise::Off, 0.0, &mut bits).unwrap();
        assert!(open.right == 1_000 && open.epsilon > 5.0, "{open:?}");
        for (epsilon, rate) in [(1.0, 1.0), (8.0, 1.0), (8.0, 0.5)] {
            let noise = Accountant::noise_for_samples(epsilon, 1e-5, rate, 3).unwrap();
            for _ in 0..5 {
                let found = audited(sums(noise, rate), Noise::On, 1e-5, &mut bits).unwrap();
                assert!(found.guesses == 100 && found.epsilon <= epsilon, "{found:?} of {epsilon}");
            }
        }
        // The sum of five silos that divide the noise.
        let noise = Accountant::noise_for(8.0, 1e-5, 3).unwrap();
        let shares = Shares::of(Some(1), 6).unwrap();
        for _ in 0..5 {
            let found = audited(Sums { shares, ..sums(noise, 1.0) }, Noise::On, 1e-5, &mut bits).unwrap();
            assert!(found.epsilon <= 8.0, "{found:?}");
        }
        // A tenth of the noise that eight needs is found out.
        let little = Accountant::noise_for(8.0, 1e-5, 3).unwrap() / 10.0;
        let found = audited(sums(little, 1.0), Noise::On, 1e-5, &mut bits).unwrap();
        assert!(found.epsilon > 2.5, "{found:?}");
    }
}
