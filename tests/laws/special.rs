//! Holds the special functions to values of many digits, and to what they promise in the tails.

use partita_core::special::*;

// Two units in the last place of the reference, which was computed with 50 digits.
const LAST_DIGITS: f64 = 5e-16;

#[test]
fn softplus_keeps_its_digits_in_both_tails() {
    assert!((softplus(-40.0) / 4.248_354_255_291_589e-18 - 1.0).abs() < LAST_DIGITS);
    assert!((softplus(800.0) - 800.0).abs() < f64::MIN_POSITIVE);
    assert!((softplus(0.0) - 2.0_f64.ln()).abs() < LAST_DIGITS);
}

#[test]
fn sigmoid_of_opposite_numbers_adds_to_one() {
    for x in [-750.0, -30.0, -1.0, 0.0, 0.3, 20.0, 750.0] {
        assert!((sigmoid(x) + sigmoid(-x) - 1.0).abs() < LAST_DIGITS);
    }
}

#[test]
fn log_softmax_near_zero_keeps_its_digits() {
    let (largest, rest) = log_sum_exp_parts(&[50.0, 0.0]);
    assert!(((50.0 - largest) - rest + 1.928_749_847_963_917_8e-22).abs() < 1e-36);
}

#[test]
fn log_sum_exp_of_nothing_is_minus_infinity() {
    assert!(log_sum_exp(&[]) < f64::MIN);
    assert!(log_sum_exp(&[f64::NEG_INFINITY; 2]) < f64::MIN);
}

#[test]
fn log_of_one_plus_square_does_not_overflow() {
    assert!((log1p_square(1e200) - 400.0 * 10.0_f64.ln()).abs() < 1e-12);
}

// What the docstrings promise; references were computed with 50 digits by mpmath 1.4.1.
const THIRTEEN_DIGITS: f64 = 1e-13;

fn agrees(found: f64, expected: f64) -> bool {
    (found - expected).abs() <= THIRTEEN_DIGITS * expected.abs()
}

const DIGAMMA_TRIGAMMA: [[f64; 3]; 19] = [
    [1e-12, -1000000000000.5773, 1e+24],
    [0.001, -1000.5755719318103, 1000001.6425331958],
    [0.1, -10.423754940411076, 101.43329915079275],
    [0.5, -1.9635100260214235, 4.934802200544679],
    [1.0, -0.5772156649015329, 1.6449340668482264],
    [1.37, -0.09259870818786115, 1.055871928602604],
    [1.4616, -3.110625123034165e-05, 0.9677007114650835],
    [1.461632144968362, -3.072790566546293e-16, 0.9676722454476214],
    [1.47, 0.008066489011364869, 0.9603162090511507],
    [1.5615, 0.09246558647028064, 0.8863676043658405],
    [1.6, 0.12604745277347632, 0.8584318931245798],
    [2.0, 0.42278433509846713, 0.6449340668482264],
    [3.3, 1.0348224890596216, 0.3535015418410618],
    [9.9, 2.2411803166063815, 0.1062830416287406],
    [10.0, 2.251752589066721, 0.10516633568168575],
    [10.1, 2.262214357094148, 0.10407283129749605],
    [57.3, 4.039549239957579, 0.017605179101050653],
    [10000.0, 9.210290371142849, 0.00010000500016666666],
    [1000000000000.0, 27.63102111592805, 1.0000000000005e-12],
];

const DIFFERENCES: [[f64; 4]; 9] = [
    [0.3, 0.5, -0.9437383164182379, 2.5375156554939946],
    [2.0, 7.0, 10.60460290274525, 1.7178571428571427],
    [9.99, 0.001, 0.0022507530094608603, 0.00010527141400081483],
    [10.5, 0.5, 1.1637873536717516, 0.048751554769034734],
    [50.0, 1.0, 3.912023005428146, 0.02],
    [1000.0, 1000.0, 7293.703024845084, 0.6933972430599376],
    [1000000.0, 0.5, 6.907755153982137, 5.00000125e-07],
    [100000000.0, 3.0, 55.2620422618571, 2.9999999700000005e-08],
    [1000000000000.0, 1000000.0, 27631021.615927882, 9.999995000008333e-07],
];

const STIRLING: [[f64; 2]; 7] = [
    [1e-06, 5.9888309840731795],
    [0.5, 0.15342640972002736],
    [3.0, 0.02767792568499834],
    [9.9, 0.008414653894090263],
    [10.0, 0.00833056343336287],
    [33.0, 0.0025251752497567844],
    [10000000.0, 8.33333333333333e-09],
];

