//! Gives logarithms of the incomplete gamma and beta functions and their derivatives by the shapes, in both tails.
//!
//! Not `statrs` 0.19: from $a\log x - x - \log\Gamma(a)$ it loses nine digits at a shape of 1e8; its beta has no $1-x$.

use super::dual::Dual;
use super::gamma::{digamma_difference, log_minus_digamma};
use super::kernel::{Chance, binomial_kernel, poisson_kernel};
use super::log_one_minus_exp;

/// Series and fractions stop at a relative change below this.
const RELATIVE_CHANGE: f64 = 1e-16;
/// Keeps a continued fraction away from division by zero (Lentz).
const TINY: f64 = 1e-300;
/// More terms than a shape below 1e10 needs; they grow with its square root.
const TERMS: u32 = 1_000_000;

/// The logarithms of a distribution function and of its complement, with derivatives by two shapes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogTails {
    /// The logarithm of the lower function.
    pub lower: f64,
    /// The logarithm of its complement.
    pub upper: f64,
    /// The derivatives of `lower` by the shapes.
    pub lower_by: [f64; 2],
    /// The derivatives of `upper` by the shapes.
    pub upper_by: [f64; 2],
}

impl LogTails {
    const BELOW: Self = Self { lower: f64::NEG_INFINITY, upper: 0.0, lower_by: [0.0; 2], upper_by: [0.0; 2] };
    const UNKNOWN: Self = Self { lower: f64::NAN, upper: f64::NAN, lower_by: [f64::NAN; 2], upper_by: [f64::NAN; 2] };

    /// Both tails from the lower one.
    fn from_lower(lower: f64, lower_by: [f64; 2]) -> Self {
        let lower = lower.min(0.0);
        let upper = log_one_minus_exp(lower);
        Self { lower, upper, lower_by, upper_by: lower_by.map(|by| -by * (lower - upper).exp()) }
    }

    fn exchanged(self) -> Self {
        Self { lower: self.upper, upper: self.lower, lower_by: self.upper_by, upper_by: self.lower_by }
    }
}

/// $\log P(a, x)$ and $\log Q(a, x)$ of the incomplete gamma functions, with their derivatives by $a$ = `shape`.
///
/// $$ P(a, x) = \frac{1}{\Gamma(a)}\int_0^x t^{a-1}e^{-t}\thinspace dt,\qquad Q(a, x) = 1 - P(a, x) $$
/// for $a$ > 0 and `x` ≥ 0. The second derivative of each is zero.
///
/// # Numerics
/// Values and derivatives have a relative error below 1e-12 for shapes from 1e-4 to 1e4 in either tail, also where the
/// functions themselves underflow; $\log Q$ loses a digit for every decade of a shape below that, the derivatives half
/// a digit for every decade above. Not a number where a million terms are too few, from shapes of about 1e10 on.
///
/// # References
/// NIST DLMF 8.11.4 and 8.9.2, differentiated term by term and step by step.
///
/// # Example
/// ```
/// let tails = partita_core::special::log_incomplete_gamma(1.0, 2000.0);
/// assert!((tails.upper + 2000.0).abs() < 1e-11);
/// ```
#[must_use]
pub fn log_incomplete_gamma(shape: f64, x: f64) -> LogTails {
    if x <= 0.0 {
        return LogTails::BELOW;
    }
    if x.is_infinite() {
        return LogTails::BELOW.exchanged();
    }
    let kernel = poisson_kernel(shape, x, x.ln());
    if x >= shape + 1.0 || (shape < 1.0 && x > shape.max(0.25)) {
        let fraction = gamma_fraction(shape, x);
        let by = log_minus_digamma(x, shape) + fraction.log_by()[0];
        let upper = kernel + (shape * fraction.value).ln();
        return LogTails::from_lower(upper, [by, 0.0]).exchanged();
    }
    let (mut sum, mut sum_by, mut term, mut slope, mut denominator) = (1.0, 0.0, 1.0, 0.0, shape);
    for _ in 0..TERMS {
        denominator += 1.0;
        term *= x / denominator;
        slope -= 1.0 / denominator;
        sum += term;
        sum_by += term * slope;
        if term * (1.0 - slope) < RELATIVE_CHANGE * sum {
            let by = log_minus_digamma(x, shape) - 1.0 / shape + sum_by / sum;
            return LogTails::from_lower(kernel + sum.ln(), [by, 0.0]);
        }
    }
    LogTails::UNKNOWN
}

