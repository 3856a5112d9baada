//! Climbs to the mode of a log density of few numbers: differences of gradients give all of the curvature.

use faer::Mat;

use super::{Place, Spread, Summit, place};
use crate::engine::family::row_major;
use crate::engine::natural::dot;
use crate::engine::symmetric::Eigen;

/// The squared distance to the mode, in standard deviations, at which a climb is over.
const NEAR: f64 = 1e-6;
/// Findings of the curvature, and steps of the line search between two of them.
const FINDINGS: usize = 12;
const STEPS: usize = 40;
/// Widths tried for the difference of one component.
const WIDTHS: usize = 6;
/// The width of a difference in units of the curvature's own scale, near a mode.
const WIDTH: f64 = 1e-5;
/// The share of a slope that a difference is to be, far from a mode, so that rounding does not hide it.
const SHARE: f64 = 1e-9;
/// Eigenvalues of the scaled curvature below this count as flat.
const FLAT: f64 = 1e-11;

/// The climb of a density of few numbers: each finding of the curvature takes a gradient a number.
///
/// Differences of gradients give the curvature, whatever the units of the components: their widths follow it. Newton's
/// direction, with the signs of negative curvatures turned, and a backtracking line search lead to the next place;
/// quasi-Newton updates (BFGS) serve until it is near, and the curvature is found anew there.
#[derive(Debug)]
pub(crate) struct Newton {
    place: Place,
    /// The width of the difference of each component.
    widths: Vec<f64>,
    findings: usize,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    First,
    Difference { index: usize, tries: usize, precision: Mat<f64> },
    Line(Line),
    Over(Option<Summit>),
}

#[derive(Debug)]
struct Line {
    /// The present guess of the inverse of the curvature.
    inverse: Mat<f64>,
    direction: Vec<f64>,
    slope: f64,
    length: f64,
    steps: usize,
}

/// The curvature made fit for steps.
struct Curvature {
    inverse: Mat<f64>,
    is_peak: bool,
}

impl Newton {
    /// A climb from a point whose components have about these scales.
    pub(super) fn new(point: Vec<f64>, scales: &[f64]) -> Self {
        let widths = scales.iter().map(|scale| WIDTH * scale).collect();
        let place = Place { point, value: f64::NEG_INFINITY, gradient: Vec::new() };
        Self { place, widths, findings: 0, stage: Stage::First }
    }

    /// The next point whose log density and gradient are wanted; `None` where the climb is over.
    pub(super) fn ask(&self) -> Option<Vec<f64>> {
        let mut point = self.place.point.clone();
        match &self.stage {
            Stage::First => {}
            Stage::Difference { index, .. } => point[*index] += self.widths[*index],
            Stage::Line(line) => {
                point.iter_mut().zip(&line.direction).for_each(|(slot, by)| *slot += line.length * by);
            }
            Stage::Over(_) => return None,
        }
        Some(point)
    }

    /// Takes the log density and its gradient at the point asked for; `None` where the model has none there.
    pub(super) fn take(&mut self, found: Option<(f64, Vec<f64>)>) {
        let Some(point) = self.ask() else { return };
        let found = place(point, found);
        let stage = std::mem::replace(&mut self.stage, Stage::Over(None));
        self.stage = match (stage, found) {
            (Stage::First, Some(place)) => {
                self.place = place;
                self.find()
            }
            (Stage::Difference { index, tries, precision }, found) => self.difference([index, tries], precision, found),
            (Stage::Line(line), found) => self.line(line, found),
            (Stage::First | Stage::Over(_), _) => Stage::Over(None),
        };
    }

    /// The mode and the curvature, if the climb is over and found one.
    pub(super) fn summit(self) -> Option<Summit> {
        match self.stage {
            Stage::Over(summit) => summit,
            _ => None,
        }
    }

    /// Begins to find the curvature at the present place.
    fn find(&mut self) -> Stage {
        self.findings += 1;
        let size = self.place.point.len();
        if self.findings > FINDINGS || size == 0 {
            return Stage::Over(None);
        }
        Stage::Difference { index: 0, tries: 0, precision: Mat::zeros(size, size) }
    }

