//! Computes a linear predictor with tensor operations, for readings that leave everything on the device.

use std::sync::Arc;

use burn::tensor::{Int, Tensor, TensorData};

use super::{Design, Intercepts};
use crate::declare::rows::{Outer, Rows};
use crate::declare::uploaded::indices;

/// The rows of a design that are taken on the device.
#[derive(Debug, Clone)]
pub(super) struct Taken {
    /// Rows of the whole design.
    total: usize,
    chosen: Option<Arc<Vec<usize>>>,
}

impl<const D: usize> Design<D> {
    /// The rows of a plate's evaluation, taken on the device: the design is uploaded once instead of its rows at every
    /// step.
    pub(super) fn take_on_device(&self, rows: &Rows<'_>) -> Self {
        let [total, repeats, columns] = self.cells;
        let chosen = rows.chosen.as_deref().map(|chosen| Arc::new(chosen.to_vec()));
        Self { cells: [rows.len(), repeats, columns], taken: Some(Taken { total, chosen }), ..self.clone() }
    }

    /// The predictors `[rows, repeats]`, without reading anything from the device.
    pub(super) fn predictor_on_device(
        &self,
        taken: &Taken,
        coefficients: Tensor<1>,
        intercepts: Intercepts,
    ) -> Tensor<2> {
        let [rows, repeats, columns] = self.cells;
        let whole = self.uploaded.for_tensor(&coefficients, |options| {
            let cells = taken.total * repeats;
            let values: Vec<f64> =
                (0..cells).flat_map(|cell| self.values.iter().skip(cell).step_by(cells.max(1)).copied()).collect();
            let data = TensorData::new(values, [taken.total, repeats * columns]);
            Tensor::<2>::from_data(data.convert_dtype(coefficients.dtype()), options.clone())
        });
        let own = match &taken.chosen {
            None => whole,
            Some(chosen) => {
                let indices = indices(chosen.iter().copied(), &whole.device());
                whole.select(0, indices)
            }
        };
        let eta = own.reshape([rows * repeats, columns]).matmul(coefficients.reshape([columns, 1]));
        let eta = eta.reshape([rows, repeats]);
        match intercepts {
            Intercepts::None => eta,
            Intercepts::OfRows(intercepts) => eta + intercepts.reshape([rows, 1]),
            Intercepts::OfGroups(intercepts, places) => {
                let index = self.places_on_device(taken, &intercepts, &places);
                eta + intercepts.select(0, index).reshape([rows, 1])
            }
        }
    }

    /// The outer row of each row as indices, uploaded once where all rows are evaluated.
    fn places_on_device(&self, taken: &Taken, like: &Tensor<1>, places: &[usize]) -> Tensor<1, Int> {
        let device = like.device().inner();
        let upload = || indices(places.iter().copied(), &device);
        match &self.outer {
            Outer::Plate { uploaded, .. } if taken.chosen.is_none() => uploaded.for_tensor(like, |_| upload()),
            _ => upload(),
        }
    }
}
