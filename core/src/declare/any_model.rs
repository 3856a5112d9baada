//! Holds any model as one type: what works with models is compiled for it once, instead of once for every model.

use std::any::Any;
use std::sync::Arc;

use burn::module::{Devices, Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::Tensor;

use super::encoding::Encoding;
use crate::declare::model::Model;
use crate::declare::rows::Rows;
use crate::declare::scope::Scope;
use crate::error::{Error, Result};

/// A model whose type is forgotten.
///
/// A fit is some two hundred functions, and a compiler makes each of them anew for every type of model. Whatever a user
/// calls with a model of her own therefore hands on this one, with the data of silos as [`AnyData`]. Both only pass calls on:
/// what a model declares, and every number, is the same.
///
/// # Example
/// ```
/// use partita_core::burn::{module::Module, tensor::Tensor};
/// use partita_core::{AnyData, AnyModel, Device, Model, Normal, Result, Scope, SiteTable};
///
#[doc = include_str!("../../doc/mean.md")]
///
/// let device = Device::flex();
/// let (model, data) = (AnyModel::new(&Mean {}), AnyData::new(&device.tensor(vec![1.0, 2.0], [2])));
/// assert_eq!(SiteTable::of(&model, &device, &data)?.global_len(), 1);
/// # Ok::<(), partita_core::Error>(())
/// ```
pub struct AnyModel(Box<dyn Declares>);

impl AnyModel {
    /// The model `model`, which must have been written for data that [`AnyData::new`] is given.
    pub fn new<M: Model>(model: &M) -> Self {
        let any: &dyn Any = model;
        any.downcast_ref::<Self>().cloned().unwrap_or_else(|| Self(Box::new(Held(model.clone()))))
    }
}

/// One silo's data whose type is forgotten, for an [`AnyModel`]; clones share them.
#[derive(Clone)]
pub struct AnyData(Arc<dyn Any + Send + Sync>);

impl AnyData {
    /// A copy of `data`; tensors and what a [`crate::Design`] holds are shared with it.
    pub fn new<D: Clone + Send + Sync + 'static>(data: &D) -> Self {
        let any: &dyn Any = data;
        any.downcast_ref::<Self>().cloned().unwrap_or_else(|| Self(Arc::new(data.clone())))
    }

    /// Those of every silo.
    pub fn of_silos<D: Clone + Send + Sync + 'static>(silos: &[(String, D)]) -> Vec<(String, Self)> {
        silos.iter().map(|(name, data)| (name.clone(), Self::new(data))).collect()
    }

    /// The data as the type that the model was written for.
    fn get<D: 'static>(&self) -> Result<&D> {
        self.0.downcast_ref().ok_or_else(|| Error::Argument {
            operation: "a model whose type is forgotten".into(),
            argument: "data",
            found: "data of another model".into(),
            expected: std::any::type_name::<D>(),
        })
    }
}

impl std::fmt::Debug for AnyData {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("AnyData").finish_non_exhaustive()
    }
}

