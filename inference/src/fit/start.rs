//! Opens the loop of a fit to its user: one step at a time, with the posterior in between.

use partita_core::{AnyData, AnyModel, Device, Model};

use super::several::{Begun, begin};
use super::{FitOptions, bound_of, pool};
use crate::engine::algorithm::{Algorithm, Posterior, StepInfo};
use crate::engine::error::Result;
use crate::engine::exchange::InProcess;
use crate::engine::run::{Counters, step};
use crate::engine::trust::estimate::ElboEstimate;

/// A fit whose steps its user takes.
///
/// # Laws
/// After as many steps the posterior has the bits of [`crate::fit()`] with the same options (`tests/sfvi/run_loop.rs`).
pub struct Run {
    algorithm: Box<dyn Algorithm>,
    exchange: InProcess,
    threads: rayon::ThreadPool,
    options: FitOptions,
    counters: Counters,
    steps: u64,
}

impl std::fmt::Debug for Run {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Run").field("steps", &self.steps).finish_non_exhaustive()
    }
}

/// The parties of [`crate::fit()`] before their first step.
///
/// # Errors
/// As for [`crate::fit()`].
///
/// # Example
/// ```
/// use partita_core::{Device, Model, Normal, Result, Scope, burn};
/// use partita_inference::{FitOptions, start};
/// use burn::{module::Module, tensor::Tensor};
///
#[doc = include_str!("../../doc/mean.md")]
///
/// let device = Device::flex();
/// let silos = [("a".to_owned(), device.tensor(vec![1.0, 2.0], [2])), ("b".to_owned(), device.tensor(vec![3.0], [1]))];
/// let mut run = start(&Mean {}, &silos, &device, &FitOptions::default())?;
/// let mean = |run: &partita_inference::Run| run.posterior().family.mean(run.posterior().parameters)[0];
/// while (mean(&run) - 1.5).abs() > 0.01 {
///     assert!(run.step()?.step < 1_000);
/// }
/// assert!(run.counters().rounds < 1_000);
/// # Ok::<(), partita_inference::Error>(())
/// ```
pub fn start<M: Model>(model: &M, silos: &[(String, M::Data)], device: &Device, options: &FitOptions) -> Result<Run> {
    let Begun { algorithm, exchange, options, spent, .. } =
        begin(&AnyModel::new(model), &AnyData::of_silos(silos), device, options)?;
    let threads = pool(options.threads)?;
    Ok(Run { algorithm, exchange, threads, options, counters: spent, steps: 0 })
}

impl Run {
    /// Takes the next step, in as many exchanges as it needs.
    ///
    /// # Errors
    /// What algorithm and exchange report; the posterior stays as it is then.
    pub fn step(&mut self) -> Result<StepInfo> {
        let Self { algorithm, exchange, threads, options, counters, steps } = self;
        loop {
            let info = threads.install(|| step(&mut **algorithm, exchange, options.deadline, counters))?;
            if info.step > *steps {
                *steps = info.step;
                return Ok(info);
            }
        }
    }

    /// The posterior of the globals.
    #[must_use]
    pub fn posterior(&self) -> Posterior<'_> {
        self.algorithm.posterior()
    }

    /// What has crossed between the parties so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The bound at the present posterior, from [`FitOptions::elbo_draws`] sampled bounds.
    ///
    /// # Errors
    /// As for [`Run::step`].
    pub fn elbo(&mut self) -> Result<ElboEstimate> {
        let Self { algorithm, exchange, threads, options, counters, .. } = self;
        let algorithm = &mut **algorithm;
        Ok(threads.install(move || bound_of(options, algorithm, exchange, counters))?.bound)
    }

    /// The parties, for [`crate::run()`] to go on with, or for what a silo's owner may ask.
    #[must_use]
    pub fn into_parties(self) -> (Box<dyn Algorithm>, InProcess) {
        (self.algorithm, self.exchange)
    }
}
