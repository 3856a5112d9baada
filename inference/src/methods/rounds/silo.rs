//! Gives the silo's side of rounds of local steps: many steps on its own data, from the common posterior or point.

use partita_core::{Model, Part, Purpose};

use crate::engine::checkpoint;
use crate::engine::error::{Error, Result};
use crate::engine::exchange::SiloProgram;
use crate::engine::optimiser::UpdateRule;
use crate::engine::terms::objective::GlobalPrior;
use crate::engine::terms::particles::Draws;
use crate::engine::terms::silo::Silo;
use crate::engine::wire::message::{LARGEST_COUNT, Message};

/// What names of the state of the optimiser of globals begin with.
const GLOBAL: &str = "global.";

/// One party of SFVI-Avg or of federated averaging of points; it also answers what a party of SFVI does, so that one run
/// may go from rounds to steps.
pub struct AveragingSilo<M: Model> {
    silo: Silo<M>,
    index: u32,
    rule: Box<dyn UpdateRule>,
    /// Local steps of the present round whose gradient was clipped.
    clipped: u64,
    /// The most local steps of a round that its owner allows.
    most_steps: u64,
}

impl<M: Model> std::fmt::Debug for AveragingSilo<M> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("AveragingSilo").field("silo", &self.silo).finish_non_exhaustive()
    }
}

/// What the local steps of a round ascend, less the pull towards where they started.
#[derive(Debug, Clone, Copy)]
struct Objective {
    /// What the silo's own log density is multiplied by.
    weight: f64,
    /// What the entropy of its local posterior is multiplied by.
    entropy: f64,
    /// What the log density of the globals is multiplied by.
    prior: f64,
    /// $\mu$ of the proximal term $`\tfrac\mu2\lVert w - w_t\rVert^2`$ over global parameters and θ.
    proximal: f64,
}

impl<M: Model> AveragingSilo<M> {
    /// Lets a silo, the `index`-th of the run, take local steps.
    #[must_use]
    pub fn new(silo: Silo<M>, index: u32) -> Self {
        let rule = silo.settings.optimiser.start(&silo.device);
        Self { silo, index, rule, clipped: 0, most_steps: LARGEST_COUNT }
    }

    /// The same silo, which refuses rounds of more local steps than this.
    #[must_use]
    pub fn at_most(self, local_steps: u64) -> Self {
        Self { most_steps: local_steps, ..self }
    }

    /// Lets a silo take local steps of point estimation.
    ///
    /// # Errors
    /// [`Error::Setting`] for a model with local latents: a mean of losses over observations has no place for them.
    pub fn of_points(silo: Silo<M>, index: u32) -> Result<Self> {
        if let Some(site) = silo.table.latents(Part::Local).next() {
            let found = format!("FedOpt for a model whose site `{}` is latent in each silo", site.name);
            let expected = "a model whose latents are all global; SfviAvg and Sfvi take local latents";
            return Err(Error::Setting { setting: "algorithm", found, expected });
        }
        Ok(Self::new(silo, index))
    }

    /// A round of SFVI-Avg.
    fn average_round(&mut self, request: &Message) -> Result<Message> {
        let weight = request.get_number("scale")?;
        let entropy = if request.get_setting("scale_entropy")? == "yes" { weight } else { 1.0 };
        let keeps_optimiser = request.get_setting("keep_optimiser")? == "yes";
        self.round(request, Objective { weight, entropy, prior: 1.0, proximal: 0.0 }, keeps_optimiser)
    }

    /// A round of federated averaging of points.
    fn point_round(&mut self, request: &Message) -> Result<Message> {
        let weight = request.get_number("weight")?;
        let (prior, proximal) = (request.get_number("prior")?, request.get_number("proximal")?);
        self.round(request, Objective { weight, entropy: weight, prior, proximal }, false)
    }

    /// A round; one that ends in an error leaves the silo as it was before.
    fn round(&mut self, request: &Message, objective: Objective, keeps_optimiser: bool) -> Result<Message> {
        let before = self.state();
        let answer = self.steps(request, objective, keeps_optimiser);
        if answer.is_err() {
            self.rule = self.silo.settings.optimiser.start(&self.silo.device);
            if !self.load(before) {
                unreachable!("invariant: a silo takes back its own state");
            }
        }
        answer
    }

    /// What is saved of this silo.
    fn state(&self) -> Vec<(String, Vec<f64>)> {
        let mut state = self.silo.state();
        state.extend(self.rule.save().into_iter().map(|(name, values)| (format!("{GLOBAL}{name}"), values)));
        state
    }

