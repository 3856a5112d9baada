//! Puts noised sums over clipped rows in the place of a silo's terms: all that its local steps then know of the rows.

use crate::engine::error::{Error, Result};
use crate::engine::estimator::ElboTerm;
use crate::engine::mechanism::{Mechanism, RowSum};
use crate::engine::rows::StepRows;
use crate::engine::terms::particles::Draws;
use crate::engine::terms::silo::Silo;

/// The mechanism between a silo's rows and its local steps, with what is asked of it.
#[derive(Debug)]
pub(crate) struct NoisedRows {
    pub(crate) mechanism: Box<dyn Mechanism>,
    /// The rows of the silo.
    pub(crate) count: usize,
    /// The norm to which a row's gradient at one draw of the globals is clipped.
    pub(crate) clip: f64,
    /// The scale of the noise on each number, in units of the clip.
    pub(crate) noise: f64,
    /// The probability with which each row is in a sum.
    pub(crate) rate: f64,
    /// The sums of the whole run, and those given so far.
    pub(crate) sums: u64,
    pub(crate) given: u64,
    /// The request that the steps of now belong to.
    pub(crate) request: Vec<u8>,
}

/// What steps are taken by: a term a draw of the globals, and the gradient by the latents of rows at each.
pub(crate) type TermsAndLocal = (Vec<ElboTerm>, Vec<Vec<Vec<f64>>>);

impl Silo {
    /// The terms of a local step, whose gradients by the globals are one noised sum over clipped rows, those of all draws
    /// together; bounds are not told. Latents of rows have their own gradients, which stay with them.
    ///
    /// # Errors
    /// [`Error::Declined`] beyond the sums of the run, or what the mechanism refuses.
    pub(crate) fn noised_terms(
        &mut self,
        noised: &mut NoisedRows,
        globals: &[f64],
        rows: &mut StepRows,
        draw: Draws,
    ) -> Result<TermsAndLocal> {
        let NoisedRows { mechanism, count, clip, noise, rate, sums, given, request } = noised;
        let remaining = sums.saturating_sub(*given);
        if remaining == 0 {
            return Err(Error::Declined {
                problem: format!("the run's {sums} sums are given: the budget is of so many"),
            });
        }
        let at = |particle| self.family.draw(globals, &draw.global_noise(&*self.family, &self.settings, particle));
        let at: Vec<_> = (0..).take(draw.count).map(at).collect();
        let local = match self.table.blocks().iter().any(|block| block.width > 0) {
            true => self.elbo_terms(globals, rows, draw)?.into_iter().map(|own| own.by_local).collect(),
            false => vec![self.locals.zeros(rows); draw.count],
        };
        let len = self.family.len();
        let mut contributions = |chosen: &[usize]| {
            let whole = Draws { weight: 1.0, entropy_weight: 1.0, ..draw };
            self.row_vectors(globals, chosen, whole, &at)
        };
        #[expect(clippy::cast_precision_loss, reason = "draws are few")]
        let clip = *clip * (draw.count as f64).sqrt();
        let sum = RowSum {
            length: len * draw.count,
            clip,
            noise: *noise,
            count: *count,
            rate: *rate,
            remaining,
            rows: &mut contributions,
        };
        let step = [request.as_slice(), &draw.step.to_le_bytes()].concat();
        let released = mechanism.release(&step, sum)?;
        *given += 1;
        let term = |own: &[f64]| {
            let gradient: Vec<f64> = own.iter().map(|value| value * draw.weight / *rate).collect();
            ElboTerm { grad_mean: gradient.clone(), grad_offset: gradient, ..ElboTerm::default() }
        };
        Ok((released.chunks(len.max(1)).map(term).collect(), local))
    }
}
