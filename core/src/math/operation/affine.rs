//! Multiplies rows by weights and adds biases as one node of the tape, with products on all threads both ways; takes squares and roots.

use burn::backend::{Autodiff, Backend, TensorMetadata, backend_extension, tensor::FloatTensor};
use burn::tensor::{DType, Tensor};
use burn_autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn_autodiff::grads::Gradients;
use burn_autodiff::ops::{Backward, Ops, OpsKind};

use crate::handle::{Handle, HostDispatch};

/// $xW + \mathbf{1}b^\top$.
///
/// # Shapes
/// $x$ = `rows` `[rows, inputs]`, $W$ = `weight` `[inputs, outputs]`, $b$ = `bias` `[outputs]`.
///
/// # Panics
/// If the shapes do not agree.
pub(crate) fn affine(rows: Tensor<2>, weight: Tensor<2>, bias: Tensor<1>) -> Tensor<2> {
    let ([_, own], [inputs, outputs], [len]) = (rows.dims(), weight.dims(), bias.dims());
    assert!(
        own == inputs && len == outputs,
        "rows of {own} numbers for a layer with weights [{inputs}, {outputs}] and {len} biases"
    );
    let [rows, weight, bias] = [Handle::from(rows), Handle::from(weight), Handle::from(bias)];
    let is_tracked = rows.is_tracked() || weight.is_tracked() || bias.is_tracked();
    // One node cannot mix tracked tensors and constants.
    let [rows, weight] = [rows, weight].map(|handle| on_tape::<2>(handle, is_tracked));
    let bias = on_tape::<1>(bias, is_tracked);
    Handle { tensor: HostDispatch::affine(rows.tensor, weight.tensor, bias.tensor) }.typed()
}

/// The square roots of the variances of pre-activations.
pub(crate) fn roots(variances: Tensor<2>) -> Tensor<2> {
    Handle { tensor: HostDispatch::roots(Handle::from(variances).tensor) }.typed()
}

/// The squares of rows, which multiply variances of weights: one node with one gradient back, where a product of the rows with
/// themselves has two.
pub(crate) fn squares(rows: Tensor<2>) -> Tensor<2> {
    Handle { tensor: HostDispatch::squares(Handle::from(rows).tensor) }.typed()
}

/// The same numbers as a constant of the tape, where there is one.
fn on_tape<const D: usize>(handle: Handle, is_tracked: bool) -> Handle {
    if is_tracked && !handle.is_tracked() { Tensor::<D>::from_inner(handle.typed()).into() } else { handle }
}

/// Affine maps on every backend Partita is built with.
#[backend_extension(
    Autodiff,
    Flex: cfg(feature = "flex"),
    NdArray: cfg(feature = "ndarray"),
    Cube: cfg(any(feature = "wgpu", feature = "vulkan", feature = "cuda"))
)]
pub(crate) trait AffineOperations: Backend {
    fn affine(rows: FloatTensor<Self>, weight: FloatTensor<Self>, bias: FloatTensor<Self>) -> FloatTensor<Self>;

    fn roots(variances: FloatTensor<Self>) -> FloatTensor<Self>;

    fn squares(rows: FloatTensor<Self>) -> FloatTensor<Self>;
}

/// Matrix products of a backend without a tape.
pub(crate) trait Products: Backend {
    /// $AB$, or $AB + \mathbf{1}s^\top$ with $s$ = `start`.
    fn product(a: FloatTensor<Self>, b: FloatTensor<Self>, start: Option<FloatTensor<Self>>) -> FloatTensor<Self> {
        plain::<Self>(a, b, start)
    }

    /// The sum over rows, `[1, columns]`.
    fn column_sums(gradient: FloatTensor<Self>) -> FloatTensor<Self> {
        Self::float_sum_dim(gradient, 0)
    }

    /// A gradient without numbers that are too small to be multiplied with all their digits.
    fn without_tiny(gradient: FloatTensor<Self>) -> FloatTensor<Self> {
        gradient
    }
}

fn plain<B: Backend>(a: FloatTensor<B>, b: FloatTensor<B>, start: Option<FloatTensor<B>>) -> FloatTensor<B> {
    let product = B::float_matmul(a, b);
    let Some(start) = start else { return product };
    let columns = start.shape().num_elements();
    B::float_add(product, B::float_reshape(start, vec![1, columns].into()))
}

#[cfg(feature = "flex")]
impl Products for burn::backend::Flex {
    fn product(a: FloatTensor<Self>, b: FloatTensor<Self>, start: Option<FloatTensor<Self>>) -> FloatTensor<Self> {
        match crate::math::product::product(&a, &b, start.as_ref()) {
            Some(product) => product,
            None => plain::<Self>(a, b, start),
        }
    }

