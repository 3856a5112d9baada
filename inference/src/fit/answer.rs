//! Draws from the answer of a report: the corrected posterior where its correction holds, else the posterior as it is.

use partita_core::{AnyModel, Array, Device, Key, Model, Noise, Purpose, SiteTable};

use super::elsewhere::DRAWS;
use super::{Fit, Fitted};
use crate::engine::algorithm::{Algorithm, Posterior};
use crate::engine::error::Result;
use crate::engine::family::real;
use crate::engine::report::Report;
use crate::engine::report::summary::{NaturalDraws, SiteSummary, append, latent_draw};
use crate::engine::trust::correction::{Correction, Wide};
use crate::engine::trust::known::{Known, KnownModel};

/// The block of the noise that resamples the draws of a round.
const RESAMPLING: u32 = 2;

/// Draws of equal weight from the answer of a report ([`crate::Report::answer`]), independent of one another.
#[derive(Debug, Clone)]
pub struct AnswerDraws {
    /// What they are draws of, in words.
    pub about: &'static str,
    /// The unconstrained global vector of each draw, for [`partita_core::predictive_draw`].
    pub latents: Vec<Vec<f64>>,
    /// Every global number on its natural scale: site, label, one value a draw.
    pub natural: Vec<(String, String, Vec<f64>)>,
    /// The log density of prior and all rows at each draw, local latents integrated out; where the round of trust holds.
    pub log_p: Option<Vec<f64>>,
    /// What the numbers of the report are made of, with weights; `None` where that is these draws.
    weighted: Option<Weighted>,
}

/// The draws of the round of trust, and those of the posterior that they correct.
#[derive(Debug, Clone)]
struct Weighted {
    wide: Wide,
    before: NaturalDraws,
}

impl AnswerDraws {
    /// The answer of the report to a sum of numbers, $`c + \sum_k c_k z_k`$ of `terms`, each a label of a number $`z_k`$ and its
    /// coefficient $`c_k`$, and of the `constant` $`c`$, with the probability that it is above 0; of one number it is what the
    /// report says of it.
    ///
    /// Where the correction holds it is computed from the weighted draws of the round of trust, as the numbers of the report
    /// are, and not from the resampled ones. `None` where a label is of no number.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Device, Model, Normal, Result, Scope, burn};
    /// use partita_inference::{FitOptions, fit};
    /// use burn::{module::Module, tensor::Tensor};
    ///
    #[doc = include_str!("../../doc/mean.md")]
    ///
    /// let device = Device::flex();
    /// let silos = [("a".to_owned(), device.tensor(vec![1.0, 2.0, 3.0], [3]))];
    /// let fit = fit(&Mean {}, &silos, &device, &FitOptions::default(), None)?;
    /// let draws = fit.answer_draws(&Mean {}, &device)?;
    /// // The posterior is N(6/4, 1/4): twice the mean is 3 with a deviation of 1.
    /// let found = draws.combination("twice the mean", &[("mean".to_owned(), 2.0)], 0.0);
    /// assert!(found.is_some_and(|(own, above)| (own.mean - 3.0).abs() < 0.06 && (own.sd - 1.0).abs() < 0.06 && above > 0.99));
    /// assert!(draws.combination("none", &[("spread".to_owned(), 1.0)], 0.0).is_none());
    /// # Ok::<(), partita_inference::Error>(())
    /// ```
    #[must_use]
    pub fn combination(&self, name: &str, terms: &[(String, f64)], constant: f64) -> Option<(SiteSummary, f64)> {
        let all: Vec<&str> = self.natural.iter().map(|(_, label, _)| label.as_str()).collect();
        let place = |(label, share): &(String, f64)| Some((all.iter().position(|own| own == label)?, *share));
        let places: Vec<(usize, f64)> = terms.iter().map(place).collect::<Option<_>>()?;
        let sum = |count: usize, of: &dyn Fn(usize, usize) -> f64| -> Vec<f64> {
            let sum = |draw| places.iter().map(|(place, share)| share * of(*place, draw)).sum::<f64>() + constant;
            (0..count).map(sum).collect()
        };
        Some(match &self.weighted {
            None => {
                let own = sum(self.latents.len(), &|place, draw| self.natural[place].2[draw]);
                let above = own.iter().filter(|own| **own > 0.0).count();
                (SiteSummary::of(name.into(), name.into(), &own), real(above) / real(own.len()))
            }
            Some(Weighted { wide, before }) => {
                let values = sum(wide.weights.len(), &|place, draw| wide.values[place][draw]);
                let before = sum(before[0].2.len(), &|place, draw| before[place].2[draw]);
                let sample = wide.sample_of(&values, &before);
                let (mean, sd, quantiles) = (sample.mean(), sample.deviation(), sample.percentiles());
                let summary = SiteSummary { site: name.into(), label: name.into(), mean, sd, quantiles };
                (summary, sample.above(0.0).clamp(0.0, 1.0))
            }
        })
    }
}

#[cfg(feature = "sampler")]
impl crate::NutsFit {
    /// The draws of the sampler, as those of the answer of a report: what is asked of one is asked of the other.
    #[must_use]
    pub fn answer_draws(&self) -> AnswerDraws {
        AnswerDraws {
            about: "those of the sampler",
            latents: self.globals().map(<[f64]>::to_vec).collect(),
            natural: self.draws.clone(),
            log_p: None,
            weighted: None,
        }
    }
}

