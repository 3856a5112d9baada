//! Gives the silo's side of PVI: takes its own factor out of the posterior, solves its local problem, answers the change.

use partita_core::{Key, LogDensity, Model, Noise, Purpose};

use super::super::finite;
use super::super::local_objective::GlobalPrior;
use super::super::particles::Draws;
use super::super::sfvi_silo::{Silo, describe_global};
use super::options::{Factors, PviOptions};
use crate::checkpoint;
use crate::divergence::{Divergence, DivergenceChoice};
use crate::error::{Error, Result};
use crate::exchange::SiloProgram;
use crate::exponential_family::{ExponentialFamily, NormalFamily};
use crate::family::Family;
use crate::message::{LARGEST_COUNT, Message};
use crate::solver::{LocalProblem, LocalSolver, Sampled, Visit};

/// One party of PVI. Its factor stays here and moves in two phases: what it answered becomes part of it when the next
/// request says how much of it the coordinator took.
pub struct PviSilo<M: Model> {
    silo: Silo<M>,
    index: u32,
    options: PviOptions,
    natural: NormalFamily,
    /// Natural parameters of $`t_m`$.
    factor: Vec<f64>,
    pending: Option<Pending>,
    solver: Box<dyn LocalSolver>,
}

/// An answer that the coordinator has yet to take.
#[derive(Debug, Clone, PartialEq)]
struct Pending {
    version: u64,
    change: Vec<f64>,
}

impl<M: Model> std::fmt::Debug for PviSilo<M> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("PviSilo")
            .field("silo", &self.silo)
            .field("solver", &self.solver)
            .finish_non_exhaustive()
    }
}

impl<M: Model> PviSilo<M> {
    /// Gives a silo, the `index`-th of the run, a factor, which starts as 1.
    ///
    /// # Errors
    /// [`Error::Setting`] for families that are not normal densities in natural parameters, or options that mean nothing.
    pub fn new(silo: Silo<M>, index: u32, options: PviOptions) -> Result<Self> {
        options.check()?;
        let natural = silo.settings.family.natural_family(&silo.table)?;
        let solver = options.solver.start(&silo.settings, &silo.device);
        if options.hold_improper && !natural.is_diagonal() {
            return Err(Error::Setting {
                setting: "hold_improper",
                found: "a family with correlated components".into(),
                expected: "a diagonal one, whose factors have a precision for each component",
            });
        }
        let factor = vec![0.0; natural.natural_len()];
        Ok(Self { silo, index, options, natural, factor, pending: None, solver })
    }

    /// Natural parameters of the silo's factor $`t_m`$, without an answer that the coordinator has yet to take.
    #[must_use]
    pub fn factor(&self) -> &[f64] {
        &self.factor
    }

    /// The factor as the coordinator has it.
    fn settled(&self, request: &Message) -> Result<Vec<f64>> {
        if request.has("factor") {
            return request.expect_floats("factor", self.factor.len());
        }
        let (version, share) = (request.get_word("settled")?, request.get_number("share")?);
        match &self.pending {
            Some(pending) if pending.version == version => {
                Ok(self.factor.iter().zip(&pending.change).map(|(own, change)| own + share * change).collect())
            }
            None if version == 0 => Ok(self.factor.clone()),
            found => Err(Error::Message {
                kind: request.kind.clone(),
                problem: format!(
                    "it settles answer {version}, and this silo waits to hear of {:?}. Let the coordinator send the factor as it knows it (`Pvi::join`)",
                    found.as_ref().map(|pending| pending.version)
                ),
            }),
        }
    }

    /// Answers `pvi.solve`.
    fn solve(&mut self, request: &Message) -> Result<Message> {
        let received = request.expect_floats("natural", self.factor.len())?;
        self.silo.read_theta(request)?;
        let (version, damping) = (request.get_word("version")?, request.get_number("damping")?);
        let factor = self.settled(request)?;
        let cavity = match self.options.factors {
            Factors::Own => difference(&received, &factor),
            Factors::Forgotten => received.clone(),
            Factors::Shared => difference(&received, &request.expect_floats("shared", self.factor.len())?),
        };
        let improper_cavity = self.natural.impropriety(&cavity).is_some();
        let (first, steps, total) = (
            request.get_count("step", LARGEST_COUNT)?,
            request.get_count("local_steps", self.options.local_steps)?,
            self.silo.settings.steps,
        );
        let is_prior = version == 1;
        let visit = Visit { received, is_prior, first, steps, total };
        let (index, divergence) = (self.index, self.options.divergence);
        let mut problem = Problem { silo: &mut self.silo, index, natural: &self.natural, cavity: &cavity, divergence };
        let solved = self.solver.solve(&mut problem, &visit)?;
        self.natural.check("the solution of a local problem", &solved.natural)?;
        let mut change = difference(&solved.natural, &visit.received);
        change.iter_mut().for_each(|change| *change *= damping);
        let held = if self.options.hold_improper { self.natural.hold_improper(&factor, &mut change) } else { 0 };
        self.silo.step = first + steps;
        self.factor = factor;
        self.pending = Some(Pending { version, change: change.clone() });
        Ok(Message::new("pvi.answer")
            .word("version", version)
            .floats("change", &change)
            .number("log_likelihood", solved.log_likelihood)
            .word("steps", solved.steps)
            .word("clipped", solved.clipped)
            .word("shortened", solved.shortened)
            .word("held", held)
            .word("improper_cavity", u64::from(improper_cavity)))
    }

