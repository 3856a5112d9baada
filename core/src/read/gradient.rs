//! Runs the tape of a reading backward and puts every gradient where its unconstrained numbers stand.

use burn::tensor::{Gradients, Tensor, TensorData};

use crate::declare::scope::{Leaf, Outcome, Quantity, Score};
use crate::declare::site::{Part, Site, SiteTable};
use crate::device::{add_at, add_data_at, add_singles, data_to_array};
use crate::error::{Error, Result};
use crate::math::kernel::add_scaled;
use crate::math::operation::own_tape::OwnGradients;
use crate::number::Number;

/// A log density (nats) and its gradient by the unconstrained latents and by θ.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ValueAndGradient<T = f64> {
    /// The log density, including log-Jacobians of the maps to the supports.
    pub value: f64,
    /// Gradient by the global vector; empty where linear layers hold all of it and moments are given in its place.
    pub globals: Vec<T>,
    /// Gradient by each local block.
    pub locals: Vec<Vec<f64>>,
    /// Gradient by the model's own trainable parameters, in the order Burn visits them.
    pub theta: Vec<f64>,
    /// Gradient by the means of linear layers, zero for other globals, which have theirs in `globals`; empty unless
    /// [`crate::LogDensity::moments`] were given, and without layers.
    pub means: Vec<T>,
    /// Gradient by the variances of linear layers, zero for other globals; empty where `means` is.
    pub variances: Vec<T>,
}

/// The value and the gradients by the globals of a reading of globals alone, with `theta` those by point parameters.
pub(crate) fn gradients_of(
    outcome: Outcome,
    table: &SiteTable,
    theta: impl FnOnce(Option<&Gradients>) -> Result<Vec<f64>>,
) -> Result<ValueAndGradient> {
    collect(outcome, table, ValueAndGradient::default(), &[], theta)
}

/// Runs Burn's tape of a reading backward and puts every gradient in its place of `evaluated`.
pub(super) fn collect<T: Number>(
    mut outcome: Outcome,
    table: &SiteTable,
    evaluated: ValueAndGradient<T>,
    row_weights: &[f64],
    theta: impl FnOnce(Option<&Gradients>) -> Result<Vec<f64>>,
) -> Result<ValueAndGradient<T>> {
    let mut gradients = outcome.tape.take().map(|tape| tape.backward());
    let of_leaf = |leaf: &Leaf| gradients.as_mut().map_or(Ok(None), |gradients| tape_gradient(leaf, gradients));
    let mut evaluated = placed(outcome, table, evaluated, row_weights, of_leaf)?;
    evaluated.theta = theta(gradients.as_ref())?;
    Ok(evaluated)
}

/// Puts every gradient of Partita's own tape in its place of `evaluated`; `None` where no density is on the tape.
pub(super) fn collect_own<T: Number>(
    outcome: Outcome,
    table: &SiteTable,
    evaluated: ValueAndGradient<T>,
    mut gradients: Option<OwnGradients>,
) -> Result<ValueAndGradient<T>> {
    placed(outcome, table, evaluated, &[], |leaf| {
        let numbers = gradients.as_mut().and_then(|gradients| gradients.take(&leaf.handle));
        Ok(numbers.map(|numbers| {
            let shape = [numbers.len()];
            TensorData::new(numbers, shape)
        }))
    })
}

/// Puts what `of_leaf` has for every leaf, and the gradients found off the tape, in their places of `evaluated`.
fn placed<T: Number>(
    outcome: Outcome,
    table: &SiteTable,
    mut evaluated: ValueAndGradient<T>,
    row_weights: &[f64],
    mut of_leaf: impl FnMut(&Leaf) -> Result<Option<TensorData>>,
) -> Result<ValueAndGradient<T>> {
    evaluated.value = outcome.total;
    add_singles(outcome.by_single, 0, &mut evaluated.globals);
    let by_moments = outcome.leaves.iter().any(|leaf| leaf.quantity == Quantity::Variance);
    for leaf in outcome.leaves {
        match of_leaf(&leaf)? {
            // Most numbers of most models: written once, where they belong.
            Some(tape) if leaf.constrained.is_empty() && table.sites[leaf.site].part == Part::Global => {
                let start = table.sites[leaf.site].offset;
                add_data_at(tape, &leaf.host_gradient, start, by_globals(table, leaf.quantity, &mut evaluated));
            }
            tape => vjp(table, leaf, tape, row_weights, &mut evaluated)?,
        }
    }
    let length = table.global_len;
    if by_moments {
        evaluated.means.resize(length, T::default());
        evaluated.variances.resize(length, T::default());
    }
    if !by_moments || table.latents(Part::Global).any(|site| !site.layer) {
        evaluated.globals.resize(length, T::default());
    }
    Ok(evaluated)
}

