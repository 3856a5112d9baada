//! Climbs towards the mode of a log density of many numbers by a bounded number of gradients, and finds its scales.

use partita_core::{Key, Noise, Purpose};

use super::{Place, Spread, Summit, place};
use crate::engine::family::real;
use crate::engine::limited_memory::{Along, Memory, Search};
use crate::engine::natural::dot;

/// Gradients after which the climb ends wherever it is.
const GRADIENTS: usize = 100;
/// Differences of gradients in each round that finds scales: before the climb, and at its end.
const BEFORE: [usize; 5] = [1, 1, 1, 2, 4];
const AT_ITS_END: [usize; 2] = [8, 24];
/// The round from which on no scale changes by more than a hundredfold.
const CAREFUL: usize = 3;
/// The width of a difference in units of the scales, and how often it is shortened where there is no density.
const WIDTH: f64 = 1e-4;
const SHORTENINGS: usize = 3;
/// The squared distance to the mode, in standard deviations, at which the climb is over.
const NEAR: f64 = 1e-4;
/// Steps that are remembered.
const MEMORY: usize = 20;
/// The share of its unit at the start below which no scale may fall on the way to a place that is no mode.
const SHRUNK: f64 = 1e-3;
/// Standard errors by which a curvature is below zero.
const BELOW: f64 = 4.0;
/// The block of keys of the signs, apart from those of scattered means and of several starts.
const SIGNS_BLOCK: u32 = u32::MAX - 1;

/// The climb of a density of many numbers, by BFGS of limited memory in units of its own.
///
/// The curvature $`H`$ times vectors $`v`$ with entries $`\pm u_i`$, of fixed signs, follows from differences of
/// gradients along them. Before the climb the units $`u`$ are divided by the square roots of the root mean squares of
/// $`u_i (Hv)_i`$, round after round, which makes all rows of the curvature in these units alike, whatever its own. At
/// its end the mean of $`v_i (Hv)_i`$ is $`u_i^2 H_{ii}`$, up to noise that the rest of the row makes: where that is
/// larger it stands in, so that a scale is rather too small.
///
/// # References
/// Bekas, Kokiopoulou and Saad (2007), An estimator for the diagonal of a matrix; Dauphin, de Vries and Bengio (2015),
/// Equilibrated adaptive learning rates for non-convex optimization, arXiv:1502.04390.
#[derive(Debug)]
pub(crate) struct Limited {
    place: Place,
    /// The scales that were declared.
    declared: Vec<f64>,
    units: Vec<f64>,
    /// The units in which the climb is made.
    first: Vec<f64>,
    memory: Memory,
    width: f64,
    shortenings: usize,
    gradients: usize,
    /// Whether it has come near the mode.
    is_near: bool,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    First,
    Probe(Probe),
    Line(Line),
    Over(Option<Summit>),
}

/// Differences of gradients along vectors of signs.
#[derive(Debug)]
struct Probe {
    round: usize,
    signs: Vec<f64>,
    done: usize,
    /// Sums over the round of $`v_i (Hv)_i`$ and of their squares.
    sums: Vec<f64>,
    squares: Vec<f64>,
}

#[derive(Debug)]
struct Line {
    direction: Vec<f64>,
    search: Search,
    latest: Option<Place>,
}

impl Limited {
    /// A climb from a point whose components have about these scales.
    pub(super) fn new(point: Vec<f64>, scales: Vec<f64>) -> Self {
        let place = Place { point, value: f64::NEG_INFINITY, gradient: Vec::new() };
        Self {
            place,
            units: scales.clone(),
            first: scales.clone(),
            declared: scales,
            memory: Memory::new(MEMORY),
            width: WIDTH,
            shortenings: 0,
            gradients: 0,
            is_near: false,
            stage: Stage::First,
        }
    }

    /// The next point; `None` where the climb is over.
    pub(super) fn ask(&self) -> Option<Vec<f64>> {
        let mut point = self.place.point.clone();
        match &self.stage {
            Stage::First => {}
            Stage::Probe(probe) => {
                let moves = probe.signs.iter().zip(&self.units);
                point.iter_mut().zip(moves).for_each(|(slot, (sign, unit))| *slot += self.width * sign * unit);
            }
            Stage::Line(line) => {
                let step = line.search.step();
                point.iter_mut().zip(&line.direction).for_each(|(slot, by)| *slot += step * by);
            }
            Stage::Over(_) => return None,
        }
        Some(point)
    }

    /// Takes the log density and its gradient at the point asked for; `None` where there is none.
    pub(super) fn take(&mut self, found: Option<(f64, Vec<f64>)>) {
        let Some(point) = self.ask() else { return };
        let found = place(point, found);
        self.gradients += 1;
        let stage = std::mem::replace(&mut self.stage, Stage::Over(None));
        self.stage = match (stage, found) {
            (Stage::First, Some(place)) => {
                self.place = place;
                self.probe(0)
            }
            (Stage::Probe(probe), found) => self.probed(probe, found),
            (Stage::Line(line), found) => self.tried(line, found),
            (Stage::First | Stage::Over(_), _) => Stage::Over(None),
        };
    }

