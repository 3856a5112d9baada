//! Asks parties that know the labels for their factors of the power likelihood, and adds up what these say.

use partita_core::Purpose;

use crate::engine::error::Result;
use crate::engine::exchange::Request;
use crate::methods::columns::coordinator::{Sampled, VerticalCoordinator, sum};
use crate::methods::columns::messages::{AtMost, FactorRequest, FactorTerms};
use crate::methods::columns::unknowns::Draws;

impl VerticalCoordinator {
    /// The requests of the second exchange, at the sums of all auxiliary variables.
    pub(super) fn factor_requests(&self, sums: &[f64], draws: Draws) -> Vec<Request> {
        let request = FactorRequest {
            step: draws.step,
            seed: self.settings.seed,
            rows_in_all: self.labels.rows() as u64,
            parties: self.parties.len() as u64,
            sum: AtMost(sums.to_vec().into()),
            head: AtMost(self.heads(draws).flat_map(|head| head.draw.latent).collect::<Vec<_>>().into()),
            draws: (draws.purpose == Purpose::Report).then_some(draws.count as u64),
        };
        Request::to_all(self.parties.len(), &request.write())
    }

    /// The bounds and gradients that the factors of all parties make, draw by draw. Each party is to hear the sum of
    /// $`h_k`$ over the others.
    pub(super) fn power_likelihood(&self, factors: &[FactorTerms], draws: Draws) -> Result<Sampled> {
        let unknowns = self.table.global_len();
        let mut bounds = sum(factors.iter().map(|own| &own.elbo));
        let by_head = sum(factors.iter().map(|own| &own.head_gradient));
        let mut gradients = Vec::with_capacity(draws.count);
        for (index, (bound, head)) in bounds.iter_mut().zip(self.heads(draws)).enumerate() {
            let (own, gradient) = self.head_term(&head, &by_head[index * unknowns..(index + 1) * unknowns])?;
            *bound += own;
            gradients.push(gradient);
        }
        let by_predictor = || factors.iter().map(|own| &own.predictor_gradient.values);
        let all = sum(by_predictor());
        let others = |own: &Vec<f64>| all.iter().zip(own).map(|(all, own)| all - own).collect();
        Ok(Sampled { bounds, gradients, by_values: by_predictor().map(others).collect() })
    }
}
