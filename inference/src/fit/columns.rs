//! Fits a vertical model over parties in this process in one call, and predicts rows never seen.

mod elsewhere;
mod prediction;
mod shared_party;

use std::sync::{Arc, Mutex, PoisonError};

use partita_core::Device;
use partita_core::vertical::{Labels, Party};

use crate::engine::algorithm::{Algorithm, Posterior};
use crate::engine::error::{Error, Result};
use crate::engine::exchange::{InProcess, SiloProgram};
use crate::engine::report::{Report, SiteSummary};
use crate::engine::run::{Progress, RunRecord};
use crate::fit::{AlgorithmChoice, FitOptions, Fitted, precision};
pub use crate::methods::columns::{AuxiliaryFamily, VerticalCoordinator, VerticalOptions, VerticalParty};
pub use elsewhere::{coordinator, fit_parties, party_program, prior};
pub use prediction::{PredictedModel, Prediction, Predictive, predict};
use shared_party::SharedParty;

/// A fitted vertical model: the report of the label holder, and the parties for further questions.
pub struct VerticalFit {
    /// What the label holder found: the unknowns of the head, the bound, and the cost.
    pub report: Report,
    /// How the run went.
    pub record: RunRecord,
    /// The coordinator.
    pub algorithm: Box<dyn Algorithm>,
    /// The parties behind their exchange.
    pub exchange: InProcess,
    parties: Vec<Arc<Mutex<VerticalParty>>>,
    device: Device,
    options: VerticalOptions,
    seed: u64,
    summary_draws: u32,
}

impl std::fmt::Debug for VerticalFit {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("VerticalFit").field("report", &self.report).finish_non_exhaustive()
    }
}

impl VerticalFit {
    /// The posterior of the unknowns of the head.
    #[must_use]
    pub fn posterior(&self) -> Posterior<'_> {
        self.algorithm.posterior()
    }

    /// What the party of this name found about its own unknowns. For its owner: no message carries it.
    ///
    /// # Errors
    /// [`Error::Setting`] for a name that no party has; otherwise what its prior refuses.
    pub fn summary_of(&self, party: &str) -> Result<Vec<SiteSummary>> {
        self.with(party, |own| own.summary(self.summary_draws))?
    }

    /// Draws of every unknown of the party of this name on its natural scale: site, label, draws. For its owner.
    ///
    /// # Errors
    /// As for [`VerticalFit::summary_of`].
    pub fn draws_of(&self, party: &str) -> Result<Vec<(String, String, Vec<f64>)>> {
        self.with(party, |own| own.natural_draws(self.summary_draws.max(2)))?
    }

    /// Asks the party of this name something that is no message, as its owner may.
    ///
    /// # Errors
    /// [`Error::Setting`] for a name that no party has.
    pub fn with<T>(&self, party: &str, question: impl FnOnce(&mut VerticalParty) -> T) -> Result<T> {
        let own = self.parties.iter().find(|own| lock(own).name() == party);
        let Some(own) = own else {
            let expected = "the name of a party of the fit";
            return Err(Error::Setting { setting: "party", found: party.to_owned(), expected });
        };
        Ok(question(&mut lock(own)))
    }
}

fn lock(party: &Mutex<VerticalParty>) -> std::sync::MutexGuard<'_, VerticalParty> {
    party.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Fits a model whose columns are held by `parties` and whose labels by the coordinator.
