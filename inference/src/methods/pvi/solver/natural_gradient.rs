//! Solves a local problem by damped fixed-point steps in natural parameters, which are natural gradients.

use partita_core::Device;
use serde::{Deserialize, Serialize};

use super::expectation::{Expectation, Rule};
use super::{LocalProblem, LocalSolver, LocalUpdate, Solved, SolverState, check_clip};
use crate::engine::error::{Error, Result};
use crate::engine::natural::ExponentialFamily;
use crate::engine::settings::Settings;

/// Steps that move natural parameters by the gradient of the local objective by mean parameters $`m`$,
/// ```math
/// \eta_q \leftarrow \eta_q + \rho\,\nabla_m\bigl(\mathrm{E}_q[\log p(y_k \mid \theta)] - D(q \,\|\, q^{\setminus k})\bigr),
/// ```
/// with $`\rho`$ = `rate`. This is natural-gradient ascent, and mirror descent, without a Fisher matrix. For the
/// divergence of Kullback and Leibler it is the damped fixed point $`\eta_k \leftarrow (1-\rho)\,\eta_k +
/// \rho\,\nabla_m \mathrm{E}_q[\log p(y_k \mid \theta)]`$ of silo $`k`$'s factor: one such step of every silo from one
/// posterior is the step of variational inference on all data, whatever the partition.
///
/// With minibatches (`Settings::minibatch`) the expectation is that of the step's rows times $`N/B`$, as in stochastic
/// variational inference. A constant $`\rho`$ then leaves the noise of the last $`1/\rho`$ minibatches in the
/// posterior.
///
/// Where nothing is drawn, a visit ends early when a step changes nothing beyond rounding. Visits start at the
/// posterior received. A visit that ends outside the domain of the divergence is an error, as a step from there is.
///
/// # References
/// Khan and Lin (2017), Conjugate-computation variational inference; Hoffman, Blei, Wang and Paisley (2013), Stochastic
/// variational inference; Ashman et al. (2022), Partitioned variational inference, sections 3.3 and B.6.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct NaturalGradient {
    /// $`\rho`$: 1 for the undamped fixed point.
    pub rate: f64,
    /// How expectations are taken; draws are fresh at every step.
    pub expectation: Expectation,
}

/// A change of natural parameters below this, relative to the largest of them, is rounding.
const ROUNDING: f64 = 4.0 * f64::EPSILON;

impl LocalSolver for NaturalGradient {
    fn start(&self, settings: &Settings, _: &Device) -> Box<dyn SolverState> {
        let is_sampled = !settings.minibatch.is_empty() || self.expectation.is_drawn();
        Box::new(NaturalGradientSolver { options: *self, is_sampled, rule: None })
    }

    fn check(&self, _: u64) -> Result<()> {
        self.expectation.check()?;
        let (rate, expected) = (self.rate, "a number in (0, 1]; 1 is the undamped fixed point");
        Error::unless(rate > 0.0 && rate <= 1.0, "rate of natural gradients", rate, expected)
    }

    fn check_settings(&self, settings: &Settings, trains_theta: bool) -> Result<()> {
        check_clip("NaturalGradient", settings, trains_theta)
    }

    fn takes_divergences(&self) -> bool {
        true
    }
}

/// A running [`NaturalGradient`].
#[derive(Debug)]
struct NaturalGradientSolver {
    options: NaturalGradient,
    /// Whether steps see minibatches or draws.
    is_sampled: bool,
    /// The rule of the latest step; without draws it is that of every step.
    rule: Option<Rule>,
}

impl NaturalGradientSolver {
    fn rule(&mut self, problem: &dyn LocalProblem, step: u64) -> Result<&Rule> {
        let expectation = self.options.expectation;
        let rule = match self.rule.take() {
            Some(rule) if !expectation.is_drawn() => rule,
            _ => {
                let (noise, key) = problem.noise(step);
                expectation.rule(problem.natural_family().len(), noise, key)?
            }
        };
        Ok(self.rule.insert(rule))
    }
}

impl SolverState for NaturalGradientSolver {
    fn solve(&mut self, problem: &mut dyn LocalProblem, update: &LocalUpdate) -> Result<Solved> {
        let rate = self.options.rate;
        let family = problem.natural_family().clone();
        let mut natural = update.received.clone();
        let (mut steps, mut log_likelihood) = (0, f64::NAN);
        for step in update.first..update.first + update.steps {
            let expected = self.rule(problem, step)?.expected(problem, &family, &natural, step)?;
            let up = family.by_means(&expected.gradient, &family.moments(&natural).0);
            let down = problem.divergence(step).by_mean_parameters(&family, &natural, problem.cavity())?;
            log_likelihood = expected.value;
            let (mut change, mut size) = (0.0_f64, 0.0_f64);
            for ((eta, up), down) in natural.iter_mut().zip(&up).zip(&down) {
                let move_by = rate * (up - down);
                *eta += move_by;
                (change, size) = (change.max(move_by.abs()), size.max(eta.abs()));
            }
            family.check(&format!("a natural-gradient step with rate {rate} (lower the rate)"), &natural)?;
            steps += 1;
            if change <= ROUNDING * size && !self.is_sampled {
                break;
            }
        }
        // The last step has no other after it that would notice.
        let divergence = problem.divergence(update.first);
        if divergence.has_domain() {
            divergence.evaluate(&family, &natural, problem.cavity())?;
        }
        Ok(Solved { natural, log_likelihood, steps, clipped: 0, shortened: 0 })
    }
}
