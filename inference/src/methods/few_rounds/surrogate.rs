//! Holds what rounds say of the log density around the present posterior, and finds the normal distribution nearest to it.

use faer::Mat;
use partita_core::kernel::dot;

use super::course::Course;
use super::past::{Past, Round};
use super::quadratic::pulled;
use super::step::{Share, Step};
use super::third::Third;
use crate::engine::error::Result;
use crate::engine::natural::triangle::{pack, unpack};
use crate::engine::normal::Normal;
use crate::engine::symmetric::Eigen;
use crate::engine::whitened::Draws;

/// Steps on the surrogate, and the part of what they had to gain at which they have settled.
const MOST_STEPS: usize = 60;
const LEFT: f64 = 1e-4;
/// The part of it below which a place that steps end at without having settled is still better than none.
const NEARER: f64 = 0.5;
/// The part of a step below which the surrogate has no optimum that steps come to.
const LEAST_FRACTION: f64 = 0.02;
/// The farthest that the mean may go by it, in standard deviations, where the plain step is no longer than its limit: third
/// derivatives say little of what is farther.
const FARTHEST: f64 = 3.0;
/// Directions in which remembered rounds differ by less than this part of the widest, squared, are left out.
const LEAST_PART: f64 = 1e-6;

/// The log density, and its expectations under normal distributions, in the coordinates of the present posterior.
///
/// Under $N(\delta, S)$ its gradient is $g + A\delta + \tfrac12 T : (\delta\delta^\top + S - I)$ on average, and its
/// curvature $A + T\delta$, with what was heard of the present posterior: $g$, $A$, and third derivatives $T$. What
/// remembered rounds heard differs from this, since a log density is no cubic; the difference is taken to be linear in
/// $\delta$ and $S$, along what these rounds differ by, and added.
///
/// # References
/// Broyden (1965), Mathematics of Computation 19, and Fang and Saad (2009), Numerical Linear Algebra with Applications
/// 16, for secants.
#[derive(Debug)]
struct Surrogate<'a> {
    at: &'a Normal,
    gradient: &'a [f64],
    curvature: Mat<f64>,
    third: Option<Third>,
    secants: Vec<Secant>,
    /// The pseudo-inverse of the products of the secants' places.
    inverse: Mat<f64>,
}

/// The distribution to which what is known leads from the present posterior, of which all parties said `share`: first by third
/// derivatives, else without them. `None` where both lead nowhere near.
///
/// Where the `plain` step is longer than its limit, and would be shortened, it may be as far as that limit.
///
/// # Errors
/// As for [`Step::of`].
pub(super) fn optimum(course: &Course, share: &Share, plain: &Step, draws: &Draws) -> Result<Option<Normal>> {
    let reach = if plain.length() > course.reach { course.reach } else { course.reach.min(FARTHEST) };
    let by = |third| Surrogate::of(&course.at, share, third, &course.past).optimum(reach);
    let third = share.even.as_ref().map(|even| Third::of(draws, even, &share.gradient));
    match third {
        Some(third) => by(Some(third))?.map_or_else(|| by(None), |found| Ok(Some(found))),
        None => by(None),
    }
}

/// A normal distribution in the coordinates of another: $\delta$, a factor of $S$, and $S - I$.
#[derive(Debug)]
struct Place {
    shift: Vec<f64>,
    by: Mat<f64>,
    spread: Mat<f64>,
}

/// A gradient and a curvature in the coordinates of the present posterior.
#[derive(Debug)]
struct Heard {
    gradient: Vec<f64>,
    curvature: Mat<f64>,
}

/// A remembered round: where it was, and what it heard beyond the cubic.
#[derive(Debug)]
struct Secant {
    place: Place,
    beyond: Heard,
}

impl Place {
    fn of(at: &Normal, now: &Normal) -> Self {
        let (shift, by) = at.way_to(now);
        let spread = &by * by.transpose() - Mat::<f64>::identity(shift.len(), shift.len());
        Self { shift, by, spread }
    }

    /// In the norm $|\delta|^2 + \tfrac12\|S - I\|_F^2$ of normal distributions.
    fn dot(&self, other: &Self) -> f64 {
        let shifts: f64 = self.shift.iter().zip(&other.shift).map(|(a, b)| a * b).sum();
        let columns = self.spread.col_iter().zip(other.spread.col_iter());
        shifts + 0.5 * columns.map(|(own, other)| own.transpose() * other).sum::<f64>()
    }
}

impl<'a> Surrogate<'a> {
    /// From what all parties say of `at`, third derivatives there, and what is remembered.
    fn of(at: &'a Normal, share: &'a Share, third: Option<Third>, past: &Past) -> Self {
        let own = Self {
            at,
            gradient: &share.gradient,
            curvature: share.matrix(),
            third,
            secants: Vec::new(),
            inverse: Mat::zeros(0, 0),
        };
        let secants: Vec<Secant> = past.rounds.iter().map(|round| own.secant(round)).collect();
        match inverse(&secants) {
            Some(inverse) => Self { secants, inverse, ..own },
            None => own,
        }
    }

