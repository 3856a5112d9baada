//! Gives a Gaussian process at given points: a smooth function of one number, exact, at a cubic cost in the points.

use burn::tensor::Tensor;
use partita_core::{Error, Normal, Result, Scope, cholesky};

/// The part of the variance that is added to the diagonal, so that the matrix of near points has a Cholesky factor.
const NUGGET: f64 = 1e-6;

/// The squared exponential kernel: values are as similar as points are near.
///
/// $$ k(x, x') = a^2\exp\Big(-\frac{(x - x')^2}{2\ell^2}\Big) $$
#[derive(Debug, Clone)]
pub struct Kernel {
    /// $a$, the standard deviation of the function at a point: `[1]`.
    pub amplitude: Tensor<1>,
    /// $\ell$, the distance over which the function changes: `[1]`.
    pub length: Tensor<1>,
}

/// The values of a Gaussian process with a squared exponential kernel at `points`, non-centred.
///
/// $$ z_i \sim N(0, 1),\qquad f = Lz,\qquad LL^\top = K + 10^{-6}a^2 I,\qquad K_{ij} = k(x_i, x_j) $$
/// The multiple of the identity, white noise of a thousandth of the amplitude, is a part of the prior. The cost is
/// cubic in the number of points: a grid of up to some hundred. [`basis_process`](crate::priors::basis_process()) is
/// linear in it.
///
/// # Shapes
/// `points`: `n` numbers. Site `NAME.z` `[n]`; gives $f$, `[n]`. Call it outside plates: all points depend on each
/// other. In `global`, the points are a grid that all silos share.
///
/// # Errors
/// Those of [`Scope::sample`]; [`Error::Argument`] without points or if a point is not finite;
/// [`Error::NotPositiveDefinite`] if the length is so long that the matrix is singular in the device's precision.
///
/// # Example
/// ```
/// use partita_core::{Device, HalfNormal, Latents, LogNormal, Model, Result, Scope, SiteTable, burn, natural_values};
/// use partita_models::priors::{Kernel, gaussian_process};
/// # use burn::module::Module;
/// #[derive(Module, Debug)]
/// struct Curve {}
///
/// impl Model for Curve {
///     type Globals = ();
///     type Data = ();
///     fn global(&self, scope: &mut Scope) -> Result<()> {
///         let amplitude = scope.sample("amplitude", HalfNormal::new(1.0))?;
///         let length = scope.sample("length", LogNormal::new(0.0, 1.0))?;
///         let f = gaussian_process(scope, "curve", &[0.0, 1.0], &Kernel { amplitude, length })?;
///         scope.deterministic("f", f).map(|_| ())
///     }
///     fn local(&self, _: &mut Scope, _: &(), _: &()) -> Result<()> { Ok(()) }
/// }
///
/// let device = Device::flex();
/// let table = SiteTable::of(&Curve {}, &device, &())?;
/// // Log amplitude, log length and z = (1, 0): f is the first column of L, (2, 2 exp(−1/2)) up to the white noise.
/// let latents = [2.0_f64.ln(), 0.0, 1.0, 0.0];
/// let found = natural_values(&Curve {}, &device, &table, &(), Latents { globals: &latents, locals: &[] })?;
/// let f = &found.iter().find(|(name, _)| name == "f").unwrap().1.values;
/// assert!((f[0] - 2.0).abs() < 1e-5 && (f[1] - 2.0 * (-0.5_f64).exp()).abs() < 1e-5);
/// # Ok::<(), partita_core::Error>(())
/// ```
///
/// # References
/// Rasmussen and Williams, *Gaussian processes for machine learning*, 2006, equation 2.31 and appendix A.2.
pub fn gaussian_process(scope: &mut Scope<'_>, name: &str, points: &[f64], kernel: &Kernel) -> Result<Tensor<1>> {
    let n = points.len();
    if n == 0 || points.iter().any(|point| !point.is_finite()) {
        return Err(Error::Argument {
            operation: format!("Gaussian process `{name}`"),
            argument: "points",
            found: format!("{points:?}"),
            expected: "at least one point, all finite",
        });
    }
    let of_pairs = |of: &dyn Fn(usize, usize) -> f64| {
        let cells = (0..n * n).map(|cell| of(cell / n, cell % n)).collect();
        scope.device().tensor::<2>(cells, [n, n])
    };
    let squares = of_pairs(&|i, j| -0.5 * (points[i] - points[j]).powi(2));
    let nugget = of_pairs(&|i, j| if i == j { NUGGET } else { 0.0 });
    let precision = kernel.length.clone().powf_scalar(-2.0).reshape([1, 1]);
    // The factor of the correlations: the amplitude stays outside, and the matrix keeps the same scale.
    let factor = cholesky((squares * precision).exp() + nugget)?;
    scope.within(name, |scope| {
        let z = scope.sample("z", Normal::new(0.0, 1.0).iid([n]))?;
        let f: Tensor<1> = factor.matmul(z.reshape([n, 1])).reshape([n]);
        Ok(f * kernel.amplitude.clone())
    })
}
