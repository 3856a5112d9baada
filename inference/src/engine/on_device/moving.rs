//! Holds parameters on a device with what their rule has seen, and moves them there.

use burn::tensor::{IndexingUpdateOp, Int, Tensor};
use partita_core::kernel::AdamUpdate;
use partita_core::kernel::on_device::{AdamTensors, bounded, in_units};
use partita_core::{Device, Handle};

use crate::engine::checkpoint::named;
use crate::engine::error::Result;

/// The rows of a minibatch with the constants of Adam that depend on how often each has moved.
///
/// # Shapes
/// `correction` and `epsilon` have length one but in the dimension of the rows.
#[derive(Debug, Clone)]
pub(crate) struct Places<const D: usize> {
    pub(crate) indices: Tensor<1, Int>,
    pub(crate) correction: Tensor<D>,
    pub(crate) epsilon: Tensor<D>,
    /// Constants that are the same for all rows.
    pub(crate) update: AdamUpdate,
}

impl<const D: usize> Places<D> {
    /// The same rows for tensors of another rank, in which `shape` says where they lie.
    pub(crate) fn reshape<const E: usize>(&self, shape: [usize; E]) -> Places<E> {
        Places {
            indices: self.indices.clone(),
            correction: self.correction.clone().reshape(shape),
            epsilon: self.epsilon.clone().reshape(shape),
            update: self.update,
        }
    }
}

/// One step of a rule that has a device form.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Update {
    /// Adam, with the constants of this step.
    Adam(AdamUpdate),
    /// Gradient descent, whose velocity is kept as the first running mean.
    Sgd {
        /// The learning rate.
        rate: f64,
        /// What the velocity keeps.
        momentum: f64,
    },
}

/// Parameters on a device with the state of their rule.
#[derive(Debug, Clone)]
pub(crate) struct Moving<const D: usize> {
    own: AdamTensors<D>,
}

impl<const D: usize> Moving<D> {
    pub(crate) fn new(value: Tensor<D>) -> Self {
        Self { own: AdamTensors::new(value) }
    }

    pub(crate) fn value(&self) -> Tensor<D> {
        self.own.value.clone()
    }

    pub(crate) fn set(&mut self, value: Tensor<D>) {
        self.own.value = value;
    }

    /// Forgets the running means.
    pub(crate) fn restart(&mut self) {
        *self = Self::new(self.value());
    }

    /// A gradient with that of a pull of this strength to the place of others, $\tfrac\mu2\lVert w - w_0\rVert^2$.
    pub(crate) fn pulled(&self, gradient: Tensor<D>, strength: f64, to: &Self) -> Tensor<D> {
        gradient + (self.value() - to.value()) * strength
    }

    /// One step down `gradient`, with the parameters in these units.
    pub(crate) fn step(&mut self, gradient: Tensor<D>, update: &Update, units: Option<&Tensor<D>>) {
        match update {
            Update::Adam(update) => self.own.step(gradient, units, update),
            Update::Sgd { rate, momentum } => {
                let velocity = &mut self.own.first;
                *velocity = velocity.clone() * *momentum + bounded(in_units(gradient, units));
                let step = velocity.clone() * *rate;
                self.own.value = self.value() - in_units(step, units);
            }
        }
    }

