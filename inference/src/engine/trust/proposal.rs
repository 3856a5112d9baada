//! Draws globals around a posterior, the same at every party: from it, or with heavier tails and a scale for each side.

use partita_core::special::{HALF_LOG_TWO_PI, ln_gamma, log_sum_exp};
use partita_core::{Key, Noise, NoiseKind, Purpose};

use crate::engine::normal::Normal;
use crate::engine::terms::silo::global_key;

/// A normal distribution, or Student's t of the same centre and scale, perhaps with two sides.
///
/// In whitened coordinates $`w = L^{-1}(z - m)`$ a draw is $`w_i = s_i t_i`$, with $`t`$ of Student's distribution and
/// $`s_i`$ the scale of the side that $`t_i`$ is on. One draw of Student's distribution in sixteen is sixteen times as far
/// away: it looks for what is nowhere near, such as another mode.
#[derive(Debug, Clone)]
pub(crate) struct Proposal {
    pub(crate) around: Normal,
    /// The scales below and above the centre of each whitened coordinate; none for one.
    pub(crate) sides: Vec<f64>,
    /// Degrees of freedom; 0 for the normal distribution.
    pub(crate) degrees: u64,
    pub(crate) seed: u64,
    /// The first draw.
    pub(crate) offset: u64,
}

/// The most degrees of freedom, each of which takes a number of noise.
pub(crate) const MOST_DEGREES: u64 = 256;
/// One draw in so many looks far away, and so many times as far.
const FAR: u64 = 16;
/// The block whose noise the draws of a Student's t have.
const BLOCK: u32 = u32::MAX - 1;

impl Proposal {
    /// A draw of the globals.
    pub(crate) fn draw(&self, index: usize) -> Vec<f64> {
        let far = if is_far(index) { real(FAR) } else { 1.0 };
        let (len, index) = (self.around.len(), u32::try_from(index).unwrap_or(u32::MAX));
        let noise = Noise::new(self.seed);
        if self.degrees == 0 {
            let mut numbers = vec![0.0; len];
            let key = global_key(Purpose::Report, self.offset, Key::COORDINATOR).particle(index);
            noise.normal(key, &mut numbers);
            return self.around.draw(&numbers);
        }
        let degrees = usize::try_from(self.degrees).unwrap_or(usize::MAX);
        let mut numbers = vec![0.0; len + degrees];
        // The kind of noise whose draws are spread evenly is that of fits.
        let key = Key::new(Purpose::Fit, u64::MAX - self.offset).block(BLOCK).particle(index);
        noise.kind(NoiseKind::Sobol).normal(key, &mut numbers);
        let (normal, rest) = numbers.split_at(len);
        let chi_square: f64 = rest.iter().map(|number| number * number).sum();
        let stretch = far * (real(self.degrees) / chi_square).sqrt();
        let white = normal.iter().enumerate().map(|(index, number)| self.side(index, *number) * stretch * number);
        self.around.draw(&white.collect::<Vec<_>>())
    }

    /// The scale of the side that a whitened coordinate is on.
    fn side(&self, index: usize, white: f64) -> f64 {
        self.sides.get(2 * index + usize::from(white > 0.0)).copied().unwrap_or(1.0)
    }

    /// The log density at some globals.
    pub(crate) fn log_density(&self, globals: &[f64]) -> f64 {
        let (mut square, mut log_det) = (0.0, self.around.log_det());
        for (index, white) in self.around.whiten(globals).into_iter().enumerate() {
            let side = self.side(index, white);
            square += (white / side).powi(2);
            log_det += side.ln();
        }
        let (len, degrees) = (real(self.around.len() as u64), real(self.degrees));
        if self.degrees == 0 {
            return -0.5 * square - len * HALF_LOG_TWO_PI - log_det;
        }
        let constant = ln_gamma(0.5 * (degrees + len)) - ln_gamma(0.5 * degrees);
        let scale = 0.5 * len * (degrees * std::f64::consts::PI).ln();
        let student = |square: f64| -0.5 * (degrees + len) * (square / degrees).ln_1p();
        let (near, far) = (real(FAR - 1).ln(), -len * real(FAR).ln());
        let mixture = [near + student(square), far + student(square / real(FAR * FAR))];
        constant - scale - log_det + log_sum_exp(&mixture) - real(FAR).ln()
    }
}

/// Whether the draw of this number looks far away: sixteen neighbours in each 256, which spread evenly as the rest do,
/// where every sixteenth would lie in one part of the cube.
pub(crate) fn is_far(index: usize) -> bool {
    index / 16 % 16 == 15
}

#[expect(clippy::cast_precision_loss, reason = "dimensions and degrees of freedom are small")]
fn real(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proposal(degrees: u64) -> Proposal {
        Proposal { around: Normal::independent(vec![1.0, -2.0], 0.5), sides: Vec::new(), degrees, seed: 3, offset: 0 }
    }

    #[test]
    fn densities_are_those_of_the_normal_and_of_student() {
        let at = [1.5, -2.0];
        // One standard deviation off in one of two dimensions of sd 0.5.
        assert!((proposal(0).log_density(&at) - (-0.5 - 2.0 * HALF_LOG_TWO_PI + 4.0_f64.ln())).abs() < 1e-14);
        // Γ(3.5)/Γ(2.5) = 2.5, so the constant of two dimensions with 5 degrees is 1/(2π).
        let both = 15.0 * 1.2_f64.powf(-3.5) + (1.0 + 0.2 / 256.0_f64).powf(-3.5) / 256.0;
        let student = (1.0 / (2.0 * std::f64::consts::PI)).ln() + 4.0_f64.ln() + (both / 16.0).ln();
        assert!((proposal(5).log_density(&at) - student).abs() < 1e-14);
    }

    #[test]
    fn draws_have_the_mean_and_the_covariance_of_student() {
        let own = proposal(5);
        let draws: Vec<Vec<f64>> = (0..4_096).map(|index| own.draw(index)).collect();
        let mean = |of: &dyn Fn(&[f64]) -> f64| draws.iter().map(|draw| of(draw)).sum::<f64>() / 4_096.0;
        assert!((mean(&|z| z[0]) - 1.0).abs() < 0.05 && (mean(&|z| z[1]) + 2.0).abs() < 0.05);
        // 5/3 times the square of the scale, of the near ones.
        let near = |draw: &[f64]| (draw[0] - 1.0).powi(2) - 5.0 / 12.0;
        let squares = (0..4_096).filter(|index| !is_far(*index)).map(|index| near(&draws[index])).sum::<f64>();
        assert!((squares / 3_840.0).abs() < 0.04, "{squares}");
        assert_eq!((0..4_096).filter(|index| is_far(*index)).count(), 256);
    }

    #[test]
    fn densities_are_those_of_the_draws() {
        for sides in [Vec::new(), vec![0.7, 1.5, 2.0, 0.9]] {
            let own = Proposal { sides, ..proposal(5) };
            // The ratio of the normal density to the density drawn from is one on average.
            let ratio = |index| {
                let draw = own.draw(index);
                (proposal(0).log_density(&draw) - own.log_density(&draw)).exp()
            };
            let mean = (0..4_096).map(ratio).sum::<f64>() / 4_096.0;
            assert!((mean - 1.0).abs() < 0.01, "{mean}");
        }
    }
}
