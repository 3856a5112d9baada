//! Sums the log probability of many classes given rows of logits, with the derivatives, over sixteen rows at a time.

use super::block::{BLOCK, sum_blocks, takes};
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
    /// multiplied by `scale`. `terms` receives its terms, unless empty. `gradient` is also the workspace and always required. A class that is no index of a row
    /// gives NaN.
    ///
    /// # Shapes
    /// `class`: `n`; `terms`: `n` or 0; `logits` and `gradient`: `n` rows of `k`, row after row.
    ///
    /// # Numerics
    /// The largest logit of a row is subtracted first: no overflow. Against the libm loop: sum 4e-15 relative,
    /// derivatives 5e-16 relative, those of a class that is all but certain included.
    ///
    /// # Panics
    /// If the lengths disagree: callers have checked them.
    categorical_logit(logits: &[f64], class: &[f64], scale: f64, gradient: &mut [f64], terms: &mut [f64]) -> f64
    where gradient.len() == logits.len()
        && takes(terms, class.len())
        && class.is_empty() == logits.is_empty()
        && logits.len().is_multiple_of(class.len());
    vector, scalar
}

#[inline(always)]
fn vector(logits: &[f64], class: &[f64], scale: f64, gradient: &mut [f64], terms: &mut [f64]) -> f64 {
    let width = logits.len() / class.len().max(1);
    sum_blocks!(class.len(), |io, start| {
        let place = start * width..(start + BLOCK).min(class.len()) * width;
        let own = tile_of_rows(&logits[place.clone()], io.load(class, start), scale, &mut gradient[place], width);
        io.store(terms, start, &own);
        own
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

fn scalar(logits: &[f64], class: &[f64], scale: f64, gradient: &mut [f64], terms: &mut [f64]) -> f64 {
    let mut sum = 0.0;
    let width = (logits.len() / class.len().max(1)).max(1);
    for (row, ((logits, class), slopes)) in logits.chunks(width).zip(class).zip(gradient.chunks_mut(width)).enumerate()
    {
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
        let term = logits.get(chosen).map_or(f64::NAN, |logit| logit - largest) - smaller.ln_1p();
        sum += term;
        if let Some(slot) = terms.get_mut(row) {
            *slot = term;
        }
        for slope in &mut *slopes {
            *slope *= -scale / (1.0 + smaller);
        }
        if let Some(slope) = slopes.get_mut(chosen) {
            *slope = scale * others / (1.0 + smaller);
        }
    }
    sum
}
