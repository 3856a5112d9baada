//! Judges by numbers whether a run had converged: its gradients, its bound, its course, and what its method counted.

use partita_core::SiteTable;

use super::AlgorithmChoice;
use crate::engine::algorithm::{Ending, MethodCounts};
use crate::engine::error::short;
use crate::engine::explosion::{Stretch, has_exploded};
use crate::engine::optimiser::Schedule;
use crate::engine::report::{Severity, Warning};
use crate::engine::run::RunRecord;
use crate::engine::settings::Settings;
use crate::engine::terms::coordinator::global_site;
use crate::engine::trust::estimate::ElboEstimate;
use crate::engine::trust::still_moving::{KNOWN, SETTLED};
use crate::engine::trust::still_widening::SETTLED as STAYS;
use crate::engine::trust::verdict::Trust;

/// The part of the steps whose gradients may be clipped, and of the rounds in which something may be held, without a word.
const PART: f64 = 0.1;
/// The standard deviations that a mean may move over the last tenth of a run.
const LATE: f64 = 0.5;
/// The standard error that a bound may have: so many nats, and so large a part of the bound.
const LOOSE: [f64; 2] = [1.0, 0.05];

/// A run that is over, with what is known of its end.
pub(super) struct Convergence<'a> {
    pub(super) algorithm: &'a AlgorithmChoice,
    pub(super) settings: &'a Settings,
    pub(super) record: &'a RunRecord,
    pub(super) bound: &'a ElboEstimate,
    pub(super) counts: Option<&'a MethodCounts>,
    pub(super) table: &'a SiteTable,
    /// How many numbers were trained.
    pub(super) trained: usize,
    /// Whether the bound is to be known: it is not told where rows are promised privacy.
    pub(super) tells_bound: bool,
    /// Whether the method itself says how far noise moves a mean: then the report of privacy compares the last step with it.
    pub(super) knows_noise: bool,
}

