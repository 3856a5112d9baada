//! Mixes what was heard in the latest rounds into a step: Anderson acceleration of the natural-gradient iteration.

use faer::Mat;

use super::quadratic::Quadratic;
use super::step::{Share, Step};
use crate::engine::error::Result;
use crate::engine::natural::triangle;
use crate::engine::normal::Normal;
use crate::engine::symmetric::Eigen;

/// The most rounds that are remembered.
const MOST: usize = 3;
/// Directions in which remembered rounds differ by less than this part of the widest, squared, are left out.
const LEAST_PART: f64 = 1e-8;
/// What the mean may have left to gain, in nats, in a round that is remembered: farther away, quadratics differ by more
/// than the skew that mixing makes up for.
const NEAR: f64 = 1.0;
/// The most that remembered rounds may weigh, summed without signs; beyond it the step is the plain one.
const MOST_WEIGHT: f64 = 3.0;

/// A posterior that was accepted, with what all parties said of it.
#[derive(Debug, Clone, PartialEq)]
struct Round {
    at: Normal,
    gradient: Vec<f64>,
    curvature: Vec<f64>,
}

/// The latest rounds before the present one.
///
/// What parties say of a posterior is a quadratic, and the plain step goes to its normal distribution. Where the log
/// density is skewed, the quadratic depends on the posterior, and plain steps come nearer by a constant factor a round.
/// The residual $r_i$ of round $i$ is its quadratic less the log density of its own posterior, all in the coordinates of
/// the present one. The step is that of the quadratic $\sum_i \alpha_i f_i$ with $\sum_i \alpha_i = 1$ whose residual
/// $\sum_i \alpha_i r_i$ is the shortest.
///
/// # References
/// Anderson (1965), JACM 12; Walker and Ni (2011), SIAM Journal on Numerical Analysis 49.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Past {
    rounds: Vec<Round>,
}

/// A quadratic and its residual in the coordinates of a posterior, as gradient and lower triangle of the curvature.
struct Seen {
    quadratic: Vec<f64>,
    residual: Vec<f64>,
}

impl Past {
    /// Remembers an accepted posterior if it is near the optimum, and forgets the oldest where there are too many.
    ///
    /// # Errors
    /// As for [`Step::of`].
    pub(crate) fn push(&mut self, at: &Normal, share: &Share) -> Result<()> {
        if Step::of(share)?.decrement() > NEAR {
            return Ok(());
        }
        if self.rounds.len() == MOST {
            self.rounds.remove(0);
        }
        self.rounds.push(Round {
            at: at.clone(),
            gradient: share.gradient.clone(),
            curvature: share.curvature.clone(),
        });
        Ok(())
    }

    /// Forgets all, as after a step that was taken back.
    pub(crate) fn clear(&mut self) {
        self.rounds.clear();
    }

    /// The share of the present posterior `at`, mixed with those of the past.
    pub(crate) fn mix(&self, at: &Normal, share: &Share) -> Share {
        let len = at.len();
        let now = Quadratic { around: at.clone(), gradient: share.gradient.clone(), curvature: share.matrix() };
        let now = Seen::of(&now, at);
        let past: Vec<Seen> = self.rounds.iter().map(|round| round.seen_from(at)).collect();
        let Some(weights) = weights(&now, &past, len) else { return share.clone() };
        let mut mixed = now.quadratic.clone();
        for (seen, weight) in past.iter().zip(&weights) {
            for ((slot, own), now) in mixed.iter_mut().zip(&seen.quadratic).zip(&now.quadratic) {
                *slot += weight * (own - now);
            }
        }
        let curvature = mixed.split_off(len);
        Share { value: share.value, gradient: mixed, curvature }
    }

    /// All numbers in one vector.
    pub(crate) fn flat(&self) -> Vec<f64> {
        let rounds = self.rounds.iter();
        rounds.flat_map(|round| [round.at.flat(), round.gradient.clone(), round.curvature.clone()].concat()).collect()
    }

    /// From [`Past::flat`]; `None` if the length is that of no number of rounds.
    pub(crate) fn of_flat(values: &[f64], len: usize) -> Option<Self> {
        let size = 2 * (len + triangle::pairs(len));
        if !values.len().is_multiple_of(size) || values.len() > MOST * size {
            return None;
        }
        let round = |part: &[f64]| {
            let (at, rest) = part.split_at(len + triangle::pairs(len));
            let (gradient, curvature) = rest.split_at(len);
            Some(Round { at: Normal::of_flat(at, len)?, gradient: gradient.into(), curvature: curvature.into() })
        };
        values.chunks_exact(size).map(round).collect::<Option<_>>().map(|rounds| Self { rounds })
    }
}

impl Round {
    /// What was heard then, in the coordinates of `now`.
    fn seen_from(&self, now: &Normal) -> Seen {
        let curvature = triangle::unpack(now.len(), &self.curvature, 1.0, 1.0);
        Seen::of(&Quadratic { around: self.at.clone(), gradient: self.gradient.clone(), curvature }, now)
    }
}