    /// Takes the gradient beside the present place, and asks again where the width of the difference was not right.
    fn difference(&mut self, [index, tries]: [usize; 2], mut precision: Mat<f64>, found: Option<Place>) -> Stage {
        let last = tries + 1 >= WIDTHS;
        let again = |precision| Stage::Difference { index, tries: tries + 1, precision };
        let Some(beside) = found else {
            self.widths[index] *= 1e-3;
            return if last { Stage::Over(None) } else { again(precision) };
        };
        let width = beside.point[index] - self.place.point[index];
        let change = beside.gradient[index] - self.place.gradient[index];
        let size = self.place.gradient[index].abs().max(beside.gradient[index].abs());
        if (width == 0.0 || change.abs() <= 1e-12 * size) && !last {
            self.widths[index] *= 1e3;
            return again(precision);
        }
        let unit = (change / width).abs().sqrt().recip();
        let wanted = unit * WIDTH.max(SHARE * size * unit).min(0.5);
        if wanted.is_finite() && !(0.1..=10.0).contains(&(width / wanted)) && !last {
            self.widths[index] = wanted;
            return again(precision);
        }
        for (row, (after, before)) in beside.gradient.iter().zip(&self.place.gradient).enumerate() {
            precision[(row, index)] = if width == 0.0 { 0.0 } else { (before - after) / width };
        }
        if index + 1 < self.place.point.len() {
            return Stage::Difference { index: index + 1, tries: 0, precision };
        }
        self.found(&precision)
    }

    /// Goes on with the curvature at the present place: over, if it is near the mode.
    fn found(&mut self, precision: &Mat<f64>) -> Stage {
        let Some(Curvature { inverse, is_peak }) = curvature(precision) else { return Stage::Over(None) };
        let line = self.along(inverse, STEPS);
        if !is_peak || line.slope > NEAR {
            return Stage::Line(line);
        }
        // One last step of Newton's, too short to be worth a gradient.
        let mode = self.place.point.iter().zip(&line.direction).map(|(at, by)| at + by).collect();
        let size = self.place.point.len();
        let symmetric = Mat::from_fn(size, size, |i, j| 0.5 * (precision[(i, j)] + precision[(j, i)]));
        let spread = Spread::Full { precision: row_major(&symmetric), covariance: row_major(&line.inverse) };
        Stage::Over(Some(Summit { mode, spread }))
    }

    /// The line from the present place along the gradient times `inverse`.
    fn along(&self, inverse: Mat<f64>, steps: usize) -> Line {
        let direction = times(&inverse, &self.place.gradient);
        let slope = dot(&direction, &self.place.gradient);
        Line { inverse, direction, slope, length: 1.0, steps }
    }

    /// Takes a trial along a line: a step if it rises enough, a shorter trial if not.
    fn line(&mut self, mut line: Line, found: Option<Place>) -> Stage {
        let rises = |place: &Place| {
            let slope = dot(&line.direction, &place.gradient);
            let gain = place.value - self.place.value;
            // Near the top rounding hides gains: there the slope along the line tells.
            let hidden = 1e-12 * (1.0 + self.place.value.abs());
            gain >= 1e-4 * line.length * line.slope || gain >= -hidden && slope.abs() <= 0.5 * line.slope
        };
        let Some(place) = found.filter(rises) else {
            line.length *= 0.25;
            return if line.length < 1e-12 { self.find() } else { Stage::Line(line) };
        };
        let step: Vec<f64> = line.direction.iter().map(|by| line.length * by).collect();
        let fall: Vec<f64> = self.place.gradient.iter().zip(&place.gradient).map(|(old, new)| old - new).collect();
        self.place = place;
        let inverse = updated(line.inverse, &step, &fall);
        let next = self.along(inverse, line.steps.saturating_sub(1));
        if next.slope <= NEAR || next.steps == 0 { self.find() } else { Stage::Line(next) }
    }
}

/// The inverse of a curvature by differences, made symmetric, with the signs of negative eigenvalues turned: `None`
/// where it is not finite.
fn curvature(precision: &Mat<f64>) -> Option<Curvature> {
    let size = precision.nrows();
    // In units of the curvature's own diagonal the entries are at most about one, whatever the units of the components.
    let units: Vec<f64> = (0..size).map(|i| precision[(i, i)].abs().sqrt()).collect();
    let units: Vec<f64> = units.into_iter().map(|root| if root > 0.0 { root.recip() } else { 1.0 }).collect();
    let scaled = Mat::from_fn(size, size, |i, j| 0.5 * (precision[(i, j)] + precision[(j, i)]) * units[i] * units[j]);
    if row_major(&scaled).iter().any(|entry| !entry.is_finite()) {
        return None;
    }
    let eigen = Eigen::of(&scaled)?;
    let is_peak = eigen.values.iter().all(|value| *value > FLAT);
    let turned = eigen.function(|value| value.abs().max(FLAT).recip());
    Some(Curvature { inverse: Mat::from_fn(size, size, |i, j| turned[(i, j)] * units[i] * units[j]), is_peak })
}

