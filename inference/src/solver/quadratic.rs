//! Reads natural parameters off a log density that is quadratic, from its gradient alone.

use partita_core::{Key, Noise, Purpose};

use crate::error::Result;
use crate::exponential_family::{ExponentialFamily, NormalFamily};

/// How far a gradient may be from that of a quadratic, relative to its largest entry: rounding of single precision.
const ROUNDING: f64 = 1e-5;

/// What the gradient of a quadratic function says of it.
#[derive(Debug)]
pub(crate) struct Quadratic {
    /// The gradient at zero.
    pub(crate) linear: Vec<f64>,
    /// Minus the matrix of second derivatives, column by column; only its diagonal where components are independent.
    pub(crate) curvature: Vec<Vec<f64>>,
}

/// Linear part and curvature of a function with this gradient, if it is quadratic: one evaluation a component, two for a
/// function whose components are independent (`diagonal`), and one to make sure at a point that keyed noise chooses.
pub(crate) fn quadratic(
    len: usize,
    diagonal: bool,
    mut gradient: impl FnMut(&[f64]) -> Result<Vec<f64>>,
) -> Result<Option<Quadratic>> {
    let linear = gradient(&vec![0.0; len])?;
    let minus = |other: Vec<f64>| linear.iter().zip(other).map(|(zero, one)| zero - one).collect::<Vec<f64>>();
    let curvature = if diagonal {
        vec![minus(gradient(&vec![1.0; len])?)]
    } else {
        let unit = |component| (0..len).map(|other| f64::from(u8::from(other == component))).collect::<Vec<f64>>();
        (0..len).map(|component| Ok(minus(gradient(&unit(component))?))).collect::<Result<_>>()?
    };
    let found = Quadratic { linear, curvature };
    let mut point = vec![0.0; len];
    Noise::new(0).normal(Key::new(Purpose::Check, 0), &mut point);
    let (expected, seen) = (found.gradient(&point), gradient(&point)?);
    let size = expected.iter().chain(&seen).fold(1.0_f64, |size, value| size.max(value.abs()));
    let is_quadratic = expected.iter().zip(&seen).all(|(a, b)| (a - b).abs() <= ROUNDING * size);
    Ok(is_quadratic.then_some(found))
}

impl Quadratic {
    fn gradient(&self, point: &[f64]) -> Vec<f64> {
        let mut gradient = self.linear.clone();
        if let ([diagonal], true) = (self.curvature.as_slice(), point.len() != 1) {
            gradient.iter_mut().zip(diagonal).zip(point).for_each(|((slot, curvature), x)| *slot -= curvature * x);
            return gradient;
        }
        for (column, x) in self.curvature.iter().zip(point) {
            gradient.iter_mut().zip(column).for_each(|(slot, curvature)| *slot -= curvature * x);
        }
        gradient
    }

    /// The natural parameters, where the family has room for the curvature.
    pub(crate) fn natural(&self, family: &NormalFamily) -> Option<Vec<f64>> {
        let natural = family.natural_of_curvature(&self.linear, &self.curvature);
        // Curvature between components that the family holds independent would be lost.
        let mut point = vec![0.0; family.len()];
        Noise::new(0).normal(Key::new(Purpose::Check, 1), &mut point);
        let (own, all) = (family.score(&natural, &point), self.gradient(&point));
        let size = all.iter().fold(1.0_f64, |size, value| size.max(value.abs()));
        own.iter().zip(&all).all(|(a, b)| (a - b).abs() <= ROUNDING * size).then_some(natural)
    }
}