/// The fraction of DLMF 8.9.2 with its derivative by the shape.
fn gamma_fraction(shape: f64, x: f64) -> Dual {
    let step = |index: f64| {
        let numerator = Dual::new(-index * (index - shape), [index, 0.0]);
        (numerator, Dual::new(x + 1.0 - shape + 2.0 * index, [-1.0, 0.0]))
    };
    lentz(Dual::new(x + 1.0 - shape, [-1.0, 0.0]), step)
}

/// $\log I_x(a, b)$ and $\log(1 - I_x(a, b))$ of the incomplete beta function, with their derivatives by $a$ and $b$.
///
/// $$ I_x(a, b) = \frac{1}{B(a, b)}\int_0^x t^{a-1}(1-t)^{b-1}\thinspace dt $$
/// for `a`, `b` > 0, with $x$ and $1 - x$ apart in `at`.
///
/// # Numerics
/// As for [`log_incomplete_gamma`]; values keep their digits for a shape of any size beside a small one.
///
/// # References
/// Didonato and Morris (1992), *Algorithm 708: significant digit computation of the incomplete beta function ratios*,
/// equation 9: the even part of the fraction of NIST DLMF 8.17.22, whose terms do not cancel for large shapes.
///
/// # Example
/// ```
/// use partita_core::special::{Chance, log_incomplete_beta};
/// let tails = log_incomplete_beta(3.0, 1.0, Chance { success: 0.5, failure: 0.5 });
/// assert!((tails.lower - 0.125_f64.ln()).abs() < 1e-14);
/// assert!((tails.lower_by[0] - 0.5_f64.ln()).abs() < 1e-14);
/// ```
#[must_use]
pub fn log_incomplete_beta(a: f64, b: f64, at: Chance) -> LogTails {
    let Chance { success: x, failure: complement } = at;
    if x <= 0.0 {
        return LogTails::BELOW;
    }
    if complement <= 0.0 {
        return LogTails::BELOW.exchanged();
    }
    // Whether x is above (a + 1)/(a + b + 2), from whichever of x and 1 - x has its digits.
    let is_above = if a > b { (a + b + 2.0) * complement < b + 1.0 } else { (a + b + 2.0) * x > a + 1.0 };
    if is_above {
        let LogTails { lower, upper, lower_by, upper_by } =
            log_beta_lower(b, a, Chance { success: complement, failure: x });
        let swap = |[first, second]: [f64; 2]| [second, first];
        return LogTails { lower: upper, upper: lower, lower_by: swap(upper_by), upper_by: swap(lower_by) };
    }
    log_beta_lower(a, b, at)
}

fn log_beta_lower(a: f64, b: f64, at: Chance) -> LogTails {
    let (Chance { success: x, failure: complement }, log) = (at, at.ln());
    // a - (a + b)x
    let excess = if a > b { (a + b) * complement - b } else { a - (a + b) * x };
    let denominator = |n: f64| {
        let rest = Dual::new(excess + 1.0 + n * (1.0 + complement), [complement, -x]);
        Dual::new(a + n, [1.0, 0.0]) / Dual::new(a + 2.0 * n + 1.0, [1.0, 0.0]) * rest
    };
    let step = |n: f64| {
        let end = Dual::new(a + 2.0 * n - 1.0, [1.0, 0.0]);
        let left = Dual::new(n * (b - n) * x, [0.0, n * x]);
        let numerator = Dual::new(a + (n - 1.0), [1.0, 0.0]) / end * (Dual::new(a + b + (n - 1.0), [1.0, 1.0]) / end);
        (numerator * left * Dual::constant(x), Dual::constant(n) + left / end + denominator(n))
    };
    let fraction = lentz(denominator(0.0), step);
    let [by_a, by_b] = fraction.log_by();
    let lower = binomial_kernel(a, b, log) + (b / (a + b)).ln() + (a * fraction.value).ln();
    let by_a = log.success + digamma_difference(a, b) + by_a;
    let by_b = log.failure + digamma_difference(b, a) + by_b;
    LogTails::from_lower(lower, [by_a, by_b])
}

