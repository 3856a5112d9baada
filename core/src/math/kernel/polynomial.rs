//! Computes `exp`, `log` and `log1p` by polynomials without branches, for loops that LLVM turns into vector code.
//!
//! Errors are in units in the last place against the correctly rounded libm of glibc, over the test grids below:
//! 1 for `exp`, 2 for the logarithms. `f64::mul_add` must be one instruction, so these functions are called only from
//! loops compiled for a machine with FMA.

use std::f64::consts::{LN_2, LOG2_E};

/// $(e^r - 1 - r)/r^2$ on $|r| \le \tfrac12\log 2$, highest power first.
///
/// Interpolated at ten Chebyshev nodes in exact arithmetic; the polynomial itself errs by 1.6e-17.
const EXPONENTIAL: [f64; 10] = [
    2.510_038_549_551_032e-8,
    2.762_008_844_540_974_6e-7,
    2.755_726_845_999_706_4e-6,
    2.480_152_129_595_437_6e-5,
    1.984_126_986_305_361_8e-4,
    1.388_888_891_721_371_7e-3,
    8.333_333_333_330_062e-3,
    4.166_666_666_662_413e-2,
    1.666_666_666_666_666_9e-1,
    5.000_000_000_000_001e-1,
];

/// $(2\thinspace \mathrm{artanh}(s) - 2s)/s^3$ in $s^2$ on $|s| \le 3 - 2\sqrt2$, highest power first (fdlibm's
/// `e_log.c`).
const ARTANH: [f64; 7] = [
    1.479_819_860_511_658_6e-1,
    1.531_383_769_920_937_3e-1,
    1.818_357_216_161_805e-1,
    2.222_219_843_214_978_4e-1,
    2.857_142_874_366_239e-1,
    3.999_999_999_940_942e-1,
    6.666_666_666_666_735e-1,
];

/// $1.5\cdot 2^{52}$: adding it rounds to a whole number and leaves that number in the lowest bits.
const ROUND: f64 = 6_755_399_441_055_744.0;
/// The leading 32 bits of $\log 2$, and the rest.
const LN_2_HIGH: f64 = 6.931_471_803_691_238e-1;
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
/// The bits of $\sqrt{1/2}$: a mantissa is brought to $[\sqrt{1/2}, \sqrt2)$.
const ROOT_HALF: u64 = 0x3fe6_a09e_667f_3bcd;
const ONE: u64 = 0x3ff0_0000_0000_0000;
const MANTISSA: u64 = 0x000f_ffff_ffff_ffff;

/// Writes $x = k\log 2 + r$ and returns $e^r$ and $k$ + [`ROUND`].
#[inline(always)]
fn reduced(x: f64) -> (f64, f64) {
    let shifted = x.mul_add(LOG2_E, ROUND);
    let k = shifted - ROUND;
    let r = k.mul_add(-LN_2_LOW, k.mul_add(-LN_2_HIGH, x));
    let (r2, pair) = (r * r, |i: usize| EXPONENTIAL[i].mul_add(r, EXPONENTIAL[i + 1]));
    let high = pair(0).mul_add(r2, pair(2));
    let middle = pair(4).mul_add(r2, pair(6));
    let tail = high.mul_add(r2 * r2, middle).mul_add(r2, pair(8));
    (tail.mul_add(r2, r) + 1.0, shifted)
}

/// $2^k$ from $k$ + [`ROUND`], for $-1022 \le k \le 1023$.
#[inline(always)]
fn power_of_two(shifted: f64) -> f64 {
    f64::from_bits((shifted.to_bits() << 52).wrapping_add(ONE))
}

/// $e^x$ for every $x$: infinite above 709.78, subnormal below -708.4, zero below -745.1.
#[inline(always)]
pub(super) fn exp(x: f64) -> f64 {
    let x = if x < -746.0 { -746.0 } else { x };
    let x = if x > 710.0 { 710.0 } else { x };
    let (value, shifted) = reduced(x);
    let k = shifted - ROUND;
    let half = 0.5_f64.mul_add(k, ROUND);
    let rest = (k - (half - ROUND)) + ROUND;
    value * power_of_two(half) * power_of_two(rest)
}

/// $e^x$ for $x \le 0$; below -708 it stays at $e^{-708}$, which is nothing beside 1.
#[inline(always)]
pub(super) fn exp_below_zero(x: f64) -> f64 {
    let (value, shifted) = reduced(if x < -708.0 { -708.0 } else { x });
    value * power_of_two(shifted)
}

