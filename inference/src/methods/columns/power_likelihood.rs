//! Gives the coordinator of the power-likelihood model: labels are at the parties, two exchanges make a step.

use partita_core::vertical::{Augmentation, Labels};
use partita_core::{Device, Purpose};

use crate::engine::algorithm::{Algorithm, ElboFollowUp, ElboSamples, Posterior, StepInfo, Tally, finite, replies};
use crate::engine::error::{Error, Result};
use crate::engine::exchange::{Outcome, Request};
use crate::engine::settings::Settings;
use crate::engine::wire::manifest::{Field, Manifest};
use crate::engine::wire::message::Message;
use crate::methods::columns::label_holder::{HeadDraw, LabelHolder, sum};
use crate::methods::columns::{ASSESS, ASSESS_SHARE, SHARE, STEP, VerticalOptions};

const STATE: &str = "vertical.power_likelihood";

/// The power-likelihood model over parties that hold different columns and all know the labels: two exchanges a step.
///
/// ```math
/// \pi \propto \prod_j p\big(y \mid g_j + \textstyle\sum_{k \ne j} z_k, \gamma\big)^{1/J}\, N(z_j \mid g_j, \rho^2)\, p_j(\theta_j)
/// ```
/// Parties send $`z_j`$; the coordinator answers with the sum $`s = \sum_k z_k`$ and its draw of $`\gamma`$. Party
/// $`j`$ evaluates its factor at $`g_j + s - z_j`$ and sends $`h_j`$, the gradient of its logarithm by that predictor,
/// which is the gradient by $`z_k`$ for every $`k \ne j`$ and by $`g_j`$. The coordinator returns $`\sum_{k \ne j}
/// h_k`$ to party $`j`$ with the next request. Each message has one number a row and output where the printed algorithm
/// has one for every party too, and all say the same, since $`z`$ enters through sums. Parties say with $`z_j`$ whether
/// they clipped the gradient of the step before, as in [`AugmentedVariable`](crate::AugmentedVariable).
///
/// # References
/// Hassan, Sutton, Mira and Mengersen (2024), section 4.4 and Algorithm 2.
pub struct PowerLikelihood {
    holder: LabelHolder,
    manifest: Manifest,
    /// What the second exchange of a step brings: sums of all auxiliary variables, draw by draw.
    sums: Option<Sums>,
}

/// What the first exchange of a step left.
struct Sums {
    values: Vec<f64>,
    /// Whether a party clipped its gradient in the step before.
    clipped: bool,
}

impl std::fmt::Debug for PowerLikelihood {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("PowerLikelihood");
        shown.field("parties", &self.holder.parties).field("step", &self.holder.step).finish_non_exhaustive()
    }
}

impl PowerLikelihood {
    /// The coordinator of a fit over the parties of these names; of the labels it uses their number only.
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
        if !matches!(how.1.augmentation, Augmentation::PowerLikelihood { .. }) {
            let found = format!("{:?}", how.1.augmentation);
            let expected = "Augmentation::PowerLikelihood; `AugmentedVariable` serves the others";
            return Err(Error::Setting { setting: "augmentation", found, expected });
        }
        let manifest = manifest(&holder);
        Ok(Self { holder, manifest, sums: None })
    }

    fn heads(&self, purpose: Purpose, step: u64, count: usize) -> Vec<HeadDraw> {
        (0..count).zip(0_u32..).map(|(_, particle)| self.holder.draw(purpose, step, particle)).collect()
    }

    /// The requests of the second exchange.
    fn sharing(&self, kind: &str, sums: &[f64], (purpose, step, count): (Purpose, u64, usize)) -> Vec<Request> {
        let heads: Vec<f64> = self.heads(purpose, step, count).into_iter().flat_map(|head| head.draw.latent).collect();
        let parties = self.holder.parties.len() as u64;
        self.holder.requests(kind, step, |message| {
            let message = message.word("parties", parties).floats("sum", sums).floats("head", &heads);
            if purpose == Purpose::Report { message.word("draws", count as u64) } else { message }
        })
    }

    /// Bounds and gradients by the head's posterior that the replies of the second exchange make, draw by draw.
    fn total(
        &self,
        replies: &[Message],
        (purpose, step, count): (Purpose, u64, usize),
    ) -> Result<(Vec<f64>, Vec<Vec<f64>>)> {
        let holder = &self.holder;
        holder.same_step(replies, step)?;
        let unknowns = holder.table.global_len();
        let mut bounds = sum(&holder.read(replies, "elbo", count)?);
        let by_head = sum(&holder.read(replies, "head_gradient", count * unknowns)?);
        let mut gradients = Vec::with_capacity(count);
        for (index, (bound, head)) in bounds.iter_mut().zip(self.heads(purpose, step, count)).enumerate() {
            let (own, gradient) = holder.share(&head, &by_head[index * unknowns..(index + 1) * unknowns])?;
            *bound += own;
            gradients.push(gradient);
        }
        Ok((bounds, gradients))
    }

    /// Numbers of auxiliary variables in the reply of a step.
    fn numbers(&self) -> usize {
        let rows = self.holder.rows(self.holder.step).map_or(self.holder.labels.rows(), |rows| rows.len());
        self.holder.settings.particles * rows * self.holder.labels.outputs()
    }
}

