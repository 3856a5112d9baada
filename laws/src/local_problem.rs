//! Checks that a local problem says the same at a step whenever it is asked, and that its gradient is one.

use partita_core::{Key, Noise, Purpose};
use partita_inference::LocalProblem;

use crate::derivative;

const SEED: u64 = 264_575;
/// Points, and steps, at which a problem is asked.
const POINTS: u64 = 4;
/// Relative to the gradient: rounding of the log likelihood, 1e-13 of its size, divided by 1e-3.
const GRADIENT: f64 = 1e-7;

/// A law of [`LocalProblem`] that does not hold.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LocalProblemViolation {
    /// A vector has another length than the families say.
    #[error("{vector} has {found} numbers, expected {expected}")]
    Length {
        /// The vector.
        vector: &'static str,
        /// Its length.
        found: usize,
        /// That of the family.
        expected: usize,
    },
    /// The problem ended with an error.
    #[error("step {step}: {reason}")]
    Failed {
        /// The step.
        step: u64,
        /// The error.
        reason: String,
    },
    /// Asked again at the same place and step, it says something else.
    #[error("step {step}: {what} is {found} the second time, {expected} the first")]
    Repeated {
        /// The step.
        step: u64,
        /// What was asked for.
        what: &'static str,
        /// The second answer.
        found: f64,
        /// The first.
        expected: f64,
    },
    /// The gradient of the log likelihood is not its derivative.
    #[error("step {step}: the gradient by component {index} is {found}, differences give {expected}")]
    Gradient {
        /// The step.
        step: u64,
        /// The component.
        index: usize,
        /// What the problem says.
        found: f64,
        /// What differences give.
        expected: f64,
    },
}

/// Checks a problem whose log likelihood can be asked for, at posteriors and points near `parameters` of its family.
///
/// Its vectors have the lengths of its families; asked twice at one place and step, without a rate for local latents,
/// it says the same to the bit; and the gradient of the log likelihood agrees with differences.
///
/// # Errors
/// The first [`LocalProblemViolation`] found.
///
/// # Example
/// One observation of 1 with unit variance, before a cavity $`N(0, 1)`$: the posterior is $`N(1/2, 1/2)`$.
/// ```
/// use partita_core::{Key, Noise, Purpose};
/// use partita_inference::{DiagonalGaussian, Family, LocalProblem, NormalFamily, Result, Sampled};
/// use partita_laws as laws;
///
/// struct One(DiagonalGaussian, NormalFamily);
///
/// impl LocalProblem for One {
///     fn family(&self) -> &dyn Family {
///         &self.0
///     }
///     fn natural_family(&self) -> &NormalFamily {
///         &self.1
///     }
///     fn initial(&self) -> Vec<f64> {
///         vec![0.0, 0.0]
///     }
///     fn cavity(&self) -> &[f64] {
///         &[0.0, -0.5]
///     }
///     fn noise(&self, step: u64) -> (Noise, Key) {
///         (Noise::new(1), Key::new(Purpose::Fit, step))
///     }
///     fn sample(&mut self, parameters: &[f64], _: u64, _: f64) -> Result<Sampled> {
///         let (mean, variance) = (parameters[0], (2.0 * parameters[1]).exp());
///         let log_likelihood = -0.5 * ((1.0 - mean).powi(2) + variance);
///         let free_energy = log_likelihood - 0.5 * (mean * mean + variance) + parameters[1];
///         Ok(Sampled { free_energy, log_likelihood, gradient: vec![2.0 * mean - 1.0, 2.0 * variance - 1.0] })
///     }
///     fn log_likelihood(&mut self, point: &[f64], _: u64) -> Result<(f64, Vec<f64>)> {
///         Ok((-0.5 * (1.0 - point[0]).powi(2), vec![1.0 - point[0]]))
///     }
/// }
///
/// let mut problem = One(DiagonalGaussian::new(1), NormalFamily::diagonal(1));
/// laws::local_problem(&mut problem, &[0.2, -0.3]).unwrap();
/// let found = problem.sample(&[0.5, 0.5 * 0.5_f64.ln()], 0, 0.0)?;
/// assert!(found.gradient.iter().all(|slope| slope.abs() < 1e-12));
/// # Ok::<(), partita_inference::Error>(())
/// ```
pub fn local_problem(problem: &mut dyn LocalProblem, parameters: &[f64]) -> Result<(), LocalProblemViolation> {
    let (family, natural) = (problem.family().parameter_len(), problem.natural_family().clone());
    let initial = problem.initial().len();
    let lengths = [
        ("the vector of initial parameters", initial, family),
        ("the cavity", problem.cavity().len(), partita_inference::ExponentialFamily::natural_len(&natural)),
        ("a point of the natural family", partita_inference::ExponentialFamily::len(&natural), problem.family().len()),
    ];
    if let Some((vector, found, expected)) = lengths.into_iter().find(|(_, found, expected)| found != expected) {
        return Err(LocalProblemViolation::Length { vector, found, expected });
    }
    for step in 0..POINTS {
        repeats(problem, parameters, step)?;
        gradient(problem, parameters, step)?;
    }
    Ok(())
}

fn failed(step: u64) -> impl Fn(partita_inference::Error) -> LocalProblemViolation {
    move |error| LocalProblemViolation::Failed { step, reason: error.to_string() }
}

fn repeats(problem: &mut dyn LocalProblem, parameters: &[f64], step: u64) -> Result<(), LocalProblemViolation> {
    let mut ask = || {
        let sampled = problem.sample(parameters, step, 0.0).map_err(failed(step))?;
        let numbers = [("the free energy", sampled.free_energy), ("the log likelihood", sampled.log_likelihood)];
        let gradient = sampled.gradient.into_iter().map(|entry| ("an entry of the gradient", entry));
        Ok::<_, LocalProblemViolation>(numbers.into_iter().chain(gradient).collect::<Vec<_>>())
    };
    let (first, second) = (ask()?, ask()?);
    let is_other = |((_, a), (_, b)): &(&(&str, f64), &(&str, f64))| a.to_bits() != b.to_bits();
    match first.iter().zip(&second).find(is_other) {
        None => Ok(()),
        Some((&(what, expected), &(_, found))) => Err(LocalProblemViolation::Repeated { step, what, found, expected }),
    }
}

fn gradient(problem: &mut dyn LocalProblem, parameters: &[f64], step: u64) -> Result<(), LocalProblemViolation> {
    let mut noise = vec![0.0; problem.family().noise_len()];
    Noise::new(SEED).stream(Key::new(Purpose::Check, step)).normal(&mut noise);
    let point = problem.family().draw(parameters, &noise).latent;
    let (value, found) = problem.log_likelihood(&point, step).map_err(failed(step))?;
    let problem = std::cell::RefCell::new(problem);
    let at = |point: &[f64]| problem.borrow_mut().log_likelihood(point, step).map_or(f64::NAN, |(value, _)| value);
    let size = found.iter().fold(1.0 + value.abs(), |size: f64, entry| size.max(entry.abs()));
    for (index, found) in found.into_iter().enumerate() {
        let expected = derivative(at, &point, index);
        let is_same = (found - expected).abs() <= GRADIENT * size;
        if !is_same {
            return Err(LocalProblemViolation::Gradient { step, index, found, expected });
        }
    }
    Ok(())
}
