//! Integrates over one or two whole axes by the double-exponential rule, as the slow truth for densities.

/// The distance between nodes in the transformed variable, and the largest of them: beyond it an axis ends in overflow.
const STEP: f64 = 1.0 / 32.0;
const LAST: i32 = 176;

/// Nodes and weights of $`\int_{-\infty}^\infty f(x)\,dx`$ with $`x = \pm e^{\frac\pi2 \sinh t}`$, which ends in zero
/// from both sides, so that densities over positive numbers may be infinite there.
///
/// # References
/// Takahasi and Mori (1974), Double exponential formulas for numerical integration.
fn axis() -> impl Iterator<Item = (f64, f64)> + Clone {
    (-LAST..=LAST).flat_map(|number| {
        let t = f64::from(number) * STEP;
        let x = (std::f64::consts::FRAC_PI_2 * t.sinh()).exp();
        let weight = STEP * std::f64::consts::FRAC_PI_2 * t.cosh() * x;
        [(x, weight), (-x, weight)]
    })
}

/// The integrals of several functions over one or two axes.
pub(super) fn integral<const N: usize>(length: usize, functions: impl Fn(&[f64]) -> [f64; N]) -> [f64; N] {
    let mut sums = [0.0; N];
    let mut add = |point: &[f64], weight: f64| {
        sums.iter_mut().zip(functions(point)).for_each(|(sum, value)| *sum += weight * value);
    };
    for (x, weight) in axis() {
        if length == 1 {
            add(&[x], weight);
            continue;
        }
        axis().for_each(|(y, other)| add(&[x, y], weight * other));
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_integral_of_a_normal_density_is_one_and_of_a_singular_one_too() {
        let normal = |x: &[f64]| [(-0.5 * (x[0] - 1.0).powi(2)).exp() / (2.0 * std::f64::consts::PI).sqrt()];
        assert!((integral(1, normal)[0] - 1.0).abs() < 1e-13);
        let gamma = |x: &[f64]| [if x[0] > 0.0 { (-x[0]).exp() / (x[0] * std::f64::consts::PI).sqrt() } else { 0.0 }];
        assert!((integral(1, gamma)[0] - 1.0).abs() < 1e-13);
    }
}
