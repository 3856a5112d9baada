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

use crate::math::kernel::box_muller;

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

/// Numbers of a long vector that are made at a time; a stream has whole batches.
const BATCH: usize = 512;

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
    /// only noise of [`Purpose::Fit`] may be dependent. More than 16,384 independent numbers are made in parallel, every part
    /// from its own stream, with the same numbers for any number of threads.
    ///
    /// # Numerics
    /// So many numbers are in single precision, by loops that the compiler vectorises ([`crate::kernel::box_muller`]), with
    /// the same bits on every machine.
    pub fn normal(&self, key: Key, out: &mut [f64]) {
        match (key.purpose, self.kind) {
            (Purpose::Fit, NoiseKind::Antithetic) => kind::antithetic(self, key, out),
            (Purpose::Fit, NoiseKind::Sobol) => kind::sobol(self, key, out),
            _ => self.independent(key, out),
        }
    }

    /// The noise of a key, whatever the dependence between particles.
    fn independent(&self, key: Key, out: &mut [f64]) {
        if out.len() <= STREAM_LENGTH { self.stream(key).normal(out) } else { self.long(key, out, f64::from) }
    }

    /// Fills `out` with the noise of [`Noise::normal`] rounded to single precision.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Key, Noise, Purpose};
    /// let (mut single, mut double) = ([0.0_f32; 2], [0.0; 2]);
    /// Noise::new(1).normal_single(Key::new(Purpose::Fit, 0), &mut single);
    /// Noise::new(1).normal(Key::new(Purpose::Fit, 0), &mut double);
    /// assert_eq!(single, double.map(|number| number as f32));
    /// ```
    #[expect(clippy::cast_possible_truncation, reason = "single precision is what was asked for")]
    pub fn normal_single(&self, key: Key, out: &mut [f32]) {
        let is_dependent = key.purpose == Purpose::Fit && self.kind != NoiseKind::Independent;
        if !is_dependent && out.len() > STREAM_LENGTH {
            return self.long(key, out, |number| number);
        }
        let mut values = vec![0.0; out.len()];
        self.normal(key, &mut values);
        out.iter_mut().zip(values).for_each(|(slot, value)| *slot = value as f32);
    }

    /// The numbers of a long vector, part by part, as `convert` writes them.
    fn long<T: Send>(&self, key: Key, out: &mut [T], convert: impl Fn(f32) -> T + Sync) {
        out.par_chunks_mut(STREAM_LENGTH).enumerate().for_each(|(number, part)| {
            let mut stream = self.part(key, number);
            for slots in part.chunks_mut(BATCH) {
                slots.iter_mut().zip(stream.batch()).for_each(|(slot, number)| *slot = convert(number));
            }
        });
    }

    /// The stream of a part of a long vector.
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
    /// Standard normal numbers in single precision.
    fn batch(&mut self) -> [f32; BATCH] {
        let (mut bytes, mut words, mut numbers) = ([0; 4 * BATCH], [0; BATCH], [0.0; BATCH]);
        self.generator.fill_bytes(&mut bytes);
        let (each, _) = bytes.as_chunks::<4>();
        words.iter_mut().zip(each).for_each(|(word, bytes)| *word = u32::from_le_bytes(*bytes));
        box_muller(&words, &mut numbers);
        numbers
    }

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

    fn long(threads: usize) -> Vec<f64> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let mut values = vec![0.0; 3 * STREAM_LENGTH + 5];
        pool.install(|| Noise::new(7).normal(Key::new(Purpose::Fit, 3), &mut values));
        values
    }

    #[test]
    fn long_vectors_are_the_same_for_any_number_of_threads() {
        let (alone, together) = (long(1), long(3));
        assert!(alone.iter().zip(&together).all(|(a, b)| a.to_bits() == b.to_bits()));
        // A longer vector has the same numbers first.
        let mut longer = vec![0.0; 4 * STREAM_LENGTH];
        Noise::new(7).normal(Key::new(Purpose::Fit, 3), &mut longer);
        assert!(alone.iter().zip(&longer).all(|(a, b)| a.to_bits() == b.to_bits()));
    }

    #[test]
    fn single_precision_has_the_rounded_numbers_of_short_and_long_vectors() {
        let key = Key::new(Purpose::Fit, 3).particle(1);
        for kind in [NoiseKind::Independent, NoiseKind::Antithetic, NoiseKind::Sobol] {
            for length in [7, STREAM_LENGTH, STREAM_LENGTH + 1, 2 * STREAM_LENGTH + BATCH + 3] {
                let (mut double, mut single) = (vec![0.0; length], vec![0.0_f32; length]);
                Noise::new(7).kind(kind).normal(key, &mut double);
                Noise::new(7).kind(kind).normal_single(key, &mut single);
                assert!(double.iter().zip(&single).all(|(a, b)| (*a as f32).to_bits() == b.to_bits()), "{kind:?}");
            }
        }
    }

    #[test]
    fn long_antithetic_vectors_are_each_other_with_the_sign_changed() {
        let noise = Noise::new(7).kind(NoiseKind::Antithetic);
        let [mut even, mut odd, mut plain] = [(); 3].map(|()| vec![0.0; STREAM_LENGTH + 5]);
        let key = Key::new(Purpose::Fit, 3).particle(4);
        noise.normal(key, &mut even);
        noise.normal(key.particle(5), &mut odd);
        Noise::new(7).normal(key, &mut plain);
        assert!(even.iter().zip(&odd).all(|(a, b)| (a + b).abs() == 0.0) && even == plain);
    }

    #[test]
    fn long_vectors_are_standard_normal_and_their_parts_are_independent() {
        let values = long(2);
        let count = values.len() as f64;
        let mean = |of: fn(f64) -> f64| values.iter().map(|value| of(*value)).sum::<f64>() / count;
        // Five standard errors of the first four moments, whose variances are 1, 2, 15 and 96.
        let moments = [
            (mean(|z| z), 1.0),
            (mean(|z| z * z) - 1.0, 2.0),
            (mean(|z| z.powi(3)), 15.0),
            (mean(|z| z.powi(4)) - 3.0, 96.0),
        ];
        for (moment, variance) in moments {
            assert!(moment.abs() < 5.0 * (variance / count).sqrt(), "{moments:?}");
        }
        // Kolmogorov's distance times the root of the count is beyond 2.5 once in 134,000.
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        let below = |rank: usize| rank as f64 / count - crate::math::special::normal_cumulative(sorted[rank]);
        let distance = (0..sorted.len()).map(|rank| below(rank).abs()).fold(0.0, f64::max) + 1.0 / count;
        assert!(distance * count.sqrt() < 2.5, "{distance}");
        // Parts have different streams, and neighbours are independent: the means of products are 0.
        let product = |lag: usize| values.iter().zip(&values[lag..]).map(|(a, b)| a * b).sum::<f64>() / count.sqrt();
        for lag in [1, 16, 32, BATCH, STREAM_LENGTH] {
            assert!(product(lag).abs() < 5.0, "{lag}");
        }
    }
}
