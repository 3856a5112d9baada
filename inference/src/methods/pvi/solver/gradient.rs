//! Solves a local problem by stochastic gradients: any optimiser, any number of steps, early stopping.

use partita_core::Device;
use serde::{Deserialize, Serialize};

use super::{LocalProblem, LocalSolver, LocalUpdate, Sampled, Solved, SolverState};
use crate::engine::checkpoint::prefixed;
use crate::engine::error::{Error, Result};
use crate::engine::family::Family;
use crate::engine::natural::ExponentialFamily;
use crate::engine::settings::Settings;
use crate::engine::trainer::adaptive::{Adaptive, Next};
use crate::engine::trainer::{Coordinates, Descent, units};

/// Where the parameters of a visit start.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Start {
    /// At the posterior that the coordinator sent; while that is still the prior, at [`crate::FamilyPlan::start`]. The
    /// first visit of a silo starts at the mode of its local problem where [`Settings::start`] says so.
    #[default]
    Received,
    /// At the silo's own last solution; on the first visit as [`Start::Received`].
    Previous,
    /// At [`crate::FamilyPlan::start`], every time.
    Plan,
    /// At the cavity, which has to be a density.
    Cavity,
    /// At the means received with this standard deviation, a small one: with early stopping on the expected log
    /// likelihood every visit must start tight, or it never gets the chance to stop.
    Tight {
        /// The standard deviation on the unconstrained scale.
        deviation: f64,
    },
}

/// What early stopping watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Monitor {
    /// The local free energy $`\mathcal F_m`$.
    FreeEnergy,
    /// The expected log likelihood alone, which stops before a network prunes itself.
    LogLikelihood,
}

/// Stops a visit when what is watched no longer rises, and goes back to where it was best, however the visit ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlyStop {
    /// What is watched: its mean over windows of steps.
    pub monitor: Monitor,
    /// Steps a window, at most as many as a visit has; an epoch of minibatches is the usual choice.
    pub window: u64,
    /// Windows without a new best before the visit ends.
    pub patience: u64,
}

/// Stochastic gradient descent on $`-\mathcal F_m`$; rates, optimiser and estimator are those of [`Settings`].
///
/// One step a visit gives the dynamics of global variational inference: exactly with plain gradients in natural
/// parameters, or with natural gradients ([`super::NaturalGradient`]), whose steps silos can add. In the mean and scale
/// of the families here the sum of the silos' steps is the global step up to the square of the rate, and Adam, which
/// scales every silo's gradient by itself, takes other steps altogether. Steps to convergence give PVI as it was first
/// described.
///
/// # References
/// Ashman et al. (2022), Partitioned variational inference, section 3.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GradientDescent {
    /// Where a visit starts.
    pub start: Start,
    /// Keeps the optimiser's state between visits, and lets the learning-rate schedule run over the whole run instead
    /// of over each visit.
    pub keep_optimiser: bool,
    /// When to stop early.
    pub stop: Option<EarlyStop>,
    /// How often a step may be halved that would leave the domain of the divergence, where it has one, the last of a
    /// visit included; steps so shortened are counted in the report. With 0 such a step is an error.
    pub halvings: u32,
}

impl Default for GradientDescent {
    fn default() -> Self {
        Self { start: Start::default(), keep_optimiser: false, stop: None, halvings: 20 }
    }
}

impl GradientDescent {
    /// Where on the schedule a local step stands, and how long that is: of the whole run, or of its visit alone.
    fn place(self, update: &LocalUpdate, step: u64) -> (u64, u64) {
        if self.keep_optimiser { (update.first + step, update.total) } else { (step, update.steps) }
    }
}

impl LocalSolver for GradientDescent {
    fn start(&self, settings: &Settings, device: &Device) -> Box<dyn SolverState> {
        Box::new(GradientSolver::new(*self, settings, device))
    }

    fn check(&self, local_steps: u64) -> Result<()> {
        if let Start::Tight { deviation } = self.start {
            let expected = "a finite standard deviation > 0, such as 0.03";
            Error::unless(deviation > 0.0 && deviation.is_finite(), "tight start", deviation, expected)?;
        }
        let Some(stop) = self.stop else { return Ok(()) };
        let found = format_args!("windows of {} steps, patience {}", stop.window, stop.patience);
        let expected = "at least 1 step and 1 window";
        Error::unless(stop.window > 0 && stop.patience > 0, "early stop", found, expected)?;
        let found = format_args!("windows of {} steps in local updates of {local_steps} local_steps", stop.window);
        let expected = "a window that ends within a local update: shorten it, or raise local_steps";
        Error::unless(stop.window <= local_steps, "early stop", found, expected)
    }

