//! Checks the laws of densities: derivatives, draws inside the support, moments, and the distribution of the draws.

mod case;
mod tails;
mod violation;

pub use case::DensityCase;
pub use violation::DensityLaw;

use partita_core::{Density, Domain, Gradient, Key, Noise, Purpose, Support};

use crate::Violation;
use crate::difference::within;

const SEED: u64 = 271_828;
/// Draws of each case.
const DRAWS: usize = 20_000;
/// Standard errors of a moment: a correct density fails one check with probability 6e-7.
const STANDARD_ERRORS: f64 = 5.0;
/// Probability with which correct draws fail the distance between distribution functions.
const FAILURE: f64 = 1e-6;
/// What central differences with the best of many steps agree to, relative to the derivative.
const DIFFERENCE: f64 = 1e-6;
/// What rounding of the log density leaves of that, relative to its size.
const ROUNDING: f64 = 1e-9;

/// Checks all laws of `density` in each of `cases`.
///
/// Derivatives against central differences (1e-6 relative), 20,000 draws inside the support, their mean and variance
/// within five standard errors (none of an improper density), and their distribution function within the bound of
/// Massart (1990),
/// $\sqrt{\log(2/p)/2n}$ at $p = 10^{-6}$: against `cumulative` where there is one, against the summed probabilities
/// for counts (for which the bound errs on the safe side). Where [`Density::log_power_integral`] is known, that it is 0
/// at power 1, its derivatives against differences, and at power 1.5 the mean of $`p^{0.5}`$ over the draws. Where
/// [`Density::log_cdf`] and [`Density::log_survival`] are known, that the two tails sum to one and rise as the density
/// integrates (by Simpson's rule around the value; sums for counts), that `cumulative` is the lower one, and
/// their derivatives against differences.
///
/// # Errors
/// The first [`DensityLaw`] that does not hold, in a case that is named by its place in the list.
///
/// # Example
/// ```
/// use partita_core::Normal;
/// use partita_laws as laws;
/// laws::density(&Normal, &[laws::DensityCase::new(&[0.3], &[&[1.0], &[2.0]])])?;
/// # Ok::<(), laws::Violation<laws::DensityLaw>>(())
/// ```
pub fn density(density: &dyn Density, cases: &[DensityCase]) -> Result<(), Violation<DensityLaw>> {
    for (number, case) in cases.iter().enumerate() {
        let checked = Checked { density, number, case, support: density.support(case.parameters()) };
        checked.event()?;
        checked.derivatives()?;
        checked.cumulative()?;
        checked.tails()?;
        checked.power_integral()?;
        if density.is_improper() {
            continue;
        }
        let draws = checked.draws()?;
        checked.moments(&draws)?;
        checked.distribution(draws.clone())?;
        checked.power_by_draws(&draws)?;
    }
    Ok(())
}

struct Checked<'a> {
    density: &'a dyn Density,
    number: usize,
    case: &'a DensityCase,
    support: Support,
}

