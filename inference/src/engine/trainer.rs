//! Moves parameters down gradients: the one place where a rule, its rate and its clip meet what a party trains.

pub(crate) mod adaptive;
mod chart;
mod coordinates;
pub(crate) mod units;

pub(crate) use crate::engine::checkpoint::with_prefix;
pub(crate) use coordinates::Coordinates;

use adaptive::{Adaptive, Next};
use chart::Chart;
use units::MeanUnit;

use std::borrow::Cow;

use partita_core::Device;
use partita_core::kernel::dot;
use rayon::prelude::*;

use crate::engine::PART;
use crate::engine::checkpoint::{NamedVectors, named, prefixed};
use crate::engine::climb::Footing;
use crate::engine::explosion::{Guard, real, whole};
use crate::engine::family::Family;
use crate::engine::optimiser::{Clip, Optimiser, Schedule, UpdateRule};
use crate::engine::plug::Plug;
use crate::engine::settings::Settings;

/// An update rule with the schedule and the clip of a run.
#[derive(Debug)]
pub(crate) struct Descent {
    rule: Box<dyn UpdateRule>,
    optimiser: Plug<dyn Optimiser>,
    schedule: Schedule,
    /// Steps of the whole run.
    steps: u64,
    clip: Option<Clip>,
    device: Device,
}

/// What one step was like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Moved {
    /// The Euclidean norm of the gradient before clipping.
    pub(crate) gradient_norm: f64,
    pub(crate) is_clipped: bool,
    pub(crate) rate: f64,
}

impl Descent {
    pub(crate) fn new(settings: &Settings, device: &Device) -> Self {
        let Settings { schedule, steps, clip, .. } = *settings;
        let optimiser = settings.optimiser.clone();
        Self { rule: optimiser.start(device), optimiser, schedule, steps, clip, device: device.clone() }
    }

    /// The learning rate of a step of the run.
    pub(crate) fn rate(&self, step: u64) -> f64 {
        self.schedule.rate(step, self.steps)
    }

    /// The learning rate of a step of a run of so many steps.
    pub(crate) fn rate_of(&self, step: u64, steps: u64) -> f64 {
        self.schedule.rate(step, steps)
    }

    /// The adaptive rate of so many steps at most, where the schedule is such a one.
    pub(crate) fn adaptive(&self, limit: u64) -> Option<Adaptive> {
        let Schedule::Adaptive { initial } = self.schedule else { return None };
        Some(Adaptive::new(initial, limit))
    }

    /// Whether long gradients are clipped.
    pub(crate) fn clips(&self) -> bool {
        self.clip.is_some()
    }

    /// Forgets what the rule has seen.
    pub(crate) fn restart(&mut self) {
        self.rule = self.optimiser.start(&self.device);
    }

    /// Moves `parameters` at this rate down `gradient`, which is clipped first; whether it was. Where coordinates are given, rule
    /// and clip see these and the gradient by them.
    pub(crate) fn step(
        &mut self,
        rate: f64,
        mut coordinates: Option<&mut Coordinates>,
        parameters: &mut [f64],
        gradient: &mut [f64],
    ) -> bool {
        if let Some(own) = &coordinates {
            own.enter(parameters, gradient);
        }
        let is_clipped = self.clip.is_some_and(|clip| clip.apply(gradient));
        self.rule.step(rate, parameters, gradient);
        if let Some(own) = &mut coordinates {
            own.leave(parameters);
        }
        is_clipped
    }

    /// The state of the rule as named vectors.
    pub(crate) fn save(&self) -> NamedVectors {
        self.rule.save()
    }

    /// Takes it back; false if it is of another rule.
    pub(crate) fn load(&mut self, state: NamedVectors) -> bool {
        self.rule.load(state)
    }
}

/// The Euclidean norm of a vector.
pub(crate) fn norm(vector: &[f64]) -> f64 {
    square(vector).sqrt()
}

/// The sum of squares of a vector.
pub(crate) fn square(vector: &[f64]) -> f64 {
    if vector.len() <= PART {
        return dot(vector, vector);
    }
    let squares: Vec<f64> = vector.par_chunks(PART).map(|part| dot(part, part)).collect();
    squares.iter().sum()
}

/// The Euclidean distance of two vectors.
pub(crate) fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt()
}

/// What the names of a trainer's rule begin with in a saved state.
const RULE: &str = "rule.";

/// What says in a saved state that the last steps were undone.
const UNDONE: &str = "undone";

