//! Gives a Gaussian process by basis functions: approximate, with weights that all silos share and a linear cost.

use std::f64::consts::PI;

use burn::tensor::Tensor;
use partita_core::{Design, Error, Normal, Result, Scope};

use super::Kernel;

/// Sines on an interval, which a Gaussian process on a part of it is made of.
///
/// $$ \phi_j(x) = \frac1{\sqrt B}\sin\big(\omega_j(x - x_0 + B)\big),\qquad \omega_j = \frac{j\pi}{2B},\qquad
///    j = 1, \dots, m $$
/// for points $x$ in the middle part of $(x_0 - B, x_0 + B)$: $B$ is the half width of the points' range times the
/// boundary factor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BasisFunctions {
    centre: f64,
    boundary: f64,
    count: usize,
}

impl BasisFunctions {
    /// `count` functions for points between the ends of `range`, with a boundary `factor` above 1.
    ///
    /// The range is a number that all silos agree on, not a statistic of one silo's data. For a length of $\ell$ and a
    /// half width of $S$, Riutort-Mayol and others advise a factor of at least $\max(1.2, 3.2\thinspace \ell/S)$ and at
    /// least $1.75\thinspace S/\ell$ functions times the factor.
    ///
    /// # Errors
    /// [`Error::Argument`] unless the ends are finite and ascend, the factor is above 1 and there is a function.
    ///
    /// # Example
    /// ```
    /// use partita_models::priors::BasisFunctions;
    /// let basis = BasisFunctions::new([-1.0, 1.0], 1.5, 12)?;
    /// // The first function is highest at the centre, 1/√1.5, and zero at ±1.5.
    /// assert!((basis.at(0.0)[0] - 1.5_f64.powf(-0.5)).abs() < 1e-15 && basis.at(1.5)[0].abs() < 1e-15);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    pub fn new(range: [f64; 2], factor: f64, count: usize) -> Result<Self> {
        let [low, high] = range;
        let half = 0.5 * (high - low);
        if !(low.is_finite() && half.is_finite() && half > 0.0 && factor.is_finite() && factor > 1.0 && count > 0) {
            return Err(Error::Argument {
                operation: "BasisFunctions::new".into(),
                argument: "range, factor and count",
                found: format!("{range:?}, {factor} and {count}"),
                expected: "two finite ends that ascend, a factor above 1 and at least one function",
            });
        }
        Ok(Self { centre: low + half, boundary: factor * half, count })
    }

    /// How many functions.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// $\omega_j$.
    fn frequencies(&self) -> impl Iterator<Item = f64> + use<> {
        let unit = PI / (2.0 * self.boundary);
        (1..=self.count).map(move |index| index as f64 * unit)
    }

    /// $\phi_1(x), \dots, \phi_m(x)$.
    #[must_use]
    pub fn at(&self, point: f64) -> Vec<f64> {
        let Self { centre, boundary, .. } = *self;
        self.frequencies().map(|omega| (omega * (point - centre + boundary)).sin() / boundary.sqrt()).collect()
    }

    /// The functions at all points, one row a point: made once, with the data.
    ///
    /// # Shapes
    /// `[points, count]`.
    ///
    /// # Errors
    /// [`Error::Argument`] for a point that is not inside the boundary.
    ///
    /// # Example
    /// ```
    /// use partita_models::priors::BasisFunctions;
    /// let basis = BasisFunctions::new([0.0, 10.0], 1.5, 8)?;
    /// assert_eq!(basis.design(&[0.0, 5.0, 10.0])?.shape(), [3, 8]);
    /// assert!(basis.design(&[12.5]).is_err());
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    pub fn design(&self, points: &[f64]) -> Result<Design<2>> {
        let is_outside = |point: &&f64| point.is_nan() || (*point - self.centre).abs() >= self.boundary;
        if let Some(outside) = points.iter().find(is_outside) {
            let expected = "points of the range that the functions were made for";
            return Err(Error::argument("BasisFunctions::design", "points", outside, expected));
        }
        Design::new(points.iter().flat_map(|point| self.at(*point)).collect(), [points.len(), self.count])
    }
}

