//! Makes every random number of Partita from keyed counter-based streams, so that a run never depends on scheduling.
//!
//! A [`Noise`] is a seed; [`Noise::stream`] turns a [`Key`] (the purpose of the numbers) into an independent ChaCha
//! stream. Two parties with the same seed and key draw the same numbers, whatever else they have drawn and in any
//! order. A coordinator and its silos thus share the noise of the global latents without sending it.

mod kind;

pub use kind::NoiseKind;

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Binomial, Distribution as _, Gamma, Poisson, StandardNormal};
use rayon::prelude::*;

/// The identity of a stream of random numbers.
///
/// # Laws
/// Streams of different keys, or of different seeds, are independent; equal keys give equal numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// The use of the numbers.
    pub purpose: Purpose,
    /// The optimiser step, epoch or draw.
    pub step: u64,
    /// The silo's index; [`Key::COORDINATOR`] for noise that all parties share.
    pub silo: u32,
    /// The block of latents within the party.
    pub block: u32,
    /// The Monte Carlo particle.
    pub particle: u32,
}

impl Key {
    /// The silo index of noise shared by all parties.
    pub const COORDINATOR: u32 = u32::MAX;

    /// A key for `purpose` at `step`, with everything else at the coordinator's zero.
    #[must_use]
    pub fn new(purpose: Purpose, step: u64) -> Self {
        Self { purpose, step, silo: Self::COORDINATOR, block: 0, particle: 0 }
    }

    /// The same key for another silo.
    #[must_use]
    pub fn silo(self, silo: u32) -> Self {
        Self { silo, ..self }
    }

    /// The same key for another block of latents.
    #[must_use]
    pub fn block(self, block: u32) -> Self {
        Self { block, ..self }
    }

    /// The same key for another particle.
    #[must_use]
    pub fn particle(self, particle: u32) -> Self {
        Self { particle, ..self }
    }
}

/// The uses of randomness; each has its own streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
#[non_exhaustive]
pub enum Purpose {
    /// Noise of the variational draws during fitting.
    Fit = 1,
    /// Noise of the draws that estimate a reported quantity.
    Report = 2,
    /// Draws from the prior.
    Prior = 3,
    /// Draws from a predictive distribution.
    Predictive = 4,
    /// Order of rows in minibatches.
    Minibatch = 5,
    /// Assignment of rows to silos.
    Partition = 6,
    /// Starting values.
    Initial = 7,
    /// Checks and laws.
    Check = 8,
    /// Order and time of the local updates of silos.
    Schedule = 9,
    /// Trajectories of Markov chains.
    Sampling = 10,
}

/// Identifies the random numbers of one draw of a model: the seed, and the index of the draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrawNoise {
    /// The seed.
    pub noise: Noise,
    /// The index of the draw; draws of other indices are independent.
    pub index: u64,
}

/// The length of the numbers of a key that one stream generates.
const STREAM_LENGTH: usize = 16_384;

/// The root of all randomness of a run: one seed.
///
/// # Example
/// ```
/// use partita_core::{Key, Noise, Purpose};
/// let noise = Noise::new(7);
/// let mut first = [0.0; 3];
/// let mut second = [0.0; 3];
/// noise.stream(Key::new(Purpose::Fit, 0)).normal(&mut first);
/// noise.stream(Key::new(Purpose::Fit, 0)).normal(&mut second);
/// assert_eq!(first, second);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Noise {
    seed: u64,
    kind: NoiseKind,
}

impl Noise {
    /// The randomness of the run with this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seed, kind: NoiseKind::Independent }
    }

    /// The same randomness with this dependence between the particles of a step.
    #[must_use]
    pub fn kind(self, kind: NoiseKind) -> Self {
        Self { kind, ..self }
    }

    /// The randomness of another seed with the same dependence between particles.
    #[must_use]
    pub fn reseeded(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// The seed.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Fills `out` with the standard normal noise of `key`. The kind of noise sets the dependence between particles;
    /// only noise of [`Purpose::Fit`] may be dependent. Long vectors are made in parallel, every part from its own
    /// stream, with the same numbers for any number of threads.
    pub fn normal(&self, key: Key, out: &mut [f64]) {
        match (key.purpose, self.kind) {
            (Purpose::Fit, NoiseKind::Antithetic) => kind::antithetic(self, key, out),
            (Purpose::Fit, NoiseKind::Sobol) => kind::sobol(self, key, out),
            _ if out.len() <= STREAM_LENGTH => self.stream(key).normal(out),
            _ => out.par_chunks_mut(STREAM_LENGTH).enumerate().for_each(|(number, part)| {
                self.part(key, number).normal(part);
            }),
        }
    }

    /// The noise of [`Noise::normal`] rounded to single precision.
    #[expect(clippy::cast_possible_truncation, reason = "single precision is what was asked for")]
    pub(crate) fn normal_single(&self, key: Key, out: &mut [f32]) {
        if key.purpose == Purpose::Fit && self.kind != NoiseKind::Independent {
            let mut values = vec![0.0; out.len()];
            self.normal(key, &mut values);
            out.iter_mut().zip(values).for_each(|(slot, value)| *slot = value as f32);
            return;
        }
        out.par_chunks_mut(STREAM_LENGTH).enumerate().for_each(|(number, part)| {
            let mut stream = self.part(key, number);
            part.iter_mut().for_each(|slot| *slot = stream.standard_normal() as f32);
        });
    }

    /// The stream of a part of a long vector; the first part has the stream of the key.
    fn part(&self, key: Key, number: usize) -> NoiseStream {
        let mut stream = self.stream(key);
        stream.generator.set_stream(number as u64);
        stream
    }

    /// The stream of `key`.
    #[must_use]
    pub fn stream(&self, key: Key) -> NoiseStream {
        let mut bytes = [0_u8; 32];
        bytes[0..8].copy_from_slice(&self.seed.to_le_bytes());
        bytes[8..16].copy_from_slice(&key.step.to_le_bytes());
        bytes[16..20].copy_from_slice(&(key.purpose as u32).to_le_bytes());
        bytes[20..24].copy_from_slice(&key.silo.to_le_bytes());
        bytes[24..28].copy_from_slice(&key.block.to_le_bytes());
        bytes[28..32].copy_from_slice(&key.particle.to_le_bytes());
        NoiseStream { generator: ChaCha8Rng::from_seed(bytes) }
    }
}

