//! Judges by rows drawn from the posterior how far clipping moves the answer of a private study.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use partita_core::Device;
use partita_inference::{
    Algorithm, AlgorithmChoice, Error, ExpectedClipping, FitOptions, Mechanism, PrivateRoundsOptions,
    PrivateRoundsSilo, Report, Result, RowSum, SiloProgram,
};

use crate::formula::shared_model::SharedModel;
use crate::formula::{DeclaredColumn, StudyError};

/// Tables of rows that are drawn; each has as many as the table that stands in for the rows of silos.
const TABLES: u64 = 8;

/// A private study that was fitted.
pub(crate) struct Clipped<'a> {
    pub(crate) shared: SharedModel<'a>,
    /// What is declared of the columns.
    pub(crate) declared: &'a BTreeMap<String, DeclaredColumn>,
    /// With the algorithm that was fitted.
    pub(crate) fit: &'a FitOptions,
    /// The rows of all silos, by their numbers.
    pub(crate) rows: usize,
}

impl Clipped<'_> {
    /// Whether there is something to judge: sums that have a gradient and a curvature in whitened coordinates.
    pub(crate) fn is_judged(&self) -> bool {
        matches!(self.fit.algorithm, AlgorithmChoice::PrivateRounds(_))
    }

    /// Tells the report of SFVI whether it integrated the effects of rows, as those that stand in for the rows of silos show.
    pub(crate) fn tell_rows(&self, report: &mut Report, device: &Device) -> Result<()> {
        let Self { shared, declared, fit, .. } = self;
        if !matches!(fit.algorithm, AlgorithmChoice::PrivateSfvi(_)) {
            return Ok(());
        }
        let rows = shared.stand_in(declared, device).map_err(declined)?;
        super::tell_rows(report, &fit.algorithm, (&shared.plan.model, &rows), device)
    }

    /// Tells the report of few rounds how far clipping would move the answer if rows were spread over what is declared of the columns, with
    /// outcomes as the posterior has them: nothing is asked of a silo, and nothing is spent.
    ///
    /// With the clipped gradient $`c_i`$ of row $`i`$ of $`n`$ drawn ones, in the coordinates in which the answer is
    /// standard normal, the mean is moved by about $`\frac{N}{n}\sum_i (c_i - g_i)`$ over the precision there.
    #[expect(clippy::cast_precision_loss, reason = "rows are far fewer than 2^52")]
    pub(crate) fn judge(&self, report: &mut Report, algorithm: &mut dyn Algorithm, device: &Device) -> Result<()> {
        let Self { shared, declared, fit, rows } = self;
        let AlgorithmChoice::PrivateRounds(rounds) = &fit.algorithm else { return Ok(()) };
        let posterior = algorithm.posterior();
        let mean = posterior.family.mean(posterior.parameters);
        let Some(request) = algorithm.outgoing()?.into_iter().next() else { return Ok(()) };
        // The last of its requests, which no silo answers.
        let rounds = PrivateRoundsOptions { rounds: rounds.rounds.saturating_add(1), ..rounds.clone() };
        let measured = Measured::default();
        let mut drawn = 0;
        for table in 0..TABLES {
            let simulated = shared.simulated(declared, &mean, table, device).map_err(declined)?;
            let Some(simulated) = simulated else { return Ok(()) };
            let sums = Box::new(measured.clone());
            let model = &shared.plan.model;
            let mut silo = PrivateRoundsSilo::new("drawn", model, &simulated, device, &fit.settings, &rounds, sums)?;
            silo.answer(&request.message)?;
            drawn += silo.rows();
        }
        let Counted { moved, clipped, clip } = measured.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let length = moved.iter().take(mean.len()).map(|own| own * own).sum::<f64>().sqrt();
        let widened = report.privacy.as_ref().map_or(&[][..], |own| &own.widened);
        // In these coordinates the precision is as much larger than one as noise has widened the answer.
        let precision = widened.iter().map(|own| own * own).sum::<f64>() / widened.len().max(1) as f64;
        let (all, drawn, precision) = (*rows as f64, drawn.max(1) as f64, precision.max(1.0));
        report.tell_clipping(&ExpectedClipping {
            moves: length * all / drawn / precision,
            share: clipped as f64 / drawn,
            most: 0.5 * clip * all / precision,
        });
        Ok(())
    }
}

fn declined(error: StudyError) -> Error {
    Error::Declined { problem: error.to_string() }
}

/// What clipping took from the sums of drawn rows.
#[derive(Debug, Default, Clone)]
struct Counted {
    moved: Vec<f64>,
    clipped: usize,
    /// The clip of the sums, of a row with all that is in its sum.
    clip: f64,
}

/// Adds up what clipping takes from no rows.
#[derive(Debug, Default, Clone)]
struct Measured(Arc<Mutex<Counted>>);

impl Mechanism for Measured {
    fn release(&mut self, _: &[u8], sum: RowSum<'_>) -> Result<Vec<f64>> {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counted.moved.resize(sum.length, 0.0);
        counted.clip = sum.clip;
        for row in (sum.rows)(&(0..sum.count).collect::<Vec<_>>())? {
            let norm = row.iter().map(|value| value * value).sum::<f64>().sqrt();
            if norm.is_finite() && norm > sum.clip {
                let kept = sum.clip / norm;
                counted.moved.iter_mut().zip(&row).for_each(|(slot, value)| *slot += (kept - 1.0) * value);
                counted.clipped += 1;
            }
        }
        Ok(vec![0.0; sum.length])
    }
}
