//! Sums the log probability of many classes given rows of logits, with the derivatives, over sixteen rows at a time.

use super::block::{BLOCK, sum_blocks};
use super::polynomial::{exp, log};

dispatch! {
    /// The log probability of `class` under the softmax of each row of `logits`, in nats; writes `scale` times its
    /// derivatives.
    ///
    /// ```math
    /// \sum_i \ell_{i,c_i} - \log\sum_k e^{\ell_{ik}}, \qquad
    ///    g_{ik} = s \Bigl([k = c_i] - \frac{e^{\ell_{ik}}}{\sum_m e^{\ell_{im}}}\Bigr)
    /// ```
    /// with $\ell$ = `logits`, $c$ = `class` (0, 1, ... as numbers), $g$ = `gradient` and $s$ = `scale`. The sum is not
    /// multiplied by `scale`. `gradient` is also the workspace and always required. A class that is no index of a row
    /// gives NaN.
    ///
    /// # Shapes
    /// `class`: `n`; `logits` and `gradient`: `n` rows of `k`, row after row.
    ///
    /// # Numerics
    /// The largest logit of a row is subtracted first: no overflow. Against the libm loop: sum 4e-15 relative,
    /// derivatives 5e-16 relative, those of a class that is all but certain included.
    ///
    /// # Panics
    /// If the lengths disagree: callers have checked them.
    categorical_logit(logits: &[f64], class: &[f64], scale: f64, gradient: &mut [f64]) -> f64
    where gradient.len() == logits.len()
        && class.is_empty() == logits.is_empty()
        && logits.len().is_multiple_of(class.len())
}

#[inline(always)]
fn vector(logits: &[f64], class: &[f64], scale: f64, gradient: &mut [f64]) -> f64 {
    let width = logits.len() / class.len().max(1);
    sum_blocks!(class.len(), |io, start| {
        let place = start * width..(start + BLOCK).min(class.len()) * width;
        tile_of_rows(&logits[place.clone()], io.load(class, start), scale, &mut gradient[place], width)
    })
}

/// One lane a row: at most [`BLOCK`] rows; lanes without a row of their own repeat the last one.
#[inline(always)]
#[expect(clippy::float_cmp, reason = "class and column are whole numbers")]
fn tile_of_rows(logits: &[f64], class: [f64; BLOCK], scale: f64, gradient: &mut [f64], width: usize) -> [f64; BLOCK] {
    let starts: [usize; BLOCK] = std::array::from_fn(|lane| (lane * width).min(logits.len() - width));
    let (mut largest, mut place) = ([f64::NEG_INFINITY; BLOCK], [-1.0; BLOCK]);
    for column in 0..width {
        for lane in 0..BLOCK {
            let logit = logits[starts[lane] + column];
            let larger = logit > largest[lane];
            largest[lane] = if larger { logit } else { largest[lane] };
            place[lane] = if larger { column as f64 } else { place[lane] };
        }
    }
    // Sums without the largest (whose power is 1) and without the chosen, so that neither log p nor 1 - p cancels.
    let (mut smaller, mut others) = ([0.0; BLOCK], [0.0; BLOCK]);
    for column in 0..width {
        let mut powers = [0.0; BLOCK];
        for lane in 0..BLOCK {
            powers[lane] = logits[starts[lane] + column] - largest[lane];
        }
        let here = column as f64;
        for lane in 0..BLOCK {
            powers[lane] = exp(powers[lane]);
            smaller[lane] += if place[lane] == here { 0.0 } else { powers[lane] };
            others[lane] += if class[lane] == here { 0.0 } else { powers[lane] };
        }
        for lane in 0..BLOCK {
            gradient[starts[lane] + column] = powers[lane];
        }
    }
    let mut terms: [f64; BLOCK] = std::array::from_fn(|lane| {
        let chosen = index(class[lane]).filter(|class| *class < width);
        chosen.map_or(f64::NAN, |class| logits[starts[lane] + class]) - largest[lane]
    });
    let mut factors = [0.0; BLOCK];
    for lane in 0..BLOCK {
        let total = 1.0 + smaller[lane];
        terms[lane] -= log(total) + (smaller[lane] - (total - 1.0)) / total;
        factors[lane] = -scale / total;
        others[lane] *= scale / total;
    }
    for (lane, slopes) in gradient.chunks_exact_mut(width).enumerate() {
        for slope in &mut *slopes {
            *slope *= factors[lane];
        }
        if let Some(slope) = index(class[lane]).and_then(|class| slopes.get_mut(class)) {
            *slope = others[lane];
        }
    }
    terms
}

/// The class as an index, if it is a whole number from zero on.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the number is whole and not negative")]
fn index(class: f64) -> Option<usize> {
    (class >= 0.0 && class.fract() <= 0.0).then_some(class as usize)
}

