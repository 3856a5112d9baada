//! Gives the coordinator of the augmented-variable model: labels stay with it, parties send auxiliary variables.

use partita_core::vertical::{Augmentation, Labels, LikelihoodAt};
use partita_core::{Device, Purpose};

use crate::engine::algorithm::{Algorithm, ElboSamples, Posterior, StepInfo, finite, replies};
use crate::engine::error::{Error, Result};
use crate::engine::exchange::{Outcome, Request};
use crate::engine::settings::Settings;
use crate::engine::wire::manifest::{Field, Manifest};
use crate::engine::wire::message::Message;
use crate::methods::columns::label_holder::{LabelHolder, sum};
use crate::methods::columns::{ASSESS, STEP, VerticalOptions};

const STATE: &str = "vertical.augmented";

/// The augmented-variable model over parties that hold different columns: one exchange a step.
///
/// ```math
/// \mathcal L = \underbrace{\mathrm E\log p(y \mid \textstyle\sum_j z_j, \gamma) + \mathrm E\log\tfrac{p(\gamma)}{q(\gamma)}}_{\mathcal L_0,\ \text{coordinator}}
///   + \sum_j \underbrace{\mathrm E\Big[\log\tfrac{N(z_j \mid g_j, \rho^2)}{q(z_j \mid \theta_j)} + \log\tfrac{p(\theta_j)}{q(\theta_j)}\Big]}_{\mathcal L_j,\ \text{party } j}
/// ```
/// A request brings $`\partial\hat{\mathcal L}_0/\partial z_j`$ of the step before and announces the rows of this one;
/// the reply is $`z_j`$ of these rows. The gradient is the same vector for every party, since $`z`$ enters through its
/// sum. Without auxiliary variables ([`Augmentation::None`]) parties send $`g_j`$ itself in the same messages.
///
/// A party takes its step when the gradient comes, and says with its next reply whether it clipped it: what
/// [`StepInfo::clipped`] says of a step is about the head in that step and the parties in the one before. Of the last
/// step of a run nobody hears.
///
/// # References
/// Hassan, Sutton, Mira and Mengersen (2024), section 4.3 and Algorithm 1, with the noise of a draw kept for its
/// gradient.
pub struct AugmentedVariable {
    holder: LabelHolder,
    manifest: Manifest,
}

/// What parties and coordinator say of some draws together.
struct Total {
    bounds: Vec<f64>,
    /// By the parameters of the head's posterior, draw by draw.
    gradients: Vec<Vec<f64>>,
    /// By the sum of the auxiliary variables, all draws one after another.
    by_sum: Vec<f64>,
}

impl std::fmt::Debug for AugmentedVariable {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("AugmentedVariable");
        shown.field("parties", &self.holder.parties).field("step", &self.holder.step).finish_non_exhaustive()
    }
}

impl AugmentedVariable {
    /// The coordinator of a fit over the parties of these names, which holds the labels.
    ///
    /// # Errors
    /// [`Error::Setting`], [`Error::NoSilos`], or what the head refuses of its labels.
    pub fn new(
        labels: &Labels,
        device: &Device,
        how: (&Settings, &VerticalOptions),
        parties: &[String],
    ) -> Result<Self> {
        let holder = LabelHolder::new(labels, device, how, parties)?;
        if let Augmentation::PowerLikelihood { .. } = how.1.augmentation {
            let expected = "`PowerLikelihood`, the coordinator of that model";
            return Err(Error::Setting { setting: "augmentation", found: "a power likelihood".into(), expected });
        }
        let manifest = manifest(&holder, how.1);
        Ok(Self { holder, manifest })
    }

