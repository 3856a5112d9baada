//! Reads a model as the log density of tensors on a device, with gradients that stay there.

use burn::tensor::Tensor;

use super::density::LogDensity;
use crate::declare::model::Model;
use crate::declare::scope::{OnDevice, Reading, Scope, Source};
use crate::declare::site::{Part, Role};
use crate::declare::theta;
use crate::error::{Error, Result};

/// A log density (nats) and its gradients, none of which has been read to the host.
#[derive(Debug, Clone)]
pub struct DeviceValueAndGradient {
    /// The log density, including log-Jacobians of the maps to the supports: shape `[1]`.
    pub value: Tensor<1>,
    /// Gradient by each latent site, in the shapes given.
    pub latents: Vec<Tensor<2>>,
    /// Gradient by each of the model's own trainable parameters, flat, in the order Burn visits them.
    pub theta: Vec<Tensor<1>>,
}

impl<M: Model> LogDensity<'_, M> {
    /// $\log p_\theta(Z_G, Z_{L_j}, y_j)$ and its gradients, evaluated with tensor operations on the device.
    ///
    /// The same number as [`LogDensity::joint`] to the rounding of the device's precision, but nothing is read and so
    /// nothing is checked: data outside a support were refused when the site table was made, and a number that is not
    /// finite shows in the value. What a model computes with host functions ([`crate::elementwise`] and its like) is
    /// still copied to the host and back; [`crate::host_reads`] counts it.
    ///
    /// # Shapes
    /// `latents`: the unconstrained values of each latent site in the order of the site table, `[1, width]` for globals
    /// and `[rows, width]` for locals (the rows of the minibatch where there is one).
    ///
    /// # Errors
    /// [`Error::NoDeviceForm`] for a site whose density or map has none; [`Error::Shape`] for latents of other shapes;
    /// otherwise what the model's statements refuse.
    pub fn on_device(&self, latents: &[Tensor<2>], data: &M::Data) -> Result<DeviceValueAndGradient> {
        let leaves: Vec<Tensor<2>> = latents.iter().map(|latent| latent.clone().autodiff().require_grad()).collect();
        let (constant, tape) = self.read_on_device(&leaves, data)?;
        let Some(tape) = tape else {
            return Err(Error::NoDeviceForm { operation: "the model".into(), what: "a density of no latent".into() });
        };
        let value = tape.clone().inner() + constant;
        let gradients = tape.backward();
        let gradient = |leaf: &Tensor<2>| leaf.grad(&gradients).unwrap_or_else(|| leaf.clone().inner().zeros_like());
        let latents = leaves.iter().map(gradient).collect();
        Ok(DeviceValueAndGradient { value, latents, theta: theta::device_gradient(self.model, &gradients) })
    }

    /// The value of [`LogDensity::on_device`] alone.
    ///
    /// # Errors
    /// As for [`LogDensity::on_device`].
    pub fn value_on_device(&self, latents: &[Tensor<2>], data: &M::Data) -> Result<Tensor<1>> {
        let (constant, sum) = self.read_on_device(latents, data)?;
        match sum {
            Some(sum) => Ok(sum.inner() + constant),
            None => Ok(self.device.tensor(vec![constant], [1])),
        }
    }

    /// What the log density comes to: a number known on the host, and a tensor.
    fn read_on_device(&self, leaves: &[Tensor<2>], data: &M::Data) -> Result<(f64, Option<Tensor<1>>)> {
        if !self.loss.is_log() {
            return Err(Error::NoDeviceForm { operation: "observations".into(), what: format!("the {}", self.loss) });
        }
        self.table.check_minibatch(self.minibatch)?;
        let sites: Vec<_> =
            self.table.sites().iter().filter(|site| site.role == Role::Latent && !site.is_without_rows()).collect();
        let expected: Vec<[usize; 2]> = sites
            .iter()
            .map(|site| [if site.part == Part::Global { 1 } else { self.rows(site.block) }, site.width])
            .collect();
        let found: Vec<[usize; 2]> = leaves.iter().map(Tensor::dims).collect();
        if found != expected {
            let differs = found.iter().zip(&expected).position(|(found, expected)| found != expected);
            return Err(match differs {
                Some(place) => Error::Shape {
                    operation: format!("latents of site `{}` on the device", sites[place].name),
                    found: found[place].to_vec(),
                    expected: expected[place].to_vec(),
                    remedy: "Give one row for globals and the rows evaluated for locals.".into(),
                },
                None => Error::Length {
                    operation: "latent sites on the device".into(),
                    found: found.len(),
                    expected: expected.len(),
                    remedy: "Give one tensor for each latent site of the model's site table.".into(),
                },
            });
        }
        let reading = Reading::OnDevice(OnDevice { leaves, next: 0 });
        let mut scope = Scope::new(self.device, self.table, Source::START, reading);
        let globals = scope.run(|scope| self.model.global(scope))?;
        scope.begin_local(self.local_part());
        scope.run(|scope| self.model.local(scope, &globals, data))?;
        scope.ended()?;
        Ok((scope.outcome.total, scope.outcome.tape))
    }
}
