//! Makes one party of a vertical fit whose others are elsewhere, and fits parties behind any exchange.

use partita_core::vertical::{Labels, Party};
use partita_core::{Array, Device, SiteTable};

use super::{aligned, other, same_outputs};
use crate::engine::algorithm::Algorithm;
use crate::engine::error::Result;
use crate::engine::exchange::Exchange;
use crate::engine::panic::{COORDINATOR, caught};
use crate::engine::report::summary::prior_draws_of;
use crate::engine::run::{Progress, run};
use crate::engine::trust::known::Known;
use crate::fit::elsewhere::{Asked, Globals};
use crate::fit::{AlgorithmChoice, FitOptions, Fitted};
use crate::methods::columns::{VerticalCoordinator, VerticalOptions, VerticalParty};

/// The options of a vertical fit; an error for another algorithm.
pub(super) fn chosen(options: &FitOptions) -> Result<VerticalOptions> {
    match &options.algorithm {
        AlgorithmChoice::Vertical(how) => Ok(*how),
        found => Err(other(found)),
    }
}

/// The label holder of a fit whose parties, called `names`, are elsewhere: the one that [`super::fit`] would make.
///
/// # Errors
/// As for [`super::fit`].
pub fn coordinator(
    labels: &Labels,
    names: &[String],
    device: &Device,
    options: &FitOptions,
) -> Result<Box<dyn Algorithm>> {
    let how = chosen(options)?;
    caught(COORDINATOR, || {
        Ok(Box::new(VerticalCoordinator::new(labels, device, &options.settings, &how, names)?) as Box<dyn Algorithm>)
    })
}

/// The `index`-th party of a fit whose others are elsewhere: the one that [`super::fit`] would make.
///
/// `labels` where [`VerticalOptions::shares_labels`]; other algorithms leave them with their holder. For predictions
/// give it rows with [`VerticalParty::hold_out`].
///
/// # Errors
/// As for [`super::fit`].
pub fn party_program(
    party: &Party,
    index: u32,
    labels: Option<&Labels>,
    device: &Device,
    options: &FitOptions,
) -> Result<VerticalParty> {
    let how = chosen(options)?;
    let make = || {
        if let Some(labels) = labels {
            aligned(party, labels)?;
        }
        let made = VerticalParty::new(party, index, labels, device, &options.settings, &how)?;
        let made = match options.private_seed {
            Some(seed) => made.private_seed(seed),
            None => made,
        };
        if let Some(labels) = labels {
            same_outputs(&made, labels)?;
        }
        Ok(made)
    };
    caught(party.name(), make).map_err(|error| error.in_silo(party.name(), 0))
}

/// The run, the bound and the summary of [`super::fit`] with parties that exist already: a [`coordinator`], and parties
/// behind any exchange.
///
/// # Errors
/// As for [`super::fit`].
pub fn fit_parties(
    labels: &Labels,
    device: &Device,
    options: &FitOptions,
    algorithm: &mut dyn Algorithm,
    exchange: &mut dyn Exchange,
    progress: Option<&mut dyn Progress>,
) -> Result<Fitted> {
    chosen(options)?;
    let (settings, table) = (&options.settings, &labels.table(device)?);
    let known = &|_: &[f64]| Ok(Box::new(KnownLabels { labels, device, table }) as Box<dyn Known>);
    let globals = Globals { settings, table, known, no_rows: Some(NO_ROUND) };
    let asked = Asked { run, options, device };
    asked.fit(globals, algorithm, exchange, progress)
}

/// Draws of every unknown of the head from its prior, on its natural scale, for [`crate::HtmlOptions::prior`]: site, label,
/// draws.
///
/// # Errors
/// What the head refuses: a prior that is no distribution has no draws.
///
/// # Example
/// ```
/// use partita_core::burn::{module::Module, tensor::Tensor};
/// use partita_core::vertical::{Head, Labels};
/// use partita_core::{Device, Normal, Result, Rows, Scope};
/// use partita_inference::vertical::prior;
///
/// #[derive(Module, Debug)]
/// struct Measured {}
/// impl Head for Measured {
///     type Latents = Tensor<1>;
///     type Data = Tensor<2>;
///     fn outputs(&self) -> usize { 1 }
///     fn prior(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> { scope.sample("intercept", Normal::new(3.0, 2.0)) }
///     fn observe(&self, s: &mut Scope<'_>, own: &Tensor<1>, eta: Tensor<2>, rows: &Rows<'_>, y: &Tensor<2>) -> Result<()> {
///         s.observe("y", Normal::new(eta + own.clone().reshape([1, 1]), 1.0), rows.take(y)?)
///     }
///     fn mean(&self, own: &Tensor<1>, eta: Tensor<2>, _: &Rows<'_>, _: &Tensor<2>) -> Result<Tensor<2>> {
///         Ok(eta + own.clone().reshape([1, 1]))
///     }
/// }
///
/// let device = Device::flex();
/// let labels = Labels::new(Measured {}, device.tensor(vec![3.0, -3.0], [2, 1]));
/// let (_, label, draws) = &prior(&labels, &device, 1)?[0];
/// let mean = draws.iter().sum::<f64>() / draws.len() as f64;
/// assert!(label == "intercept" && (mean - 3.0).abs() < 4.0 * 2.0 / (draws.len() as f64).sqrt());
/// # Ok::<(), partita_inference::Error>(())
/// ```
pub fn prior(labels: &Labels, device: &Device, seed: u64) -> Result<Vec<(String, String, Vec<f64>)>> {
    let table = labels.table(device)?;
    prior_draws_of(seed, |noise| Ok(labels.prior_draw(device, &table, noise)?))
}

/// Why there is no round of trust.
const NO_ROUND: &str = "parties hold columns of the same rows, and draws weigh by the latents of all of them together: each party would have to send its contribution to every row at thousands of draws, from which its columns follow for whoever knows the noise";

/// What the label holder knows of its own unknowns.
struct KnownLabels<'a> {
    labels: &'a Labels,
    device: &'a Device,
    table: &'a SiteTable,
}

impl Known for KnownLabels<'_> {
    fn natural(&self, globals: &[f64]) -> Result<Vec<(String, Array)>> {
        Ok(self.labels.natural(self.device, self.table, globals)?)
    }

    fn log_prior(&self, _: &[f64]) -> Result<f64> {
        unreachable!("invariant: parties that hold columns are not asked for a round of trust")
    }
}
