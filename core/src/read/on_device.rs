//! Reads a model as the log density of tensors on a device, with gradients that stay there.

use burn::tensor::Tensor;

use super::density::LogDensity;
use crate::declare::model::Model;
use crate::declare::scope::{OnDevice, Outcome, Reading, Source, Terms};
use crate::declare::site::{Part, Role, Site};
use crate::declare::theta;
use crate::error::{Error, Result};
use crate::math::operation::naming;

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
    /// still copied to the host and back; [`LogDensity::host_operations`] names it, [`crate::host_reads`] counts it.
    ///
    /// # Shapes
    /// `latents`: the unconstrained values of each latent site in the order of the site table, `[1, width]` for globals
    /// and `[rows, width]` for locals (the rows of the minibatch where there is one). A model whose latents are those of
    /// linear layers alone ([`crate::SiteTable::is_of_layers`]) takes several draws at once, `[draws, width]`, with a minibatch of
    /// every plate by [`crate::Minibatch::for_draws`]: value and gradient by θ are sums over the draws then.
    ///
    /// # Errors
    /// [`Error::NoDeviceForm`] for a site whose density or map has none; [`Error::Shape`] for latents of other shapes;
    /// otherwise what the model's statements refuse.
    pub fn on_device(&self, latents: &[Tensor<2>], data: &M::Data) -> Result<DeviceValueAndGradient> {
        let leaves: Vec<Tensor<2>> = latents.iter().map(|latent| latent.clone().autodiff().require_grad()).collect();
        let Outcome { total: constant, tape, .. } = self.read_on_device(&leaves, data, Terms::Joint)?;
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
        let Outcome { total: constant, tape: sum, .. } = self.read_on_device(latents, data, Terms::Joint)?;
        match sum {
            Some(sum) => Ok(sum.inner() + constant),
            None => Ok(self.device.tensor(vec![constant], [1])),
        }
    }

    /// The operations of the model that compute on the host wherever their input is, each with the site that is declared
    /// next: [`crate::custom_vjp`], [`crate::scan`], [`crate::cholesky`], [`crate::elementwise`] and their like,
    /// [`crate::Distribution::log_prob`], and products of a [`crate::Design`] or of [`crate::SparseRows`] that were not
    /// taken for the rows of a plate.
    ///
    /// A reading on the device copies what they take to the host, and what they give back, at every evaluation.
    ///
    /// # Errors
    /// As for [`LogDensity::on_device`].
    ///
    /// # Example
    /// ```
    /// use partita_core::{Device, LogDensity, Model, Normal, Result, Scope, SiteTable, burn, ln_gamma};
    /// # use burn::module::Module;
    /// #[derive(Module, Debug)]
    /// struct Mean {}
    ///
    /// impl Model for Mean {
    ///     type Globals = ();
    ///     type Data = burn::tensor::Tensor<1>;
    ///     fn global(&self, scope: &mut Scope) -> Result<()> {
    ///         let mean = scope.sample("mean", Normal::new(2.0, 1.0))?;
    ///         scope.factor("more", ln_gamma(mean.exp()))
    ///     }
    ///     fn local(&self, _: &mut Scope, _: &(), _: &Self::Data) -> Result<()> { Ok(()) }
    /// }
    ///
    /// let device = Device::flex();
    /// let data = device.tensor(vec![], [0]);
    /// let table = SiteTable::of(&Mean {}, &device, &data)?;
    /// let found = LogDensity::new(&Mean {}, &device, &table).host_operations(&data)?;
    /// assert_eq!(found, [("more".to_owned(), "ln_gamma".to_owned())]);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    pub fn host_operations(&self, data: &M::Data) -> Result<Vec<(String, String)>> {
        let zeros = |shape: [usize; 2]| self.device.tensor(vec![0.0; shape[0] * shape[1]], shape);
        let leaves: Vec<Tensor<2>> = self.leaf_shapes().into_iter().map(|(_, shape)| zeros(shape)).collect();
        naming(|| self.read_on_device(&leaves, data, Terms::Joint)).map(|outcome| outcome.on_host)
    }

    /// The latent sites with numbers, and the shape of each.
    fn leaf_shapes(&self) -> Vec<(&Site, [usize; 2])> {
        let sites = self.table.sites().iter().filter(|site| site.role == Role::Latent && !site.is_without_rows());
        let rows = |site: &Site| if site.part == Part::Global { 1 } else { self.rows(site.block) };
        sites.map(|site| (site, [rows(site), site.width])).collect()
    }

    /// What the log density comes to: a number known on the host, and a tensor.
    pub(super) fn read_on_device(&self, leaves: &[Tensor<2>], data: &M::Data, terms: Terms) -> Result<Outcome> {
        if !self.loss.is_log() {
            return Err(Error::NoDeviceForm { operation: "observations".into(), what: format!("the {}", self.loss) });
        }
        self.table.check_minibatch(self.minibatch)?;
        let (sites, expected): (Vec<&Site>, Vec<[usize; 2]>) = self.leaf_shapes().into_iter().unzip();
        let found: Vec<[usize; 2]> = leaves.iter().map(Tensor::dims).collect();
        let draws = found.first().filter(|_| self.table.is_of_layers()).map_or(1, |[draws, _]| *draws);
        let expected: Vec<[usize; 2]> = expected.into_iter().map(|[rows, width]| [rows * draws, width]).collect();
        for ((found, expected), site) in found.iter().zip(&expected).zip(sites) {
            let operation = format_args!("latents of site `{}` on the device", site.name);
            let remedy = "Give one row for globals and the rows evaluated for locals.";
            Error::same_shape(operation, found, expected, remedy)?;
        }
        let remedy = "Give one tensor for each latent site of the model's site table.";
        Error::same_length("latent sites on the device", found.len(), expected.len(), remedy)?;
        let reading = Reading::OnDevice(OnDevice { leaves, next: 0, draws, terms });
        let mut scope = self.scope_of(Source::START, reading);
        let globals = scope.run(|scope| self.model.global(scope))?;
        scope.begin_local(self.local_part());
        scope.run(|scope| self.model.local(scope, &globals, data))?;
        scope.ended()?;
        Ok(scope.outcome)
    }
}
