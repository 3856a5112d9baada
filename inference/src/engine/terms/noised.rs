//! Puts noised sums over clipped rows in the place of a silo's terms: all that its local steps then know of the rows.

use crate::engine::clipped::{counted, mark, whole};
use crate::engine::error::{Error, Result};
use crate::engine::estimator::ElboTerm;
use crate::engine::mechanism::{Mechanism, RowSum};
use crate::engine::optimiser::Schedule;
use crate::engine::private_steps::PrivateSteps;
use crate::engine::rows::outermost_rows;
use crate::engine::terms::particles::Draws;
use crate::engine::terms::silo::Silo;
use crate::engine::wire::manifest::{Field, Manifest, Release};
use crate::engine::wire::message::Message;

/// The mechanism between a silo's rows and its local steps, with what is asked of it.
#[derive(Debug)]
pub(crate) struct NoisedRows {
    mechanism: Box<dyn Mechanism>,
    /// The rows of the silo.
    count: usize,
    how: PrivateSteps,
    /// The sums given so far.
    pub(crate) given: u64,
    /// The request that the steps of now belong to.
    request: Vec<u8>,
    /// How many rows were clipped in the sums for this request, added over them, with noise.
    clipped: f64,
}

/// What steps are taken by: a term a draw of the globals, and the gradient by the latents of rows at each.
pub(crate) type TermsAndLocal = (Vec<ElboTerm>, Vec<Vec<Vec<f64>>>);

/// The name of the field with the count of clipped rows.
const CLIPPED: &str = "clipped_rows";
/// The names of fields that would have no noise: what draws of a step say of the bound.
const BOUNDS: [&str; 2] = ["elbo", "log_likelihood"];

/// The fields of an answer that follows from noised sums: all but bounds.
pub(crate) fn noised_fields(fields: Vec<Field>) -> Vec<Field> {
    let noised = |field: Field| match field.release {
        Release::Forbidden if !BOUNDS.contains(&field.name) => Field { release: Release::Noised, ..field },
        _ => field,
    };
    fields.into_iter().map(noised).collect()
}

/// What silos may be asked: all that is open and these fields, or, where they are private, what follows from noised sums.
pub(crate) fn open_or_noised(open: &Manifest, own: Vec<Field>, private: Option<PrivateSteps>) -> Manifest {
    if private.is_some() {
        return Manifest { fields: noised_fields(own) };
    }
    let is_new = |field: &Field| field.name != CLIPPED && open.fields.iter().all(|known| known.name != field.name);
    let new: Vec<Field> = own.into_iter().filter(is_new).collect();
    Manifest { fields: [open.fields.as_slice(), &new].concat() }
}

impl Silo {
    /// Lets the local steps know the rows by the noised sums of `mechanism` alone.
    ///
    /// # Errors
    /// [`Error::Setting`] for models and settings by which one row would decide on what another contributes, for an adaptive
    /// rate, which follows from bounds, and without a promise.
    pub(crate) fn hide_rows(&mut self, how: Option<PrivateSteps>, mechanism: Box<dyn Mechanism>) -> Result<()> {
        let Some(how) = how else {
            let (found, expected) = ("options without `private`".into(), "the promise and the noise that keeps it");
            return Err(Error::Setting { setting: "privacy", found, expected });
        };
        how.check()?;
        let (found, expected) = ("a promise for a whole silo", "SFVI-Avg or FedOpt, whose rounds keep it");
        Error::unless(!how.whole_silo, "privacy", found, expected)?;
        let is_adaptive = matches!(self.settings.schedule, Schedule::Adaptive { .. });
        let found = "Schedule::Adaptive in private local steps";
        Error::unless(!is_adaptive, "schedule", found, "a function of the step")?;
        let count = self.rows_apart()?;
        self.work_by_rows();
        self.noised = Some(NoisedRows { mechanism, count, how, given: 0, request: Vec::new(), clipped: 0.0 });
        Ok(())
    }

    /// How many rows it has, which everybody may know of a private silo.
    pub(crate) fn row_count(&self) -> usize {
        outermost_rows(&self.table)
    }

    /// Begins the local steps for a request, of these many sums, if rows are hidden.
    ///
    /// # Errors
    /// [`Error::Declined`] beyond the sums of the run: nothing is spent then.
    pub(crate) fn begin_noised(&mut self, request: &Message, steps: u64) -> Result<()> {
        let Some(noised) = &mut self.noised else { return Ok(()) };
        let NoisedRows { how: PrivateSteps { sums, .. }, given, .. } = *noised;
        if given.saturating_add(steps) > sums {
            let problem = match given >= sums {
                true => format!("the run's {sums} sums are given: the budget is of so many"),
                false => format!(
                    "{steps} sums are asked for, {given} of the run's {sums} are given: the budget is of so many"
                ),
            };
            return Err(Error::Declined { problem });
        }
        (noised.request, noised.clipped) = (request.ordered().encode(), 0.0);
        Ok(())
    }

    /// How many rows were clipped in a sum, with noise: the mean over the sums for a request; `None` where rows are not hidden.
    pub(crate) fn clipped_rows(&self, steps: u64) -> Option<f64> {
        self.noised.as_ref().map(|own| own.clipped / steps.max(1) as f64)
    }

    /// The terms of a local step, whose gradients by the globals are one noised sum over clipped rows, those of all draws
    /// together ([`PrivateSteps`]); bounds are not told. Latents of rows have their own gradients, which stay with them.
    ///
    /// # Errors
    /// What the mechanism refuses.
    pub(crate) fn noised_terms(
        &mut self,
        noised: &mut NoisedRows,
        globals: &[f64],
        draw: Draws,
    ) -> Result<TermsAndLocal> {
        let NoisedRows { mechanism, count, how, given, request, clipped } = noised;
        let PrivateSteps { clip, noise, rate, sums, .. } = *how;
        let at = |particle| self.family.draw(globals, &draw.global_noise(&*self.family, &self.settings, particle));
        let at: Vec<_> = (0..).take(draw.count).map(at).collect();
        let local = self.local_gradients(globals, draw)?;
        let len = self.family.len();
        let clip = clip * (draw.count as f64).sqrt();
        let mut contributions = |chosen: &[usize]| {
            let alone = Draws { weight: 1.0, entropy_weight: 1.0, ..draw };
            let mut each = self.row_vectors(globals, chosen, alone, &at)?;
            each.iter_mut().for_each(|row| mark(row, clip));
            Ok(each)
        };
        let (length, count) = (len * draw.count + 1, *count);
        let sum = RowSum { length, clip: clip * whole(), noise, count, rate, sums, rows: &mut contributions };
        let step = [request.as_slice(), &draw.step.to_le_bytes()].concat();
        let mut released = mechanism.released(&step, sum)?;
        *given += 1;
        let marks = released.split_off(length - 1);
        *clipped += counted(marks.iter().sum(), clip, rate);
        let term = |own: &[f64]| {
            let gradient: Vec<f64> = own.iter().map(|value| value * draw.weight / rate).collect();
            ElboTerm { grad_mean: gradient.clone(), grad_offset: gradient, ..ElboTerm::default() }
        };
        Ok((released.chunks(len.max(1)).map(term).collect(), local))
    }
}