impl Seen {
    /// A quadratic seen from `now`.
    ///
    /// With $w = L^{-1}(m' - m)$ and $B = L^{-1}L'$ the log density of the distribution that it is around is $-B^\top w$
    /// and $-B^\top B$.
    fn of(quadratic: &Quadratic, now: &Normal) -> Self {
        let (shift, by) = quadratic.around.way_to(now);
        let len = now.len();
        let through = (0..len).map(|column| (0..len).map(|row| by[(row, column)] * shift[row]).sum()).collect();
        let own = by.transpose() * &by;
        let log_density = Quadratic { around: now.clone(), gradient: through, curvature: own }.numbers();
        let quadratic = quadratic.seen_from(now).numbers();
        let residual = quadratic.iter().zip(&log_density).map(|(own, minus)| own + minus).collect();
        Self { quadratic, residual }
    }
}

/// The weights of past residuals that make the mixed one shortest, in the norm $|g|^2 + \tfrac12\|A\|_F^2$ of normal
/// distributions. `None` without a past, and for weights that are too large.
fn weights(now: &Seen, past: &[Seen], len: usize) -> Option<Vec<f64>> {
    if past.is_empty() {
        return None;
    }
    let mut units = vec![1.0; len];
    units.extend((0..len).flat_map(|row| (0..=row).map(move |column| if row == column { 0.5 } else { 1.0 })));
    let dot = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).zip(&units).map(|((a, b), unit)| unit * a * b).sum() };
    let mut columns = Vec::with_capacity(past.len());
    for seen in past {
        let column: Vec<f64> = seen.residual.iter().zip(&now.residual).map(|(own, now)| own - now).collect();
        let norm = dot(&column, &column).sqrt();
        if !(norm > 0.0 && norm.is_finite()) {
            return None;
        }
        columns.push((column.into_iter().map(|entry| entry / norm).collect::<Vec<f64>>(), norm));
    }
    let count = columns.len();
    let gram = Mat::from_fn(count, count, |i, j| dot(&columns[i].0, &columns[j].0));
    let Eigen { vectors, values } = Eigen::of(&gram)?;
    let most = values.iter().copied().fold(0.0, f64::max);
    let onto: Vec<f64> = columns.iter().map(|(column, _)| dot(column, &now.residual)).collect();
    let mut found = vec![0.0; count];
    for k in (0..count).filter(|k| values[*k] > LEAST_PART * most) {
        let along: f64 = (0..count).map(|i| vectors[(i, k)] * onto[i]).sum();
        (0..count).for_each(|i| found[i] -= vectors[(i, k)] * along / values[k]);
    }
    found.iter_mut().zip(&columns).for_each(|(weight, (_, norm))| *weight /= norm);
    (found.iter().map(|weight| weight.abs()).sum::<f64>() <= MOST_WEIGHT).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::whitened::Draws;

    /// The log density of the logarithm of a gamma variable: skewed, so that plain steps come nearer by a factor.
    fn share(at: &Normal, draws: &Draws) -> Share {
        let found: Vec<(f64, Vec<f64>)> = (0..draws.len())
            .map(|k| {
                let z = at.draw(draws.get(k))[0];
                (2.0 * z - z.exp(), vec![2.0 - z.exp()])
            })
            .collect();
        Share::of(at, draws, &found)
    }

    /// Steps until what is left to gain is below 1e-10 nats.
    fn steps(remember: bool) -> (usize, Normal) {
        let draws = Draws::new(3, 1, 16).unwrap();
        let (mut at, mut past) = (Normal::independent(vec![0.5], 0.6), Past::default());
        for count in 0..60 {
            let own = share(&at, &draws);
            if Step::of(&own).unwrap().decrement() < 1e-10 {
                return (count, at);
            }
            let next = Step::of(&past.mix(&at, &own)).unwrap().take(&at, 1.0);
            if remember {
                past.push(&at, &own).unwrap();
            }
            at = next;
        }
        panic!("it has not converged");
    }

    #[test]
    fn a_skewed_density_takes_fewer_steps_to_the_same_fixed_point() {
        let (plain, mixed) = (steps(false), steps(true));
        assert!(mixed.0 + 4 <= plain.0, "{} and {} steps", plain.0, mixed.0);
        assert!((plain.1.mean[0] - mixed.1.mean[0]).abs() < 1e-4);
        assert!((plain.1.factor[(0, 0)] - mixed.1.factor[(0, 0)]).abs() < 1e-4);
    }

    #[test]
    fn a_past_of_a_quadratic_changes_nothing() {
        // The same quadratic from everywhere: the present one is already right.
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
        let (before, at) = (Normal::independent(vec![0.3, -0.4], 0.3), Normal::independent(vec![-1.0, 0.5], 2.0));
        let mut past = Past::default();
        past.push(&before, &share(&before)).unwrap();
        assert_eq!(past.rounds.len(), 1);
        let (own, mixed) = (share(&at), past.mix(&at, &share(&at)));
        let apart = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(apart(&own.gradient, &mixed.gradient) < 1e-10, "{own:?} {mixed:?}");
        assert!(apart(&own.curvature, &mixed.curvature) < 1e-10, "{own:?} {mixed:?}");
        assert_eq!(Past::of_flat(&past.flat(), 2), Some(past));
    }
}
