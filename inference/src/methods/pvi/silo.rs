//! Gives the silo's side of PVI: takes its own factor out of the posterior, solves its local problem, answers the change.

use partita_core::{Key, LogDensity, Noise, Purpose};

use crate::engine::algorithm::finite;
use crate::engine::checkpoint::{NamedVectors, named, prefixed, with_prefix};
use crate::engine::divergence::{Divergence, KullbackLeibler};
use crate::engine::error::{Error, Result};
use crate::engine::estimator::add;
use crate::engine::family::Family;
use crate::engine::natural::{ExponentialFamily, NormalFamily, dot};
use crate::engine::on_device::DeviceSteps;
use crate::engine::party::{Commit, Program, Standing};
use crate::engine::plug::Plug;
use crate::engine::rows::StepRows;
use crate::engine::terms::climbing::climb;
use crate::engine::terms::objective::GlobalPrior;
use crate::engine::terms::particles::{Draws, Worker};
use crate::engine::terms::silo::{Silo, describe_global};
use crate::engine::wire::message::Message;
use crate::methods::pvi::messages::{Answer, Solve};
use crate::methods::pvi::on_device::Solving;
use crate::methods::pvi::options::{Factors, PviOptions};
use crate::methods::pvi::solver::{LocalProblem, LocalUpdate, Sampled, Solved};

/// One party of PVI. Its factor stays here and moves in two phases: what it answered becomes part of it when the next
/// request says how much of it the coordinator took.
#[derive(Debug)]
pub struct PviSilo {
    pub(super) silo: Silo,
    index: u32,
    pub(super) options: PviOptions,
    natural: NormalFamily,
    /// Natural parameters of $`t_m`$.
    factor: Vec<f64>,
    pending: Option<Pending>,
    solving: Solving,
}

/// An answer that the coordinator has yet to take.
#[derive(Debug, Clone, PartialEq)]
struct Pending {
    version: u64,
    change: Vec<f64>,
}

impl PviSilo {
    /// Gives a silo, the `index`-th of the run, a factor, which starts as 1.
    ///
    /// # Errors
    /// [`Error::Setting`] for families that are not normal densities in natural parameters, options that mean nothing,
    /// settings that the solver would not follow, and with [`PviOptions::on_device`] for what has no device form.
    pub fn new(silo: Silo, index: u32, options: PviOptions) -> Result<Self> {
        options.check()?;
        let private = silo.locals.private_theta().len();
        let trains_theta = silo.theta_len + private > 0 && options.theta_every > 0;
        options.solver.check_settings(&silo.settings, trains_theta)?;
        let are_left = private > 0 && options.theta_every > 0 && !options.solver.trains_private_theta();
        let found =
            format_args!("{:?} for a model with {private} parameters θ that stay in their silo", options.solver);
        let expected = "GradientDescent, whose steps train them, or theta_every: 0, which leaves them as they are";
        Error::unless(!are_left, "solver", found, expected)?;
        let natural = silo.settings.family.natural_family(&silo.table)?;
        let solving = Solving::start(&options, &silo, index)?;
        let found = "a family with correlated components";
        let expected = "a diagonal one, whose factors have a precision for each component";
        Error::unless(!options.hold_improper || natural.is_diagonal(), "hold_improper", found, expected)?;
        let factor = vec![0.0; natural.natural_len()];
        Ok(Self { silo, index, options, natural, factor, pending: None, solving })
    }

    /// Natural parameters of the silo's factor $`t_m`$, without an answer that the coordinator has yet to take.
    #[must_use]
    pub fn factor(&self) -> &[f64] {
        &self.factor
    }