/// $1/(b_0 + a_1/(b_1 + a_2/(b_2 + \dots)))$ by Lentz's method; `step` gives $a_i$ and $b_i$.
///
/// Not a number if it does not settle.
fn lentz(first: Dual, step: impl Fn(f64) -> (Dual, Dual)) -> Dual {
    let one = Dual::constant(1.0);
    let mut c = Dual::constant(1.0 / TINY);
    let mut d = one / first;
    let mut fraction = d;
    let mut steady = 0;
    for index in 1..TERMS {
        let (numerator, denominator) = step(f64::from(index));
        c = away_from_zero(denominator + numerator / c);
        d = one / away_from_zero(denominator + numerator * d);
        let change = c * d;
        fraction = fraction * change;
        let slope = change.by[0].abs() + change.by[1].abs();
        let size = 1.0 + fraction.log_by().map(f64::abs).iter().sum::<f64>();
        // Two steps in a row: one may stand still by chance.
        let still = (change.value - 1.0).abs() < 2.0 * RELATIVE_CHANGE && slope < RELATIVE_CHANGE * size;
        steady = if still { steady + 1 } else { 0 };
        if steady == 2 {
            return fraction;
        }
    }
    Dual::constant(f64::NAN)
}

fn away_from_zero(x: Dual) -> Dual {
    if x.value.abs() < TINY { Dual { value: TINY, by: x.by } } else { x }
}

#[cfg(test)]
mod tests {
    use super::*;

    // References by mpmath 1.4.1 with 60 digits.
    const RELATIVE: f64 = 1e-12;
    const DERIVATIVE: f64 = 1e-10;

    // shape, x, log P, log Q, and their derivatives by the shape.
    const GAMMA: [[f64; 6]; 19] = [
        [0.5, 0.001, -3.3334286907475343, -0.036322332917113245, -6.944689685545728, 0.25688440935006684],
        [0.5, 3.0, -0.014409194045103478, -4.24708474678559, -0.04792594925187363, 3.302161881299043],
        [0.001, 0.5, -0.0005602235523847767, -7.487454751906464, -0.560673414592686, 1000.5226942791023],
        [0.02, 0.3, -0.01834096258364788, -4.00777479309741, -0.9283489754812233, 50.15339779693127],
        [0.9, 0.95, -0.4190111838912222, -1.0720585007009276, -0.6779751373136176, 1.3026526096069422],
        [0.1, 40.0, -1.5797414197837044e-20, -45.59444068460027, -2.2332073010824816e-19, 14.136536987099122],
        [3.0, 1e-05, -36.330543364136865, -1.666654166716667e-16, -12.769043758402717, 2.128157998492934e-15],
        [3.0, 2.9, -0.5905241658439879, -0.8075188448123606, -0.43397202120123085, 0.539139712245061],
        [3.0, 25.0, -4.7010690093403455e-09, -19.17547590764767, -1.0989050675540049e-08, 2.337564206753027],
        [3.0, 700.0, -2.4225323864783197e-299, -687.5881293714949, -1.3638195030923308e-298, 5.629726606358979],
        [30.0, 10.0, -15.197832339625965, -2.509951516520712e-07, -1.129748365769146, 2.8356139798117297e-07],
        [30.0, 30.0, -0.6457236376136083, -0.7429321685793004, -0.13931286888381342, 0.15353534329391574],
        [30.0, 100.0, -5.893259698661473e-17, -37.370137307006466, -7.275093288193328e-17, 1.2344769550620192],
        [300.0, 1.0, -1415.9025221917655, -0.0, -5.7054592892280125, 0.0],
        [300.0, 310.0, -0.325053424276742, -1.2818938211099773, -0.02664932604628673, 0.0693803896748214],
        [2000.0, 1900.0, -4.448523733381446, -0.011764754509629625, -0.05890224225294395, 0.0006970627663470054],
        [2000.0, 2150.0, -0.0005170664096589603, -7.567597761818449, -4.051306132971299e-05, 0.0783315015327862],
        [10000.0, 10000.0, -0.6904910944019723, -0.69581034030382, -0.007957747540813274, 0.0080001895364409],
        [1.5, 1.5, -0.49696410056940954, -0.9374500796081553, -0.5653944646296092, 0.8783188073645142],
    ];

