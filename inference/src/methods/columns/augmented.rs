//! Evaluates the augmented-variable model where the labels are, at the sum of the parties' auxiliary variables.

use partita_core::vertical::LikelihoodAt;

use crate::engine::error::{Error, Result};
use crate::engine::panic::COORDINATOR;
use crate::methods::columns::coordinator::{Sampled, VerticalCoordinator, sum};
use crate::methods::columns::messages::Values;
use crate::methods::columns::unknowns::Draws;

impl VerticalCoordinator {
    /// $`\hat{\mathcal L}_0 + \sum_j \hat{\mathcal L}_j`$ of every draw, with the gradient of $`\hat{\mathcal L}_0`$ by
    /// the sum of the auxiliary variables, which is that by those of each party.
    pub(super) fn augmented(&self, values: Vec<Values>, draws: Draws, rows: Option<&[usize]>) -> Result<Sampled> {
        let mut bounds = sum(values.iter().map(|own| &own.elbo));
        let etas = sum(values.into_iter().map(|own| own.z.values));
        let (mut gradients, mut by_sum) = (Vec::with_capacity(draws.count), Vec::new());
        let each = (etas.len() / draws.count.max(1)).max(1);
        for ((bound, eta), head) in bounds.iter_mut().zip(etas.chunks_exact(each)).zip(self.heads(draws)) {
            let at = LikelihoodAt { latents: &head.draw.latent, eta, rows, weight: 1.0 };
            let located = |error| Error::Model(error).in_silo(COORDINATOR, self.step);
            let likelihood = self.labels.likelihood(&self.device, &self.table, at).map_err(located)?;
            let (own, gradient) = self.head_term(&head, &likelihood.latents)?;
            *bound += likelihood.value + own;
            gradients.push(gradient);
            match draws.count {
                1 => by_sum = likelihood.eta,
                _ => by_sum.extend(likelihood.eta),
            }
        }
        Ok(Sampled { bounds, gradients, by_values: vec![by_sum] })
    }
}
