//! Leaves the rows of a silo, or its observations, out one at a time, where the rows are.

use partita_core::{Device, Latents, Loss, Noise, Part, Precision, Role, SiteTable, pointwise_log_likelihood};

use super::judging::Fitted;
use super::round::around;
use super::values::{UNTIL, unresolved};
use crate::engine::algorithm::Posterior;
use crate::engine::error::{Error, Result};
use crate::engine::integral::{AtDraws, Observation, RowIntegral};
use crate::engine::metrics::LeaveOneOut;
use crate::engine::terms::particles::Worker;
use crate::engine::whitened::Draws;

/// What is left out at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftOutUnit {
    /// An outermost row, such as a patient with all visits; an observation where rows have no latents.
    Row,
    /// A single observation, such as one visit, where the others of its row are seen.
    Observation,
}

/// The part of the draws at which nodes may fail to reach what the latents of a row are without an observation.
const UNREACHED: f64 = 0.1;

impl Fitted<'_> {
    /// [`crate::Fit::leave_one_out`] of these rows, with draws of the noise of `seed`.
    ///
    /// # Errors
    /// [`Error::Setting`] as there; what the model refuses.
    pub(crate) fn leave_one_out(
        &self,
        posterior: &Posterior<'_>,
        seed: u64,
        draws: usize,
        unit: LeftOutUnit,
    ) -> Result<LeaveOneOut> {
        let (table, noise) = (self.table, Noise::new(seed));
        if draws == 0 {
            return Err(unserved("0 draws".into(), "at least 1 draw; 1,000 or more serve"));
        }
        let mut local = table.sites().iter().filter(|site| site.part == Part::Local);
        if let Some(site) = local.find(|site| site.role == Role::Factor) {
            return Err(unserved(format!("the factor `{}`", site.name), "outcomes that are observed, each by itself"));
        }
        let globals = |index: usize| posterior.draw(&noise, index as u64);
        if self.loss != Loss::NegativeLogLikelihood {
            return Err(unserved("another loss".into(), "the negative log likelihood; judge by `evaluate` instead"));
        }
        if draws > 1 && globals(0) == globals(1) {
            return Err(unserved("a point".into(), "a posterior with uncertainty; judge by `evaluate` instead"));
        }
        if !table.has_local_latents() {
            return self.given_globals(globals, draws);
        }
        let drawn: Vec<Vec<f64>> = (0..draws).map(globals).collect();
        let normal = around(posterior).map_err(|none| unserved(none.reason, "a posterior with uncertainty"))?;
        let ready = || {
            let whitened = Draws::enough(self.seed, table.global_len())?;
            let rows = AtDraws::new(self.worker.clone(), self.threads, self.device, table.clone(), whitened)?;
            let rows = rows.ready_around(&normal, UNTIL)?;
            if let Some(refusal) = unresolved(&rows, &normal.mean)? {
                let found = format!("rows that are not resolved, since {}", refusal.words());
                return Err(unserved(found, "fewer latents a row or fewer levels; judge by `evaluate` instead"));
            }
            Ok(rows)
        };
        match unit {
            LeftOutUnit::Row => {
                check_rows("leave_one_out", table, self.device)?;
                let found = ready()?.by_row(&normal, draws, |index| drawn[index].clone())?;
                by_column(&dense(found)?)
            }
            LeftOutUnit::Observation => {
                check_integrable("leave_one_out", table, self.device)?;
                let found = ready()?.by_observation(&normal, draws, |index| drawn[index].clone())?;
                Ok(of_observations(&dense(found)?))
            }
        }
    }

    /// Every observation of a model without local latents.
    fn given_globals(&self, globals: impl Fn(usize) -> Vec<f64>, draws: usize) -> Result<LeaveOneOut> {
        let (locals, Worker { model, data }) = (vec![Vec::new(); self.table.blocks().len()], &self.worker);
        let at = |index| {
            let globals = globals(index);
            let latents = Latents { globals: &globals, locals: &locals };
            let found = pointwise_log_likelihood(model, self.device, self.table, data, latents)?;
            Ok(found.into_iter().flat_map(|(_, array)| array.values).collect())
        };
        by_column(&(0..draws).map(at).collect::<Result<Vec<Vec<f64>>>>()?)
    }
}