    // a, b, x, 1 - x, log I, log (1 - I), the derivatives of the first by a and b, and of the second by a.
    const BETA: [([f64; 4], [f64; 2], [f64; 3]); 16] = [
        (
            [0.5, 0.5, 0.015625, 0.984375],
            [-2.5284050307682486, -0.08314921784562314],
            [-4.76909606795118, 1.3810504242725878, 0.41349947690784894],
        ),
        (
            [2.0, 3.0, 0.375, 0.625],
            [-0.7314698595666235, -0.6562390853608265],
            [-0.512792723331361, 0.3164676368072999, 0.4756303330287588],
        ),
        (
            [0.1, 20.0, 0.75, 0.25],
            [-8.22088760011151e-15, -32.43209821112323],
            [-1.0791688493348724e-13, 1.1760202493141403e-14, 13.127157331773152],
        ),
        (
            [20.0, 0.1, 0.25, 0.75],
            [-32.43209821112323, -8.22088760011151e-15],
            [-1.4305270994073482, 13.127157331773152, 1.1760202493141403e-14],
        ),
        (
            [50.0, 70.0, 0.4375, 0.5625],
            [-0.38432000033269903, -1.1422930523481645],
            [-0.055750784031974414, 0.04151397473906172, 0.11896918685736367],
        ),
        (
            [5.0, 0.5, 0.9375, 0.0625],
            [-0.836472589280283, -0.567812345388916],
            [-0.11141824250238666, 1.7146898843796243, 0.08516843014365956],
        ),
        (
            [5.0, 0.5, 0.03125, 0.96875],
            [-18.71752122834426, -7.4316255169483845e-09],
            [-3.5603168812070565, 3.5481960964219565, 2.6458941881116924e-08],
        ),
        (
            [300.0, 300.0, 0.4375, 0.5625],
            [-6.84868482752766, -0.001061413076145722],
            [-0.1456531852319668, 0.1284797094491298, 0.00015468027069658437],
        ),
        (
            [300.0, 300.0, 0.75, 0.25],
            [-1.0688689531332884e-39, -89.73421759051512],
            [-4.3603601330055014e-40, 7.452931393312653e-40, 0.4079415086595525],
        ),
        (
            [1000.0, 0.5, 0.9990234375, 0.0009765625],
            [-1.8189225200744061, -0.17697637717102654],
            [-0.0012946923172595774, 2.461758205850294, 0.000250656182719776],
        ),
        ([1000.0, 0.5, 0.25, 0.75], [-1390.1770540970756, -0.0], [-1.3867940699241283, 8.583916108595103, 0.0]),
        (
            [10000.0, 20000.0, 0.328125, 0.671875],
            [-3.59006100075972, -0.027984588330845838],
            [-0.018879865234739536, 0.009329515981858398, 0.0005358074648948328],
        ),
        (
            [4.0, 1.0, 0.5, 0.5],
            [-2.772588722239781, -0.06453852113757118],
            [-std::f64::consts::LN_2, 1.5638743750658464, 0.046209812037329684],
        ),
        (
            [0.001, 2.0, 0.25, 0.75],
            [-0.0006365754705739447, -7.359725846638513],
            [-0.6368564395610598, 0.0004115012792012209, 1000.1229813319951],
        ),
        (
            [40.0, 1000.0, 1e-09, 0.999999999],
            [-662.1711348902545, -2.646854336383807e-288],
            [-17.478098065717237, 0.039239949233883346, 4.62619796569851e-287],
        ),
        (
            [7.5, 3.25, 0.5, 0.5],
            [-2.461173788112608, -0.08919710278851208],
            [-0.4756729330880236, 0.7445429002637796, 0.04437844228355238],
        ),
    ];

