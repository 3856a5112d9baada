//! Names the device of tensors and their precision, so that every tensor of a run is made alike.

use std::borrow::Cow;
use std::cell::Cell;

use burn::tensor::{DType, Element, FloatDType, Tensor, TensorCreationOptions, TensorData};
use rayon::prelude::*;

use crate::array::Array;
use crate::handle::Handle;
use crate::math::kernel::add_scaled_single;
use crate::noise::{Key, Noise};
use crate::number::{Number, Numbers};

/// The floating-point precision of a run's tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// 32 bits, fast on GPUs.
    Single,
    /// 64 bits, at little extra cost on CPUs, and the precision of every exactness test.
    Double,
}

/// A Burn device together with the precision of the tensors made on it.
///
/// Burn's own default precision is per process and locked after the first tensor. Partita names it at every creation
/// instead, so that runs of both precisions can live in one process.
///
/// # Example
/// ```
/// # #[cfg(feature = "flex")] {
/// use partita_core::Device;
/// let device = Device::flex();
/// let x = device.tensor(vec![1.0, 2.0, 3.0, 4.0], [2, 2]);
/// assert_eq!(x.sum().into_scalar::<f64>(), 10.0);
/// # }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Device {
    plain: burn::tensor::Device,
    tracked: burn::tensor::Device,
    precision: Precision,
}

impl Device {
    /// Wraps a Burn device; tensors made on it have `precision`.
    #[must_use]
    pub fn new(device: burn::tensor::Device, precision: Precision) -> Self {
        let plain = device.inner();
        Self { tracked: plain.clone().autodiff(), plain, precision }
    }

    /// Burn's CPU device in double precision.
    #[cfg(feature = "flex")]
    #[must_use]
    pub fn flex() -> Self {
        Self::new(burn::tensor::Device::flex(), Precision::Double)
    }

    /// The same device with another precision.
    #[must_use]
    pub fn with_precision(self, precision: Precision) -> Self {
        Self { precision, ..self }
    }

    /// The precision of tensors made here.
    #[must_use]
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Whether it is Burn's CPU device, which computes in both precisions on tensors that lie in this process.
    #[must_use]
    pub fn is_in_process(&self) -> bool {
        Handle::from(self.tensor::<1>(vec![0.0], [1])).is_in_process()
    }

    /// The Burn device, without gradient tracking.
    #[must_use]
    pub fn burn(&self) -> &burn::tensor::Device {
        &self.plain
    }

    /// The Burn device with gradient tracking, where a model's trainable parameters live.
    #[must_use]
    pub fn autodiff(&self) -> &burn::tensor::Device {
        &self.tracked
    }

    /// Makes a constant tensor: data, designs, fixed settings.
    ///
    /// # Shapes
    /// `values` row-major with `shape.product()` entries.
    ///
    /// # Panics
    /// If the number of values is not the product of `shape`.
    #[must_use]
    pub fn tensor<const D: usize>(&self, values: Vec<f64>, shape: [usize; D]) -> Tensor<D> {
        self.constant(values, shape)
    }

