//! Gives the regularised horseshoe: as the horseshoe, with a slab that bounds the large coefficients.

use burn::tensor::Tensor;
use partita_core::{HalfCauchy, InverseGamma, Normal, Result, Scope};

/// What a [`regularised_horseshoe`] is of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RegularisedHorseshoe {
    /// How many coefficients.
    pub size: usize,
    /// $\tau_0$, the median of $\tau$. For $p_0$ of $D$ coefficients away from zero, noise of standard deviation
    /// $\sigma$ and $n$ rows, Piironen and Vehtari advise $`\frac{p_0}{D - p_0}\frac{\sigma}{\sqrt n}`$.
    pub scale: f64,
    /// $s$, the scale of the coefficients that are away from zero.
    pub slab_scale: f64,
    /// $\nu$, the degrees of freedom of Student's distribution that these have.
    pub slab_degrees: f64,
}

/// Coefficients under the regularised horseshoe prior, also called the Finnish horseshoe.
///
/// $$ \tau \sim C^+(0, \tau_0),\quad \lambda_k \sim C^+(0, 1),\quad
///    c^2 \sim \text{Inv-Gamma}\big(\tfrac\nu2, \tfrac{\nu s^2}2\big),\quad
///    \beta_k \sim N\Big(0, \frac{\tau^2\lambda_k^2\thinspace c^2}{c^2 + \tau^2\lambda_k^2}\Big) $$
/// A coefficient with $\tau\lambda_k \ll c$ has the horseshoe's prior, one with $\tau\lambda_k \gg c$ has $N(0, c^2)$,
/// so that it is finite where the data do not bound it. Coefficients are non-centred.
///
/// # Shapes
/// Sites `NAME.tau` and `NAME.slab` ($c^2$) `[1]`, `NAME.lambda` and `NAME.beta` `[size]`; gives $\beta$, `[size]`.
/// Call it outside plates.
///
/// # Errors
/// Those of [`Scope::sample`]; [`partita_core::Error::Parameter`] for a scale or degrees of freedom that are not
/// positive.
///
/// # Example
/// ```
/// use partita_core::{Device, Latents, Model, Result, Scope, SiteTable, burn, natural_values};
/// use partita_models::priors::{RegularisedHorseshoe, regularised_horseshoe};
/// # use burn::module::Module;
/// #[derive(Module, Debug)]
/// struct Sparse {}
///
/// impl Model for Sparse {
///     type Globals = burn::tensor::Tensor<1>;
///     type Data = ();
///     fn global(&self, scope: &mut Scope) -> Result<Self::Globals> {
///         let prior = RegularisedHorseshoe { size: 1, scale: 0.5, slab_scale: 2.0, slab_degrees: 4.0 };
///         regularised_horseshoe(scope, "effect", prior)
///     }
///     fn local(&self, _: &mut Scope, _: &Self::Globals, _: &()) -> Result<()> { Ok(()) }
/// }
///
/// let device = Device::flex();
/// let table = SiteTable::of(&Sparse {}, &device, &())?;
/// // log τ, log λ, log c² and the standardised coefficient: τλ = 3 and c = 4 give the scale 3 · 4 / 5.
/// let latents = [0.5_f64.ln(), 6.0_f64.ln(), 16.0_f64.ln(), 1.0];
/// let found = natural_values(&Sparse {}, &device, &table, &(), Latents { globals: &latents, locals: &[] })?;
/// let beta = &found.iter().find(|(name, _)| name == "effect.beta").unwrap().1.values;
/// assert!((beta[0] - 2.4).abs() < 1e-12);
/// # Ok::<(), partita_core::Error>(())
/// ```
///
/// # References
/// Piironen and Vehtari, "Sparsity information and regularization in the horseshoe and other shrinkage priors", 2017,
/// equations 2.7 to 2.10.
pub fn regularised_horseshoe(scope: &mut Scope<'_>, name: &str, prior: RegularisedHorseshoe) -> Result<Tensor<1>> {
    let RegularisedHorseshoe { size, scale, slab_scale, slab_degrees } = prior;
    scope.within(name, |scope| {
        let tau = scope.sample("tau", HalfCauchy::new(scale))?;
        let lambda = scope.sample("lambda", HalfCauchy::new(1.0).iid([size]))?;
        let half = 0.5 * slab_degrees;
        let slab = scope.sample("slab", InverseGamma::new(half, half * slab_scale * slab_scale))?;
        let square = (tau * lambda).powf_scalar(2.0);
        let variance = square.clone() * slab.clone() / (square + slab);
        scope.sample("beta", Normal::new(0.0, variance.sqrt()).non_centred())
    })
}