///
/// The algorithm is [`AlgorithmChoice::Vertical`] of `options`; [`crate::Settings::minibatch`] of the plate `row` lets
/// a step take some of the rows.
///
/// # Errors
/// [`Error::NoSilos`], [`Error::DuplicateSilo`]; [`Error::Setting`] for another algorithm or a party with other rows
/// than the labels; whatever contributions and head refuse, and what the run reports.
///
/// # Example
/// ```
/// use partita_core::burn::{module::Module, tensor::{Tensor, activation::sigmoid}};
/// use partita_core::vertical::{Contribution, Head, Labels, Party};
/// use partita_core::{Design, Device, NoiseKind, Normal, Result, Rows, Scope};
/// use partita_inference::{AlgorithmChoice, FitOptions, Settings, VerticalOptions, vertical};
///
/// #[derive(Module, Debug)]
/// struct Slope {}
/// impl Contribution for Slope {
///     type Latents = Tensor<1>;
///     type Data = Design;
///     fn prior(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> { scope.sample("beta", Normal::new(0.0, 1.0)) }
///     fn contribute(&self, beta: &Tensor<1>, rows: &Rows<'_>, data: &Design) -> Result<Tensor<2>> {
///         data.take(rows)?.predictor(beta.clone(), None)
///     }
/// }
/// #[derive(Module, Debug)]
/// struct Measured {}
/// impl Head for Measured {
///     type Latents = ();
///     type Data = Tensor<2>;
///     fn outputs(&self) -> usize { 1 }
///     fn prior(&self, _: &mut Scope<'_>) -> Result<()> { Ok(()) }
///     fn observe(&self, scope: &mut Scope<'_>, _: &(), eta: Tensor<2>, rows: &Rows<'_>, y: &Tensor<2>) -> Result<()> {
///         scope.observe("y", Normal::new(eta, 1.0), rows.take(y)?)
///     }
///     fn mean(&self, _: &(), eta: Tensor<2>, _: &Rows<'_>, _: &Tensor<2>) -> Result<Tensor<2>> { Ok(eta) }
/// }
///
/// let device = Device::flex();
/// let column = |values: Vec<f64>| Design::new(values, [2, 1, 1]);
/// let parties = [
///     Party::new("clinic", Slope {}, column(vec![1.0, 0.0])?),
///     Party::new("registry", Slope {}, column(vec![0.0, 1.0])?),
/// ];
/// let labels = Labels::new(Measured {}, device.tensor(vec![3.0, -3.0], [2, 1]));
/// let algorithm = AlgorithmChoice::Vertical(VerticalOptions::augmented(0.5).mean_field());
/// let settings = Settings { steps: 2_000, particles: 2, noise: NoiseKind::Antithetic, ..Settings::default() };
/// let options = FitOptions { algorithm, settings, ..FitOptions::default() };
/// let fit = vertical::fit(&parties, &labels, &device, &options, None)?;
/// // Each row measures one slope with noise of variance 1 + 2 * 0.5^2.
/// let slope = &fit.summary_of("clinic")?[0];
/// assert!((slope.mean - 3.0 / 2.5).abs() < 0.05, "{}", slope.mean);
/// # Ok::<(), partita_inference::Error>(())
/// ```
pub fn fit(
    parties: &[Party],
    labels: &Labels,
    device: &Device,
    options: &FitOptions,
    progress: Option<&mut dyn Progress>,
) -> Result<VerticalFit> {
    let (mut algorithm, mut exchange, own) = start(parties, labels, device, options)?;
    let fitted = fit_parties(labels, device, options, &mut *algorithm, &mut exchange, progress)?;
    let Fitted { mut report, record, elbos, .. } = fitted;
    precision::compare(options, device, &mut *algorithm, &mut exchange, &elbos, &mut report)?;
    let (how, seed, summary_draws) = (elsewhere::chosen(options)?, options.settings.seed, options.summary_draws);
    let device = device.clone();
    Ok(VerticalFit { report, record, algorithm, exchange, parties: own, device, options: how, seed, summary_draws })
}

/// The coordinator and the parties of a fit before its first step: [`crate::run()`] takes both.
///
/// # Errors
/// As for [`fit`].
pub fn parties(
    parties: &[Party],
    labels: &Labels,
    device: &Device,
    options: &FitOptions,
) -> Result<(Box<dyn Algorithm>, InProcess)> {
    let (algorithm, exchange, _) = start(parties, labels, device, options)?;
    Ok((algorithm, exchange))
}

type Started = (Box<dyn Algorithm>, InProcess, Vec<Arc<Mutex<VerticalParty>>>);

fn start(parties: &[Party], labels: &Labels, device: &Device, options: &FitOptions) -> Result<Started> {
    let names: Vec<String> = parties.iter().map(|party| party.name().to_owned()).collect();
    let mut own = Vec::new();
    let mut programs: Vec<Box<dyn SiloProgram>> = Vec::new();
    for (party, index) in parties.iter().zip(0_u32..) {
        let made = party_program(party, index, Some(labels), device, options)?;
        let made = Arc::new(Mutex::new(made));
        programs.push(Box::new(SharedParty::new(party.name(), Arc::clone(&made))));
        own.push(made);
    }
    let algorithm = coordinator(labels, &names, device, options)?;
    Ok((algorithm, InProcess::new(programs, options.threads)?, own))
}

fn other(found: &AlgorithmChoice) -> Error {
    let expected = "AlgorithmChoice::Vertical for columns at different parties; `fit` serves the others";
    Error::Setting { setting: "algorithm", found: format!("{found:?}"), expected }
}

/// Refuses a party with other rows than the labels.
fn aligned(party: &Party, labels: &Labels) -> Result<()> {
    let found = format_args!("{} at party `{}`, {} at the label holder", party.rows(), party.name(), labels.rows());
    let expected = "the same rows everywhere: align them by a shared key first";
    Error::unless(party.rows() == labels.rows(), "rows", found, expected)
}

/// Refuses contributions of other outputs than the head takes.
fn same_outputs(party: &VerticalParty, labels: &Labels) -> Result<()> {
    let found = format_args!("{} at party `{}`, {} at the head", party.outputs(), party.name(), labels.outputs());
    let expected = "contributions of as many outputs as the head takes, such as one a class";
    Error::unless(party.outputs() == labels.outputs(), "outputs", found, expected)
}