    /// The same of numbers that need not be copied where the tensor has another precision.
    pub(crate) fn constant<'v, const D: usize>(
        &self,
        values: impl Into<Cow<'v, [f64]>>,
        shape: [usize; D],
    ) -> Tensor<D> {
        Tensor::from_data(self.data(values.into(), &shape), self.options(&self.plain))
    }

    /// Makes a constant tensor of standard normal noise in the precision of the device, in as many equal parts as there are
    /// keys.
    ///
    /// # Panics
    /// If the numbers of `shape` cannot be cut into as many equal parts as there are keys.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Device, Key, Noise, Purpose};
    /// let key = Key::new(Purpose::Fit, 7);
    /// let both = Device::flex().noise(Noise::new(1), &[key, key.particle(1)], [2, 3]);
    /// let mut expected = [0.0; 3];
    /// Noise::new(1).normal(key.particle(1), &mut expected);
    /// assert_eq!(both.into_data().try_into_vec::<f64>().unwrap()[3..], expected);
    /// ```
    #[must_use]
    pub fn noise<const D: usize>(&self, noise: Noise, keys: &[Key], shape: [usize; D]) -> Tensor<D> {
        let count: usize = shape.iter().product();
        assert!(count.is_multiple_of(keys.len()), "{count} numbers of noise in equal parts for {} keys", keys.len());
        let data = match self.precision {
            Precision::Double => {
                TensorData::new(filled(keys, count, |key, own: &mut [f64]| noise.normal(key, own)), shape)
            }
            Precision::Single => {
                TensorData::new(filled(keys, count, |key, own: &mut [f32]| noise.normal_single(key, own)), shape)
            }
        };
        Tensor::from_data(data, self.options(&self.plain))
    }

    /// Makes a tracked leaf, the start of a gradient tape, of `values` in row-major order.
    ///
    /// # Examples
    /// ```
    /// let x = partita_core::Device::flex().leaf::<1>(vec![3.0], [1]);
    /// let gradients = (x.clone() * x.clone()).backward();
    /// assert_eq!(x.grad(&gradients).unwrap().into_scalar::<f64>(), 6.0);
    /// ```
    pub fn leaf<'v, const D: usize>(&self, values: impl Into<Cow<'v, [f64]>>, shape: [usize; D]) -> Tensor<D> {
        self.unregistered_leaf(values, shape).require_grad()
    }

    /// The same of numbers of either precision.
    pub(crate) fn leaf_of<const D: usize>(&self, values: Numbers<'_>, shape: [usize; D]) -> Tensor<D> {
        match (self.precision, values) {
            (Precision::Single, Numbers::Single(values)) => self.unregistered_single(values, shape).require_grad(),
            _ => self.leaf(values.wide(), shape),
        }
    }

    /// As [`Device::unregistered_leaf`], of numbers in single precision, which is that of the device.
    pub(crate) fn unregistered_single<const D: usize>(&self, values: &[f32], shape: [usize; D]) -> Tensor<D> {
        Tensor::from_data(TensorData::new(copied(values), shape), self.options(&self.tracked))
    }

    /// As [`Device::constant`], of numbers in single precision, which is that of the device.
    pub(crate) fn single<const D: usize>(&self, values: &[f32], shape: [usize; D]) -> Tensor<D> {
        Tensor::from_data(TensorData::new(copied(values), shape), self.options(&self.plain))
    }

    /// Makes a tensor of the kind that operations track, of which Burn keeps no record: a leaf of Partita's own tape.
    pub(crate) fn unregistered_leaf<'v, const D: usize>(
        &self,
        values: impl Into<Cow<'v, [f64]>>,
        shape: [usize; D],
    ) -> Tensor<D> {
        let values = values.into();
        let data = match self.precision {
            // On idle threads: unlike other tensors no leaf is made while Burn's tape is locked.
            Precision::Single if values.len() > PART => {
                let single: Vec<f32> = values.par_iter().with_min_len(PART).map(|value| to_single(*value)).collect();
                TensorData::new(single, shape)
            }
            _ => self.data(values, &shape),
        };
        Tensor::from_data(data, self.options(&self.tracked))
    }

    fn data(&self, values: Cow<'_, [f64]>, shape: &[usize]) -> TensorData {
        match self.precision {
            Precision::Double => TensorData::new(values.into_owned(), shape),
            Precision::Single => TensorData::new(rounded(&values), shape),
        }
    }

    fn options(&self, device: &burn::tensor::Device) -> TensorCreationOptions {
        let dtype: DType = match self.precision {
            Precision::Double => FloatDType::F64.into(),
            Precision::Single => FloatDType::F32.into(),
        };
        TensorCreationOptions::new(device.clone()).with_dtype(dtype)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "single precision is what was asked for")]
pub(crate) fn to_single(value: f64) -> f32 {
    value as f32
}

/// The same numbers in single precision.
pub(crate) fn rounded(values: &[f64]) -> Vec<f32> {
    values.iter().map(|value| to_single(*value)).collect()
}

/// Numbers of a long vector that one thread takes at a time.
const PART: usize = 16_384;

pub(crate) fn widened(values: &[f32]) -> Vec<f64> {
    values.iter().map(|value| f64::from(*value)).collect()
}