/// What the names of an adaptive rate begin with in a saved state.
const ADAPTIVE: &str = "adaptive.";

/// A family with its parameters, the shared part of θ, and how both move: to the rule they are one vector.
#[derive(Debug)]
pub(crate) struct Trainer {
    pub(crate) family: Box<dyn Family>,
    /// The family's parameters, then θ.
    values: Vec<f64>,
    /// The coordinates in which the parameters of the family move; `None` for their own.
    chart: Option<Chart>,
    pub(crate) descent: Descent,
    /// The rate, where it follows from the run.
    adapting: Option<Adapting>,
    /// Where it goes back to after an explosion, where the rate does not follow from the run.
    guard: Guard,
    /// Whether the last steps were undone, so that all rules are to forget them.
    is_undone: bool,
}

/// An adaptive rate, and the units in which θ moves at it.
#[derive(Debug)]
struct Adapting {
    rate: Adaptive,
    theta_units: Vec<f64>,
    /// The lengths of its tensors.
    tensors: Vec<usize>,
    /// Steps taken.
    steps: u64,
}

impl Trainer {
    /// Trains `parameters` of `family` and `theta`.
    pub(crate) fn new(family: Box<dyn Family>, parameters: Vec<f64>, theta: &[f64], descent: Descent) -> Self {
        debug_assert_eq!(parameters.len(), family.parameter_len(), "invariant: the parameters are the family's");
        let mut values = parameters;
        values.extend_from_slice(theta);
        Self { family, values, chart: None, descent, adapting: None, guard: Guard::default(), is_undone: false }
    }

    /// Lets the rate follow from the run, where the schedule is such a one; θ is in tensors of these lengths.
    pub(crate) fn adapt(&mut self, tensors: &[usize]) {
        let Some(rate) = self.descent.adaptive(self.descent.steps) else { return };
        let theta_units = units::of_theta(self.theta(), tensors);
        self.adapting = Some(Adapting { rate, theta_units, tensors: tensors.to_vec(), steps: 0 });
    }

    /// Lets an adaptive rate be that of so many globals, with latents of rows beside them or without.
    pub(crate) fn know_rows(&mut self, have_latents: bool) {
        if let Some(own) = &mut self.adapting {
            own.rate.know_rows(self.values.len(), have_latents);
        }
    }

    /// Starts the family at a mode, where a first phase would lead, and lets its parameters move in coordinates of that; θ
    /// keeps its own.
    pub(crate) fn begin_at(&mut self, footing: &Footing) {
        self.set_parameters(&footing.parameters);
        self.chart = Some(Chart::of(footing));
        if let Some(own) = &mut self.adapting {
            own.rate.leave_out_first();
        }
    }

    /// Whether the last steps were undone, so that what else moves is to forget them too.
    pub(crate) fn is_undone(&self) -> bool {
        self.is_undone
    }

    /// Whether it started at a mode.
    pub(crate) fn has_begun(&self) -> bool {
        self.chart.is_some()
    }

    /// The parameters of the family.
    pub(crate) fn parameters(&self) -> &[f64] {
        &self.values[..self.family.parameter_len()]
    }

    /// The shared part of θ.
    pub(crate) fn theta(&self) -> &[f64] {
        &self.values[self.family.parameter_len()..]
    }

    /// The parameters of the family, then θ.
    pub(crate) fn values(&self) -> &[f64] {
        &self.values
    }

    /// Replaces the parameters of the family by as many others.
    pub(crate) fn set_parameters(&mut self, parameters: &[f64]) {
        let count = self.family.parameter_len();
        self.values[..count].copy_from_slice(parameters);
        self.chart = None;
    }

    /// Replaces θ by as many other numbers.
    pub(crate) fn set_theta(&mut self, theta: &[f64]) {
        let count = self.family.parameter_len();
        self.values[count..].copy_from_slice(theta);
    }

    /// The rates of the first and the last of some steps, this the first, where the rate follows from the run.
    pub(crate) fn rates(&mut self, steps: u64) -> Option<[f64; 2]> {
        let rate = &mut self.adapting.as_mut()?.rate;
        Some(rate.rates(steps, &place(self.chart.as_ref(), &self.values)))
    }

    /// The rate of the step of this number.
    pub(crate) fn rate(&mut self, step: u64) -> f64 {
        self.rates(1).map_or_else(|| self.descent.rate(step), |[rate, _]| rate)
    }

    /// Whether nothing is left to gain by a lower rate.
    pub(crate) fn has_converged(&self) -> bool {
        self.adapting.as_ref().is_some_and(|own| own.rate.has_converged())
    }

