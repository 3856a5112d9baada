//! Gives an autoregression of order one within each group: deviations in time that forget the past at a constant rate.

use burn::tensor::Tensor;
use partita_core::{Array, Differentiable, Error, Normal, Result, Rows, Scope, custom_vjp};

/// The rows of a plate inside another, as series: the rows of one outer row, in their order, are one series.
#[derive(Debug, Clone, Copy)]
pub struct Series<'s, 'r> {
    /// The rows of the outer plate, one a series: patients.
    pub groups: &'s Rows<'r>,
    /// The rows of the inner plate, in which it is called: visits, those of each patient in the order of time.
    pub steps: &'s Rows<'r>,
}

/// A stationary autoregression of order one within each group, by whitening.
///
/// $$ z_t \sim N(0, 1),\qquad x_1 = \frac{\sigma z_1}{\sqrt{1 - \rho^2}},\qquad x_t = \rho x_{t-1} + \sigma z_t,\qquad
///    \operatorname{Cov}(x_s, x_t) = \frac{\sigma^2\rho^{|s-t|}}{1 - \rho^2} $$
/// Groups have any number of steps, which are taken as equally far apart. Latents are the innovations $z$, one a row of
/// the inner plate; all groups are one node of the tape. Minibatches take whole groups, so that a series is never cut.
///
/// # Shapes
/// `coefficient`: $\rho$ `[1]`, inside $(-1, 1)$, as of `Uniform::new(-1.0, 1.0)`; `deviation`: $\sigma$ `[1]`. Site
/// `NAME.z` `[steps]`; gives $x$, `[steps]`.
///
/// # Errors
/// Those of [`Scope::sample`] and [`Rows::expand`]; [`partita_core::Error::NotFiniteMade`] for a coefficient outside.
///
/// # Example
/// ```
/// use partita_core::{Device, Groups, HalfNormal, Latents, Model, Result, Scope, SiteTable, Uniform};
/// use partita_core::{burn, natural_values};
/// use partita_models::priors::{Series, autoregression};
/// # use burn::{module::Module, tensor::Tensor};
/// #[derive(Module, Debug)]
/// struct Drift {}
///
/// impl Model for Drift {
///     type Globals = [Tensor<1>; 2];
///     type Data = Groups; // the patient of each visit
///     fn global(&self, scope: &mut Scope) -> Result<Self::Globals> {
///         let coefficient = scope.sample("coefficient", Uniform::new(-1.0, 1.0))?;
///         Ok([coefficient, scope.sample("deviation", HalfNormal::new(1.0))?])
///     }
///     fn local(&self, scope: &mut Scope, [coefficient, deviation]: &Self::Globals, visits: &Groups) -> Result<()> {
///         scope.plate("patient", visits.groups(), |scope, groups| {
///             scope.plate("visit", visits, |scope, steps| {
///                 let series = Series { groups, steps };
///                 let x = autoregression(scope, "drift", series, coefficient.clone(), deviation.clone())?;
///                 scope.deterministic("x", x).map(|_| ())
///             })
///         })
///     }
/// }
///
/// let device = Device::flex();
/// let visits = Groups::of_sizes(&[2, 1]).unwrap();
/// let table = SiteTable::of(&Drift {}, &device, &visits)?;
/// // A coefficient of 0.6 by the logit of 0.8, a deviation of 4, and three innovations.
/// let (globals, locals) = ([4.0_f64.ln(), 4.0_f64.ln()], [vec![], vec![1.0, 0.5, -1.0]]);
/// let found = natural_values(&Drift {}, &device, &table, &visits, Latents { globals: &globals, locals: &locals })?;
/// let x = &found.iter().find(|(name, _)| name == "x").unwrap().1.values;
/// // 4 / 0.8 = 5; 0.6 · 5 + 4 · 0.5 = 5; −4 / 0.8 = −5.
/// assert!(x.iter().zip([5.0, 5.0, -5.0]).all(|(x, expected)| (x - expected).abs() < 1e-12));
/// # Ok::<(), partita_core::Error>(())
/// ```
///
/// # References
/// Box, Jenkins, Reinsel and Ljung, *Time series analysis*, 2015, section 3.2.3.
pub fn autoregression(
    scope: &mut Scope<'_>,
    name: &str,
    series: Series<'_, '_>,
    coefficient: Tensor<1>,
    deviation: Tensor<1>,
) -> Result<Tensor<1>> {
    for (what, own) in [("coefficient", &coefficient), ("deviation", &deviation)] {
        let operation = format_args!("{what} of autoregression `{name}`");
        let remedy = "All groups share one; call it once a group for coefficients of their own.";
        Error::same_shape(operation, &own.dims(), &[1], remedy)?;
    }
    let groups = series.groups.len();
    let numbers = (0..groups).map(|group| group as f64).collect();
    let group_of_step = series.steps.expand(&scope.device().tensor::<1>(numbers, [groups]))?;
    let z = scope.within(name, |scope| scope.sample("z", Normal::new(0.0, 1.0).over(series.steps)))?;
    let inputs = [z.into(), coefficient.into(), deviation.into(), group_of_step.into()];
    custom_vjp::<1>(&format!("autoregression `{name}`"), inputs, move |inputs| {
        let previous = previous(&inputs[3].values, groups);
        let path = Path { z: inputs[0].values.clone(), rho: inputs[1].values[0], sigma: inputs[2].values[0], previous };
        let x = path.forward();
        let value = Array::new(x.clone(), vec![x.len()])?;
        Ok(Differentiable::new(value, move |gradient, by| path.back(&x, gradient, by)))
    })
}

/// The row before each row in its group.
fn previous(group_of_step: &[f64], groups: usize) -> Vec<Option<usize>> {
    let mut last = vec![None; groups];
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "indices of groups, made above")]
    group_of_step.iter().enumerate().map(|(row, group)| last[*group as usize].replace(row)).collect()
}

/// The numbers of the recurrence.
struct Path {
    z: Vec<f64>,
    rho: f64,
    sigma: f64,
    previous: Vec<Option<usize>>,
}

impl Path {
    fn forward(&self) -> Vec<f64> {
        let start = self.sigma / (1.0 - self.rho * self.rho).sqrt();
        let mut x: Vec<f64> = Vec::with_capacity(self.z.len());
        for (z, previous) in self.z.iter().zip(&self.previous) {
            x.push(previous.map_or(start * z, |previous| self.rho * x[previous] + self.sigma * z));
        }
        x
    }

    /// The vector-Jacobian product, from the last row to the first.
    fn back(&self, x: &[f64], gradient: &[f64], by: &mut [Vec<f64>]) {
        let left = 1.0 - self.rho * self.rho;
        let mut adjoint = gradient.to_vec();
        for row in (0..x.len()).rev() {
            let own = adjoint[row];
            let Some(previous) = self.previous[row] else {
                by[0][row] += own * self.sigma / left.sqrt();
                by[1][0] += own * x[row] * self.rho / left;
                by[2][0] += own * self.z[row] / left.sqrt();
                continue;
            };
            by[0][row] += own * self.sigma;
            by[1][0] += own * x[previous];
            by[2][0] += own * self.z[row];
            adjoint[previous] += own * self.rho;
        }
    }
}