    /// Where to start, if the climb is over and found a place for it.
    pub(super) fn summit(self) -> Option<Summit> {
        match self.stage {
            Stage::Over(summit) => summit,
            _ => None,
        }
    }

    /// Begins a round of differences.
    fn probe(&self, round: usize) -> Stage {
        let size = self.units.len();
        let (sums, squares) = (vec![0.0; size], vec![0.0; size]);
        Stage::Probe(Probe { round, signs: signs(size, round, 0), done: 0, sums, squares })
    }

    /// Takes the gradient beside the present place, and ends the round with its last.
    fn probed(&mut self, mut probe: Probe, found: Option<Place>) -> Stage {
        let Some(beside) = found else {
            self.width *= 1e-2;
            self.shortenings += 1;
            return if self.shortenings > SHORTENINGS { Stage::Over(None) } else { Stage::Probe(probe) };
        };
        for (index, (before, after)) in self.place.gradient.iter().zip(&beside.gradient).enumerate() {
            let product = probe.signs[index] * (before - after) * self.units[index] / self.width;
            probe.sums[index] += product;
            probe.squares[index] += product * product;
        }
        probe.done += 1;
        let count = BEFORE.iter().chain(&AT_ITS_END).nth(probe.round).copied().unwrap_or(1);
        if probe.done < count {
            probe.signs = signs(self.units.len(), probe.round, probe.done);
            return Stage::Probe(probe);
        }
        match probe.round + 1 {
            next if next == BEFORE.len() + AT_ITS_END.len() => Stage::Over(self.found(&probe)),
            next => {
                self.rescale(&probe);
                if next == BEFORE.len() {
                    self.first.clone_from(&self.units);
                    return self.along();
                }
                self.probe(next)
            }
        }
    }

    /// Makes the units of all components such that the curvature's rows are alike in them.
    fn rescale(&mut self, probe: &Probe) {
        for (unit, squares) in self.units.iter_mut().zip(&probe.squares) {
            let factor = (squares / real(probe.done)).powf(-0.25);
            if factor.is_finite() && factor > 0.0 {
                *unit *= if probe.round < CAREFUL { factor } else { factor.clamp(1e-2, 1e2) };
            }
        }
    }

    /// The next line; the last differences where the climb is over.
    fn along(&mut self) -> Stage {
        let down: Vec<f64> = self.place.gradient.iter().zip(&self.units).map(|(slope, unit)| -slope * unit).collect();
        let scaled = self.memory.direction(&down);
        let slope = dot(&scaled, &down);
        self.is_near = -slope <= NEAR;
        let size = dot(&scaled, &scaled).sqrt();
        // Without curvature the components move by one unit of theirs, in the mean.
        let first = if self.memory.is_empty() { (real(scaled.len()).sqrt() / size).min(1.0) } else { 1.0 };
        let search = Search::new(Along { value: -self.place.value, slope, first });
        match search.filter(|_| !self.is_near && self.gradients < GRADIENTS) {
            Some(search) => {
                let direction = scaled.iter().zip(&self.units).map(|(by, unit)| by * unit).collect();
                Stage::Line(Line { direction, search, latest: None })
            }
            None => self.probe(BEFORE.len()),
        }
    }

    /// Takes a trial along a line.
    fn tried(&mut self, mut line: Line, found: Option<Place>) -> Stage {
        let seen = found.as_ref().map(|place| (-place.value, -dot(&place.gradient, &line.direction)));
        line.latest = found;
        let over = line.search.take(seen);
        if over.is_none() && self.gradients < GRADIENTS {
            return Stage::Line(line);
        }
        match line.latest {
            Some(place) if over == Some(true) || place.value > self.place.value => {
                let units = || self.units.iter();
                let step = place.point.iter().zip(&self.place.point).zip(units());
                let step = step.map(|((new, old), unit)| (new - old) / unit).collect();
                let change = self.place.gradient.iter().zip(&place.gradient).zip(units());
                let change = change.map(|((old, new), unit)| (old - new) * unit).collect();
                self.memory.push(step, change);
                self.place = place;
                self.along()
            }
            _ if !self.memory.is_empty() => {
                self.memory.clear();
                self.along()
            }
            _ => self.probe(BEFORE.len()),
        }
    }

    /// Where the climb has led, with the scales there: those that were declared where the curvature is not positive.
    ///
    /// `None` for a place that is no mode and where a scale has shrunk or is none: such a density may rise without end.
    fn found(&self, probe: &Probe) -> Option<Summit> {
        let count = real(probe.done);
        let scale = |index: usize| {
            let (mean, square) = (probe.sums[index] / count, probe.squares[index] / count);
            let error = ((square - mean * mean).max(0.0) / (count - 1.0)).sqrt();
            let precision = mean.max(error);
            let is_positive = precision > 0.0 && mean >= -BELOW * error;
            let scale = if is_positive { self.units[index] / precision.sqrt() } else { self.declared[index] };
            (square.is_finite() && scale > 0.0 && scale.is_finite()).then_some(scale)
        };
        let scales = (0..self.units.len()).map(scale).collect::<Option<Vec<f64>>>()?;
        let has_shrunk = scales.iter().zip(&self.first).any(|(scale, first)| *scale < SHRUNK * first);
        (self.is_near || !has_shrunk)
            .then(|| Summit { mode: self.place.point.clone(), spread: Spread::Conditional(scales) })
    }
}

