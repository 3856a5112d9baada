//! Solves a local problem in closed form where the log likelihood is quadratic in the globals.

use partita_core::Device;

use super::quadratic::{Quadratic, away, quadratic};
use super::{LocalProblem, LocalSolver, LocalUpdate, Solved, SolverState};
use crate::engine::error::{Error, Result};
use crate::engine::natural::{ExponentialFamily, NormalFamily};
use crate::engine::settings::Settings;

/// The exact local optimum for a likelihood that is quadratic in the unconstrained globals, as in linear regression
/// with known noise: any model that is, without a line of its own.
///
/// The quadratic is read off gradients at one point a component, and made sure of some of its own standard deviations
/// away and where $`q_m`$ is. With a full covariance $`q_m`$ is cavity times likelihood; with independent components it
/// has its mean and the inverses of the diagonal of its precision, which is what maximises $`\mathcal F_m`$.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conjugate;

/// Points at which the likelihood is made sure of under the solution, where it may say nothing of its own scale.
const PROBES: u64 = 2;

impl LocalSolver for Conjugate {
    fn start(&self, _: &Settings, _: &Device) -> Box<dyn SolverState> {
        Box::new(Self)
    }
}

impl SolverState for Conjugate {
    fn solve(&mut self, problem: &mut dyn LocalProblem, update: &LocalUpdate) -> Result<Solved> {
        let family = problem.natural_family().clone();
        let len = family.len();
        let found = quadratic(len, false, |point| Ok(problem.log_likelihood(point, update.first)?.1))?;
        let likelihood = found.ok_or_else(refused)?;
        let natural = optimum(&family, problem.cavity(), &likelihood)?;
        let (mean, spread) = family.moments(&natural);
        for probe in 0..PROBES {
            let steps = spread.deviations().into_iter().zip(away(probe, len));
            let point: Vec<f64> = mean.iter().zip(steps).map(|(mean, (sd, away))| mean + sd * away).collect();
            if !likelihood.holds_at(&point, |point| Ok(problem.log_likelihood(point, update.first)?.1))? {
                return Err(refused());
            }
        }
        let (constant, _) = problem.log_likelihood(&vec![0.0; len], update.first)?;
        let log_likelihood = constant + likelihood.expectation(&family, &natural);
        Ok(Solved { natural, log_likelihood, steps: 1, clipped: 0, shortened: 0 })
    }
}

fn refused() -> Error {
    Error::Setting {
        setting: "solver",
        found: "Conjugate for a log likelihood that is not quadratic in the globals".into(),
        expected: "a linear-Gaussian model on the unconstrained scale; use GradientDescent",
    }
}

/// The member of the family closest to cavity times likelihood.
fn optimum(family: &NormalFamily, cavity: &[f64], likelihood: &Quadratic) -> Result<Vec<f64>> {
    // Over any covariance the product is a density; its mean and the diagonal of its precision are all that is wanted.
    let full = NormalFamily::full(family.len());
    let own = full.natural_of_curvature(&likelihood.linear, &likelihood.curvature);
    let joint: Vec<f64> = family.as_full(cavity).iter().zip(&own).map(|(a, b)| a + b).collect();
    full.check("cavity times likelihood", &joint)?;
    if *family == full {
        // Going by its mean would cost the digits that the precision's condition has.
        return Ok(joint);
    }
    let (mean, _) = full.moments(&joint);
    Ok(family.with_precision_of(&mean, &joint))
}
