//! Gives the distribution of times whose hazard is constant between cuts, and proportional to that of other rows.

use super::tail::{Tail, tails};
use super::{Density, Gradient, distribution};
use crate::noise::NoiseStream;

distribution! {
    /// The piecewise exponential distribution.
    ///
    /// $$ \log p(t) = \eta + a_{j(t)} - H(t),\qquad H(t) = \sum_k e^{\eta + a_k}\thinspace |(c_k, c_{k+1}] \cap (0, t]| $$
    /// with $\eta$ = `predictor`, $a_1, \dots, a_K$ = `log_hazards`, $0 = c_1 < c_2 < \dots < c_K$ = 0 and `cuts`,
    /// $c_{K+1} = \infty$, and $j(t)$ the interval $(c_j, c_{j+1}]$ that holds $t$. The survival function is $e^{-H(t)}$,
    /// and $e^\eta$ multiplies every hazard.
    ///
    /// # Shapes
    /// `predictor` `[...]`, one for each event; `log_hazards` `[K]` and `cuts` `[K - 1]`, shared by the batch.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Density, Gradient, PiecewiseExponential};
    /// // Hazards 1 until time 2, and e after it.
    /// let parameters: [&[f64]; 3] = [&[0.0], &[0.0, 1.0], &[2.0]];
    /// let log_prob = PiecewiseExponential.log_prob(&[3.0], parameters, &mut Gradient::default());
    /// assert!((log_prob - (1.0 - 2.0 - 1.0_f64.exp())).abs() < 1e-15);
    /// ```
    ///
    /// # References
    /// Friedman (1982), *Piecewise exponential models for survival data with covariates*.
    pub struct PiecewiseExponential
        where |_| Support::Positive, of number(predictor in Real), vector(log_hazards in Real), vector(cuts in Positive);
}

/// An interval between two cuts.
#[derive(Debug, Clone, Copy)]
struct Interval {
    index: usize,
    start: f64,
    end: f64,
    hazard: f64,
}

fn intervals<'a>([predictor, log_hazards, cuts]: [&'a [f64]; 3]) -> impl Iterator<Item = Interval> + 'a {
    let starts = std::iter::once(0.0).chain(cuts.iter().copied());
    let ends = cuts.iter().copied().chain(std::iter::once(f64::INFINITY));
    starts.zip(ends).zip(log_hazards).enumerate().map(move |(index, ((start, end), log))| Interval {
        index,
        start,
        end,
        hazard: (predictor[0] + log).exp(),
    })
}

/// $H(t)$.
fn cumulative_hazard(time: f64, parameters: [&[f64]; 3]) -> f64 {
    intervals(parameters)
        .take_while(|own| own.start < time)
        .map(|own| own.hazard * (time.min(own.end) - own.start))
        .sum()
}

/// Adds `factor` times the derivatives of $H(t)$.
fn add_hazard(factor: f64, time: f64, parameters: [&[f64]; 3], gradient: &mut Gradient<'_>) {
    let factor = factor * gradient.scale;
    let [by_predictor, by_hazards, by_cuts] = &mut gradient.parameters;
    for own in intervals(parameters).take_while(|own| own.start < time) {
        let exposed = own.hazard * (time.min(own.end) - own.start);
        if let [slot] = &mut **by_predictor {
            *slot += factor * exposed;
        }
        if let Some(slot) = by_hazards.get_mut(own.index) {
            *slot += factor * exposed;
        }
        // A later cut leaves more time to the hazard before it.
        if let Some(slot) = own.index.checked_sub(1).and_then(|cut| by_cuts.get_mut(cut)) {
            *slot -= factor * own.hazard;
        }
        if let Some(slot) = by_cuts.get_mut(own.index).filter(|_| time > own.end) {
            *slot += factor * own.hazard;
        }
        if let ([slot], true) = (&mut *gradient.value, time <= own.end) {
            *slot += factor * own.hazard;
        }
    }
}

impl Density for PiecewiseExponential {
    fn conflict(&self, [_, _, cuts]: [&[f64]; 3]) -> Option<(&'static str, f64, &'static str)> {
        let pair = cuts.windows(2).find(|pair| pair[1] <= pair[0])?;
        Some(("cuts", pair[1], "a number above the cut before it"))
    }

    fn log_prob(&self, value: &[f64], parameters: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        let (time, [predictor, log_hazards, cuts]) = (value[0], parameters);
        let interval = cuts.iter().take_while(|cut| **cut < time).count();
        if gradient.is_wanted() {
            let scale = gradient.scale;
            let [by_predictor, by_hazards, _] = &mut gradient.parameters;
            if let [slot] = &mut **by_predictor {
                *slot += scale;
            }
            if let Some(slot) = by_hazards.get_mut(interval) {
                *slot += scale;
            }
            add_hazard(-1.0, time, parameters, gradient);
        }
        predictor[0] + log_hazards[interval] - cumulative_hazard(time, parameters)
    }

    fn draw(&self, parameters: [&[f64]; 3], noise: &mut NoiseStream, out: &mut [f64]) {
        let mut left = -noise.uniform().ln();
        for own in intervals(parameters) {
            let whole = own.hazard * (own.end - own.start);
            if left <= whole {
                out[0] = (own.start + left / own.hazard).clamp(f64::MIN_POSITIVE, f64::MAX);
                return;
            }
            left -= whole;
        }
        out[0] = f64::MAX;
    }

    fn mean(&self, parameters: [&[f64]; 3]) -> Option<Vec<f64>> {
        Some(vec![moments(parameters)[0]])
    }

    fn variance(&self, parameters: [&[f64]; 3]) -> Option<Vec<f64>> {
        let [mean, square] = moments(parameters);
        Some(vec![square - mean * mean])
    }

    tails!();
}

impl PiecewiseExponential {
    fn log_tail(tail: Tail, value: f64, parameters: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        if value <= 0.0 {
            return tail.below();
        }
        let hazard = cumulative_hazard(value, parameters);
        let (log, by_log) = tail.exponential(hazard, hazard.ln());
        if gradient.is_wanted() && log > f64::NEG_INFINITY && hazard > 0.0 {
            add_hazard(by_log / hazard, value, parameters, gradient);
        }
        log
    }
}

/// The mean and the mean square, $\int S$ and $2 \int t S$.
fn moments(parameters: [&[f64]; 3]) -> [f64; 2] {
    let (mut mean, mut square, mut gone) = (0.0, 0.0, 0.0);
    for own in intervals(parameters) {
        let (alive, rate, whole) = (f64::exp(-gone), own.hazard, own.hazard * (own.end - own.start));
        let ended = -(-whole).exp_m1();
        mean += alive * ended / rate;
        let rest = if whole.is_finite() { whole * (-whole).exp() } else { 0.0 };
        square += 2.0 * alive * (own.start * ended / rate + (ended - rest) / (rate * rate));
        gone += whole;
    }
    [mean, square]
}