const LN_BETA: [[f64; 3]; 6] = [
    [1e-06, 1000000.0, 13.815496165239374],
    [0.5, 0.5, 1.1447298858494002],
    [3.0, 1000000000.0, -61.47665033327929],
    [2.5, 7.0, -4.825399338314249],
    [40.0, 60.0, -67.96861624748244],
    [100000.0, 100000.0, -138633.92706134808],
];

#[test]
fn digamma_and_trigamma_agree_with_fifty_digits() {
    for [x, first, second] in DIGAMMA_TRIGAMMA {
        assert!(agrees(digamma(x), first), "digamma({x}) = {} not {first}", digamma(x));
        assert!(agrees(trigamma(x), second), "trigamma({x}) = {} not {second}", trigamma(x));
    }
    assert!(digamma(0.0).is_nan() && trigamma(-1.0).is_nan());
}

#[test]
fn differences_agree_with_fifty_digits() {
    for [x, step, log_gamma, first] in DIFFERENCES {
        let found = [ln_gamma_difference(x, step), digamma_difference(x, step)];
        // Below the asymptotic series two plain values are subtracted, which leaves absolute accuracy only.
        let bound = if x < 10.0 { 1e-14 } else { THIRTEEN_DIGITS * log_gamma };
        assert!(
            (found[0] - log_gamma).abs() < bound,
            "ln_gamma_difference({x}, {step}) = {} not {log_gamma}",
            found[0]
        );
        assert!(agrees(found[1], first), "digamma_difference({x}, {step}) = {} not {first}", found[1]);
    }
}

#[test]
fn differences_over_short_steps_are_as_exact_as_they_say() {
    assert!(agrees(ln_gamma_difference(10.5, 1e-3), 0.002_303_050_991_113_275));
    assert!(agrees(ln_gamma_difference(1e3, 1e-4), 6.907_255_245_673_819e-4));
    assert!((ln_gamma_difference(12.25, 0.5_f64.powi(30)) - 2.294_922_857_754_841_3e-9).abs() < 1e-17);
}

#[test]
fn stirling_error_and_ln_beta_agree_with_fifty_digits() {
    for [x, expected] in STIRLING {
        // Below the asymptotic series the definition itself is evaluated: absolute accuracy only.
        let found = stirling_error(x);
        assert!((found - expected).abs() < 1e-14, "stirling_error({x}) = {found} not {expected}");
    }
    for [a, b, expected] in LN_BETA {
        assert!(agrees(ln_beta(a, b), expected), "ln_beta({a}, {b}) = {} not {expected}", ln_beta(a, b));
    }
}

// The error of the polynomials, 1e-16, and rounding of eight terms; the reference has 40 digits (mpmath 1.3:
// findroot(lambda z: erfc(-z/sqrt(2))/2 - p, start) with p the f64 given).
const QUANTILE_DIGITS: f64 = 1e-15;

const QUANTILES: [(f64, f64); 22] = [
    (2.225_073_858_507_201_4e-308, -37.519_379_347_144_5),
    (1e-200, -30.205_594_179_579_64),
    (1e-100, -21.273_453_560_965_326),
    (1e-30, -11.464_024_688_443_615),
    (1.38e-11, -6.658_838_502_850_766),
    (1.4e-11, -6.656_723_091_518_184),
    (1e-8, -5.612_001_244_174_789),
    (0.001, -3.090_232_306_167_813_6),
    (0.05, -1.644_853_626_951_472_6),
    (0.074_999, -1.439_538_535_345_230_8),
    (0.075, -1.439_531_470_938_456),
    (0.1, -1.281_551_565_544_600_4),
    (0.25, -0.674_489_750_196_081_7),
    (0.3, -0.524_400_512_708_040_8),
    (0.499, -0.002_506_630_899_571_766),
    (0.501, 0.002_506_630_899_571_766),
    (0.7, 0.524_400_512_708_040_7),
    (0.925, 1.439_531_470_938_456_1),
    (0.975, 1.959_963_984_540_053_8),
    (0.999, 3.090_232_306_167_813),
    (0.999_999_999_068_677_4, 6.009_353_565_530_744),
    (0.999_999_999_999_999_9, 8.209_536_151_601_387),
];

#[test]
fn quantiles_have_all_their_digits() {
    for (probability, expected) in QUANTILES {
        let found = normal_quantile(probability);
        assert!((found / expected - 1.0).abs() < QUANTILE_DIGITS, "{probability:e}: {found} against {expected}");
    }
    assert!(normal_quantile(0.5).abs() < f64::MIN_POSITIVE);
}