/// $(e^r - 1 - r)/r^2$ on $|r| \le \tfrac12\log 2$ in single precision, highest power first (Cephes' `expf.c`).
const EXPONENTIAL_SINGLE: [f32; 6] =
    [1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_6e-1, 5e-1];
/// $1.5\cdot 2^{23}$, and $\log 2$ as 355/512 and the rest.
const ROUND_SINGLE: f32 = 12_582_912.0;
const LN_2_HIGH_SINGLE: f32 = 0.693_359_4;
const LN_2_LOW_SINGLE: f32 = -2.121_944_4e-4;
const ONE_SINGLE: u32 = 0x3f80_0000;

/// $e^x / 2^k$ in single precision, and $k$ + [`ROUND_SINGLE`].
#[inline(always)]
fn reduced_single(x: f32) -> (f32, f32) {
    let shifted = x.mul_add(std::f32::consts::LOG2_E, ROUND_SINGLE);
    let k = shifted - ROUND_SINGLE;
    let r = k.mul_add(-LN_2_LOW_SINGLE, k.mul_add(-LN_2_HIGH_SINGLE, x));
    let (r2, pair) = (r * r, |i: usize| EXPONENTIAL_SINGLE[i].mul_add(r, EXPONENTIAL_SINGLE[i + 1]));
    let tail = pair(0).mul_add(r2, pair(2)).mul_add(r2, pair(4));
    (tail.mul_add(r2, r) + 1.0, shifted)
}

/// $2^k$ from $k$ + [`ROUND_SINGLE`], for $-126 \le k \le 127$.
#[inline(always)]
fn power_of_two_single(shifted: f32) -> f32 {
    f32::from_bits((shifted.to_bits() << 23).wrapping_add(ONE_SINGLE))
}

/// [`exp`] in single precision: infinite above 88.72, subnormal below -87.3, zero below -104.
#[inline(always)]
pub(super) fn exp_single(x: f32) -> f32 {
    let x = if x < -105.0 { -105.0 } else { x };
    let x = if x > 89.0 { 89.0 } else { x };
    let (value, shifted) = reduced_single(x);
    let k = shifted - ROUND_SINGLE;
    let half = 0.5_f32.mul_add(k, ROUND_SINGLE);
    let rest = (k - (half - ROUND_SINGLE)) + ROUND_SINGLE;
    value * power_of_two_single(half) * power_of_two_single(rest)
}

/// [`exp_below_zero`] in single precision; below -87 it stays at $e^{-87}$.
#[inline(always)]
pub(super) fn exp_below_zero_single(x: f32) -> f32 {
    let (value, shifted) = reduced_single(if x < -87.0 { -87.0 } else { x });
    value * power_of_two_single(shifted)
}

/// $\mathrm{base} + 2\thinspace \mathrm{artanh}(s)$ for $|s| \le 3 - 2\sqrt2$.
#[inline(always)]
fn two_artanh(s: f64, base: f64) -> f64 {
    let z = s * s;
    let z2 = z * z;
    let pair = |i: usize| ARTANH[i].mul_add(z, ARTANH[i + 1]);
    let tail = ARTANH[0].mul_add(z2, pair(1)).mul_add(z2 * z2, pair(3).mul_add(z2, pair(5)));
    base + (s * z).mul_add(tail, 2.0 * s)
}

/// $\log(1 + t)$ for $0 \le t \le 1$.
///
/// With $s = t/(2+t)$ it is $2\thinspace \mathrm{artanh}(s)$; above $\sqrt2 - 1$ the half of $1+t$ is taken instead.
#[inline(always)]
pub(super) fn log1p_of_unit(t: f64) -> f64 {
    let large = t > 0.414_213_562_373_095;
    let numerator = if large { t - 1.0 } else { t };
    let denominator = if large { t + 3.0 } else { t + 2.0 };
    two_artanh(numerator / denominator, if large { LN_2 } else { 0.0 })
}