    fn without_tiny(gradient: FloatTensor<Self>) -> FloatTensor<Self> {
        crate::math::product::without_tiny(gradient)
    }
}
#[cfg(feature = "ndarray")]
impl Products for burn::backend::NdArray {}
#[cfg(any(feature = "wgpu", feature = "vulkan", feature = "cuda"))]
impl Products for burn::backend::Cube {
    // A thread of a GPU takes one column: with few columns, few threads would take all rows one after another.
    fn column_sums(gradient: FloatTensor<Self>) -> FloatTensor<Self> {
        in_parts::<Self>(gradient)
    }
}

/// The sums of columns over parts of the rows, and then over the parts.
#[cfg(any(feature = "wgpu", feature = "vulkan", feature = "cuda", test))]
fn in_parts<B: Backend>(gradient: FloatTensor<B>) -> FloatTensor<B> {
    let [rows, columns] = [gradient.shape()[0], gradient.shape()[1]];
    let parts = super::stages::parts(rows);
    let split = B::float_reshape(gradient, vec![parts, rows / parts, columns].into());
    let sums = B::float_sum_dim(B::float_sum_dim(split, 1), 0);
    B::float_reshape(sums, vec![1, columns].into())
}

/// Implements affine maps of a backend by its products.
macro_rules! affine_operations {
    ($backend:ty) => {
        impl AffineOperations for $backend {
            fn affine(
                rows: FloatTensor<Self>,
                weight: FloatTensor<Self>,
                bias: FloatTensor<Self>,
            ) -> FloatTensor<Self> {
                Self::product(rows, weight, Some(bias))
            }

            fn roots(variances: FloatTensor<Self>) -> FloatTensor<Self> {
                <Self as burn::backend::ops::FloatTensorOps<Self>>::float_sqrt(variances)
            }

            fn squares(rows: FloatTensor<Self>) -> FloatTensor<Self> {
                <Self as burn::backend::ops::FloatTensorOps<Self>>::float_mul(rows.clone(), rows)
            }
        }
    };
}

#[cfg(feature = "flex")]
affine_operations!(burn::backend::Flex);
#[cfg(feature = "ndarray")]
affine_operations!(burn::backend::NdArray);
#[cfg(any(feature = "wgpu", feature = "vulkan", feature = "cuda"))]
affine_operations!(burn::backend::Cube);

impl<B: AffineOperations + Products, C: CheckpointStrategy> AffineOperations for Autodiff<B, C> {
    fn affine(rows: FloatTensor<Self>, weight: FloatTensor<Self>, bias: FloatTensor<Self>) -> FloatTensor<Self> {
        let nodes = [rows.node(), weight.node(), bias.node()];
        let [rows, weight, bias] = [rows, weight, bias].map(|tensor| tensor.into_primitive());
        let output = B::affine(rows.clone(), weight.clone(), bias);
        match AffineBackward.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(preparation) => preparation.finish([rows, weight], output),
            OpsKind::UnTracked(preparation) => preparation.finish(output),
        }
    }

    fn roots(variances: FloatTensor<Self>) -> FloatTensor<Self> {
        let node = variances.node();
        let variances = variances.into_primitive();
        let roots = B::roots(variances.clone());
        match RootBackward.prepare::<C>([node]).compute_bound().stateful() {
            OpsKind::Tracked(preparation) => preparation.finish([variances, roots.clone()], roots),
            OpsKind::UnTracked(preparation) => preparation.finish(roots),
        }
    }

    fn squares(rows: FloatTensor<Self>) -> FloatTensor<Self> {
        let node = rows.node();
        let rows = rows.into_primitive();
        let squares = B::squares(rows.clone());
        match SquareBackward.prepare::<C>([node]).compute_bound().stateful() {
            OpsKind::Tracked(preparation) => preparation.finish(rows, squares),
            OpsKind::UnTracked(preparation) => preparation.finish(squares),
        }
    }
}

#[derive(Debug)]
struct SquareBackward;

impl<B: Backend> Backward<B, 1> for SquareBackward {
    /// The rows.
    type State = FloatTensor<B>;

    fn backward(self, ops: Ops<Self::State, 1>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let gradient = gradients.consume::<B>(&ops.node);
        let ([by_rows], rows) = (ops.parents, ops.state);
        let Some(node) = by_rows else { return };
        let slopes = B::float_mul_scalar(B::float_mul(gradient, rows), 2.0.into());
        gradients.register::<B>(node.id, slopes);
    }
}