/// The signs of one difference of a round.
fn signs(size: usize, round: usize, number: usize) -> Vec<f64> {
    let key = Key::new(Purpose::Initial, (32 * round + number) as u64).block(SIGNS_BLOCK);
    let mut stream = Noise::new(0).stream(key);
    (0..size).map(|_| if stream.uniform() < 0.5 { -1.0 } else { 1.0 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mode with its scales.
    type Found = (Vec<f64>, Vec<f64>);

    /// Climbs a log density of so many numbers from zero, and counts its gradients.
    fn climbed(size: usize, density: impl Fn(&[f64]) -> Option<(f64, Vec<f64>)>) -> (Option<Found>, usize) {
        let mut climb = Limited::new(vec![0.0; size], vec![0.1; size]);
        let mut count = 0;
        while let Some(point) = climb.ask() {
            climb.take(density(&point));
            count += 1;
        }
        let summit = climb.summit().map(|summit| {
            let Spread::Conditional(scales) = summit.spread else { panic!("no matrix of so many numbers") };
            (summit.mode, scales)
        });
        (summit, count)
    }

    #[test]
    fn three_hundred_numbers_in_wild_units_have_their_mode_and_their_scales() {
        // Standard deviations 1e-3 to 1e3 in a shuffled order, neighbours coupled, the mode a hundred of them away.
        let units: Vec<f64> = (0..300).map(|i| 10_f64.powf(f64::from(i * 91 % 300) / 50.0 - 3.0)).collect();
        let mode: Vec<f64> = (0..300).zip(&units).map(|(i, unit)| unit * (100.0 * f64::from(i).sin())).collect();
        let density = |point: &[f64]| {
            let away: Vec<f64> = point.iter().zip(&mode).zip(&units).map(|((at, mode), u)| (at - mode) / u).collect();
            let beside = |index: Option<usize>| index.and_then(|index| away.get(index)).copied().unwrap_or(0.0);
            let coupled = |i: usize| -0.3 * (beside(i.checked_sub(1)) + beside(Some(i + 1)));
            let pulled: Vec<f64> = away.iter().enumerate().map(|(i, own)| -(own + coupled(i))).collect();
            Some((0.5 * dot(&pulled, &away), pulled.iter().zip(&units).map(|(pull, unit)| pull / unit).collect()))
        };
        let (found, count) = climbed(300, density);
        let (point, scales) = found.unwrap();
        for (index, unit) in units.iter().enumerate() {
            let away = (point[index] - mode[index]) / unit;
            assert!(away.abs() < 0.1, "{index}: {away} sds away");
            // The conditional standard deviation is the unit.
            assert!((0.5..2.0).contains(&(scales[index] / unit)), "{index}: {} of {unit}", scales[index]);
        }
        assert!(count < 150, "{count} gradients");
    }

    #[test]
    fn a_component_of_negative_curvature_keeps_its_declared_scale() {
        // A hundred numbers with a mode, and one between two modes, at neither of which its slope leads.
        let density = |point: &[f64]| {
            let (&last, rest) = point.split_last()?;
            let value = -0.5 * rest.iter().map(|at| (at - 3.0).powi(2)).sum::<f64>() + 0.5 * last * last;
            let gradient: Vec<f64> = rest.iter().map(|at| 3.0 - at).chain([last]).collect();
            (last.abs() < 5.0).then_some((value, gradient))
        };
        let (found, _) = climbed(101, density);
        let (point, scales) = found.unwrap();
        assert!((point[0] - 3.0).abs() < 0.01 && point[100].abs() < 1e-12, "{point:?}");
        assert!((scales[0] - 1.0).abs() < 1e-3 && (scales[100] - 0.1).abs() < 1e-12, "{scales:?}");
    }

    #[test]
    fn a_density_that_rises_without_end_or_is_nowhere_gives_none() {
        // A hundred effects of an outcome each, and the logarithm of their deviation: the density has no bound.
        let outcomes: Vec<f64> = (0..100).map(|i| 0.3 * f64::from(i).sin()).collect();
        let effects = |point: &[f64]| {
            let (&log_sd, rest) = point.split_last()?;
            let (square, tau) = (dot(rest, rest), (-2.0 * log_sd).exp());
            let errors: Vec<f64> = outcomes.iter().zip(rest).map(|(outcome, own)| outcome - own).collect();
            let value = -0.5 * (dot(&errors, &errors) + square * tau) - 100.0 * log_sd;
            let slopes = errors.iter().zip(rest).map(|(error, own)| error - own * tau);
            let slopes: Vec<f64> = slopes.chain([square * tau - 100.0]).collect();
            (log_sd.abs() < 300.0).then_some((value, slopes))
        };
        assert!(climbed(101, effects).0.is_none());
        let (found, count) = climbed(80, |_| None);
        assert!(found.is_none() && count == 1);
    }
}
