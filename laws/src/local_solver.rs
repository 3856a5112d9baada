//! Checks the laws of local solvers: the exact answer to a conjugate problem, and saved states that go on alike.

use partita_core::{Device, Key, Noise, Purpose};
use partita_inference::{
    Error, ExponentialFamily, Family, FullRankGaussian, LocalProblem, LocalSolver, LocalUpdate, NormalFamily,
    Result as Fallible, Sampled, Settings, Solved, SolverState,
};

use crate::Violation;
use crate::difference::within;
use crate::moments::dot;

const SEED: u64 = 173_205;
/// Linear and second-order coefficients of the log likelihood, $`a^\top\theta - \tfrac12\theta^\top B\,\theta`$.
const LINEAR: [f64; 2] = [2.0, -1.0];
const CURVATURE: [[f64; 2]; 2] = [[3.0, 0.8], [0.8, 2.5]];
/// Mean and lower triangle of the covariance, row by row, of the cavity and of the posterior received.
const CAVITY: [f64; 5] = [0.3, -0.2, 1.0, 0.2, 1.2];
const RECEIVED: [f64; 5] = [0.0, 0.0, 0.5, 0.1, 0.8];

/// A law of [`LocalSolver`].
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LocalSolverLaw {
    /// A visit ended with an error.
    #[error("{reason}")]
    Failed {
        /// The error.
        reason: String,
    },
    /// The solution of a conjugate problem is another.
    #[error("natural parameter {index} of a conjugate solution is {found}, expected {expected} within {bound}")]
    Solution {
        /// The natural parameter.
        index: usize,
        /// That of the solver.
        found: f64,
        /// That of cavity times likelihood.
        expected: f64,
        /// How far it may be.
        bound: f64,
    },
    /// A solver refused a state of its own.
    #[error("it refused the state that it had saved")]
    Refused,
    /// A solver took a state of another.
    #[error("it took a state that is none of its own")]
    Accepted,
    /// After `load(save())` a visit gives other bits.
    #[error("natural parameter {index} is {found} after a restore, {expected} without")]
    Resumed {
        /// The natural parameter.
        index: usize,
        /// That of the restored solver.
        found: f64,
        /// That of the solver that went on.
        expected: f64,
    },
}

/// What visits a solver is checked with.
#[derive(Debug, Clone)]
pub struct SolverCheck {
    /// Steps of a visit, enough for the solver to converge.
    pub steps: u64,
    /// How far from the exact natural parameters it may end.
    pub bound: f64,
    /// Optimiser and schedule, for a solver that has some.
    pub settings: Settings,
}

