//! Multiplies matrices that lie in this process on all threads: what Burn does on one.

use std::ops::{Neg, Range};

use burn::tensor::{DType, TensorData};
use burn_flex::FlexTensor;
use faer::linalg::matmul::matmul;
use faer::traits::ComplexField;
use faer::{Accum, MatMut, MatRef, Par};

use crate::math::parts::fill_in_parts;

/// Multiplications of one part: a tenth of a millisecond.
const PART: usize = 4_000_000;

/// Rows of a part are a multiple of this.
const ROWS: usize = 16;

/// Numbers of a precision that matrices are multiplied in.
trait Number: ComplexField + Copy + Default + PartialOrd + Neg<Output = Self> + Send + Sync + 'static {
    const ONE: Self;
    /// The least number whose product with a number below one has all its digits, down to the machine epsilon.
    const LEAST: Self;
    /// The numbers of a tensor of this precision from the first to the last, with those that its view leaves out between.
    fn of(tensor: &FlexTensor) -> &[Self];
    fn tensor(numbers: Vec<Self>, shape: [usize; 2]) -> FlexTensor;
}

macro_rules! number {
    ($kind:ty) => {
        impl Number for $kind {
            const ONE: Self = 1.0;
            const LEAST: Self = <$kind>::MIN_POSITIVE / <$kind>::EPSILON;
            fn of(tensor: &FlexTensor) -> &[Self] {
                &tensor.storage::<Self>()[place(tensor)]
            }
            fn tensor(numbers: Vec<Self>, shape: [usize; 2]) -> FlexTensor {
                FlexTensor::from_data(TensorData::new(numbers, shape))
            }
        }
    };
}

number!(f32);
number!(f64);

/// Where the numbers of a tensor without negative strides lie in its storage.
fn place(tensor: &FlexTensor) -> Range<usize> {
    let (layout, start) = (tensor.layout(), tensor.layout().start_offset());
    if layout.num_elements() == 0 {
        return start..start;
    }
    let steps = layout.shape().iter().zip(layout.strides()).map(|(len, stride)| (len - 1) * stride.unsigned_abs());
    start..start + steps.sum::<usize>() + 1
}

/// $AB$, or $AB + \mathbf{1}s^\top$ with $s$ = `start`; `None` for tensors that are not in single or double precision.
///
/// Rows are multiplied in parts that depend on the shapes alone, and every number is summed in one order: the result has
/// the same bits for any number of threads.
///
/// # Shapes
/// $A$ = `a` `[rows, inner]`, $B$ = `b` `[inner, columns]`, $s$ `[columns]`.
///
/// # Panics
/// If the shapes do not agree: callers have checked them.
pub(crate) fn product(a: &FlexTensor, b: &FlexTensor, start: Option<&FlexTensor>) -> Option<FlexTensor> {
    match (a.dtype(), b.dtype()) {
        (DType::F32, DType::F32) => Some(multiply::<f32>(a, b, start)),
        (DType::F64, DType::F64) => Some(multiply::<f64>(a, b, start)),
        _ => None,
    }
}

/// The same gradient with numbers below $m/\epsilon$ as zeros, where $m$ is the least normal number of its precision and
/// $\epsilon$ the machine epsilon: 9.9e-32 in single, 1.0e-292 in double precision.
///
/// A bounded loss leaves such numbers at rows that it gives up. Their products are subnormal: they have no digits that a sum
/// with other rows would keep, and some processors multiply them a hundred times slower.
pub(crate) fn without_tiny(gradient: FlexTensor) -> FlexTensor {
    match gradient.dtype() {
        DType::F32 => flushed::<f32>(gradient),
        DType::F64 => flushed::<f64>(gradient),
        _ => gradient,
    }
}

fn flushed<T: Number>(gradient: FlexTensor) -> FlexTensor {
    let zero = T::default();
    let is_tiny = |number: &T| *number != zero && *number < T::LEAST && *number > -T::LEAST;
    let shape = shape(&gradient);
    let gradient = gradient.to_contiguous();
    let numbers = T::of(&gradient);
    // Whole blocks: a loop that may end at each number is not vectorised.
    if !numbers.chunks(64).any(|block| block.iter().fold(false, |any, number| any | is_tiny(number))) {
        return gradient;
    }
    T::tensor(numbers.iter().map(|number| if is_tiny(number) { zero } else { *number }).collect(), shape)
}

