//! Checks the logarithms of a distribution function and of its complement: sums, quadrature, derivatives.

use partita_core::{Domain, Gradient, Support};

use super::{Checked, DIFFERENCE, DensityCase, DensityLaw, ROUNDING, slope};
use crate::Violation;
use crate::difference::within;

/// Half-widths of the interval in which the density is integrated, around the value of the case.
const STEPS: [f64; 2] = [-0.4, 0.4];

#[derive(Debug, Clone, Copy)]
enum Tail {
    Lower,
    Upper,
}

impl Tail {
    fn name(self) -> &'static str {
        match self {
            Self::Lower => "lower",
            Self::Upper => "upper",
        }
    }
}

impl Checked<'_> {
    /// All laws of the two tails, where they are known.
    pub(super) fn tails(&self) -> Result<(), Violation<DensityLaw>> {
        if self.case.value.len() != 1 || self.density.event_rank() > 0 {
            return Ok(());
        }
        let known = [Tail::Lower, Tail::Upper].map(|tail| self.tail(tail, self.case));
        let [Some(lower), Some(upper)] = known else {
            let neither = known == [None; 2];
            let (value, sum) = (self.case.value[0], f64::NAN);
            return if neither { Ok(()) } else { self.broken(DensityLaw::Tails { value, sum }) };
        };
        let cumulative = self.density.cumulative(self.case.value[0], self.case.parameters());
        let sum = cumulative.unwrap_or(f64::NAN) + upper.exp();
        for sum in [lower.exp() + upper.exp(), sum] {
            if !within(sum, 1.0, ROUNDING) {
                return self.broken(DensityLaw::Tails { value: self.case.value[0], sum });
            }
        }
        for tail in [Tail::Lower, Tail::Upper] {
            self.change(tail)?;
            self.tail_derivatives(tail)?;
        }
        Ok(())
    }

    fn tail(&self, tail: Tail, case: &DensityCase) -> Option<f64> {
        let (value, parameters) = (case.value[0], case.parameters());
        match tail {
            Tail::Lower => self.density.log_cdf(value, parameters, &mut Gradient::default()),
            Tail::Upper => self.density.log_survival(value, parameters, &mut Gradient::default()),
        }
    }

    /// A tail changes between two values by the integral of the density between them.
    fn change(&self, tail: Tail) -> Result<(), Violation<DensityLaw>> {
        let at = |value: f64| {
            let moved = DensityCase { value: vec![value], ..self.case.clone() };
            self.tail(tail, &moved).unwrap_or(f64::NAN).exp()
        };
        let value = self.case.value[0];
        let ends: Vec<[f64; 2]> = if self.support.is_discrete() {
            vec![[value - 1.0, value], [value, value + 1.0], [-2.0, -1.0]]
        } else {
            let inside = |x: f64| match self.support {
                Support::Positive => x.max(1e-3 * value),
                Support::Interval(low, high) => x.clamp(low + 1e-3 * (high - low), high - 1e-3 * (high - low)),
                _ => x,
            };
            STEPS.map(|step| [value, inside(value + step * value.abs().max(1e-3))]).to_vec()
        };
        for [from, to] in ends {
            let found = match tail {
                Tail::Lower => at(to) - at(from),
                Tail::Upper => at(from) - at(to),
            };
            let expected = if self.support.is_discrete() { self.probability(to) } else { self.integral(from, to) };
            if !within(found, expected, 1e-8 * expected.abs() + ROUNDING) {
                return self.broken(DensityLaw::TailChange { tail: tail.name(), value: to, found, expected });
            }
        }
        Ok(())
    }

    /// The probability of a count, zero outside the support.
    fn probability(&self, value: f64) -> f64 {
        let case = DensityCase { value: vec![value], ..self.case.clone() };
        if self.support.contains(&case.value) { self.log_prob(&case).exp() } else { 0.0 }
    }

    /// The integral of the density by Simpson's rule.
    fn integral(&self, from: f64, to: f64) -> f64 {
        const PANELS: i32 = 4_000;
        let step = (to - from) / f64::from(2 * PANELS);
        let density = |place: i32| {
            let value = vec![from + f64::from(place) * step];
            self.log_prob(&DensityCase { value, ..self.case.clone() }).exp()
        };
        let inner = (1..2 * PANELS).map(|place| f64::from(2 + 2 * (place % 2)) * density(place));
        step / 3.0 * (density(0) + inner.sum::<f64>() + density(2 * PANELS))
    }

    /// The derivatives of a tail by value and parameters against differences; a count has none by the value.
    fn tail_derivatives(&self, tail: Tail) -> Result<(), Violation<DensityLaw>> {
        const START: f64 = 1.0;
        const FACTOR: f64 = 2.0;
        let mut found = self.case.clone();
        found.parameters.iter_mut().chain(std::iter::once(&mut found.value)).for_each(|numbers| numbers.fill(START));
        let parameters = found.parameters.each_mut().map(Vec::as_mut_slice);
        let mut gradient = Gradient { scale: FACTOR, value: &mut found.value, parameters };
        let (value, given) = (self.case.value[0], self.case.parameters());
        let log = match tail {
            Tail::Lower => self.density.log_cdf(value, given, &mut gradient),
            Tail::Upper => self.density.log_survival(value, given, &mut gradient),
        };
        if log.is_some_and(|log| log < f64::MIN) {
            return Ok(());
        }
        for argument in 0..=self.density.parameters().len() {
            // A total moves the support itself.
            if argument > 0 && self.density.parameters()[argument - 1].domain == Domain::Count {
                continue;
            }
            for (index, slot) in found.argument(argument).clone().into_iter().enumerate() {
                let found = (slot - START) / FACTOR;
                let expected = if argument == 0 && self.support.is_discrete() {
                    0.0
                } else {
                    let at = self.case.clone().argument(argument)[index];
                    let moved = |amount| self.tail(tail, &self.case.moved(argument, index, amount));
                    slope(|amount| moved(amount).unwrap_or(f64::NAN), at)
                };
                let size = 1.0 + log.unwrap_or(f64::NAN).abs();
                if !within(found, expected, DIFFERENCE * expected.abs() + ROUNDING * size) {
                    let name = if argument == 0 { "value" } else { self.density.parameters()[argument - 1].name };
                    return self.broken(DensityLaw::Derivative { argument: name, index, found, expected });
                }
            }
        }
        Ok(())
    }
}