/// The inverse of the curvature after a step along which the gradient fell so much (BFGS).
fn updated(inverse: Mat<f64>, step: &[f64], fall: &[f64]) -> Mat<f64> {
    let product = dot(step, fall);
    let through = times(&inverse, fall);
    let curved = dot(fall, &through);
    if product <= 1e-8 * (curved * product.abs()).sqrt() || !product.is_finite() || product <= 0.0 {
        return inverse;
    }
    let factor = (1.0 + curved / product) / product;
    Mat::from_fn(step.len(), step.len(), |i, j| {
        inverse[(i, j)] + factor * step[i] * step[j] - (through[i] * step[j] + step[i] * through[j]) / product
    })
}

fn times(matrix: &Mat<f64>, vector: &[f64]) -> Vec<f64> {
    (0..vector.len()).map(|i| vector.iter().enumerate().map(|(j, v)| matrix[(i, j)] * v).sum()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Climbs a log density, and counts its evaluations.
    fn climbed(size: usize, density: impl Fn(&[f64]) -> Option<(f64, Vec<f64>)>) -> (Option<Summit>, usize) {
        let mut climb = Newton::new(vec![0.0; size], &vec![0.1; size]);
        let mut count = 0;
        while let Some(point) = climb.ask() {
            climb.take(density(&point));
            count += 1;
        }
        (climb.summit(), count)
    }

    #[test]
    fn a_normal_density_in_wild_units_is_found_exactly_enough() {
        // Standard deviations 1e-6 to 1e6, neighbours correlated by .9, the mode hundreds of them away.
        let (units, mode) = ([1e-6, 1.0, 1e6], [3e-4, -700.0, 4e8]);
        let precision = [[5.26, -4.74, 0.0], [-4.74, 9.53, -4.74], [0.0, -4.74, 5.26]];
        let density = |point: &[f64]| {
            let away: Vec<f64> = (0..3).map(|i| (point[i] - mode[i]) / units[i]).collect();
            let pulled: Vec<f64> = (0..3).map(|i| -(0..3).map(|j| precision[i][j] * away[j]).sum::<f64>()).collect();
            Some((0.5 * dot(&pulled, &away), pulled.iter().zip(units).map(|(pull, unit)| pull / unit).collect()))
        };
        let (summit, count) = climbed(3, density);
        let summit = summit.unwrap();
        let Spread::Full { precision: curvature, .. } = &summit.spread else { panic!("{summit:?}") };
        assert!((0..3).all(|i| ((summit.mode[i] - mode[i]) / units[i]).abs() < 1e-3), "{summit:?}");
        for i in 0..3 {
            for j in 0..3 {
                let found = curvature[3 * i + j] * units[i] * units[j];
                assert!((found - precision[i][j]).abs() < 1e-4, "{i} {j}: {found}");
            }
        }
        assert!(count < 60, "{count} gradients");
    }

    #[test]
    fn a_scale_far_from_its_start_and_places_without_density_are_no_obstacle() {
        // Ten residuals of size 1e5 around 1e6 in units of e^s, with a wide prior on s; no density beyond s = 30.
        let density = |point: &[f64]| {
            let [mean, s] = [point[0], point[1]];
            let squares: f64 = (0..10).map(|i| (1e6 + 1e5 * f64::from(i - 4) - mean).powi(2)).sum();
            let sum: f64 = (0..10).map(|i| 1e6 + 1e5 * f64::from(i - 4) - mean).sum();
            let tau = (-2.0 * s).exp();
            let value = -0.5 * squares * tau - 10.0 * s - 0.005 * s * s;
            (s < 30.0).then(|| (value, vec![sum * tau, squares * tau - 10.0 - 0.01 * s]))
        };
        let (summit, count) = climbed(2, density);
        let mode = summit.unwrap().mode;
        assert!((mode[0] - 1.05e6).abs() < 1e3 && (mode[1] - 12.566).abs() < 0.01, "{mode:?}");
        assert!(count < 300, "{count} gradients");
    }

    #[test]
    fn a_density_without_a_mode_gives_none() {
        assert!(climbed(1, |point| Some((point[0], vec![1.0]))).0.is_none());
        assert!(climbed(1, |_| None).0.is_none());
    }
}