impl Checked<'_> {
    fn broken<T>(&self, law: DensityLaw) -> Result<T, Violation<DensityLaw>> {
        Violation::of(format!("{}, case {}", self.density.name(), self.number), law)
    }

    fn log_prob(&self, case: &DensityCase) -> f64 {
        self.density.log_prob(&case.value, case.parameters(), &mut Gradient::default())
    }

    fn event(&self) -> Result<(), Violation<DensityLaw>> {
        let parameters = self.case.parameters();
        if self.support.contains(&self.case.value) && self.density.conflict(parameters).is_none() {
            return Ok(());
        }
        self.broken(DensityLaw::Case { value: self.case.value.clone(), support: self.support.describe() })
    }

    fn derivatives(&self) -> Result<(), Violation<DensityLaw>> {
        // Neither zero nor one, so that an assignment in place of an addition, or a forgotten factor, is seen.
        const START: f64 = 1.0;
        const FACTOR: f64 = 2.0;
        let mut found = self.case.clone();
        let numbers = found.parameters.iter_mut().chain(std::iter::once(&mut found.value));
        numbers.for_each(|numbers| numbers.fill(START));
        let parameters = found.parameters.each_mut().map(Vec::as_mut_slice);
        let mut gradient = Gradient { scale: FACTOR, value: &mut found.value, parameters };
        let log_prob = self.density.log_prob(&self.case.value, self.case.parameters(), &mut gradient);
        for argument in 0..=self.density.parameters().len() {
            for (index, slot) in found.argument(argument).clone().into_iter().enumerate() {
                let found = (slot - START) / FACTOR;
                let by_value = argument == 0;
                let expected = if by_value && self.support.is_discrete() {
                    0.0
                } else {
                    let at = self.case.clone().argument(argument)[index];
                    slope(|amount| self.log_prob(&self.case.moved(argument, index, amount)), at)
                };
                let bound = DIFFERENCE * expected.abs() + ROUNDING * (1.0 + log_prob.abs());
                if !within(found, expected, bound) {
                    let argument = if by_value { "value" } else { self.density.parameters()[argument - 1].name };
                    return self.broken(DensityLaw::Derivative { argument, index, found, expected });
                }
            }
        }
        Ok(())
    }

    fn cumulative(&self) -> Result<(), Violation<DensityLaw>> {
        let (value, parameters) = (self.case.value[0], self.case.parameters());
        let vector = self.density.event_rank() > 0 || self.support.is_discrete();
        if vector || self.density.cumulative(value, parameters).is_none() {
            return Ok(());
        }
        let at = |amount| self.density.cumulative(value + amount, parameters).unwrap_or(f64::NAN);
        let (found, expected) = (slope(at, value), self.log_prob(self.case).exp());
        if within(found, expected, DIFFERENCE * expected + ROUNDING) {
            return Ok(());
        }
        self.broken(DensityLaw::Cumulative { found, expected })
    }

    /// The integral of a power, where it is known: 0 at power 1, and its derivatives at others.
    fn power_integral(&self) -> Result<(), Violation<DensityLaw>> {
        const START: f64 = 1.0;
        const FACTOR: f64 = 2.0;
        let integral = |case: &DensityCase, power: f64| {
            let found = self.density.log_power_integral(power, case.parameters(), &mut Gradient::default());
            found.unwrap_or(f64::NAN)
        };
        for power in [1.0, 1.3, 2.0] {
            let mut slots = self.case.parameters.clone();
            slots.iter_mut().for_each(|slots| slots.fill(START));
            let parameters = slots.each_mut().map(Vec::as_mut_slice);
            let mut gradient = Gradient { scale: FACTOR, value: &mut [], parameters };
            let found = self.density.log_power_integral(power, self.case.parameters(), &mut gradient);
            let Some(value) = found.filter(|value| value.is_nan() || *value < f64::INFINITY) else { continue };
            if power <= 1.0 && !within(value, 0.0, ROUNDING) {
                let (found, expected, bound) = (value, 0.0, ROUNDING);
                return self.broken(DensityLaw::Integral { power, found, expected, bound });
            }
            for (parameter, slots) in slots.iter().enumerate() {
                for (index, slot) in slots.iter().enumerate() {
                    let found = (slot - START) / FACTOR;
                    let at = self.case.parameters[parameter][index];
                    let moved = |amount| integral(&self.case.moved(parameter + 1, index, amount), power);
                    let whole = self.density.parameters()[parameter].domain == Domain::Count;
                    let expected = if whole { found } else { slope(moved, at) };
                    if !within(found, expected, DIFFERENCE * expected.abs() + ROUNDING * (1.0 + value.abs())) {
                        let argument = self.density.parameters()[parameter].name;
                        return self.broken(DensityLaw::Derivative { argument, index, found, expected });
                    }
                }
            }
        }
        Ok(())
    }

    /// $`\mathrm{E}[p^{\beta - 1}] = \int p^\beta`$ by the draws, where the integrals are known and finite.
    fn power_by_draws(&self, draws: &[f64]) -> Result<(), Violation<DensityLaw>> {
        const POWER: f64 = 1.5;
        let log_integral = |power: f64| {
            let found = self.density.log_power_integral(power, self.case.parameters(), &mut Gradient::default());
            found.filter(|found| found.is_nan() || *found < f64::INFINITY)
        };
        let (Some(log_expected), Some(log_square)) = (log_integral(POWER), log_integral(2.0 * POWER - 1.0)) else {
            return Ok(());
        };
        let mut case = self.case.clone();
        let powers = draws.chunks_exact(self.case.value.len()).map(|draw| {
            case.value.copy_from_slice(draw);
            ((POWER - 1.0) * self.log_prob(&case) - log_expected).exp()
        });
        let found = powers.sum::<f64>() / DRAWS as f64;
        let bound =
            STANDARD_ERRORS * ((log_square - 2.0 * log_expected).exp_m1().max(0.0) / DRAWS as f64).sqrt() + ROUNDING;
        if within(found, 1.0, bound) {
            return Ok(());
        }
        let [found, expected, bound] = [found, 1.0, bound].map(|number| number * log_expected.exp());
        self.broken(DensityLaw::Integral { power: POWER, found, expected, bound })
    }

    /// The draws, one after the other.
    fn draws(&self) -> Result<Vec<f64>, Violation<DensityLaw>> {
        let mut noise = Noise::new(SEED).stream(Key::new(Purpose::Check, self.number as u64));
        let mut draws = vec![0.0; DRAWS * self.case.value.len()];
        for draw in draws.chunks_exact_mut(self.case.value.len()) {
            self.density.draw(self.case.parameters(), &mut noise, draw);
            if !self.support.contains(draw) {
                return self.broken(DensityLaw::Draw { draw: draw.to_vec(), support: self.support.describe() });
            }
        }
        Ok(draws)
    }

    fn moments(&self, draws: &[f64]) -> Result<(), Violation<DensityLaw>> {
        let parameters = self.case.parameters();
        let Some(means) = self.density.mean(parameters) else { return Ok(()) };
        let variances = self.density.variance(parameters);
        let length = self.case.value.len();
        for (index, mean) in means.iter().enumerate() {
            let average = |power: i32| {
                let powers = draws.iter().skip(index).step_by(length).map(|draw| (draw - mean).powi(power));
                powers.sum::<f64>() / DRAWS as f64
            };
            let Some(variance) = variances.as_ref().map(|variances| variances[index]) else { continue };
            let error_of = |variance: f64| STANDARD_ERRORS * (variance / DRAWS as f64).sqrt();
            let square = average(2);
            let checks = [
                ("mean", mean + average(1), *mean, error_of(variance)),
                ("variance", square, variance, error_of((average(4) - square * square).max(0.0))),
            ];
            for (moment, found, expected, error) in checks {
                let bound = error + ROUNDING * expected.abs();
                if !within(found, expected, bound) {
                    return self.broken(DensityLaw::Moment { moment, index, found, expected, bound });
                }
            }
        }
        Ok(())
    }

    fn distribution(&self, mut draws: Vec<f64>) -> Result<(), Violation<DensityLaw>> {
        if self.density.event_rank() > 0 || self.case.value.len() > 1 {
            return Ok(());
        }
        draws.sort_by(f64::total_cmp);
        let distance = if self.support.is_discrete() {
            self.distance_of_counts(&draws)
        } else if self.density.cumulative(draws[0], self.case.parameters()).is_some() {
            self.distance_of_numbers(&draws)
        } else {
            return Ok(());
        };
        let bound = ((2.0 / FAILURE).ln() / (2.0 * DRAWS as f64)).sqrt();
        if within(distance, 0.0, bound) {
            return Ok(());
        }
        self.broken(DensityLaw::Distribution { distance, bound })
    }

    fn distance_of_numbers(&self, sorted: &[f64]) -> f64 {
        let count = sorted.len() as f64;
        let distances = sorted.iter().enumerate().map(|(before, draw)| {
            let expected = self.density.cumulative(*draw, self.case.parameters()).unwrap_or(f64::NAN);
            let below = expected - before as f64 / count;
            below.max(1.0 / count - below)
        });
        distances.fold(0.0, worst)
    }

    fn distance_of_counts(&self, sorted: &[f64]) -> f64 {
        let mut case = self.case.clone();
        case.value = vec![0.0];
        let (mut expected, mut furthest, mut seen) = (0.0, 0.0, 0);
        while seen < sorted.len() {
            expected += self.log_prob(&case).exp();
            seen += sorted[seen..].iter().take_while(|draw| **draw <= case.value[0]).count();
            furthest = worst(furthest, (expected - seen as f64 / sorted.len() as f64).abs());
            case.value[0] += 1.0;
        }
        furthest
    }
}

/// The larger of two numbers, or NaN if one of them is.
fn worst(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

/// The derivative at 0 of a function of the distance from `at`, by central differences of fourth order.
///
/// Of forty steps, each half the one before, it takes the one with the least error: the change from the step before
/// (larger steps leave the domain or bend) plus the rounding of function and argument (which drowns smaller steps).
fn slope(function: impl Fn(f64) -> f64, at: f64) -> f64 {
    const STEPS: i32 = 40;
    const FIRST: f64 = 0.1;
    let size = function(0.0).abs();
    let mut best = (f64::INFINITY, f64::NAN);
    let mut last = f64::NAN;
    for halvings in 0..STEPS {
        let step = FIRST * at.abs().max(1.0) * 0.5_f64.powi(halvings);
        let [inner, outer] = [step, 2.0 * step].map(|step| function(step) - function(-step));
        let next = (8.0 * inner - outer) / (12.0 * step);
        let error = (next - last).abs() + f64::EPSILON * (size + (at * next).abs()) / step;
        if error < best.0 {
            best = (error, next);
        }
        last = next;
    }
    best.1
}
