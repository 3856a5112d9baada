//! Draws globals around a posterior, the same at every party: from it, or with heavier tails and far along single numbers.

use partita_core::kernel::dot;
use partita_core::special::{HALF_LOG_TWO_PI, ln_gamma, log_sum_exp};
use partita_core::{Key, Noise, NoiseKind, Purpose};

use crate::engine::explosion::real;
use crate::engine::normal::Normal;
use crate::engine::terms::silo::global_key;

/// A normal distribution, or Student's t of the same centre and scale, the first of which in a round also looks far away.
///
/// In whitened coordinates $`w = L^{-1}(z - m)`$ a draw of the first look is one of three:
///
/// - of Student's distribution;
/// - one in sixteen of it, sixteen times as far away: it finds what is nowhere near, such as another mode;
/// - three in sixteen are $`w = \varepsilon + (a - u_i^\top \varepsilon) u_i`$ with normal $`\varepsilon`$ and three times a
///   Cauchy variable $`a`$, where $`u_i`$ is the unit vector of row $`i`$ of $`L`$, of each row in turn: global $`i`$ moves
///   far, and the others as far as they follow it. Of many globals, draws that are far in all of them at once say nothing
///   of the tail of one.
#[derive(Debug, Clone)]
pub(crate) struct Proposal {
    pub(crate) around: Normal,
    /// Degrees of freedom; 0 for the normal distribution.
    pub(crate) degrees: u64,
    pub(crate) seed: u64,
    /// The first draw of a normal distribution; of Student's the number of the look, of which the first is 0.
    pub(crate) offset: u64,
}

/// How a draw is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    Near,
    /// Sixteen times as far.
    Far,
    /// Far along one global alone: the number of such draws before it.
    Along(usize),
}

/// The most degrees of freedom, each of which takes a number of noise.
pub(crate) const MOST_DEGREES: u64 = 256;
/// How much farther draws are that look far away.
const FAR: u64 = 16;
/// The scale of the Cauchy variable by which one global moves, in standard deviations.
pub(crate) const ALONG: f64 = 3.0;
/// Of so many draws so many are near, far, and along one global.
pub(crate) const OF_ALL: usize = 256;
const SHARES: [u64; 3] = [192, 16, 48];
/// The block whose noise the draws of a Student's t have.
const BLOCK: u32 = u32::MAX - 1;

impl Proposal {
    /// A draw of the globals.
    pub(crate) fn draw(&self, index: usize) -> Vec<f64> {
        let reach = self.reach(index);
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
        if let (Reach::Along(number), [above, below, ..]) = (reach, rest) {
            let direction = self.around.direction(number % len);
            let by = ALONG * above / below.abs() - dot(&direction, normal);
            let white = normal.iter().zip(&direction).map(|(own, along)| own + by * along);
            return self.around.draw(&white.collect::<Vec<_>>());
        }
        let far = if reach == Reach::Far { real(FAR) } else { 1.0 };
        let chi_square: f64 = rest.iter().map(|number| number * number).sum();
        let stretch = far * (real(self.degrees) / chi_square).sqrt();
        self.around.draw(&normal.iter().map(|number| stretch * number).collect::<Vec<_>>())
    }

    /// How the draw of this number is made: sixteen neighbours alike, which spread evenly as the rest do, where every
    /// sixteenth would lie in one part of the cube.
    pub(crate) fn reach(&self, index: usize) -> Reach {
        if self.degrees == 0 || self.offset > 0 {
            return Reach::Near;
        }
        let (many, block) = (index / OF_ALL, index / 16 % 16);
        match block {
            15 => Reach::Far,
            2 | 7 | 12 => Reach::Along(many * 48 + block / 5 * 16 + index % 16),
            _ => Reach::Near,
        }
    }

