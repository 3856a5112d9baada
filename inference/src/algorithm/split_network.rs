//! Fits networks whose first parts stay with the parties that hold the columns, by maximum likelihood.

use partita_core::vertical::{Contributed, Labels, Party};
use partita_core::{Device, Minibatches, SiteTable};

use super::finite;
use super::label_holder::{LabelHolder, minibatches, rows_at};
use crate::checkpoint::{self, NamedVectors};
use crate::error::{Error, Result};
use crate::exchange::{InProcess, SiloProgram};
use crate::message::Message;
use crate::optimiser::UpdateRule;
use crate::settings::Settings;

/// What the messages begin with.
const NAME: &str = "split";

/// Split networks: $`y_i \sim p(\,\cdot \mid \sum_j f_{\phi_j}(x_{ij}), \gamma)`$ with $`\phi_j`$ private to party $`j`$, by maximum
/// likelihood.
///
/// Each step takes one exchange: parties send $`z_{ij} = f_{\phi_j}(x_{ij})`$, the coordinator answers with the gradient by
/// them, and parties pull it back to $`\phi_j`$. This is gradient ascent on the pooled network, split over the parties:
/// the same numbers to rounding. The labels stay with the coordinator. Latents that a contribution declares are points too,
/// under their prior (posterior mode), and so are $`\phi_j`$ where the contribution gives them one.
///
/// A baseline: with enough steps it fits the training rows, not the world. What $`z`$ and its gradient show is on the page
/// of what leaves a silo; there is no noise in either.
///
/// # References
/// Vepakomma, Gupta, Swedish and Raskar (2018), Split learning for health; Hassan, Sutton, Mira and Mengersen (2024),
/// section 5.3.
#[derive(Debug, Clone, Copy)]
pub struct SplitNetwork;

impl SplitNetwork {
    /// The coordinator and the parties before the first step, for [`crate::run()`].
    ///
    /// After $`k`$ exchanges parties have moved $`k - 1`$ times: the first one only asks for the predictors.
    ///
    /// # Errors
    /// [`Error::NoSilos`], [`Error::DuplicateSilo`], [`Error::Setting`]; [`Error::InSilo`] for a party with other rows than
    /// the labels, or what a declaration refuses.
    pub fn parties(
        parties: Vec<Party>,
        labels: Labels,
        device: &Device,
        (settings, threads): (&Settings, usize),
    ) -> Result<(LabelHolder, InProcess)> {
        let coordinator = LabelHolder::new(NAME, (&parties, labels), device, settings)?;
        let mut programs: Vec<Box<dyn SiloProgram>> = Vec::new();
        for party in parties {
            programs.push(Box::new(SplitParty::new(party, device, settings)?));
        }
        Ok((coordinator, InProcess::new(programs, threads)?))
    }
}

/// A party of a [`SplitNetwork`].
pub struct SplitParty {
    party: Party,
    table: SiteTable,
    device: Device,
    settings: Settings,
    batches: Option<Minibatches>,
    latents: Vec<f64>,
    theta: Vec<f64>,
    rule: Box<dyn UpdateRule>,
    /// What was sent last, with its tape; made again after a restore.
    sent: Option<Contributed>,
    step: u64,
}

impl std::fmt::Debug for SplitParty {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("SplitParty")
            .field("party", &self.party)
            .field("step", &self.step)
            .finish_non_exhaustive()
    }
}

impl SplitParty {
    /// The program of `party`, which starts at the point parameters it has and at latents of 0 on the unconstrained scale.
    ///
    /// # Errors
    /// What its declaration refuses.
    pub fn new(mut party: Party, device: &Device, settings: &Settings) -> Result<Self> {
        let table = party.table(device)?;
        let theta = party.theta()?;
        party.set_theta(&theta, device)?;
        Ok(Self {
            batches: minibatches(settings, party.rows())?,
            latents: vec![0.0; table.global_len()],
            rule: settings.optimiser.start(device),
            device: device.clone(),
            settings: settings.clone(),
            theta,
            party,
            table,
            sent: None,
            step: 0,
        })
    }

    fn contribute(&self, step: u64) -> Result<Contributed> {
        let rows = rows_at(self.batches.as_ref(), self.settings.seed, step);
        Ok(self.party.contribute(&self.device, &self.table, &self.latents, rows.as_deref())?)
    }