    fn check_settings(&self, _: &Settings, _: bool) -> Result<()> {
        Ok(())
    }

    fn takes_divergences(&self) -> bool {
        true
    }

    fn trains_private_theta(&self) -> bool {
        true
    }

    fn last_rate(&self, settings: &Settings, update: &LocalUpdate) -> Option<f64> {
        let (at, of) = self.place(update, update.steps.saturating_sub(1));
        Some(settings.schedule.rate(at, of))
    }
}

/// A running [`GradientDescent`].
#[derive(Debug)]
pub(crate) struct GradientSolver {
    options: GradientDescent,
    descent: Descent,
    previous: Vec<f64>,
}

impl GradientSolver {
    pub(crate) fn new(options: GradientDescent, settings: &Settings, device: &Device) -> Self {
        Self { options, descent: Descent::new(settings, device), previous: Vec::new() }
    }

    /// Whether the optimiser goes on from visit to visit.
    pub(crate) fn keeps_optimiser(&self) -> bool {
        self.options.keep_optimiser
    }

    /// The last solution, where the next visit starts there.
    pub(crate) fn previous(&self) -> &[f64] {
        &self.previous
    }

    /// Keeps a solution, where the next visit starts there.
    pub(crate) fn keep(&mut self, parameters: &[f64]) {
        if self.options.start == Start::Previous {
            self.previous.clear();
            self.previous.extend_from_slice(parameters);
        }
    }

    /// Where the parameters of a visit start.
    pub(crate) fn start(&self, problem: &mut dyn LocalProblem, update: &LocalUpdate) -> Result<Vec<f64>> {
        match self.options.start {
            Start::Previous if !self.previous.is_empty() => Ok(self.previous.clone()),
            Start::Plan => Ok(problem.initial()),
            Start::Cavity => {
                let family = problem.natural_family();
                family.check("starting a local update at its cavity", problem.cavity())?;
                family.member(problem.family(), problem.cavity())
            }
            Start::Received | Start::Previous => problem.begin(update),
            Start::Tight { deviation } => {
                let (mean, _) = problem.natural_family().moments(&update.received);
                let mut parameters = problem.family().initial(deviation);
                problem.family().set_mean(&mut parameters, &mean);
                Ok(parameters)
            }
        }
    }
}

/// The adaptive rate of one visit, with the coordinates in which parameters move at it.
struct VisitPace {
    rate: Adaptive,
    coordinates: Coordinates,
    steps: u64,
}

impl VisitPace {
    /// The rate of the next step from these parameters.
    fn rate(&mut self, family: &dyn Family, parameters: &[f64]) -> f64 {
        if units::are_due(self.steps) {
            self.coordinates.renew(family, parameters);
        }
        self.steps += 1;
        self.rate.rates(1, &self.coordinates.place(parameters))[0]
    }

    /// Where the visit goes on from these parameters, with the bound sampled before the step.
    fn take(&mut self, parameters: &[f64], bound: f64) -> Next {
        let Self { rate, coordinates, .. } = self;
        rate.take(&coordinates.place(parameters), bound, || coordinates.units())
    }
}

impl GradientSolver {
    /// The adaptive rate of a visit from these parameters; `None` for a schedule that is a function of the step, and
    /// where the optimiser goes on from visit to visit.
    fn pace(&self, problem: &dyn LocalProblem, update: &LocalUpdate, parameters: &[f64]) -> Option<VisitPace> {
        let mut rate = self.descent.adaptive(update.steps).filter(|_| !self.options.keep_optimiser)?;
        let units = Coordinates::of_units(problem.family(), parameters, Vec::new());
        let begins_there = matches!(self.options.start, Start::Received | Start::Previous);
        // Steps that are halved leave the coordinates behind.
        let coordinates = if begins_there && problem.is_whitened() && !problem.divergence(update.first).has_domain() {
            rate.leave_out_first();
            units.whitened(problem.family(), parameters)
        } else {
            units
        };
        Some(VisitPace { rate, coordinates, steps: 0 })
    }

    /// The rate of a local step otherwise.
    pub(crate) fn rate(&self, update: &LocalUpdate, step: u64) -> f64 {
        let (at, of) = self.options.place(update, step);
        self.descent.rate_of(at, of)
    }

