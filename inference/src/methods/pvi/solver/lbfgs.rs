//! Solves a local problem by the quasi-Newton method of limited memory, on a deterministic objective.

use partita_core::Device;
use serde::{Deserialize, Serialize};

use super::expectation::{Expectation, Rule};
use super::{LocalProblem, LocalSolver, LocalUpdate, Solved, SolverState};
use crate::engine::divergence::Divergence;
use crate::engine::error::{Error, Result};
use crate::engine::limited_memory::{Along, Memory, strong_wolfe};
use crate::engine::natural::{NormalFamily, dot};
use crate::engine::plug::Plug;
use crate::engine::settings::Settings;

/// Limited-memory BFGS over the family's parameters, for small problems: the objective is that of a Gauss-Hermite rule
/// or of one fixed set of draws (sample average approximation), with the divergence in closed form.
///
/// A visit ends when the largest entry of the gradient is at most `tolerance`, when no step descends any more, or after
/// the steps that it was given. Points outside the domain of the divergence are never accepted. With
/// [`Expectation::MonteCarlo`] the draws are those of the visit's first step.
///
/// # References
/// Nocedal and Wright (2006), Numerical optimization, algorithms 7.4, 3.5 and 3.6.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Lbfgs {
    /// How expectations are taken.
    pub expectation: Expectation,
    /// Pairs of steps and gradient changes that are kept.
    pub memory: usize,
    /// The largest entry of the gradient, in nats a unit of a parameter, at which a visit ends.
    pub tolerance: f64,
}

impl Lbfgs {
    /// With the usual memory of ten pairs, to a gradient of $`10^{-8}`$.
    #[must_use]
    pub fn new(expectation: Expectation) -> Self {
        Self { expectation, memory: 10, tolerance: 1e-8 }
    }
}

impl LocalSolver for Lbfgs {
    fn start(&self, _: &Settings, _: &Device) -> Box<dyn SolverState> {
        Box::new(*self)
    }

    fn check(&self, _: u64) -> Result<()> {
        self.expectation.check()?;
        Error::unless(self.memory > 0, "memory of L-BFGS", self.memory, "at least 1")?;
        let (tolerance, expected) = (self.tolerance, "a finite number >= 0, such as 1e-8");
        Error::unless(tolerance >= 0.0 && tolerance.is_finite(), "tolerance of L-BFGS", tolerance, expected)
    }

    fn takes_divergences(&self) -> bool {
        true
    }
}

/// The objective of a visit: $`D(q \,\|\, q^{\setminus m}) - \mathrm{E}_q[\log p(y_m \mid \theta)]`$ at fixed points.
struct Objective<'a> {
    problem: &'a mut dyn LocalProblem,
    family: NormalFamily,
    divergence: Plug<dyn Divergence>,
    rule: Rule,
    step: u64,
}

/// The objective at some parameters.
#[derive(Debug, Clone)]
struct Place {
    value: f64,
    gradient: Vec<f64>,
    log_likelihood: f64,
}

impl Objective<'_> {
    fn at(&mut self, parameters: &[f64]) -> Result<Place> {
        let posterior = self.family.natural_of_member(self.problem.family(), parameters)?;
        let diverged = self.divergence.evaluate(&self.family, &posterior, self.problem.cavity())?;
        let mut gradient = vec![0.0; parameters.len()];
        self.problem.family().vjp_moments(parameters, &diverged.gradient, &mut gradient);
        let mut log_likelihood = 0.0;
        for (noise, weight) in self.rule.points.iter().zip(&self.rule.weights) {
            let draw = self.problem.family().draw(parameters, noise);
            let (value, mut slope) = self.problem.log_likelihood(&draw.latent, self.step)?;
            log_likelihood += weight * value;
            slope.iter_mut().for_each(|slope| *slope *= -weight);
            self.problem.family().vjp(parameters, noise, &slope, &slope, &mut gradient);
        }
        Ok(Place { value: diverged.value - log_likelihood, gradient, log_likelihood })
    }

    /// The objective along a search; `None` where there is no density, no divergence or no number, which are steps too
    /// long.
    fn within(&mut self, parameters: &[f64]) -> Result<Option<Place>> {
        match self.at(parameters) {
            Err(Error::DivergenceDomain { .. } | Error::Improper { .. }) => Ok(None),
            Err(error) if error.is_outside() => Ok(None),
            other => other.map(Some),
        }
    }
}

impl SolverState for Lbfgs {
    fn solve(&mut self, problem: &mut dyn LocalProblem, update: &LocalUpdate) -> Result<Solved> {
        let Self { expectation, memory, tolerance } = *self;
        let family = problem.natural_family().clone();
        let mut parameters = problem.begin(update)?;
        let (noise, key) = problem.noise(update.first);
        let rule = expectation.rule(problem.family().noise_len(), noise, key)?;
        let divergence = problem.divergence(update.first);
        let mut objective = Objective { problem, family, divergence, rule, step: update.first };
        let mut place = objective.at(&parameters)?;
        let mut memory = Memory::new(memory);
        let mut steps = 0;
        while steps < update.steps && place.gradient.iter().any(|g| g.abs() > tolerance) {
            let direction = memory.direction(&place.gradient);
            let size = dot(&direction, &direction).sqrt();
            // The first step knows no curvature: it moves by one unit of the parameters at most.
            let first = if memory.is_empty() { (1.0 / size).min(1.0) } else { 1.0 };
            let slope = dot(&direction, &place.gradient);
            let along = Along { value: place.value, slope, first };
            let mut latest = None;
            let accepted = strong_wolfe(along, |length| {
                let moved: Vec<f64> = parameters.iter().zip(&direction).map(|(p, d)| p + length * d).collect();
                let found = objective.within(&moved)?;
                let seen = found.as_ref().map(|found| (found.value, dot(&found.gradient, &direction)));
                latest = found.map(|found| (moved, found));
                Ok(seen)
            })?;
            steps += 1;
            let (true, Some((moved, found))) = (accepted, latest) else { break };
            let step = moved.iter().zip(&parameters).map(|(new, old)| new - old).collect();
            let change = found.gradient.iter().zip(&place.gradient).map(|(new, old)| new - old).collect();
            memory.push(step, change);
            (parameters, place) = (moved, found);
        }
        let natural = objective.family.natural_of_member(objective.problem.family(), &parameters)?;
        Ok(Solved { natural, log_likelihood: place.log_likelihood, steps, clipped: 0, shortened: 0 })
    }
}