    /// The log density at some globals.
    pub(crate) fn log_density(&self, globals: &[f64]) -> f64 {
        let white = self.around.whiten(globals);
        let (square, log_det) = (dot(&white, &white), self.around.log_det());
        let (len, degrees) = (real(self.around.len() as u64), real(self.degrees));
        if self.degrees == 0 {
            return -0.5 * square - len * HALF_LOG_TWO_PI - log_det;
        }
        let constant = ln_gamma(0.5 * (degrees + len)) - ln_gamma(0.5 * degrees);
        let constant = constant - 0.5 * len * (degrees * std::f64::consts::PI).ln();
        let student = |square: f64| constant - 0.5 * (degrees + len) * (square / degrees).ln_1p();
        if self.offset > 0 {
            return student(square) - log_det;
        }
        let along = |global: usize| {
            let far = dot(&self.around.direction(global), &white);
            let cauchy = -(std::f64::consts::PI * ALONG * (far / ALONG).mul_add(far / ALONG, 1.0)).ln();
            cauchy - 0.5 * (square - far * far) - (len - 1.0) * HALF_LOG_TWO_PI
        };
        let along: Vec<f64> = (0..self.around.len()).map(along).collect();
        let far = student(square / real(FAR * FAR)) - len * real(FAR).ln();
        let kinds = [student(square), far, log_sum_exp(&along) - len.ln()];
        let share = |(kind, count): (f64, u64)| kind + (real(count) / real(OF_ALL as u64)).ln();
        log_sum_exp(&kinds.into_iter().zip(SHARES).map(share).collect::<Vec<_>>()) - log_det
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proposal(degrees: u64, offset: u64) -> Proposal {
        let factor = faer::Mat::from_fn(2, 2, |i, j| [[0.5, 0.0], [0.3, 0.4]][i][j]);
        Proposal { around: Normal { mean: vec![1.0, -2.0], factor }, degrees, seed: 3, offset }
    }

    #[test]
    fn densities_are_those_of_the_normal_of_student_and_of_cauchy() {
        // Whitened it is (1, 0): 1.5 = 1 + 0.5, -1.7 = -2 + 0.3; and the determinant of the scale is 0.2.
        let at = [1.5, -1.7];
        assert!((proposal(0, 0).log_density(&at) - (-0.5 - 2.0 * HALF_LOG_TWO_PI + 5.0_f64.ln())).abs() < 1e-14);
        // Γ(3.5)/Γ(2.5) = 2.5, so the constant of two dimensions with 5 degrees is 1/(2π).
        let student = 5.0 / (2.0 * std::f64::consts::PI) * 1.2_f64.powf(-3.5);
        assert!((proposal(5, 1).log_density(&at) - student.ln()).abs() < 1e-14);
        let far = 5.0 / (2.0 * std::f64::consts::PI) * (1.0 + 0.2 / 256.0_f64).powf(-3.5) / 256.0;
        // The first global moves along (1, 0), the second along (0.6, 0.8).
        let line = |along: f64| {
            let cauchy = 1.0 / (3.0 * std::f64::consts::PI * (1.0 + along * along / 9.0));
            cauchy * (-0.5 * (1.0 - along * along)).exp() / (2.0 * std::f64::consts::PI).sqrt()
        };
        let along = 5.0 * (line(1.0) + line(0.6)) / 2.0;
        let all = (192.0 * student + 16.0 * far + 48.0 * along) / 256.0;
        assert!((proposal(5, 0).log_density(&at) - all.ln()).abs() < 1e-14);
    }

    #[test]
    fn draws_have_the_mean_and_the_covariance_of_student() {
        let own = proposal(5, 1);
        let draws: Vec<Vec<f64>> = (0..4_096).map(|index| own.draw(index)).collect();
        let mean = |of: &dyn Fn(&[f64]) -> f64| draws.iter().map(|draw| of(draw)).sum::<f64>() / 4_096.0;
        assert!((mean(&|z| z[0]) - 1.0).abs() < 0.05 && (mean(&|z| z[1]) + 2.0).abs() < 0.05);
        // 5/3 times the squares of the scale, 0.25 and 0.09 + 0.16, and the product 0.15.
        let square = |a: usize, b: usize| mean(&|z| (z[a] - own.around.mean[a]) * (z[b] - own.around.mean[b]));
        let expected = [(0, 0, 0.25), (1, 1, 0.25), (0, 1, 0.15)];
        assert!(expected.iter().all(|(a, b, scale)| (square(*a, *b) - scale * 5.0 / 3.0).abs() < 0.04));
    }

    #[test]
    fn the_first_look_has_the_draws_of_its_shares() {
        let own = proposal(5, 0);
        let count = |of: &dyn Fn(Reach) -> bool| (0..512).filter(|index| of(own.reach(*index))).count() as u64;
        assert_eq!(count(&|reach| reach == Reach::Near), 2 * SHARES[0]);
        assert_eq!(count(&|reach| reach == Reach::Far), 2 * SHARES[1]);
        let along: Vec<Reach> =
            (0..512).map(|index| own.reach(index)).filter(|own| matches!(own, Reach::Along(_))).collect();
        assert_eq!(along, (0..96).map(Reach::Along).collect::<Vec<_>>());
        assert!((0..512).all(|index| proposal(5, 1).reach(index) == Reach::Near));
    }

    #[test]
    fn densities_are_those_of_the_draws() {
        for offset in [0, 1] {
            let own = proposal(5, offset);
            // The ratio of the normal density to the density drawn from is one on average.
            let ratio = |index| {
                let draw = own.draw(index);
                (proposal(0, 0).log_density(&draw) - own.log_density(&draw)).exp()
            };
            let mean = (0..4_096).map(ratio).sum::<f64>() / 4_096.0;
            assert!((mean - 1.0).abs() < 0.01, "{offset}: {mean}");
        }
    }
}