    /// The factor as the coordinator has it.
    fn settled(&self, request: &Solve) -> Result<Vec<f64>> {
        if let Some(factor) = &request.factor {
            return Ok(factor.clone());
        }
        let (Some(version), Some(share)) = (request.settled, request.share) else {
            return Err(Error::malformed(Solve::KIND, "it has neither `factor` nor `settled` with `share`"));
        };
        match &self.pending {
            Some(pending) if pending.version == version => {
                Ok(self.factor.iter().zip(&pending.change).map(|(own, change)| own + share * change).collect())
            }
            None if version == 0 => Ok(self.factor.clone()),
            found => Err(Error::Message {
                kind: Solve::KIND.into(),
                problem: format!(
                    "it settles answer {version}, and this silo waits to hear of {:?}. Let the coordinator send the factor as it knows it (`Pvi::join`)",
                    found.as_ref().map(|pending| pending.version)
                ),
            }),
        }
    }

    fn solve(&mut self, request: Solve) -> Result<Message> {
        let factor = self.settled(&request)?;
        let Solve { step: first, version, local_steps: steps, damping, theta, shared, natural: received, .. } = request;
        self.silo.set_theta(&theta)?;
        let cavity = match self.options.factors {
            Factors::Own => difference(&received, &factor),
            Factors::Forgotten => received.clone(),
            Factors::Shared | Factors::SharedBySize => {
                let problem = "it has no `shared`, the part of the factor of all that stands for this silo";
                let shared = shared.ok_or_else(|| Error::malformed(Solve::KIND, problem))?;
                difference(&received, &shared)
            }
        };
        let improper_cavity = self.natural.impropriety(&cavity).is_some();
        let update = LocalUpdate { received, is_prior: version == 1, first, steps, total: self.silo.settings.steps };
        let (index, divergence, trains_private) = (self.index, &self.options.divergence, self.options.theta_every > 0);
        let theta = Theta { shared: &theta, trains_private };
        let is_first = self.silo.step == 0 && factor.iter().all(|number| *number == 0.0);
        let is_whitened = !is_first && self.silo.can_climb();
        let (silo, natural, rows) = (&mut self.silo, &self.natural, None);
        let mut problem =
            Problem { silo, index, natural, cavity: &cavity, divergence, theta, is_first, is_whitened, rows };
        let solved = self.solving.solve(&mut problem, &update, theta.shared)?;
        let operation = format!("the solution of a local problem, which damping by rho = {damping} would come after");
        self.natural.check(&operation, &solved.natural)?;
        let mut change = difference(&solved.natural, &update.received);
        change.iter_mut().for_each(|change| *change *= damping);
        let held = if self.options.hold_improper { self.natural.hold_improper(&factor, &mut change) } else { 0 };
        self.silo.step = first + steps;
        self.see(&update.received);
        self.factor = factor;
        self.pending = Some(Pending { version, change: change.clone() });
        // What was sampled of the rows' densities has no noise.
        let log_likelihood = self.silo.noised.is_none().then_some(solved.log_likelihood);
        let Solved { steps, clipped, shortened, .. } = solved;
        let clipped_rows = self.silo.clipped_rows(steps);
        let answer =
            Answer { version, change, log_likelihood, clipped_rows, steps, clipped, shortened, held, improper_cavity };
        Ok(answer.write())
    }

    /// Keeps the posterior of the globals for the marginals of local latents, where it is proper.
    fn see(&mut self, received: &[f64]) {
        let is_read = self.silo.locals.depend_on_globals() && self.natural.impropriety(received).is_none();
        if let Some(Ok(globals)) = is_read.then(|| self.natural.member(&*self.silo.family, received)) {
            self.silo.see(&globals);
        }
    }

    /// What is saved of this silo.
    fn state(&self) -> Result<NamedVectors> {
        let mut state = self.silo.state();
        state.push(("pvi.factor".to_owned(), self.factor.clone()));
        if let Some(pending) = &self.pending {
            state.push(("pvi.pending.version".into(), vec![f64::from_bits(pending.version)]));
            state.push(("pvi.pending.change".into(), pending.change.clone()));
        }
        state.extend(prefixed(SOLVER, self.solving.save_solver()));
        state.extend(self.solving.steps().map_or_else(|| Ok(Vec::new()), DeviceSteps::save)?);
        Ok(state)
    }