#[derive(Debug)]
struct RootBackward;

impl<B: Backend> Backward<B, 1> for RootBackward {
    /// Variances and their roots.
    type State = [FloatTensor<B>; 2];

    fn backward(self, ops: Ops<Self::State, 1>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let gradient = gradients.consume::<B>(&ops.node);
        let ([by_variances], [variances, roots]) = (ops.parents, ops.state);
        let Some(node) = by_variances else { return };
        let slopes = match roots.dtype() {
            // As Burn has it, with a call for the power of each number.
            DType::F64 => {
                let each = B::float_div_scalar(B::float_powf_scalar(variances, (-0.5).into()), 2.0.into());
                B::float_mul(gradient, each)
            }
            _ => B::float_mul_scalar(B::float_div(gradient, roots), 0.5.into()),
        };
        gradients.register::<B>(node.id, slopes);
    }
}

#[derive(Debug)]
struct AffineBackward;

impl<B: Products> Backward<B, 3> for AffineBackward {
    /// Rows and weights.
    type State = [FloatTensor<B>; 2];

    fn backward(self, ops: Ops<Self::State, 3>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let gradient = B::without_tiny(gradients.consume::<B>(&ops.node));
        let ([by_rows, by_weight, by_bias], [rows, weight]) = (ops.parents, ops.state);
        if let Some(node) = by_bias {
            let columns = weight.shape()[1];
            let sum = B::float_reshape(B::column_sums(gradient.clone()), vec![columns].into());
            gradients.register::<B>(node.id, sum);
        }
        if let Some(node) = by_weight {
            let own = B::product(B::float_swap_dims(rows, 0, 1), gradient.clone(), None);
            gradients.register::<B>(node.id, own);
        }
        if let Some(node) = by_rows {
            gradients.register::<B>(node.id, B::product(gradient, B::float_swap_dims(weight, 0, 1), None));
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Gradients as Found;

    use super::*;
    use crate::device::{Device, Precision};
    use crate::math::kernel::testing::scattered;

    const SIZES: [usize; 3] = [6, 4, 3];

    fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
        Handle::from(tensor).read().unwrap().values
    }

    fn gradient<const D: usize>(leaf: &Tensor<D>, found: &Found) -> Vec<f64> {
        values(leaf.grad(found).unwrap())
    }

    fn close(found: &[f64], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-14), "{found:?} {expected:?}");
    }

    /// The value, and the gradients by rows, weights and biases of a function that is not linear in them.
    fn found(map: impl Fn(Tensor<2>, Tensor<2>, Tensor<1>) -> Tensor<2>) -> [Vec<f64>; 4] {
        let ([rows, inputs, outputs], device) = (SIZES, Device::flex());
        let x = device.leaf::<2>(scattered(rows * inputs, -1.0, 1.0), [rows, inputs]);
        let w = device.leaf::<2>(scattered(inputs * outputs, -2.0, 1.0), [inputs, outputs]);
        let b = device.leaf::<1>(scattered(outputs, 0.0, 3.0), [outputs]);
        let y = map(x.clone(), w.clone(), b.clone());
        let gradients = y.clone().tanh().sum().backward();
        [values(y), gradient(&x, &gradients), gradient(&w, &gradients), gradient(&b, &gradients)]
    }

    #[test]
    fn value_and_gradients_are_those_of_burns_operations() {
        let own = found(affine);
        let burns = found(|x, w, b| x.matmul(w) + b.unsqueeze());
        own.iter().zip(&burns).for_each(|(own, burns)| close(own, burns));
    }

    #[test]
    fn roots_have_the_values_and_in_double_precision_the_slopes_of_burns_operation() {
        for (precision, bound) in [(Precision::Double, 0.0), (Precision::Single, 3e-7)] {
            let device = Device::flex().with_precision(precision);
            let [own, burns] = [roots, Tensor::sqrt].map(|root: fn(Tensor<2>) -> Tensor<2>| {
                let x = device.leaf::<2>(scattered(12, 1e-3, 9.0), [4, 3]);
                let y = root(x.clone());
                let found = (y.clone() * y.clone().tanh()).sum().backward();
                [values(y), gradient(&x, &found)]
            });
            assert_eq!(own[0], burns[0]);
            assert!(own[1].iter().zip(&burns[1]).all(|(a, b)| (a - b).abs() <= bound * b.abs()), "{own:?} {burns:?}");
        }
        assert!(!Handle::from(roots(Device::flex().tensor(vec![4.0], [1, 1]))).is_tracked());
    }

    #[test]
    fn squares_have_the_values_and_the_slopes_of_products() {
        for precision in [Precision::Double, Precision::Single] {
            let device = Device::flex().with_precision(precision);
            let [own, burns] = [squares, |x: Tensor<2>| x.clone() * x].map(|square: fn(Tensor<2>) -> Tensor<2>| {
                let x = device.leaf::<2>(scattered(12, -3.0, 9.0), [4, 3]);
                let y = square(x.clone());
                let found = (y.clone() * y.clone().tanh()).sum().backward();
                [values(y), gradient(&x, &found)]
            });
            assert_eq!(own, burns);
        }
        assert!(!Handle::from(squares(Device::flex().tensor(vec![4.0], [1, 1]))).is_tracked());
    }

    fn of_shapes(rows: usize, weight: [usize; 2], biases: usize) -> Tensor<2> {
        let device = Device::flex();
        let [inputs, outputs] = weight;
        let weight = device.tensor(vec![0.5; inputs * outputs], weight);
        affine(device.tensor(vec![1.0; 2 * rows], [2, rows]), weight, device.tensor(vec![0.0; biases], [biases]))
    }

    #[test]
    #[should_panic(expected = "rows of 5 numbers for a layer with weights [4, 3] and 3 biases")]
    fn rows_of_another_width_are_refused() {
        let _ = of_shapes(5, [4, 3], 3);
    }

    #[test]
    #[should_panic(expected = "rows of 4 numbers for a layer with weights [4, 3] and 5 biases")]
    fn more_biases_than_outputs_are_refused() {
        let _ = of_shapes(4, [4, 3], 5);
    }

    #[test]
    fn columns_are_summed_in_parts_of_the_rows() {
        // Rows that are cut into 64 parts, and rows that are not cut.
        for rows in [8_192, 5] {
            let device = Device::flex();
            let numbers = scattered(rows * 3, -1.0, 1.0);
            let expected: Vec<f64> = (0..3).map(|k| numbers.iter().skip(k).step_by(3).sum()).collect();
            let whole = Handle::from(device.tensor(numbers, [rows, 3]));
            let found = Handle { tensor: in_parts::<HostDispatch>(whole.tensor) }.read().unwrap();
            assert_eq!(found.shape, [1, 3]);
            assert!(found.values.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-9), "{found:?} {expected:?}");
        }
    }

    #[test]
    fn constants_stand_beside_tracked_tensors() {
        let ([rows, inputs, outputs], device) = (SIZES, Device::flex());
        let x = device.tensor(scattered(rows * inputs, -1.0, 1.0), [rows, inputs]);
        let b = device.tensor(scattered(outputs, 0.0, 3.0), [outputs]);
        let w = device.leaf::<2>(scattered(inputs * outputs, -2.0, 1.0), [inputs, outputs]);
        let y = affine(x.clone(), w.clone(), b.clone());
        let own = gradient(&w, &y.clone().tanh().sum().backward());
        let other = x.clone().matmul(w.clone()) + b.clone().unsqueeze();
        close(&values(y.clone()), &values(other.clone()));
        close(&own, &gradient(&w, &other.tanh().sum().backward()));
        assert!(!Handle::from(affine(x, w.inner(), b)).is_tracked());
    }

    #[test]
    fn rows_that_a_loss_gives_up_add_nothing_and_change_nothing_else() {
        let ([rows, inputs, outputs], device) = (SIZES, Device::flex().with_precision(Precision::Single));
        let x = device.tensor::<2>(scattered(rows * inputs, -1.0, 1.0), [rows, inputs]);
        let b = device.tensor::<1>(scattered(outputs, 0.0, 3.0), [outputs]);
        // The last two rows have gradients that single precision cannot hold with all digits.
        let weights = (0..rows).map(|row| if row < rows - 2 { 1.0 } else { 3e-39 });
        let weights = device.tensor::<2>(weights.collect(), [rows, 1]);
        let by_weight = |map: fn(Tensor<2>, Tensor<2>, Tensor<1>) -> Tensor<2>, count: usize| {
            let w = device.leaf::<2>(scattered(inputs * outputs, -2.0, 1.0), [inputs, outputs]);
            let y = map(x.clone(), w.clone(), b.clone()).tanh() * weights.clone();
            gradient(&w, &y.narrow(0, 0, count).sum().backward())
        };
        let own = by_weight(affine, rows);
        assert_eq!(own, by_weight(affine, rows - 2));
        let burns = by_weight(|x, w, b| x.matmul(w) + b.unsqueeze(), rows);
        assert!(own.iter().zip(&burns).all(|(own, burns)| (own - burns).abs() < 1e-6), "{own:?} {burns:?}");
    }
}
