//! Takes expectations of a silo's log likelihood under a normal density: Gauss-Hermite rules, or keyed draws.

use faer::Mat;
use partita_core::{Key, Noise};
use serde::{Deserialize, Serialize};

use super::LocalProblem;
use crate::engine::error::{Error, Result};
use crate::engine::family::{CovarianceGradient, CovarianceMatrix, MomentGradient};
use crate::engine::gauss_hermite::GaussHermite;
use crate::engine::natural::NormalFamily;

/// How solvers without draws of their own take expectations under $`q`$.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Expectation {
    /// The product of Gauss-Hermite rules with this many points a component, for up to three components: exact for
    /// polynomials of degree up to twice the points less one, and to rounding for smooth functions.
    GaussHermite {
        /// Points a component.
        points: u32,
    },
    /// The mean over this many draws, in pairs $`\pm\varepsilon`$.
    MonteCarlo {
        /// Draws, an even number.
        draws: u32,
    },
}

/// Components that product rules are for: their points are a power of it.
const LONGEST: usize = 3;
/// Beyond this many points weights underflow.
const MOST_POINTS: u32 = 200;

/// Standard normal points with weights that sum to one.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    pub(super) points: Vec<Vec<f64>>,
    pub(super) weights: Vec<f64>,
}

/// $`\mathrm{E}_q[\log p(y_m \mid \theta)]`$ and its gradient by mean and covariance.
#[derive(Debug, Clone)]
pub(super) struct Expected {
    pub(super) value: f64,
    pub(super) gradient: MomentGradient,
}

impl Expectation {
    pub(super) fn check(self) -> Result<()> {
        let refuse = |found: u32, expected| {
            Err(Error::Setting { setting: "expectation of a solver", found: found.to_string(), expected })
        };
        match self {
            Self::GaussHermite { points } if points == 0 || points > MOST_POINTS => {
                refuse(points, "1 to 200 Gauss-Hermite points a component")
            }
            Self::MonteCarlo { draws } if draws == 0 || !draws.is_multiple_of(2) => {
                refuse(draws, "an even number of draws, since they come in pairs")
            }
            _ => Ok(()),
        }
    }

    /// Whether every step has points of its own.
    pub(super) fn is_drawn(self) -> bool {
        matches!(self, Self::MonteCarlo { .. })
    }

    /// The points of a rule over `len` components; draws are those of a key.
    ///
    /// # Errors
    /// [`Error::Setting`] for a product rule over more components than it is for.
    pub(super) fn rule(self, len: usize, noise: Noise, key: Key) -> Result<Rule> {
        match self {
            Self::GaussHermite { points } if len <= LONGEST => Ok(product(&GaussHermite::new(points as usize), len)),
            Self::GaussHermite { .. } => Err(Error::Setting {
                setting: "expectation of a solver",
                found: format!("GaussHermite over {len} components"),
                expected: "at most 3 components; Expectation::MonteCarlo takes any number",
            }),
            Self::MonteCarlo { draws } => {
                let mut points = Vec::new();
                for pair in 0..draws / 2 {
                    let mut point = vec![0.0; len];
                    noise.stream(key.particle(pair)).normal(&mut point);
                    points.push(point.iter().map(|value| -value).collect());
                    points.push(point);
                }
                Ok(Rule { weights: vec![1.0 / f64::from(draws); points.len()], points })
            }
        }
    }
}

