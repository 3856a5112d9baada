//! Reports what a sampler has drawn as every other fit is reported.

use std::borrow::Cow;

use partita_core::{AnyData, AnyModel, Device, Model, SiteTable};
use serde_json::json;

use super::{Nuts, NutsFit};
use crate::engine::algorithm::{MethodCount, MethodCounts};
use crate::engine::error::Result;
use crate::engine::report::html::PageContent;
use crate::engine::report::summary::{NaturalDraws, prior_draws};
use crate::engine::report::{Found, HtmlOptions, Report};
use crate::engine::run::RunRecord;
use crate::engine::settings::Settings;
use crate::engine::terms::particles::Worker;
use crate::engine::trust::chains::ChainSummary;
use crate::engine::trust::estimate::ElboEstimate;
use crate::engine::trust::judging::Fitted;
use crate::engine::trust::objective::Objective;
use crate::engine::trust::predictive::{PredictiveChecks, Replicated, Replicates, SiloChecks};
use crate::engine::trust::statistic::PredictiveCheck;
use crate::engine::trust::verdict::Trust;

impl NutsFit {
    /// The report of the draws, with these posterior predictive checks of the rows of every silo: [`Trust::Sampled`] has what
    /// is known of the chains, and there is no bound. `model` and `silos` are those of the fit.
    ///
    /// # Errors
    /// As for [`crate::Fit::predictive_checks`].
    pub fn report<M: Model>(
        &self,
        model: &M,
        silos: &[(String, M::Data)],
        device: &Device,
        checks: &[PredictiveCheck],
    ) -> Result<Report> {
        let mut report = self.unchecked();
        if !checks.is_empty() {
            let found = self.checks(&AnyModel::new(model), &AnyData::of_silos(silos), device, checks)?;
            report.warn(found.warnings());
            report.checks = Some(found);
        }
        Ok(report)
    }

    /// What the page of the draws shows beside their report.
    #[must_use]
    pub fn page(&self, options: &HtmlOptions) -> PageContent {
        PageContent::of(options, &[], &self.draws, None)
    }

    /// As [`crate::Fit::prior`].
    ///
    /// # Errors
    /// As for [`crate::Fit::prior`].
    pub fn prior<M: Model>(&self, model: &M, device: &Device) -> Result<NaturalDraws> {
        let model = &AnyModel::new(model);
        prior_draws(model, device, &SiteTable::globals(model, device)?, self.options.seed)
    }

    /// The report without checks.
    pub(super) fn unchecked(&self) -> Report {
        let all = |of: fn(&ChainSummary) -> u64| self.diagnostics.chains.iter().map(of).sum();
        let count =
            |name, meaning, number| MethodCount { name: Cow::Borrowed(name), meaning: Cow::Borrowed(meaning), number };
        let counts = vec![
            count("gradients", "gradients of the log density", all(|own| own.gradients)),
            count("warmup_gradients", "gradients of the log density in warm-up", all(|own| own.warmup_gradients)),
        ];
        let nothing = f64::NAN;
        Report::new(Found {
            sites: self.sites.clone(),
            families: Vec::new(),
            warnings: Vec::new(),
            trust: Trust::Sampled(self.diagnostics.clone()),
            objective: Objective::LogJoint,
            bound: ElboEstimate {
                elbo: nothing,
                standard_error: nothing,
                draws: 0,
                gradient_variance: None,
                still_moving: None,
                still_widening: None,
            },
            record: &RunRecord { seconds: self.seconds, ..RunRecord::default() },
            counts: Some(MethodCounts { method: "nuts".into(), counts }),
            privacy: None,
            algorithm: json!({ "Nuts": self.options }),
            settings: &Settings { seed: self.options.seed, ..Settings::default() },
            device: self.device.clone(),
            silos: self.silos.clone(),
            theta: Vec::new(),
            settled: None,
            leave_one_out: None,
            checks: None,
        })
    }

    fn checks(
        &self,
        model: &AnyModel,
        silos: &[(String, AnyData)],
        device: &Device,
        checks: &[PredictiveCheck],
    ) -> Result<PredictiveChecks> {
        let Nuts { seed, threads, .. } = self.options;
        let draws = PredictiveChecks::enough(checks.len(), silos.len());
        let all: Vec<&[f64]> = self.globals().collect();
        let count = all.len() as u64;
        // Of as many draws as there are replicates each is taken once, chain after chain.
        let globals =
            |draw: u64| all[usize::try_from(draw * count / draws % count.max(1)).unwrap_or_default()].to_vec();
        let one = |(place, (silo, data)): (u32, &(String, AnyData))| {
            let table = SiteTable::of(model, device, data)?;
            let worker = Worker { model: model.clone(), data: data.clone() };
            let fitted = Fitted { worker, device, table: &table, loss: Settings::default().loss, seed, threads };
            let found = fitted.replicate(&|_, draw| globals(draw), checks, Replicates { draws, seed, silo: place })?;
            Ok(SiloChecks { silo: silo.clone(), p_values: found.iter().map(Replicated::p_value).collect() })
        };
        let silos = (0..).zip(silos).map(one).collect::<Result<Vec<_>>>()?;
        Ok(PredictiveChecks { checks: checks.to_vec(), silos, draws })
    }
}
