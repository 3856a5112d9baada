//! Leaves the rows of a silo out one at a time, in the silo; their sum and how many are unknown alone leave it.

use partita_core::{Device, Latents, Loss, Model, Noise, Part, Precision, Role, SiteTable, pointwise_log_likelihood};
use serde::{Deserialize, Serialize};

use super::judging::{Fitted, Sizes};
use super::predictive::MOST_DRAWS;
use super::round::around;
use super::values::{MOST_COMBINATIONS, UNTIL};
use crate::engine::algorithm::{Posterior, finite};
use crate::engine::error::{Error, Result};
use crate::engine::integral::{AtDraws, RowIntegral};
use crate::engine::metrics::{LeaveOneOut, pareto_k_threshold};
use crate::engine::report::{Severity, Warning};
use crate::engine::terms::particles::Worker;
use crate::engine::whitened::Draws;
use crate::engine::wire::message::{LARGEST_COUNT, Message};
use crate::engine::wire::typed::message;

message! {
    /// Asks a silo to leave its rows out one at a time.
    struct LeftOutRequest = "leave_one_out.rows", sizes: &Sizes {
        /// how many draws
        draws: u64 = Request <= MOST_DRAWS,
        /// the seed of the run
        seed: u64 = Request <= u64::MAX,
        /// the parameters of the global posterior
        global: Vec<f64> = Request <= sizes.parameters,
        /// the shared part of θ
        theta: Vec<f64> = Request <= sizes.theta,
    }
}

message! {
    /// What it says of them.
    struct LeftOutRows = "leave_one_out.answer", sizes: &() {
        /// the sum over rows of the log predictive density of each, had it been left out
        sum: f64 = Data <= 1,
        /// the standard error of that sum over rows
        standard_error: f64 = Data <= 1,
        /// what the posterior gained by seeing the rows
        effective_parameters: f64 = Data <= 1,
        /// the number of rows
        rows: u64 = Data <= LARGEST_COUNT,
        /// how many of them are not known, by their Pareto k
        unknown: u64 = Data <= LARGEST_COUNT,
    }
}

/// What a silo answers of its rows.
///
/// # Errors
/// [`Error::NotFinite`] for rows whose densities are not finite.
pub(super) fn left_out_answer(silo: &str, found: &LeaveOneOut, draws: usize) -> Result<Message> {
    let [sum, standard_error, effective_parameters] =
        [found.sum(), found.standard_error(), found.effective_parameters()];
    let quantity = |_: usize| "a sum over rows that are left out".into();
    finite(silo, 0, quantity, &[sum, standard_error, effective_parameters])?;
    let unknown = found.above(pareto_k_threshold(draws)) as u64;
    let rows = found.log_densities.len() as u64;
    Ok(LeftOutRows { sum, standard_error, effective_parameters, rows, unknown }.write())
}

/// How well the posterior expects the rows of one silo, had each been left out ([`LeaveOneOut`]).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SiloLeaveOneOut {
    /// The silo.
    pub silo: String,
    /// The sum over its rows, in nats.
    pub sum: f64,
    /// The standard error of that sum, in nats.
    pub standard_error: f64,
    /// The effective number of parameters that its rows inform, in nats.
    pub effective_parameters: f64,
    /// Its rows.
    pub rows: u64,
    /// How many of them have a Pareto k above the threshold, so that theirs is not known.
    pub unknown: u64,
}

/// Leave-one-out over the rows of all silos, of which sums are known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeaveOneOutOfSilos {
    /// What each silo says, in their order.
    pub silos: Vec<SiloLeaveOneOut>,
    /// Draws from the posterior.
    pub draws: u64,
}

impl LeaveOneOutOfSilos {
    /// The sum over the rows of all silos, `elpd_loo`, in nats.
    #[must_use]
    pub fn sum(&self) -> f64 {
        self.silos.iter().map(|own| own.sum).sum()
    }

    /// The standard error of the sum over all rows, in nats, as if they were in one place:
    ///
    /// ```math
    /// \sqrt{\sum_j \big(s_j^2 + n_j (\bar x_j - \bar x)^2\big)}
    /// ```
    /// with the standard error $`s_j`$ of silo $`j`$, its rows $`n_j`$, its mean of a row $`\bar x_j`$ and that of all
    /// $`\bar x`$.
    #[must_use]
    pub fn standard_error(&self) -> f64 {
        let mean = self.sum() / count(self.rows());
        let of = |own: &SiloLeaveOneOut| {
            let rows = count(own.rows);
            let apart = if own.rows == 0 { 0.0 } else { own.sum / rows - mean };
            own.standard_error.powi(2) + rows * apart.powi(2)
        };
        self.silos.iter().map(of).sum::<f64>().sqrt()
    }

    /// The effective number of parameters, `p_loo`, in nats.
    #[must_use]
    pub fn effective_parameters(&self) -> f64 {
        self.silos.iter().map(|own| own.effective_parameters).sum()
    }

