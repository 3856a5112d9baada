//! Fits a private study over the files of silos in one process, and answers what its posterior answers without further rows.

use std::error::Error;
use std::path::Path;

use super::answers::{rows_asked, say_contrasts, say_written};
use super::fit::{Method, Options, say_prepared};
use super::say::{say, text};
use crate::executables::questions::{Answers, Questions, RowsAsked, RowsToPredict};
use crate::executables::{StudyFile, StudyPrivacy, write_report};
use crate::formula::predict::globals;
use crate::formula::{Contrast, Contrasted, Prepared, Study, Whose};
use crate::inference::HtmlOptions;
use crate::privacy::SystemEntropy;
use crate::private::clipping::Clipped;
use crate::private::{PrivateFit, PrivateOptions, fit_with};
use crate::{Device, FitOptions};

/// A study with what it promises.
pub(super) struct Promised<'a> {
    pub(super) study: &'a Study,
    pub(super) file: &'a StudyFile,
    pub(super) privacy: &'a StudyPrivacy,
    pub(super) options: &'a Options,
    pub(super) how: FitOptions,
}

impl Promised<'_> {
    pub(super) fn fit(self) -> Result<(), Box<dyn Error>> {
        self.refuse()?;
        let Self { study, file, privacy, options, how } = &self;
        let device = Device::flex();
        let prepared = study.prepare(&options.tables(Some(*file))?, &device)?;
        say_prepared(&prepared)?;
        say(privacy.promise(&privacy.protected(study), file.promised_sums(privacy)?)?)?;
        let questions = self.questions(&prepared, &device)?;
        let ledgers = options.ledgers.clone().map(|folder| (folder, privacy.epsilon));
        if let Some((folder, _)) = &ledgers {
            std::fs::create_dir_all(folder)?;
        }
        let promise = PrivateOptions { ledgers, study: file.asked_of_rows()?, ..file.private_options(privacy)? };
        let mut bits = |_| Box::new(SystemEntropy::default()) as Box<_>;
        let mut fit = fit_with(&prepared.plan.model, &prepared.silos, &device, how, &promise, &mut bits)?;
        let (declared, shared) = (&privacy.columns, prepared.shared());
        let clipped = Clipped { shared, declared, fit: how, rows: fit.rows };
        clipped.judge(&mut fit.fitted.report, &mut *fit.algorithm, &device)?;
        let prior = fit.fitted.prior(&prepared.plan.model, &device)?;
        fit.fitted.report.tell_priors(&prepared.plan.priors, &prior);
        let PrivateFit { fitted, algorithm, .. } = &fit;
        text(format_args!("\n{}{}", fitted.report, prepared.plan.readings(&fitted.report.answer())))?;
        let draws = fitted.answer_draws(&prepared.plan.model, &**algorithm, &device)?;
        let mut no_silos = |_: &Contrast, _: &[Vec<f64>]| Ok(Vec::new());
        let Questions { contrasts, predict } = questions;
        let contrasts = contrasts.into_iter().map(|own| shared.contrasted(own, &draws, &device, &mut no_silos));
        let contrasts = contrasts.collect::<Result<Vec<Vec<Contrasted>>, _>>()?.concat();
        say_contrasts(&contrasts)?;
        let Some(folder) = &options.output else { return Ok(()) };
        let (at, seed) = (globals(&draws), how.settings.seed);
        let predicted = predict
            .into_iter()
            .map(|RowsToPredict { text, rows, .. }| Ok((text, shared.predicted(&rows, None, &at, seed, &device)?)));
        let predicted = predicted.collect::<Result<Vec<_>, Box<dyn Error>>>()?;
        let (effects, shown) = (prepared.plan.effects.clone(), contrasts.iter().map(Contrasted::shown).collect());
        let page = HtmlOptions { title: file.formula.clone(), effects, contrasts: shown, prior };
        let folder: &Path = folder;
        let mut written = write_report(&fitted.report, &fitted.page(&page), folder)?;
        written.extend(Answers { contrasts, predicted }.write(&draws, folder)?);
        say_written(&written, folder)
    }

    /// Refuses what would be answered from rows without noise.
    fn refuse(&self) -> Result<(), String> {
        let Options { checks, arviz, fitted, method, prior_predictive, contrasts, .. } = self.options;
        let averaged = contrasts.iter().find(|own| own.is_averaged);
        let asked = [
            ("--check-rows", !checks.is_empty()),
            ("--method nuts", *method == Some(Method::Nuts)),
            ("--arviz", *arviz),
            ("--fitted", *fitted),
            ("--prior-predictive", prior_predictive.is_some()),
            ("an averaged --contrast", averaged.is_some()),
        ];
        match asked.iter().find(|(_, is_asked)| *is_asked) {
            None => Ok(()),
            Some((name, _)) => Err(format!(
                "{name} in a private study: it needs rows without noise. Leave it out, or take `[privacy]` out of the study"
            )),
        }
    }

    fn questions(&self, prepared: &Prepared, device: &Device) -> Result<Questions, Box<dyn Error>> {
        let new = |asked: RowsAsked| match asked.whose {
            // With one silo a file without a name is of its groups.
            Whose::Silo(_) if asked.text.contains('=') => Err(format!(
                "--predict {} in a private study: effects of known groups follow from their rows without noise. Leave the name of \
                 the silo out, for rows of a silo never seen",
                asked.text
            )),
            _ => Ok(RowsAsked { whose: Whose::New, ..asked }),
        };
        let predict = self.options.predict.iter().map(|text| rows_asked(text, prepared).and_then(new));
        let predict = predict.collect::<Result<Vec<_>, _>>()?;
        let contrasts: Vec<Contrast> = self.file.contrasts.iter().chain(&self.options.contrasts).cloned().collect();
        Ok(Questions::of(&prepared.shared(), &contrasts, predict, device)?)
    }
}