/// What a model can do whatever its type is: [`Model`] and [`Module`], for its own globals, data and parameters.
trait Declares: Send {
    fn boxed(&self) -> Box<dyn Declares>;
    fn debug(&self) -> &dyn std::fmt::Debug;
    fn global(&self, scope: &mut Scope<'_>) -> Result<Box<dyn Any>>;
    fn local(&self, scope: &mut Scope<'_>, globals: &dyn Any, data: &AnyData) -> Result<()>;
    fn encode(&self, plate: &str, data: &AnyData, rows: &Rows<'_>) -> Result<Option<Encoding>>;
    fn private_len(&self) -> usize;
    fn parameters(&self, see: &mut dyn FnMut(&dyn Any));
    fn mapped(&self, change: &mut dyn FnMut(Box<dyn Any>) -> Box<dyn Any>) -> Box<dyn Declares>;
    fn collect_devices(&self, devices: Devices) -> Devices;
    fn fork(&self, device: &burn::tensor::Device) -> Box<dyn Declares>;
    fn to_device(&self, device: &burn::tensor::Device) -> Box<dyn Declares>;
    fn train(&self) -> Box<dyn Declares>;
    fn valid(&self) -> Box<dyn Declares>;
    fn materialize(&self) -> Box<dyn Declares>;
}

struct Held<M>(M);

fn held<M: Model>(model: M) -> Box<dyn Declares> {
    Box::new(Held(model))
}

impl<M: Model> Declares for Held<M> {
    fn boxed(&self) -> Box<dyn Declares> {
        held(self.0.clone())
    }

    fn debug(&self) -> &dyn std::fmt::Debug {
        &self.0
    }

    fn global(&self, scope: &mut Scope<'_>) -> Result<Box<dyn Any>> {
        Ok(Box::new(self.0.global(scope)?))
    }

    fn local(&self, scope: &mut Scope<'_>, globals: &dyn Any, data: &AnyData) -> Result<()> {
        let Some(globals) = globals.downcast_ref() else { unreachable!("invariant: `global` of this model made them") };
        self.0.local(scope, globals, data.get()?)
    }

    fn encode(&self, plate: &str, data: &AnyData, rows: &Rows<'_>) -> Result<Option<Encoding>> {
        self.0.encode(plate, data.get()?, rows)
    }

    fn private_len(&self) -> usize {
        self.0.private_len()
    }

    fn parameters(&self, see: &mut dyn FnMut(&dyn Any)) {
        self.0.visit(&mut Seen(see));
    }

    fn mapped(&self, change: &mut dyn FnMut(Box<dyn Any>) -> Box<dyn Any>) -> Box<dyn Declares> {
        held(self.0.clone().map(&mut Changed(change)))
    }

    fn collect_devices(&self, devices: Devices) -> Devices {
        self.0.collect_devices(devices)
    }

    fn fork(&self, device: &burn::tensor::Device) -> Box<dyn Declares> {
        held(self.0.clone().fork(device))
    }

    fn to_device(&self, device: &burn::tensor::Device) -> Box<dyn Declares> {
        held(self.0.clone().to_device(device))
    }

    fn train(&self) -> Box<dyn Declares> {
        held(self.0.clone().train())
    }

    fn valid(&self) -> Box<dyn Declares> {
        held(self.0.valid())
    }

    fn materialize(&self) -> Box<dyn Declares> {
        held(self.0.clone().materialize())
    }
}

/// Hands on parameters of the model without their ranks, which are of their types.
struct Seen<'a>(&'a mut dyn FnMut(&dyn Any));

impl ModuleVisitor for Seen<'_> {
    fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) {
        (self.0)(parameter);
    }
}

struct Changed<'a>(&'a mut dyn FnMut(Box<dyn Any>) -> Box<dyn Any>);

impl ModuleMapper for Changed<'_> {
    fn map_float<const D: usize>(&mut self, parameter: Param<Tensor<D>>) -> Param<Tensor<D>> {
        match (self.0)(Box::new(parameter)).downcast() {
            Ok(changed) => *changed,
            Err(_) => unreachable!("invariant: a parameter keeps its rank"),
        }
    }
}

/// Finds the rank of a parameter again; Burn has none above eight.
macro_rules! by_rank {
    ($parameter:expr, $found:ident => $does:expr, $($rank:literal)*) => {{
        $(if let Some($found) = $parameter.downcast_ref::<Param<Tensor<$rank>>>() { $does } else)*
        { unreachable!("invariant: parameters have at most eight dimensions") }
    }};
}

impl Module for AnyModel {
    fn visit<V: ModuleVisitor>(&self, visitor: &mut V) {
        self.0.parameters(&mut |own| by_rank!(own, own => visitor.visit_float(own), 1 2 3 4 5 6 7 8));
    }

    fn map<F: ModuleMapper>(self, mapper: &mut F) -> Self {
        let mut change = |own: Box<dyn Any>| -> Box<dyn Any> {
            by_rank!(own, own => Box::new(mapper.map_float(own.clone())), 1 2 3 4 5 6 7 8)
        };
        Self(self.0.mapped(&mut change))
    }

    fn collect_devices(&self, devices: Devices) -> Devices {
        self.0.collect_devices(devices)
    }

    fn fork(self, device: &burn::tensor::Device) -> Self {
        Self(self.0.fork(device))
    }

    fn to_device(self, device: &burn::tensor::Device) -> Self {
        Self(self.0.to_device(device))
    }

    fn train(self) -> Self {
        Self(self.0.train())
    }

    fn valid(&self) -> Self {
        Self(self.0.valid())
    }

    fn materialize(self) -> Self {
        Self(self.0.materialize())
    }
}

