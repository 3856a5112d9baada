//! Solves a local problem in closed form where the log likelihood is quadratic in the globals.

use super::quadratic::{Quadratic, quadratic};
use super::{LocalProblem, LocalSolver, Solved, Visit};
use crate::error::{Error, Result};
use crate::exponential_family::{ExponentialFamily, NormalFamily, dot};

/// The exact local optimum for a likelihood that is quadratic in the unconstrained globals, as in linear regression with
/// known noise: any model that is, without a line of its own.
///
/// The quadratic is read off gradients at one point a component and made sure of at another. With a full covariance
/// $`q_m`$ is cavity times likelihood; with independent components it has its mean and the inverses of the diagonal of its
/// precision, which is what maximises $`\mathcal F_m`$.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conjugate;

impl LocalSolver for Conjugate {
    fn solve(&mut self, problem: &mut dyn LocalProblem, _: &Visit) -> Result<Solved> {
        let family = problem.natural_family().clone();
        let len = family.len();
        let found = quadratic(len, false, |point| Ok(problem.log_likelihood(point)?.1))?;
        let Some(likelihood) = found else {
            return Err(Error::Setting {
                setting: "solver",
                found: "Conjugate for a log likelihood that is not quadratic in the globals".into(),
                expected: "a linear-Gaussian model on the unconstrained scale; use SolverChoice::Gradient",
            });
        };
        let natural = optimum(&family, problem.cavity(), &likelihood)?;
        let (constant, _) = problem.log_likelihood(&vec![0.0; len])?;
        let log_likelihood = constant + likelihood.expectation(&family, &natural);
        Ok(Solved { natural, log_likelihood, steps: 1, clipped: 0, shortened: 0 })
    }
}

/// The member of the family closest to cavity times likelihood.
fn optimum(family: &NormalFamily, cavity: &[f64], likelihood: &Quadratic) -> Result<Vec<f64>> {
    // Over any covariance the product is a density; its mean and the diagonal of its precision are all that is wanted.
    let full = NormalFamily::full(family.len());
    let own = full.natural_of_curvature(&likelihood.linear, &likelihood.curvature);
    let joint: Vec<f64> = family.as_full(cavity).iter().zip(&own).map(|(a, b)| a + b).collect();
    full.check("cavity times likelihood", &joint)?;
    let (mean, _) = full.moments(&joint);
    Ok(family.with_precision_of(&mean, &joint))
}

impl Quadratic {
    /// The expectation of the quadratic, less its value at zero.
    fn expectation(&self, family: &NormalFamily, natural: &[f64]) -> f64 {
        let (mean, spread) = family.moments(natural);
        let (size, covariance) = (mean.len(), spread.dense());
        let mut square = 0.0;
        for (j, column) in self.curvature.iter().enumerate() {
            for (i, curvature) in column.iter().enumerate() {
                square += curvature * (covariance[i * size + j] + mean[i] * mean[j]);
            }
        }
        dot(&self.linear, &mean) - 0.5 * square
    }
}