impl Convergence<'_> {
    /// What speaks against the run; of a round of trust whose corrected numbers hold, only what is not about them.
    pub(super) fn warnings(&self, trust: &Trust) -> Vec<Warning> {
        let is_corrected = trust.correction().is_some_and(|correction| correction.is_trusted());
        let mut all: Vec<Warning> = self.of_limit().into_iter().collect();
        // Corrected numbers hold wherever the means of the approximation have got to.
        if !is_corrected {
            all.extend(self.unsettled());
            all.extend(self.of_held());
        }
        all.extend(self.of_bound(is_corrected));
        all.extend(self.of_clips());
        all
    }

    /// What says that the posterior had not stopped moving.
    fn unsettled(&self) -> impl Iterator<Item = Warning> {
        let late = if self.knows_noise { None } else { self.of_last_tenth() };
        [self.of_movement(), self.of_widening(), self.of_explosion(), late].into_iter().flatten()
    }

    /// Whether the posterior had stopped moving by the end, as far as anything says so.
    pub(super) fn settled(&self) -> Option<bool> {
        let rests = self.unsettled().next().is_none();
        match self.record.ending {
            Ending::NotConverged | Ending::Interrupted => Some(false),
            Ending::Converged => Some(rests),
            // That nothing speaks against it says so only where gradients were seen.
            Ending::Completed => (!rests || self.bound.still_moving.is_some()).then_some(rests),
        }
    }

    /// The same round of trust: where none was held, and the gradient says in no number that the run had converged,
    /// nothing does, and the answer is not to be trusted.
    pub(super) fn judged(&self, trust: Trust) -> Trust {
        match trust {
            Trust::NotChecked { reason, severity: Severity::Limit } if !self.is_told() => Trust::NotChecked {
                reason: format!("{reason}; nor does a gradient at its end say that the run had converged"),
                severity: Severity::Doubt,
            },
            other => other,
        }
    }

    /// Whether the gradient says that means and deviations rest; where rows are promised privacy no gradient may say so, and the
    /// posterior is as wide as the noise calls for.
    fn is_told(&self) -> bool {
        let rests = self.bound.still_moving.is_some_and(|moves| moves.has_settled());
        !self.tells_bound || rests && self.bound.still_widening.is_none_or(|widens| widens.has_settled())
    }

    /// That an adaptive rate had not come to its end when a run of all its steps did.
    fn of_limit(&self) -> Option<Warning> {
        let adapts =
            matches!(self.algorithm, AlgorithmChoice::Sfvi | AlgorithmChoice::Central | AlgorithmChoice::SfviAvg(_));
        let is_adaptive = adapts && matches!(self.settings.schedule, Schedule::Adaptive { .. });
        let steps = self.settings.steps;
        let problem = format!("the limit of {steps} steps came before the end that the adaptive rate finds");
        let remedy =
            "Raise `steps` (of a study in `[run]`): a longer run may have a higher bound and other moments.".to_owned();
        let is_cut = is_adaptive && self.record.ending == Ending::Completed;
        is_cut.then(|| Warning::new(Severity::Limit, problem, remedy))
    }

    /// That the means of a posterior would still move, or still jump.
    fn of_movement(&self) -> Option<Warning> {
        let moves = self.bound.still_moving.filter(|moves| !moves.has_settled())?;
        let site = self.site(moves.component);
        if !moves.is_known() {
            let problem = "the fit still jumps: a gradient says how far a mean would move with a standard error, in standard deviations, of";
            let remedy = "Lower the learning rate, take more particles, or another algorithm; nothing here says that the means rest.";
            let warning = Warning::new(Severity::Doubt, problem, remedy).measured(moves.error).at(&site);
            return Some(warning.beyond(KNOWN, "standard deviations"));
        }
        let problem = "the means have not settled: by its gradient one would still move, in standard deviations, by";
        let remedy = "Take more steps, or another algorithm, until it stays.";
        let warning = Warning::new(Severity::Doubt, problem, remedy).measured(moves.distance.abs()).at(&site);
        Some(warning.beyond(SETTLED, "standard deviations, beyond four standard errors"))
    }

    /// That the deviations of a posterior would still grow or shrink.
    fn of_widening(&self) -> Option<Warning> {
        let widens = self.bound.still_widening.filter(|widens| !widens.has_settled())?;
        let problem =
            "the deviations have not settled: by its gradient one would still change, to this multiple of itself:";
        let remedy = "Take more steps, or another algorithm, until it stays.";
        let warning = Warning::new(Severity::Doubt, problem, remedy).measured(widens.factor);
        Some(
            warning
                .at(&self.site(widens.component))
                .beyond(STAYS[1], "or below three quarters, beyond four standard errors"),
        )
    }

    /// That a mean moved far at the end.
    fn of_last_tenth(&self) -> Option<Warning> {
        let moved = self.record.last_tenth.filter(|moved| moved.distance > LATE || moved.distance.is_nan())?;
        let problem =
            "a mean was still on its way: over the last tenth of the run it moved, in standard deviations, by";
        let remedy = "Take more steps, or a rate that falls to zero.";
        let warning = Warning::new(Severity::Doubt, problem, remedy).measured(moved.distance);
        Some(warning.at(&self.site(moved.component)).beyond(LATE, "standard deviations"))
    }

    /// That the bounds at the end are far below those that the run had reached.
    fn of_explosion(&self) -> Option<Warning> {
        // What a visit of PVI reports is of one silo and its cavity: such numbers do not compare.
        if matches!(self.algorithm, AlgorithmChoice::Pvi(_)) || !self.tells_bound {
            return None;
        }
        let bounds = self.record.trace.iter().map(|(_, bound)| *bound).filter(|bound| !bound.is_nan());
        let bounds: Vec<Stretch> = bounds.map(Stretch::of).collect();
        let problem = "the run exploded: its last bounds are far below those that it had reached before";
        let remedy =
            "Lower the learning rate, or start elsewhere (`starts`); the answer is not where the run was best.";
        has_exploded(&bounds, self.trained).then(|| Warning::new(Severity::Doubt, problem, remedy))
    }

    /// That the bound has no such value as was estimated.
    fn of_bound(&self, is_corrected: bool) -> Option<Warning> {
        let ElboEstimate { elbo, standard_error, draws, .. } = *self.bound;
        let largest = LOOSE[0] + LOOSE[1] * elbo.abs();
        // A silo that was absent leaves no bound, which is said elsewhere.
        if !self.tells_bound || draws < 2 || elbo.is_nan() || standard_error <= largest {
            return None;
        }
        let problem = format!(
            "the bound is no number to go by, {} with a standard error of {}: some draws of the approximation are where the density all but vanishes, or overflows",
            short(elbo),
            short(standard_error)
        );
        Some(if is_corrected {
            let remedy = "Go by the log evidence of the round of trust, from which the corrected numbers come.";
            Warning::new(Severity::Limit, problem, remedy)
        } else {
            let remedy = "The fit may have exploded, or its family is too wide: lower the learning rate, take more steps, or a richer family.";
            Warning::new(Severity::Doubt, problem, remedy)
        })
    }

    /// That parts of the answer were held where they were, since what was to be taken was no density.
    fn of_held(&self) -> Vec<Warning> {
        let rounds = self.record.counters.rounds;
        let problems = [
            ("improper_cavities", "local problems had a cavity that is no density: of so many a round"),
            ("held_components", "components of factors were held where they were: of so many a round"),
        ];
        let share = |(name, problem): (&str, &'static str)| {
            let share = ratio(self.counts?.of(name)?, rounds);
            let remedy = "Damp the updates more, or visit silos in turn: the answer may not be the fixed point of PVI.";
            let warning = Warning::new(Severity::Limit, problem, remedy).measured(share).beyond(PART, "a round");
            (share > PART).then_some(warning)
        };
        problems.into_iter().filter_map(share).collect()
    }

    /// That many gradients were clipped: what is fitted is then not what the gradients say.
    fn of_clips(&self) -> Option<Warning> {
        let share = ratio(self.record.counters.clipped_steps, self.record.counters.gradient_steps);
        let problem = "gradients were clipped in a part of the steps";
        let remedy = "Raise the norm of the clip, or lower the learning rate.";
        let warning =
            || Warning::new(Severity::Limit, problem, remedy).measured(share).beyond(PART, "a part of the steps");
        (share > PART).then(warning)
    }

    /// The site that holds a global of this number.
    fn site(&self, number: usize) -> String {
        global_site(self.table, number).map_or_else(String::new, |site| site.name.clone())
    }
}

fn ratio(part: u64, all: u64) -> f64 {
    part as f64 / all.max(1) as f64
}
