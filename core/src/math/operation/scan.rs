//! Evaluates a recurrence over time as one node of the tape, with derivatives that are found by themselves.

use burn::tensor::Tensor;

use super::custom::{Differentiable, custom_vjp};
use crate::array::Array;
use crate::error::{Error, Result};
use crate::handle::Handle;
use crate::math::real::{Real, Tape, Taped};

/// One step of a recurrence: $`s_t, y_t = f(s_{t-1}, x_t, \theta)`$.
///
/// The step is written once, for every kind of number: with `f64` it gives values, with numbers of Partita's own
/// derivatives. Constants that it needs are fields of the implementor.
///
/// # Laws
/// A step with the same arguments gives the same result; it reads and writes nothing but its arguments and its own
/// fields. `laws::custom_operation` checks the gradient of its [`scan`].
pub trait Recurrence<const OUTPUTS: usize = 1> {
    /// Moves `state` from $`s_{t-1}`$ to $s_t$ and returns $y_t$.
    ///
    /// # Shapes
    /// `input`: $x_t$, one row of the inputs; `parameters`: $\theta$, the numbers of all parameters in their order.
    fn step<T: Real>(&self, state: &mut [T], input: &[T], parameters: &[T]) -> [T; OUTPUTS];
}

/// What a recurrence starts from and reads: see [`scan`].
#[derive(Debug, Clone)]
pub struct Scan {
    /// $s_0$, the state before the first step, of any shape.
    pub initial: Handle,
    /// $`x_1, \dots, x_T`$ as `[steps, width]`, or `[steps]` for one number a step: data or latents.
    pub inputs: Handle,
    /// $\theta$: tensors of any shape; a step sees their numbers one after the other.
    pub parameters: Vec<Handle>,
}

/// The outputs $`y_1, \dots, y_T`$ of a recurrence, as one node of the tape.
///
/// The way back runs through time with the states of the way forth. It records one step at a time, so that memory grows
/// with the states alone, and time does not grow with the number of parameters or of tracked inputs. `name` stands in
/// errors. Steps are compiled in the crate that writes them: optimise it (`[profile.dev.package.NAME] opt-level = 3`),
/// as they are the inner loop.
///
/// # Cost
/// Processor time of value and gradient, optimised: 43 µs for 200 steps of GARCH(1,1) with its log density, 160 µs for
/// the forward algorithm of 2 states over 400 steps ([`crate::hidden_markov`], written by hand, takes 40 µs);
/// `benches/scan.rs` repeats it.
///
/// # Shapes
/// `[steps, OUTPUTS]`.
///
/// # Errors
/// [`Error::Shape`] if the inputs have more than two dimensions; [`Error::NotFiniteMade`] with the step whose state or
/// output is the first that is not a number.
///
/// # Laws
/// `laws::custom_operation` checks it against differences.
///
/// # Example
/// The standard deviations of a GARCH(1,1) process:
/// ```
/// use partita_core::{Device, Real, Recurrence, Scan, scan};
///
/// struct Garch;
///
/// impl Recurrence for Garch {
///     fn step<T: Real>(&self, state: &mut [T], y: &[T], parameters: &[T]) -> [T; 1] {
///         let [omega, alpha, beta] = [parameters[0], parameters[1], parameters[2]];
///         let sd = state[0].sqrt();
///         state[0] = omega + alpha * y[0] * y[0] + beta * state[0];
///         [sd]
///     }
/// }
///
/// let device = Device::flex();
/// let [omega, alpha, beta] = [1.0, 0.5, 0.25].map(|value| device.leaf::<1>(vec![value], [1]));
/// let sd = scan("garch", Garch, Scan {
///     initial: device.tensor::<1>(vec![4.0], [1]).into(),
///     inputs: device.tensor::<1>(vec![2.0, 0.0, 1.0], [3]).into(),
///     parameters: vec![omega.into(), alpha.clone().into(), beta.into()],
/// })?;
/// // Variances 4, 1 + 0.5·4 + 0.25·4 = 4, and 1 + 0 + 0.25·4 = 2.
/// let values: Vec<f64> = sd.clone().into_data().to_vec().unwrap();
/// assert_eq!(values, [2.0, 2.0, 2.0_f64.sqrt()]);
/// let gradients = sd.narrow(0, 1, 1).sum().backward();
/// assert_eq!(alpha.grad(&gradients).unwrap().into_scalar::<f64>(), 4.0 / (2.0 * 2.0));
/// # Ok::<(), partita_core::Error>(())
/// ```
pub fn scan<const OUTPUTS: usize, R>(name: &str, recurrence: R, from: Scan) -> Result<Tensor<2>>
where
    R: Recurrence<OUTPUTS> + Send + 'static,
{
    let shape = from.inputs.shape();
    let (steps, width) = match *shape.as_slice() {
        [steps] => (steps, 1),
        [steps, width] => (steps, width),
        _ => {
            return Err(Error::Shape {
                operation: format!("{name}, inputs"),
                expected: vec![shape.first().copied().unwrap_or(1), shape.iter().skip(1).product()],
                found: shape,
                remedy: "Give one row of numbers for each step.".into(),
            });
        }
    };
    let is_tracked = [&from.initial, &from.inputs].into_iter().chain(&from.parameters).any(Handle::is_tracked);
    let is_input_tracked = from.inputs.is_tracked();
    let operation = name.to_owned();
    let inputs = [from.initial, from.inputs].into_iter().chain(from.parameters);
    custom_vjp::<2>(name, inputs, move |arrays| {
        let path = Path::new(arrays, [steps, width], is_input_tracked);
        let (values, states) = path.forward(&operation, &recurrence, is_tracked)?;
        let value = Array { values, shape: vec![steps, OUTPUTS] };
        Ok(Differentiable::new(value, move |gradient, by| path.back(&recurrence, &states, gradient, by)))
    })
}

