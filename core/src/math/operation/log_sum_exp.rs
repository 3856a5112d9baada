//! Gives the logarithm of a sum of exponentials over the last dimension, without overflow and on one node of the tape.

use burn::tensor::Tensor;

use super::{apply, computes_on_host};
use crate::array::Array;
use crate::handle::Handle;
use crate::math::special::log_sum_exp_parts;

/// The logarithm of the sum of exponentials over the last dimension, which stays with length one.
///
/// $$ y = \log \sum_i e^{x_i}, \qquad \frac{\partial y}{\partial x_i} = e^{x_i - y} $$
///
/// # Shapes
/// `[..., n]` → `[..., 1]`.
///
/// # Numerics
/// The largest entry is taken out first. Entries of −∞ (impossible cases) contribute nothing; if all are −∞ so
/// is the value, with gradient zero.
///
/// # Laws
/// `laws::operation` checks the value at equal entries, and the gradient against differences.
///
/// # Example
/// ```
/// # #[cfg(feature = "flex")] {
/// use partita_core::{Device, log_sum_exp};
/// let x = Device::flex().tensor(vec![1000.0, 1000.0], [1, 2]);
/// let value: f64 = log_sum_exp(x).into_scalar();
/// assert!((value - 1000.0 - 2.0_f64.ln()).abs() < 1e-12);
/// # }
/// ```
///
/// # References
/// Blanchard, Higham and Higham, "Accurately computing the log-sum-exp and softmax functions", 2021.
#[must_use]
pub fn log_sum_exp<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    computes_on_host("log_sum_exp");
    apply(
        vec![Handle::from(x)],
        Box::new(|mut inputs| {
            let x = inputs.swap_remove(0);
            let mut shape = x.shape;
            let length = shape.last_mut().map_or(1, |last| std::mem::replace(last, 1)).max(1);
            let sums: Vec<(f64, f64)> = x.values.chunks_exact(length).map(parts).collect();
            let mut values: Vec<f64> = sums.iter().map(|(largest, rest)| largest + rest).collect();
            // An empty last dimension leaves sums without terms.
            values.resize(shape.iter().product(), f64::NEG_INFINITY);
            let vjp = move |gradient: &[f64]| {
                let mut out = Vec::with_capacity(x.values.len());
                for ((row, (largest, rest)), g) in x.values.chunks_exact(length).zip(&sums).zip(gradient) {
                    let impossible = *largest == f64::NEG_INFINITY;
                    out.extend(row.iter().map(|x| if impossible { 0.0 } else { g * ((x - largest) - rest).exp() }));
                }
                vec![out]
            };
            (Array { values, shape }, Box::new(vjp))
        }),
    )
    .typed()
}

/// As `special::log_sum_exp_parts`, but missing entries stay missing.
fn parts(row: &[f64]) -> (f64, f64) {
    if row.iter().any(|entry| entry.is_nan()) { (f64::NAN, 0.0) } else { log_sum_exp_parts(row) }
}