impl Clone for AnyModel {
    fn clone(&self) -> Self {
        Self(self.0.boxed())
    }
}

impl std::fmt::Debug for AnyModel {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.debug().fmt(formatter)
    }
}

impl Model for AnyModel {
    type Globals = Box<dyn Any>;
    type Data = AnyData;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Box<dyn Any>> {
        self.0.global(scope)
    }

    fn local(&self, scope: &mut Scope<'_>, globals: &Box<dyn Any>, data: &AnyData) -> Result<()> {
        self.0.local(scope, globals.as_ref(), data)
    }

    fn encode(&self, plate: &str, data: &AnyData, rows: &Rows<'_>) -> Result<Option<Encoding>> {
        self.0.encode(plate, data, rows)
    }

    fn private_len(&self) -> usize {
        self.0.private_len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Device, LogDensity, Normal, SiteTable, theta, with_theta};

    /// A mean, and trained parameters of two ranks: an offset, and slopes as a matrix.
    #[derive(Module, Debug)]
    struct Trained {
        offset: Param<Tensor<1>>,
        slopes: Param<Tensor<2>>,
    }

    impl Model for Trained {
        type Globals = Tensor<1>;
        type Data = Tensor<1>;

        fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
            scope.sample("mean", Normal::new(0.0, 2.0))
        }

        fn local(&self, scope: &mut Scope<'_>, mean: &Tensor<1>, data: &Tensor<1>) -> Result<()> {
            let shift = self.offset.val() + self.slopes.val().sum();
            scope.plate("row", data.dims()[0], |scope, rows| {
                let own = scope.sample("own", Normal::new(0.0, 1.0).over(rows))?;
                scope.observe("y", Normal::new(mean.clone() + shift.clone() + own, 0.5), rows.take(data)?)
            })
        }
    }

    #[test]
    fn values_gradients_and_parameters_are_those_of_the_model_itself() {
        let device = Device::flex();
        let model = Trained {
            offset: Param::from_tensor(device.tensor(vec![0.25], [1])),
            slopes: Param::from_tensor(device.tensor(vec![0.5, -1.0, 2.0, 0.125], [2, 2])),
        };
        let data = device.tensor(vec![1.0, -2.0, 0.5], [3]);
        let (any, rows) = (AnyModel::new(&model), AnyData::new(&data));
        let table = SiteTable::of(&any, &device, &rows).unwrap();
        assert_eq!(format!("{table:?}"), format!("{:?}", SiteTable::of(&model, &device, &data).unwrap()));
        assert_eq!(theta(&any).unwrap(), theta(&model).unwrap());
        let values = [1.5, 0.1, 0.2, 0.3, 0.4];
        let (any, model) = (with_theta(&any, &values, &device).unwrap(), with_theta(&model, &values, &device).unwrap());
        assert_eq!(theta(&any).unwrap(), values);
        assert_eq!(format!("{any:?}"), format!("{model:?}"));
        let latents = crate::Latents { globals: &[0.3], locals: &[vec![0.1, -0.4, 0.7]] };
        let found = LogDensity::new(&any, &device, &table).local(latents, &rows).unwrap();
        let expected = LogDensity::new(&model, &device, &table).local(latents, &data).unwrap();
        assert_eq!(found.value.to_bits(), expected.value.to_bits());
        assert_eq!(
            (&found.globals, &found.locals, &found.theta),
            (&expected.globals, &expected.locals, &expected.theta)
        );
        assert!(found.theta.iter().all(|own| *own != 0.0));
    }

    #[test]
    fn a_model_of_a_forgotten_type_is_held_once() {
        let model = AnyModel::new(&Trained {
            offset: Param::from_tensor(Device::flex().tensor(vec![0.0], [1])),
            slopes: Param::from_tensor(Device::flex().tensor(vec![0.0; 4], [2, 2])),
        });
        assert_eq!(format!("{:?}", AnyModel::new(&model)), format!("{model:?}"));
        let data = AnyData::new(&7_u8);
        assert_eq!(AnyData::new(&data).get::<u8>().unwrap(), &7);
    }

    #[test]
    fn data_of_another_model_are_refused_in_words() {
        let error = AnyData::new(&7_u8).get::<String>().unwrap_err().to_string();
        assert!(error.contains("data of another model") && error.contains("String"), "{error}");
    }
}
