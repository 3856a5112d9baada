//! Multiplies a few rows by a wide matrix and back, block by block, as a likelihood with low-rank logits needs it.
//!
//! All matrices are row-major and their rows padded to a multiple of [`BLOCK`] columns; the rows of a block are
//! [`ROWS`], the last of them zero where there are fewer.

pub use back::low_rank_factors;
pub use forward::low_rank_logits;
pub use outer::low_rank_loadings;

use super::block::BLOCK;

/// Rows that the low-rank kernels work on at a time.
pub const ROWS: usize = 8;

/// One multiplication and addition, with one rounding where the machine has the instruction.
#[inline(always)]
fn add<const FUSED: bool>(sum: f64, a: f64, b: f64) -> f64 {
    if FUSED { a.mul_add(b, sum) } else { sum + a * b }
}

/// A block of columns of a row.
#[inline(always)]
fn columns(matrix: &[f64], start: usize) -> &[f64; BLOCK] {
    const NOTHING: [f64; BLOCK] = [f64::NAN; BLOCK];
    matrix.get(start..).and_then(<[f64]>::first_chunk).unwrap_or(&NOTHING)
}

mod forward {
    //! Rows of weights times loadings.
    use super::{BLOCK, ROWS, add, columns};

    dispatch! {
        /// Writes $\eta_{dv} = \sum_k w_{dk} t_{kv}$ for [`ROWS`] rows.
        ///
        /// # Shapes
        /// `factors` $w$: `[ROWS, k]`; `loadings` $t$: `[k, width]`; `logits`: `[ROWS, width]`.
        ///
        /// # Panics
        /// If the lengths disagree: callers have checked them.
        low_rank_logits(factors: &[f64], loadings: &[f64], width: usize, logits: &mut [f64]) -> ()
        where width.is_multiple_of(BLOCK) && logits.len() == ROWS * width && factors.len() / ROWS * width == loadings.len()
    }

    #[inline(always)]
    fn tile<const FUSED: bool>(factors: &[f64], loadings: &[f64], width: usize, logits: &mut [f64]) {
        const HALF: usize = ROWS / 2;
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
                            *sum = add::<FUSED>(*sum, factor, *loading);
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

    #[inline(always)]
    fn vector(factors: &[f64], loadings: &[f64], width: usize, logits: &mut [f64]) {
        tile::<true>(factors, loadings, width, logits);
    }

    fn scalar(factors: &[f64], loadings: &[f64], width: usize, logits: &mut [f64]) {
        tile::<false>(factors, loadings, width, logits);
    }
}

mod back {
    //! Residuals times transposed loadings.
    use super::{BLOCK, ROWS, add, columns};
    use crate::math::kernel::block::total;

    dispatch! {
        /// Writes $g_{dk} = \sum_v r_{dv} t_{kv}$ for [`ROWS`] rows.
        ///
        /// # Shapes
        /// `residuals` $r$: `[ROWS, width]`; `loadings` $t$: `[k, width]`; `gradient`: `[ROWS, k]`.
        ///
        /// # Panics
        /// If the lengths disagree: callers have checked them.
        low_rank_factors(residuals: &[f64], loadings: &[f64], width: usize, gradient: &mut [f64]) -> ()
        where width.is_multiple_of(BLOCK) && residuals.len() == ROWS * width && gradient.len() / ROWS * width == loadings.len()
    }

    /// Two loadings at a time, so that what is read of the residuals serves both; the last may stand alone.
    #[inline(always)]
    fn tile<const FUSED: bool>(residuals: &[f64], loadings: &[f64], width: usize, gradient: &mut [f64]) {
        const HALF: usize = ROWS / 2;
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
                                *sum = add::<FUSED>(*sum, *residual, *loading);
                            }
                        }
                    }
                }
                for (row, sums) in sums.into_iter().enumerate() {
                    let place = (half * HALF + row) * rank + k;
                    for (slot, sum) in gradient[place..].iter_mut().take(2.min(rank - k)).zip(sums) {
                        *slot = total(sum);
                    }
                }
            }
        }
    }

    #[inline(always)]
    fn vector(residuals: &[f64], loadings: &[f64], width: usize, gradient: &mut [f64]) {
        tile::<true>(residuals, loadings, width, gradient);
    }

    fn scalar(residuals: &[f64], loadings: &[f64], width: usize, gradient: &mut [f64]) {
        tile::<false>(residuals, loadings, width, gradient);
    }
}