/// Numbers of which `fill` makes as many equal parts as there are keys.
fn filled<T: Copy + Default + Send>(keys: &[Key], count: usize, fill: impl Fn(Key, &mut [T]) + Sync) -> Vec<T> {
    let mut values = vec![T::default(); count];
    match keys {
        // What is short is not worth the threads.
        [key] => fill(*key, &mut values),
        keys => {
            let each = (count / keys.len().max(1)).max(1);
            values.par_chunks_mut(each).zip(keys).for_each(|(own, key)| fill(*key, own));
        }
    }
    values
}

thread_local! {
    static READS: Cell<u64> = const { Cell::new(0) };
}

/// How many tensors this thread has read to the host through Partita; a fit that stays on the device keeps it small.
///
/// # Example
/// ```
/// use partita_core::{Device, Handle, host_reads};
/// let before = host_reads();
/// Handle::from(Device::flex().tensor(vec![1.0], [1])).read()?;
/// assert_eq!(host_reads() - before, 1);
/// # Ok::<(), partita_core::Error>(())
/// ```
#[must_use]
pub fn host_reads() -> u64 {
    READS.get()
}

/// Counts a read of numbers where they lie.
pub(crate) fn count_read() {
    READS.set(READS.get() + 1);
}

/// Reads a tensor of any rank to the host as f64, whatever its precision. Every read of a tensor uses this, [`count_read`] or
/// [`add_data_at`].
pub(crate) fn data_to_array(data: TensorData) -> Array {
    count_read();
    let shape = data.shape().to_vec();
    let values = match data.dtype() {
        DType::F64 => vec_of::<f64>(data),
        DType::F32 => match data.as_slice::<f32>().ok().map(widened) {
            Some(values) => values,
            None => widened(&vec_of::<f32>(data)),
        },
        _ => data.iter::<f64>().collect(),
    };
    Array { values, shape }
}

fn vec_of<T: Element>(data: TensorData) -> Vec<T> {
    match data.try_into_vec() {
        Ok(numbers) => numbers,
        Err(error) => unreachable!("invariant: data have the numbers of their type ({error})"),
    }
}

/// Reads a tensor to the host and adds its numbers, as [`add_at`] does.
pub(crate) fn add_data_at<T: Number>(data: TensorData, others: &[f64], start: usize, out: &mut Vec<T>) {
    match (data.dtype(), data.as_slice::<f32>()) {
        (DType::F32, Ok(numbers)) if others.is_empty() && T::as_single(out).is_some() => {
            count_read();
            add_singles(numbers, start, out);
        }
        (DType::F32, Ok(numbers)) => {
            count_read();
            add_at(numbers, others, start, out);
        }
        _ => add_at(&data_to_array(data).values, others, start, out),
    }
}

/// [`add_at`] of numbers in single precision, at once where the vector is in it too: they are copied or moved behind its end, and
/// their sums with what is there are rounded once.
pub(crate) fn add_singles<'n, T: Number>(numbers: impl Into<Cow<'n, [f32]>>, start: usize, out: &mut Vec<T>) {
    let numbers = numbers.into();
    let Some(out) = T::as_single(out) else { return add_at(&numbers, &[], start, out) };
    if out.is_empty() && start == 0 && out.capacity() <= numbers.len() {
        *out = numbers.into_owned();
    } else if out.len() <= start {
        out.resize(start, 0.0);
        extend(out, &numbers);
    } else {
        out.resize(out.len().max(start + numbers.len()), 0.0);
        if numbers.len() <= PART {
            return add_scaled_single(&mut out[start..start + numbers.len()], 1.0, &numbers);
        }
        let parts = out[start..].par_chunks_mut(PART).zip(numbers.par_chunks(PART));
        parts.for_each(|(out, numbers)| add_scaled_single(&mut out[..numbers.len()], 1.0, numbers));
    }
}

/// Puts numbers behind the end of a vector: long ones on idle threads, where there are any.
fn extend(out: &mut Vec<f32>, numbers: &[f32]) {
    if numbers.len() > PART && rayon::current_num_threads() > 1 {
        out.par_extend(numbers.par_iter().with_min_len(PART).copied());
    } else {
        out.extend_from_slice(numbers);
    }
}

/// A copy of numbers, made as [`extend`] does.
fn copied(numbers: &[f32]) -> Vec<f32> {
    let mut copy = Vec::with_capacity(numbers.len());
    extend(&mut copy, numbers);
    copy
}

