//! Estimates the log marginal likelihood of a silo's rows by draws of its own posterior, where quadrature does not serve.

use partita_core::{Key, Latents, LogDensity, Model, Purpose};

use super::particles::{Worker, spread};
use super::silo::Silo;
use crate::engine::error::{Result, is_outside};
use crate::engine::family::RowInputs;
use crate::engine::rows::{RepeatedRows, StepRows};
use crate::engine::trust::values::{Refusal, Sizes, Values, ValuesRequest};
use crate::engine::wire::message::Message;

/// Draws of each row, at least and at most, and the rows times draws that are enough for one draw of the globals.
const DRAWS: [usize; 2] = [8, 64];
const ENOUGH: usize = 20_000;

impl<M: Model> Silo<M> {
    /// Answers with the estimates of draws around a posterior,
    ///
    /// ```math
    /// \hat\ell(z) = \sum_r \log \frac1K \sum_k \frac{p(y_r, u_{rk} \mid z)}{q(u_{rk} \mid z)},
    /// ```
    /// with $`u_{rk}`$ from the silo's own posterior given $z$. What is inside the logarithm has the right mean. The noise of
    /// $`u_{rk}`$ is the same for all $z$, so that most of its error is, too, and does not count.
    pub(super) fn estimates(&mut self, request: &Message) -> Result<Message> {
        let request = ValuesRequest::read(request, &Sizes::of(self.table.global_len(), self.theta_len))?;
        self.set_theta(&request.theta)?;
        let proposal = request.proposal(self.table.global_len())?;
        let draws: Vec<Vec<f64>> = (0..request.count()).map(|index| proposal.draw(index)).collect();
        let mut sums = vec![0.0; draws.len()];
        for mut part in self.locals.all_rows() {
            let Worker { model, data } = &self.workers[0];
            self.locals.encode(model, data, &self.table, &mut part)?;
            let Ok(one) = self.locals.repeated(&part, 1) else {
                return Ok(Values::refused(Refusal::Latents).write());
            };
            let [least, most] = DRAWS;
            let repeats = (ENOUGH / one.minibatch[0].rows.len().max(1)).clamp(least, most);
            let rows = self.locals.repeated(&part, repeats)?;
            for (sum, value) in sums.iter_mut().zip(self.of_part(&part, &rows, &draws, &proposal.around.mean)?) {
                *sum += part.share() * value;
            }
        }
        Ok(Values::of(sums).write())
    }

    /// The estimates of some rows at each draw; minus infinity where the model has no density.
    fn of_part(&self, part: &StepRows, rows: &RepeatedRows, draws: &[Vec<f64>], centre: &[f64]) -> Result<Vec<f64>> {
        let noise = self.locals.repeated_noise(part, rows, Key::new(Purpose::Report, u64::MAX));
        let (family, device, table) = (self.locals.family(rows.place), &self.device, &self.table);
        let mut workers = vec![self.workers[0].clone(); self.settings.silo_threads()];
        spread(&mut workers, draws.len(), |Worker { model, data }, index| {
            let globals = &draws[index];
            let deviation: Vec<f64> = globals.iter().zip(centre).map(|(own, centre)| own - centre).collect();
            let inputs = RowInputs { parameters: &rows.parameters, deviation: &deviation, outer: &[], noise: &noise };
            let draw = family.draw(inputs);
            let mut locals = vec![Vec::new(); table.blocks().len()];
            locals[rows.place].clone_from(&draw.latent);
            let density = LogDensity::new(model, device, table).minibatch(&rows.minibatch);
            let log_q = family.row_log_densities(&draw, &noise);
            match density.locally_enhanced(Latents { globals, locals: &locals }, data, &log_q) {
                Ok(found) => Ok(found.evaluated.value),
                Err(error) if is_outside(&error) => Ok(f64::NEG_INFINITY),
                Err(error) => Err(error.into()),
            }
        })
    }
}