/// All draws, at each of which the model has to have a density.
fn dense<T>(found: Vec<Option<T>>) -> Result<Vec<T>> {
    let expected = "a posterior at whose draws the model has a density";
    let every = found.into_iter().collect::<Option<_>>();
    every.ok_or_else(|| unserved("a draw at which the log density is no number".into(), expected))
}

fn by_column(by_draw: &[Vec<f64>]) -> Result<LeaveOneOut> {
    let rows = by_draw.first().map_or(0, Vec::len);
    LeaveOneOut::of(&by_draw.concat(), rows).map_err(|error| unserved(error.to_string(), "a silo with rows"))
}

/// Of observations that nodes do not reach it is not known how well they were expected.
fn of_observations(by_draw: &[Vec<Observation>]) -> LeaveOneOut {
    let mut all = LeaveOneOut { log_densities: Vec::new(), pareto_k: Vec::new(), seen: Vec::new() };
    for index in 0..by_draw.first().map_or(0, Vec::len) {
        let column = |of: fn(&Observation) -> f64| by_draw.iter().map(|own| of(&own[index])).collect::<Vec<_>>();
        all.push(&column(|own| own.left_out), &column(|own| own.seen));
        let unreached: f64 = column(|own| if own.is_reached { 0.0 } else { 1.0 }).iter().sum();
        let most = UNREACHED * by_draw.len() as f64;
        if let Some(own) = all.pareto_k.last_mut().filter(|_| unreached > most) {
            *own = f64::INFINITY;
        }
    }
    all
}

/// Refuses rows that are not integrated.
pub(crate) fn check_integrable(setting: &'static str, table: &SiteTable, device: &Device) -> Result<()> {
    let is_double = device.precision() == Precision::Double;
    let expected = "one of double precision, such as `Device::flex`";
    Error::unless(is_double, setting, "a device of single precision", expected)?;
    let are_few = RowIntegral::check(table).is_ok() && RowIntegral::check_levels(table).is_ok();
    let expected = "at most eight latents a row, in few levels; judge by `evaluate` on held-out rows instead";
    Error::unless(are_few, setting, "rows with more latents than are integrated", expected)
}

/// Refuses rows whose log likelihoods are no integrals over latents of their own.
pub(crate) fn check_rows(setting: &'static str, table: &SiteTable, device: &Device) -> Result<()> {
    check_integrable(setting, table, device)?;
    let blocks = table.blocks();
    let has_latents = |block: usize| blocks[block].plate.is_some() && blocks[block].width > 0;
    let silo = blocks.iter().any(|block| block.plate.is_none() && block.width > 0);
    let in_rows = |block: usize| has_latents(table.outermost(block));
    let observed = table.sites().iter().filter(|site| site.role == Role::Observed);
    let outside = observed.into_iter().find(|site| site.plate.is_none() || !in_rows(site.block()));
    let rootless = (0..blocks.len()).any(|block| blocks[block].width > 0 && !has_latents(table.outermost(block)));
    let found = match outside {
        Some(site) => format!("`{}`, which is in no row with latents", site.name),
        None if silo => "latents of the silo, which tie its rows together".into(),
        None if rootless => "rows with latents inside rows without".into(),
        None => return Ok(()),
    };
    let expected = "outcomes in outermost rows with latents, or no local latents; judge by `evaluate` instead";
    Err(Error::Setting { setting, found, expected })
}

fn unserved(found: String, expected: &'static str) -> Error {
    Error::Setting { setting: "leave_one_out", found, expected }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_observation_that_nodes_miss_at_more_than_a_tenth_of_the_draws_is_not_known() {
        let draws = |missed: usize| -> Vec<Vec<Observation>> {
            let of = |draw: usize| {
                let left_out = -1.0 - 0.1 * f64::from(u32::try_from(draw % 7).unwrap());
                let at = |is_reached| Observation::at([0, 0], [left_out, left_out + 0.1], is_reached);
                vec![at(true), at(draw >= missed)]
            };
            (0..100).map(of).collect()
        };
        for (missed, unknown) in [(10, 0), (11, 1)] {
            let found = of_observations(&draws(missed));
            assert_eq!((found.above(0.7), found.log_densities.len()), (unknown, 2));
            // Means around -1.3, from which those of inverses and of densities differ by half a variance of 0.04.
            assert!((found.sum() + 2.6).abs() < 0.06 && (found.effective_parameters() - 0.2).abs() < 0.1, "{found:?}");
        }
    }
}