/// What the power-likelihood model lets leave a party.
fn manifest(holder: &LabelHolder) -> Manifest {
    let particles = holder.settings.particles;
    let draws = holder.draws_a_request();
    let count = particles.max(draws);
    let limit = particles * holder.most_rows() * holder.labels.outputs();
    let field = |name, meaning, limit, depends_on_data| Field { name, meaning, limit, depends_on_data };
    let mut fields = vec![
        field("step", "the step answered", 1, false),
        field(
            "z",
            "z_j: one draw around the party's contributions to the rows of the step; its noise hides a row's contribution at one step, not over many, and not from whoever has the seed of the noise",
            limit.max(holder.numbers(draws)),
            true,
        ),
        field(
            "share",
            "h_j: gradient of the party's likelihood by the predictor of each row; with the label it tells the predictor, and so the contribution",
            limit,
            true,
        ),
        field("elbo", "the party's share of the bound, one number a draw", count, true),
        field(
            "head_gradient",
            "gradient of the party's likelihood by the unknowns of the head",
            count * holder.table.global_len(),
            true,
        ),
    ];
    fields.extend(holder.clipped_field());
    Manifest { fields }
}

impl Algorithm for PowerLikelihood {
    fn outgoing(&mut self) -> Result<Vec<Request>> {
        let step = self.holder.step;
        match &self.sums {
            None => Ok(self.holder.requests(STEP, step, |message| self.holder.announce(message, step))),
            Some(sums) => {
                let mut requests =
                    self.sharing(SHARE, &sums.values, (Purpose::Fit, step, self.holder.settings.particles));
                // The gradients of the step before came with the first exchange.
                for request in &mut requests {
                    request.message.records.retain(|record| !["answered", "gradient"].contains(&record.name.as_str()));
                }
                Ok(requests)
            }
        }
    }

    fn incoming(&mut self, outcomes: Vec<Outcome>) -> Result<StepInfo> {
        let step = self.holder.step;
        // A step that fails begins again with its first exchange.
        let sums = self.sums.take();
        let replies = replies(outcomes, &self.holder.parties, step)?;
        let numbers = self.numbers();
        let Some(sums) = sums else {
            self.holder.same_step(&replies, step)?;
            let values = sum(&self.holder.read(&replies, "z", numbers)?);
            self.sums = Some(Sums { values, clipped: self.holder.clipped(&replies)? });
            return Ok(StepInfo::still(step, Tally::default()));
        };
        let (bounds, gradients) = self.total(&replies, (Purpose::Fit, step, self.holder.settings.particles))?;
        let shares = self.holder.read(&replies, "share", numbers)?;
        let all = sum(&shares);
        let others = |own: &Vec<f64>| all.iter().zip(own).map(|(all, own)| all - own).collect();
        let info = self.holder.ascend(&bounds, &gradients, shares.iter().map(others).collect())?;
        Ok(StepInfo { clipped: info.clipped || sums.clipped, ..info })
    }

    fn elbo_requests(&self, draws: usize, offset: u64) -> Vec<Request> {
        self.holder.requests(ASSESS, offset, |message| message.word("draws", draws as u64))
    }

    fn elbo_follow_up(&self, outcomes: Vec<Outcome>, draws: usize, offset: u64) -> Result<ElboFollowUp> {
        let replies = replies(outcomes, &self.holder.parties, self.holder.step)?;
        self.holder.same_step(&replies, offset)?;
        let sums = sum(&self.holder.read(&replies, "z", self.holder.numbers(draws))?);
        Ok(ElboFollowUp::Ask(self.sharing(ASSESS_SHARE, &sums, (Purpose::Report, offset, draws))))
    }

    fn elbo_samples(&self, outcomes: Vec<Outcome>, draws: usize, offset: u64) -> Result<ElboSamples> {
        let replies = replies(outcomes, &self.holder.parties, self.holder.step)?;
        let (elbos, gradients) = self.total(&replies, (Purpose::Report, offset, draws))?;
        finite("the coordinator", self.holder.step, |_| "the bound".into(), &elbos)?;
        Ok(ElboSamples { elbos, gradients })
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
        self.sums = None;
        self.holder.load(state, STATE)
    }
}