    /// Takes back what was saved beside the silo's own state; false if it is of another model or solver.
    fn take_back(&mut self, state: &[(String, Vec<f64>)]) -> bool {
        if let Solving::OnHost(solver) = &mut self.solving {
            *solver = self.options.solver.start(&self.silo.settings, &self.silo.device);
        }
        let like_factor = |name| named(state, name).filter(|own| own.len() == self.factor.len()).map(<[f64]>::to_vec);
        let (factor, change) = (like_factor("pvi.factor"), like_factor("pvi.pending.change"));
        let Some(factor) = factor else { return false };
        self.factor = factor;
        self.pending = match (named(state, "pvi.pending.version"), change) {
            (Some([version]), Some(change)) => Some(Pending { version: version.to_bits(), change }),
            _ => None,
        };
        self.solving.load(with_prefix(state, SOLVER), state)
    }
}

/// What the names of what the solver keeps begin with in a saved state.
const SOLVER: &str = "pvi.solver.";

fn difference(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a - b).collect()
}

/// The model's own parameters during a visit.
#[derive(Clone, Copy)]
struct Theta<'a> {
    /// Those that silos share, which rest.
    shared: &'a [f64],
    /// Whether those that stay in the silo take steps.
    trains_private: bool,
}

/// The local problem of one visit.
struct Problem<'a> {
    silo: &'a mut Silo,
    index: u32,
    natural: &'a NormalFamily,
    cavity: &'a [f64],
    divergence: &'a Plug<dyn Divergence>,
    theta: Theta<'a>,
    /// Whether the silo has solved none before.
    is_first: bool,
    /// Whether it began at a mode, now or in its first visit.
    is_whitened: bool,
    /// The rows last evaluated without draws, and their step.
    rows: Option<(u64, StepRows)>,
}

/// The block of keys for what solvers and divergences draw, apart from those of latents.
const SOLVER_BLOCK: u32 = u32::MAX - 1;

