//! Gives a silo's share of the locally enhanced bound, with doubly reparameterised gradients of its local posterior.

use partita_core::{Latents, LogDensity, Model};

use super::{ElboTerm, add};
use crate::engine::error::Result;
use crate::engine::family::{FamilyDraw, RowGaussian, RowGradient, RowInputs};

/// The rows of one plate, each repeated for its inner draws.
#[derive(Debug)]
pub(crate) struct Repeats<'a> {
    /// The family of the plate's rows.
    pub(crate) family: &'a RowGaussian,
    /// The parameters of the repeated rows.
    pub(crate) parameters: &'a [f64],
    /// The noise of the repeated rows.
    pub(crate) noise: &'a [f64],
    /// The place of that block among the site table's.
    pub(crate) place: usize,
    /// The number of blocks; the others hold no latents.
    pub(crate) blocks: usize,
}

/// A silo's ELBO term whose rows are averages over repeats, and the gradient by the parameters of each repeat,
/// added to `out`.
///
/// With weights $`\tilde w_{rk}`$ of the repeats of a row and $`g_{rk} = \nabla_z \log p - \nabla_z \log q`$ the local
/// parameters, and the globals through the local draws, get $`\sum_k \tilde w_{rk}^2 g_{rk}`$ along the draws (the
/// doubly reparameterised gradient, whose noise does not grow with the number of repeats); the globals directly get
/// $`\sum_k \tilde w_{rk} \nabla_{Z_G} \log p`$, and so does a latent that is a point mass, which has no density.
pub(crate) fn enhanced_elbo_term<M: Model>(
    density: &LogDensity<'_, M>,
    data: &M::Data,
    global: &FamilyDraw,
    repeats: &Repeats<'_>,
    out: &mut [f64],
) -> Result<ElboTerm> {
    let Repeats { family, parameters, noise, place, blocks } = *repeats;
    // Rows that belong to others with latents are refused before.
    let inputs = RowInputs { parameters, deviation: &global.deviation, outer: &[], noise };
    let draw = family.draw(inputs);
    let log_q = family.row_log_densities(&draw, noise);
    let mut locals = vec![Vec::new(); blocks];
    locals[place].clone_from(&draw.latent);
    let enhanced = density.locally_enhanced(Latents { globals: &global.latent, locals: &locals }, data, &log_q)?;
    let mut evaluated = enhanced.evaluated;
    let mut gradient = std::mem::take(&mut evaluated.locals[place]);
    let width = family.width().max(1);
    // A weight holds the scale N/B of its row: the normalised weight alone is the square's second factor.
    let rows = enhanced.weights.iter().zip(gradient.chunks_exact_mut(width)).zip(draw.score.chunks_exact(width));
    for ((weight, gradient), score) in rows {
        let normalised = weight / enhanced.scale;
        let cells = gradient.iter_mut().zip(score).zip(&family.options().delta);
        for ((slot, score), _) in cells.filter(|(_, is_point)| !**is_point) {
            *slot = normalised * (*slot - weight * score);
        }
    }
    let gradient = RowGradient { grad_mean: &gradient, grad_offset: &gradient };
    let reached = family.vjp(inputs, &draw, gradient, out);
    let mut grad_offset = evaluated.globals.clone();
    add(&mut grad_offset, &reached.globals);
    Ok(ElboTerm {
        elbo: evaluated.value,
        grad_mean: evaluated.globals,
        grad_offset,
        theta: evaluated.theta,
        variance: Vec::new(),
    })
}
