//! Gives the horseshoe: coefficients of which most are near zero and some are not shrunk at all.

use burn::tensor::Tensor;
use partita_core::{HalfCauchy, Normal, Result, Scope, taped};

/// What a [`horseshoe`] is of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Horseshoe {
    /// How many coefficients.
    pub size: usize,
    /// $\tau_0$, the median of $\tau$: about the share of coefficients that are not near zero, times their unit.
    pub scale: f64,
}

/// Coefficients under the horseshoe prior, each with a scale of its own.
///
/// $$ \tau \sim C^+(0, \tau_0),\qquad \lambda_k \sim C^+(0, 1),\qquad \beta_k \sim N(0, \tau^2\lambda_k^2) $$
/// with $C^+$ half Cauchy. Coefficients are non-centred. Tails are those of a Cauchy distribution: where data say
/// little of a large coefficient, [`regularised_horseshoe`](crate::priors::regularised_horseshoe()) bounds it.
///
/// # Shapes
/// Sites `NAME.tau` `[1]`, `NAME.lambda` and `NAME.beta` `[size]`; gives $\beta$, `[size]`. Call it outside plates.
///
/// # Errors
/// Those of [`Scope::sample`]; [`partita_core::Error::Parameter`] for a scale that is not positive.
///
/// # Example
/// ```
/// use partita_core::{Device, Latents, Model, Result, Scope, SiteTable, burn, natural_values};
/// use partita_models::priors::{Horseshoe, horseshoe};
/// # use burn::module::Module;
/// #[derive(Module, Debug)]
/// struct Sparse {}
///
/// impl Model for Sparse {
///     type Globals = burn::tensor::Tensor<1>;
///     type Data = ();
///     fn global(&self, scope: &mut Scope) -> Result<Self::Globals> {
///         horseshoe(scope, "effect", Horseshoe { size: 2, scale: 0.5 })
///     }
///     fn local(&self, _: &mut Scope, _: &Self::Globals, _: &()) -> Result<()> { Ok(()) }
/// }
///
/// let device = Device::flex();
/// let table = SiteTable::of(&Sparse {}, &device, &())?;
/// // log τ, log λ, and standardised coefficients.
/// let latents = [0.5_f64.ln(), 0.0, 4.0_f64.ln(), 1.0, -2.0];
/// let found = natural_values(&Sparse {}, &device, &table, &(), Latents { globals: &latents, locals: &[] })?;
/// let beta = &found.iter().find(|(name, _)| name == "effect.beta").unwrap().1.values;
/// assert!((beta[0] - 0.5).abs() < 1e-12 && (beta[1] + 4.0).abs() < 1e-12);
/// # Ok::<(), partita_core::Error>(())
/// ```
///
/// # References
/// Carvalho, Polson and Scott, "The horseshoe estimator for sparse signals", 2010.
pub fn horseshoe(scope: &mut Scope<'_>, name: &str, prior: Horseshoe) -> Result<Tensor<1>> {
    scope.within(name, |scope| {
        let tau = scope.sample("tau", HalfCauchy::new(prior.scale))?;
        let lambda = scope.sample("lambda", HalfCauchy::new(1.0).iid([prior.size]))?;
        scope.sample("beta", Normal::new(0.0, taped::times(tau, lambda)).non_centred())
    })
}
