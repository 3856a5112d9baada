//! Gives the inverse of the normal cumulative distribution function, to the last digits in both tails.
//!
//! Not `statrs`: antithetic and Sobol noise is made of it, whose bits for a seed would change with every release.

/// Degree-seven polynomials in powers 0 to 7: numerator and denominator.
struct Ratio([f64; 8], [f64; 8]);

const CENTRE: Ratio = Ratio(
    [
        3.387_132_872_796_366_5,
        1.331_416_678_917_843_8e2,
        1.971_590_950_306_551_3e3,
        1.373_169_376_550_946e4,
        4.592_195_393_154_987e4,
        6.726_577_092_700_87e4,
        3.343_057_558_358_813e4,
        2.509_080_928_730_122_7e3,
    ],
    [
        1.0,
        4.231_333_070_160_091e1,
        6.871_870_074_920_579e2,
        5.394_196_021_424_751e3,
        2.121_379_430_158_659_7e4,
        3.930_789_580_009_271e4,
        2.872_908_573_572_194_3e4,
        5.226_495_278_852_545e3,
    ],
);

const TAIL: Ratio = Ratio(
    [
        1.423_437_110_749_683_5,
        4.630_337_846_156_546,
        5.769_497_221_460_691,
        3.647_848_324_763_204_5,
        1.270_458_252_452_368_4,
        2.417_807_251_774_506e-1,
        2.272_384_498_926_918_4e-2,
        7.745_450_142_783_414e-4,
    ],
    [
        1.0,
        2.053_191_626_637_759,
        1.676_384_830_183_803_8,
        6.897_673_349_851e-1,
        1.481_039_764_274_800_8e-1,
        1.519_866_656_361_645_7e-2,
        5.475_938_084_995_345e-4,
        1.050_750_071_644_416_9e-9,
    ],
);

const FAR_TAIL: Ratio = Ratio(
    [
        6.657_904_643_501_103,
        5.463_784_911_164_114,
        1.784_826_539_917_291_3,
        2.965_605_718_285_048_7e-1,
        2.653_218_952_657_612_4e-2,
        1.242_660_947_388_078_4e-3,
        2.711_555_568_743_487_6e-5,
        2.010_334_399_292_288_1e-7,
    ],
    [
        1.0,
        5.998_322_065_558_88e-1,
        1.369_298_809_227_358e-1,
        1.487_536_129_085_061_5e-2,
        7.868_691_311_456_133e-4,
        1.846_318_317_510_054_8e-5,
        1.421_511_758_316_446e-7,
        2.044_263_103_389_939_8e-15,
    ],
);

impl Ratio {
    fn at(&self, x: f64) -> f64 {
        let polynomial = |coefficients: &[f64; 8]| coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c);
        polynomial(&self.0) / polynomial(&self.1)
    }
}

/// The number below which a standard normal number falls with this probability, $`z = \Phi^{-1}(p)`$.
///
/// Minus and plus infinity at 0 and 1; not a number outside.
///
/// # Numerics
/// Relative error below 1e-15 for every `probability` that is a normal f64. Near 1 the argument itself has lost digits:
/// use minus the quantile of the upper tail's probability.
///
/// # Example
/// ```
/// let z = partita_core::special::normal_quantile(0.975);
/// assert!((z - 1.959_963_984_540_054).abs() < 1e-15);
/// ```
///
/// # References
/// Wichura (1988), Algorithm AS 241: the percentage points of the normal distribution, routine PPND16.
#[must_use]
pub fn normal_quantile(probability: f64) -> f64 {
    let centred = probability - 0.5;
    if centred.abs() <= 0.425 {
        return centred * CENTRE.at(0.180_625 - centred * centred);
    }
    if probability <= 0.0 || probability >= 1.0 {
        return match probability {
            0.0 => f64::NEG_INFINITY,
            1.0 => f64::INFINITY,
            _ => f64::NAN,
        };
    }
    let tail = if centred < 0.0 { probability } else { 1.0 - probability };
    let root = (-tail.ln()).sqrt();
    let size = if root <= 5.0 { TAIL.at(root - 1.6) } else { FAR_TAIL.at(root - 5.0) };
    size.copysign(centred)
}