    /// Halves a step until it ends in the domain of the divergence; whether it had to.
    fn shorten(&self, problem: &dyn LocalProblem, step: u64, before: &[f64], parameters: &mut [f64]) -> Result<bool> {
        let (family, divergence) = (problem.family(), problem.divergence(step));
        let mut halvings = 0;
        loop {
            let (mean, spread) = (family.mean(parameters), family.covariance_matrix(parameters));
            match divergence.evaluate_at(problem.natural_family(), &mean, &spread, problem.cavity()) {
                Err(Error::DivergenceDomain { .. }) if halvings < self.options.halvings => {
                    parameters.iter_mut().zip(before).for_each(|(now, then)| *now = 0.5 * (*now + then));
                    halvings += 1;
                }
                found => return found.map(|_| halvings > 0),
            }
        }
    }
}

impl SolverState for GradientSolver {
    fn solve(&mut self, problem: &mut dyn LocalProblem, update: &LocalUpdate) -> Result<Solved> {
        let mut parameters = self.start(problem, update)?;
        if !self.options.keep_optimiser {
            self.descent.restart();
        }
        let (mut steps, mut clipped, mut shortened, mut last, mut latest) = (0, 0, 0, Vec::new(), f64::NAN);
        let has_domain = problem.divergence(update.first).has_domain();
        let mut watch = self.options.stop.map(Watch::new);
        let mut pace = self.pace(problem, update, &parameters);
        for step in 0..update.steps {
            let rate = match &mut pace {
                Some(pace) => pace.rate(problem.family(), &parameters),
                None => self.rate(update, step),
            };
            let sampled = problem.sample(&parameters, update.first + step, rate);
            steps += 1;
            let mut sampled = match (sampled, &mut pace) {
                (Err(error), Some(pace)) if error.is_outside() && pace.rate.can_undo() => {
                    pace.rate.lose();
                    pace.coordinates.go_to(&pace.rate.undo(), &mut parameters);
                    self.descent.restart();
                    problem.forget();
                    continue;
                }
                (sampled, _) => sampled?,
            };
            // Where a step came from is kept only where it may have to be halved.
            let before = if has_domain { parameters.clone() } else { Vec::new() };
            let coordinates = pace.as_mut().map(|pace| &mut pace.coordinates);
            let is_clipped = self.descent.step(rate, coordinates, &mut parameters, &mut sampled.gradient);
            clipped += u64::from(is_clipped);
            if has_domain {
                shortened += u64::from(self.shorten(problem, update.first + step, &before, &mut parameters)?);
            }
            latest = sampled.log_likelihood;
            // The log likelihood reported is the mean over the last tenth of the visit, or while an adaptive rate falls.
            let is_late = pace.as_ref().map(|pace| pace.rate.is_falling());
            if is_late.unwrap_or(step >= update.steps - update.steps.div_ceil(10)) {
                last.push(latest);
            }
            if let Some(pace) = &mut pace {
                match pace.take(&parameters, sampled.free_energy) {
                    Next::Here => {}
                    Next::Afresh => self.descent.restart(),
                    Next::At(place) => pace.coordinates.go_to(&place, &mut parameters),
                    Next::Back(place) => {
                        pace.coordinates.go_to(&place, &mut parameters);
                        self.descent.restart();
                        problem.forget();
                    }
                }
                if pace.rate.has_converged() {
                    break;
                }
            }
            if let Some(watch) = &mut watch
                && watch.is_over(&sampled, &parameters)
            {
                break;
            }
        }
        if let Some(Watch { best: Some(best), log_likelihood, .. }) = watch {
            (parameters, last) = (best, vec![log_likelihood]);
        }
        if last.is_empty() {
            // All of these steps were undone.
            last.push(latest);
        }
        let natural = problem.natural_family().natural_of_member(problem.family(), &parameters)?;
        self.keep(&parameters);
        Ok(Solved {
            natural,
            log_likelihood: crate::engine::moments::mean_and_variance(&last).0,
            steps,
            clipped,
            shortened,
        })
    }

    fn save(&self) -> Vec<(String, Vec<f64>)> {
        let mut state = vec![("previous".to_owned(), self.previous.clone())];
        if self.options.keep_optimiser {
            state.extend(prefixed("rule.", self.descent.save()));
        }
        state
    }

    fn load(&mut self, state: Vec<(String, Vec<f64>)>) -> bool {
        let (mut rule, mut found) = (Vec::new(), false);
        for (name, values) in state {
            match name.strip_prefix("rule.") {
                Some(own) => rule.push((own.to_owned(), values)),
                None if name == "previous" => (self.previous, found) = (values, true),
                None => return false,
            }
        }
        found && (rule.is_empty() || self.descent.load(rule))
    }
}

/// Watches windows of steps for a new best.
struct Watch {
    rule: EarlyStop,
    sum: [f64; 2],
    count: u64,
    best_value: f64,
    best: Option<Vec<f64>>,
    log_likelihood: f64,
    without: u64,
}