/// Adds numbers, and those of `others` if there are any, to those of `out` from `start` on; behind its end `out` has zeros.
///
/// Long vectors grow in the order of their numbers: each is then written once, in memory that is not cleared before.
pub(crate) fn add_at<N: Number, T: Number>(numbers: &[N], others: &[f64], start: usize, out: &mut Vec<T>) {
    assert!(
        others.is_empty() || others.len() == numbers.len(),
        "invariant: both gradients of a leaf are by its numbers"
    );
    let end = start + numbers.len();
    if out.len() <= start {
        out.resize(start, T::default());
        // Added to zero, as what is there already: a negative zero becomes zero.
        let alone = |number: &N| T::nearest(0.0 + (*number).into());
        let both = |(number, other): (&N, &f64)| T::nearest(0.0 + ((*number).into() + other));
        let long = || numbers.par_iter().with_min_len(PART);
        match (numbers.len() > PART, others) {
            (false, []) => out.extend(numbers.iter().map(alone)),
            (false, _) => out.extend(numbers.iter().zip(others).map(both)),
            (true, []) => out.par_extend(long().map(alone)),
            (true, _) => out.par_extend(long().zip(others).map(both)),
        }
        return;
    }
    out.resize(out.len().max(end), T::default());
    let slots = out[start..end].iter_mut().zip(numbers);
    let add = |slot: &mut T, number: f64| *slot = T::nearest((*slot).into() + number);
    match others {
        [] => slots.for_each(|(slot, number)| add(slot, (*number).into())),
        _ => slots.zip(others).for_each(|((slot, number), other)| add(slot, (*number).into() + other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::kernel::testing::bits;
    use crate::noise::Purpose;

    #[test]
    #[should_panic(expected = "4 numbers of noise in equal parts for 3 keys")]
    fn keys_that_do_not_divide_the_numbers_leave_no_zeros() {
        let key = Key::new(Purpose::Fit, 7);
        let _ = Device::flex().noise(Noise::new(1), &[key, key.particle(1), key.particle(2)], [2, 2]);
    }

    #[test]
    fn a_long_gradient_is_added_as_a_short_one() {
        let length = 2 * PART + 3;
        let numbers: Vec<f32> = (0..length).map(|index| (index % 1_000) as f32 / 7.0).collect();
        let others: Vec<f64> = (0..length).map(|index| (index % 77) as f64 / 3.0).collect();
        for given in [others.as_slice(), &[]] {
            let (mut whole, mut parts) = (vec![0.5], vec![0.5]);
            add_at(&numbers, given, 1, &mut whole);
            for (part, numbers) in numbers.chunks(1_000).enumerate() {
                let given = if given.is_empty() { given } else { &given[1_000 * part..][..numbers.len()] };
                add_at(numbers, given, 1 + 1_000 * part, &mut parts);
            }
            assert!(bits(&whole) == bits(&parts) && whole.len() == 1 + length);
        }
        let leaf = Device::flex().with_precision(Precision::Single).leaf::<1>(others.as_slice(), [length]);
        assert_eq!(leaf.into_data().try_into_vec::<f32>().unwrap(), rounded(&others));
    }

    #[test]
    fn a_vector_that_grows_has_the_numbers_of_one_that_is_added_to() {
        let numbers = [0.1_f32, -0.0, 3.0];
        let others = [0.7, -0.0, -1e9];
        for given in [others.as_slice(), &[]] {
            let sum = |index: usize| f64::from(numbers[index]) + given.get(index).copied().unwrap_or(-0.0);
            // Beside its end, at its end, across it, and within.
            for (start, length) in [(2, 0), (2, 1), (2, 2), (2, 3), (2, 9)] {
                let (mut found, mut plain) = (vec![0.5; length], vec![0.5; length]);
                plain.resize(length.max(start + 3), 0.0);
                (0..3).for_each(|index| plain[start + index] += sum(index));
                add_data_at(TensorData::new(numbers.to_vec(), [3]), given, start, &mut found);
                assert_eq!(bits(&found), bits(&plain), "{start} of {length}");
            }
        }
    }

    #[test]
    fn single_precision_is_read_as_it_is() {
        let tensor = Device::flex().with_precision(Precision::Single).tensor::<1>(vec![0.5, 0.1], [2]);
        assert_eq!(data_to_array(tensor.into_data()).values, [0.5, f64::from(0.1_f32)]);
    }
}