    /// The rows of all silos.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.silos.iter().map(|own| own.rows).sum()
    }

    /// How many rows are not known.
    #[must_use]
    pub fn unknown(&self) -> u64 {
        self.silos.iter().map(|own| own.unknown).sum()
    }

    /// What silos answered to a request for so many draws.
    pub(crate) fn of(answers: Vec<(String, LeftOutRows)>, draws: u64) -> Self {
        let each = answers.into_iter().map(|(silo, answer)| {
            let LeftOutRows { sum, standard_error, effective_parameters, rows, unknown } = answer;
            SiloLeaveOneOut { silo, sum, standard_error, effective_parameters, rows, unknown }
        });
        Self { silos: each.collect(), draws }
    }

    /// That the sum is not known where rows are not.
    pub(crate) fn warnings(&self) -> Option<Warning> {
        let (unknown, rows) = (self.unknown(), self.rows());
        let problem = format!(
            "of {unknown} of {rows} rows it is not known how well they were expected, had they been left out: the leave-one-out sum may be too high"
        );
        let remedy =
            "Judge by `evaluate` on held-out rows; look at these rows in their silos, which may not fit the model.";
        (unknown > 0).then(|| Warning::new(Severity::Note, problem, remedy))
    }
}

#[expect(clippy::cast_precision_loss, reason = "rows are far fewer than 2^52")]
fn count(rows: u64) -> f64 {
    rows as f64
}

impl<M: Model> Fitted<'_, M> {
    /// [`crate::Fit::leave_one_out`] of these rows, with draws of the noise of `seed`.
    ///
    /// # Errors
    /// [`Error::Setting`] as there; what the model refuses.
    pub(crate) fn leave_one_out(self, posterior: &Posterior<'_>, seed: u64, draws: usize) -> Result<LeaveOneOut> {
        let (table, device, noise) = (self.table, self.device, Noise::new(seed));
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
        let by_draw: Vec<Vec<f64>> = if table.blocks().iter().all(|block| block.width == 0) {
            let (locals, Worker { model, data }) = (vec![Vec::new(); table.blocks().len()], &self.worker);
            let at = |index| {
                let globals = globals(index);
                let latents = Latents { globals: &globals, locals: &locals };
                let found = pointwise_log_likelihood(model, device, table, data, latents)?;
                Ok(found.into_iter().flat_map(|(_, array)| array.values).collect())
            };
            (0..draws).map(at).collect::<Result<_>>()?
        } else {
            check_rows("leave_one_out", table, device)?;
            let normal = around(posterior).map_err(|reason| unserved(reason, "a posterior with uncertainty"))?;
            let whitened = Draws::enough(self.seed, table.global_len())?;
            let rows = AtDraws::new(self.worker, self.threads, device, table.clone(), whitened)?;
            let mut rows = rows.ready_around(&normal, UNTIL)?;
            let drawn: Vec<Vec<f64>> = (0..draws).map(globals).collect();
            let found = rows.by_row(&normal, draws, |index| drawn[index].clone())?;
            let expected = "a posterior at whose draws the model has a density";
            let every = found.into_iter().collect::<Option<_>>();
            every.ok_or_else(|| unserved("a draw at which the log density is no number".into(), expected))?
        };
        let rows = by_draw.first().map_or(0, Vec::len);
        LeaveOneOut::of(&by_draw.concat(), rows).map_err(|error| unserved(error.to_string(), "a silo with rows"))
    }
}

/// Refuses rows whose log likelihoods are no integrals over latents of their own.
pub(crate) fn check_rows(setting: &'static str, table: &SiteTable, device: &Device) -> Result<()> {
    let refuse = |found: String, expected| Err(Error::Setting { setting, found, expected });
    if device.precision() == Precision::Single {
        return refuse("a device of single precision".into(), "one of double precision, such as `Device::flex`");
    }
    if RowIntegral::check(table).is_err() || RowIntegral::combinations(table) > MOST_COMBINATIONS {
        let expected = "at most eight latents a row, in few levels; judge by `evaluate` on held-out rows instead";
        return refuse("rows with more latents than are integrated".into(), expected);
    }
    let blocks = table.blocks();
    let has_latents = |block: usize| blocks[block].plate.is_some() && blocks[block].width > 0;
    let silo = blocks.iter().any(|block| block.plate.is_none() && block.width > 0);
    let in_rows = |block: usize| block < blocks.len() && has_latents(table.outermost(block));
    let observed = table.sites().iter().filter(|site| site.role == Role::Observed);
    let outside = observed.into_iter().find(|site| site.plate.is_none() || !in_rows(site.block()));
    let rootless = (0..blocks.len()).any(|block| blocks[block].width > 0 && !has_latents(table.outermost(block)));
    let found = match outside {
        Some(site) => format!("`{}`, which is in no row with latents", site.name),
        None if silo => "latents of the silo, which tie its rows together".into(),
        None if rootless => "rows with latents inside rows without".into(),
        None => return Ok(()),
    };
    refuse(found, "outcomes in outermost rows with latents, or no local latents; judge by `evaluate` instead")
}

fn unserved(found: String, expected: &'static str) -> Error {
    Error::Setting { setting: "leave_one_out", found, expected }
}