/// The numbers that a recurrence reads.
struct Path {
    initial: Vec<f64>,
    inputs: Vec<f64>,
    parameters: Vec<f64>,
    steps: usize,
    width: usize,
    /// Data stay off the tape.
    is_input_tracked: bool,
}

impl Path {
    fn new(arrays: Vec<Array>, [steps, width]: [usize; 2], is_input_tracked: bool) -> Self {
        let mut arrays = arrays.into_iter().map(|array| array.values);
        let (initial, inputs) = (arrays.next().unwrap_or_default(), arrays.next().unwrap_or_default());
        Self { initial, inputs, parameters: arrays.flatten().collect(), steps, width, is_input_tracked }
    }

    fn input(&self, step: usize) -> &[f64] {
        &self.inputs[step * self.width..(step + 1) * self.width]
    }

    /// All outputs, and, if they are kept, the states before each step.
    fn forward<const OUTPUTS: usize>(
        &self,
        operation: &str,
        recurrence: &impl Recurrence<OUTPUTS>,
        is_kept: bool,
    ) -> Result<(Vec<f64>, Vec<f64>)> {
        let mut state = self.initial.clone();
        let mut values = Vec::with_capacity(self.steps * OUTPUTS);
        let mut states = Vec::with_capacity(if is_kept { self.steps * state.len() } else { 0 });
        for step in 0..self.steps {
            if is_kept {
                states.extend_from_slice(&state);
            }
            let output = recurrence.step(&mut state, self.input(step), &self.parameters);
            // Infinite numbers are legal: log probabilities of zero.
            if output.iter().chain(&state).any(|number| number.is_nan()) {
                let operation = format!("{operation}, step {step}");
                return Err(Error::NotFiniteMade { operation, found: f64::NAN });
            }
            values.extend_from_slice(&output);
        }
        Ok((values, states))
    }

    /// The vector-Jacobian product: from the last step to the first, each recorded anew after the parameters.
    fn back<const OUTPUTS: usize>(
        &self,
        recurrence: &impl Recurrence<OUTPUTS>,
        states: &[f64],
        gradient: &[f64],
        by: &mut [Vec<f64>],
    ) {
        let tape = Tape::default();
        let parameters: Vec<Taped<'_>> = self.parameters.iter().map(|value| tape.input(*value)).collect();
        let (kept, size) = (parameters.len(), self.initial.len());
        let mut adjoints = vec![0.0; kept];
        let mut by_state = vec![0.0; size];
        let (mut state, mut input): (Vec<Taped<'_>>, Vec<Taped<'_>>) = (Vec::new(), Vec::new());
        for step in (0..self.steps).rev() {
            tape.truncate(kept);
            state.clear();
            state.extend(states[step * size..(step + 1) * size].iter().map(|value| tape.input(*value)));
            input.clear();
            let number = |value: &f64| if self.is_input_tracked { tape.input(*value) } else { (*value).into() };
            input.extend(self.input(step).iter().map(number));
            let output = recurrence.step(&mut state, &input, &parameters);
            adjoints.truncate(kept);
            adjoints.resize(tape.len(), 0.0);
            let own = &gradient[step * OUTPUTS..(step + 1) * OUTPUTS];
            for (number, gradient) in state.iter().chain(&output).zip(by_state.iter().chain(own)) {
                number.seed(*gradient, &mut adjoints);
            }
            tape.sweep(kept, &mut adjoints);
            by_state.copy_from_slice(&adjoints[kept..kept + size]);
            if self.is_input_tracked {
                let by_input = &mut by[1][step * self.width..(step + 1) * self.width];
                by_input.copy_from_slice(&adjoints[kept + size..kept + size + self.width]);
            }
        }
        by[0].copy_from_slice(&by_state);
        by[2..].iter_mut().flatten().zip(&adjoints).for_each(|(slot, number)| *slot = *number);
    }
}
