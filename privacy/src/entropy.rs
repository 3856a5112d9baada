//! Takes random bits from the operating system, and draws whole numbers below a bound from them without bias.

use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// A source of random bits for noise and keys.
///
/// # Laws
/// Bytes are uniform and independent, and none is handed out twice. No test can hold that; [`SystemEntropy`] has it
/// from the operating system. Noise from a source that someone else can repeat protects no row: anything but
/// [`SystemEntropy`] is for tests and simulations.
pub trait Entropy {
    /// Fills `bytes` with random ones.
    ///
    /// # Errors
    /// [`Error::Entropy`] where there are none.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<()>;
}

/// The random bits of the operating system, read in blocks.
///
/// # Example
/// ```
/// use partita_privacy::{DiscreteGaussian, SystemEntropy};
/// let drawn = DiscreteGaussian::new(1000)?.draw(&mut SystemEntropy::default())?;
/// assert!(drawn.abs() < 20_000); // farther off with probability exp(-200)
/// # Ok::<(), partita_privacy::Error>(())
/// ```
#[derive(Default)]
pub struct SystemEntropy {
    /// Bytes not yet handed out; those handed out are removed.
    block: Vec<u8>,
}

impl std::fmt::Debug for SystemEntropy {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("SystemEntropy").finish_non_exhaustive()
    }
}

impl Entropy for SystemEntropy {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<()> {
        const BLOCK: usize = 4096;
        let system =
            |bytes: &mut [u8]| getrandom::fill(bytes).map_err(|error| Error::Entropy { problem: error.to_string() });
        if bytes.len() > BLOCK {
            return system(bytes);
        }
        if self.block.len() < bytes.len() {
            self.block.resize(BLOCK, 0);
            system(&mut self.block)?;
        }
        let rest = self.block.len() - bytes.len();
        bytes.copy_from_slice(&self.block[rest..]);
        self.block.truncate(rest);
        Ok(())
    }
}

/// Bits that a seed repeats, SHA-256 of the seed and a counter: for tests and simulations. They give no protection.
///
/// # Example
/// ```
/// use partita_privacy::{DiscreteGaussian, SeededBits};
/// let draw = || DiscreteGaussian::new(1000)?.draw(&mut SeededBits::new(7));
/// assert_eq!(draw()?, draw()?);
/// # Ok::<(), partita_privacy::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeededBits {
    seed: u64,
    at: u64,
}

impl SeededBits {
    /// The bits of a seed, from their start.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seed, at: 0 }
    }
}

impl Entropy for SeededBits {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<()> {
        for part in bytes.chunks_mut(32) {
            let hash = Sha256::digest([self.seed.to_le_bytes(), self.at.to_le_bytes()].concat());
            part.copy_from_slice(&hash[..part.len()]);
            self.at += 1;
        }
        Ok(())
    }
}

/// The most draws that rejection may take: each is accepted with probability above one half.
const MOST: usize = 1000;

/// A uniform whole number below `bound`, which is positive: bits enough for `bound`, drawn again while too large.
pub(crate) fn below(entropy: &mut dyn Entropy, bound: u128) -> Result<u128> {
    let bits = u128::BITS - (bound - 1).leading_zeros();
    if bits == 0 {
        return Ok(0);
    }
    for _ in 0..MOST {
        let mut bytes = [0; 16];
        entropy.fill(&mut bytes[..bits.div_ceil(8) as usize])?;
        let drawn = u128::from_le_bytes(bytes) & (u128::MAX >> (u128::BITS - bits));
        if drawn < bound {
            return Ok(drawn);
        }
    }
    Err(stuck())
}

/// What a source repeats that never ends a loop which ends by chance.
pub(crate) fn stuck() -> Error {
    Error::Entropy { problem: "the source of random bits repeats itself".into() }
}
