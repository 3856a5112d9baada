//! Puts an initial value problem to the solver `diffsol`, with its Jacobians by forward-mode numbers.

use std::cell::{Cell, RefCell};

use diffsol::error::OdeSolverError;
use diffsol::{DiffsolError, NalgebraLU, NalgebraMat, NalgebraVec, OdeBuilder, OdeEquations, OdeSolverMethod, Vector};

use super::{OdeMethod, OdeOptions, OdeSystem};
use crate::math::real::Dual;

/// The most steps of one solution: far more than a system takes whose method fits it.
const STEPS: usize = 100_000;

/// The numbers that have a gradient, among the initial states and then the parameters.
#[derive(Debug)]
pub(super) struct Free(Vec<usize>);

/// A right-hand side without its type: the solver is compiled once, with this crate, and not with every system.
pub(super) trait RightHandSide {
    /// $\dot x$ in plain numbers.
    fn value(&self, time: f64, state: &[f64], parameters: &[f64], derivative: &mut [f64]);
    /// $\dot x$ with its derivative in a direction.
    fn slope(&self, time: f64, state: &[Dual], parameters: &[Dual], derivative: &mut [Dual]);
}

impl<S: OdeSystem> RightHandSide for S {
    fn value(&self, time: f64, state: &[f64], parameters: &[f64], derivative: &mut [f64]) {
        self.derivative(time, state, parameters, derivative);
    }

    fn slope(&self, time: f64, state: &[Dual], parameters: &[Dual], derivative: &mut [Dual]) {
        self.derivative(time, state, parameters, derivative);
    }
}

/// What is solved.
pub(super) struct Problem {
    pub(super) system: Box<dyn RightHandSide + Send>,
    /// Initial states, then parameters.
    pub(super) numbers: Vec<f64>,
    pub(super) states: usize,
    pub(super) free: Free,
    pub(super) start: f64,
    pub(super) times: Vec<f64>,
    pub(super) options: OdeOptions,
}

/// The solution at the times.
pub(super) struct Path {
    /// `[times, states]`.
    pub(super) values: Vec<f64>,
    /// `[times, free, states]`.
    pub(super) slopes: Vec<f64>,
}

/// Why there is no solution, and how far it went.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) time: f64,
    pub(super) reason: String,
}

impl Free {
    pub(super) fn new(indices: Vec<usize>) -> Self {
        Self(indices)
    }

