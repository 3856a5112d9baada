//! Makes standard normal numbers of random words in single precision, by the map of Box and Muller.

use std::f32::consts::FRAC_PI_2;

use super::block::BLOCK;

/// Words of a block, and numbers that are made of them.
const WORDS: usize = 2 * BLOCK;

dispatch! {
    /// Fills `out` with independent standard normal numbers, made of as many independent words of 32 random bits.
    ///
    /// Of 32 words 16 give a radius each and 16 an angle:
    /// $$ x = \sqrt{-2\log u}\thinspace\cos\alpha, \qquad y = \sqrt{-2\log u}\thinspace\sin\alpha $$
    /// with $u$ uniform on $(0, 1]$ and $\alpha$ uniform on the circle. The numbers $x$ come first, then the $y$.
    ///
    /// # Shapes
    /// `words` and `out` have one length, a multiple of 32.
    ///
    /// # Numerics
    /// Nothing is fused, so that the bits are the same on every machine. Numbers err by some 2e-7 of their radius. Below
    /// 0.02 radii are coarser, as $u$ has 24 bits there: the smallest are 0, 3.5e-4 and 4.9e-4. No number is beyond 6.77,
    /// where one in 8e10 would be.
    ///
    /// # Panics
    /// If the lengths disagree or are no multiple of 32: callers have checked them.
    ///
    /// # References
    /// Box and Muller (1958), A note on the generation of random normal deviates.
    box_muller(words: &[u32], out: &mut [f32]) -> ()
    where words.len() == out.len() && out.len().is_multiple_of(WORDS);
    vector, vector
}

#[inline(always)]
fn vector(words: &[u32], out: &mut [f32]) {
    let (words, _) = words.as_chunks::<WORDS>();
    let (out, _) = out.as_chunks_mut::<WORDS>();
    for (words, out) in words.iter().zip(out) {
        for lane in 0..BLOCK {
            let radius = (-2.0 * log((words[lane] as f32 + 0.5) * UNIT)).sqrt();
            let [cosine, sine] = direction(words[lane + BLOCK]);
            out[lane] = radius * cosine;
            out[lane + BLOCK] = radius * sine;
        }
    }
}

/// $2^{-32}$.
const UNIT: f32 = 1.0 / 4_294_967_296.0;

/// The leading bits of $\log 2$, and the rest.
const LN_2_HIGH: f32 = 0.6931381;
const LN_2_LOW: f32 = 9.058001e-6;
/// $(\log(1 + f) - f + f^2/2 - s f^2/2)/s$ in $s^2$ with $s = f/(2 + f)$, lowest power first (fdlibm's `e_logf.c`).
const LOGARITHM: [f32; 4] = [0.6666666, 0.40000972, 0.28498787, 0.24279079];
/// $(\sin a - a)/a^3$ and $(\cos a - 1 + a^2/2)/a^4$ in $a^2$ on $|a| \le \pi/4$, lowest power first (Cephes' `sinf.c`).
const SINE: [f32; 3] = [-0.16666655, 0.008332161, -0.00019515296];
const COSINE: [f32; 3] = [0.041666646, -0.0013887316, 2.4433157e-5];

const ONE: u32 = 0x3f80_0000;
/// The bits of $\sqrt{1/2}$: a mantissa is brought to $[\sqrt{1/2}, \sqrt2)$.
const ROOT_HALF: u32 = 0x3f35_04f3;
const MANTISSA: u32 = 0x007f_ffff;
const SIGN: u32 = 0x8000_0000;
const SWAP: u32 = 0x4000_0000;

/// $\log u$ for a normal number $u \le 1$; never above 0.
#[inline(always)]
fn log(u: f32) -> f32 {
    let bits = u.to_bits().wrapping_add(ONE - ROOT_HALF);
    let exponent = ((bits >> 23) as i32).wrapping_sub(127) as f32;
    let f = f32::from_bits((bits & MANTISSA).wrapping_add(ROOT_HALF)) - 1.0;
    let s = f / (2.0 + f);
    let square = s * s;
    let fourth = square * square;
    let half = 0.5 * f * f;
    let rest = fourth * (LOGARITHM[1] + fourth * LOGARITHM[3]) + square * (LOGARITHM[0] + fourth * LOGARITHM[2]);
    s * (half + rest) + exponent * LN_2_LOW - half + f + exponent * LN_2_HIGH
}