impl Rule {
    /// The expectation under a member of a family with natural parameters `natural`, of the log likelihood at `step`.
    ///
    /// With $`\theta = \mu + C\varepsilon`$, $`g = \nabla\log p`$ and Stein's identity
    /// $`\mathrm{E}[\nabla^2\log p] = \mathrm{E}[g\,\varepsilon^\top]\,C^{-1}`$, the gradient by the mean is
    /// $`\mathrm{E}[g]`$ and by the covariance half of that.
    pub(super) fn expected(
        &self,
        problem: &mut dyn LocalProblem,
        family: &NormalFamily,
        natural: &[f64],
        step: u64,
    ) -> Result<Expected> {
        let (mean, spread) = family.moments(natural);
        let root = Root::new(&spread)?;
        let size = mean.len();
        let (mut value, mut by_mean) = (0.0, vec![0.0; size]);
        let mut products = vec![0.0; if matches!(root, Root::Diagonal(_)) { size } else { size * size }];
        for (point, weight) in self.points.iter().zip(&self.weights) {
            let (log_likelihood, gradient) = problem.log_likelihood(&root.at(&mean, point), step)?;
            value += weight * log_likelihood;
            by_mean.iter_mut().zip(&gradient).for_each(|(slot, g)| *slot += weight * g);
            match root {
                Root::Diagonal(_) => {
                    let own = products.iter_mut().zip(&gradient).zip(point);
                    own.for_each(|((slot, g), e)| *slot += weight * g * e);
                }
                Root::Full(_) => {
                    let rows = products.chunks_exact_mut(size).zip(&gradient);
                    rows.for_each(|(row, g)| row.iter_mut().zip(point).for_each(|(slot, e)| *slot += weight * g * e));
                }
            }
        }
        Ok(Expected { value, gradient: MomentGradient { mean: by_mean, covariance: root.by_covariance(&products) } })
    }
}

/// $`C`$ with $`\Sigma = CC^\top`$.
pub(super) enum Root {
    Diagonal(Vec<f64>),
    Full(Mat<f64>),
}

impl Root {
    pub(super) fn new(spread: &CovarianceMatrix) -> Result<Self> {
        match spread {
            CovarianceMatrix::Diagonal(deviations) => Ok(Self::Diagonal(deviations.clone())),
            CovarianceMatrix::Full(_) => Ok(Self::Full(spread.cholesky()?)),
        }
    }

    /// $`\mu + C\varepsilon`$.
    pub(super) fn at(&self, mean: &[f64], noise: &[f64]) -> Vec<f64> {
        match self {
            Self::Diagonal(deviations) => {
                mean.iter().zip(deviations).zip(noise).map(|((mean, sd), e)| mean + sd * e).collect()
            }
            Self::Full(factor) => {
                let row = |i: usize| (0..=i).map(|j| factor[(i, j)] * noise[j]).sum::<f64>();
                mean.iter().enumerate().map(|(i, mean)| mean + row(i)).collect()
            }
        }
    }

    /// Half of $`\mathrm{E}[g\,\varepsilon^\top]\,C^{-1}`$, symmetrised.
    fn by_covariance(&self, products: &[f64]) -> CovarianceGradient {
        match self {
            Self::Diagonal(deviations) => {
                CovarianceGradient::Diagonal(products.iter().zip(deviations).map(|(p, sd)| 0.5 * p / sd).collect())
            }
            Self::Full(factor) => {
                let size = factor.nrows();
                // X C = P, column by column from the last: C is lower triangular.
                let mut hessian = Mat::from_fn(size, size, |i, j| products[i * size + j]);
                for i in 0..size {
                    for j in (0..size).rev() {
                        let known: f64 = (j + 1..size).map(|k| hessian[(i, k)] * factor[(k, j)]).sum();
                        hessian[(i, j)] = (hessian[(i, j)] - known) / factor[(j, j)];
                    }
                }
                let cell = |i: usize, j: usize| 0.25 * (hessian[(i, j)] + hessian[(j, i)]);
                CovarianceGradient::Full((0..size * size).map(|place| cell(place / size, place % size)).collect())
            }
        }
    }
}

/// The product of a rule with itself.
fn product(rule: &GaussHermite, len: usize) -> Rule {
    let mut product = Rule { points: vec![Vec::new()], weights: vec![1.0] };
    for _ in 0..len {
        let all = product.points.iter().zip(&product.weights);
        let each = all.flat_map(|(point, weight)| {
            rule.nodes
                .iter()
                .zip(&rule.weights)
                .map(move |(next, own)| ([point.as_slice(), &[*next]].concat(), weight * own))
        });
        let (points, weights) = each.unzip();
        product = Rule { points, weights };
    }
    product
}