/// Checks a solver on a normal problem of two correlated numbers: that a visit ends at cavity times likelihood, that a
/// second visit after `load(save())` has the same bits as without, and that a state of another kind is refused.
///
/// # Errors
/// The first [`LocalSolverLaw`] that does not hold.
///
/// # Example
/// ```
/// use partita_inference::{Conjugate, Settings};
/// use partita_laws as laws;
/// let check = laws::SolverCheck { steps: 1, bound: 1e-9, settings: Settings::default() };
/// laws::local_solver(&Conjugate, &check, &partita_core::Device::flex())?;
/// # Ok::<(), laws::Violation<laws::LocalSolverLaw>>(())
/// ```
pub fn local_solver(
    solver: &dyn LocalSolver,
    check: &SolverCheck,
    device: &Device,
) -> Result<(), Violation<LocalSolverLaw>> {
    let broken = |law: LocalSolverLaw| Violation { subject: format!("{solver:?}"), law };
    let failed = |error: Error| broken(LocalSolverLaw::Failed { reason: error.to_string() });
    let start = || solver.start(&check.settings, device);
    if start().load(vec![("no such state".to_owned(), vec![1.0])]) {
        return Err(broken(LocalSolverLaw::Accepted));
    }
    let mut problem = Normal::new().map_err(failed)?;
    let received = problem.natural.natural_of_standard(&RECEIVED).map_err(failed)?;
    let mut visit = |state: &mut dyn SolverState, number: u64| {
        let (received, first) = (received.clone(), number * check.steps);
        let visit = LocalUpdate { received, is_prior: false, first, steps: check.steps, total: 2 * check.steps };
        state.solve(&mut problem, &visit).map(|Solved { natural, .. }| natural).map_err(failed)
    };
    let (mut going_on, mut restored) = (start(), start());
    let found = visit(&mut *going_on, 0)?;
    if !restored.load(going_on.save()) {
        return Err(broken(LocalSolverLaw::Refused));
    }
    let (next, again) = (visit(&mut *going_on, 1)?, visit(&mut *restored, 1)?);
    let exact: Vec<f64> = problem.cavity.iter().zip(problem.likelihood()).map(|(a, b)| a + b).collect();
    for (index, (&found, &expected)) in found.iter().zip(&exact).enumerate() {
        if !within(found, expected, check.bound) {
            return Err(broken(LocalSolverLaw::Solution { index, found, expected, bound: check.bound }));
        }
    }
    for (index, (&found, &expected)) in again.iter().zip(&next).enumerate() {
        if found.to_bits() != expected.to_bits() {
            return Err(broken(LocalSolverLaw::Resumed { index, found, expected }));
        }
    }
    Ok(())
}

/// A likelihood that is normal in two numbers.
struct Normal {
    family: FullRankGaussian,
    natural: NormalFamily,
    cavity: Vec<f64>,
}

impl Normal {
    fn new() -> Fallible<Self> {
        let natural = NormalFamily::full(2);
        let cavity = natural.natural_of_standard(&CAVITY)?;
        Ok(Self { family: FullRankGaussian::new(2), natural, cavity })
    }

    /// Natural parameters of the likelihood.
    fn likelihood(&self) -> Vec<f64> {
        self.natural.natural_of_curvature(&LINEAR, &CURVATURE.map(|row| row.to_vec()))
    }
}

impl LocalProblem for Normal {
    fn family(&self) -> &dyn Family {
        &self.family
    }

    fn natural_family(&self) -> &NormalFamily {
        &self.natural
    }

    fn initial(&self) -> Vec<f64> {
        self.family.initial(0.1)
    }

    fn cavity(&self) -> &[f64] {
        &self.cavity
    }

    fn noise(&self, step: u64) -> (Noise, Key) {
        (Noise::new(SEED), Key::new(Purpose::Check, step))
    }

    /// Sticking the landing: exact where the posterior is cavity times likelihood.
    fn sample(&mut self, parameters: &[f64], step: u64, _: f64) -> Fallible<Sampled> {
        let (noise, key) = self.noise(step);
        let mut numbers = vec![0.0; self.family.noise_len()];
        noise.normal(key, &mut numbers);
        let draw = self.family.draw(parameters, &numbers);
        let (log_likelihood, slope) = self.log_likelihood(&draw.latent, step)?;
        let pull = self.natural.score(&self.cavity, &draw.latent);
        let down: Vec<f64> = slope.iter().zip(&pull).zip(&draw.score).map(|((l, c), q)| q - l - c).collect();
        let mut gradient = vec![0.0; parameters.len()];
        self.family.vjp(parameters, &numbers, &down, &down, &mut gradient);
        let cavity = dot(&self.cavity, &self.natural.statistics(&draw.latent));
        Ok(Sampled { free_energy: log_likelihood + cavity - draw.log_density, log_likelihood, gradient })
    }

    fn log_likelihood(&mut self, point: &[f64], _: u64) -> Fallible<(f64, Vec<f64>)> {
        let product = CURVATURE.map(|row| dot(&row, point));
        let gradient = LINEAR.iter().zip(&product).map(|(a, b)| a - b).collect();
        Ok((dot(&LINEAR, point) - 0.5 * dot(&product, point), gradient))
    }
}
