//! Finds a run whose sampled bounds have fallen far below where they were, and keeps the place to go back to.

use crate::engine::checkpoint::{NamedVectors, named};

/// The standard deviations of the best stretch of bounds by which all later ones are below it.
const DEVIATIONS: f64 = 10.0;
/// The nats for each trained number that a rate may cost beside that: far more than iterates lose that rest at a high rate.
const RATE: f64 = 0.1;
/// Bounds that a stretch has at least, so that one bad draw is no fall.
const LEAST: u64 = 8;
/// Bounds of a stretch of a run with a guard.
const GUARDED: u64 = 32;

/// What is kept of some sampled bounds in a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Stretch {
    pub(crate) count: u64,
    mean: f64,
    /// The sum of squares of what bounds are away from their mean: of far bounds squares alone would leave no digit.
    squares: f64,
    highest: f64,
}

impl Default for Stretch {
    fn default() -> Self {
        Self { count: 0, mean: 0.0, squares: 0.0, highest: f64::NEG_INFINITY }
    }
}

impl Stretch {
    /// That of one bound.
    pub(crate) fn of(bound: f64) -> Self {
        Self { count: 1, mean: bound, squares: 0.0, highest: bound }
    }

    /// This and another, one after the other.
    pub(crate) fn with(self, other: Self) -> Self {
        let count = self.count + other.count;
        if count == 0 {
            return self;
        }
        let (own, more, apart) = (real(self.count), real(other.count) / real(count), other.mean - self.mean);
        // Chan, Golub and LeVeque (1983), Algorithms for computing the sample variance.
        Self {
            count,
            mean: self.mean + more * apart,
            squares: self.squares + other.squares + own * more * apart * apart,
            highest: self.highest.max(other.highest),
        }
    }

    pub(crate) fn mean(&self) -> f64 {
        self.mean
    }

    pub(crate) fn variance(&self) -> f64 {
        self.squares / real(self.count)
    }

    /// Whether all of these bounds of a run that trains so many numbers are far below those of a better stretch.
    fn has_fallen_from(&self, best: &Self, trained: usize) -> bool {
        self.highest < best.mean() - DEVIATIONS * best.variance().sqrt() - RATE * real(trained as u64)
    }

    /// As numbers.
    pub(crate) fn save(&self) -> [f64; 4] {
        [real(self.count), self.mean, self.squares, self.highest]
    }

    /// What [`Stretch::save`] gave.
    pub(crate) fn load([count, mean, squares, highest]: [f64; 4]) -> Self {
        Self { count: whole(count), mean, squares, highest }
    }
}

/// Whether the latest of these stretches is far below the best of those before, in a run that trains so many numbers.
pub(crate) fn has_exploded(stretches: &[Stretch], trained: usize) -> bool {
    let each = stretches.iter().map(|own| own.count).min().unwrap_or_default().max(1);
    let group = usize::try_from(LEAST.div_ceil(each)).unwrap_or(usize::MAX);
    let joined = |group: &[Stretch]| group.iter().fold(Stretch::default(), |sum, own| sum.with(*own));
    let Some(before) = stretches.len().checked_sub(group) else { return false };
    let latest = joined(&stretches[before..]);
    let best = stretches[..before].windows(group).map(joined).max_by(|a, b| a.mean().total_cmp(&b.mean()));
    best.is_some_and(|best| latest.has_fallen_from(&best, trained))
}

/// A count as it is saved.
pub(crate) fn real(count: u64) -> f64 {
    count as f64
}

/// A saved count.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saved from unsigned counts")]
pub(crate) fn whole(number: f64) -> u64 {
    number as u64
}

/// The best place of a run whose rate is a function of the step.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Guard {
    open: Stretch,
    best: Option<(Stretch, Vec<f64>)>,
}

/// What the names of a guard's vectors begin with.
const GUARD: [&str; 3] = ["guard.open", "guard.best", "guard.place"];

impl Guard {
    /// Takes the sampled bound of a step and where it led; where the run goes back to, if it has exploded.
    pub(crate) fn take(&mut self, bound: f64, values: &[f64]) -> Option<Vec<f64>> {
        self.open = self.open.with(Stretch::of(bound));
        if self.open.count < GUARDED {
            return None;
        }
        let full = std::mem::take(&mut self.open);
        match &mut self.best {
            Some((best, place)) if full.has_fallen_from(best, values.len()) => return Some(place.clone()),
            Some((best, _)) if full.mean() <= best.mean() => {}
            best => *best = Some((full, values.to_vec())),
        }
        None
    }