impl Watch {
    fn new(rule: EarlyStop) -> Self {
        let best_value = f64::NEG_INFINITY;
        Self { rule, sum: [0.0; 2], count: 0, best_value, best: None, log_likelihood: f64::NAN, without: 0 }
    }

    fn is_over(&mut self, sampled: &Sampled, parameters: &[f64]) -> bool {
        self.sum[0] += sampled.free_energy;
        self.sum[1] += sampled.log_likelihood;
        self.count += 1;
        if self.count < self.rule.window {
            return false;
        }
        let [free_energy, log_likelihood] = self.sum.map(|sum| sum / self.count as f64);
        (self.sum, self.count) = ([0.0; 2], 0);
        let value = match self.rule.monitor {
            Monitor::FreeEnergy => free_energy,
            Monitor::LogLikelihood => log_likelihood,
        };
        if value > self.best_value {
            (self.best_value, self.log_likelihood, self.without) = (value, log_likelihood, 0);
            self.best = Some(parameters.to_vec());
            return false;
        }
        self.without += 1;
        self.without >= self.rule.patience
    }
}

#[cfg(test)]
mod tests {
    use partita_core::{Key, Noise, Purpose};

    use super::*;
    use crate::engine::family::DiagonalGaussian;
    use crate::engine::natural::NormalFamily;
    use crate::engine::optimiser::Schedule;

    /// One normal global, whose sample is not finite at a step, and whose free energy falls at another.
    struct Exploding {
        family: DiagonalGaussian,
        natural: NormalFamily,
        fails: Option<u64>,
        falls: Option<u64>,
        forgotten: u64,
    }

    impl LocalProblem for Exploding {
        fn family(&self) -> &dyn Family {
            &self.family
        }

        fn natural_family(&self) -> &NormalFamily {
            &self.natural
        }

        fn initial(&self) -> Vec<f64> {
            self.family.initial(0.1)
        }

        fn cavity(&self) -> &[f64] {
            &[]
        }

        fn noise(&self, step: u64) -> (Noise, Key) {
            (Noise::new(1), Key::new(Purpose::Fit, step))
        }

        fn sample(&mut self, parameters: &[f64], step: u64, _: f64) -> Result<Sampled> {
            if self.fails == Some(step) {
                let (who, quantity) = ("a".to_owned(), "the gradient".to_owned());
                return Err(Error::NotFinite { who, step, quantity, found: f64::NAN });
            }
            let free_energy = if self.falls.is_some_and(|falls| step >= falls) { -1e9 } else { -1.0 };
            let log_likelihood = f64::from(u32::try_from(step).unwrap());
            let gradient = vec![parameters[0] - 1.0, (2.0 * parameters[1]).exp() - 1.0];
            Ok(Sampled { free_energy, log_likelihood, gradient })
        }

        fn forget(&mut self) {
            self.forgotten += 1;
        }

        fn log_likelihood(&mut self, _: &[f64], _: u64) -> Result<(f64, Vec<f64>)> {
            unreachable!("a solver that samples")
        }
    }

    /// What a visit of so many steps finds, and how often rules of rows forget.
    fn visit(steps: u64, [fails, falls]: [Option<u64>; 2]) -> (Solved, u64) {
        let settings = Settings { schedule: Schedule::adaptive(), ..Settings::default() };
        let (family, natural) = (DiagonalGaussian::new(1), NormalFamily::diagonal(1));
        let mut problem = Exploding { family, natural, fails, falls, forgotten: 0 };
        let update = LocalUpdate { received: Vec::new(), is_prior: true, first: 0, steps, total: steps };
        let mut solver = LocalSolver::start(&GradientDescent::default(), &settings, &Device::flex());
        (solver.solve(&mut problem, &update).unwrap(), problem.forgotten)
    }

    #[test]
    fn a_short_visit_whose_last_step_is_undone_says_the_log_likelihood_of_the_step_before() {
        for steps in [2, 7] {
            let (solved, forgotten) = visit(steps, [Some(steps - 1), None]);
            let expected = f64::from(u32::try_from(steps - 2).unwrap());
            assert!((solved.log_likelihood - expected).abs() < 1e-12, "{solved:?}");
            assert_eq!((solved.steps, forgotten), (steps, 1));
        }
    }

    #[test]
    fn rules_of_rows_forget_once_for_each_setback_and_otherwise_never() {
        assert_eq!(visit(100, [None, None]).1, 0);
        assert_eq!(visit(100, [Some(12), None]).1, 1);
        assert_eq!(visit(100, [None, Some(20)]).1, 1);
    }
}
