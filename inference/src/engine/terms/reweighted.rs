//! Draws from the posterior that the importance-weighted bound brings close to the model's own.

use partita_core::{Key, Noise, Purpose};

use super::particles::Draws;
use crate::engine::algorithm::Posterior;
use crate::engine::estimator::DrawWeights;
use crate::engine::settings::Settings;

/// The block of the noise that chooses, apart from those of draws of the posterior.
const CHOICE: u32 = 2;

/// One draw of the globals for each of the bounds that a report asked for from `offset` on, of which `weights` are: of the
/// $`K`$ draws behind a bound each with the probability of its weight.
///
/// Their density has at most the Kullback-Leibler divergence from the posterior by which the bound of $`K`$ draws falls
/// short of the log evidence.
///
/// # References
/// Cremer, Morris and Duvenaud (2017), Reinterpreting importance-weighted autoencoders, arXiv:1704.02916; Domke and
/// Sheldon (2018), Importance weighting and variational inference, NeurIPS.
pub(crate) fn reweighted(
    posterior: Posterior<'_>,
    settings: &Settings,
    offset: u64,
    weights: &[DrawWeights],
) -> Vec<Vec<f64>> {
    if !settings.estimator.weighs_draws() {
        return Vec::new();
    }
    let Posterior { family, parameters, .. } = posterior;
    let mut stream = Noise::new(settings.seed).stream(Key::new(Purpose::Report, offset).block(CHOICE));
    let mut first = 0_u32;
    let one = |own: &DrawWeights| {
        let particle = first + own.chosen(stream.uniform());
        first += u32::try_from(own.theta.len()).unwrap_or(u32::MAX);
        let noise = Draws::shared(Purpose::Report, offset, 1).global_noise(family, settings, particle);
        family.draw(parameters, &noise).latent
    };
    weights.iter().map(one).collect()
}
