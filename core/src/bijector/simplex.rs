//! Maps real vectors onto the simplex by breaking a stick, for mixture weights and category probabilities.

use burn::tensor::{Tensor, TensorCreationOptions, TensorData};

use super::{Bijector, above_zero, empty_event, outside};
use crate::distribution::Term;
use crate::error::Result;
use crate::math::kernel::{exponential, stick};
use crate::math::logistic::log_sigmoid;

const MAP: &str = "simplex map";
const SUPPORT: &str = "vectors of positive numbers that sum to 1";
/// How far from one the sum of an event may be, as in `Support::contains`.
const SUM_TOLERANCE: f64 = 1e-6;

/// The stick-breaking map from $k-1$ real numbers onto vectors of $k$ positive numbers that sum to one.
///
/// With $a_i = u_i - \log(k - i)$, $z_i = \sigma(a_i)$ and the rest of the stick $r_i = \prod_{j<i} (1 - z_j)$:
/// $$ x_i = r_i z_i \ (i < k), \qquad x_k = r_k, \qquad
///    \log|\det J| = \sum_{i<k} \log r_i + \log z_i + \log(1 - z_i). $$
/// The free entries are the first $k-1$. The shift by $\log(k - i)$ sends $u = 0$ to $x = (1/k, \dots, 1/k)$.
///
/// # Numerics
/// Works with logarithms of lengths of the stick, so that small entries keep their digits; an underflowed entry is
/// raised to the smallest positive normal number.
///
/// # Example
/// ```
/// use partita_core::{Bijector, SimplexMap};
/// let mut x = [0.0; 3];
/// let log_det = SimplexMap.forward(&[0.0, 0.0], &mut x);
/// assert!(x.iter().all(|x| (x - 1.0 / 3.0).abs() < 1e-15));
/// assert!((log_det + 27.0_f64.ln()).abs() < 1e-14); // (1/3 · 2/3) · (2/3 · 1/2 · 1/2)
/// ```
///
/// # References
/// Stan Reference Manual, "Unit simplex"; Betancourt, "Cruising the simplex", 2012, arXiv:1010.3436.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SimplexMap;

impl Bijector for SimplexMap {
    fn unconstrained_len(&self, constrained: usize) -> Result<usize> {
        constrained.checked_sub(1).ok_or_else(|| empty_event(MAP))
    }

    fn forward(&self, unconstrained: &[f64], constrained: &mut [f64]) -> f64 {
        let count = unconstrained.len();
        let (mut shifted, mut taken) = (vec![0.0; count], vec![0.0; count]);
        stick(unconstrained, &mut shifted, &mut taken);
        let (mut log_rest, mut log_det) = (0.0_f64, 0.0);
        for ((a, softplus), x) in shifted.iter().zip(&taken).zip(constrained.iter_mut()) {
            // softplus(−a) = softplus(a) − a.
            let log_x = log_rest + (a - softplus);
            *x = log_x;
            log_det += log_x - softplus;
            log_rest -= softplus;
        }
        if let Some(last) = constrained.last_mut() {
            *last = log_rest;
        }
        exponential(constrained);
        constrained.iter_mut().for_each(|x| *x = above_zero(*x));
        log_det
    }

    fn inverse(&self, constrained: &[f64], unconstrained: &mut [f64]) -> Result<()> {
        if let Some(index) = constrained.iter().position(|x| !(*x > 0.0 && x.is_finite())) {
            return Err(outside(MAP, SUPPORT, index, constrained[index]));
        }
        let sum: f64 = constrained.iter().sum();
        if (sum - 1.0).abs() > SUM_TOLERANCE {
            return Err(outside(MAP, &format!("{SUPPORT}; these sum to {sum}"), 0, constrained[0]));
        }
        // From the end, so that the rest of the stick is a sum of positive numbers and loses no digits.
        let mut rest = constrained[constrained.len() - 1];
        let count = unconstrained.len();
        for (i, (u, x)) in unconstrained.iter_mut().zip(constrained).enumerate().rev() {
            *u = x.ln() - rest.ln() + log_pieces(count, i);
            rest += x;
        }
        Ok(())
    }

    fn vjp(&self, unconstrained: &[f64], constrained: &[f64], gradient: &[f64], weight: f64, out: &mut [f64]) {
        // ∂log xⱼ/∂aᵢ is 1 − zᵢ for j = i, −zᵢ for j > i and 0 before; log|det J| = Σ log xᵢ + log(1
        // − zᵢ).
        let count = unconstrained.len();
        let (mut broken, mut left) = (vec![0.0; count], vec![0.0; count]);
        stick(unconstrained, &mut broken, &mut left);
        for (a, softplus) in broken.iter_mut().zip(&mut left) {
            (*a, *softplus) = (*a - *softplus, -*softplus);
        }
        exponential(&mut broken);
        exponential(&mut left);
        let mut later = constrained[count] * gradient[count];
        for i in (0..count).rev() {
            let own = constrained[i] * gradient[i];
            out[i] = own * left[i] - later * broken[i] + weight * (1.0 - broken[i] * pieces(count + 1, i));
            later += own;
        }
    }

    fn on_device(&self, unconstrained: Term) -> Option<(Term, Vec<Term>)> {
        let Term::Tensor(u) = unconstrained else { return None };
        let (device, dtype, [events, count]) = (u.device(), u.dtype(), u.dims());
        let shift: Vec<f64> = (0..count).map(|i| -log_pieces(count, i)).collect();
        let options = TensorCreationOptions::new(device.inner()).with_dtype(dtype);
        let a = u + Tensor::<2>::from_data(TensorData::new(shift, [1, count]), options.clone());
        let (broken, left) = (log_sigmoid(a.clone()), log_sigmoid(-a));
        let zero = Tensor::<2>::zeros([events, 1], options);
        let rest = Tensor::cat(vec![zero.clone(), left.clone().cumsum(1)], 1);
        let log_x = rest + Tensor::cat(vec![broken, zero], 1);
        let log_det = log_x.clone().narrow(1, 0, count) + left;
        Some((Term::Tensor(log_x.exp()), vec![Term::Tensor(log_det)]))
    }
}

/// The logarithm of the number of pieces still to be broken off after piece `i` (from zero).
fn log_pieces(count: usize, i: usize) -> f64 {
    pieces(count, i).ln()
}

fn pieces(count: usize, i: usize) -> f64 {
    (count - i) as f64
}