    fn secant(&self, round: &Round) -> Secant {
        let place = Place::of(self.at, &round.at);
        // What was heard there was in the coordinates of that round.
        let (_, back) = round.at.way_to(self.at);
        let len = self.gradient.len();
        let gradient: Vec<f64> = pulled(&back, &round.gradient);
        let curvature = back.transpose() * unpack(len, &round.curvature, 1.0, 1.0) * &back;
        let cubic = self.cubic(&place);
        let gradient = gradient.iter().zip(&cubic.gradient).map(|(own, cubic)| own - cubic).collect();
        Secant { place, beyond: Heard { gradient, curvature: curvature - cubic.curvature } }
    }

    /// What the quadratic and the third derivatives say of a place.
    fn cubic(&self, place: &Place) -> Heard {
        let Place { shift, spread, .. } = place;
        let len = shift.len();
        let straight = |a: usize| self.gradient[a] + (0..len).map(|b| self.curvature[(a, b)] * shift[b]).sum::<f64>();
        let mut gradient: Vec<f64> = (0..len).map(straight).collect();
        let mut curvature = self.curvature.clone();
        if let Some(third) = &self.third {
            let moments = Mat::from_fn(len, len, |a, b| spread[(a, b)] + shift[a] * shift[b]);
            gradient.iter_mut().zip(third.bend(&moments)).for_each(|(slot, own)| *slot += own);
            curvature += third.along(shift);
        }
        Heard { gradient, curvature }
    }

    /// The share that it foretells of a distribution.
    fn share(&self, now: &Normal) -> Share {
        let place = Place::of(self.at, now);
        let Heard { mut gradient, mut curvature } = self.cubic(&place);
        let onto: Vec<f64> = self.secants.iter().map(|own| own.place.dot(&place)).collect();
        for (index, Secant { beyond, .. }) in self.secants.iter().enumerate() {
            let weight: f64 = onto.iter().enumerate().map(|(other, onto)| self.inverse[(index, other)] * onto).sum();
            gradient.iter_mut().zip(&beyond.gradient).for_each(|(slot, own)| *slot += weight * own);
            curvature += faer::Scale(weight) * &beyond.curvature;
        }
        let by = &place.by;
        Share {
            value: 0.0,
            gradient: pulled(by, &gradient),
            curvature: pack(&(by.transpose() * &curvature * by), 1.0, 1.0),
            even: None,
        }
    }

    /// The normal distribution at which nothing is left to gain, or half as much at most; `None` where there is none within
    /// `reach` standard deviations of the mean.
    ///
    /// # Errors
    /// As for [`Step::of`].
    fn optimum(&self, reach: f64) -> Result<Option<Normal>> {
        let mut now = self.at.clone();
        let mut step = Step::of(&self.share(&now))?;
        let (first, mut fraction) = (step.left(), 1.0);
        let least = LEFT * first;
        for _ in 0..MOST_STEPS {
            if step.left() <= least {
                return Ok(Some(now));
            }
            let next = step.take(&now, fraction);
            let shift = self.at.whiten(&next.mean);
            let length = dot(&shift, &shift).sqrt();
            let after = Step::of(&self.share(&next))?;
            // Neither where one is no number.
            if length <= reach && after.left() < step.left() {
                (now, step, fraction) = (next, after, f64::min(1.0, 2.0 * fraction));
            } else if fraction > LEAST_FRACTION {
                fraction *= 0.5;
            } else {
                break;
            }
        }
        Ok((step.left() < NEARER * first).then_some(now))
    }
}

/// The pseudo-inverse of the products of places; `None` without any, and where they cannot be told apart from the present.
fn inverse(secants: &[Secant]) -> Option<Mat<f64>> {
    let norms: Vec<f64> = secants.iter().map(|own| own.place.dot(&own.place).sqrt()).collect();
    if norms.is_empty() || norms.iter().any(|norm| !(*norm > 0.0 && norm.is_finite())) {
        return None;
    }
    let count = secants.len();
    let product = |i: usize, j: usize| secants[i].place.dot(&secants[j].place) / (norms[i] * norms[j]);
    let products = Eigen::of(&Mat::from_fn(count, count, product))?;
    let least = LEAST_PART * products.values.iter().copied().fold(0.0, f64::max);
    let inverse = products.function(|value| if value > least { value.recip() } else { 0.0 });
    Some(Mat::from_fn(count, count, |i, j| inverse[(i, j)] / (norms[i] * norms[j])))
}

#[cfg(test)]
mod tests {
    use super::super::course::Phase;
    use super::*;

    /// A log density over two numbers with skew and heavy curvature: of the logarithms of two gamma variables, rotated.
    fn share(at: &Normal, draws: &Draws) -> Share {
        let found: Vec<(f64, Vec<f64>)> = (0..draws.len())
            .map(|k| {
                let z = at.draw(draws.get(k));
                let (a, b) = (0.8 * z[0] + 0.6 * z[1], 0.8 * z[1] - 0.6 * z[0]);
                let (by_a, by_b) = (2.0 - a.exp(), 5.0 - b.exp());
                (2.0 * a - a.exp() + 5.0 * b - b.exp(), vec![0.8 * by_a - 0.6 * by_b, 0.6 * by_a + 0.8 * by_b])
            })
            .collect();
        Share::of(at, draws, &found)
    }

