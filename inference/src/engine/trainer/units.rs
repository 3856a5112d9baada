//! Gives each parameter a unit of its own, in which it moves: the standard deviation of its mean, the size of its tensor.

use crate::engine::family::Family;

/// The power of two nearest to a positive number: multiplication by it does not round. One for what has no size.
pub(crate) fn power_of_two(size: f64) -> f64 {
    if size > 0.0 && size.is_finite() { size.log2().round().exp2() } else { 1.0 }
}

/// The unit in which a mean moves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum MeanUnit {
    /// So many of its own standard deviations.
    Own(f64),
    /// The geometric mean of its own standard deviation and the root mean square of all, at most 16 of its own and at least
    /// a sixteenth.
    Between,
}

/// The most that a unit between is of a mean's own standard deviation, and its inverse the least.
const APART: f64 = 16.0;

impl MeanUnit {
    /// Its own standard deviation.
    pub(crate) const OWN: Self = Self::Own(1.0);

    /// The unit of a mean whose standard deviation is this, where the root mean square of all is that.
    fn of(self, deviation: f64, root_mean_square: f64) -> f64 {
        match self {
            Self::Own(many) => many * power_of_two(deviation),
            Self::Between => {
                let apart = (root_mean_square / deviation).sqrt();
                power_of_two(deviation * apart.clamp(APART.recip(), APART))
            }
        }
    }

    /// As numbers: how many standard deviations, none for a unit between.
    pub(crate) fn save(self) -> Vec<f64> {
        match self {
            Self::Own(many) => vec![many],
            Self::Between => Vec::new(),
        }
    }

    /// What [`MeanUnit::save`] gave.
    pub(crate) fn load(saved: &[f64]) -> Self {
        saved.first().map_or(Self::Between, |many| Self::Own(*many))
    }
}

/// The units of a family's parameters: of means this one, of the rest one; those of `known` where a component has no
/// standard deviation.
pub(crate) fn of_family(family: &dyn Family, parameters: &[f64], means: MeanUnit, known: Option<&[f64]>) -> Vec<f64> {
    let deviations = family.deviations(parameters);
    let root_mean_square = root_mean_square(&deviations);
    let by_component: Vec<f64> =
        deviations.iter().map(|sd| if *sd > 0.0 { means.of(*sd, root_mean_square) } else { f64::NAN }).collect();
    let mut units = vec![1.0; parameters.len()];
    family.set_mean(&mut units, &by_component);
    for (index, unit) in units.iter_mut().enumerate().filter(|(_, unit)| unit.is_nan()) {
        *unit = known.map_or(1.0, |known| known[index]);
    }
    units
}

fn root_mean_square(values: &[f64]) -> f64 {
    (values.iter().map(|value| value * value).sum::<f64>() / values.len().max(1) as f64).sqrt()
}

/// The units of θ in tensors of these lengths: of each the root mean square of its values. A tensor whose values are all
/// the same has no size: it takes the unit of the tensor before, as a bias that starts at zero, and one number alone one.
pub(crate) fn of_theta(values: &[f64], lengths: &[usize]) -> Vec<f64> {
    let (mut rest, mut units, mut last) = (values, Vec::with_capacity(values.len()), 1.0);
    for length in lengths {
        let (own, after) = rest.split_at((*length).min(rest.len()));
        if own.iter().any(|value| (*value - own[0]).abs() > 0.0) {
            last = power_of_two(root_mean_square(own));
        }
        units.resize(units.len() + own.len(), if own.len() == 1 { 1.0 } else { last });
        rest = after;
    }
    units.resize(values.len(), 1.0);
    units
}

/// Makes the units of θ as large as its tensors of these lengths have become.
pub(crate) fn widen(units: &mut [f64], values: &[f64], lengths: &[usize]) {
    let now = of_theta(values, lengths);
    units.iter_mut().zip(now).for_each(|(unit, now)| *unit = unit.max(now));
}