    /// What is saved beside the silo's own state.
    fn extra(&self) -> Vec<(String, Vec<f64>)> {
        let mut state = vec![("pvi.factor".to_owned(), self.factor.clone())];
        if let Some(pending) = &self.pending {
            state.push(("pvi.pending.version".into(), vec![f64::from_bits(pending.version)]));
            state.push(("pvi.pending.change".into(), pending.change.clone()));
        }
        state.extend(self.solver.save().into_iter().map(|(name, values)| (format!("pvi.solver.{name}"), values)));
        state
    }

    fn restore(&mut self, request: &Message) -> Result<Message> {
        let answer = self.silo.answer(request)?;
        let folder = request.get_setting("folder")?;
        let (_, state) = checkpoint::load_silo(folder.as_ref(), &self.silo.name)?;
        let refuse = || checkpoint::other_model(folder.as_ref(), &self.silo.name);
        let find = |name: &str| state.iter().find(|(own, _)| own == name).map(|(_, values)| values.clone());
        self.factor = find("pvi.factor").filter(|own| own.len() == self.factor.len()).ok_or_else(refuse)?;
        self.pending = match (find("pvi.pending.version").as_deref(), find("pvi.pending.change")) {
            (Some([version]), Some(change)) if change.len() == self.factor.len() => {
                Some(Pending { version: version.to_bits(), change })
            }
            _ => None,
        };
        let solver = state
            .iter()
            .filter_map(|(name, values)| Some((name.strip_prefix("pvi.solver.")?.to_owned(), values.clone())));
        if self.solver.load(solver.collect()) { Ok(answer) } else { Err(refuse()) }
    }
}

fn difference(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a - b).collect()
}

/// The local problem of one visit.
struct Problem<'a, M: Model> {
    silo: &'a mut Silo<M>,
    index: u32,
    natural: &'a NormalFamily,
    cavity: &'a [f64],
    divergence: DivergenceChoice,
}

/// The block of keys for what solvers and divergences draw, apart from those of latents.
const SOLVER_BLOCK: u32 = u32::MAX - 1;

impl<M: Model> LocalProblem for Problem<'_, M> {
    fn family(&self) -> &dyn Family {
        &*self.silo.family
    }

    fn natural_family(&self) -> &NormalFamily {
        self.natural
    }

    fn initial(&self) -> Vec<f64> {
        self.silo.settings.family.start(&*self.silo.family, &self.silo.table)
    }

    fn cavity(&self) -> &[f64] {
        self.cavity
    }

    fn noise(&self, step: u64) -> (Noise, Key) {
        (Noise::new(self.silo.settings.seed), Key::new(Purpose::Fit, step).silo(self.index).block(SOLVER_BLOCK))
    }

    fn divergence(&self, step: u64) -> Box<dyn Divergence> {
        let (noise, key) = self.noise(step);
        self.divergence.start(noise, key)
    }

    fn sample(&mut self, parameters: &[f64], step: u64, rate: f64) -> Result<Sampled> {
        let (count, theta) = (self.silo.settings.particles, self.silo.theta_len);
        let draw = Draws { owner: self.index, may_join: true, ..Draws::shared(Purpose::Fit, step, count) };
        let divergence = self.divergence(step);
        // Where the entropy is in closed form, so is all of the divergence.
        let is_sampled =
            self.divergence == DivergenceChoice::KullbackLeibler && !self.silo.settings.estimator.closes_entropy();
        let prior = match is_sampled {
            true => GlobalPrior::Factor(self.natural, self.cavity),
            false => GlobalPrior::Diverging(self.natural, self.cavity, &*divergence),
        };
        let mut objective = self.silo.local_objective(parameters, theta, draw, prior)?;
        let mut gradient = std::mem::take(&mut objective.gradient);
        gradient.truncate(parameters.len());
        let (free_energy, log_likelihood) = (objective.bound, objective.likelihood);
        self.silo.move_locals(objective, rate);
        Ok(Sampled { free_energy, log_likelihood, gradient })
    }

    fn log_likelihood(&mut self, point: &[f64]) -> Result<(f64, Vec<f64>)> {
        if self.silo.table.blocks().iter().any(|block| block.width > 0) {
            return Err(Error::Setting {
                setting: "solver",
                found: "a solver without draws, for a model with local latents".into(),
                expected: "SolverChoice::Gradient, which draws them",
            });
        }
        let (model, data) = &self.silo.workers[0];
        let locals = vec![Vec::new(); self.silo.table.blocks().len()];
        let latents = partita_core::Latents { globals: point, locals: &locals };
        let density = LogDensity::new(model, &self.silo.device, &self.silo.table).loss(self.silo.settings.loss);
        let assessment = density.local(latents, data)?;
        let (name, step) = (&self.silo.name, self.silo.step);
        finite(name, step, |index| describe_global(&self.silo.table, index), &assessment.globals)?;
        Ok((assessment.value, assessment.globals))
    }
}

impl<M: Model> SiloProgram for PviSilo<M> {
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
            "pvi.solve" => self.solve(request),
            "silo.save" => {
                let mut state = self.silo.state();
                state.extend(self.extra());
                let folder = request.get_setting("folder")?;
                checkpoint::save_silo(folder.as_ref(), &self.silo.name, self.silo.step, state)?;
                Ok(Message::new("silo.saved"))
            }
            "silo.restore" => self.restore(request),
            _ => self.silo.answer(request),
        }
    }
}
