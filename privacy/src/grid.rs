//! Sums what rows contribute in whole numbers, each row clipped exactly, so that one row moves a sum by no more.

use crate::entropy::Entropy;
use crate::error::{Error, Result};
use crate::gaussian::DiscreteGaussian;

/// The grid of whole numbers on which rows are clipped and summed.
///
/// A row's contribution $v$ becomes $k = \mathrm{trunc}(v / u)$ with the unit $u$ = `clip` / `steps`; where
/// $|k|^2 > \text{steps}^2$ it is shortened to $\mathrm{trunc}(k \cdot \text{steps} / \lceil |k| \rceil)$. All of this
/// is in whole numbers, so that the Euclidean norm of a row is at most `steps` exactly, whatever was rounded before.
///
/// # Laws
/// Any one row that is taken out moves the sum by at most `steps` in Euclidean norm. Sums have the same bits in any
/// order. `privacy/tests/privacy/grid.rs` holds both.
///
/// # Example
/// ```
/// use partita_privacy::Grid;
/// let sum = Grid::new(1.0, 1 << 20)?.sum(2, [[0.5, 0.25], [30.0, 40.0]])?;
/// assert_eq!(sum.exact().to_floats(), [0.5 + 0.6, 0.25 + 0.8].map(|x: f64| (x * 1048576.0).floor() / 1048576.0));
/// # Ok::<(), partita_privacy::Error>(())
/// ```
///
/// # References
/// Mironov (2012) on what floating-point noise gives away; Canonne, Kamath and Steinke (2020).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Grid {
    clip: f64,
    steps: u64,
}

/// The sum of clipped rows before noise. It hands its numbers out by [`release`](Self::release) alone, or by
/// [`exact`](Self::exact), which says that no noise protects them.
#[derive(Debug, Clone, PartialEq)]
pub struct GridSum {
    unit: f64,
    values: Vec<i128>,
    /// Rows whose contribution was longer than the clip. It depends on the data, and stays in the silo.
    pub clipped: usize,
    /// Rows with a contribution that is no number: they count as zero. It depends on the data, and stays in the silo.
    pub not_finite: usize,
    /// The rows summed.
    pub rows: usize,
}

/// Numbers that may leave a silo, as whole numbers of the grid's unit.
#[derive(Debug, Clone, PartialEq)]
pub struct Released {
    /// The unit of the grid.
    pub unit: f64,
    /// The numbers in that unit.
    pub values: Vec<i128>,
}

/// The largest size of one number before a row is clipped; a longer row is shortened in floating point first.
const LARGEST: f64 = (1_u64 << 50) as f64;

/// The least clip of a sum of which silos divide the noise.
const SMALLEST: f64 = 1.0 / (1_u64 << 30) as f64;

/// The most by which the logarithm of a probability of a sum of shares may differ from that of one discrete Gaussian.
const LARGEST_EXCESS: f64 = 1e-40;

/// The most numbers of a contribution: their squares then sum to less than 2¹²⁸.
const MOST_NUMBERS: usize = 1 << 27;

impl Grid {
    /// The steps from zero to the clip that suit any sum: truncation changes a number by a millionth of the clip.
    pub const STEPS: u64 = 1 << 20;

    /// The grid on which a contribution of Euclidean norm `clip` is `steps` units long.
    ///
    /// # Errors
    /// [`Error::Setting`] for a clip that is not a positive number, or steps outside 1 … 2³⁰.
    pub fn new(clip: f64, steps: u64) -> Result<Self> {
        let wrong = |what, found: String, expected| {
            let remedy = "Choose the clip near the usual norm of a row's contribution.";
            Err(Error::Setting { operation: "a grid for sums", what, found, expected, remedy })
        };
        if !(clip.is_finite() && clip / steps.max(1) as f64 >= f64::MIN_POSITIVE) {
            return wrong("the clip", clip.to_string(), "a positive number");
        }
        if !(1..=1 << 30).contains(&steps) {
            return wrong("the number of steps", steps.to_string(), "1 to 2^30");
        }
        Ok(Self { clip, steps })
    }

    /// The grid of a sum of which silos divide the noise: its unit is a power of two, and its clip is the whole number of units
    /// at or below `clip`, which is a millionth less at most.
    ///
    /// A share has less noise than is promised, so that only the sum of all may be read: where parts are written
    /// as floats before they are added up, their rounding would tell of each part. Multiples of a power of two are written
    /// without any.
    ///
    /// # Errors
    /// As for [`new`](Self::new); [`Error::Setting`] for a clip below 2⁻³⁰.
    ///
    /// # Example
    /// ```
    /// use partita_privacy::Grid;
    /// assert_eq!(Grid::dyadic(0.7)?.unit(), 0.5 / Grid::STEPS as f64);
    /// assert_eq!(Grid::dyadic(0.5)?, Grid::new(0.5, Grid::STEPS)?);
    /// # Ok::<(), partita_privacy::Error>(())
    /// ```
    pub fn dyadic(clip: f64) -> Result<Self> {
        let Self { clip, steps } = Self::new(clip, Self::STEPS)?;
        if clip < SMALLEST {
            return Err(Error::Setting {
                operation: "a grid for sums of which silos divide the noise",
                what: "the clip",
                found: clip.to_string(),
                expected: "at least 2^-30: masks are around multiples of 2^-64",
                remedy: "Measure columns in units in which the clip is larger.",
            });
        }
        // Without its fraction a float is the power of two at or below it.
        let unit = f64::from_bits(clip.to_bits() & !((1_u64 << 52) - 1)) / steps as f64;
        let steps = (clip / unit) as u64;
        Ok(Self { clip: steps as f64 * unit, steps })
    }

