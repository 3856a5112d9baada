//! Names the readings of a model: the treatment of latents, observations and factors, and the origin of latents.

use std::sync::{Arc, Mutex};

use burn::tensor::Tensor;

use crate::declare::linear::Passes;
use crate::distribution::Loss;
use crate::noise::{DrawNoise, Key, Noise};
use crate::number::{Number, Numbers};

/// A reading of a model.
///
/// | reading | at a latent | at an observation | at a factor |
/// |---|---|---|---|
/// | `SiteTable` | registers it, at its start | registers it, checks the data | registers it |
/// | `Values` | gives its value | | |
/// | `NaturalValues` | gives and keeps its value | | |
/// | `Observed` | gives its value | keeps the data |
/// | `Simulate` | gives and keeps its value | draws new data | |
/// | `Expected` | gives its value | keeps the mean of its distribution | |
/// | `Pointwise` | gives its value | keeps log densities, unscaled | |
/// | `Density` | gives its value, adds its log density, keeps the leaf | adds its log density or loss | adds it |
/// | `OnDevice` | the same, with tensors alone | the same, with tensors alone | adds it |
#[derive(Debug)]
pub(crate) enum Reading<'a> {
    /// The site table, which is being written.
    SiteTable,
    /// The values of latents, for the functions of the model that need them.
    Values,
    /// The values of latents and deterministic sites on their natural scale.
    NaturalValues,
    /// The data of observed sites.
    Observed,
    /// Values on their natural scale, and new data.
    Simulate(DrawNoise),
    /// The mean of the distribution of each observation.
    Expected,
    /// The log density of each observation, event by event.
    Pointwise,
    /// The log density and its gradients, by the host or by the tape.
    Density(Density<'a>),
    /// The log density with tensor operations alone.
    OnDevice(OnDevice<'a>),
}

/// The settings of a reading of the log density.
#[derive(Debug)]
pub(crate) struct Density<'a> {
    pub(crate) terms: Terms,
    /// How latents of the globals enter the tape; those of rows too, unless levels are read.
    pub(crate) latents: Tape,
    /// The loss of observations; log densities of latents and factors are unchanged.
    pub(crate) loss: Loss,
    /// The moments of linear layers that replace draws of the globals.
    pub(crate) layers: Option<Layers<'a>>,
}

impl Density<'_> {
    /// Log densities of these parts, with latents on the tape.
    pub(crate) fn of(terms: Terms) -> Self {
        Self { terms, latents: Tape::Leaves, loss: Loss::default(), layers: None }
    }
}

/// Which log densities are read, and how they are summed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Terms {
    /// Those of all parts evaluated, summed.
    Joint,
    /// Those of the local part, summed: the globals are given.
    Local,
    /// Those of the local part, row by row inside plates.
    LocalByRow,
    /// Those of the local part, by the rows of each block with latents, which are constants.
    LocalByLevel,
}

/// How latents enter the tape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tape {
    /// Leaves of Burn's tape, for gradients by them.
    Leaves,
    /// Leaves of Partita's own tape, which is open on this thread.
    Own,
    /// Constants: every density is evaluated on the host.
    Constants,
    /// Constants that no gradient is wanted of.
    Fixed,
}

/// Linear layers evaluated with moments.
#[derive(Debug)]
pub(crate) struct Layers<'a> {
    pub(crate) moments: AnyMoments<'a>,
    /// The passes through each layer.
    pub(crate) passes: Vec<Arc<Mutex<Passes>>>,
}

/// Means and variances of the globals, with which linear layers are evaluated in place of a draw.
#[derive(Debug, Clone, Copy)]
pub struct Moments<'a, T = f64> {
    /// The means; those of linear layers are read.
    pub means: &'a [T],
    /// The variances; those of linear layers are read.
    pub variances: &'a [T],
    /// The seed of the noise of pre-activations.
    pub noise: Noise,
    /// The key of that noise: purpose, step, silo and particle. Its block is chosen by layer and pass.
    pub key: Key,
}

/// The same in either precision.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AnyMoments<'a> {
    pub(crate) means: Numbers<'a>,
    pub(crate) variances: Numbers<'a>,
    pub(crate) noise: Noise,
    pub(crate) key: Key,
}

impl<'a, T: Number> From<Moments<'a, T>> for AnyMoments<'a> {
    fn from(Moments { means, variances, noise, key }: Moments<'a, T>) -> Self {
        Self { means: T::numbers(means), variances: T::numbers(variances), noise, key }
    }
}

/// The unconstrained latents of a reading that stays on the device, one tensor a latent site in the order of
/// declaration.
#[derive(Debug)]
pub(crate) struct OnDevice<'a> {
    pub(crate) leaves: &'a [Tensor<2>],
    /// The number of tensors used.
    pub(crate) next: usize,
    /// The number of draws that the tensors of linear layers hold.
    pub(crate) draws: usize,
    /// Those of all parts, or of the local part by level.
    pub(crate) terms: Terms,
}

/// The treatment of a log density at a position of the model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Score {
    /// It is not evaluated.
    Skip,
    /// It is added with this weight.
    Sum(f64),
    /// It is kept row by row; the weights of rows are applied later.
    ByRow,
}

/// The origin of the values of latents, by part.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) globals: Origin<Numbers<'a>>,
    pub(crate) locals: Origin<&'a [Vec<f64>]>,
}

/// The origin of the values of the latents of one part.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Origin<V> {
    /// A latent starts at f(0).
    Start,
    /// A latent is drawn from its prior.
    Prior(DrawNoise),
    /// Unconstrained values.
    Given(V),
}

impl<V> Origin<V> {
    /// The same origin, with given values replaced by `read` of them.
    pub(super) fn map<W>(self, read: impl FnOnce(V) -> W) -> Origin<W> {
        match self {
            Self::Start => Origin::Start,
            Self::Prior(draw) => Origin::Prior(draw),
            Self::Given(values) => Origin::Given(read(values)),
        }
    }
}

impl<'a> Source<'a> {
    /// Every latent at its start.
    pub(crate) const START: Self = Self { globals: Origin::Start, locals: Origin::Start };

    /// These globals; locals, if evaluated, at their start.
    pub(crate) fn globals<T: Number>(globals: &'a [T]) -> Self {
        Self { globals: Origin::Given(T::numbers(globals)), locals: Origin::Start }
    }
}
