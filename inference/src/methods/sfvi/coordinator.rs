//! Gives the coordinator's side of SFVI: one exchange and one optimiser step a round.

use partita_core::{AnyModel, Device, Model, Precision, SiteTable};

use crate::engine::algorithm::{Algorithm, ElboSamples, Ending, Posterior, StepInfo};
use crate::engine::error::Result;
use crate::engine::exchange::{Outcome, Request};
use crate::engine::settings::Settings;
use crate::engine::terms::climbing::Steps;
use crate::engine::terms::coordinator::{Bounds, Coordinator};
use crate::engine::wire::manifest::Manifest;
use crate::engine::wire::message::Message;

/// The kind of a saved coordinator.
const STATE: &str = "sfvi.coordinator";

/// Structured federated variational inference: one exchange and one optimiser step a round.
///
/// Every step the coordinator sends $(\theta, \eta_G)$ and the key of $\varepsilon_G$; silo $j$ answers with $a_j =
/// \nabla_{Z_G}\hat L_j$ and $b_j = a_j + (\partial Z_{L_j}/\partial Z_G)^\top\nabla_{Z_{L_j}}\hat L_j$, which
/// determine the paper's $g_j^\eta$ because $Z_{L_j}$ depends on $\eta_G$ only through $Z_G - \mu_G$. The split over
/// silos is exact: for the same noise the gradient is that of the pooled data.
///
/// # References
/// Hassan, Salomone and Mengersen (2023), Algorithm 1, with the gradient split of eqs. 12 and 13.
#[derive(Debug)]
pub struct Sfvi {
    globals: Coordinator,
}

impl Sfvi {
    /// The coordinator of a run over the silos of these names.
    ///
    /// # Errors
    /// [`crate::Error::Setting`], [`crate::Error::NoSilos`], or what the model's global function refuses.
    pub fn new<M: Model>(model: &M, device: &Device, settings: &Settings, silos: &[String]) -> Result<Self> {
        let model = &AnyModel::new(model);
        let mut globals = Coordinator::new(model, device, settings, silos)?;
        globals.adapt();
        globals.begin_climb(Steps::Own);
        Ok(Self { globals })
    }

    /// The model's global sites.
    #[must_use]
    pub fn table(&self) -> &SiteTable {
        &self.globals.table
    }

    /// Replaces the variational parameters of the globals: a warm start.
    ///
    /// # Errors
    /// [`crate::Error::Message`] if the length differs.
    pub fn set_parameters(&mut self, parameters: Vec<f64>) -> Result<()> {
        self.globals.set_parameters(&parameters)
    }
}

impl Algorithm for Sfvi {
    fn outgoing(&mut self) -> Result<Vec<Request>> {
        Ok(match self.globals.ask_slope() {
            Some(slopes) => slopes,
            None => self.globals.ask_step(),
        })
    }

    fn incoming(&mut self, outcomes: Vec<Outcome>) -> Result<StepInfo> {
        self.incoming_in_turn(&mut outcomes.into_iter().map(Ok))
    }

    fn incoming_in_turn(&mut self, outcomes: &mut dyn Iterator<Item = Result<Outcome>>) -> Result<StepInfo> {
        if self.globals.is_climbing() {
            return self.globals.take_slope(outcomes);
        }
        self.globals.take_step(outcomes)
    }

    fn ended(&self) -> Option<Ending> {
        self.globals.trainer.has_converged().then_some(Ending::Converged)
    }

    fn elbo_requests(&self, draws: usize, offset: u64) -> Vec<Request> {
        self.globals.ask_bounds(draws, offset)
    }

    fn draws_a_bound(&self) -> usize {
        self.globals.draws_a_bound()
    }

    fn elbo_samples(&self, outcomes: Vec<Outcome>, draws: usize, offset: u64) -> Result<ElboSamples> {
        self.globals.bounds_of(&self.globals.silos, outcomes, Bounds { count: draws, offset })
    }

    fn manifest(&self) -> &Manifest {
        &self.globals.manifest
    }

    fn posterior(&self) -> Posterior<'_> {
        self.globals.posterior()
    }

    fn compute_in(&mut self, precision: Precision) -> Result<bool> {
        self.globals.recast(precision).map(|()| true)
    }

    fn save(&self) -> Message {
        self.globals.save(STATE)
    }

    fn load(&mut self, state: &Message) -> Result<()> {
        self.globals.load(state, STATE)
    }
}
