//! Defines the eight-schools model and holds its data.

use burn::module::Module;
use burn::tensor::Tensor;
use partita_core::{Device, HalfCauchy, Model, Normal, Result, Scope};

/// Effects of coaching in schools, partially pooled.
///
/// $$ \mu \sim N(0, 5^2),\quad \tau \sim \mathrm{HalfCauchy}(5),\quad \theta_i \sim N(\mu, \tau^2),\quad
///    y_i \sim N(\theta_i, \sigma_i^2) $$
///
/// # Shapes
/// Globals: `mu` `[1]`, `tau` `[1]`; locals: `theta` `[schools]` (non-centred) in the plate `school`.
///
/// # References
/// Rubin (1981); Gelman et al., Bayesian Data Analysis (2013), section 5.5.
#[derive(Module, Debug)]
pub struct EightSchools {}

/// The globals of [`EightSchools`].
#[derive(Debug, Clone)]
pub struct EightSchoolsGlobals {
    /// The mean effect.
    pub mu: Tensor<1>,
    /// The standard deviation of effects between schools.
    pub tau: Tensor<1>,
}

/// Estimated effects of some schools with their standard errors.
#[derive(Debug, Clone)]
pub struct Schools {
    effects: Tensor<1>,
    errors: Tensor<1>,
}

/// The data of one school.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct School {
    /// The estimated effect of coaching.
    pub effect: f64,
    /// Its standard error.
    pub error: f64,
}

/// The eight estimated effects and their standard errors (Rubin, 1981, Table 1).
pub const EIGHT_SCHOOLS: [School; 8] = [
    School { effect: 28.0, error: 15.0 },
    School { effect: 8.0, error: 10.0 },
    School { effect: -3.0, error: 16.0 },
    School { effect: 7.0, error: 11.0 },
    School { effect: -1.0, error: 9.0 },
    School { effect: 1.0, error: 11.0 },
    School { effect: 18.0, error: 10.0 },
    School { effect: 12.0, error: 18.0 },
];

impl Schools {
    /// These schools on a device.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Device, SiteTable};
    /// use partita_models::{EIGHT_SCHOOLS, EightSchools, Schools};
    /// let device = Device::flex();
    /// let table = SiteTable::of(&EightSchools {}, &device, &Schools::new(&EIGHT_SCHOOLS, &device))?;
    /// assert_eq!(table.blocks()[0].rows, 8);
    /// # Ok::<(), partita_core::Error>(())
    /// ```
    #[must_use]
    pub fn new(schools: &[School], device: &Device) -> Self {
        let column = |of: fn(&School) -> f64| device.tensor(schools.iter().map(of).collect(), [schools.len()]);
        Self { effects: column(|school| school.effect), errors: column(|school| school.error) }
    }
}

impl Model for EightSchools {
    type Globals = EightSchoolsGlobals;
    type Data = Schools;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Self::Globals> {
        Ok(EightSchoolsGlobals {
            mu: scope.sample("mu", Normal::new(0.0, 5.0))?,
            tau: scope.sample("tau", HalfCauchy::new(5.0))?,
        })
    }

    fn local(&self, scope: &mut Scope<'_>, globals: &Self::Globals, data: &Self::Data) -> Result<()> {
        scope.plate("school", data.effects.dims()[0], |scope, rows| {
            let theta = scope.sample("theta", Normal::new(globals.mu.clone(), globals.tau.clone()).non_centred())?;
            scope.observe("y", Normal::new(theta, rows.take(&data.errors)?), rows.take(&data.effects)?)
        })
    }
}
