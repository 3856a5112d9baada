//! Says what local reparameterisation needs: layers with a diagonal posterior, on which nothing local depends.

use std::sync::OnceLock;

use partita_core::{Key, Moments, Noise, Part, SiteTable, ValueAndGradient};

use super::{ElboTerm, Estimator, add};
use crate::engine::error::{Error, Result};
use crate::engine::family::{DrawNumber, Family, FamilyDraw, MeansAndVariances};

/// Means and variances of the global posterior, for the linear layers of one step; found where they are asked for.
pub(crate) struct LayerMoments<'a> {
    family: &'a dyn Family,
    parameters: &'a [f64],
    double: OnceLock<MeansAndVariances<'a, f64>>,
    single: OnceLock<MeansAndVariances<'a, f32>>,
}

/// A number that layers may read moments in.
pub(crate) trait LayerNumber: DrawNumber {
    /// The moments in this precision.
    fn of<'m, 'a>(layers: &'m LayerMoments<'a>) -> &'m MeansAndVariances<'a, Self>;
}

impl LayerNumber for f64 {
    fn of<'m, 'a>(layers: &'m LayerMoments<'a>) -> &'m MeansAndVariances<'a, Self> {
        layers.double.get_or_init(|| Self::moments(layers.family, layers.parameters))
    }
}

impl LayerNumber for f32 {
    fn of<'m, 'a>(layers: &'m LayerMoments<'a>) -> &'m MeansAndVariances<'a, Self> {
        layers.single.get_or_init(|| Self::moments(layers.family, layers.parameters))
    }
}

impl<'a> LayerMoments<'a> {
    pub(crate) fn new(family: &'a dyn Family, parameters: &'a [f64]) -> Self {
        Self { family, parameters, double: OnceLock::new(), single: OnceLock::new() }
    }

    /// What stands for a draw where layers hold all globals: nothing reads more of it than the means.
    pub(crate) fn undrawn(&self) -> FamilyDraw {
        let latent = self.family.mean(self.parameters);
        FamilyDraw { deviation: vec![0.0; latent.len()], latent, log_density: 0.0, score: Vec::new() }
    }

    /// The same with the noise of pre-activations.
    pub(crate) fn with_noise<T: LayerNumber>(&self, noise: Noise, key: Key) -> Moments<'_, T> {
        let MeansAndVariances { means, variances } = T::of(self);
        Moments { means, variances, noise, key }
    }
}

/// Most particles on one tape: their activations are in memory together, and other tapes have other threads.
const TAPE: usize = 5;

/// The particles of each tape where particles join: as many tapes for any number of threads, for the same bits.
pub(crate) fn tapes(particles: usize) -> Vec<Vec<u32>> {
    let tapes = particles.div_ceil(TAPE);
    let particle = |index: usize| u32::try_from(index).unwrap_or(u32::MAX);
    let own = |tape: usize| (tape * particles / tapes..(tape + 1) * particles / tapes).map(particle).collect();
    (0..tapes).map(own).collect()
}

/// Whether particles differ in the noise of layers alone: layers hold all globals, and there is no local latent.
pub(crate) fn particles_join(table: &SiteTable) -> bool {
    table.latents(Part::Global).all(|site| site.is_layer()) && table.latents(Part::Local).next().is_none()
}

impl ElboTerm {
    /// The share of particles under local reparameterisation whose globals are all in layers.
    pub(crate) fn of_layers(ValueAndGradient { value, theta, means, variances, .. }: ValueAndGradient) -> Self {
        Self { elbo: value, grad_offset: vec![0.0; means.len()], grad_mean: means, theta, variance: variances }
    }

    /// The sum with another share of the same model.
    pub(crate) fn plus(mut self, other: Self) -> Self {
        self.elbo += other.elbo;
        add(&mut self.grad_mean, &other.grad_mean);
        add(&mut self.grad_offset, &other.grad_offset);
        add(&mut self.theta, &other.theta);
        add(&mut self.variance, &other.variance);
        self
    }
}

/// Refuses local reparameterisation where it would be undefined, biased or without effect.
pub(crate) fn check_layers(
    estimator: Estimator,
    table: &SiteTable,
    family: &dyn Family,
    locals_depend_on_globals: bool,
) -> Result<()> {
    if estimator != Estimator::LocalReparameterisation {
        return Ok(());
    }
    let mut layers = vec![0.0; family.len()];
    for site in table.latents(Part::Global).filter(|site| site.is_layer()) {
        layers[site.offset()..site.offset() + site.width()].fill(1.0);
    }
    let found = "LocalReparameterisation with a model without a linear layer";
    let expected = "a model that declares one with `scope.linear`";
    Error::unless(layers.contains(&1.0), "estimator", found, expected)?;
    let found = "LocalReparameterisation with a local posterior given the globals";
    let expected =
        "local families without `given_globals`, such as Gaussian::diagonal(): layers have no draw to depend on";
    Error::unless(!locals_depend_on_globals, "estimator", found, expected)?;
    family.vjp_variance(&family.initial(1.0), &layers, &mut vec![0.0; family.parameter_len()])
}
