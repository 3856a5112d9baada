//! Draws discrete Gaussian noise exactly, in whole numbers alone, from bits of the operating system.

use std::f64::consts::PI;

use crate::entropy::{Entropy, below, stuck};
use crate::error::{Error, Result};

/// The discrete Gaussian distribution on the whole numbers.
///
/// $$ P(y) = e^{-y^2 / 2\sigma^2} \Big/ \sum_{k \in \mathbb{Z}} e^{-k^2 / 2\sigma^2}, $$
///
/// with $\sigma$ = `scale`, a whole number of units of the grid. Added to every number of a sum that one row moves by
/// at most $C$ in Euclidean norm, it gives $\rho = C^2 / 2\sigma^2$ of zero-concentrated differential privacy.
///
/// # Numerics
/// No floating-point number is involved: a draw has exactly this distribution. How long one takes depends on the draws
/// that were refused, and so hardly but not provably nothing on its value.
///
/// # Example
/// ```
/// use partita_privacy::{DiscreteGaussian, SystemEntropy};
/// let (noise, mut entropy) = (DiscreteGaussian::new(8)?, SystemEntropy::default());
/// let squares: i128 = (0..1000).map(|_| Ok(noise.draw(&mut entropy)?.pow(2))).sum::<Result<i128, partita_privacy::Error>>()?;
/// assert!((squares as f64 / 1000.0 - 64.0).abs() < 6.0 * 64.0 * (2.0_f64 / 1000.0).sqrt()); // six standard errors
/// # Ok::<(), partita_privacy::Error>(())
/// ```
///
/// # References
/// Canonne, Kamath and Steinke (2020), The discrete Gaussian for differential privacy, algorithms 1 to 3, with the
/// proposal's scale t = σ, for which the ratio of acceptance is $\exp(-(|y| - \sigma)^2 / 2\sigma^2)$.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiscreteGaussian {
    scale: u64,
}

/// The longest run of successes with probability 1/e that is believed.
const LONGEST: u128 = 1 << 16;

impl DiscreteGaussian {
    /// The largest scale for which every product below is smaller than 2¹²⁸.
    pub const LARGEST_SCALE: u64 = 1 << 40;

    /// The distribution with this scale.
    ///
    /// # Errors
    /// [`Error::Setting`] for a scale of zero, or above [`LARGEST_SCALE`](Self::LARGEST_SCALE).
    pub fn new(scale: u64) -> Result<Self> {
        match (1..=Self::LARGEST_SCALE).contains(&scale) {
            true => Ok(Self { scale }),
            false => Err(Error::Setting {
                operation: "discrete Gaussian noise",
                what: "the scale",
                found: scale.to_string(),
                expected: "a whole number from 1 to 2^40 in units of the grid",
                remedy: "Choose a coarser grid for more noise, a finer one for less.",
            }),
        }
    }

    /// The scale σ.
    #[must_use]
    pub fn scale(self) -> u64 {
        self.scale
    }

    /// $\tau$: no value of the sum of so many independent draws is by a factor of more than $e^\tau$ more or less probable
    /// than under one discrete Gaussian of the same variance parameter, which the sum is not exactly.
    ///
    /// $$ \tau = 10 \sum_{k=1}^{n-1} e^{-2 \pi^2 \sigma^2 k / (k + 1)} $$
    ///
    /// It is zero for one draw, 5.2e-4 for two of scale 1, and below 10⁻⁴⁰ from a scale of 4 on.
    ///
    /// # References
    /// Kairouz, Liu and Steinke (2021), The distributed discrete Gaussian mechanism for federated learning with secure
    /// aggregation, theorem 1.
    #[must_use]
    pub fn sum_differs_by(self, draws: u64) -> f64 {
        let strip = 2.0 * PI * PI * (self.scale as f64).powi(2);
        let of = |place: u64| (-strip * place as f64 / (place + 1) as f64).exp();
        10.0 * (1..draws).map(of).sum::<f64>()
    }

    /// One draw.
    ///
    /// # Errors
    /// [`Error::Entropy`] where the source of bits fails or repeats itself.
    pub fn draw(self, entropy: &mut dyn Entropy) -> Result<i128> {
        let scale = u128::from(self.scale);
        for _ in 0..LONGEST {
            let (size, negative) = laplace(entropy, scale)?;
            let apart = size.abs_diff(scale);
            if is_exponential(entropy, apart * apart, 2 * scale * scale)? {
                let size = i128::try_from(size).map_err(|_| stuck())?;
                return Ok(if negative { -size } else { size });
            }
        }
        Err(stuck())
    }
}

/// True with probability exp(−`numerator`/`denominator`), for a fraction of at most one: the parity of the first failure
/// of independent events with probabilities γ, γ/2, γ/3, …
fn is_exponential_below_one(entropy: &mut dyn Entropy, numerator: u128, denominator: u128) -> Result<bool> {
    for place in 1..LONGEST {
        if below(entropy, denominator * place)? >= numerator {
            return Ok(place % 2 == 1);
        }
    }
    Err(stuck())
}

/// True with probability exp(−`numerator`/`denominator`), for any fraction.
fn is_exponential(entropy: &mut dyn Entropy, numerator: u128, denominator: u128) -> Result<bool> {
    for _ in 0..numerator / denominator {
        if !is_exponential_below_one(entropy, 1, 1)? {
            return Ok(false);
        }
    }
    is_exponential_below_one(entropy, numerator % denominator, denominator)
}

/// A draw of the discrete Laplace distribution P(y) ∝ exp(−|y|/`scale`), as its size and whether it is negative.
fn laplace(entropy: &mut dyn Entropy, scale: u128) -> Result<(u128, bool)> {
    for _ in 0..LONGEST {
        let part = below(entropy, scale)?;
        if !is_exponential_below_one(entropy, part, scale)? {
            continue;
        }
        let mut whole = 0;
        while is_exponential_below_one(entropy, 1, 1)? {
            whole += 1;
            if whole == LONGEST {
                return Err(stuck());
            }
        }
        let size = part + scale * whole;
        let negative = below(entropy, 2)? == 1;
        // Zero would be drawn twice as often as it should be.
        if !(negative && size == 0) {
            return Ok((size, negative));
        }
    }
    Err(stuck())
}