impl LocalProblem for Problem<'_> {
    fn family(&self) -> &dyn Family {
        &*self.silo.family
    }

    fn natural_family(&self) -> &NormalFamily {
        self.natural
    }

    fn initial(&self) -> Vec<f64> {
        self.silo.settings.family.start(&*self.silo.family, &self.silo.table)
    }

    fn begin(&mut self, update: &LocalUpdate) -> Result<Vec<f64>> {
        let known = match update.is_prior {
            true => self.initial(),
            false => self.natural.member(&*self.silo.family, &update.received)?,
        };
        if !self.is_first || !self.silo.can_climb() {
            return Ok(known);
        }
        let Silo { settings, device, table, family, .. } = &*self.silo;
        let Some(climb) = climb(settings, device, table, (&**family, known.as_slice())) else { return Ok(known) };
        let summit = self.silo.summit(climb, |density, latents, data| {
            let point = latents.globals;
            let mut found = density.local(latents, data)?;
            found.value += dot(self.cavity, &self.natural.statistics(point));
            add(&mut found.globals, &self.natural.score(self.cavity, point));
            Ok(found)
        })?;
        let Some(footing) = summit.and_then(|summit| summit.footing(&**family)) else { return Ok(known) };
        let divergence = self.divergence(update.first);
        if divergence.has_domain() {
            // A posterior that is wider than its cavity may be none that the divergence takes.
            let (mean, spread) = (family.mean(&footing.parameters), family.covariance_matrix(&footing.parameters));
            let found = divergence.evaluate_at(self.natural, &mean, &spread, self.cavity);
            if matches!(found, Err(Error::DivergenceDomain { .. })) {
                return Ok(known);
            }
        }
        self.is_whitened = true;
        Ok(footing.parameters)
    }

    fn is_whitened(&self) -> bool {
        self.is_whitened
    }

    fn cavity(&self) -> &[f64] {
        self.cavity
    }

    fn noise(&self, step: u64) -> (Noise, Key) {
        (Noise::new(self.silo.settings.seed), Key::new(Purpose::Fit, step).silo(self.index).block(SOLVER_BLOCK))
    }

    fn divergence(&self, step: u64) -> Plug<dyn Divergence> {
        let (noise, key) = self.noise(step);
        self.divergence.keyed(noise, key).unwrap_or_else(|| self.divergence.clone())
    }

    fn sample(&mut self, parameters: &[f64], step: u64, rate: f64) -> Result<Sampled> {
        let (count, theta) = (self.silo.settings.particles, self.silo.theta_len);
        let draw = Draws { owner: self.index, may_join: true, ..Draws::shared(Purpose::Fit, step, count) };
        let divergence = self.divergence(step);
        // Where the entropy is in closed form, so is all of the divergence.
        let is_sampled =
            self.divergence.get::<KullbackLeibler>().is_some() && !self.silo.settings.estimator.closes_entropy();
        let prior = match is_sampled {
            true => GlobalPrior::Factor(self.natural, self.cavity),
            false => GlobalPrior::Diverging(self.natural, self.cavity, &*divergence),
        };
        let mut objective = self.silo.local_objective(parameters, theta, draw, prior)?;
        let mut gradient = std::mem::take(&mut objective.gradient);
        gradient.truncate(parameters.len());
        let (free_energy, log_likelihood) = (objective.bound, objective.likelihood);
        match self.theta.trains_private && !self.silo.locals.private_theta().is_empty() {
            true => {
                self.silo.move_locals(objective, rate);
                // The next step is at the private θ that this one made.
                self.silo.set_theta(self.theta.shared)?;
            }
            false => self.silo.move_rows(objective, rate),
        }
        Ok(Sampled { free_energy, log_likelihood, gradient })
    }

    fn forget(&mut self) {
        let Silo { locals, settings, device, .. } = &mut *self.silo;
        locals.forget(settings, device);
    }

    fn log_likelihood(&mut self, point: &[f64], step: u64) -> Result<(f64, Vec<f64>)> {
        let found = "a solver without draws, for a model with local latents";
        Error::unless(!self.silo.table.has_local_latents(), "solver", found, "GradientDescent, which draws them")?;
        let rows = match self.rows.take() {
            Some((of, rows)) if of == step => rows,
            _ => self.silo.locals.rows(step),
        };
        let (_, rows) = &*self.rows.insert((step, rows));
        let Worker { model, data } = &self.silo.workers[0];
        let locals = vec![Vec::new(); self.silo.table.blocks().len()];
        let latents = partita_core::Latents { globals: point, locals: &locals };
        let density = LogDensity::new(model, &self.silo.device, &self.silo.table)
            .minibatch(&rows.minibatch)
            .loss(self.silo.settings.loss);
        let evaluated = density.local(latents, data)?;
        finite(&self.silo.name, step, |index| describe_global(&self.silo.table, index), &evaluated.globals)?;
        Ok((evaluated.value, evaluated.globals))
    }
}

