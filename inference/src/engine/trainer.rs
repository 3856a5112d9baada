//! Moves parameters down gradients: the one place where a rule, its rate and its clip meet what a party trains.

mod chart;

use chart::Chart;

use partita_core::Device;
use partita_core::kernel::dot;
use rayon::prelude::*;

use crate::engine::checkpoint::NamedVectors;
use crate::engine::climb::Footing;
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

    /// Whether long gradients are clipped.
    pub(crate) fn clips(&self) -> bool {
        self.clip.is_some()
    }

    /// Forgets what the rule has seen.
    pub(crate) fn restart(&mut self) {
        self.rule = self.optimiser.start(&self.device);
    }

    /// Moves `parameters` at the rate of `step` down `gradient`, which is clipped first.
    pub(crate) fn step(&mut self, step: u64, parameters: &mut [f64], gradient: &mut [f64]) -> Moved {
        let rate = self.rate(step);
        self.step_at(rate, parameters, gradient)
    }

    /// The same at a rate of the caller's.
    pub(crate) fn step_at(&mut self, rate: f64, parameters: &mut [f64], gradient: &mut [f64]) -> Moved {
        let gradient_norm = norm(gradient);
        let is_clipped = self.clip.is_some_and(|clip| clip.apply(gradient));
        self.rule.step(rate, parameters, gradient);
        Moved { gradient_norm, is_clipped, rate }
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

/// Numbers in a part of a long vector: parts are of one length, so that a norm has the same bits for any number of threads.
const PART: usize = 16_384;

/// The Euclidean norm of a vector.
pub(crate) fn norm(vector: &[f64]) -> f64 {
    let squares: Vec<f64> = vector.par_chunks(PART).map(|part| dot(part, part)).collect();
    squares.iter().sum::<f64>().sqrt()
}

/// The Euclidean distance of two vectors.
pub(crate) fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt()
}

/// The vectors whose names begin with `prefix`, by the rest of their names.
pub(crate) fn with_prefix(state: &[(String, Vec<f64>)], prefix: &str) -> NamedVectors {
    state.iter().filter_map(|(name, values)| Some((name.strip_prefix(prefix)?.to_owned(), values.clone()))).collect()
}

/// What the names of a trainer's rule begin with in a saved state.
const RULE: &str = "rule.";

/// A family with its parameters, the shared part of θ, and how both move: to the rule they are one vector.
#[derive(Debug)]
pub(crate) struct Trainer {
    pub(crate) family: Box<dyn Family>,
    /// The family's parameters, then θ.
    values: Vec<f64>,
    /// The coordinates in which the parameters of the family move; `None` for their own.
    chart: Option<Chart>,
    pub(crate) descent: Descent,
}

impl Trainer {
    /// Trains `parameters` of `family` and `theta`.
    pub(crate) fn new(family: Box<dyn Family>, parameters: Vec<f64>, theta: &[f64], descent: Descent) -> Self {
        debug_assert_eq!(parameters.len(), family.parameter_len(), "invariant: the parameters are the family's");
        let mut values = parameters;
        values.extend_from_slice(theta);
        Self { family, values, chart: None, descent }
    }

    /// Starts the family at a mode, and lets its parameters move in coordinates of that; θ keeps its own.
    pub(crate) fn begin_at(&mut self, footing: &Footing) {
        self.set_parameters(&footing.parameters);
        self.chart = Some(Chart::of(footing));
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

    /// Takes the step of this number down the gradient by the parameters of the family, then by θ.
    ///
    /// With a chart rule and clip see its coordinates and the gradient by these.
    pub(crate) fn step(&mut self, step: u64, gradient: &mut [f64]) -> Moved {
        let Some(chart) = &mut self.chart else { return self.descent.step(step, &mut self.values, gradient) };
        let gradient_norm = norm(gradient);
        chart.enter(&mut self.values, gradient);
        let moved = self.descent.step(step, &mut self.values, gradient);
        chart.leave(&mut self.values);
        Moved { gradient_norm, ..moved }
    }

    /// Everything as named vectors.
    pub(crate) fn save(&self) -> NamedVectors {
        let own = [("global".to_owned(), self.parameters().to_vec()), ("theta".to_owned(), self.theta().to_vec())];
        let rule = self.descent.save().into_iter().map(|(name, values)| (format!("{RULE}{name}"), values));
        own.into_iter().chain(self.chart.iter().flat_map(Chart::save)).chain(rule).collect()
    }

    /// Restores what [`Trainer::save`] gave, beside other vectors; false if it does not fit, and nothing has changed
    /// then but the rule.
    pub(crate) fn load(&mut self, state: &[(String, Vec<f64>)]) -> bool {
        let find = |name: &str, length: usize| {
            state.iter().find(|(known, values)| known == name && values.len() == length).map(|(_, values)| values)
        };
        let (Some(global), Some(theta)) = (find("global", self.parameters().len()), find("theta", self.theta().len()))
        else {
            return false;
        };
        if !self.descent.load(with_prefix(state, RULE)) {
            return false;
        }
        let chart = Chart::load(state, global.len());
        self.values = [global.as_slice(), theta].concat();
        self.chart = chart;
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
        let moved = trainer.step(5, &mut [0.0, 3.0, 4.0]);
        // Half of the cosine from 0.5 to 0; the gradient of norm 5 is cut to 1.
        assert_eq!(moved, Moved { gradient_norm: 5.0, is_clipped: true, rate: 0.25 });
        let expected = [1.0, 2.0 - 0.25 * 0.6, 3.0 - 0.25 * 0.8];
        assert!(trainer.values().iter().zip(expected).all(|(own, want)| (own - want).abs() < 1e-12));
        assert_eq!((trainer.parameters().len(), trainer.theta().len()), (2, 1));
    }

    #[test]
    fn a_restored_trainer_goes_on_with_the_same_bits_and_refuses_another_length() {
        let (mut one, mut two) = (trainer(), trainer());
        one.step(0, &mut [0.1, 0.2, 0.3]);
        assert!(two.load(&one.save()));
        one.step(1, &mut [0.3, 0.1, 0.2]);
        two.step(1, &mut [0.3, 0.1, 0.2]);
        assert_eq!(one.values(), two.values());
        let mut short = one.save();
        short.iter_mut().filter(|(name, _)| name == "theta").for_each(|(_, values)| values.clear());
        assert!(!two.load(&short));
    }
}
