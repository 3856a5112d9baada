//! Moves a model's own point parameters θ between the Burn module and one flat vector.

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Gradients, Tensor};

use crate::declare::model::Model;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::handle::Handle;

/// The values of all float parameters of a module, in the order Burn visits them.
///
/// # Errors
/// [`Error::Device`] if a parameter cannot be read.
///
/// # Example
/// ```
/// use partita_core::burn::{module::{Module, Param}, tensor::Tensor};
/// #[derive(Module, Debug)]
/// struct Scale { log_scale: Param<Tensor<1>> }
/// let device = partita_core::Device::flex();
/// let module = Scale { log_scale: Param::from_tensor(device.tensor(vec![0.5], [1])) };
/// assert_eq!(partita_core::theta(&module)?, [0.5]);
/// # Ok::<(), partita_core::Error>(())
/// ```
pub fn theta<M: Module>(module: &M) -> Result<Vec<f64>> {
    let mut read = Read { values: Vec::new(), error: None };
    module.visit(&mut read);
    read.error.map_or(Ok(read.values), Err)
}

/// The module with its float parameters set from one flat vector, as leaves of the tape on `device`.
///
/// # Errors
/// [`Error::Length`] unless the vector has one number for each parameter.
pub fn with_theta<M: Module>(module: &M, values: &[f64], device: &Device) -> Result<M> {
    let remedy = "Give one number for each trainable parameter of the model.";
    Error::same_length("setting θ", values.len(), Module::num_params(module), remedy)?;
    Ok(module.clone().map(&mut Write { values, device }))
}

/// The part of θ that all parties share: all but the last [`Model::private_len`] values.
///
/// # Errors
/// [`Error::Length`] if the model keeps more values private than it has; [`Error::Device`].
pub fn shared_theta<M: Model>(model: &M) -> Result<Vec<f64>> {
    let mut values = theta(model)?;
    let Some(shared) = values.len().checked_sub(model.private_len()) else {
        return Err(Error::Length {
            operation: "private parameters of a model".into(),
            found: model.private_len(),
            expected: values.len(),
            remedy: "A model can keep at most as many parameters private as it has: check its `private_len`.".into(),
        });
    };
    values.truncate(shared);
    Ok(values)
}

/// The model with the part of θ that all parties share set from one flat vector, and its private part as it is.
///
/// # Errors
/// As for [`with_theta`] and [`shared_theta`].
pub fn with_shared_theta<M: Model>(model: &M, shared: &[f64], device: &Device) -> Result<M> {
    if model.private_len() == 0 {
        return with_theta(model, shared, device);
    }
    let own = theta(model)?;
    let start = shared_theta(model)?.len();
    with_theta(model, &[shared, &own[start..]].concat(), device)
}

/// The gradient by θ; zeros where nothing on the tape depends on a parameter.
pub(crate) fn gradient<M: Module>(module: &M, gradients: Option<&Gradients>) -> Result<Vec<f64>> {
    let mut collect = Collect { gradients, values: Vec::new(), error: None };
    module.visit(&mut collect);
    collect.error.map_or(Ok(collect.values), Err)
}

/// The values of all float parameters of a module as flat tensors on their device, in the order Burn visits them.
#[must_use]
pub fn device_theta<M: Module>(module: &M) -> Vec<Tensor<1>> {
    let mut read = DeviceRead { gradients: None, values: Vec::new() };
    module.visit(&mut read);
    read.values
}

/// The module with its float parameters set from the tensors of [`device_theta`], updated or not, as leaves of the
/// tape.
///
/// Parameters for which `values` has no tensor stay as they are.
#[must_use]
pub fn with_device_theta<M: Module>(module: &M, values: Vec<Tensor<1>>) -> M {
    module.clone().map(&mut DeviceWrite { values: values.into_iter() })
}

/// The gradient by θ, left on the device; zeros where nothing on the tape depends on a parameter.
pub(crate) fn device_gradient<M: Module>(module: &M, gradients: &Gradients) -> Vec<Tensor<1>> {
    let mut read = DeviceRead { gradients: Some(gradients), values: Vec::new() };
    module.visit(&mut read);
    read.values
}

struct DeviceRead<'a> {
    gradients: Option<&'a Gradients>,
    values: Vec<Tensor<1>>,
}

impl ModuleVisitor for DeviceRead<'_> {
    fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) {
        let value = parameter.val();
        let own = match self.gradients {
            None => value.inner(),
            Some(gradients) => value.grad(gradients).unwrap_or_else(|| value.inner().zeros_like()),
        };
        let numbers = own.dims().iter().product::<usize>();
        self.values.push(own.reshape([numbers]));
    }
}

struct DeviceWrite {
    values: std::vec::IntoIter<Tensor<1>>,
}

impl ModuleMapper for DeviceWrite {
    fn map_float<const D: usize>(&mut self, parameter: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(value) = self.values.next() else { return parameter };
        let shape = parameter.val().dims();
        Param::initialized(parameter.id, value.reshape(shape).autodiff().require_grad())
    }
}

struct Read {
    values: Vec<f64>,
    error: Option<Error>,
}

impl ModuleVisitor for Read {
    fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) {
        match Handle::from(parameter.val()).read() {
            Ok(array) => self.values.extend(array.values),
            Err(error) => self.error = Some(error),
        }
    }
}

struct Write<'a> {
    values: &'a [f64],
    device: &'a Device,
}

impl ModuleMapper for Write<'_> {
    fn map_float<const D: usize>(&mut self, parameter: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let shape = parameter.val().dims();
        let (own, rest) = self.values.split_at(shape.iter().product());
        self.values = rest;
        Param::initialized(parameter.id, self.device.leaf(own.to_vec(), shape))
    }
}

struct Collect<'a> {
    gradients: Option<&'a Gradients>,
    values: Vec<f64>,
    error: Option<Error>,
}

impl ModuleVisitor for Collect<'_> {
    fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) {
        let value = parameter.val();
        let length = value.dims().iter().product::<usize>();
        match self.gradients.and_then(|gradients| value.grad(gradients)).map(|gradient| Handle::from(gradient).read()) {
            Some(Ok(array)) => self.values.extend(array.values),
            Some(Err(error)) => self.error = Some(error),
            None => self.values.extend(std::iter::repeat_n(0.0, length)),
        }
    }
}