    /// Takes the step of this number down the gradient by the parameters of the family, then by θ, of the norm that
    /// [`crate::engine::algorithm::movable`] found.
    ///
    /// With a chart rule and clip see its coordinates and the gradient by these.
    pub(crate) fn step(&mut self, step: u64, bound: f64, gradient: &mut [f64], gradient_norm: f64) -> Moved {
        let rate = self.rate(step);
        self.find_units();
        let count = self.family.parameter_len();
        if let Some(chart) = &self.chart {
            chart.enter(&mut self.values, gradient);
        }
        if let Some(own) = &self.adapting {
            units::enter(&own.theta_units, &mut self.values[count..], &mut gradient[count..]);
        }
        let is_clipped = self.descent.step(rate, None, &mut self.values, gradient);
        if let Some(own) = &self.adapting {
            units::leave(&own.theta_units, &mut self.values[count..]);
        }
        if let Some(chart) = &mut self.chart {
            chart.leave(&mut self.values);
        }
        self.heed(bound);
        Moved { gradient_norm, is_clipped, rate }
    }

    /// Finds the units of the family's parameters anew, where they are due: an adaptive rate is one in such units.
    fn find_units(&mut self) {
        let count = self.family.parameter_len();
        let Some(own) = &mut self.adapting else { return };
        if units::are_due(own.steps) {
            units::widen(&mut own.theta_units, &self.values[count..], &own.tensors);
        }
        let known = match &self.chart {
            Some(Chart::Whitened(_)) => return,
            Some(Chart::Units(_)) if !units::are_due(own.steps) => return,
            Some(Chart::Units(units)) => Some(units.as_slice()),
            None => None,
        };
        let means = own.rate.means();
        self.chart = Some(Chart::Units(units::of_family(&*self.family, self.parameters(), means, known)));
    }

    /// Lets an adaptive rate follow from where the last steps have led, and undoes an explosion; whether it led elsewhere.
    pub(crate) fn heed(&mut self, bound: f64) -> bool {
        let count = self.family.parameter_len();
        self.is_undone = false;
        let Some(Adapting { rate, theta_units, steps, .. }) = &mut self.adapting else {
            let Some(best) = self.guard.take(bound, &place(self.chart.as_ref(), &self.values)) else { return false };
            self.go_back(&best);
            return true;
        };
        *steps += 1;
        let moves_by_own = rate.means() == MeanUnit::OWN;
        let deviations =
            |known: Option<&[f64]>| units::of_family(&*self.family, &self.values[..count], MeanUnit::OWN, known);
        let units = || match &self.chart {
            Some(Chart::Units(units)) if moves_by_own => [units.as_slice(), theta_units].concat(),
            Some(Chart::Units(units)) => [deviations(Some(units.as_slice())).as_slice(), theta_units].concat(),
            Some(Chart::Whitened(_)) => [vec![1.0; count].as_slice(), theta_units].concat(),
            None => [deviations(None).as_slice(), theta_units].concat(),
        };
        match rate.take(&place(self.chart.as_ref(), &self.values), bound, units) {
            Next::Here => false,
            Next::Afresh => {
                self.descent.restart();
                false
            }
            Next::At(place) => {
                self.go_to(&place);
                true
            }
            Next::Back(place) => {
                self.go_back(&place);
                true
            }
        }
    }

    /// Undoes the steps of the present phase, where a rate that follows from the run may be lowered; whether it did.
    pub(crate) fn undo(&mut self) -> bool {
        let Some(own) = self.adapting.as_mut().filter(|own| own.rate.can_undo()) else { return false };
        own.rate.lose();
        own.steps += 1;
        let place = own.rate.undo();
        self.go_back(&place);
        true
    }

    /// Undoes steps that led away from the place with these coordinates.
    fn go_back(&mut self, place: &[f64]) {
        self.descent.restart();
        self.go_to(place);
        self.is_undone = true;
    }

    /// Moves to the place with these coordinates.
    fn go_to(&mut self, place: &[f64]) {
        self.values.copy_from_slice(place);
        if let Some(chart @ Chart::Whitened(_)) = &mut self.chart {
            chart.leave(&mut self.values);
        }
    }