fn scalar(logits: &[f64], class: &[f64], scale: f64, gradient: &mut [f64]) -> f64 {
    let mut sum = 0.0;
    let width = (logits.len() / class.len().max(1)).max(1);
    for ((logits, class), slopes) in logits.chunks(width).zip(class).zip(gradient.chunks_mut(width)) {
        let (mut largest, mut place) = (f64::NEG_INFINITY, width);
        for (column, logit) in logits.iter().enumerate() {
            if *logit > largest {
                (largest, place) = (*logit, column);
            }
        }
        let chosen = index(*class).unwrap_or(width);
        let (mut smaller, mut others) = (0.0, 0.0);
        for (column, (slope, logit)) in slopes.iter_mut().zip(logits).enumerate() {
            *slope = (logit - largest).exp();
            smaller += if column == place { 0.0 } else { *slope };
            others += if column == chosen { 0.0 } else { *slope };
        }
        sum += logits.get(chosen).map_or(f64::NAN, |logit| logit - largest) - smaller.ln_1p();
        for slope in &mut *slopes {
            *slope *= -scale / (1.0 + smaller);
        }
        if let Some(slope) = slopes.get_mut(chosen) {
            *slope = scale * others / (1.0 + smaller);
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::kernel::testing::{bits, scattered, vectorised, worst};

    fn case(rows: usize, width: usize) -> (Vec<f64>, Vec<f64>) {
        let classes = scattered(rows, 0.0, width as f64).into_iter().map(f64::floor).collect();
        (scattered(rows * width, -9.0, 7.0), classes)
    }

    // One unit of exp, a reciprocal and a product; measured 5e-16.
    const TOLERANCE: f64 = 2e-15;

    #[test]
    fn the_vector_loop_agrees_with_libm() {
        for (rows, width) in [(0, 3), (1, 1), (1, 40), (3, 2), (16, 10), (17, 3), (214, 10), (33, 16)] {
            let (logits, class) = case(rows, width);
            let (mut found, mut expected) = (vec![0.0; rows * width], vec![0.0; rows * width]);
            let sum = categorical_logit(&logits, &class, 0.8, &mut found);
            let reference = scalar(&logits, &class, 0.8, &mut expected);
            assert!((sum - reference).abs() <= TOLERANCE * reference.abs(), "{rows} x {width}: {sum} {reference}");
            let error = worst(&found, &expected, 0.0);
            assert!(error <= TOLERANCE, "{rows} x {width}: {error:e}");
        }
    }

    #[test]
    fn every_instruction_set_gives_the_same_bits() {
        if !vectorised() {
            return;
        }
        let (logits, class) = case(211, 10);
        let (mut wide, mut narrow) = (vec![0.0; 2110], vec![0.0; 2110]);
        let sum = categorical_logit(&logits, &class, 0.3, &mut wide);
        assert_eq!(sum.to_bits(), vector(&logits, &class, 0.3, &mut narrow).to_bits());
        assert_eq!(bits(&wide), bits(&narrow));
    }

    #[test]
    fn gradients_of_a_row_add_up_to_zero() {
        let (logits, class) = case(50, 7);
        let mut gradient = vec![0.0; 350];
        categorical_logit(&logits, &class, 3.0, &mut gradient);
        assert!(gradient.chunks(7).all(|row| row.iter().sum::<f64>().abs() < 1e-14));
    }

    #[test]
    fn extreme_logits_do_not_overflow() {
        let mut gradient = [0.0; 6];
        let sum = categorical_logit(&[1000.0, 0.0, -1000.0, -1e9, -1e9, -1e9], &[1.0, 2.0], 1.0, &mut gradient);
        assert!((sum + 1000.0 + 3.0_f64.ln()).abs() < 1e-12, "{sum}");
        let third = 1.0 / 3.0;
        assert!(worst(&gradient, &[-1.0, 1.0, 0.0, -third, -third, 2.0 * third], 1.0) < 1e-15);
    }

    #[test]
    fn a_certain_class_keeps_its_digits() {
        let mut gradient = [0.0; 3];
        let sum = categorical_logit(&[0.0, 40.0, -5.0], &[1.0], 1.0, &mut gradient);
        let expected = (-40.0_f64).exp() + (-45.0_f64).exp();
        assert!((sum + expected).abs() < 1e-15 * expected && (gradient[1] - expected).abs() < 1e-15 * expected);
    }

    #[test]
    fn a_nan_or_an_impossible_class_is_not_hidden() {
        let mut gradient = [0.0; 3];
        for (logits, class) in [([f64::NAN, 0.0, 0.0], 1.0), ([0.0, 0.0, f64::NAN], 1.0), ([0.0; 3], f64::NAN)] {
            assert!(categorical_logit(&logits, &[class], 1.0, &mut gradient).is_nan());
        }
        for class in [3.0, -1.0, 0.5] {
            assert!(categorical_logit(&[0.0; 3], &[class], 1.0, &mut gradient).is_nan());
        }
    }
}