/// Cosine and sine of an angle that is uniform on the circle: thirty bits give one of at most $\pi/4$, two bits turn it.
#[inline(always)]
fn direction(word: u32) -> [f32; 2] {
    let angle = ((word << 2) as i32) as f32 * (FRAC_PI_2 * UNIT);
    let square = angle * angle;
    let sine = angle + angle * square * (SINE[0] + square * (SINE[1] + square * SINE[2]));
    let above = square * square * (COSINE[0] + square * (COSINE[1] + square * COSINE[2]));
    let cosine = f32::from_bits((1.0 - 0.5 * square + above).to_bits() ^ (word & SIGN));
    let is_swapped = word & SWAP != 0;
    [if is_swapped { sine } else { cosine }, if is_swapped { cosine } else { sine }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::kernel::InstructionSet;

    /// Words in no particular order, the first of each half of a block at its ends.
    fn words(count: usize) -> Vec<u32> {
        let mut words: Vec<u32> = (1..=count).map(|index| (index as u32).wrapping_mul(2_654_435_769)).collect();
        (words[0], words[1]) = (0, u32::MAX);
        words
    }

    /// The map in double precision, with angles of which the two highest bits choose a quarter of the circle.
    fn expected(radius: u32, direction: u32) -> [f64; 2] {
        let radius = (-2.0 * ((f64::from(radius) + 0.5) / 4_294_967_296.0).ln()).sqrt();
        let within = f64::from((direction << 2) as i32) / 4_294_967_296.0 * std::f64::consts::FRAC_PI_2;
        let sign = if direction >> 31 == 1 { -1.0 } else { 1.0 };
        let own = [radius * sign * within.cos(), radius * within.sin()];
        if (direction >> 30) & 1 == 1 { [own[1], own[0]] } else { own }
    }

    #[test]
    fn numbers_are_those_of_the_map_with_the_same_bits_under_every_instruction_set() {
        let words = words(64 * WORDS);
        let found = [InstructionSet::Avx512, InstructionSet::Avx2, InstructionSet::Libm].map(|set| {
            let mut out = vec![f32::NAN; words.len()];
            set.box_muller(&words, &mut out);
            out
        });
        let bits = |numbers: &[f32]| numbers.iter().map(|number| number.to_bits()).collect::<Vec<u32>>();
        assert!(bits(&found[0]) == bits(&found[1]) && bits(&found[0]) == bits(&found[2]));
        for (words, found) in words.chunks(WORDS).zip(found[0].chunks(WORDS)) {
            for lane in 0..BLOCK {
                let own = expected(words[lane], words[lane + BLOCK]);
                for (found, own) in [found[lane], found[lane + BLOCK]].into_iter().zip(own) {
                    // 2e-7 of a radius of at most 6.8; near zero a radius is the root of a rounded number, which errs by
                    // less than the root of 1.2e-7.
                    let is_near = words[lane] > u32::MAX - (1 << 20);
                    let bound = if is_near { 4e-4 } else { 3e-6 };
                    assert!((f64::from(found) - own).abs() < bound, "{found} {own}");
                }
            }
        }
        // The ends of the radius: 6.76 and 0.
        assert!((found[0][0].hypot(found[0][BLOCK]) - 6.763_706).abs() < 1e-5);
        assert!(found[0][1].hypot(found[0][BLOCK + 1]) < 1e-6);
    }

    #[test]
    fn angles_lie_evenly_around_the_circle() {
        // 2^12 words evenly over all: cosines and sines have the means of a circle, quarter by quarter.
        let directions: Vec<[f32; 2]> = (0..1_u32 << 12).map(|index| direction((index << 20) | (1 << 19))).collect();
        let mean = |of: fn(f64, f64) -> f64| {
            let sum: f64 = directions.iter().map(|[x, y]| of(f64::from(*x), f64::from(*y))).sum();
            sum / 4_096.0
        };
        // Roundings of single precision; a mean over evenly spaced angles is exact.
        let means = [
            mean(|x, _| x),
            mean(|_, y| y),
            mean(|x, y| x * y),
            mean(|x, _| x * x) - 0.5,
            mean(|x, _| x.powi(4)) - 0.375,
        ];
        assert!(means.iter().all(|mean| mean.abs() < 1e-6), "{means:?}");
        for quarter in 0..4 {
            let own = |[x, y]: &&[f32; 2]| (u8::from(*x < 0.0) + 2 * u8::from(*y < 0.0)) == quarter;
            assert_eq!(directions.iter().filter(own).count(), 1_024);
        }
    }
}