impl Fit {
    /// Draws of the globals from the answer of the report: those of the round of trust resampled by their Pareto-smoothed
    /// weights where the correction holds, else draws of the posterior as it is ([`Fit::draws`]).
    ///
    /// # Errors
    /// As for [`Fit::model`].
    ///
    /// # Example
    /// ```
    /// use partita_core::{Device, Model, Normal, Result, Scope, burn};
    /// use partita_inference::{FitOptions, fit};
    /// use burn::{module::Module, tensor::Tensor};
    ///
    #[doc = include_str!("../../doc/mean.md")]
    ///
    /// let device = Device::flex();
    /// let silos = [("a".to_owned(), device.tensor(vec![1.0, 2.0], [2])), ("b".to_owned(), device.tensor(vec![3.0], [1]))];
    /// let fit = fit(&Mean {}, &silos, &device, &FitOptions::default(), None)?;
    /// let draws = fit.answer_draws(&Mean {}, &device)?;
    /// // The posterior is N(6/4, 1/4), and the draws are about 2,000.
    /// let own = &draws.natural[0].2;
    /// let mean = own.iter().sum::<f64>() / own.len() as f64;
    /// assert!(own.len() > 1_000 && (mean - 1.5).abs() < 0.06);
    /// assert_eq!(draws.latents.len(), own.len());
    /// # Ok::<(), partita_inference::Error>(())
    /// ```
    pub fn answer_draws<M: Model>(&self, model: &M, device: &Device) -> Result<AnswerDraws> {
        let model = &AnyModel::new(model);
        let table = SiteTable::globals(model, device)?;
        self.answer_of(&KnownModel::new(model, self.posterior().theta, device, &table)?)
    }

    pub(super) fn answer_of(&self, known: &dyn Known) -> Result<AnswerDraws> {
        self.source().answer(known)
    }

    pub(super) fn source(&self) -> Source<'_> {
        let Self { report, draws, wide, reweighted, .. } = self;
        Source { report, draws, wide: wide.as_ref(), reweighted, posterior: self.posterior() }
    }
}

impl Fitted {
    /// As [`Fit::answer_draws`], where the silos are elsewhere: `algorithm` is the coordinator that was run.
    ///
    /// # Errors
    /// [`crate::Error::Model`] if `model` is not the model that was fitted.
    pub fn answer_draws<M: Model>(&self, model: &M, algorithm: &dyn Algorithm, device: &Device) -> Result<AnswerDraws> {
        let model = &AnyModel::new(model);
        let table = SiteTable::globals(model, device)?;
        let known = KnownModel::new(model, algorithm.posterior().theta, device, &table)?;
        self.source(algorithm).answer(&known)
    }

    pub(super) fn source<'a>(&'a self, algorithm: &'a dyn Algorithm) -> Source<'a> {
        let Self { report, draws, wide, reweighted, .. } = self;
        Source { report, draws, wide: wide.as_ref(), reweighted, posterior: algorithm.posterior() }
    }
}

/// What the draws of an answer are made of.
pub(super) struct Source<'a> {
    pub(super) report: &'a Report,
    draws: &'a NaturalDraws,
    pub(super) wide: Option<&'a Wide>,
    reweighted: &'a [Vec<f64>],
    pub(super) posterior: Posterior<'a>,
}

impl Source<'_> {
    pub(super) fn answer(&self, known: &dyn Known) -> Result<AnswerDraws> {
        let is_trusted = self.report.trust.correction().is_some_and(Correction::is_trusted);
        if let Some(wide) = self.wide.filter(|_| is_trusted) {
            let key = Key::new(Purpose::Report, 0).block(RESAMPLING);
            let places = wide.smoothed.resampled(&mut Noise::new(self.report.seed).stream(key));
            let log_joint = wide.round.log_joint();
            return Ok(AnswerDraws {
                about: "those of the round of trust, resampled by their smoothed weights",
                natural: wide.natural(&places, known)?,
                log_p: Some(places.iter().map(|place| log_joint[*place]).collect()),
                latents: places.iter().map(|place| wide.round.draws[*place].clone()).collect(),
                weighted: (!self.draws.is_empty()).then(|| Weighted { wide: wide.clone(), before: self.draws.clone() }),
            });
        }
        let count = self.draws.first().map_or(0, |(_, _, draws)| draws.len());
        let latent = |particle| latent_draw(self.posterior, Noise::new(self.report.seed), DRAWS, particle);
        Ok(AnswerDraws {
            about: "those of the approximation, as it is",
            natural: self.draws.clone(),
            log_p: None,
            latents: match self.reweighted {
                [] => (0..).take(count).map(latent).collect(),
                own => own.to_vec(),
            },
            weighted: None,
        })
    }
}

impl Wide {
    /// Draws on the natural scale; not a number where the model refuses one, as it may where a draw looks far away.
    pub(super) fn natural(&self, places: &[usize], known: &dyn Known) -> Result<NaturalDraws> {
        let draws = &self.round.draws;
        let like = known.natural(&draws[self.places.first().copied().unwrap_or_default()])?;
        let nothing = |(site, own): &(String, Array)| {
            (site.clone(), Array { values: vec![f64::NAN; own.values.len()], shape: own.shape.clone() })
        };
        let mut all = NaturalDraws::new();
        for place in places {
            let values = match known.natural(&draws[*place]) {
                Err(error) if error.is_outside() => like.iter().map(nothing).collect(),
                found => found?,
            };
            append(values, &mut all);
        }
        Ok(all)
    }
}