    /// Takes it back; false if it is of another model or optimiser.
    fn load(&mut self, state: Vec<(String, Vec<f64>)>) -> bool {
        let (globals, own): (Vec<_>, Vec<_>) = state.into_iter().partition(|(name, _)| name.starts_with(GLOBAL));
        let rule = globals.into_iter().map(|(name, values)| (name[GLOBAL.len()..].to_owned(), values));
        self.silo.load(&own) && self.rule.load(rule.collect())
    }

    fn steps(&mut self, request: &Message, objective: Objective, keeps_optimiser: bool) -> Result<Message> {
        let mut globals = self.silo.read_globals(request)?;
        let (first, count) =
            (request.get_count("step", LARGEST_COUNT)?, request.get_count("local_steps", self.most_steps)?);
        let round = request.get_count("round", LARGEST_COUNT)?;
        let mut values = self.silo.shared_theta(request)?;
        if !keeps_optimiser {
            self.rule = self.silo.settings.optimiser.start(&self.silo.device);
        }
        let start = [globals.as_slice(), &values].concat();
        let mut last = Vec::new();
        self.clipped = 0;
        for step in first..first + count {
            let elbo = self.local_step(step, (&mut globals, &mut values), objective, &start)?;
            // The bound reported is the mean over the last tenth of the round.
            if step - first >= count - count.div_ceil(10) {
                last.push(elbo);
            }
        }
        self.silo.step = first + count;
        let elbo = crate::engine::trust::estimate::mean_and_variance(&last).0;
        let reply = Message::new("avg.answer").word("round", round).floats("global", &globals);
        let reply = reply.floats("elbo", &[elbo]).word("clipped", self.clipped);
        Ok(if values.is_empty() { reply } else { reply.floats("theta", &values) })
    }

    /// One step on this silo's data, of a round that began at `start`.
    fn local_step(
        &mut self,
        step: u64,
        (globals, values): (&mut Vec<f64>, &mut Vec<f64>),
        Objective { weight, entropy: entropy_weight, prior, proximal }: Objective,
        start: &[f64],
    ) -> Result<f64> {
        let silo = &mut self.silo;
        let (owner, count) = (self.index, silo.settings.particles);
        let draw = Draws { purpose: Purpose::Fit, step, count, owner, weight, entropy_weight, may_join: true };
        let mut objective = silo.local_objective(globals, values.len(), draw, GlobalPrior::Model(prior))?;
        let bound = objective.bound;
        if proximal > 0.0 {
            let points = globals.iter().chain(&*values).zip(start);
            let pulled = objective.gradient.iter_mut().zip(points);
            pulled.for_each(|(g, (own, from))| *g += proximal * (own - from));
        }
        if silo.settings.clip.is_some_and(|clip| clip.apply(&mut objective.gradient)) {
            self.clipped += 1;
        }
        let rate = silo.settings.schedule.rate(step, silo.settings.steps);
        let mut all = [globals.as_slice(), values].concat();
        self.rule.step(rate, &mut all, &objective.gradient);
        *values = all.split_off(globals.len());
        *globals = all;
        silo.move_locals(objective, rate);
        silo.set_theta(values)?;
        Ok(bound)
    }
}

impl<M: Model> SiloProgram for AveragingSilo<M> {
    fn name(&self) -> &str {
        self.silo.name()
    }

    fn local_moments(&self) -> Result<Vec<(Vec<f64>, Vec<f64>)>> {
        self.silo.local_moments()
    }

    fn private_theta(&self) -> Vec<f64> {
        self.silo.private_theta()
    }

    fn answer(&mut self, request: &Message) -> Result<Message> {
        match request.kind.as_str() {
            "avg.round" => self.average_round(request),
            "fed.round" => self.point_round(request),
            "silo.save" => {
                let folder = request.get_setting("folder")?;
                checkpoint::save_silo(folder.as_ref(), &self.silo.name, self.silo.step, self.state())?;
                Ok(Message::new("silo.saved"))
            }
            "silo.restore" => {
                let folder = request.get_setting("folder")?;
                let (step, state) = checkpoint::load_silo(folder.as_ref(), &self.silo.name)?;
                if !self.load(state) {
                    return Err(checkpoint::other_model(folder.as_ref(), &self.silo.name));
                }
                self.silo.step = step;
                Ok(Message::new("silo.restored"))
            }
            _ => self.silo.answer(request),
        }
    }
}
