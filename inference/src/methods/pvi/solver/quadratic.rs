//! Reads natural parameters off a log density that is quadratic, from its gradient alone.

use faer::Mat;
use partita_core::{Key, Noise, Purpose};

use crate::engine::error::Result;
use crate::engine::natural::{ExponentialFamily, NormalFamily, dot};
use crate::engine::symmetric::Eigen;

/// How far a component of a gradient may be from that of a quadratic, relative to the terms it is summed from: rounding
/// of single precision.
const ROUNDING: f64 = 1e-5;
/// Points at which a quadratic is made sure of.
const PROBES: u64 = 4;
/// A curvature below this, relative to the slope that it is a difference of, is rounding.
const UNRESOLVED: f64 = 1e-12;
/// A direction with less curvature than this, in units in which every component's own is one, has none.
const FLAT: f64 = 1e-6;

/// What the gradient of a quadratic function says of it.
#[derive(Debug)]
pub(crate) struct Quadratic {
    /// The gradient at zero.
    pub(crate) linear: Vec<f64>,
    /// Minus the matrix of second derivatives, column by column; only its diagonal where components are independent.
    pub(crate) curvature: Vec<Vec<f64>>,
}

/// Linear part and curvature of a function with this gradient, if it is quadratic: one evaluation a component, two for
/// a function whose components are independent (`diagonal`), and four to make sure at points that keyed noise chooses,
/// one to three standard deviations of the quadratic from its mean in every direction.
///
/// Any smooth function is quadratic near a point. The scale on which it has to be is its own: a Cauchy density of scale
/// 50 is as good as quadratic within one unit of zero, and a logistic regression on covariates of 0.01 within ten.
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
    let Some(scale) = found.scale() else { return Ok(None) };
    for probe in 0..PROBES {
        if !found.holds_at(&scale.at(&away(probe, len)), &mut gradient)? {
            return Ok(None);
        }
    }
    Ok(Some(found))
}

/// A number for each component, between one and three on either side of zero.
pub(super) fn away(probe: u64, len: usize) -> Vec<f64> {
    let mut stream = Noise::new(0).stream(Key::new(Purpose::Check, probe));
    let one = |uniform: f64| if uniform < 0.5 { -1.0 - 4.0 * uniform } else { 4.0 * uniform - 1.0 };
    (0..len).map(|_| one(stream.uniform())).collect()
}

/// Where a quadratic lies and how wide it is, in the directions in which it is a sum over components.
struct Scale {
    /// Units of the components, in which each has curvature one.
    units: Vec<f64>,
    /// The directions in these units, one a column; the components themselves where there are none.
    directions: Option<Mat<f64>>,
    /// The mean and the standard deviation in each direction; zero and one unit where there is no curvature.
    moments: Vec<(f64, f64)>,
}

impl Scale {
    /// The point so many standard deviations from the mean.
    fn at(&self, away: &[f64]) -> Vec<f64> {
        let along: Vec<f64> = self.moments.iter().zip(away).map(|((mean, sd), away)| mean + sd * away).collect();
        let turned = |component: usize| match &self.directions {
            Some(directions) => along.iter().enumerate().map(|(k, along)| directions[(component, k)] * along).sum(),
            None => along[component],
        };
        self.units.iter().enumerate().map(|(component, unit)| unit * turned(component)).collect()
    }
}

impl Quadratic {
    /// Whether only the diagonal of the curvature is known.
    fn is_diagonal(&self) -> bool {
        self.curvature.len() == 1 && self.linear.len() != 1
    }

    /// Units in which each component has curvature one; those of the model where it has none.
    fn units(&self) -> Vec<f64> {
        let own = |component: usize| match self.is_diagonal() {
            true => self.curvature[0][component],
            false => self.curvature[component][component],
        };
        let unit = |(component, linear): (usize, &f64)| {
            let curvature = own(component).abs();
            if curvature > UNRESOLVED * linear.abs() { curvature.sqrt().recip() } else { 1.0 }
        };
        self.linear.iter().enumerate().map(unit).collect()
    }

