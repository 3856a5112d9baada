//! Gives effects of groups that are correlated, as an intercept and a slope of each patient: scales and effects.

use burn::tensor::Tensor;
use partita_core::{HalfNormal, LkjCholesky, Normal, Result, Rows, Scope, taped};

/// What [`slope_scales`] are of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SlopeScales {
    /// $K$, how many effects a group has: 2 for an intercept and one slope.
    pub effects: usize,
    /// The scale of the half normal prior of each standard deviation.
    pub scale: f64,
    /// $\eta$ of the LKJ distribution: 1 is uniform over correlation matrices, more is nearer to no correlation.
    pub concentration: f64,
}

/// The Cholesky factor of the covariance of correlated effects, which all groups share: a part of the globals.
///
/// $$ \sigma_k \sim N^+(0, s^2),\qquad L \sim \mathrm{LKJ}(\eta),\qquad F = \operatorname{diag}(\sigma)\thinspace L $$
/// so that $FF^\top$ has the standard deviations $\sigma$ and the correlations $LL^\top$.
///
/// # Shapes
/// Sites `NAME.sd` `[K]` and `NAME.correlation` `[K, K]`, which is $L$; gives $F$, `[K, K]`.
///
/// # Errors
/// Those of [`Scope::sample`]; [`partita_core::Error::Parameter`] for a scale or concentration that is not positive.
///
/// # Example
/// That of [`correlated_slopes`].
///
/// # References
/// Lewandowski, Kurowicka and Joe, "Generating random correlation matrices based on vines and extended onion method",
/// 2009.
pub fn slope_scales(scope: &mut Scope<'_>, name: &str, prior: SlopeScales) -> Result<Tensor<2>> {
    let SlopeScales { effects, scale, concentration } = prior;
    scope.within(name, |scope| {
        let sd = scope.sample("sd", HalfNormal::new(scale).iid([effects]))?;
        let correlation = scope.sample("correlation", LkjCholesky::new(concentration, effects))?;
        Ok(taped::times(taped::reshaped(sd, [effects, 1]), correlation))
    })
}

/// Correlated effects of each group, non-centred: one row of effects for each row of the plate of groups.
///
/// $$ z_{gk} \sim N(0, 1),\qquad b_g = F z_g,\qquad \operatorname{Cov}(b_g) = FF^\top $$
///
/// # Shapes
/// `factor`: $F$ `[K, K]`, of [`slope_scales`]; `groups`: the rows of the plate that it is called in. Site `NAME.z`
/// `[groups, K]`; gives $b$, `[groups, K]`.
///
/// # Errors
/// Those of [`Scope::sample`].
///
/// # Example
/// ```
/// use partita_core::{Device, Latents, Model, Result, Scope, SiteTable, burn, natural_values};
/// use partita_models::priors::{SlopeScales, correlated_slopes, slope_scales};
/// # use burn::module::Module;
/// #[derive(Module, Debug)]
/// struct Slopes {}
///
/// impl Model for Slopes {
///     type Globals = burn::tensor::Tensor<2>;
///     type Data = usize; // how many patients
///     fn global(&self, scope: &mut Scope) -> Result<Self::Globals> {
///         slope_scales(scope, "scale", SlopeScales { effects: 2, scale: 1.0, concentration: 2.0 })
///     }
///     fn local(&self, scope: &mut Scope, factor: &Self::Globals, patients: &usize) -> Result<()> {
///         scope.plate("patient", *patients, |scope, rows| {
///             let effects = correlated_slopes(scope, "effect", factor.clone(), rows)?;
///             scope.deterministic("b", effects).map(|_| ())
///         })
///     }
/// }
///
/// let device = Device::flex();
/// let table = SiteTable::of(&Slopes {}, &device, &1)?;
/// // Log standard deviations, a correlation of zero, and the two standardised effects of one patient.
/// let (globals, locals) = ([2.0_f64.ln(), 0.0, 0.0], [vec![1.5, -0.5]]);
/// let found = natural_values(&Slopes {}, &device, &table, &1, Latents { globals: &globals, locals: &locals })?;
/// let b = &found.iter().find(|(name, _)| name == "b").unwrap().1.values;
/// assert!((b[0] - 3.0).abs() < 1e-12 && (b[1] + 0.5).abs() < 1e-12);
/// # Ok::<(), partita_core::Error>(())
/// ```
///
/// # References
/// Stan User's Guide, "Multivariate priors for hierarchical models".
pub fn correlated_slopes(scope: &mut Scope<'_>, name: &str, factor: Tensor<2>, groups: &Rows<'_>) -> Result<Tensor<2>> {
    let effects = factor.dims()[0];
    scope.within(name, |scope| {
        let z = scope.sample("z", Normal::new(0.0, 1.0).iid([groups.len(), effects]))?;
        Ok(taped::product(z, taped::transposed(factor)))
    })
}

#[cfg(test)]
mod tests {
    use burn::module::Module;
    use partita_core::{Device, Latents, Model, SiteTable, natural_values};

    use super::*;

    #[derive(Module, Debug)]
    struct OneSlope {}

    impl Model for OneSlope {
        type Globals = Tensor<2>;
        type Data = usize;

        fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<2>> {
            slope_scales(scope, "scale", SlopeScales { effects: 1, scale: 1.0, concentration: 2.0 })
        }

        fn local(&self, scope: &mut Scope<'_>, factor: &Tensor<2>, patients: &usize) -> Result<()> {
            scope.plate("patient", *patients, |scope, rows| {
                let effects = correlated_slopes(scope, "effect", factor.clone(), rows)?;
                scope.deterministic("b", effects).map(|_| ())
            })
        }
    }

    #[test]
    fn one_effect_has_the_correlation_one_with_itself() {
        let device = Device::flex();
        let table = SiteTable::of(&OneSlope {}, &device, &1).unwrap();
        let (globals, locals) = ([2.0_f64.ln()], [vec![1.5]]);
        let latents = Latents { globals: &globals, locals: &locals };
        let found = natural_values(&OneSlope {}, &device, &table, &1, latents).unwrap();
        let b = &found.iter().find(|(name, _)| name == "b").unwrap().1.values;
        assert!((b[0] - 3.0).abs() < 1e-12, "{b:?}");
    }
}