    /// What the replies to a request make.
    fn total(
        &self,
        replies: &[Message],
        rows: Option<&[usize]>,
        (purpose, step, count): (Purpose, u64, usize),
    ) -> Result<Total> {
        let holder = &self.holder;
        let each = rows.map_or(holder.labels.rows(), <[usize]>::len) * holder.labels.outputs();
        holder.same_step(replies, step)?;
        let eta = sum(&holder.read(replies, "z", count * each)?);
        let mut bounds = sum(&holder.read(replies, "elbo", count)?);
        let (mut gradients, mut by_sum) = (Vec::with_capacity(count), Vec::new());
        for ((bound, own), particle) in bounds.iter_mut().zip(eta.chunks_exact(each.max(1))).zip(0_u32..) {
            let head = holder.draw(purpose, step, particle);
            let at = LikelihoodAt { latents: &head.draw.latent, eta: own, rows, weight: 1.0 };
            let located = |error| Error::Model(error).in_silo("the coordinator", holder.step);
            let likelihood = holder.labels.likelihood(&holder.device, &holder.table, at).map_err(located)?;
            let (own, gradient) = holder.share(&head, &likelihood.latents)?;
            *bound += likelihood.value + own;
            gradients.push(gradient);
            match count {
                1 => by_sum = likelihood.eta,
                _ => by_sum.extend(likelihood.eta),
            }
        }
        Ok(Total { bounds, gradients, by_sum })
    }
}

/// What the augmented-variable model lets leave a party.
fn manifest(holder: &LabelHolder, options: &VerticalOptions) -> Manifest {
    let particles = holder.settings.particles;
    let draws = holder.draws_a_request();
    let limit = (particles * holder.most_rows() * holder.labels.outputs()).max(holder.numbers(draws));
    let meaning = match options.augmentation {
        Augmentation::None => {
            "the party's contributions g_j to the rows of the step at one draw of its unknowns, unhidden"
        }
        _ => {
            "z_j: one draw around the party's contributions to the rows of the step; its noise hides a row's contribution at one step, not over many, and not from whoever has the seed of the noise"
        }
    };
    let field = |name, meaning, limit, depends_on_data| Field { name, meaning, limit, depends_on_data };
    let mut fields = vec![
        field("step", "the step answered", 1, false),
        field("z", meaning, limit, true),
        field("elbo", "the party's share of the bound, one number a draw", particles.max(draws), true),
    ];
    fields.extend(holder.clipped_field());
    Manifest { fields }
}

impl Algorithm for AugmentedVariable {
    fn outgoing(&mut self) -> Result<Vec<Request>> {
        let step = self.holder.step;
        Ok(self.holder.requests(STEP, step, |message| self.holder.announce(message, step)))
    }

    fn incoming(&mut self, outcomes: Vec<Outcome>) -> Result<StepInfo> {
        let step = self.holder.step;
        let replies = replies(outcomes, &self.holder.parties, step)?;
        let rows = self.holder.rows(step);
        let what = (Purpose::Fit, step, self.holder.settings.particles);
        let total = self.total(&replies, rows.as_deref(), what)?;
        let before = self.holder.clipped(&replies)?;
        let info = self.holder.ascend(&total.bounds, &total.gradients, vec![total.by_sum])?;
        Ok(StepInfo { clipped: info.clipped || before, ..info })
    }

    fn elbo_requests(&self, draws: usize, offset: u64) -> Vec<Request> {
        self.holder.requests(ASSESS, offset, |message| message.word("draws", draws as u64))
    }

    fn elbo_samples(&self, outcomes: Vec<Outcome>, draws: usize, offset: u64) -> Result<ElboSamples> {
        let replies = replies(outcomes, &self.holder.parties, self.holder.step)?;
        let Total { bounds, gradients, .. } = self.total(&replies, None, (Purpose::Report, offset, draws))?;
        finite("the coordinator", self.holder.step, |_| "the bound".into(), &bounds)?;
        Ok(ElboSamples { elbos: bounds, gradients })
    }

    fn draws_a_request(&self) -> usize {
        self.holder.draws_a_request()
    }

    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn posterior(&self) -> Posterior<'_> {
        self.holder.posterior()
    }

    fn save(&self) -> Message {
        self.holder.save(STATE)
    }

    fn load(&mut self, state: &Message) -> Result<()> {
        self.holder.load(state, STATE)
    }
}
