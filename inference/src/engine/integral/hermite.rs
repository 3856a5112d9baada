//! Makes products of Gauss–Hermite rules for rows, drawn together where they reach too far.

use crate::engine::gauss_hermite::GaussHermite;

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
        let GaussHermite { mut nodes, weights } = GaussHermite::new(each);
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

#[cfg(test)]
mod tests {
    use super::*;

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