/// Coefficients of the basis functions of a Gaussian process with a squared exponential kernel, non-centred.
///
/// $$ w_j \sim N(0, 1),\qquad c_j = w_j\sqrt{S(\omega_j)},\qquad
///    S(\omega) = a^2\sqrt{2\pi}\thinspace \ell\thinspace e^{-\ell^2\omega^2/2},\qquad f(x) = \sum_j c_j\phi_j(x) $$
/// so that the covariance of $f$ is nearly the kernel's. The coefficients are globals; each silo has the design of its
/// own points, and $f$ at its rows is `design.take(rows)?.predictor(coefficients, None)`.
///
/// # Shapes
/// Site `NAME.weight` `[count]`; gives $c$, `[count]`. Call it outside plates.
///
/// # Errors
/// Those of [`Scope::sample`].
///
/// # Numerics
/// With enough functions the covariance is the kernel's but for reflections at the boundary, which are largest at the
/// ends of the range: there the variance is too small by the part $`e^{-2((c - 1)S/\ell)^2}`$, for a factor of $c$:
/// 1/18 for $c = 1 + 1.2\thinspace \ell/S$, 3e-4 for $c = 1 + 2\thinspace \ell/S$ (`tests/exactness/priors.rs`). Too
/// few functions make the function smoother.
///
/// # Example
/// ```
/// use partita_core::{Device, HalfNormal, Latents, LogNormal, Model, Result, Scope, SiteTable, burn, natural_values};
/// use partita_models::priors::{BasisFunctions, Kernel, basis_process};
/// # use burn::{module::Module, tensor::Tensor};
/// #[derive(Module, Debug)]
/// struct Curve {}
///
/// impl Model for Curve {
///     type Globals = ();
///     type Data = ();
///     fn global(&self, scope: &mut Scope) -> Result<()> {
///         let amplitude = scope.sample("amplitude", HalfNormal::new(1.0))?;
///         let length = scope.sample("length", LogNormal::new(0.0, 1.0))?;
///         let basis = BasisFunctions::new([-1.0, 1.0], 2.0, 1)?;
///         let coefficients = basis_process(scope, "curve", &basis, &Kernel { amplitude, length })?;
///         scope.deterministic("c", coefficients).map(|_| ())
///     }
///     fn local(&self, _: &mut Scope, _: &(), _: &()) -> Result<()> { Ok(()) }
/// }
///
/// let device = Device::flex();
/// let table = SiteTable::of(&Curve {}, &device, &())?;
/// // Log amplitude, log length and one weight.
/// let latents = [3.0_f64.ln(), 0.0, 1.0];
/// let found = natural_values(&Curve {}, &device, &table, &(), Latents { globals: &latents, locals: &[] })?;
/// let c = found.iter().find(|(name, _)| name == "c").unwrap().1.values[0];
/// let pi = std::f64::consts::PI;
/// assert!((c - 3.0 * ((2.0 * pi).sqrt() * (-0.5 * (pi / 4.0).powi(2)).exp()).sqrt()).abs() < 1e-12);
/// # Ok::<(), partita_core::Error>(())
/// ```
///
/// # References
/// Riutort-Mayol, Bürkner, Andersen, Solin and Vehtari, "Practical Hilbert space approximate Bayesian Gaussian
/// processes for probabilistic programming", 2022; Solin and Särkkä, "Hilbert space methods for reduced-rank Gaussian
/// process regression", 2020.
pub fn basis_process(scope: &mut Scope<'_>, name: &str, basis: &BasisFunctions, kernel: &Kernel) -> Result<Tensor<1>> {
    let quarters = basis.frequencies().map(|omega| -0.25 * omega * omega).collect();
    let quarters = scope.device().tensor::<1>(quarters, [basis.count]);
    let Kernel { amplitude, length } = kernel.clone();
    // √S = a (2π)^¼ √ℓ exp(−ℓ² ω² / 4).
    let decay = (length.clone().powf_scalar(2.0) * quarters).exp();
    let scale = amplitude * length.sqrt() * (2.0 * PI).powf(0.25) * decay;
    scope.within(name, |scope| {
        let weight = scope.sample("weight", Normal::new(0.0, 1.0).iid([basis.count]))?;
        Ok(weight * scale)
    })
}
