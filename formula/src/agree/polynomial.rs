//! Makes polynomials that are orthogonal over the rows of all silos, from sums that each silo takes over its own rows.
//!
//! Powers of $`x`$ lose all digits in their sums when $`x`$ is an age or a year. A silo therefore sums Chebyshev
//! polynomials $`T_m(u)`$, $`m \le 2k`$, of $`u = (x - c_j)/h_j`$ with its own range $`c_j \pm h_j`$. On the range
//! $`c \pm h`$ of all silos, $`(x - c)/h = \alpha u + \beta`$ with $`|\alpha| + |\beta| \le 1`$, and $`T_m(\alpha u + \beta)`$
//! has coefficients of at most 2 in $`T_i(u)`$: sums move to the common range without loss. There the products
//! $`T_i T_j = (T_{i+j} + T_{|i-j|})/2`$ give every inner product of polynomials of degree $`k`$, from which the
//! Stieltjes procedure takes the three-term recurrence of the orthogonal ones.

use serde::{Deserialize, Serialize};

use super::item::ChebyshevSums;

/// Orthogonal polynomials $`\pi_{k+1} = (u - a_k) \pi_k - b_k \pi_{k-1}`$ of $`u = (x - c)/h`$, over the rows of all silos.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OrthogonalPolynomial {
    /// The middle $`c`$ of the range.
    pub centre: f64,
    /// Half the width $`h`$ of the range.
    pub half_width: f64,
    /// The numbers $`a_k`$.
    pub alpha: Vec<f64>,
    /// The sums of squares of $`\pi_0, \dots, \pi_k`$; $`b_k`$ is the quotient of two.
    pub norms: Vec<f64>,
}

/// A norm this much smaller than that of the constant is rounding: there are no more distinct values than the degree.
const ROUNDING: f64 = 1e-13;

impl ChebyshevSums {
    /// The sums of `values`, which are not empty, for polynomials up to `degree`.
    pub(crate) fn of(values: &[f64], degree: usize) -> Self {
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (centre, half) = middle(low, high);
        let mut sums = vec![0.0; 2 * degree + 1];
        for value in values {
            let u = unit(*value, centre, half);
            let (mut before, mut now) = (u, 1.0);
            for sum in &mut sums {
                *sum += now;
                (before, now) = (now, 2.0 * u * now - before);
            }
        }
        Self { low, high, sums }
    }

    /// Its sums of $`T_m`$ over the range with `centre` and `half`, which holds its own.
    fn over(&self, centre: f64, half: f64) -> Vec<f64> {
        let (own, own_half) = middle(self.low, self.high);
        let (slope, shift) = if half > 0.0 { (own_half / half, (own - centre) / half) } else { (0.0, 0.0) };
        let length = self.sums.len();
        let (mut before, mut now) = (vec![0.0; length], vec![0.0; length]);
        let mut moved = Vec::with_capacity(length);
        if let Some(first) = now.first_mut() {
            *first = 1.0;
        }
        for degree in 0..length {
            moved.push(now.iter().zip(&self.sums).map(|(coefficient, sum)| coefficient * sum).sum());
            let times = times_unit(&now);
            let factor = if degree == 0 { 1.0 } else { 2.0 };
            let next = (0..length).map(|at| factor * (shift * now[at] + slope * times[at]) - before[at]).collect();
            before = std::mem::replace(&mut now, next);
        }
        moved
    }
}

impl OrthogonalPolynomial {
    /// Those up to the degree that the sums of all silos allow; `None` if there are too few distinct values.
    pub(crate) fn of(silos: &[&ChebyshevSums]) -> Option<Self> {
        let low = silos.iter().map(|silo| silo.low).fold(f64::INFINITY, f64::min);
        let high = silos.iter().map(|silo| silo.high).fold(f64::NEG_INFINITY, f64::max);
        let (centre, half_width) = middle(low, high);
        let length = silos.first()?.sums.len();
        let mut sums = vec![0.0; length];
        for silo in silos {
            sums.iter_mut().zip(silo.over(centre, half_width)).for_each(|(sum, part)| *sum += part);
        }
        let inner = |f: &[f64], g: &[f64]| {
            let term = |i: usize, j: usize| (sums[i + j] + sums[i.abs_diff(j)]) / 2.0;
            let row = |i: usize| g.iter().enumerate().map(|(j, b)| b * term(i, j)).sum::<f64>();
            f.iter().enumerate().map(|(i, a)| a * row(i)).sum::<f64>()
        };
        let degree = length / 2;
        let (mut alpha, mut norms) = (Vec::new(), Vec::new());
        let (mut before, mut now): (Vec<f64>, Vec<f64>) = (Vec::new(), vec![1.0]);
        for k in 0..=degree {
            let norm = inner(&now, &now);
            if norm.is_nan() || norm <= ROUNDING * sums.first()? {
                return None;
            }
            if k < degree {
                now.push(0.0);
                let times = times_unit(&now);
                // The last entry of `now` is zero: the product stays within the sums that there are.
                let a = inner(&times, &now[..=k]) / norm;
                let b = norms.last().map_or(0.0, |last| norm / last);
                let next =
                    (0..now.len()).map(|at| times[at] - a * now[at] - b * before.get(at).unwrap_or(&0.0)).collect();
                before = std::mem::replace(&mut now, next);
                alpha.push(a);
            }
            norms.push(norm);
        }
        Some(Self { centre, half_width, alpha, norms })
    }

    /// The polynomials of degree 1 and higher at `x`, each with sum of squares 1 over the rows of all silos.
    pub(crate) fn at(&self, x: f64, out: &mut [f64]) {
        let u = unit(x, self.centre, self.half_width);
        let (mut before, mut now) = (0.0, 1.0);
        for (k, value) in out.iter_mut().enumerate() {
            let b = if k > 0 { self.norms[k] / self.norms[k - 1] } else { 0.0 };
            (before, now) = (now, (u - self.alpha[k]) * now - b * before);
            *value = now / self.norms[k + 1].sqrt();
        }
    }

    /// Whether it goes up to `degree` and has a finite value wherever it is evaluated.
    pub(crate) fn is_of(&self, degree: usize) -> bool {
        let numbers = self.alpha.iter().chain([&self.centre, &self.half_width]).all(|number| number.is_finite());
        let norms = self.norms.iter().all(|norm| *norm > 0.0 && norm.is_finite());
        numbers && norms && self.alpha.len() == degree && self.norms.len() == degree + 1
    }
}

fn middle(low: f64, high: f64) -> (f64, f64) {
    (low + (high - low) / 2.0, (high - low) / 2.0)
}

fn unit(x: f64, centre: f64, half: f64) -> f64 {
    if half > 0.0 { (x - centre) / half } else { 0.0 }
}

/// The Chebyshev coefficients of $`u f`$, of the length of those of $`f`$.
fn times_unit(f: &[f64]) -> Vec<f64> {
    let mut product = vec![0.0; f.len()];
    for (at, coefficient) in f.iter().enumerate() {
        let parts = if at == 0 { [(1, 1.0), (1, 0.0)] } else { [(at + 1, 0.5), (at - 1, 0.5)] };
        for (to, share) in parts {
            if let Some(entry) = product.get_mut(to) {
                *entry += share * coefficient;
            }
        }
    }
    product
}
