//! Evaluates the logarithm of the probability between two ends, with derivatives, from whichever tails keep its digits.

use std::f64::consts::LN_2;

use super::Component;
use crate::distribution::formula::Slots;
use crate::distribution::tail::Tail;
use crate::math::special::log_one_minus_exp;

/// $\log(e^a + e^b)$.
pub(super) fn log_add_exp(a: f64, b: f64) -> f64 {
    let (large, small) = if a >= b { (a, b) } else { (b, a) };
    if large == f64::NEG_INFINITY { large } else { large + (small - large).exp().ln_1p() }
}

/// Two ends of an interval, infinite for none; counts at the ends belong to it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ends {
    pub(super) low: f64,
    pub(super) high: f64,
}

/// The places of the derivatives by the ends among the parameters of a composite, where an end is a parameter.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct EndSlots {
    pub(super) low: Option<usize>,
    pub(super) high: Option<usize>,
    /// Whether the low end is the value.
    pub(super) low_is_value: bool,
}

/// One tail probability in a sum: its sign, which is 0 for none, and its end.
#[derive(Debug, Clone, Copy)]
struct Piece {
    tail: Tail,
    is_low: bool,
    sign: f64,
    log: f64,
}

/// $P(a \le X \le b)$.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mass {
    pub(super) log: f64,
    /// The largest number below the interval: the low end itself, or the count before it.
    pub(super) below: f64,
    high: f64,
    pieces: [Piece; 2],
}

impl Mass {
    /// # Numerics
    /// A difference of two tails beyond the median, or one less the two tails around it: loses the digits that the
    /// larger tail has above the difference.
    pub(super) fn of(component: &Component, parameters: &[&[f64]], ends: Ends) -> Self {
        let discrete = component.form.support(component.at(parameters)).is_discrete();
        let Ends { low, high } = ends;
        let (below, high) = if discrete { (low.ceil() - 1.0, high.floor()) } else { (low, high) };
        let tail = |tail, at| component.log_tail(tail, at, parameters, &mut Slots::none());
        let piece = |tail, is_low, sign, log| Piece { tail, is_low, sign, log };
        let none = piece(Tail::Lower, false, 0.0, 0.0);
        let (before, after) = (tail(Tail::Lower, below), tail(Tail::Upper, high));
        let (log, pieces) = if before == f64::NEG_INFINITY && after == f64::NEG_INFINITY {
            (0.0, [none, none])
        } else if before == f64::NEG_INFINITY {
            let log = tail(Tail::Lower, high);
            (log, [piece(Tail::Lower, false, 1.0, log), none])
        } else if after == f64::NEG_INFINITY {
            let log = tail(Tail::Upper, below);
            (log, [piece(Tail::Upper, true, 1.0, log), none])
        } else if before < -LN_2 && after < -LN_2 {
            let log = (-(before.exp() + after.exp())).ln_1p();
            (log, [piece(Tail::Lower, true, -1.0, before), piece(Tail::Upper, false, -1.0, after)])
        } else if before >= -LN_2 {
            let more = tail(Tail::Upper, below);
            let log = more + log_one_minus_exp((after - more).min(0.0));
            (log, [piece(Tail::Upper, true, 1.0, more), piece(Tail::Upper, false, -1.0, after)])
        } else {
            let more = tail(Tail::Lower, high);
            let log = more + log_one_minus_exp((before - more).min(0.0));
            (log, [piece(Tail::Lower, false, 1.0, more), piece(Tail::Lower, true, -1.0, before)])
        };
        // An interval beyond an end of the support has no mass.
        let log = if below >= high { f64::NEG_INFINITY } else { log };
        Self { log, below, high, pieces }
    }

    /// Adds `factor` times the derivatives of the logarithm.
    pub(super) fn add(
        &self,
        component: &Component,
        parameters: &[&[f64]],
        slots: &mut Slots<'_, '_>,
        factor: f64,
        places: EndSlots,
    ) {
        for piece in self.pieces.iter().filter(|piece| piece.sign != 0.0) {
            let weight = factor * piece.sign * (piece.log - self.log).exp();
            let at = if piece.is_low { self.below } else { self.high };
            let place = if piece.is_low { places.low } else { places.high };
            let by_value = piece.is_low && places.low_is_value && !slots.value.is_empty();
            let by_end = place.is_some_and(|place| slots.parameters.get(place).is_some_and(|slots| !slots.is_empty()));
            let mut end = [0.0];
            let sink: &mut [f64] = if by_value || by_end { &mut end } else { &mut [] };
            component.log_tail(piece.tail, at, parameters, &mut slots.part(component.range.clone(), weight, sink));
            // The sink holds the derivative with the scale on it.
            if by_value {
                slots.value[0] += end[0];
            }
            if let Some([slot]) = place.and_then(|place| slots.parameters.get_mut(place)) {
                *slot += end[0];
            }
        }
    }

    /// The tail and the logarithm of its probability at the quantile whose lower part of the mass is `lower` and whose
    /// upper part is `upper` (one less `lower`, without cancellation).
    pub(super) fn target(&self, component: &Component, parameters: &[&[f64]], lower: f64, upper: f64) -> (Tail, f64) {
        let tail = |tail, at| component.log_tail(tail, at, parameters, &mut Slots::none());
        let (before, after) = (tail(Tail::Lower, self.below), tail(Tail::Upper, self.high));
        let mixed = |near: f64, far: f64, share: f64, rest: f64| near + (share + rest * (far - near).exp()).ln();
        if before >= -LN_2 {
            (Tail::Upper, mixed(tail(Tail::Upper, self.below), after, upper, lower))
        } else if after >= -LN_2 {
            (Tail::Lower, mixed(tail(Tail::Lower, self.high), before, lower, upper))
        } else {
            let mass = self.log.exp();
            let up_to = before.exp() + lower * mass;
            if up_to <= 0.5 { (Tail::Lower, up_to.ln()) } else { (Tail::Upper, (after.exp() + upper * mass).ln()) }
        }
    }
}
