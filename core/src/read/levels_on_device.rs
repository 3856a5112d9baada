//! Reads a model as log densities by the rows of levels with tensor operations, and sums them with weights on the device.

use burn::tensor::{Tensor, TensorCreationOptions, TensorData};

use super::density::LogDensity;
use crate::declare::model::Model;
use crate::declare::scope::{Outcome, RowPlace, RowTape, Terms};
use crate::declare::site::Part;
use crate::declare::uploaded::indices;
use crate::error::Result;
use crate::math::operation::ordered_sum;

/// Log densities of the local part on a device, by the rows of levels: what [`crate::Levels`] holds on the host.
#[derive(Debug)]
pub struct DeviceLevels {
    /// The latents of the globals.
    globals: Vec<Tensor<2>>,
    rows: Vec<RowTape>,
}

impl<M: Model> LogDensity<'_, M> {
    /// $\log p_\theta(y_r, u_r \mid u_{\text{outer}}, Z_G)$ for the rows $r$ of every level, evaluated with tensor operations on
    /// the device: the numbers of [`LogDensity::levels`] to the rounding of the device's precision, of which none is read.
    ///
    /// # Shapes
    /// `latents` as [`LogDensity::on_device`] takes them; those of rows are constants.
    ///
    /// # Errors
    /// As for [`LogDensity::on_device`].
    ///
    /// # Example
    /// ```
    /// use partita_core::{Device, Handle, LogDensity, Model, Normal, Result, Scope, SiteTable, burn};
    /// use burn::{module::Module, tensor::Tensor};
    /// # #[derive(Module, Debug)]
    /// # struct Effects {}
    /// # impl Model for Effects {
    /// #     type Globals = Tensor<1>;
    /// #     type Data = Tensor<1>;
    /// #     fn global(&self, scope: &mut Scope) -> Result<Tensor<1>> { scope.sample("mean", Normal::new(0.0, 1.0)) }
    /// #     fn local(&self, scope: &mut Scope, mean: &Tensor<1>, data: &Tensor<1>) -> Result<()> {
    /// #         scope.plate("row", data.dims()[0], |s, rows| {
    /// #             let effect = s.sample("effect", Normal::new(mean.clone(), 1.0))?;
    /// #             s.observe("y", Normal::new(effect, 1.0), rows.take(data)?)
    /// #         })
    /// #     }
    /// # }
    /// let (device, data) = (Device::flex(), Device::flex().tensor(vec![0.5, 2.0], [2]));
    /// let table = SiteTable::of(&Effects {}, &device, &data)?;
    /// let density = LogDensity::new(&Effects {}, &device, &table);
    /// let latents = [device.tensor(vec![0.0], [1, 1]), device.tensor(vec![0.5, 1.0], [2, 1])];
    /// let levels = density.levels_on_device(&latents, &data)?;
    /// // Squares of 0.5 and of 0 in the first row, of 1 and of 1 in the second.
    /// let rows = Handle::from(levels.rows(Some(0)).unwrap()).read()?.values;
    /// assert!((rows[1] + 1.0 + (2.0 * std::f64::consts::PI).ln()).abs() < 1e-12);
    /// // The gradient by the mean of the first row less twice that of the second: 0.5 - 2 * 1.
    /// let gradient = levels.gradient(|_| Some(device.tensor(vec![1.0, -2.0], [2]))).remove(0);
    /// assert!((gradient.into_scalar::<f64>() + 1.5).abs() < 1e-12);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    pub fn levels_on_device(&self, latents: &[Tensor<2>], data: &M::Data) -> Result<DeviceLevels> {
        let count = self.table.latents(Part::Global).count().min(latents.len());
        let (globals, locals) = latents.split_at(count);
        let globals: Vec<Tensor<2>> = globals.iter().map(|own| own.clone().autodiff().require_grad()).collect();
        let leaves = [globals.as_slice(), locals].concat();
        let Outcome { row_tapes, .. } = self.read_on_device(&leaves, data, Terms::LocalByLevel)?;
        Ok(DeviceLevels { globals, rows: row_tapes })
    }

    /// The same without a tape: its rows can be read, and its gradient is zero.
    ///
    /// # Errors
    /// As for [`LogDensity::levels_on_device`].
    pub fn level_values_on_device(&self, latents: &[Tensor<2>], data: &M::Data) -> Result<DeviceLevels> {
        let count = self.table.latents(Part::Global).count().min(latents.len());
        let Outcome { row_tapes, .. } = self.read_on_device(latents, data, Terms::LocalByLevel)?;
        Ok(DeviceLevels { globals: latents[..count].to_vec(), rows: row_tapes })
    }
}

impl DeviceLevels {
    /// The log densities of the rows of a level, `[rows]`: those of a block, or of the silo; `None` where the model declares
    /// nothing there.
    #[must_use]
    pub fn rows(&self, block: Option<usize>) -> Option<Tensor<1>> {
        let own = self.rows.iter().filter(|own| own.place.level.block == block);
        own.map(|own| level_rows(&own.place, own.tape.clone().inner())).reduce(|sum, rows| sum + rows)
    }

