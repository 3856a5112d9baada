//! Checks a fit by the rows of one silo, for their owner.

use partita_core::{AnyData, AnyModel, Device, Model, SiteTable};

use super::Fit;
use crate::engine::error::{Error, Result};
use crate::engine::report::OwnChecks;
use crate::engine::terms::particles::Worker;
use crate::engine::trust::judging::Fitted;
use crate::engine::trust::predictive::{PredictiveChecks, Replicates};
use crate::engine::trust::statistic::PredictiveCheck;

impl Fit {
    /// Compares statistics of the data of one silo, a name and what it was fitted with, with those of data sets that the
    /// fitted model makes up: what [`crate::Report::checks`] says of it, with every replicate.
    ///
    /// Globals come from the posterior as it is, local latents from their prior given them, and observations from both.
    /// There are as many replicates as [`crate::FitOptions::checks`] takes for so many checks and all silos. Of trained
    /// parameters those that silos share are used.
    ///
    /// # Errors
    /// [`Error::Setting`] for a silo that the fit does not have, and a site that observes nothing; whatever the model
    /// refuses of the data.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Device, Model, Normal, Result, Scope, burn};
    /// use partita_inference::{FitOptions, fit};
    /// use burn::{module::Module, tensor::Tensor};
    ///
    /// #[derive(Module, Debug)]
    /// struct Mean {}
    /// impl Model for Mean {
    ///     type Globals = Tensor<1>;
    ///     type Data = Tensor<1>;
    ///     fn global(&self, scope: &mut Scope) -> Result<Tensor<1>> { scope.sample("mean", Normal::new(0.0, 10.0)) }
    ///     fn local(&self, scope: &mut Scope, mean: &Tensor<1>, data: &Tensor<1>) -> Result<()> {
    ///         scope.plate("row", data.dims()[0], |s, rows| s.observe("y", Normal::new(mean.clone(), 1.0).over(rows), rows.take(data)?))
    ///     }
    /// }
    ///
    /// let device = Device::flex();
    /// // A standard deviation of 3, where the model has 1.
    /// let wide = [-4.0, 4.0, -2.0, 2.0, 3.0, -3.0, 3.0, -3.0].repeat(4);
    /// let silos = [("north".to_owned(), device.tensor(wide, [32]))];
    /// let options = FitOptions { checks: vec!["mean of y".parse()?, "sd of y".parse()?], ..FitOptions::default() };
    /// let fit = fit(&Mean {}, &silos, &device, &options, None)?;
    /// let own = fit.predictive_checks(&Mean {}, &silos[0], &device, &options.checks)?;
    /// assert!((own.checks[0].p_value() - 0.5).abs() < 0.1 && own.checks[1].p_value() < 0.001);
    /// // The report has the same p-values, and warns of the second.
    /// let found = fit.report.checks.as_ref().ok_or("asked for")?;
    /// assert!((found.silos[0].p_values[1] - own.checks[1].p_value()).abs() < 1e-12 && found.failed().count() == 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # References
    /// Gelman, Meng and Stern (1996), Posterior predictive assessment of model fitness via realized discrepancies,
    /// Statistica Sinica 6; Marshall and Spiegelhalter (2003), Approximate cross-validatory predictive checks in disease
    /// mapping models, Statistics in Medicine 22, for local latents that are drawn anew.
    pub fn predictive_checks<M: Model>(
        &self,
        model: &M,
        (silo, data): &(String, M::Data),
        device: &Device,
        checks: &[PredictiveCheck],
    ) -> Result<OwnChecks> {
        let (model, data) = (&AnyModel::new(model), &AnyData::new(data));
        let silos = &self.report.silos;
        let Some((place, _)) = (0_u32..).zip(silos).find(|(_, name)| *name == silo) else {
            let found = format!("`{silo}`, where the fit has {}", silos.join(", "));
            return Err(Error::Setting { setting: "silo", found, expected: "a silo of the fit" });
        };
        let (model, posterior, seed) = (self.model(model, device)?, self.posterior(), self.report.seed);
        let table = SiteTable::of(&model, device, data)?;
        let (loss, threads) = (self.report.options.loss, self.report.options.silo_threads());
        let worker = Worker { model, data: data.clone() };
        let fitted = Fitted { worker, device, table: &table, loss, seed, threads };
        let draws = PredictiveChecks::enough(checks.len(), silos.len());
        let checks = fitted.replicate(
            &|noise, draw| posterior.draw(noise, draw),
            checks,
            Replicates { draws, seed, silo: place },
        )?;
        Ok(OwnChecks { silo: silo.clone(), checks })
    }
}