    fn third(own: &Share, draws: &Draws) -> Third {
        Third::of(draws, own.even.as_ref().unwrap(), &own.gradient)
    }

    /// What a run knows.
    #[derive(Clone, Copy, PartialEq)]
    enum Knows {
        Quadratic,
        Secants,
        All,
    }

    /// Steps until what is left to gain is below 1e-10 nats.
    fn steps(knows: Knows) -> (usize, Normal) {
        let draws = Draws::new(3, 2, 16).unwrap();
        let (mut at, mut past) = (Normal::independent(vec![0.5, 1.2], 0.6), Past::default());
        for count in 0..80 {
            let own = share(&at, &draws);
            let step = Step::of(&own).unwrap();
            if step.left() < 1e-10 {
                return (count, at);
            }
            let third = (knows == Knows::All).then(|| third(&own, &draws));
            let surrogate = Surrogate::of(&at, &own, third, &past);
            let next = surrogate.optimum(9.0).unwrap().unwrap_or_else(|| step.take(&at, 1.0));
            if knows != Knows::Quadratic {
                past.push(&at, &own).unwrap();
            }
            at = next;
        }
        panic!("it has not converged");
    }

    #[test]
    fn skewed_densities_take_fewer_steps_to_the_same_fixed_point() {
        let [plain, secants, all] = [Knows::Quadratic, Knows::Secants, Knows::All].map(steps);
        assert!(secants.0 < plain.0 && all.0 < secants.0, "{}, {} and {} steps", plain.0, secants.0, all.0);
        for (_, at) in [secants, all] {
            assert!(at.mean.iter().zip(&plain.1.mean).all(|(a, b)| (a - b).abs() < 1e-4));
            assert!((&at.factor - &plain.1.factor).norm_max() < 1e-4);
        }
    }

    #[test]
    fn third_derivatives_lead_farther_where_the_plain_step_would_be_shortened() {
        let draws = Draws::new(3, 2, 16).unwrap();
        let at = Normal::independent(vec![-0.84, 0.12], 0.3);
        let own = share(&at, &draws);
        let plain = Step::of(&own).unwrap();
        let course = |reach: f64| Course {
            phase: Phase::Rounds,
            at: at.clone(),
            share: None,
            said: Vec::new(),
            past: Past::default(),
            next: at.clone(),
            fraction: 1.0,
            reach,
        };
        let reach = 5.0;
        assert!(plain.length() > reach, "{}", plain.length());
        let found = optimum(&course(reach), &own, &plain, &draws).unwrap().unwrap();
        let shift = at.whiten(&found.mean);
        let length = dot(&shift, &shift).sqrt();
        assert!(length > FARTHEST && length <= reach, "{length} standard deviations");
        // It is nearer than the part of the plain step that is as long.
        let left = |at: &Normal| Step::of(&share(at, &draws)).unwrap().left();
        let shortened = plain.take(&at, plain.fraction_within(reach));
        assert!(left(&found) < left(&shortened), "{} and {}", left(&found), left(&shortened));
        let near = optimum(&course(1e3), &own, &plain, &draws).unwrap();
        assert!(near.is_none_or(|near| dot(&at.whiten(&near.mean), &at.whiten(&near.mean)).sqrt() <= FARTHEST));
    }

    #[test]
    fn a_quadratic_is_solved_in_one_step_whatever_is_remembered() {
        let draws = Draws::new(3, 2, 16).unwrap();
        let share = |at: &Normal| {
            let found: Vec<(f64, Vec<f64>)> = (0..draws.len())
                .map(|k| {
                    let z = at.draw(draws.get(k));
                    (-2.0 * z[0] * z[0] - z[1] * z[1], vec![-4.0 * z[0], -2.0 * z[1]])
                })
                .collect();
            Share::of(at, &draws, &found)
        };
        let (before, at) = (Normal::independent(vec![0.3, -0.4], 0.3), Normal::independent(vec![-1.0, 0.5], 0.8));
        let mut past = Past::default();
        past.push(&before, &share(&before)).unwrap();
        assert_eq!(past.rounds.len(), 1);
        let own = share(&at);
        let surrogate = Surrogate::of(&at, &own, Some(third(&own, &draws)), &past);
        let found = surrogate.optimum(9.0).unwrap().unwrap();
        assert!(found.mean.iter().all(|own| own.abs() < 1e-8), "{found:?}");
        assert!((found.factor[(0, 0)] - 0.5).abs() < 1e-8 && (found.factor[(1, 1)] - 0.5_f64.sqrt()).abs() < 1e-8);
        // Beyond reach there is none.
        assert!(surrogate.optimum(0.1).unwrap().is_none());
        assert_eq!(Past::of_flat(&past.flat(), 2), Some(past));
    }
}
