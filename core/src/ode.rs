//! Solves ordinary differential equations as one node of the tape, with gradients by initial state and parameters.

mod solve;

use burn::tensor::Tensor;

use crate::array::Array;
use crate::error::{Error, Result};
use crate::handle::Handle;
use crate::math::operation::{Differentiable, custom_vjp};
use crate::math::real::Real;
use solve::{Free, Path, Problem, RightHandSide};

/// The right-hand side $f$ of $`\dot x = f(t, x, \theta)`$.
///
/// It is written once, for every kind of number: its Jacobians, which the solver and the gradients need, come of it.
///
/// # Laws
/// Equal arguments give equal derivatives, which are differentiable in `state` and `parameters` wherever the solution
/// goes. `tests/ode` holds solutions and their gradients to closed forms, to scipy and to differences.
pub trait OdeSystem {
    /// Writes $f(t, x, \theta)$ to `derivative`, which has the length of `state` and holds zeros.
    fn derivative<T: Real>(&self, time: f64, state: &[T], parameters: &[T], derivative: &mut [T]);
}

/// How steps are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OdeMethod {
    /// Tsitouras' explicit Runge–Kutta pair of orders 5 and 4: the cheapest where the system has one time scale.
    #[default]
    NonStiff,
    /// Backward differentiation formulas of orders 1 to 5 with Newton's method: for systems of fast and slow parts.
    Stiff,
}

/// How steps are taken, and to which accuracy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OdeOptions {
    /// Explicit or implicit steps.
    pub method: OdeMethod,
    /// The error of one step, relative to each state and to each of its derivatives.
    pub relative: f64,
    /// The error of one step where a state or a derivative is near zero.
    pub absolute: f64,
}

impl Default for OdeOptions {
    fn default() -> Self {
        Self { method: OdeMethod::NonStiff, relative: 1e-8, absolute: 1e-8 }
    }
}

/// An initial value problem and where its solution is wanted: see [`ode`].
#[derive(Debug, Clone)]
pub struct Ode {
    /// $`x(t_0)`$, of any shape: one number for each state.
    pub initial: Handle,
    /// $\theta$: tensors of any shape; the system sees their numbers one after the other.
    pub parameters: Vec<Handle>,
    /// $t_0$.
    pub start: f64,
    /// When the states are wanted: ascending, later than `start`.
    pub times: Vec<f64>,
    /// The method and its accuracy.
    pub options: OdeOptions,
}

/// The states at the times, as one node of the tape.
///
/// Gradients are forward sensitivities, $`\partial x(t)/\partial(x_0, \theta)`$, under the same error control as the
/// states, by tensors with gradient alone: the cost grows with their numbers. `name` stands in errors.
///
/// # Shapes
/// `[times, states]`.
///
/// # Errors
/// [`Error::Argument`] if the times do not ascend from `start` or a tolerance is not positive; [`Error::Operation`] with
/// the time reached if the steps become too small or too many, or the right-hand side is not finite.
///
/// # Numerics
/// Errors of single steps are held to the tolerances; those of the solution are larger by a factor that depends on the
/// system.
///
/// # Example
/// Decay at rate $k$, $x(t) = x_0 e^{-kt}$ with derivative $-t\thinspace x(t)$ by $k$:
/// ```
/// use partita_core::{Device, Handle, Real, ode::{Ode, OdeOptions, OdeSystem, ode}};
///
/// struct Decay;
///
/// impl OdeSystem for Decay {
///     fn derivative<T: Real>(&self, _: f64, state: &[T], parameters: &[T], derivative: &mut [T]) {
///         derivative[0] = -parameters[0] * state[0];
///     }
/// }
///
/// let device = Device::flex();
/// let rate = device.leaf::<1>(vec![0.5], [1]);
/// let state = ode("decay", Decay, Ode {
///     initial: device.tensor::<1>(vec![3.0], [1]).into(),
///     parameters: vec![Handle::from(rate.clone())],
///     start: 0.0,
///     times: vec![2.0],
///     options: OdeOptions::default(),
/// })?;
/// let exact = 3.0 * (-1.0_f64).exp();
/// assert!((state.clone().into_scalar::<f64>() - exact).abs() < 1e-6);
/// let slope: f64 = rate.grad(&state.backward()).unwrap().into_scalar();
/// assert!((slope + 2.0 * exact).abs() < 1e-6);
/// # Ok::<(), partita_core::Error>(())
/// ```
///
/// # References
/// The solver is the crate `diffsol` 0.18. Tsitouras, "Runge–Kutta pairs of order 5(4) satisfying only the first column
/// simplifying assumption", 2011; Shampine and Reichelt, "The MATLAB ODE suite", 1997.
pub fn ode<S: OdeSystem + Send + 'static>(name: &str, system: S, from: Ode) -> Result<Tensor<2>> {
    solved(name, Box::new(system), from)
}

fn solved(name: &str, system: Box<dyn RightHandSide + Send>, from: Ode) -> Result<Tensor<2>> {
    check(name, &from)?;
    let mut free = Vec::new();
    let mut first = 0;
    for handle in [&from.initial].into_iter().chain(&from.parameters) {
        let length: usize = handle.shape().iter().product();
        if handle.is_tracked() {
            free.extend(first..first + length);
        }
        first += length;
    }
    let states: usize = from.initial.shape().iter().product();
    let (operation, times, options, start) = (name.to_owned(), from.times, from.options, from.start);
    custom_vjp::<2>(name, [from.initial].into_iter().chain(from.parameters), move |arrays| {
        let numbers: Vec<f64> = arrays.into_iter().flat_map(|array| array.values).collect();
        let problem = Problem { system, numbers, states, free: Free::new(free), start, times, options };
        let Path { values, slopes } = problem.solve().map_err(|failure| Error::Operation {
            operation,
            problem: format!("the solver stopped at time {:.6e}: {}", failure.time, failure.reason),
        })?;
        let value = Array { shape: vec![problem.times.len(), states], values };
        let free = problem.free;
        Ok(Differentiable::new(value, move |gradient, by| {
            let mut all: Vec<&mut f64> = by.iter_mut().flatten().collect();
            let rows = gradient.chunks_exact(states).zip(slopes.chunks_exact(states * free.len()));
            for (gradient, slopes) in rows {
                for (index, slopes) in free.indices().iter().zip(slopes.chunks_exact(states)) {
                    *all[*index] += gradient.iter().zip(slopes).map(|(g, slope)| g * slope).sum::<f64>();
                }
            }
        }))
    })
}

fn check(name: &str, from: &Ode) -> Result<()> {
    let wrong = |argument, found, expected| Err(Error::Argument { operation: name.into(), argument, found, expected });
    let mut before = from.start;
    for time in &from.times {
        if !time.is_finite() || !before.is_finite() || *time <= before {
            let found = format!("{:?} from {}", from.times, from.start);
            return wrong(
                "times",
                found,
                "finite times that ascend, all later than `start`; solve at distinct times, and take the rows of repeated measurements with `select`, and the initial state for those at `start`",
            );
        }
        before = *time;
    }
    if from.initial.shape().iter().product::<usize>() == 0 {
        return wrong("initial", "no state".into(), "at least one state");
    }
    if from.times.is_empty() {
        return wrong("times", "empty".into(), "at least one time");
    }
    let OdeOptions { relative, absolute, .. } = from.options;
    if !(relative > 0.0 && absolute > 0.0 && relative.is_finite() && absolute.is_finite()) {
        return wrong("tolerances", format!("{relative} and {absolute}"), "two positive numbers, such as 1e-8");
    }
    Ok(())
}