/// Takes a leaf's gradient back to unconstrained numbers and adds it at the site's place.
fn vjp<T: Number>(
    table: &SiteTable,
    mut leaf: Leaf,
    tape: Option<TensorData>,
    row_weights: &[f64],
    out: &mut ValueAndGradient<T>,
) -> Result<()> {
    let site = &table.sites[leaf.site];
    let mut gradient = match tape {
        Some(tape) => {
            let mut tape = data_to_array(tape).values;
            if !leaf.host_gradient.is_empty() {
                add_scaled(&mut tape, 1.0, &leaf.host_gradient);
            }
            tape
        }
        None => std::mem::take(&mut leaf.host_gradient),
    };
    if !leaf.constrained.is_empty() {
        gradient.resize(leaf.constrained.len(), 0.0);
        gradient = unconstrained(site, &leaf, &gradient, row_weights)?;
    }
    if site.part == Part::Global {
        if !gradient.is_empty() {
            add_at(&gradient, &[], site.offset, by_globals(table, leaf.quantity, out));
        }
        return Ok(());
    }
    let width = table.blocks[site.block].width;
    let block = &mut out.locals[site.block];
    if site.width == 0 {
        return Ok(());
    }
    if width == site.width && gradient.len() == block.len() {
        *block = gradient;
        return Ok(());
    }
    for (row, terms) in block.chunks_exact_mut(width).zip(gradient.chunks_exact(site.width)) {
        row[site.offset..site.offset + site.width].copy_from_slice(terms);
    }
    Ok(())
}

/// The gradient by the unconstrained numbers of a site, log-determinants included, given that by its values.
fn unconstrained(site: &Site, leaf: &Leaf, gradient: &[f64], row_weights: &[f64]) -> Result<Vec<f64>> {
    let Some(bijector) = &site.bijector else { unreachable!("invariant: a latent site has a bijector") };
    let mut pulled = vec![0.0; leaf.unconstrained.len()];
    let one = bijector.unconstrained_len(site.event)?.max(1);
    let event = site.event.max(1);
    let inputs = leaf.unconstrained.chunks_exact(one).zip(leaf.constrained.chunks_exact(event));
    let events = gradient.len() / event;
    let parts = inputs.zip(gradient.chunks_exact(event)).zip(pulled.chunks_exact_mut(one));
    for (index, (((u, x), g), result)) in parts.enumerate() {
        let weight = match leaf.score {
            Score::Skip => 0.0,
            Score::Sum(weight) => weight,
            Score::ByRow => row_weights[leaf.place.level_row(index * leaf.place.rows / events)],
        };
        bijector.vjp(u, x, g, weight, result);
    }
    Ok(pulled)
}

/// The vector over all globals that the gradient by this quantity of a site belongs to.
fn by_globals<'o, T>(table: &SiteTable, quantity: Quantity, out: &'o mut ValueAndGradient<T>) -> &'o mut Vec<T> {
    let vector = match quantity {
        Quantity::Value => &mut out.globals,
        Quantity::Mean => &mut out.means,
        Quantity::Variance => &mut out.variances,
    };
    vector.reserve_exact(table.global_len - vector.len());
    vector
}

/// The tape's gradient of a leaf, which it gives up, or `None` if nothing on the tape depends on the leaf.
fn tape_gradient(leaf: &Leaf, gradients: &mut Gradients) -> Result<Option<TensorData>> {
    let leaf: Tensor<1> = leaf.handle.clone().typed();
    // What nothing else holds is read without a copy.
    let Some(gradient) = leaf.grad_remove(gradients) else { return Ok(None) };
    let data = gradient
        .try_into_data()
        .map_err(|error| Error::Device { operation: "reading a gradient".into(), reason: format!("{error:?}") })?;
    Ok(Some(data))
}