#[test]
fn quantile_undoes_the_cumulative_function() {
    for step in -80..=10 {
        let z = f64::from(step) / 10.0;
        // dz = dp / density: the last digit of p moves z by less than 1e-16 (1 + 1/|z|) in the lower tail.
        let back = normal_quantile(normal_cumulative(z));
        assert!((back - z).abs() < 2e-15, "{z}: {back}");
    }
}

#[test]
fn ends_are_infinite_and_what_is_no_probability_is_no_number() {
    assert!(normal_quantile(0.0) < f64::MIN && normal_quantile(1.0) > f64::MAX);
    assert!([-0.1, 1.1, f64::NAN].into_iter().all(|probability| normal_quantile(probability).is_nan()));
}

// Rounding of at most a few hundred terms; references were computed with 50 digits by mpmath 1.4.1.
const TWELVE_DIGITS: f64 = 1e-12;

const INCOMPLETE_GAMMA: [[f64; 4]; 7] = [
    [0.001, 1e-05, 0.9891230446957827, 0.01087695530421733],
    [0.5, 3.0, 0.9856941215645704, 0.01430587843542964],
    [1.0, 0.1, 0.09516258196404043, 0.9048374180359595],
    [3.0, 25.0, 0.999999995298931, 4.701068998290321e-09],
    [30.0, 10.0, 2.5099512015279076e-07, 0.9999997490048799],
    [100.0, 100.0, 0.5132987982791487, 0.48670120172085135],
    [1000.0, 1100.0, 0.99894067674607, 0.0010593232539299773],
];

const INCOMPLETE_BETA: [[f64; 4]; 6] = [
    [0.5, 0.5, 0.01, 0.06376856085851985],
    [2.0, 3.0, 0.4, 0.5248],
    [0.1, 20.0, 0.9, 1.0],
    [50.0, 70.0, 0.4375, 0.6809134997665198],
    [5.0, 0.5, 0.9375, 0.4332360327243805],
    [300.0, 300.0, 0.4375, 0.001060849976531334],
];

#[test]
fn incomplete_gamma_agrees_with_fifty_digits() {
    for [shape, x, lower, upper] in INCOMPLETE_GAMMA {
        let found = log_incomplete_gamma(shape, x);
        let (found, expected) = if lower < upper { (found.lower.exp(), lower) } else { (found.upper.exp(), upper) };
        assert!((found / expected - 1.0).abs() < TWELVE_DIGITS, "shape {shape}, x {x}: {found} not {expected}");
    }
}

#[test]
fn incomplete_beta_agrees_with_fifty_digits() {
    for [a, b, x, expected] in INCOMPLETE_BETA {
        let found = log_incomplete_beta(a, b, Chance { success: x, failure: 1.0 - x }).lower.exp();
        assert!((found / expected - 1.0).abs() < TWELVE_DIGITS, "a {a}, b {b}, x {x}: {found} not {expected}");
    }
}

#[test]
fn poisson_kernel_of_a_billion_keeps_its_digits() {
    // mpmath, 50 digits, at the mode: -½ log(2π 1e9) - 1/(12e9).
    let found = poisson_kernel(1e9, 1e9, 1e9_f64.ln());
    assert!((found + 11.280_571_451_761_212).abs() < 1e-12);
}

#[test]
fn deviance_is_continuous_where_its_formula_changes() {
    let near = deviance(1.0, 1.222_222_222_22, 1.222_222_222_22_f64.ln());
    let far = deviance(1.0, 1.222_222_222_23, 1.222_222_222_23_f64.ln());
    assert!((near - far).abs() < 1e-11);
}

#[test]
fn binomial_kernel_survives_an_underflown_probability() {
    let found = binomial_kernel(1.0, 1.0, LogChance { success: -800.0, failure: 0.0 });
    assert!((found - (2.0_f64.ln() - 800.0)).abs() < 1e-12);
}

/// The Rust files below `folder` that contain `text`.
fn files_with(text: &str, folder: &std::path::Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") && !path.ends_with(".git") {
            files_with(text, &path, found);
        } else if path.extension().is_some_and(|end| end == "rs")
            && std::fs::read_to_string(&path).unwrap().contains(text)
        {
            found.push(path);
        }
    }
}

#[test]
fn half_log_two_pi_is_rounded_correctly_and_written_once() {
    // ln(2π)/2 = 0.918938533204672741780...; the next number below is 7.2e-17 away, this one 3.9e-17.
    assert_eq!(HALF_LOG_TWO_PI.to_bits(), 0x3fed_67f1_c864_beb5);
    let (root, mut found) = (std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), Vec::new());
    files_with(concat!("const ", "HALF_LOG_TWO_PI"), &root, &mut found);
    assert_eq!(found, [root.join("core/src/math/special.rs")], "use partita_core::special::HALF_LOG_TWO_PI");
}