    /// Everything as named vectors.
    pub(crate) fn save(&self) -> NamedVectors {
        let own = [("global".to_owned(), self.parameters().to_vec()), ("theta".to_owned(), self.theta().to_vec())];
        let own = own.into_iter().chain(self.chart.iter().flat_map(Chart::save));
        let mut state: NamedVectors = own.chain(prefixed(RULE, self.descent.save())).collect();
        state.extend(self.is_undone.then(|| (UNDONE.to_owned(), vec![1.0])));
        state.extend(self.adapting.is_none().then(|| self.guard.save()).into_iter().flatten());
        if let Some(own) = &self.adapting {
            state.push((format!("{ADAPTIVE}steps"), vec![real(own.steps)]));
            state.push((format!("{ADAPTIVE}units"), own.theta_units.clone()));
            state.extend(prefixed(ADAPTIVE, own.rate.save()));
        }
        state
    }

    /// Restores what [`Trainer::save`] gave, beside other vectors; false if it does not fit, and nothing has changed
    /// then but the rule and the rate.
    pub(crate) fn load(&mut self, state: &[(String, Vec<f64>)]) -> bool {
        let find = |name: &str, length: usize| named(state, name).filter(|values| values.len() == length);
        let (Some(global), Some(theta)) = (find("global", self.parameters().len()), find("theta", self.theta().len()))
        else {
            return false;
        };
        if !self.descent.load(with_prefix(state, RULE)) {
            return false;
        }
        if let Some(own) = &mut self.adapting
            && !own.load(&with_prefix(state, ADAPTIVE), global.len() + theta.len())
        {
            return false;
        }
        let chart = Chart::load(state, global.len());
        self.values = [global, theta].concat();
        self.chart = chart;
        self.guard = Guard::load(state);
        self.is_undone = find(UNDONE, 1).is_some();
        true
    }
}

/// The coordinates of parameters and θ of these values.
fn place<'a>(chart: Option<&Chart>, values: &'a [f64]) -> Cow<'a, [f64]> {
    match chart.and_then(Chart::inner) {
        Some(inner) => Cow::Owned([inner, &values[inner.len()..]].concat()),
        None => Cow::Borrowed(values),
    }
}

impl Adapting {
    /// Restores what was saved, of vectors of this length; false if it does not fit.
    fn load(&mut self, state: &[(String, Vec<f64>)], length: usize) -> bool {
        let (Some([steps]), Some(units)) = (named(state, "steps"), named(state, "units")) else { return false };
        if units.len() != self.theta_units.len() || !self.rate.load(state, length) {
            return false;
        }
        (self.steps, self.theta_units) = (whole(*steps), units.to_vec());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::family::Delta;
    use crate::engine::optimiser::Sgd;

    fn trainer() -> Trainer {
        let settings = Settings {
            steps: 10,
            schedule: Schedule::Cosine { initial: 0.5, last: 0.0 },
            clip: Some(Clip { norm: 1.0 }),
            optimiser: Sgd { momentum: 0.5 }.into(),
            ..Settings::default()
        };
        Trainer::new(Box::new(Delta::new(2)), vec![1.0, 2.0], &[3.0], Descent::new(&settings, &Device::flex()))
    }

    #[test]
    fn a_step_clips_takes_the_rate_of_its_number_and_says_so() {
        let mut trainer = trainer();
        let moved = trainer.step(5, 0.0, &mut [0.0, 3.0, 4.0], 5.0);
        // Half of the cosine from 0.5 to 0; the gradient of norm 5 is cut to 1.
        assert_eq!(moved, Moved { gradient_norm: 5.0, is_clipped: true, rate: 0.25 });
        let expected = [1.0, 2.0 - 0.25 * 0.6, 3.0 - 0.25 * 0.8];
        assert!(trainer.values().iter().zip(expected).all(|(own, want)| (own - want).abs() < 1e-12));
        assert_eq!((trainer.parameters().len(), trainer.theta().len()), (2, 1));
    }

    #[test]
    fn a_restored_trainer_goes_on_with_the_same_bits_and_refuses_another_length() {
        let (mut one, mut two) = (trainer(), trainer());
        one.step(0, 0.0, &mut [0.1, 0.2, 0.3], 0.14_f64.sqrt());
        assert!(two.load(&one.save()));
        one.step(1, 0.0, &mut [0.3, 0.1, 0.2], 0.14_f64.sqrt());
        two.step(1, 0.0, &mut [0.3, 0.1, 0.2], 0.14_f64.sqrt());
        assert_eq!(one.values(), two.values());
        let mut short = one.save();
        short.iter_mut().filter(|(name, _)| name == "theta").for_each(|(_, values)| values.clear());
        assert!(!two.load(&short));
    }
}