    /// One step of Adam on the entries `places` of dimension `dimension` alone, each with the constants of its own
    /// count, in these units of theirs.
    pub(crate) fn step_rows(
        &mut self,
        gradient: Tensor<D>,
        dimension: usize,
        (places, units): (&Places<D>, Option<&Tensor<D>>),
    ) {
        let gradient = bounded(in_units(gradient, units));
        let take = |tensor: &Tensor<D>| tensor.clone().select(dimension, places.indices.clone());
        let (first, second, update) = (take(&self.own.first), take(&self.own.second), &places.update);
        let square = gradient.clone() * gradient.clone();
        let moved = [
            first.clone() * update.first[0] + gradient * update.first[1],
            second.clone() * update.second[0] + square * update.second[1],
        ];
        let size = moved[1].clone().sqrt() + places.epsilon.clone();
        let step = in_units(moved[0].clone() * places.correction.clone() / size * -update.rate, units);
        let [new_first, new_second] = moved;
        let put = |tensor: &mut Tensor<D>, change: Tensor<D>| {
            let whole = tensor.clone();
            *tensor = whole.select_assign(dimension, places.indices.clone(), change, IndexingUpdateOp::Add);
        };
        put(&mut self.own.first, new_first - first);
        put(&mut self.own.second, new_second - second);
        put(&mut self.own.value, step);
    }

    /// Parameters and running means as named vectors.
    pub(crate) fn save(&self, name: &str) -> Result<Vec<(String, Vec<f64>)>> {
        let AdamTensors { value, first, second } = &self.own;
        [("value", value), ("first", first), ("second", second)]
            .into_iter()
            .map(|(part, tensor)| Ok((format!("{name}.{part}"), Handle::from(tensor.clone()).read()?.values)))
            .collect()
    }

    /// Restores what [`Moving::save`] gave; false if it does not fit.
    pub(crate) fn load(&mut self, name: &str, state: &[(String, Vec<f64>)], device: &Device) -> bool {
        let shape = self.own.value.dims();
        let length: usize = shape.iter().product();
        let find = |part: &str| {
            let values = named(state, &format!("{name}.{part}"))?;
            (values.len() == length).then(|| device.tensor(values.to_vec(), shape))
        };
        let (Some(value), Some(first), Some(second)) = (find("value"), find("first"), find("second")) else {
            return false;
        };
        self.own = AdamTensors { value, first, second };
        true
    }
}

#[cfg(test)]
mod tests {
    use partita_core::Precision;

    use super::*;

    #[test]
    fn a_gradient_whose_square_single_precision_cannot_hold_moves_by_the_rate() {
        let device = Device::flex().with_precision(Precision::Single);
        let mut moving = Moving::<1>::new(device.tensor(vec![0.5; 3], [3]));
        let values = |moving: &Moving<1>| Handle::from(moving.value()).read().unwrap().values;
        let update = |time: u64| Update::Adam(AdamUpdate::at(time, 0.01, [0.9, 0.999], 1e-8));
        moving.step(device.tensor(vec![1e20, -3.0, f64::NAN], [3]), &update(1), None);
        let first = values(&moving);
        assert!((first[0] - 0.49).abs() < 1e-6 && (first[1] - 0.51).abs() < 1e-6, "{first:?}");
        assert!(first[2].is_nan());
        // Its running means are finite: it goes on with momentum.
        moving.step(device.tensor(vec![1e20, -3.0, 0.0], [3]), &update(2), None);
        let second = values(&moving);
        assert!((second[0] - 0.48).abs() < 1e-5 && (second[1] - 0.52).abs() < 1e-5, "{second:?}");
        assert!(moving.save("own").unwrap().iter().all(|(_, numbers)| numbers[..2].iter().all(|x| x.is_finite())));
    }

    #[test]
    fn gradient_descent_keeps_its_velocity_and_moves_in_units() {
        let device = Device::flex();
        let mut moving = Moving::<1>::new(device.tensor(vec![1.0], [1]));
        let (units, update) = (device.tensor(vec![2.0], [1]), Update::Sgd { rate: 0.1, momentum: 0.5 });
        for expected in [1.0 - 2.0 * 0.1 * 2.0, 1.0 - 2.0 * 0.1 * 2.0 - 2.0 * 0.1 * 3.0] {
            moving.step(device.tensor(vec![1.0], [1]), &update, Some(&units));
            let found = Handle::from(moving.value()).read().unwrap().values[0];
            assert!((found - expected).abs() < 1e-15, "{found} {expected}");
        }
    }
}