/// Replaces numbers and a gradient by them by the numbers in their units and the gradient by these.
pub(crate) fn enter(units: &[f64], values: &mut [f64], gradient: &mut [f64]) {
    for ((value, slope), unit) in values.iter_mut().zip(gradient).zip(units) {
        (*value, *slope) = (*value / unit, *slope * unit);
    }
}

/// Replaces numbers in their units by the numbers.
pub(crate) fn leave(units: &[f64], values: &mut [f64]) {
    values.iter_mut().zip(units).for_each(|(value, unit)| *value *= *unit);
}

/// Whether units are to be found anew after so many steps: at first always, then eight times in each doubling.
pub(crate) fn are_due(steps: u64) -> bool {
    let octave = 63 - (steps | 1).leading_zeros();
    steps.is_multiple_of(1 << octave.saturating_sub(3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::family::{Blocks, Delta, DiagonalGaussian, FullRankGaussian};

    #[test]
    fn means_have_their_standard_deviations_as_units_and_the_rest_one() {
        let parameters = [5.0, -1.0, 1000.0_f64.ln(), 0.001_f64.ln()];
        let units = of_family(&DiagonalGaussian::new(2), &parameters, MeanUnit::OWN, None);
        assert_eq!(units, [1024.0, 1.0 / 1024.0, 1.0, 1.0]);
        assert_eq!(
            of_family(&DiagonalGaussian::new(2), &parameters, MeanUnit::Own(4.0), None)[..2],
            [4096.0, 1.0 / 256.0]
        );
        assert_eq!(of_family(&Delta::new(1), &[3.0], MeanUnit::Own(4.0), Some(&[0.25])), [0.25]);
    }

    #[test]
    fn units_between_are_geometric_means_and_not_far_from_standard_deviations() {
        // Standard deviations of 8, 8 / 64 and 8 / 4,096: their root mean square is about 8 / sqrt(3) = 4.6.
        let deviations = [8.0_f64, 0.125, 8.0 / 4_096.0];
        let parameters = [[5.0; 3], deviations.map(f64::ln)].concat();
        let units = of_family(&DiagonalGaussian::new(3), &parameters, MeanUnit::Between, None);
        // sqrt(8 * 4.6) = 6.1, sqrt(0.125 * 4.6) = 0.76 and 16 * 8 / 4,096.
        assert_eq!(units, [8.0, 1.0, 1.0 / 32.0, 1.0, 1.0, 1.0]);
        let alike = [[5.0; 3], [0.25_f64.ln(); 3]].concat();
        assert_eq!(of_family(&DiagonalGaussian::new(3), &alike, MeanUnit::Between, None)[..3], [0.25; 3]);
    }

    #[test]
    fn many_globals_beside_two_correlated_ones_have_units_without_a_matrix_over_all_of_them() {
        let count = 200_000;
        let many: Box<dyn Family> = Box::new(DiagonalGaussian::new(count));
        let few: Box<dyn Family> = Box::new(FullRankGaussian::new(2));
        let family = Blocks::new(vec![((2..count + 2).collect(), many), (vec![1, 0], few)]);
        let mut parameters = family.initial(0.25);
        // Standard deviations of 8, and of 4 √(1 + 3²) = 12.6.
        parameters[2 * count + 2..].copy_from_slice(&[8.0_f64.ln(), 4.0_f64.ln(), 3.0]);
        let units = of_family(&family, &parameters, MeanUnit::OWN, None);
        assert!(units[..2 * count] == [vec![0.25; count], vec![1.0; count]].concat());
        assert_eq!(units[2 * count..], [8.0, 16.0, 1.0, 1.0, 1.0]);
    }

    #[test]
    fn tensors_have_their_size_as_unit_and_those_without_one_that_of_the_tensor_before() {
        let values = [0.25, -0.25, 0.0, 0.0, 7.0, 3.0, -3.0];
        assert_eq!(of_theta(&values, &[2, 2, 1, 2]), [0.25, 0.25, 0.25, 0.25, 1.0, 4.0, 4.0]);
    }

    #[test]
    fn units_are_found_eight_times_in_each_doubling() {
        assert_eq!((1_024..2_048).filter(|step| are_due(*step)).count(), 8);
        assert!((0..16).all(are_due));
    }
}