/// $\log x$ for every $x$: minus infinity at zero, NaN below.
#[inline(always)]
pub(super) fn log(x: f64) -> f64 {
    let subnormal = x < f64::MIN_POSITIVE;
    let scaled = if subnormal { x * 18_014_398_509_481_984.0 } else { x };
    let shift = if subnormal { 1023.0 + 54.0 } else { 1023.0 };
    let bits = scaled.to_bits().wrapping_add(ONE - ROOT_HALF);
    let k = (f64::from_bits((bits >> 52) | 0x4330_0000_0000_0000) - 4_503_599_627_370_496.0) - shift;
    let mantissa = f64::from_bits((bits & MANTISSA).wrapping_add(ROOT_HALF));
    let tail = two_artanh((mantissa - 1.0) / (mantissa + 1.0), 0.0);
    let value = k.mul_add(LN_2_HIGH, k.mul_add(LN_2_LOW, tail));
    let value = if x < f64::INFINITY { value } else { x };
    let outside = if x < 0.0 { f64::NAN } else { f64::NEG_INFINITY };
    if x <= 0.0 { outside } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(found: f64, expected: f64) -> u64 {
        found.to_bits().abs_diff(expected.to_bits())
    }

    fn largest(points: impl Iterator<Item = f64>, ours: fn(f64) -> f64, libm: fn(f64) -> f64) -> u64 {
        points.map(|x| units(ours(x), libm(x))).max().unwrap_or(0)
    }

    fn evenly(low: f64, high: f64, count: u32) -> impl Iterator<Item = f64> {
        (0..=count).map(move |index| low + (high - low) * f64::from(index) / f64::from(count))
    }

    fn powers(low: f64, high: f64) -> impl Iterator<Item = f64> {
        evenly(low.ln(), high.ln(), 50_000).map(f64::exp)
    }

    #[test]
    fn exp_errs_by_one_unit() {
        assert!(largest(evenly(-708.0, 709.7, 200_000), exp, f64::exp) <= 1);
        assert!(largest(evenly(-2.0, 2.0, 100_000), exp, f64::exp) <= 1);
        assert!(largest(evenly(-745.0, -708.0, 5_000), exp, f64::exp) <= 1);
        assert!(largest(evenly(-708.0, 0.0, 200_000), exp_below_zero, f64::exp) <= 1);
    }

    #[test]
    fn exp_in_single_precision_errs_by_two_units() {
        let far = evenly(-87.0, 0.0, 200_000).chain(evenly(-2.0, 0.0, 100_000)).map(|x| {
            let x = x as f32;
            exp_below_zero_single(x).to_bits().abs_diff((f64::from(x).exp() as f32).to_bits())
        });
        assert!(far.max() <= Some(2));
        assert_eq!(exp_below_zero_single(-1e30).to_bits(), exp_below_zero_single(-87.0).to_bits());
        assert!(exp_below_zero_single(f32::NAN).is_nan());
        let units = |x: f32| exp_single(x).to_bits().abs_diff((f64::from(x).exp() as f32).to_bits());
        let largest = evenly(-110.0, 95.0, 400_000).map(|x| units(x as f32)).max();
        assert!(largest <= Some(2), "{largest:?}");
        let ends = [-1e30, 0.0, 1e30].map(|x| exp_single(x).to_bits());
        assert_eq!(ends, [0.0, 1.0, f32::INFINITY].map(f32::to_bits));
        assert!(exp_single(f32::NAN).is_nan());
    }

    #[test]
    fn log_errs_by_two_units() {
        assert!(largest(powers(1e-307, 1e308), log, f64::ln) <= 2);
        assert!(largest(evenly(0.5, 2.0, 100_000), log, f64::ln) <= 2);
        assert!(largest(powers(1e-320, 1e-300), log, f64::ln) <= 2);
    }

    #[test]
    fn log1p_errs_by_two_units() {
        assert!(largest(evenly(0.0, 1.0, 200_000), log1p_of_unit, f64::ln_1p) <= 2);
        assert!(largest(powers(1e-300, 1.0), log1p_of_unit, f64::ln_1p) <= 2);
    }

    #[test]
    fn the_ends_are_those_of_libm() {
        for x in [0.0, -0.0, 710.0, 1e4, -746.0, -1e4, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(exp(x).to_bits(), x.exp().to_bits(), "exp({x})");
        }
        for x in [0.0, 1.0, f64::INFINITY, f64::MAX] {
            assert_eq!(log(x).to_bits(), x.ln().to_bits(), "log({x})");
        }
        assert!(log(-1.0).is_nan() && log(f64::NAN).is_nan() && log1p_of_unit(f64::NAN).is_nan());
        assert!(exp(f64::NAN).is_nan() && exp_below_zero(f64::NAN).is_nan());
    }
}