    /// The gradient by each site of the globals, `[1, width]`, of the sum over levels and rows of `weights` times log densities.
    ///
    /// `weights` gives one number for each row of a level, or `None` for a level that does not count.
    #[must_use]
    pub fn gradient(self, weights: impl Fn(Option<usize>) -> Option<Tensor<1>>) -> Vec<Tensor<2>> {
        let weighed = |RowTape { place, tape }: RowTape| {
            weights(place.level.block).map(|weights| ordered_sum(tape * spread(&place, weights)))
        };
        let taped = self.rows.into_iter().filter(|own| own.tape.is_autodiff());
        let sum = taped.filter_map(weighed).reduce(|sum, own| sum + own);
        let gradients = sum.map(|sum| sum.backward());
        let of = |leaf: &Tensor<2>| gradients.as_ref().and_then(|all| leaf.grad(all));
        self.globals.iter().map(|leaf| of(leaf).unwrap_or_else(|| leaf.clone().inner().zeros_like())).collect()
    }
}

/// Numbers of the rows of a plate, summed to the rows of the level that they belong to.
fn level_rows(place: &RowPlace, numbers: Tensor<1>) -> Tensor<1> {
    let numbers = counted(place, numbers);
    match &place.of {
        None => numbers,
        Some(_) if place.len == 1 => ordered_sum(numbers),
        Some(of) => summed(numbers, of, place.len),
    }
}

/// Numbers of the rows of the level, for each of the rows of a plate as often as it counts.
fn spread(place: &RowPlace, numbers: Tensor<1>) -> Tensor<1> {
    let numbers = match &place.of {
        None => numbers,
        Some(of) if place.len == 1 => numbers.expand([of.len()]),
        Some(of) => {
            let index = indices(of.iter().copied(), &numbers.device());
            numbers.select(0, index)
        }
    };
    counted(place, numbers)
}

/// Numbers of the rows of a plate times how often each counts.
fn counted(place: &RowPlace, numbers: Tensor<1>) -> Tensor<1> {
    let Some(times) = &place.times else { return numbers };
    let data = TensorData::new(times.to_vec(), [times.len()]).convert_dtype(numbers.dtype());
    let options = TensorCreationOptions::new(numbers.device()).with_dtype(numbers.dtype());
    numbers * Tensor::from_data(data, options)
}

