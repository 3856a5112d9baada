//! Gives kernels the logarithm of one and a little, with all its digits.

use burn_cubecl::cubecl::{self, prelude::*};

/// $\log(1 + x)$ of a number that is not negative.
///
/// # Numerics
/// To one by the series $2\sum_k s^{2k+1}/(2k+1)$ in $s = x/(2 + x)$, which leaves out 2e-8 of it: logarithms of GPUs are off by a fixed
/// amount near one, and CubeCL's own function takes the logarithm of the rounded sum.
#[cube]
pub(super) fn log1p(x: f32) -> f32 {
    let s = x / (2.0f32 + x);
    let square = s * s;
    let series = 0.066_666_67f32;
    let series = series * square + 0.076_923_08f32;
    let series = series * square + 0.090_909_09f32;
    let series = series * square + 0.111_111_11f32;
    let series = series * square + 0.142_857_15f32;
    let series = series * square + 0.2f32;
    let series = series * square + 0.333_333_34f32;
    let series = series * square + 1.0f32;
    if x <= 1.0f32 { 2.0f32 * s * series } else { (1.0f32 + x).ln() }
}
