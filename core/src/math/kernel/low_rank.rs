//! Multiplies a few rows by a wide matrix and back, block by block, as a likelihood with low-rank logits needs it.
//!
//! All matrices are row-major and their rows padded to a multiple of [`BLOCK`] columns; the rows of a block are
//! [`ROWS`], the last of them zero where there are fewer.

use super::block::{BLOCK, add, total};

/// Rows that the low-rank kernels work on at a time.
pub const ROWS: usize = 8;
const HALF: usize = ROWS / 2;

/// A block of columns of a row.
#[inline(always)]
fn columns(matrix: &[f64], start: usize) -> &[f64; BLOCK] {
    const NOTHING: [f64; BLOCK] = [f64::NAN; BLOCK];
    matrix.get(start..).and_then(<[f64]>::first_chunk).unwrap_or(&NOTHING)
}

dispatch! {
    /// Writes $\eta_{dv} = \sum_k w_{dk} t_{kv}$ for [`ROWS`] rows.
    ///
    /// # Shapes
    /// `factors` $w$: `[ROWS, k]`; `loadings` $t$: `[k, width]`; `logits`: `[ROWS, width]`.
    ///
    /// # Panics
    /// If the lengths disagree: callers have checked them.
    low_rank_logits(factors: &[f64], loadings: &[f64], width: usize, logits: &mut [f64]) -> ()
    where width.is_multiple_of(BLOCK) && logits.len() == ROWS * width && factors.len() / ROWS * width == loadings.len();
    forward::<true>, forward::<false>
}

#[inline(always)]
fn forward<const FUSED: bool>(factors: &[f64], loadings: &[f64], width: usize, logits: &mut [f64]) {
    let rank = factors.len() / ROWS;
    for start in (0..width).step_by(BLOCK) {
        for half in 0..2 {
            let factors = &factors[half * HALF * rank..][..HALF * rank];
            let mut sums = [[0.0; BLOCK]; HALF];
            for k in 0..rank {
                let loading = columns(loadings, k * width + start);
                for (row, sums) in sums.iter_mut().enumerate() {
                    let factor = factors[row * rank + k];
                    for (sum, loading) in sums.iter_mut().zip(loading) {
                        *sum = add::<FUSED, _>(*sum, factor, *loading);
                    }
                }
            }
            for (row, sums) in sums.iter().enumerate() {
                let place = (half * HALF + row) * width + start;
                logits[place..place + BLOCK].copy_from_slice(sums);
            }
        }
    }
}

dispatch! {
    /// Writes $g_{dk} = \sum_v r_{dv} t_{kv}$ for [`ROWS`] rows.
    ///
    /// # Shapes
    /// `residuals` $r$: `[ROWS, width]`; `loadings` $t$: `[k, width]`; `gradient`: `[ROWS, k]`.
    ///
    /// # Panics
    /// If the lengths disagree: callers have checked them.
    low_rank_factors(residuals: &[f64], loadings: &[f64], width: usize, gradient: &mut [f64]) -> ()
    where width.is_multiple_of(BLOCK) && residuals.len() == ROWS * width && gradient.len() / ROWS * width == loadings.len();
    back::<true>, back::<false>
}

/// Two loadings at a time, so that what is read of the residuals serves both; the last may stand alone.
#[inline(always)]
fn back<const FUSED: bool>(residuals: &[f64], loadings: &[f64], width: usize, gradient: &mut [f64]) {
    let rank = gradient.len() / ROWS;
    for k in (0..rank).step_by(2) {
        let pair = [k, (k + 1).min(rank - 1)].map(|k| k * width);
        for half in 0..2 {
            let mut sums = [[[0.0; BLOCK]; 2]; HALF];
            for start in (0..width).step_by(BLOCK) {
                let loadings = pair.map(|place| columns(loadings, place + start));
                for (row, sums) in sums.iter_mut().enumerate() {
                    let residual = columns(residuals, (half * HALF + row) * width + start);
                    for (sums, loading) in sums.iter_mut().zip(loadings) {
                        for ((sum, residual), loading) in sums.iter_mut().zip(residual).zip(loading) {
                            *sum = add::<FUSED, _>(*sum, *residual, *loading);
                        }
                    }
                }
            }
            for (row, sums) in sums.into_iter().enumerate() {
                let place = (half * HALF + row) * rank + k;
                for (slot, sum) in gradient[place..].iter_mut().take(2.min(rank - k)).zip(sums) {
                    *slot = total(&sum);
                }
            }
        }
    }
}

dispatch! {
    /// Adds $\sum_d w_{dk} r_{dv}$ over [`ROWS`] rows to `gradient`.
    ///
    /// # Shapes
    /// `factors` $w$: `[ROWS, k]`; `residuals` $r$: `[ROWS, width]`; `gradient`: `[k, width]`.
    ///
    /// # Panics
    /// If the lengths disagree: callers have checked them.
    low_rank_loadings(factors: &[f64], residuals: &[f64], width: usize, gradient: &mut [f64]) -> ()
    where width.is_multiple_of(BLOCK) && residuals.len() == ROWS * width && factors.len() / ROWS * width == gradient.len();
    outer::<true>, outer::<false>
}

#[inline(always)]
fn outer<const FUSED: bool>(factors: &[f64], residuals: &[f64], width: usize, gradient: &mut [f64]) {
    let rank = factors.len() / ROWS;
    for start in (0..width).step_by(BLOCK) {
        let mut own = [[0.0; BLOCK]; ROWS];
        for (row, own) in own.iter_mut().enumerate() {
            *own = *columns(residuals, row * width + start);
        }
        for k in 0..rank {
            let place = k * width + start;
            let mut sums = *columns(gradient, place);
            for (row, own) in own.iter().enumerate() {
                let factor = factors[row * rank + k];
                for (sum, residual) in sums.iter_mut().zip(own) {
                    *sum = add::<FUSED, _>(*sum, factor, *residual);
                }
            }
            gradient[place..place + BLOCK].copy_from_slice(&sums);
        }
    }
}
