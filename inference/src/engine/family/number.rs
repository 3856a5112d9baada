//! Says in which precision a draw of the globals is made: double for any family, single for many independent components.

use std::borrow::Cow;

use partita_core::kernel::{
    DiagonalDraw, DiagonalSlopes, add_scaled, add_scaled_single, diagonal_draw, diagonal_draw_single, diagonal_slopes,
    diagonal_slopes_single,
};
use partita_core::{Key, Noise, Number};

use super::{DiagonalGaussian, DrawGradient, Family, FamilyDraw};
use crate::engine::error::Result;

/// Whether the score of a draw is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Score {
    Wanted,
    Unread,
}

/// A number that draws of the globals are made of; `f32` only of a [`DiagonalGaussian`].
pub(crate) trait DrawNumber: Number {
    /// Fills `out` with the standard normal noise of a key.
    fn fill_noise(noise: Noise, key: Key, out: &mut [Self]);

    /// Draws from a family into the memory of an earlier draw.
    fn draw(family: &dyn Family, parameters: &[f64], noise: &[Self], score: Score, draw: &mut FamilyDraw<Self>);

    /// Adds what [`Family::add_gradient`] says.
    fn add_gradient(
        family: &dyn Family,
        parameters: &[f64],
        noise: &[Self],
        gradient: DrawGradient<'_, Self>,
        out: &mut [f64],
    ) -> Result<()>;

    /// The mean and the variance of each component.
    fn moments<'p>(family: &dyn Family, parameters: &'p [f64]) -> MeansAndVariances<'p, Self>;

    /// Adds `factor` times `terms` to `sum`.
    fn add_scaled(sum: &mut [Self], factor: f64, terms: &[Self]);

    /// One part of a draw from independent components.
    fn diagonal_draw(draw: DiagonalDraw<'_, Self>) -> f64;

    /// One part of its gradient.
    fn diagonal_slopes(slopes: DiagonalSlopes<'_, Self>);
}

/// The mean and the variance of each component.
#[derive(Debug)]
pub(crate) struct MeansAndVariances<'p, T: Number> {
    pub(crate) means: Cow<'p, [T]>,
    pub(crate) variances: Vec<T>,
}

impl DrawNumber for f64 {
    fn fill_noise(noise: Noise, key: Key, out: &mut [Self]) {
        noise.normal(key, out);
    }

    fn draw(family: &dyn Family, parameters: &[f64], noise: &[Self], score: Score, draw: &mut FamilyDraw) {
        match score {
            Score::Wanted => family.draw_into(parameters, noise, draw),
            Score::Unread => family.draw_without_score(parameters, noise, draw),
        }
    }

    fn add_gradient(
        family: &dyn Family,
        parameters: &[f64],
        noise: &[Self],
        gradient: DrawGradient<'_>,
        out: &mut [f64],
    ) -> Result<()> {
        family.add_gradient(parameters, noise, gradient, out)
    }

    fn moments<'p>(family: &dyn Family, parameters: &'p [f64]) -> MeansAndVariances<'p, Self> {
        MeansAndVariances { means: family.location(parameters), variances: family.variances(parameters) }
    }

    fn add_scaled(sum: &mut [Self], factor: f64, terms: &[Self]) {
        add_scaled(sum, factor, terms);
    }

    fn diagonal_draw(mut draw: DiagonalDraw<'_>) -> f64 {
        diagonal_draw(&mut draw)
    }

    fn diagonal_slopes(mut slopes: DiagonalSlopes<'_>) {
        diagonal_slopes(&mut slopes);
    }
}

impl DrawNumber for f32 {
    fn fill_noise(noise: Noise, key: Key, out: &mut [Self]) {
        noise.normal_single(key, out);
    }

    fn draw(family: &dyn Family, parameters: &[f64], noise: &[Self], score: Score, draw: &mut FamilyDraw<Self>) {
        diagonal(family).draw_in(parameters, noise, score, draw);
    }

    fn add_gradient(
        family: &dyn Family,
        parameters: &[f64],
        noise: &[Self],
        gradient: DrawGradient<'_, Self>,
        out: &mut [f64],
    ) -> Result<()> {
        diagonal(family).pull_back(parameters, noise, gradient, out);
        Ok(())
    }

    fn moments<'p>(family: &dyn Family, parameters: &'p [f64]) -> MeansAndVariances<'p, Self> {
        diagonal(family).single_moments(parameters)
    }

    fn add_scaled(sum: &mut [Self], factor: f64, terms: &[Self]) {
        add_scaled_single(sum, Self::nearest(factor), terms);
    }

    fn diagonal_draw(mut draw: DiagonalDraw<'_, Self>) -> f64 {
        diagonal_draw_single(&mut draw)
    }

    fn diagonal_slopes(mut slopes: DiagonalSlopes<'_, Self>) {
        diagonal_slopes_single(&mut slopes);
    }
}

/// The family whose draws may be in single precision.
fn diagonal(family: &dyn Family) -> DiagonalGaussian {
    let Some(own) = family.diagonal() else {
        unreachable!("invariant: draws of {family:?} are made in double precision")
    };
    own
}