fn multiply<T: Number>(a: &FlexTensor, b: &FlexTensor, start: Option<&FlexTensor>) -> FlexTensor {
    let ([rows, inner], [own, columns]) = (shape(a), shape(b));
    let added = start.map_or(columns, |start| start.layout().num_elements());
    // Here, and not in a helper: a panic in a task of rayon that is not waited for ends the process.
    assert!(inner == own && added == columns, "[{rows}, {inner}] times [{own}, {columns}], and {added} numbers to add");
    let (a, b) = (dense(a), dense(b));
    let start = start.map(FlexTensor::to_contiguous);
    let mut out = vec![T::default(); rows * columns];
    if inner == 0 || out.is_empty() {
        if let Some(start) = &start {
            out.chunks_exact_mut(columns.max(1)).for_each(|row| row.copy_from_slice(T::of(start)));
        }
        return T::tensor(out, [rows, columns]);
    }
    let height = (PART / (inner * columns)).max(1).next_multiple_of(ROWS);
    fill_in_parts(&mut out, height * columns, move |part, out| {
        let count = out.len() / columns;
        let accumulate = match &start {
            Some(start) => {
                out.chunks_exact_mut(columns).for_each(|row| row.copy_from_slice(T::of(start)));
                Accum::Add
            }
            None => Accum::Replace,
        };
        let own = matrix::<T>(&a).subrows(part * height, count);
        matmul(
            MatMut::from_row_major_slice_mut(out, count, columns),
            accumulate,
            own,
            matrix::<T>(&b),
            T::ONE,
            Par::Seq,
        );
    });
    T::tensor(out, [rows, columns])
}

fn shape(tensor: &FlexTensor) -> [usize; 2] {
    match **tensor.layout().shape() {
        [rows, columns] => [rows, columns],
        _ => unreachable!("invariant: matrices have two dimensions"),
    }
}

/// The distance of rows and that of columns, where none is negative.
fn strides(tensor: &FlexTensor) -> Option<[usize; 2]> {
    match *tensor.layout().strides() {
        [rows, columns] => Some([usize::try_from(rows).ok()?, usize::try_from(columns).ok()?]),
        _ => None,
    }
}

/// The same matrix with rows or columns that are without gaps.
fn dense(tensor: &FlexTensor) -> FlexTensor {
    let [rows, columns] = shape(tensor);
    match strides(tensor) {
        Some([down, 1]) if down >= columns => tensor.clone(),
        Some([1, along]) if along >= rows => tensor.clone(),
        _ => tensor.to_contiguous(),
    }
}