    /// Everything as named vectors.
    pub(crate) fn save(&self) -> NamedVectors {
        let mut state = vec![(GUARD[0].to_owned(), self.open.save().to_vec())];
        if let Some((best, place)) = &self.best {
            state.push((GUARD[1].to_owned(), best.save().to_vec()));
            state.push((GUARD[2].to_owned(), place.clone()));
        }
        state
    }

    /// What [`Guard::save`] gave beside other vectors; an empty one where there is none.
    pub(crate) fn load(state: &[(String, Vec<f64>)]) -> Self {
        let find = |name: &str| named(state, name);
        let stretch = |name| find(name).and_then(|own| own.try_into().ok()).map(Stretch::load);
        let [open, best, place] = GUARD;
        let best = stretch(best).zip(find(place)).map(|(best, place)| (best, place.to_vec()));
        Self { open: stretch(open).unwrap_or_default(), best }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretches(bounds: impl IntoIterator<Item = f64>) -> Vec<Stretch> {
        bounds.into_iter().map(Stretch::of).collect()
    }

    /// Bounds around a mean, two apart.
    fn around(mean: f64, count: usize) -> Vec<f64> {
        (0..count).map(|k| mean + if k % 2 == 0 { 1.0 } else { -1.0 }).collect()
    }

    #[test]
    fn a_fall_by_ten_deviations_and_a_tenth_of_a_nat_a_number_is_an_explosion() {
        let fallen = |fall: f64| has_exploded(&stretches([around(-100.0, 20), around(-100.0 - fall, 8)].concat()), 50);
        // The highest of the latest is one above their mean: 10 deviations of 1, 5 nats for 50 numbers, and that.
        assert!(fallen(16.1) && !fallen(15.9));
    }

    #[test]
    fn bounds_far_from_zero_keep_their_deviations() {
        let joined = |bounds: &[f64]| bounds.iter().fold(Stretch::default(), |sum, own| sum.with(Stretch::of(*own)));
        let bounds = around(-1e9, 32);
        for stretch in [joined(&bounds), joined(&bounds[..13]).with(joined(&bounds[13..]))] {
            assert!((stretch.variance() - 1.0).abs() < 1e-6 && (stretch.mean() + 1e9).abs() < 1e-6, "{stretch:?}");
        }
        assert!(!has_exploded(&stretches(around(-1e9, 40)), 2));
        let fallen = |fall: f64| has_exploded(&stretches([around(-1e9, 20), around(-1e9 - fall, 8)].concat()), 50);
        assert!(fallen(16.1) && !fallen(15.9));
    }

    #[test]
    fn bad_draws_and_a_bad_start_are_none() {
        let mut bounds = [around(-1e9, 20), around(-100.0, 28)].concat();
        assert!(!has_exploded(&stretches(bounds.clone()), 1));
        // Seven of the last eight, whose deviation hides their own fall from a rule by means.
        bounds.iter_mut().rev().take(7).for_each(|own| *own = -1e12);
        assert!(!has_exploded(&stretches(bounds.clone()), 1));
        bounds.iter_mut().rev().take(8).for_each(|own| *own = -1e12);
        assert!(has_exploded(&stretches(bounds), 1));
        assert!(!has_exploded(&[], 1) && !has_exploded(&stretches([0.0, -1e9]), 1));
    }

    #[test]
    fn a_guard_goes_back_to_the_best_place_and_is_the_same_after_a_checkpoint() {
        let mut guard = Guard::default();
        let take = |guard: &mut Guard, bound: f64, place: f64| {
            let found = around(bound, 32).into_iter().filter_map(|own| guard.take(own, &[place])).last();
            *guard = Guard::load(&guard.save());
            found
        };
        assert_eq!(take(&mut guard, -1e9, 0.0), None);
        assert_eq!(take(&mut guard, -100.0, 1.0), None);
        assert_eq!(take(&mut guard, -105.0, 2.0), None);
        assert_eq!(take(&mut guard, -1e6, 3.0), Some(vec![1.0]));
    }
}
