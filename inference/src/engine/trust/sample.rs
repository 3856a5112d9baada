//! Holds a weighted sample of a number, whose weights may be negative: means, deviations and quantiles.

use crate::engine::report::summary::Quantiles;

/// Numbers with weights of sum one.
///
/// Draws of an approximation $`q`$, of weight $`1/n`$ each, with draws of a wider distribution, of weight $`w_p - w_q`$
/// each, estimate expectations under $`p`$: what is known of $`q`$ is corrected by what tells $`p`$ from it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sample {
    values: Vec<f64>,
    weights: Vec<f64>,
}

impl Sample {
    pub(crate) fn new(values: Vec<f64>, weights: Vec<f64>) -> Self {
        debug_assert_eq!(values.len(), weights.len(), "invariant: one weight a value");
        Self { values, weights }
    }

    /// The value of a number that does not vary, such as an element of a triangle that is always zero.
    fn constant(&self) -> Option<f64> {
        let first = *self.values.first()?;
        self.values.iter().all(|value| value.total_cmp(&first).is_eq()).then_some(first)
    }

    pub(crate) fn mean(&self) -> f64 {
        self.constant().unwrap_or_else(|| self.moment(|value| value))
    }

    /// The standard deviation; not a number where negative weights leave no positive variance.
    pub(crate) fn deviation(&self) -> f64 {
        let mean = self.mean();
        self.moment(|value| (value - mean).powi(2)).sqrt()
    }

    /// A distance in standard deviations: zero where there is none, in a number that does not vary too.
    pub(crate) fn in_deviations(distance: f64, deviation: f64) -> f64 {
        if distance.abs() > 0.0 { distance / deviation } else { 0.0 * distance }
    }

    /// The Monte Carlo standard error of the mean, in standard deviations.
    pub(crate) fn error(&self) -> f64 {
        let mean = self.mean();
        let squares = self.values.iter().zip(&self.weights).map(|(value, weight)| (weight * (value - mean)).powi(2));
        Self::in_deviations(squares.sum::<f64>().sqrt(), self.deviation())
    }

    /// The Monte Carlo standard error of the standard deviation, as a part of it.
    pub(crate) fn deviation_error(&self) -> f64 {
        let (mean, deviation) = (self.mean(), self.deviation());
        let square = |value: f64| Self::in_deviations(value - mean, deviation).powi(2);
        let adds = |(value, weight): (&f64, &f64)| (weight * (square(*value) - 1.0)).powi(2);
        if deviation > 0.0 { 0.5 * self.values.iter().zip(&self.weights).map(adds).sum::<f64>().sqrt() } else { 0.0 }
    }

    /// The third standardised moment.
    pub(crate) fn skewness(&self) -> f64 {
        let (mean, deviation) = (self.mean(), self.deviation());
        self.moment(|value| Self::in_deviations(value - mean, deviation).powi(3))
    }

    fn moment(&self, of: impl Fn(f64) -> f64) -> f64 {
        self.values.iter().zip(&self.weights).map(|(value, weight)| weight * of(*value)).sum()
    }

    /// The weight of the values below this one; negative weights may take it out of the unit interval.
    pub(crate) fn below(&self, value: f64) -> f64 {
        self.moment(|own| f64::from(u8::from(own < value)))
    }

    /// The weight of the values above this one.
    pub(crate) fn above(&self, value: f64) -> f64 {
        self.moment(|own| f64::from(u8::from(own > value)))
    }

    /// The quantiles of a report.
    pub(crate) fn percentiles(&self) -> Quantiles {
        let [p2_5, p5, p25, p50, p75, p95, p97_5] = self.quantiles([0.025, 0.05, 0.25, 0.5, 0.75, 0.95, 0.975]);
        Quantiles { p2_5, p5, p25, p50, p75, p95, p97_5 }
    }

    /// The values at which the sum of weights below first reaches these probabilities, given in ascending order.
    pub(crate) fn quantiles<const N: usize>(&self, probabilities: [f64; N]) -> [f64; N] {
        let mut order: Vec<usize> = (0..self.values.len()).collect();
        order.sort_by(|a, b| self.values[*a].total_cmp(&self.values[*b]));
        let (mut found, mut next) = ([f64::NAN; N], 0);
        let (mut below, mut last) = (0.0, f64::NAN);
        for index in order {
            let (value, after) = (self.values[index], below + self.weights[index]);
            // A sum that negative weights lower again was reached where it was first: between two values it is a line.
            while next < N && after >= probabilities[next] {
                let part = (probabilities[next] - below) / (after - below);
                found[next] = if last.is_finite() { last + part * (value - last) } else { value };
                next += 1;
            }
            (below, last) = (after, value);
        }
        found[next..].fill(last);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_and_quantiles_are_those_of_the_weights() {
        let own = Sample::new(vec![3.0, 1.0, 2.0], vec![0.25, 0.25, 0.5]);
        assert!((own.mean() - 2.0).abs() < 1e-15 && (own.deviation() - 0.5_f64.sqrt()).abs() < 1e-15);
        assert!(own.skewness().abs() < 1e-15);
        // Two weights of a quarter on values one from the mean, in deviations of the square root of a half.
        assert!((own.error() - 0.5).abs() < 1e-15);
        // Squares of 2, 2 and 0 deviations less one, of weights ¼, ¼ and ½.
        assert!((own.deviation_error() - 0.5 * 0.375_f64.sqrt()).abs() < 1e-15);
        assert!((own.below(2.5) - 0.75).abs() < 1e-15 && own.below(1.0).abs() < 1e-15);
        // Below 1, 2 and 3 there are .25, .75 and 1.
        let quantiles = own.quantiles([0.25, 0.5, 0.875]);
        assert!(quantiles.iter().zip([1.0, 1.5, 2.5]).all(|(own, value)| (own - value).abs() < 1e-15));
    }

    #[test]
    fn a_number_that_does_not_vary_has_no_deviation_and_no_distance() {
        // Sums of weights of a tenth are not one to the last bit.
        let own = Sample::new(vec![0.3; 10], vec![0.1; 10]);
        let all = [
            own.mean() - 0.3,
            own.deviation(),
            own.error(),
            own.deviation_error(),
            own.skewness(),
            Sample::in_deviations(0.0, 0.0),
        ];
        assert!(all.iter().all(|number| number.abs() <= 0.0), "{all:?}");
        assert!(Sample::in_deviations(f64::NAN, 1.0).is_nan());
    }

    #[test]
    fn negative_weights_correct_a_sample() {
        // Draws of q at 0 and 1, of which p has the second alone.
        let own = Sample::new(vec![0.0, 1.0, 0.0, 1.0], vec![0.5, 0.5, -0.5, 0.5]);
        assert!((own.mean() - 1.0).abs() < 1e-15 && own.deviation() < 1e-15);
    }
}
