//! Makes Gauss–Hermite rules for the standard normal distribution, and their products.

/// A rule for expectations under the standard normal in some dimensions.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rule {
    /// The dimensions $d$.
    pub(crate) width: usize,
    /// The points $t_n$, one after another.
    pub(crate) points: Vec<f64>,
    /// $\log w_n + \tfrac12|t_n|^2$ before points were drawn together, less what that takes off the volume.
    pub(crate) log_factors: Vec<f64>,
    /// The outermost point of an axis.
    pub(crate) reach: f64,
    /// The distance between points of an axis at its centre.
    pub(crate) gap: f64,
}

/// The farthest point of an axis, in standard deviations: a rule that reaches farther is drawn together, which brings its
/// points closer to each other where the mass is.
const FARTHEST: f64 = 16.0;

impl Rule {
    /// The product rule of so many points an axis; in no dimension it is one point.
    pub(crate) fn new(width: usize, each: usize) -> Self {
        let (mut nodes, weights) = gauss_hermite(each);
        let wide = nodes.last().copied().unwrap_or_default();
        let squeeze = if wide > FARTHEST { FARTHEST / wide } else { 1.0 };
        let factors: Vec<f64> = nodes.iter().zip(&weights).map(|(t, w)| w.ln() + 0.5 * t * t + squeeze.ln()).collect();
        nodes.iter_mut().for_each(|node| *node *= squeeze);
        let reach = nodes.last().copied().unwrap_or_default();
        let middle = each / 2;
        let gap = if each > 1 { nodes[middle] - nodes[middle - 1] } else { 1.0 };
        let count = each.pow(u32::try_from(width).unwrap_or(u32::MAX));
        let (mut points, mut log_factors) = (Vec::with_capacity(count * width), Vec::with_capacity(count));
        for index in 0..count {
            let mut rest = index;
            let mut log_factor = 0.0;
            for _ in 0..width {
                points.push(nodes[rest % each]);
                log_factor += factors[rest % each];
                rest /= each;
            }
            log_factors.push(log_factor);
        }
        Self { width, points, log_factors, reach, gap }
    }

    /// The number of points.
    pub(crate) fn len(&self) -> usize {
        self.log_factors.len()
    }

    /// A point.
    pub(crate) fn point(&self, index: usize) -> &[f64] {
        &self.points[index * self.width..(index + 1) * self.width]
    }
}

/// Nodes in increasing order and weights of the rule of `count` points for the standard normal.
///
/// Nodes are the zeros of the orthonormal Hermite polynomial $p_n$, found between those of $p_{n-1}$ (they interlace);
/// weights are the Christoffel numbers $1/\sum_{k<n} p_k(t)^2$, a sum without cancellation.
///
/// # References
/// Golub and Welsch (1969), Math. Comp. 23.
fn gauss_hermite(count: usize) -> (Vec<f64>, Vec<f64>) {
    let mut nodes = vec![0.0];
    for degree in 2..=count {
        // No zero of p_n is larger than this.
        let edge = 2.0 * float(degree).sqrt();
        let walls: Vec<f64> = std::iter::once(-edge).chain(nodes).chain(std::iter::once(edge)).collect();
        nodes = walls.windows(2).map(|between| zero(degree, between[0], between[1])).collect();
    }
    // Exact symmetry, so that odd moments vanish.
    for index in 0..count / 2 {
        let half = 0.5 * (nodes[count - 1 - index] - nodes[index]);
        (nodes[index], nodes[count - 1 - index]) = (-half, half);
    }
    if count % 2 == 1 {
        nodes[count / 2] = 0.0;
    }
    let weights = nodes.iter().map(|node| 1.0 / polynomials(count, *node).squares).collect();
    (nodes, weights)
}

/// The zero of $p_n$ between two walls, by Newton's method with bisection.
fn zero(degree: usize, low: f64, high: f64) -> f64 {
    let (mut low, mut high) = (low, high);
    let is_positive = polynomials(degree, low).value > 0.0;
    let mut at = 0.5 * (low + high);
    for _ in 0..100 {
        let Polynomials { value, before, .. } = polynomials(degree, at);
        if (value > 0.0) == is_positive {
            low = at
        } else {
            high = at
        }
        // p_n' = sqrt(n) p_{n-1}.
        let newton = at - value / (float(degree).sqrt() * before);
        let next = if newton > low && newton < high { newton } else { 0.5 * (low + high) };
        if (next - at).abs() <= 1e-15 * (1.0 + at.abs()) {
            return next;
        }
        at = next;
    }
    at
}

struct Polynomials {
    /// $p_n(t)$.
    value: f64,
    /// $p_{n-1}(t)$.
    before: f64,
    /// $\sum_{k<n} p_k(t)^2$.
    squares: f64,
}

/// Orthonormal Hermite polynomials of the standard normal at `t`, by their recurrence.
fn polynomials(degree: usize, t: f64) -> Polynomials {
    let (mut before, mut value, mut squares) = (0.0, 1.0, 0.0);
    for k in 0..degree {
        squares += value * value;
        let next = (t * value - float(k).sqrt() * before) / float(k + 1).sqrt();
        (before, value) = (value, next);
    }
    Polynomials { value, before, squares }
}

#[expect(clippy::cast_precision_loss, reason = "degrees are small")]
fn float(number: usize) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_standard_normal() {
        for count in [1, 2, 9, 15, 31, 63, 127, 255] {
            let (nodes, weights) = gauss_hermite(count);
            assert!(nodes.windows(2).all(|pair| pair[0] < pair[1]), "{count}");
            let moment = |power: i32| nodes.iter().zip(&weights).map(|(t, w)| w * t.powi(power)).sum::<f64>();
            for (power, expected) in [(0, 1.0), (1, 0.0), (2, 1.0), (3, 0.0), (4, 3.0), (6, 15.0), (8, 105.0)] {
                if usize::try_from(power).unwrap() < 2 * count {
                    let found = moment(power);
                    assert!((found - expected).abs() < 1e-12 * (1.0 + expected), "{count} {power}: {found}");
                }
            }
        }
    }

    #[test]
    fn nodes_and_weights_are_the_published_ones() {
        // Abramowitz and Stegun, table 25.10, n = 3 in the scale of the standard normal.
        let (nodes, weights) = gauss_hermite(3);
        assert!((nodes[2] - 3.0_f64.sqrt()).abs() < 1e-15);
        assert!((weights[1] - 2.0 / 3.0).abs() < 1e-15 && (weights[0] - 1.0 / 6.0).abs() < 1e-15);
    }

    #[test]
    fn a_product_rule_integrates_products() {
        let rule = Rule::new(2, 7);
        assert_eq!(rule.len(), 49);
        let expected = |of: fn(&[f64]) -> f64| -> f64 {
            (0..49)
                .map(|n| {
                    let t = rule.point(n);
                    (rule.log_factors[n] - 0.5 * (t[0] * t[0] + t[1] * t[1])).exp() * of(t)
                })
                .sum()
        };
        assert!((expected(|t| t[0] * t[0] * t[1] * t[1]) - 1.0).abs() < 1e-12);
        assert!(expected(|t| t[0] * t[1]).abs() < 1e-14);
    }
}
