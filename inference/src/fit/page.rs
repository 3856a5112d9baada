//! Writes the page of a fit, and draws the prior that stands beside its posterior.

use std::path::Path;

use partita_core::{AnyModel, Device, Model, SiteTable, with_shared_theta};

use super::{Fit, Fitted};
use crate::engine::error::Result;
use crate::engine::report::html::PageContent;
use crate::engine::report::summary::{NaturalDraws, prior_draws};
use crate::engine::report::{HtmlOptions, Report};

impl Fit {
    /// Writes the report as one HTML file for people, atomically, with marginal densities, the trace of the bound and what
    /// may leave a silo.
    ///
    /// # Errors
    /// As for [`crate::Report::write_html`].
    ///
    /// # Example
    /// ```
    /// use partita_core::{Device, Model, Normal, Result, Scope, burn};
    /// use partita_inference::{Effect, FitOptions, HtmlOptions, Scale, fit};
    /// use burn::{module::Module, tensor::Tensor};
    ///
    /// #[derive(Module, Debug)]
    /// struct LogRatio {}
    /// impl Model for LogRatio {
    ///     type Globals = Tensor<1>;
    ///     type Data = Tensor<1>;
    ///     fn global(&self, scope: &mut Scope) -> Result<Tensor<1>> { scope.sample("log_ratio", Normal::new(0.0, 1.0)) }
    ///     fn local(&self, scope: &mut Scope, ratio: &Tensor<1>, data: &Tensor<1>) -> Result<()> {
    ///         scope.plate("row", data.dims()[0], |s, rows| s.observe("y", Normal::new(ratio.clone(), 1.0).over(rows), rows.take(data)?))
    ///     }
    /// }
    ///
    /// let device = Device::flex();
    /// let silos = [("a".to_owned(), device.tensor(vec![1.0, 2.0], [2])), ("b".to_owned(), device.tensor(vec![3.0], [1]))];
    /// let fit = fit(&LogRatio {}, &silos, &device, &FitOptions::default(), None)?;
    /// let effect =
    ///     Effect { label: "log_ratio".into(), name: "Treatment".into(), unit: "rate ratio".into(), scale: Scale::Exponential };
    /// let prior = fit.prior(&LogRatio {}, &device)?;
    /// let options = HtmlOptions { title: "A trial in two clinics".into(), effects: vec![effect], prior, ..HtmlOptions::default() };
    /// let folder = tempfile::tempdir()?;
    /// fit.write_html(&folder.path().join("report.html"), &options)?;
    /// let page = std::fs::read_to_string(folder.path().join("report.html"))?;
    /// assert!(page.contains("trust these numbers") && page.contains("Forest plot: rate ratio") && page.contains("The dashed line"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write_html(&self, path: &Path, options: &HtmlOptions) -> Result<()> {
        self.page(options).write_html(&self.report, path)
    }

    /// What the page of the fit shows beside the report.
    #[must_use]
    pub fn page(&self, options: &HtmlOptions) -> PageContent {
        PageContent::of(options, &self.record.trace, &self.draws, Some(self.algorithm.manifest()))
    }

    /// Draws of every global number from its prior, on its natural scale, for [`HtmlOptions::prior`]: site, label, draws.
    ///
    /// # Errors
    /// As for [`Fit::model`], and what the model refuses: a prior that is no distribution has no draws.
    pub fn prior<M: Model>(&self, model: &M, device: &Device) -> Result<Vec<(String, String, Vec<f64>)>> {
        let model = &AnyModel::new(model);
        prior(&self.report, model, device)
    }
}

impl Fitted {
    /// As [`Fit::page`], where the silos are elsewhere.
    #[must_use]
    pub fn page(&self, options: &HtmlOptions) -> PageContent {
        PageContent::of(options, &self.record.trace, &self.draws, Some(&self.manifest))
    }

    /// As [`Fit::prior`], where the silos are elsewhere.
    ///
    /// # Errors
    /// As for [`Fit::prior`].
    pub fn prior<M: Model>(&self, model: &M, device: &Device) -> Result<Vec<(String, String, Vec<f64>)>> {
        let model = &AnyModel::new(model);
        prior(&self.report, model, device)
    }
}

/// Draws from the prior at the trained parameters of a report.
fn prior(report: &Report, model: &AnyModel, device: &Device) -> Result<NaturalDraws> {
    let trained = with_shared_theta(model, &report.theta, device)?;
    prior_draws(&trained, device, &SiteTable::globals(model, device)?, report.seed)
}