fn matrix<T: Number>(tensor: &FlexTensor) -> MatRef<'_, T> {
    let [rows, columns] = shape(tensor);
    match strides(tensor) {
        Some([1, along]) if along >= rows => {
            MatRef::from_column_major_slice_with_stride(T::of(tensor), rows, columns, along)
        }
        Some([down, _]) => MatRef::from_row_major_slice_with_stride(T::of(tensor), rows, columns, down),
        None => unreachable!("invariant: the strides of a dense matrix are not negative"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::kernel::testing::{bits, scattered};

    fn tensor(shape: [usize; 2]) -> FlexTensor {
        f64::tensor(scattered(shape[0] * shape[1], -1.0, 1.0), shape)
    }

    fn numbers(tensor: &FlexTensor) -> Vec<f64> {
        f64::of(&tensor.to_contiguous()).to_vec()
    }

    /// The product term by term, with the sizes of its terms.
    fn plain(a: &FlexTensor, b: &FlexTensor) -> Vec<[f64; 2]> {
        let ([rows, inner], [_, columns]) = (shape(a), shape(b));
        let (a, b) = (numbers(a), numbers(b));
        let term = |row: usize, column: usize, k: usize| a[row * inner + k] * b[k * columns + column];
        let cells = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
        let sums = |(row, column)| {
            (0..inner).map(|k| term(row, column, k)).fold([0.0, 0.0], |sum, term| [sum[0] + term, sum[1] + term.abs()])
        };
        cells.map(sums).collect()
    }

    fn agree(found: &FlexTensor, expected: &[[f64; 2]], epsilon: f64) {
        let found = numbers(found);
        assert_eq!(found.len(), expected.len());
        for (found, [value, size]) in found.iter().zip(expected) {
            assert!((found - value).abs() <= epsilon * size, "{found} {value}");
        }
    }

    #[test]
    fn a_product_is_the_sum_of_its_terms_also_of_transposed_matrices_and_views() {
        for [rows, inner, columns] in [[1, 1, 1], [3, 5, 2], [40, 7, 10], [17, 33, 48]] {
            let (a, b) = (tensor([rows, inner]), tensor([inner, columns]));
            let turned = [tensor([inner, rows]).transpose(0, 1), tensor([columns, inner]).transpose(0, 1)];
            let cut = tensor([rows + 2, inner + 3]).narrow(0, 1, rows).narrow(1, 2, inner);
            for (a, b) in [(&a, &b), (&turned[0], &b), (&a, &turned[1]), (&turned[0], &turned[1]), (&cut, &b)] {
                let found = product(a, b, None).unwrap();
                assert_eq!(shape(&found), [rows, columns]);
                agree(&found, &plain(a, b), 1e-15 * inner as f64);
            }
        }
    }

    #[test]
    fn a_product_starts_where_it_is_told() {
        let (a, b, start) = (tensor([5, 4]), tensor([4, 3]), tensor([1, 3]));
        let mut expected = plain(&a, &b);
        for row in expected.chunks_exact_mut(3) {
            row.iter_mut().zip(numbers(&start)).for_each(|(cell, start)| *cell = [cell[0] + start, cell[1] + 1.0]);
        }
        agree(&product(&a, &b, Some(&start)).unwrap(), &expected, 1e-15);
        let empty = product(&tensor([2, 0]), &tensor([0, 3]), Some(&start)).unwrap();
        assert_eq!(numbers(&empty), [numbers(&start), numbers(&start)].concat());
    }

    #[test]
    fn a_view_has_the_numbers_of_its_layout() {
        let whole = f64::tensor((0..12).map(f64::from).collect(), [3, 4]);
        assert_eq!(f64::of(&whole.narrow(0, 1, 1)), [4.0, 5.0, 6.0, 7.0]);
        assert_eq!(f64::of(&whole.narrow(0, 0, 2).narrow(1, 1, 2)), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert!(f64::of(&whole.narrow(0, 3, 0)).is_empty());
    }

    #[test]
    #[should_panic(expected = "[301, 500] times [500, 100], and 101 numbers to add")]
    fn numbers_to_add_that_are_too_many_are_refused_on_the_thread_of_the_caller() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        let (a, b, start) = (tensor([301, 500]), tensor([500, 100]), tensor([1, 101]));
        pool.install(|| product(&a, &b, Some(&start)));
    }

    #[test]
    fn products_of_any_number_of_threads_and_rows_have_the_same_bits() {
        let (a, b) = (tensor([301, 500]), tensor([500, 100]));
        let on = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            bits(&numbers(&pool.install(|| product(&a, &b, None)).unwrap()))
        };
        let alone = on(1);
        (0..20).for_each(|_| assert!(on(3) == alone));
        let some = product(&a.narrow(0, 7, 50), &b, None).unwrap();
        assert!(bits(&numbers(&some)) == alone[700..5_700]);
    }

    #[test]
    fn only_numbers_that_lose_digits_are_flushed() {
        let given = [1.0, -1e-31, 9.8e-32, -1e-40, 0.0, f32::NAN, f32::INFINITY, 1e-31];
        let found = without_tiny(f32::tensor([given, given].concat(), [2, 8]).transpose(0, 1));
        let expected = [1.0, -1e-31, 0.0, 0.0, 0.0, f32::NAN, f32::INFINITY, 1e-31];
        let single = |numbers: &[f32]| numbers.iter().map(|number| number.to_bits()).collect::<Vec<u32>>();
        assert_eq!(single(f32::of(&found)), single(&expected.map(|number| [number; 2]).concat()));
        let found = without_tiny(f64::tensor(vec![1e-40, 1e-293, -1e-310], [1, 3]));
        assert_eq!(bits(&numbers(&found)), bits(&[1e-40, 0.0, 0.0]));
    }

    #[test]
    fn single_precision_is_multiplied_in_single_precision() {
        let [a, b] = [[20, 30], [30, 11]].map(tensor);
        let round = |tensor: &FlexTensor| numbers(tensor).iter().map(|number| *number as f32).collect::<Vec<f32>>();
        let found = product(&f32::tensor(round(&a), [20, 30]), &f32::tensor(round(&b), [30, 11]), None).unwrap();
        assert_eq!(found.dtype(), DType::F32);
        let widened = f32::of(&found).iter().map(|number| f64::from(*number)).collect();
        agree(&f64::tensor(widened, [20, 11]), &plain(&a, &b), 1e-6);
        assert!(product(&a, &found, None).is_none());
    }
}
