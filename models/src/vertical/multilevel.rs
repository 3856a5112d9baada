//! Defines the multilevel contribution of a party: coefficients that vary by level around a mean.

use burn::module::Module;
use burn::tensor::Tensor;
use partita_core::vertical::Contribution;
use partita_core::{Design, Error, HalfNormal, Normal, Result, Rows, Scope};

/// A linear contribution whose coefficients vary with the level $`r_i`$ of each row.
///
/// ```math
/// g_i = \sum_c x_{ic}\,\beta_c^{r_i},\qquad \beta_c^{r} \sim N(\mu_c, \sigma_c^2),\quad \mu_c \sim N(0, 1),\quad
/// \sigma_c \sim \mathrm{HalfNormal}(1)
/// ```
/// Each covariate has one mean and one scale that all levels share; with [`Multilevel::scales_by_level`] each level has
/// its own, $`\mu_c^r`$ and $`\sigma_c^r`$, as printed in the paper.
///
/// # Shapes
/// Latents: `mu` and `sigma` `[columns]` (`[levels × columns]` by level), `beta` `[levels × columns]`, level by level.
/// Data: the design of [`by_level`].
///
/// # References
/// Hassan, Sutton, Mira and Mengersen (2024), section 5.2.
#[derive(Module, Debug)]
pub struct Multilevel {
    #[module(skip)]
    columns: usize,
    #[module(skip)]
    levels: usize,
    #[module(skip)]
    by_level: bool,
    #[module(skip)]
    centred: bool,
}

/// The latents of [`Multilevel`].
#[derive(Debug, Clone)]
pub struct MultilevelLatents {
    /// Means of the coefficients.
    pub mu: Tensor<1>,
    /// Standard deviations of the coefficients.
    pub sigma: Tensor<1>,
    /// The coefficients, level by level.
    pub beta: Tensor<1>,
}

impl Multilevel {
    /// `columns` covariates whose coefficients vary over `levels`.
    #[must_use]
    pub fn new(columns: usize, levels: usize) -> Self {
        Self { columns, levels, by_level: false, centred: true }
    }

    /// The same with a separate mean and scale for every level.
    #[must_use]
    pub fn scales_by_level(self) -> Self {
        Self { by_level: true, ..self }
    }

    /// The same with standardised coefficients as latents: better if the rows of a level carry little information.
    #[must_use]
    pub fn non_centred(self) -> Self {
        Self { centred: false, ..self }
    }
}

/// A design with separate columns for every level: those of the row's level hold its covariates, the others zeros.
///
/// # Shapes
/// `covariates`: `[rows, columns]`, row by row; `level`: `[rows]`, each below `levels`. Returns
/// `[rows, 1, levels × columns]`.
///
/// # Errors
/// [`Error::Length`] if the covariates do not make whole rows; [`Error::Argument`] for a level out of range;
/// [`Error::NotFinite`].
///
/// # Example
/// ```
/// use partita_models::vertical::by_level;
/// let design = by_level(&[1.0, 2.0, 3.0, 4.0], &[1, 0], 2)?;
/// assert_eq!(design.shape(), [2, 1, 4]);
/// # Ok::<(), partita_core::Error>(())
/// ```
pub fn by_level(covariates: &[f64], level: &[usize], levels: usize) -> Result<Design> {
    let rows = level.len();
    if rows == 0 || !covariates.len().is_multiple_of(rows) {
        return Err(Error::Length {
            operation: "covariates by level".into(),
            found: covariates.len(),
            expected: rows,
            remedy: "Give every row a level and the same number of covariates.".into(),
        });
    }
    if let Some(found) = level.iter().find(|level| **level >= levels) {
        let expected = "levels counted from 0, below the number of levels";
        return Err(Error::argument("covariates by level", "level", found, expected));
    }
    let columns = covariates.len() / rows;
    let mut values = vec![0.0; rows * levels * columns];
    for ((row, own), level) in
        values.chunks_exact_mut((levels * columns).max(1)).zip(covariates.chunks(columns.max(1))).zip(level)
    {
        row[level * columns..(level + 1) * columns].copy_from_slice(own);
    }
    Design::new(values, [rows, 1, levels * columns])
}

impl Contribution for Multilevel {
    type Latents = MultilevelLatents;
    type Data = Design;

    fn prior(&self, scope: &mut Scope<'_>) -> Result<MultilevelLatents> {
        let count = if self.by_level { self.levels * self.columns } else { self.columns };
        let mu = scope.sample("mu", Normal::new(0.0, 1.0).iid([count]))?;
        let sigma = scope.sample("sigma", HalfNormal::new(1.0).iid([count]))?;
        let every_level = |values: &Tensor<1>| {
            if self.by_level { values.clone() } else { values.clone().repeat(&[self.levels]) }
        };
        let beta = Normal::new(every_level(&mu), every_level(&sigma));
        let beta = scope.sample("beta", if self.centred { beta } else { beta.non_centred() })?;
        Ok(MultilevelLatents { mu, sigma, beta })
    }

    fn contribute(&self, latents: &MultilevelLatents, rows: &Rows<'_>, data: &Design) -> Result<Tensor<2>> {
        data.take(rows)?.predictor(latents.beta.clone(), None)
    }
}