    /// Moves the point by the gradient of what was sent in the step before `step`.
    fn move_by(&mut self, request: &Message, step: u64) -> Result<()> {
        let sent = match self.sent.take() {
            Some(sent) => sent,
            None => self.contribute(step - 1)?,
        };
        let gradient = request.expect_floats("gradient", sent.outputs().values.len())?;
        let pulled = sent.pull_back(&gradient)?;
        let mut gradient: Vec<f64> = pulled.globals.iter().chain(&pulled.theta).map(|g| -g).collect();
        finite(&format!("silo `{}`", self.party.name()), step, |i| format!("the gradient by number {i}"), &gradient)?;
        // Clipping in a party is the party's own affair: it is not reported.
        let _ = self.settings.clip.is_some_and(|clip| clip.apply(&mut gradient));
        let rate = self.settings.schedule.rate(step - 1, self.settings.steps);
        let mut point = [self.latents.as_slice(), &self.theta].concat();
        self.rule.step(rate, &mut point, &gradient);
        self.put(point)
    }

    fn put(&mut self, mut point: Vec<f64>) -> Result<()> {
        let theta = point.split_off(self.latents.len());
        self.party.set_theta(&theta, &self.device)?;
        (self.latents, self.theta) = (point, theta);
        Ok(())
    }

    fn answer_step(&mut self, request: &Message) -> Result<Message> {
        let step = request.get_word("step")?;
        if step != self.step {
            let problem = format!("step {step} was asked of a party at step {}", self.step);
            return Err(Error::Message { kind: request.kind.clone(), problem });
        }
        let before = self.state();
        let sent = (|| {
            if request.has("gradient") {
                self.move_by(request, step)?;
            }
            self.contribute(step)
        })();
        match sent {
            Ok(sent) => {
                let reply = Message::new("split.predictor").word("step", step);
                let reply = reply.floats("predictor", &sent.outputs().values);
                (self.sent, self.step) = (Some(sent), step + 1);
                Ok(reply)
            }
            Err(error) => {
                // A failed answer leaves the state as it was.
                self.load(&before)?;
                Err(error)
            }
        }
    }

    fn state(&self) -> NamedVectors {
        let mut state = vec![("latents".to_owned(), self.latents.clone()), ("theta".to_owned(), self.theta.clone())];
        state.extend(self.rule.save().into_iter().map(|(name, values)| (format!("rule.{name}"), values)));
        state
    }

    fn load(&mut self, state: &NamedVectors) -> Result<bool> {
        let find = |wanted: &str| state.iter().find(|(name, _)| name == wanted).map(|(_, values)| values);
        let (Some(latents), Some(theta)) = (find("latents"), find("theta")) else { return Ok(false) };
        if latents.len() != self.latents.len() || theta.len() != self.theta.len() {
            return Ok(false);
        }
        let own =
            state.iter().filter_map(|(name, values)| Some((name.strip_prefix("rule.")?.to_owned(), values.clone())));
        if !self.rule.load(own.collect()) {
            return Ok(false);
        }
        self.sent = None;
        self.put([latents.as_slice(), theta].concat())?;
        Ok(true)
    }
}

impl SiloProgram for SplitParty {
    fn name(&self) -> &str {
        self.party.name()
    }

    /// The latents as points: means, and standard deviations of 0.
    fn local_moments(&self) -> Result<Vec<(Vec<f64>, Vec<f64>)>> {
        Ok(vec![(self.latents.clone(), vec![0.0; self.latents.len()])])
    }

    fn private_theta(&self) -> Vec<f64> {
        self.theta.clone()
    }

    fn answer(&mut self, request: &Message) -> Result<Message> {
        match request.kind.as_str() {
            "split.step" => self.answer_step(request),
            "split.assess" => {
                let all = self.party.contribute(&self.device, &self.table, &self.latents, None)?;
                let reply = Message::new("split.predictor").word("step", request.get_word("step")?);
                Ok(reply.floats("predictor", &all.outputs().values))
            }
            "silo.save" => {
                let folder = request.get_setting("folder")?;
                checkpoint::save_silo(folder.as_ref(), self.name(), self.step, self.state())?;
                Ok(Message::new("silo.saved"))
            }
            "silo.restore" => {
                let folder = request.get_setting("folder")?;
                let (step, state) = checkpoint::load_silo(folder.as_ref(), self.name())?;
                if !self.load(&state)? {
                    return Err(checkpoint::other_model(folder.as_ref(), self.name()));
                }
                self.step = step;
                Ok(Message::new("silo.restored"))
            }
            other => Err(Error::Message {
                kind: other.to_owned(),
                problem: "a party of a split network does not know it".into(),
            }),
        }
    }
}