/// A stream of random numbers of one key.
#[derive(Debug, Clone)]
pub struct NoiseStream {
    generator: ChaCha8Rng,
}

impl NoiseStream {
    /// Fills `out` with independent standard normal numbers.
    pub fn normal(&mut self, out: &mut [f64]) {
        for value in out {
            *value = StandardNormal.sample(&mut self.generator);
        }
    }

    /// One standard normal number.
    pub fn standard_normal(&mut self) -> f64 {
        StandardNormal.sample(&mut self.generator)
    }

    /// One uniform number in the open interval (0, 1).
    pub fn uniform(&mut self) -> f64 {
        loop {
            let value: f64 = self.generator.random();
            if value > 0.0 {
                return value;
            }
        }
    }

    /// One gamma draw with `shape` > 0 and rate 1; NaN for any other shape.
    pub fn gamma(&mut self, shape: f64) -> f64 {
        Gamma::new(shape, 1.0).map_or(f64::NAN, |gamma| gamma.sample(&mut self.generator))
    }

    /// One Poisson count with `rate` > 0; NaN for an invalid rate.
    pub fn poisson(&mut self, rate: f64) -> f64 {
        Poisson::new(rate).map_or(f64::NAN, |poisson| poisson.sample(&mut self.generator))
    }

    /// One binomial count of `trials` with success `probability`; NaN for a probability outside [0, 1].
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        clippy::cast_possible_truncation,
        reason = "counts are far below 2^52"
    )]
    pub fn binomial(&mut self, trials: f64, probability: f64) -> f64 {
        Binomial::new(trials as u64, probability)
            .map_or(f64::NAN, |binomial| binomial.sample(&mut self.generator) as f64)
    }

    /// One index in `0..bound`.
    pub fn index(&mut self, bound: usize) -> usize {
        self.generator.random_range(0..bound.max(1))
    }

    /// Puts `items` in a random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.generator.random_range(0..=last);
            items.swap(last, other);
        }
    }

    /// One random 64-bit word.
    pub fn word(&mut self) -> u64 {
        self.generator.next_u64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_vectors_are_the_same_for_any_number_of_threads_and_begin_as_short_ones() {
        let key = Key::new(Purpose::Fit, 3);
        let drawn = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let mut values = vec![0.0; 3 * STREAM_LENGTH + 5];
            pool.install(|| Noise::new(7).normal(key, &mut values));
            values
        };
        let (alone, together) = (drawn(1), drawn(3));
        assert!(alone.iter().zip(&together).all(|(a, b)| a.to_bits() == b.to_bits()));
        let mut short = vec![0.0; STREAM_LENGTH];
        Noise::new(7).normal(key, &mut short);
        assert!(alone.iter().zip(&short).all(|(a, b)| a.to_bits() == b.to_bits()));
        let mut single = vec![0.0_f32; 3 * STREAM_LENGTH + 5];
        for kind in [NoiseKind::Independent, NoiseKind::Antithetic] {
            let noise = Noise::new(7).kind(kind);
            noise.normal(key, &mut short);
            noise.normal_single(key, &mut single[..STREAM_LENGTH]);
            assert!(short.iter().zip(&single).all(|(a, b)| (*a as f32).to_bits() == b.to_bits()));
        }
        Noise::new(7).normal_single(key, &mut single);
        assert!(alone.iter().zip(&single).all(|(a, b)| (*a as f32).to_bits() == b.to_bits()));
        // Parts have different streams: the mean of their products is 0 within five standard errors.
        let [first, second] = [&alone[..STREAM_LENGTH], &alone[STREAM_LENGTH..2 * STREAM_LENGTH]];
        let product: f64 = first.iter().zip(second).map(|(a, b)| a * b).sum();
        assert!((product / (STREAM_LENGTH as f64).sqrt()).abs() < 5.0);
    }
}