    /// The length of one step.
    #[must_use]
    pub fn unit(self) -> f64 {
        self.clip / self.steps as f64
    }

    /// The noise whose scale is `noise` times the clip, rounded up to a whole number of units.
    ///
    /// # Errors
    /// [`Error::Setting`] for noise below one unit or above what can be drawn.
    pub fn noise(self, noise: f64) -> Result<DiscreteGaussian> {
        let scale = (noise * self.steps as f64).ceil();
        // Saturates at both ends, which are refused.
        DiscreteGaussian::new(scale as u64)
    }

    /// The noise of one of `shares` silos, whose noise together has the scale of `noise` times the clip, or a little more: it is
    /// rounded up to a whole number of units.
    ///
    /// With $\tau$ of [`DiscreteGaussian::sum_differs_by`], $T$ sums of $d$ such numbers cost at most $2Td\tau$ more in
    /// $\varepsilon$ than [`Cost`](crate::Cost) says of one discrete Gaussian of that variance. Shares are refused where that
    /// would be seen beside the rounding of $\varepsilon$: where $\tau$ is above 10⁻⁴⁰.
    ///
    /// # Errors
    /// [`Error::Setting`] for no share, for noise of a share below some units of the grid, or above what can be drawn.
    ///
    /// # Example
    /// ```
    /// use partita_privacy::Grid;
    /// let grid = Grid::new(1.0, Grid::STEPS)?;
    /// // Four silos with half of the noise each have it together.
    /// assert_eq!(grid.share(6.0, 4)?, grid.noise(3.0)?);
    /// # Ok::<(), partita_privacy::Error>(())
    /// ```
    pub fn share(self, noise: f64, shares: u64) -> Result<DiscreteGaussian> {
        let own = self.noise(noise / (shares as f64).sqrt())?;
        if shares == 0 || own.sum_differs_by(shares) > LARGEST_EXCESS {
            return Err(Error::Setting {
                operation: "noise that silos divide",
                what: "the scale of a share",
                found: format!("{} units of the grid, of {shares} shares", own.scale()),
                expected: "at least one share, and so many units that the sum of shares is a discrete Gaussian to 40 digits",
                remedy: "Choose a finer grid, more noise or fewer shares.",
            });
        }
        Ok(own)
    }

    /// Clips and sums rows of `length` numbers each.
    ///
    /// # Errors
    /// [`Error::Length`] for a row of another length, or too many numbers.
    pub fn sum<R: AsRef<[f64]>>(self, length: usize, rows: impl IntoIterator<Item = R>) -> Result<GridSum> {
        let wrong = |found, expected| Err(Error::Length { operation: "a sum over rows", found, expected });
        if length > MOST_NUMBERS {
            return wrong(length, MOST_NUMBERS);
        }
        let mut sum = GridSum { unit: self.unit(), values: vec![0; length], clipped: 0, not_finite: 0, rows: 0 };
        for row in rows {
            let row = row.as_ref();
            if row.len() != length {
                return wrong(row.len(), length);
            }
            sum.rows += 1;
            if row.iter().all(|value| value.is_finite()) {
                sum.clipped += usize::from(self.add(row, &mut sum.values));
            } else {
                sum.not_finite += 1;
            }
        }
        Ok(sum)
    }

    /// Adds one row of finite numbers; whether it was clipped.
    fn add(self, row: &[f64], values: &mut [i128]) -> bool {
        let unit = self.unit();
        let largest = row.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
        // Any map of one row is allowed here: only what follows bounds its norm.
        let shorten = if largest / unit > LARGEST { LARGEST / largest } else { 1.0 / unit };
        let truncate = |value: &f64| i128::from((value * shorten) as i64);
        let squares: u128 = row.iter().map(|value| truncate(value).unsigned_abs().pow(2)).sum();
        let steps = u128::from(self.steps);
        if squares <= steps * steps {
            values.iter_mut().zip(row).for_each(|(sum, value)| *sum += truncate(value));
            return false;
        }
        let floor = squares.isqrt();
        let norm = i128::try_from(floor).unwrap_or(i128::MAX) + i128::from(floor * floor < squares);
        let steps = i128::from(self.steps);
        values.iter_mut().zip(row).for_each(|(sum, value)| *sum += truncate(value) * steps / norm);
        true
    }
}

impl GridSum {
    /// Adds `noise` to every number.
    ///
    /// # Errors
    /// [`Error::Entropy`] where no noise could be drawn: then nothing is released.
    pub fn release(self, noise: DiscreteGaussian, entropy: &mut dyn Entropy) -> Result<Released> {
        let mut values = self.values;
        for value in &mut values {
            *value += noise.draw(entropy)?;
        }
        Ok(Released { unit: self.unit, values })
    }

    /// The numbers without any noise, which no differential privacy protects.
    #[must_use]
    pub fn exact(self) -> Released {
        Released { unit: self.unit, values: self.values }
    }
}

impl Released {
    /// The numbers in the unit of the rows.
    #[must_use]
    pub fn to_floats(&self) -> Vec<f64> {
        self.values.iter().map(|value| *value as f64 * self.unit).collect()
    }
}
