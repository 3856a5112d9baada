//! Multiplies a sparse matrix with tensor operations, for readings that leave everything on the device.

use burn::tensor::{IndexingUpdateOp, Int, Tensor, TensorCreationOptions, TensorData};

use super::SparseRows;
use crate::declare::uploaded::indices;

/// The entries of a sparse matrix on a device: row, column and value of each.
#[derive(Debug, Clone)]
pub(super) struct Uploads {
    rows: Tensor<1, Int>,
    columns: Tensor<1, Int>,
    values: Tensor<2>,
}

impl SparseRows {
    /// The same matrix, with products on the device if those of `other` are: for a matrix derived from another.
    #[must_use]
    pub fn like(self, other: &Self) -> Self {
        Self { on_device: other.on_device, ..self }
    }

    /// Whether products with this matrix stay on the device.
    pub(crate) fn stays_on_device(&self) -> bool {
        self.on_device
    }

    /// As [`crate::low_rank_multinomial`], without reading anything from the device.
    pub(crate) fn low_rank_multinomial_on_device(&self, factors: Tensor<2>, loadings: Tensor<2>) -> Tensor<1> {
        let ones = Tensor::<2>::ones_like(&loadings.clone().inner().narrow(0, 0, 1)).transpose();
        let lengths = self.multiply_on_device(ones);
        let linear = factors.clone() * self.multiply_on_device(loadings.clone().transpose());
        let logits = factors.matmul(loadings);
        // A constant of each row, for which the gradient of the result is right whatever its value.
        let largest = logits.clone().inner().max_dim(1);
        let log_sum = (logits - largest.clone()).exp().sum_dim(1).log() + largest;
        (linear.sum_dim(1) - log_sum * lengths).reshape([self.rows()])
    }

    /// As [`SparseRows::predictor`], without reading anything from the device.
    pub(super) fn predictor_on_device(&self, coefficients: Tensor<2>, intercepts: Option<Tensor<1>>) -> Tensor<2> {
        let product = self.multiply_on_device(coefficients);
        match intercepts {
            Some(intercepts) => product + intercepts.unsqueeze(),
            None => product,
        }
    }

    /// As [`SparseRows::multiply`], without reading anything from the device; holds entries × k numbers there.
    pub(super) fn multiply_on_device(&self, coefficients: Tensor<2>) -> Tensor<2> {
        let outputs = coefficients.dims()[1];
        let options = TensorCreationOptions::new(coefficients.device().inner()).with_dtype(coefficients.dtype());
        let zeros = Tensor::<2>::zeros([self.rows(), outputs], options);
        if self.entries() == 0 {
            return zeros;
        }
        let entries = self.uploaded.for_tensor(&coefficients, |options| {
            let device = &coefficients.device().inner();
            let values = TensorData::new(self.entries.values.clone(), [self.entries(), 1]);
            let counts: Vec<usize> = self.entries.starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
            let rows: Vec<usize> =
                counts.iter().enumerate().flat_map(|(row, count)| std::iter::repeat_n(row, *count)).collect();
            Uploads {
                rows: indices(rows.into_iter(), device),
                columns: indices(self.entries.columns.iter().map(|column| *column as usize), device),
                values: Tensor::from_data(values.convert_dtype(coefficients.dtype()), options.clone()),
            }
        });
        let products = coefficients.select(0, entries.columns) * entries.values;
        let zeros = if products.is_autodiff() { zeros.autodiff() } else { zeros };
        zeros.select_assign(0, entries.rows, products, IndexingUpdateOp::Add)
    }
}
