//! Finds quantiles over all silos from a few quantiles of each, between which each silo's distribution counts as even.

use super::item::Quantiles;

impl Quantiles {
    /// The quantiles of `values`, which are not empty, at `count` probabilities equally far apart, as R's `quantile` has them.
    pub(crate) fn of(mut values: Vec<f64>, count: usize) -> Self {
        values.sort_by(f64::total_cmp);
        let last = values.len().saturating_sub(1);
        let value = |at: usize| values.get(at.min(last)).copied().unwrap_or(f64::NAN);
        let quantile = |index: usize| {
            let place = last as f64 * probability(index, count);
            let (below, part) = (place.floor() as usize, place.fract());
            value(below) + part * (value(below + 1) - value(below))
        };
        Self { rows: values.len() as u64, low: value(0), high: value(last), values: (0..count).map(quantile).collect() }
    }

    /// Those of a silo that has no value.
    pub(crate) fn nothing(count: usize) -> Self {
        Self { rows: 0, low: 0.0, high: 0.0, values: vec![0.0; count] }
    }

    /// The share of rows at or below `x`, and the share in the limit from below.
    fn shares(&self, x: f64) -> (f64, f64) {
        let points = self.points();
        let mut shares = (0.0, 0.0);
        for pair in points.windows(2) {
            let [(a, p), (b, q)] = [pair[0], pair[1]];
            let inside = if b > a { p + (q - p) * ((x - a) / (b - a)) } else { q };
            shares.0 = if x >= b {
                q
            } else if x >= a {
                inside
            } else {
                shares.0
            };
            shares.1 = if x > b {
                q
            } else if x > a {
                inside
            } else {
                shares.1
            };
        }
        shares
    }

    fn points(&self) -> Vec<(f64, f64)> {
        let count = self.values.len();
        let inner = self.values.iter().enumerate().map(|(index, value)| (*value, probability(index, count)));
        [(self.low, 0.0)].into_iter().chain(inner).chain([(self.high, 1.0)]).collect()
    }
}

fn probability(index: usize, count: usize) -> f64 {
    (index + 1) as f64 / (count + 1) as f64
}

/// The quantiles over all silos at the probabilities of each silo's; of one silo, its own.
pub(super) fn merged(silos: &[&Quantiles]) -> Vec<f64> {
    let count = silos.first().map_or(0, |silo| silo.values.len());
    let silos: Vec<&&Quantiles> = silos.iter().filter(|silo| silo.rows > 0).collect();
    let rows: f64 = silos.iter().map(|silo| silo.rows as f64).sum();
    let mut points: Vec<f64> = silos.iter().flat_map(|silo| silo.points()).map(|(value, _)| value).collect();
    points.sort_by(f64::total_cmp);
    points.dedup();
    let shares = |x: f64| {
        let parts = silos.iter().map(|silo| (silo.shares(x), silo.rows as f64 / rows));
        parts.fold((0.0, 0.0), |(at, below), ((p, q), weight)| (at + weight * p, below + weight * q))
    };
    let quantile = |probability: f64| {
        let mut before = (f64::NAN, 0.0);
        for point in &points {
            let (at, below) = shares(*point);
            if at >= probability {
                let (from, share) = before;
                let inside = below > probability && below > share && !from.is_nan();
                return if inside { from + (point - from) * (probability - share) / (below - share) } else { *point };
            }
            before = (*point, at);
        }
        before.0
    };
    (0..count).map(|index| quantile(probability(index, count))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silos_that_are_alike_have_the_quantiles_of_one_and_shifted_ones_those_between() {
        let even: Vec<f64> = (0..=100).map(f64::from).collect();
        let one = Quantiles::of(even.clone(), 3);
        assert_eq!(one.values, [25.0, 50.0, 75.0]);
        assert_eq!(merged(&[&one]), [25.0, 50.0, 75.0]);
        assert_eq!(merged(&[&one, &one]), [25.0, 50.0, 75.0]);
        let far = Quantiles::of(even.iter().map(|x| x + 1_000.0).collect(), 3);
        assert_eq!(merged(&[&one, &far]), [50.0, 100.0, 1_050.0]);
        let constant = Quantiles::of(vec![7.0; 5], 3);
        assert_eq!(merged(&[&constant]), [7.0, 7.0, 7.0]);
    }
}
