//! Evaluates whole batches of counts with more zeros at once, on the batch of the counts themselves.

use super::Component;
use crate::distribution::evaluate::{Evaluation, View, Wanted};

/// An event: its place and value, and the log probabilities that the counts give that and zero.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event {
    pub(super) index: usize,
    pub(super) value: f64,
    pub(super) own: f64,
    /// Zero if it is not needed.
    pub(super) zero: f64,
}

/// The log probability of an event, with its derivatives by those of the counts at the value and at zero, and by the chance.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Mixed {
    pub(super) log: f64,
    pub(super) by_own: f64,
    pub(super) by_zero: f64,
    pub(super) by_chance: f64,
}

/// Whether the log probabilities that the counts give zero are needed at every event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AtZero {
    Needed,
    Unused,
}

/// All events of counts into which `mix` mixes zeros by a chance, the parameter after those of the counts.
///
/// `None` where the counts have no batch, for one event, and where derivatives by values are asked for.
pub(super) fn evaluate(
    counts: &Component,
    view: &View<'_>,
    values: &[f64],
    scale: f64,
    wanted: &Wanted,
    at_zero: AtZero,
    mix: impl Fn(Event) -> Mixed,
) -> Option<Evaluation> {
    let (range, place) = (counts.range.clone(), counts.range.end);
    let base = View {
        density: &counts.form,
        parameters: view.parameters[range.clone()].iter().copied().collect(),
        widths: view.widths[range.clone()].iter().copied().collect(),
        event: view.event,
    };
    if wanted.value || view.event != 1 || values.len() < 2 {
        return None;
    }
    let support = base.support();
    if !support.is_discrete() || !support.contains(&[0.0]) {
        return None;
    }
    let own = Wanted { value: false, parameters: range.map(|index| wanted.by(index)).collect(), events: true };
    let mut found = base.evaluate_batch(values, 1.0, &own)?;
    let zeros = match at_zero {
        AtZero::Needed => base.evaluate_batch(&vec![0.0; values.len()], 1.0, &own)?,
        AtZero::Unused => Evaluation::default(),
    };
    let numbers = |is_wanted: bool| vec![0.0; if is_wanted { values.len() } else { 0 }];
    let (mut by_chance, needs_counts) = (numbers(wanted.by(place)), own.parameters.contains(&true));
    let (mut by_own, mut by_zero) = (numbers(needs_counts), numbers(needs_counts && at_zero == AtZero::Needed));
    for (index, (log, value)) in found.events.iter_mut().zip(values).enumerate() {
        let zero = zeros.events.get(index).copied().unwrap_or_default();
        let mixed = mix(Event { index, value: *value, own: *log, zero });
        *log = mixed.log;
        let parts = [(&mut by_chance, mixed.by_chance), (&mut by_own, mixed.by_own), (&mut by_zero, mixed.by_zero)];
        for (slots, part) in parts {
            if let Some(slot) = slots.get_mut(index) {
                *slot = scale * part;
            }
        }
    }
    for (index, slopes) in found.parameters.iter_mut().enumerate() {
        multiply(slopes, &by_own);
        if let Some(at_zero) = zeros.parameters.get(index) {
            let mut at_zero = at_zero.clone();
            multiply(&mut at_zero, &by_zero);
            slopes.iter_mut().zip(at_zero).for_each(|(slope, more)| *slope += more);
        }
    }
    let single = usize::from(view.parameters[place].len() == 1 && !by_chance.is_empty());
    found.shared = found.shared.iter().copied().chain([single]).collect();
    found.parameters = found.parameters.iter_mut().map(std::mem::take).chain([by_chance]).collect();
    found.total = scale * found.events.iter().sum::<f64>();
    if !wanted.events {
        let sums = found.parameters.iter_mut().zip(&*found.shared).filter(|(_, single)| **single > 0);
        sums.for_each(|(slopes, _)| *slopes = vec![slopes.iter().sum()]);
        (found.shared, found.events) = Default::default();
    }
    Some(found)
}

/// Multiplies the slopes of each event, one or several, by what it counts; an event that does not count may have infinite ones.
fn multiply(slopes: &mut [f64], factors: &[f64]) {
    let each = (slopes.len() / factors.len().max(1)).max(1);
    for (slopes, factor) in slopes.chunks_exact_mut(each).zip(factors) {
        for slope in slopes {
            *slope = if *factor == 0.0 { 0.0 } else { factor * *slope };
        }
    }
}