    /// Its mean and its standard deviations, in some directions; nothing if it is not finite.
    fn scale(&self) -> Option<Scale> {
        if !self.linear.iter().chain(self.curvature.iter().flatten()).all(|value| value.is_finite()) {
            return None;
        }
        let units = self.units();
        let linear: Vec<f64> = self.linear.iter().zip(&units).map(|(linear, unit)| linear * unit).collect();
        let moments = |linear: f64, curvature: f64| match curvature.abs() > FLAT {
            true => (linear / curvature, curvature.abs().sqrt().recip()),
            false => (0.0, 1.0),
        };
        if self.is_diagonal() {
            let curvature = self.curvature[0].iter().zip(&units).map(|(own, unit)| own * unit * unit);
            let moments = linear.iter().zip(curvature).map(|(linear, curvature)| moments(*linear, curvature)).collect();
            return Some(Scale { units, directions: None, moments });
        }
        let size = linear.len();
        let both = |i: usize, j: usize| 0.5 * (self.curvature[j][i] + self.curvature[i][j]);
        let matrix = Mat::from_fn(size, size, |i, j| both(i, j) * units[i] * units[j]);
        let Eigen { values, vectors: directions } = Eigen::of(&matrix)?;
        let along = |k: usize| (0..size).map(|i| directions[(i, k)] * linear[i]).sum::<f64>();
        let moments = (0..size).map(|k| moments(along(k), values[k])).collect();
        Some(Scale { units, directions: Some(directions), moments })
    }

    /// Whether a gradient at a point is that of the quadratic, component by component. Where the model has no density,
    /// because a scale has run to zero or infinity there, it is not.
    pub(super) fn holds_at(&self, point: &[f64], gradient: impl FnOnce(&[f64]) -> Result<Vec<f64>>) -> Result<bool> {
        let seen = match gradient(point) {
            Err(error) if error.is_outside() => return Ok(false),
            seen => seen?,
        };
        let (expected, size) = self.gradient(point);
        Ok(expected
            .iter()
            .zip(&size)
            .zip(&seen)
            .all(|((expected, size), seen)| (expected - seen).abs() <= ROUNDING * size))
    }

    /// The gradient, and the sum of the sizes of the terms of each of its components.
    fn gradient(&self, point: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let mut gradient = self.linear.clone();
        let mut size: Vec<f64> = self.linear.iter().map(|linear| linear.abs()).collect();
        let mut take = |component: usize, term: f64| {
            gradient[component] -= term;
            size[component] += term.abs();
        };
        if self.is_diagonal() {
            let terms = self.curvature[0].iter().zip(point).map(|(curvature, x)| curvature * x);
            terms.enumerate().for_each(|(component, term)| take(component, term));
        } else {
            for (column, x) in self.curvature.iter().zip(point) {
                column.iter().enumerate().for_each(|(component, curvature)| take(component, curvature * x));
            }
        }
        (gradient, size)
    }

    /// The natural parameters, where the family has room for the curvature.
    pub(crate) fn natural(&self, family: &NormalFamily) -> Option<Vec<f64>> {
        let natural = family.natural_of_curvature(&self.linear, &self.curvature);
        // Curvature between components that the family holds independent would be lost.
        let mut point = vec![0.0; family.len()];
        Noise::new(0).normal(Key::new(Purpose::Check, PROBES), &mut point);
        point.iter_mut().zip(self.units()).for_each(|(x, unit)| *x *= unit);
        let (all, size) = self.gradient(&point);
        let own = family.score(&natural, &point);
        let is_kept = |((own, all), (size, linear)): ((&f64, &f64), (&f64, &f64))| {
            // The linear part is kept anyway, and may be far larger than the curvature.
            (own - all).abs() <= ROUNDING * (size - linear.abs())
        };
        own.iter().zip(&all).zip(size.iter().zip(&self.linear)).all(is_kept).then_some(natural)
    }

    /// The expectation of the quadratic, less its value at zero.
    pub(super) fn expectation(&self, family: &NormalFamily, natural: &[f64]) -> f64 {
        let (mean, spread) = family.moments(natural);
        let (size, covariance) = (mean.len(), spread.dense());
        let mut square = 0.0;
        for (j, column) in self.curvature.iter().enumerate() {
            for (i, curvature) in column.iter().enumerate() {
                square += curvature * (covariance[i * size + j] + mean[i] * mean[j]);
            }
        }
        dot(&self.linear, &mean) - 0.5 * square
    }
}
