//! Makes the rules of rows: products of Gauss–Hermite rules, and draws where a product has too many points.

use partita_core::special::log_sum_exp;

use super::MOST_LATENTS;
use super::centres::{Moments, cholesky};
use crate::engine::error::Result;
use crate::engine::family::real;
use crate::engine::gauss_hermite::GaussHermite;
use crate::engine::whitened::Draws;

/// A rule for expectations under the standard normal in some dimensions.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rule {
    /// The dimensions $d$.
    pub(crate) width: usize,
    /// The points $t_n$, one after another.
    pub(crate) points: Vec<f64>,
    /// $\log w_n + \tfrac12|t_n|^2$ before points were drawn together, less what that takes off the volume; for draws, with
    /// their density $g$, $-\log g(t_n)$ less what makes weights sum to one.
    pub(crate) log_factors: Vec<f64>,
    /// The outermost point of an axis.
    pub(crate) reach: f64,
    /// The distance between points of an axis at its centre.
    pub(crate) gap: f64,
    pub(crate) kind: Kind,
}

/// Where the points of a rule are from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The product of rules of an axis.
    Product,
    /// Draws of a normal distribution, spread evenly, the same for all rows.
    Drawn,
}

impl Kind {
    /// That of a rule for so many latents.
    pub(crate) fn of(width: usize) -> Self {
        if width <= MOST_OF_PRODUCT { Self::Product } else { Self::Drawn }
    }
}

/// The most latents of a row that a product rule serves.
const MOST_OF_PRODUCT: usize = 3;
/// One neighbourhood of draws in so many looks farther away, and so many times as far.
const FAR_ONE_IN: usize = 8;
const FAR: f64 = 3.0;
/// Times that weights of drawn points are tilted towards unit covariance: each time there is less to do.
const TILTS: usize = 40;

/// The farthest point of an axis, in standard deviations: a rule that reaches farther is drawn together, which brings its
/// points closer to each other where the mass is.
const FARTHEST: f64 = 16.0;

impl Rule {
    /// The product rule of so many points an axis; in no dimension it is one point.
    pub(crate) fn new(width: usize, each: usize) -> Self {
        let GaussHermite { nodes, weights } = &*GaussHermite::new(each);
        let mut nodes = nodes.clone();
        let wide = nodes.last().copied().unwrap_or_default();
        let squeeze = if wide > FARTHEST { FARTHEST / wide } else { 1.0 };
        let factors: Vec<f64> = nodes.iter().zip(weights).map(|(t, w)| w.ln() + 0.5 * t * t + squeeze.ln()).collect();
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
        Self { width, points, log_factors, reach, gap, kind: Kind::Product }
    }

    /// The rule of so many draws; `scramble` numbers rules of other draws.
    ///
    /// Its points are from $\tfrac78 N(0, I) + \tfrac18 N(0, 9I)$, so that a row whose tails are three times as far out as
    /// its rule has no weight much above eight. Weights are tilted, by the exponential of a quadratic
    /// form, until under the standard normal they sum to one with unit covariance, so that normal rows are exact.
    ///
    /// # Errors
    /// As for [`Draws::new`].
    pub(crate) fn drawn(width: usize, count: usize, scramble: u64) -> Result<Self> {
        let draws = Draws::new(scramble, width, count)?;
        let (near, far) = ((1.0 - 1.0 / real(FAR_ONE_IN)).ln(), (1.0 / real(FAR_ONE_IN)).ln() - real(width) * FAR.ln());
        let (mut points, mut log_factors) = (Vec::with_capacity(count * width), Vec::with_capacity(count));
        for index in 0..count {
            let is_far = index / 4 % FAR_ONE_IN == FAR_ONE_IN - 1;
            points.extend(draws.get(index).iter().map(|t| if is_far { FAR * t } else { *t }));
            let square = square(&points[index * width..]);
            log_factors.push(-log_sum_exp(&[near - 0.5 * square, far - 0.5 * square / (FAR * FAR)]));
        }
        let mut rule = Self { width, points, log_factors, reach: 0.0, gap: 1.0, kind: Kind::Drawn };
        for _ in 0..TILTS {
            let weights = rule.normalise();
            let lower = cholesky(Moments::<MOST_LATENTS>::of(&rule, &weights).covariance, width);
            for (factor, point) in rule.log_factors.iter_mut().zip(rule.points.chunks_exact(width)) {
                let mut white = point.to_vec();
                for row in 0..width {
                    let known: f64 = (0..row).map(|column| lower[row][column] * white[column]).sum();
                    white[row] = (white[row] - known) / lower[row][row];
                }
                *factor += 0.5 * (square(&white) - square(point));
            }
        }
        rule.normalise();
        rule.reach = rule.points.iter().fold(0.0_f64, |most, t| most.max(t.abs()));
        Ok(rule)
    }

    /// Makes the weights under the standard normal sum to one, and gives them.
    fn normalise(&mut self) -> Vec<f64> {
        let points = self.points.chunks_exact(self.width);
        let logs: Vec<f64> = self.log_factors.iter().zip(points).map(|(own, t)| own - 0.5 * square(t)).collect();
        let total = log_sum_exp(&logs);
        self.log_factors.iter_mut().for_each(|slot| *slot -= total);
        logs.iter().map(|own| (own - total).exp()).collect()
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

fn square(point: &[f64]) -> f64 {
    point.iter().map(|t| t * t).sum()
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

    #[test]
    fn draws_have_the_moments_of_the_standard_normal() {
        let rule = Rule::drawn(5, 4_096, 1).unwrap();
        let expected = |of: &dyn Fn(&[f64]) -> f64| -> f64 {
            let weight =
                |n: usize| (rule.log_factors[n] - 0.5 * rule.point(n).iter().map(|t| t * t).sum::<f64>()).exp();
            (0..rule.len()).map(|n| weight(n) * of(rule.point(n))).sum()
        };
        assert!((expected(&|_| 1.0) - 1.0).abs() < 1e-12);
        for k in 0..5 {
            assert!(expected(&|t| t[k]).abs() < 1e-12);
            assert!((expected(&|t| t[k] * t[k]) - 1.0).abs() < 1e-9, "{}", expected(&|t| t[k] * t[k]));
            assert!((0..k).all(|l| expected(&|t| t[k] * t[l]).abs() < 1e-9));
            assert!((expected(&|t| t[k].powi(4)) - 3.0).abs() < 0.3);
        }
    }
}
