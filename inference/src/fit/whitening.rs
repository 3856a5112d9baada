//! Finds coordinates in which a posterior is nearly round, from a fit by few rounds, for a sampler to walk in.

use partita_core::{AnyData, AnyModel, Device};
use rayon::ThreadPool;

use super::choice::choose;
use super::{AlgorithmChoice, FitOptions, parties_any, pool};
use crate::engine::algorithm::Ending;
use crate::engine::error::Result;
use crate::engine::normal::Normal;
use crate::engine::run::{Silent, run};
use crate::engine::settings::Settings;

/// The posterior of few rounds, standard normal in coordinates $u$: $`Z_G = m + C u`$ of the globals, and $`Z_L = m + s u`$
/// of each number of a row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Whitening {
    /// $N(m, CC^\top)$ of the globals.
    pub(crate) globals: Normal,
    /// $m$ and $s$ of each number of the local latents: silo by silo, block by block.
    pub(crate) locals: Vec<(f64, f64)>,
}

/// The posterior of few rounds; `None` where they do not serve the model, or did not converge.
///
/// # Errors
/// [`crate::Error::Setting`] for threads that the machine cannot start.
pub(crate) fn whitening(
    model: &AnyModel,
    silos: &[(String, AnyData)],
    device: &Device,
    seed: u64,
    threads: usize,
) -> Result<Option<Whitening>> {
    let settings = Settings { seed, ..Settings::default() };
    let options = FitOptions { settings, threads, ..FitOptions::default() };
    let threads = pool(threads)?;
    // What the model refuses is for the sampler to say: here it means that there is no such posterior.
    Ok(fitted(model, silos, device, &options, &threads).ok().flatten())
}

fn fitted(
    model: &AnyModel,
    silos: &[(String, AnyData)],
    device: &Device,
    options: &FitOptions,
    threads: &ThreadPool,
) -> Result<Option<Whitening>> {
    let chosen = choose(model, silos, device, options)?.options;
    if !matches!(chosen.algorithm, AlgorithmChoice::FewRounds(_)) {
        return Ok(None);
    }
    let (mut algorithm, mut exchange) = parties_any(model, silos, device, &chosen)?;
    let steps = chosen.run_options(chosen.settings.steps);
    let record = threads.install(|| run(&mut *algorithm, &mut exchange, &steps, &mut Silent))?;
    let posterior = algorithm.posterior();
    let mean = posterior.family.mean(posterior.parameters);
    let Ok(factor) = posterior.family.covariance_matrix(posterior.parameters).cholesky() else { return Ok(None) };
    let mut locals: Vec<(f64, f64)> = Vec::new();
    for program in exchange.programs() {
        locals.extend(program.local_moments()?.into_iter().flat_map(|(means, sds)| means.into_iter().zip(sds)));
    }
    let is_finite = mean.iter().all(|value| value.is_finite())
        && locals.iter().all(|(mean, sd)| mean.is_finite() && sd.is_finite() && *sd > 0.0);
    let converged = record.ending == Ending::Converged;
    Ok((converged && is_finite).then_some(Whitening { globals: Normal { mean, factor }, locals }))
}