/// The sums of numbers that belong to the same of `len` rows, in an order that depends on `of` alone: parts of as many numbers
/// as rows have on average, and then the sums of these parts.
fn summed(numbers: Tensor<1>, of: &[usize], len: usize) -> Tensor<1> {
    let each = of.len().div_ceil(len.max(1)).max(1);
    if of.len() == len * each && of.iter().enumerate().all(|(at, row)| *row == at / each) {
        return if each == 1 { numbers } else { numbers.reshape([len, each]).sum_dim(1).reshape([len]) };
    }
    let each = each.max(2);
    let mut rows = vec![Vec::new(); len];
    of.iter().enumerate().for_each(|(at, row)| rows[*row].push(at));
    // The number behind the last one is zero.
    let (mut places, mut parts) = (Vec::new(), Vec::new());
    for (row, own) in rows.iter().enumerate() {
        let mut left = own.as_slice();
        loop {
            let (part, rest) = left.split_at(each.min(left.len()));
            places.extend(part.iter().copied().chain(std::iter::repeat_n(of.len(), each - part.len())));
            parts.push(row);
            left = rest;
            if left.is_empty() {
                break;
            }
        }
    }
    let zero = numbers.clone().narrow(0, 0, 1).zeros_like();
    let index = indices(places.into_iter(), &numbers.device());
    let all = Tensor::cat(vec![numbers, zero], 0).select(0, index);
    let sums = all.reshape([parts.len(), each]).sum_dim(1).reshape([parts.len()]);
    summed(sums, &parts, len)
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use burn::module::Module;

    use super::*;
    use crate::{Bernoulli, Device, Groups, Handle, Minibatch, Normal, Scope, SiteTable};

    /// Patients with a level and a slope, visits of unequal numbers, and what stands in no plate of theirs.
    #[derive(Module, Debug)]
    struct Patients {}

    #[derive(Debug, Clone)]
    struct Data {
        visits: Groups,
        times: Tensor<2>,
        y: Tensor<1>,
        others: Tensor<1>,
    }

    impl Model for Patients {
        type Globals = [Tensor<1>; 2];
        type Data = Data;

        fn global(&self, scope: &mut Scope<'_>) -> Result<[Tensor<1>; 2]> {
            Ok([scope.sample("mean", Normal::new(0.0, 1.0).iid([2]))?, scope.sample("omega", Normal::new(0.0, 1.0))?])
        }

        fn local(&self, scope: &mut Scope<'_>, [mean, omega]: &[Tensor<1>; 2], data: &Data) -> Result<()> {
            scope.plate("patient", data.visits.groups(), |scope, rows| {
                let shape = [rows.len(), 2];
                let scale = omega.clone().exp().reshape([1, 1]).expand(shape);
                let effects =
                    scope.sample("effects", Normal::new(mean.clone().reshape([1, 2]).expand(shape), scale))?;
                scope.factor("pull", (effects.clone() * effects.clone() * omega.clone().reshape([1, 1])).sum_dim(1))?;
                scope.plate("visit", &data.visits, |scope, rows| {
                    let eta = rows.inner_products(&effects, &data.times)?;
                    scope.weighted(0.7, |scope| scope.observe("y", Bernoulli::logits(eta), rows.take(&data.y)?))
                })
            })?;
            scope.plate("other", data.others.dims()[0], |scope, rows| {
                let location = mean.clone().narrow(0, 0, 1);
                scope.observe("other", Normal::new(location, 1.5).over(rows), rows.take(&data.others)?)
            })?;
            scope.observe("prior", Normal::new(mean.clone(), 0.5), scope.device().tensor(vec![0.3, -0.2], [2]))
        }
    }

    #[test]
    fn rows_and_gradients_of_levels_are_those_of_the_host() {
        let device = Device::flex();
        let numbers =
            |count: usize, scale: f64| -> Vec<f64> { (0..count).map(|at| scale * (at as f64 * 1.3).sin()).collect() };
        let visits = Groups::new(vec![2, 0, 1, 0, 2, 2, 3, 0], 4).unwrap();
        let y = device.tensor((0..8).map(|at| f64::from(at % 2)).collect(), [8]);
        let others = device.tensor(numbers(3, 1.0), [3]);
        let data = Data { visits, times: device.tensor(numbers(16, 1.0), [8, 2]), y, others };
        let table = SiteTable::of(&Patients {}, &device, &data).unwrap();
        let globals = [0.4, -0.3, 0.2];
        // All rows, and some repeated, of a plate beside which rows count several times.
        let some =
            [Minibatch::repeated("patient", &[3, 0, 2], 2), Minibatch::counted("other", vec![0, 2], vec![2.0, 1.0])];
        for (minibatch, rows) in [(&[][..], 4), (&some[..], 6)] {
            let density = LogDensity::new(&Patients {}, &device, &table).minibatch(minibatch);
            let own: Vec<f64> = numbers(2 * rows, 0.8);
            let latents = [
                device.tensor(globals[..2].to_vec(), [1, 2]),
                device.tensor(globals[2..].to_vec(), [1, 1]),
                device.tensor(own.clone(), [rows, 2]),
            ];
            let passes: [Vec<Vec<f64>>; 1] =
                [table.blocks().iter().map(|block| if block.width > 0 { own.clone() } else { Vec::new() }).collect()];
            let expected = density.levels(&globals, &passes, &data).unwrap();
            let found = density.levels_on_device(&latents, &data).unwrap();
            let fixed = density.level_values_on_device(&latents, &data).unwrap();
            for block in [Some(0), None] {
                for levels in [&found, &fixed] {
                    let found = Handle::from(levels.rows(block).unwrap()).read().unwrap().values;
                    let near = found.iter().zip(expected.rows(0, block)).all(|(a, b)| (a - b).abs() < 1e-12);
                    assert!(near && found.len() == expected.rows(0, block).len(), "{block:?} {found:?}");
                }
            }
            let weights = |block: Option<usize>| -> Vec<f64> {
                if block.is_none() { vec![1.0] } else { (0..rows).map(|row| 0.2 + row as f64).collect() }
            };
            let expected = expected.gradient(|_, block| weights(block)).unwrap().globals;
            let gradient = |levels: DeviceLevels| {
                let sites = levels.gradient(|block| {
                    let own = weights(block);
                    let count = own.len();
                    Some(device.tensor(own, [count]))
                });
                let flat = sites.into_iter().map(|own| own.flatten::<1>(0, 1)).collect();
                Handle::from(Tensor::cat(flat, 0)).read().unwrap().values
            };
            let found = gradient(found);
            assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-11), "{found:?} {expected:?}");
            assert_eq!(gradient(fixed), [0.0; 3]);
        }
    }

    #[test]
    fn numbers_are_summed_by_the_row_that_they_belong_to() {
        for of in [
            vec![0, 0, 1, 1, 2, 2],
            vec![2, 0, 1, 0, 2, 1, 2],
            vec![1],
            vec![2; 40],
            (0..100).map(|at| if at % 9 == 0 { at % 3 } else { 1 }).collect(),
        ] {
            let numbers: Vec<f64> = (0..of.len()).map(|at| (at as f64).sin()).collect();
            let mut expected = vec![0.0; 3];
            of.iter().zip(&numbers).for_each(|(row, number)| expected[*row] += number);
            let found = summed(Device::flex().tensor(numbers, [of.len()]), &of, 3);
            let found = Handle::from(found).read().unwrap().values;
            assert_eq!(found.len(), 3);
            assert!(found.iter().zip(&expected).all(|(own, sum)| (own - sum).abs() < 1e-12), "{of:?} {found:?}");
        }
    }
}