    pub(super) fn indices(&self) -> &[usize] {
        &self.0
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Memory for one product with a Jacobian, used again and again.
#[derive(Default)]
struct Scratch {
    state: Vec<Dual>,
    parameters: Vec<Dual>,
    derivative: Vec<Dual>,
}

impl Problem {
    /// Solves it.
    pub(super) fn solve(&self) -> Result<Path, Failure> {
        let scratch = RefCell::new(Scratch::default());
        // Where the right-hand side was first not finite.
        let broken = Cell::new(None);
        let initial = &self.numbers[..self.states];
        let OdeOptions { method, relative, absolute } = self.options;
        let problem = OdeBuilder::<NalgebraMat<f64>>::new()
            .t0(self.start)
            .rtol(relative)
            .atol([absolute])
            .sens_rtol(relative)
            .sens_atol([absolute])
            .p(self.free.0.iter().map(|index| self.numbers[*index]))
            .rhs_sens_implicit(
                |state: &[f64], _: &[f64], time: f64, out: &mut [f64]| {
                    out.fill(0.0);
                    self.system.value(time, state, &self.numbers[self.states..], out);
                    if broken.get().is_none() && !out.iter().all(|number| number.is_finite()) {
                        broken.set(Some(time));
                    }
                },
                |state: &[f64], _: &[f64], time: f64, direction: &[f64], out: &mut [f64]| {
                    self.product(&mut scratch.borrow_mut(), [state, direction, &[]], time, out);
                },
                |state: &[f64], _: &[f64], time: f64, direction: &[f64], out: &mut [f64]| {
                    self.product(&mut scratch.borrow_mut(), [state, &[], direction], time, out);
                },
            )
            .init_sens(
                |_: &[f64], _: f64, out: &mut [f64]| out.copy_from_slice(initial),
                |_: &[f64], _: f64, direction: &[f64], out: &mut [f64]| {
                    out.fill(0.0);
                    let own = self.free.0.iter().zip(direction).filter(|(index, _)| **index < self.states);
                    own.for_each(|(index, slope)| out[*index] = *slope);
                },
                self.states,
            )
            .build()
            .map_err(|error| failure(error, self.start))?;
        let at_start = |error| failure(error, self.start);
        match (method, self.free.0.is_empty()) {
            (OdeMethod::NonStiff, true) => self.follow(problem.tsit45().map_err(at_start)?, &broken),
            (OdeMethod::NonStiff, false) => self.follow(problem.tsit45_sens().map_err(at_start)?, &broken),
            (OdeMethod::Stiff, true) => self.follow(problem.bdf::<NalgebraLU<f64>>().map_err(at_start)?, &broken),
            (OdeMethod::Stiff, false) => self.follow(problem.bdf_sens::<NalgebraLU<f64>>().map_err(at_start)?, &broken),
        }
    }

    /// The derivative of the right-hand side in a direction of the state, or in one of the free numbers.
    fn product(&self, scratch: &mut Scratch, [value, by_state, by_free]: [&[f64]; 3], time: f64, out: &mut [f64]) {
        let Scratch { state, parameters, derivative } = scratch;
        let dual = |(index, value): (usize, &f64)| Dual {
            value: *value,
            slope: by_state.get(index).copied().unwrap_or_default(),
        };
        state.clear();
        state.extend(value.iter().enumerate().map(dual));
        parameters.clear();
        parameters.extend(self.numbers[self.states..].iter().map(|value| Dual::from(*value)));
        for (index, slope) in self.free.0.iter().zip(by_free).filter(|(index, _)| **index >= self.states) {
            parameters[index - self.states].slope = *slope;
        }
        derivative.clear();
        derivative.resize(self.states, Dual::from(0.0));
        self.system.slope(time, state, parameters, derivative);
        out.iter_mut().zip(derivative).for_each(|(out, number)| *out = number.slope);
    }

    /// Takes steps to the last of the times and notes the states and their derivatives at each.
    fn follow<'s, E, M>(&self, mut solver: M, broken: &Cell<Option<f64>>) -> Result<Path, Failure>
    where
        E: OdeEquations<T = f64, V = NalgebraVec<f64>> + 's,
        M: OdeSolverMethod<'s, E>,
    {
        let mut path = Path { values: Vec::new(), slopes: Vec::new() };
        let mut reached = self.start;
        let Some(last) = self.times.last() else { return Ok(path) };
        solver.set_stop_time(*last).map_err(|error| failure(error, reached))?;
        let mut times = self.times.iter().peekable();
        for _ in 0..STEPS {
            solver.step().map_err(|error| failure(error, reached))?;
            reached = solver.state().t;
            if !solver.state().y.clone_as_vec().iter().all(|number| number.is_finite()) {
                let reason =
                    "the right-hand side is not finite there. Check its domain, the initial state and the priors.";
                return Err(Failure { time: broken.get().unwrap_or(reached), reason: reason.into() });
            }
            // Where a step was refused and a shorter one went well, nothing is broken.
            broken.set(None);
            while let Some(time) = times.next_if(|time| **time <= reached) {
                let values = solver.interpolate(*time).map_err(|error| failure(error, reached))?;
                path.values.extend(values.clone_as_vec());
                if self.free.len() > 0 {
                    let slopes = solver.interpolate_sens(*time).map_err(|error| failure(error, reached))?;
                    path.slopes.extend(slopes.clone_as_vec());
                }
            }
            if times.peek().is_none() {
                return Ok(path);
            }
        }
        let reason = format!("{STEPS} steps were not enough. Use `OdeMethod::Stiff`, or wider tolerances.");
        Err(Failure { time: reached, reason })
    }
}

/// The solver's error with the time it names, or else the time reached.
fn failure(error: DiffsolError, reached: f64) -> Failure {
    let time = match error {
        DiffsolError::OdeSolverError(
            OdeSolverError::StepSizeTooSmall { time }
            | OdeSolverError::TooManyErrorTestFailures { time, .. }
            | OdeSolverError::TooManyNonlinearSolverFailures { time, .. },
        ) => time,
        _ => reached,
    };
    let reason = match error {
        DiffsolError::OdeSolverError(OdeSolverError::StepSizeTooSmall { .. }) => {
            "the step size is too small. The solution may have a pole there; otherwise use the other `OdeMethod`, or \
             wider tolerances."
                .into()
        }
        other => format!("{other}. Use the other `OdeMethod`, or wider tolerances."),
    };
    Failure { time, reason }
}
