//! Solves a local problem by matching moments, as power expectation propagation does.

use partita_core::Device;
use serde::{Deserialize, Serialize};

use super::expectation::{Expectation, Root, Rule};
use super::{LocalProblem, LocalSolver, LocalUpdate, Solved, SolverState};
use crate::engine::error::{Error, Result};
use crate::engine::natural::{ExponentialFamily, NormalFamily, dot};
use crate::engine::settings::Settings;

/// Power expectation propagation: the tilted density $`q\,(p(y_k \mid \theta)/t_k)^\alpha`$ is replaced by the member
/// of the family with its moments, $`q_\alpha`$, and a visit returns $`q^{1-1/\alpha} q_\alpha^{1/\alpha}`$; with the
/// damping $`\rho`$ of the algorithm the posterior becomes $`q^{1-\rho/\alpha} q_\alpha^{\rho/\alpha}`$.
///
/// With $`\alpha`$ = `alpha` = 1 it is expectation propagation, and as $`\alpha`$ goes to 0 its updates become
/// [`super::NaturalGradient`]'s, with a difference that shrinks like $`\alpha`$. Moments are taken by a Gauss-Hermite
/// rule that moves with the tilted density, over one or two components. Every step of a visit is one such update.
///
/// # References
/// Minka (2004), Power EP; Ashman et al. (2022), Partitioned variational inference, section 4.1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PowerExpectation {
    /// $`\alpha`$, in (0, 1].
    pub alpha: f64,
    /// Gauss-Hermite points a component.
    pub points: u32,
}

/// Components that moments are matched over.
const LONGEST: usize = 2;
/// Moves of the rule to the tilted density; they converge by several digits each.
const MOVES: usize = 50;
/// Moments that change by less, relative to the largest natural parameter, have converged.
const CONVERGED: f64 = 1e-13;
/// Moments that still move by more after all moves have not settled.
const SETTLED: f64 = 1e-8;

impl PowerExpectation {
    /// With this $`\alpha`$ and a rule that is fine for likelihoods of a few rows.
    #[must_use]
    pub fn new(alpha: f64) -> Self {
        Self { alpha, points: 40 }
    }

    /// Natural parameters with the moments of $`r \exp(w)`$ for the present guess `r`, and $`w`$ at a point.
    fn matched(
        rule: &Rule,
        family: &NormalFamily,
        guess: &[f64],
        mut log_weight: impl FnMut(&[f64], &[f64]) -> Result<f64>,
    ) -> Result<Vec<f64>> {
        let (mean, spread) = family.moments(guess);
        let root = Root::new(&spread)?;
        let (mut points, mut logs) = (Vec::new(), Vec::new());
        for point in &rule.points {
            let point = root.at(&mean, point);
            let statistics = family.statistics(&point);
            logs.push(log_weight(&point, &statistics)? - dot(guess, &statistics));
            points.push(statistics);
        }
        let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (mut total, mut sums) = (0.0, vec![0.0; family.natural_len()]);
        for ((statistics, log), weight) in points.iter().zip(&logs).zip(&rule.weights) {
            let weight = weight * (log - largest).exp();
            total += weight;
            sums.iter_mut().zip(statistics).for_each(|(sum, value)| *sum += weight * value);
        }
        sums.iter_mut().for_each(|sum| *sum /= total);
        family.natural_of_mean(&sums)
    }
}

impl LocalSolver for PowerExpectation {
    fn start(&self, _: &Settings, _: &Device) -> Box<dyn SolverState> {
        Box::new(*self)
    }

    fn check(&self, _: u64) -> Result<()> {
        Expectation::GaussHermite { points: self.points }.check()?;
        let (alpha, expected) = (self.alpha, "a number in (0, 1]; 1 is expectation propagation");
        Error::unless(alpha > 0.0 && alpha <= 1.0, "alpha of power expectation propagation", alpha, expected)
    }
}

impl SolverState for PowerExpectation {
    fn solve(&mut self, problem: &mut dyn LocalProblem, update: &LocalUpdate) -> Result<Solved> {
        let Self { alpha, points } = *self;
        let family = problem.natural_family().clone();
        let found = format_args!("PowerExpectation over {} components", family.len());
        let expected = "at most 2 components; NaturalGradient takes any number";
        Error::unless(family.len() <= LONGEST, "solver", found, expected)?;
        let (noise, key) = problem.noise(update.first);
        let rule = Expectation::GaussHermite { points }.rule(family.len(), noise, key)?;
        let cavity = problem.cavity().to_vec();
        let mut natural = update.received.clone();
        for _ in 0..update.steps {
            // q (p/t)^α = q^{1-α} cavity^α p^α.
            let base: Vec<f64> =
                natural.iter().zip(&cavity).map(|(q, cavity)| (1.0 - alpha) * q + alpha * cavity).collect();
            let mut guess = natural.clone();
            for moves in 1..=MOVES {
                let next = Self::matched(&rule, &family, &guess, |point, statistics| {
                    Ok(alpha * problem.log_likelihood(point, update.first)?.0 + dot(&base, statistics))
                })?;
                let change = next.iter().zip(&guess).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                let size = next.iter().map(|eta| eta.abs()).fold(0.0, f64::max);
                guess = next;
                if change <= CONVERGED * size {
                    break;
                }
                let is_stuck = moves == MOVES && change > SETTLED * size;
                let setting = "points of power expectation propagation";
                let found = format_args!(
                    "{points}, with which moments still move by {change:.1e} after {MOVES} moves of the rule"
                );
                let expected = "more points for a tilted density that is far from normal; or NaturalGradient";
                Error::unless(!is_stuck, setting, found, expected)?;
            }
            natural.iter_mut().zip(&guess).for_each(|(eta, tilted)| *eta += (tilted - *eta) / alpha);
            family.check("a step of power expectation propagation (damp it, or choose a larger alpha)", &natural)?;
        }
        let log_likelihood = rule.expected(problem, &family, &natural, update.first)?.value;
        Ok(Solved { natural, log_likelihood, steps: update.steps, clipped: 0, shortened: 0 })
    }
}