mod outer {
    //! Transposed weights times residuals, added up over blocks of rows.
    use super::{BLOCK, ROWS, add, columns};

    dispatch! {
        /// Adds $\sum_d w_{dk} r_{dv}$ over [`ROWS`] rows to `gradient`.
        ///
        /// # Shapes
        /// `factors` $w$: `[ROWS, k]`; `residuals` $r$: `[ROWS, width]`; `gradient`: `[k, width]`.
        ///
        /// # Panics
        /// If the lengths disagree: callers have checked them.
        low_rank_loadings(factors: &[f64], residuals: &[f64], width: usize, gradient: &mut [f64]) -> ()
        where width.is_multiple_of(BLOCK) && residuals.len() == ROWS * width && factors.len() / ROWS * width == gradient.len()
    }

    #[inline(always)]
    fn tile<const FUSED: bool>(factors: &[f64], residuals: &[f64], width: usize, gradient: &mut [f64]) {
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
                        *sum = add::<FUSED>(*sum, factor, *residual);
                    }
                }
                gradient[place..place + BLOCK].copy_from_slice(&sums);
            }
        }
    }

    #[inline(always)]
    fn vector(factors: &[f64], residuals: &[f64], width: usize, gradient: &mut [f64]) {
        tile::<true>(factors, residuals, width, gradient);
    }

    fn scalar(factors: &[f64], residuals: &[f64], width: usize, gradient: &mut [f64]) {
        tile::<false>(factors, residuals, width, gradient);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::kernel::testing::{scattered, worst};

    const WIDTH: usize = 3 * BLOCK;
    const RANK: usize = 5;

    #[test]
    fn the_three_products_agree_with_plain_sums() {
        let (w, t) = (scattered(ROWS * RANK, -1.0, 2.0), scattered(RANK * WIDTH, -3.0, 1.0));
        let r = scattered(ROWS * WIDTH, -2.0, 2.0);
        let sum = |count: usize, term: &dyn Fn(usize) -> f64| (0..count).map(term).sum::<f64>();
        let mut logits = vec![0.0; ROWS * WIDTH];
        low_rank_logits(&w, &t, WIDTH, &mut logits);
        let expected: Vec<f64> = (0..ROWS * WIDTH)
            .map(|cell| sum(RANK, &|k| w[cell / WIDTH * RANK + k] * t[k * WIDTH + cell % WIDTH]))
            .collect();
        assert!(worst(&logits, &expected, 1.0) < 1e-14);
        let mut factors = vec![0.0; ROWS * RANK];
        low_rank_factors(&r, &t, WIDTH, &mut factors);
        let expected: Vec<f64> = (0..ROWS * RANK)
            .map(|cell| sum(WIDTH, &|v| r[cell / RANK * WIDTH + v] * t[cell % RANK * WIDTH + v]))
            .collect();
        assert!(worst(&factors, &expected, 10.0) < 1e-14);
        let mut loadings = vec![1.0; RANK * WIDTH];
        low_rank_loadings(&w, &r, WIDTH, &mut loadings);
        let expected: Vec<f64> = (0..RANK * WIDTH)
            .map(|cell| 1.0 + sum(ROWS, &|d| w[d * RANK + cell / WIDTH] * r[d * WIDTH + cell % WIDTH]))
            .collect();
        assert!(worst(&loadings, &expected, 1.0) < 1e-14);
    }

    #[test]
    fn a_nan_is_not_hidden() {
        let (mut w, t) = (vec![0.0; ROWS * RANK], vec![1.0; RANK * WIDTH]);
        w[RANK + 1] = f64::NAN;
        let mut logits = vec![0.0; ROWS * WIDTH];
        low_rank_logits(&w, &t, WIDTH, &mut logits);
        assert!(logits[WIDTH].is_nan() && logits[0].is_finite());
    }
}