    fn agrees(found: f64, expected: f64, bound: f64) -> bool {
        (found - expected).abs() <= bound * expected.abs()
    }

    #[test]
    fn gamma_tails_and_their_derivatives_agree_with_sixty_digits() {
        for [shape, x, lower, upper, lower_by, upper_by] in GAMMA {
            let found = log_incomplete_gamma(shape, x);
            let at = format!("shape {shape}, x {x}: {found:?}");
            assert!(
                agrees(found.lower, lower, RELATIVE) && agrees(found.upper, upper, RELATIVE),
                "{at} {lower} {upper}"
            );
            assert!(agrees(found.lower_by[0], lower_by, DERIVATIVE), "{at} lower by {lower_by}");
            assert!(agrees(found.upper_by[0], upper_by, DERIVATIVE), "{at} upper by {upper_by}");
        }
    }

    #[test]
    fn beta_tails_and_their_derivatives_agree_with_sixty_digits() {
        for ([a, b, x, complement], [lower, upper], [by_a, by_b, upper_by_a]) in BETA {
            let found = log_incomplete_beta(a, b, Chance { success: x, failure: complement });
            let at = format!("a {a}, b {b}, x {x}: {found:?}");
            assert!(
                agrees(found.lower, lower, RELATIVE) && agrees(found.upper, upper, RELATIVE),
                "{at} {lower} {upper}"
            );
            assert!(agrees(found.lower_by[0], by_a, DERIVATIVE), "{at} by a {by_a}");
            assert!(agrees(found.lower_by[1], by_b, DERIVATIVE), "{at} by b {by_b}");
            assert!(agrees(found.upper_by[0], upper_by_a, DERIVATIVE), "{at} upper by a {upper_by_a}");
        }
    }

    #[test]
    fn large_shapes_keep_their_digits_or_are_not_numbers() {
        // mpmath, 60 digits: a negative binomial of this concentration and mean 3, at counts of 0 and 3.
        let failure = 3.0 / (1e15 + 3.0);
        let at = Chance { success: 1.0 - failure, failure };
        let none = log_incomplete_beta(1e15, 1.0, at);
        assert!(agrees(none.lower, -2.999_999_999_999_995_5, RELATIVE), "{none:?}");
        assert!(agrees(none.upper, -0.051_069_180_942_701_82, RELATIVE), "{none:?}");
        assert!(agrees(none.lower_by[0], (-failure).ln_1p(), DERIVATIVE), "{none:?}");
        let three = log_incomplete_beta(1e15, 4.0, at);
        assert!(agrees(three.lower, -0.435_050_642_538_463_26, RELATIVE), "{three:?}");
        assert!(agrees(three.upper, -1.041_944_346_639_452_7, RELATIVE), "{three:?}");
        // Student's t with 1e14 degrees of freedom, two tails from 3.
        let (degrees, square) = (1e14, 9.0);
        let at = Chance { success: degrees / (degrees + square), failure: square / (degrees + square) };
        let tails = log_incomplete_beta(0.5 * degrees, 0.5, at);
        assert!(agrees(tails.lower, -5.914_579_040_950_158, RELATIVE), "{tails:?}");
        // P(a, a) = 1/2 + 1/(3 sqrt(2 pi a)) + O(a^{-3/2}).
        let middle = log_incomplete_gamma(1e9, 1e9);
        let expected = (0.5 + 1.0 / (3.0 * (std::f64::consts::TAU * 1e9).sqrt())).ln();
        assert!(agrees(middle.lower, expected, 1e-10), "{middle:?} {expected}");
        assert!(log_incomplete_gamma(1e14, 1e14).lower.is_nan());
    }
}