impl Program for PviSilo {
    fn standing(&self) -> Standing<'_> {
        self.silo.standing()
    }

    fn reply(&mut self, request: &Message) -> Result<Message> {
        let is_private = self.silo.noised.is_some();
        let (is_made_so, found) = (self.options.private.is_some() == is_private, "private visits without a mechanism");
        Error::unless(is_made_so, "privacy", found, "`PviSilo::private`")?;
        if request.kind != Solve::KIND {
            let problem = "a private silo answers visits alone: bounds, weights and checks have no noise";
            Error::well_formed(!is_private, &request.kind, problem)?;
            self.solving.read_rows(&mut self.silo)?;
            return self.silo.reply(request);
        }
        let solve = Solve::read(request, &self.sizes())?;
        self.silo.begin_noised(request, solve.local_steps)?;
        let before = self.solving.before();
        let answer = self.solve(solve);
        if answer.is_err() {
            self.solving.go_back(before);
        }
        answer
    }

    fn save(&self) -> Result<NamedVectors> {
        self.state()
    }

    fn load(&mut self, step: u64, state: &[(String, Vec<f64>)]) -> Result<bool> {
        Ok(self.silo.load(step, state)? && self.take_back(state))
    }

    fn commit(&self, request: &Message) -> Commit {
        match (request.kind == Solve::KIND, &self.solving) {
            (true, Solving::OnHost(_)) => Commit::AsItGoes,
            // A visit is taken back without a read.
            (true, Solving::OnDevice(_)) => Commit::AtItsEnd,
            (false, _) => self.silo.commit(request),
        }
    }

    fn moments(&self) -> Result<Vec<(Vec<f64>, Vec<f64>)>> {
        match self.solving.steps() {
            Some(steps) => steps.moments(&self.silo),
            None => self.silo.moments(),
        }
    }

    fn kept_theta(&self) -> Vec<f64> {
        self.silo.kept_theta()
    }
}

#[cfg(test)]
mod tests {
    use partita_core::burn::module::Module;
    use partita_core::burn::tensor::Tensor;
    use partita_core::{Device, Model, Normal, Precision, Result as Declared, Scope};

    use super::*;
    use crate::engine::algorithm::Algorithm;
    use crate::engine::divergence::Renyi;
    use crate::engine::exchange::SiloProgram;
    use crate::engine::settings::{Settings, StartFrom};
    use crate::methods::pvi::Pvi;

    /// A number of whose square rows tell.
    #[derive(Module, Debug)]
    struct Root {}

    impl Model for Root {
        type Globals = Tensor<1>;
        type Data = Tensor<1>;

        fn global(&self, scope: &mut Scope<'_>) -> Declared<Tensor<1>> {
            scope.sample("root", Normal::new(0.0, 1.0))
        }

        fn local(&self, scope: &mut Scope<'_>, root: &Tensor<1>, y: &Tensor<1>) -> Declared<()> {
            scope.plate("row", y.dims()[0], |scope, rows| {
                scope.observe("y", Normal::new(root.clone() * root.clone(), 1.0).over(rows), rows.take(y)?)
            })
        }
    }

    fn silo(device: &Device, settings: &Settings) -> Silo {
        let data = device.tensor(vec![0.3], [1]);
        Silo::new("a", 0, &Root {}, &data, device, settings).unwrap()
    }

    #[test]
    fn a_mode_that_is_wider_than_the_divergence_takes_is_no_start() {
        let device = Device::flex();
        let settings = Settings { start: StartFrom::Mode, ..Settings::default() };
        // The mode is zero, with 2.5 times the variance of the cavity: this index takes less than twice.
        let options = PviOptions { divergence: Renyi { alpha: 2.0 }.into(), ..PviOptions::new(20) };
        let mut silo = PviSilo::new(silo(&device, &settings), 0, options.clone()).unwrap();
        let mut pvi = Pvi::new(&Root {}, &device, &settings, &["a".to_owned()], vec![1], options).unwrap();
        let requests = pvi.outgoing().unwrap();
        silo.answer(&requests[0].message).unwrap();
    }

    #[test]
    fn a_silo_climbs_where_settings_ask_for_it_in_64_bits() {
        let climbs = |device: Device, start| silo(&device, &Settings { start, ..Settings::default() }).can_climb();
        assert!(climbs(Device::flex(), StartFrom::Mode) && !climbs(Device::flex(), StartFrom::Declared));
        assert!(!climbs(Device::flex().with_precision(Precision::Single), StartFrom::Mode));
    }
}
