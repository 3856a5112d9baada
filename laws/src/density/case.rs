//! Holds one point at which the laws of a density are checked.

/// A point at which the laws of a density are checked.
///
/// Moments are compared with the spread of the draws themselves. Choose parameters whose fourth moment is finite (or
/// that have no variance at all), and under which no outcome that matters is too rare to be among 20,000 draws.
#[derive(Debug, Clone, PartialEq)]
pub struct DensityCase {
    /// One event inside the support, away from kinks.
    pub value: Vec<f64>,
    /// The parameters of the event, in the density's order; empty where it has fewer than three.
    pub parameters: [Vec<f64>; 3],
}

impl DensityCase {
    /// The case with this `value` and these parameters, at most three.
    #[must_use]
    pub fn new(value: &[f64], parameters: &[&[f64]]) -> Self {
        let parameter = |k: usize| parameters.get(k).map_or_else(Vec::new, |numbers| numbers.to_vec());
        Self { value: value.to_vec(), parameters: std::array::from_fn(parameter) }
    }

    pub(crate) fn parameters(&self) -> [&[f64]; 3] {
        self.parameters.each_ref().map(Vec::as_slice)
    }

    /// The case with `amount` added to one number of the value (`argument` 0) or of a parameter (1 to 3).
    pub(super) fn moved(&self, argument: usize, index: usize, amount: f64) -> Self {
        let mut moved = self.clone();
        moved.argument(argument)[index] += amount;
        moved
    }

    pub(super) fn argument(&mut self, argument: usize) -> &mut Vec<f64> {
        match argument.checked_sub(1) {
            None => &mut self.value,
            Some(parameter) => &mut self.parameters[parameter],
        }
    }
}
