//! Reports to a silo's owner what was found of each of its own rows; nothing of it is for a message.

use std::fmt::Write;
use std::path::Path;

use partita_core::special::normal_quantile;
use partita_core::{AnyData, AnyModel, Bijector, Device, Model, Part, Site, SiteTable, Support, for_support};
use serde::{Deserialize, Serialize};

use crate::engine::checkpoint::{write_atomically, write_json};
use crate::engine::error::{Error, Result};
use crate::engine::exchange::SiloProgram;
use crate::engine::gauss_hermite::GaussHermite;
use crate::engine::report::summary::{Quantiles, SiteSummary, label};

/// The posterior of every local latent of one silo, with the uncertainty of the globals and of outer rows in it.
///
/// It holds what is private to a silo: give it to the owner of the rows only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LocalReport {
    /// The silo.
    pub silo: String,
    /// One entry a number of each local site and row, in the order of declaration.
    pub numbers: Vec<LocalNumber>,
}

/// One number of a local site in one row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LocalNumber {
    /// The plate; `None` for what stands outside plates.
    pub plate: Option<String>,
    /// The row of the plate, from 0, in the order of the silo's data.
    pub row: usize,
    /// What its numbers are measured in.
    pub scale: LocalScale,
    /// Its summary.
    #[serde(flatten)]
    pub summary: SiteSummary,
}

/// What a number of a local report is measured in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LocalScale {
    /// As the site is declared.
    Natural,
    /// In standard deviations from the mean that the model gives it: the latent of a `non_centred` site.
    Standardised,
    /// The unconstrained numbers of a site whose elements hang together, such as a simplex.
    Unconstrained,
}

/// Points of the rule that takes means and standard deviations to the natural scale.
const POINTS: usize = 32;

impl LocalReport {
    /// The report of a silo of a fit, with the model and the data that it was made with.
    ///
    /// Means and standard deviations are [`SiloProgram::local_moments`], on the scale that [`LocalNumber::scale`] names.
    /// Quantiles are those of the normal distribution with these moments on the unconstrained scale: exact where the
    /// posterior of a row is normal, elsewhere as good as the normal family.
    ///
    /// # Errors
    /// [`Error::Setting`] for data or a model of other local latents than the silo's; what the model refuses.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Device, Model, Normal, Result, Scope, burn};
    /// use partita_inference::{FitOptions, LocalReport, fit};
    /// use burn::{module::Module, tensor::Tensor};
    ///
    #[doc = include_str!("../../doc/patients.md")]
    ///
    /// let device = Device::flex();
    /// let silos = [("north".to_owned(), device.tensor(vec![3.0], [1]))];
    /// let mut fit = fit(&Patients {}, &silos, &device, &FitOptions::default(), None)?;
    /// let report = LocalReport::of(&*fit.exchange.programs()[0], &Patients {}, &silos[0].1, &device)?;
    /// // y = 3 is the sum of three standard normal numbers, and the level that of two.
    /// assert!((report.numbers[0].summary.mean - 2.0).abs() < 1e-6);
    /// assert!((report.numbers[0].summary.sd - (2.0_f64 / 3.0).sqrt()).abs() < 1e-6);
    /// # Ok::<(), partita_inference::Error>(())
    /// ```
    pub fn of<M: Model>(silo: &dyn SiloProgram, model: &M, data: &M::Data, device: &Device) -> Result<Self> {
        let model = &AnyModel::new(model);
        let data = &AnyData::new(data);
        let table = SiteTable::of(model, device, data).map_err(|error| Error::from(error).in_silo(silo.name(), 0))?;
        let moments = silo.local_moments()?;
        let rule = GaussHermite::new(POINTS);
        let mut numbers = Vec::new();
        for (index, block) in table.blocks().iter().enumerate() {
            let expected = block.rows * block.width;
            let (means, deviations) = moments.get(index).map_or((&[] as &[f64], &[] as &[f64]), |(a, b)| (a, b));
            let are_own = means.len() == expected && deviations.len() == expected;
            let found = format_args!("{expected} local numbers in block {index}, and {} of the silo", means.len());
            let expected = "the model and the data that the silo was made with";
            Error::unless(are_own, "model and data of a local report", found, expected)?;
            for site in table.latents(Part::Local).filter(|site| site.block() == index) {
                let scaled = Scaled::of(site)?;
                for place in (0..block.rows).flat_map(|row| (0..site.width()).map(move |column| (row, column))) {
                    let (row, column) = place;
                    let at = row * block.width + site.offset() + column;
                    let label = label(&site.name, &[site.width()], column);
                    let moments = Moments { mean: means[at], deviation: deviations[at] };
                    let summary = scaled.summary(site.name.clone(), label, moments, &rule);
                    numbers.push(LocalNumber { plate: block.plate.clone(), row, scale: scaled.scale, summary });
                }
            }
        }
        Ok(Self { silo: silo.name().to_owned(), numbers })
    }

    /// Writes it as a table of comma-separated values, one line a number, atomically.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn write_csv(&self, path: &Path) -> Result<()> {
        let mut text = "plate,row,site,scale,mean,sd,p2_5,p5,p25,p50,p75,p95,p97_5\n".to_owned();
        for LocalNumber { plate, row, scale, summary } in &self.numbers {
            let scale = match scale {
                LocalScale::Natural => "natural",
                LocalScale::Standardised => "standardised",
                LocalScale::Unconstrained => "unconstrained",
            };
            let plate = quoted(plate.as_deref().unwrap_or_default());
            let SiteSummary { label, mean, sd, quantiles: q, .. } = summary;
            let cells = [*mean, *sd, q.p2_5, q.p5, q.p25, q.p50, q.p75, q.p95, q.p97_5].map(cell).join(",");
            let written = writeln!(text, "{plate},{row},{},{scale},{cells}", quoted(label));
            debug_assert!(written.is_ok(), "invariant: text can always be added to text");
        }
        write_atomically(path, text.as_bytes())
    }

    /// Writes it as JSON, atomically.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn write_json(&self, path: &Path) -> Result<()> {
        write_json(self, path)
    }
}

/// A field of comma-separated values, in quotation marks where it needs them.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

/// A number of comma-separated values, as R reads those that are infinite or none.
fn cell(number: f64) -> String {
    match number {
        own if own.is_nan() => "NA".to_owned(),
        own if own.is_finite() => own.to_string(),
        own if own > 0.0 => "Inf".to_owned(),
        _ => "-Inf".to_owned(),
    }
}

/// Moments on the unconstrained scale.
#[derive(Debug, Clone, Copy)]
struct Moments {
    mean: f64,
    deviation: f64,
}

/// How the numbers of a site are taken to the scale that they are shown in.
struct Scaled {
    scale: LocalScale,
    /// The map of each number by itself; `None` for the identity.
    map: Option<Box<dyn Bijector>>,
}

impl Scaled {
    fn of(site: &Site) -> Result<Self> {
        if site.non_centred {
            return Ok(Self { scale: LocalScale::Standardised, map: None });
        }
        Ok(match &site.support {
            Some(Support::Real | Support::RealVector) => Self { scale: LocalScale::Natural, map: None },
            Some(
                support @ (Support::Positive | Support::Interval(..) | Support::GreaterThan(_) | Support::LessThan(_)),
            ) => Self { scale: LocalScale::Natural, map: Some(for_support(support)?) },
            _ => Self { scale: LocalScale::Unconstrained, map: None },
        })
    }

    fn at(&self, unconstrained: f64) -> f64 {
        let Some(map) = &self.map else { return unconstrained };
        let mut natural = [0.0];
        map.forward(&[unconstrained], &mut natural);
        natural[0]
    }

    fn summary(&self, site: String, label: String, moments: Moments, rule: &GaussHermite) -> SiteSummary {
        let Moments { mean, deviation } = moments;
        // A map may run downwards, as that to numbers below a bound does.
        let sign = if self.at(mean + 1.0) < self.at(mean - 1.0) { -1.0 } else { 1.0 };
        let quantile = |probability| self.at(mean + sign * deviation * normal_quantile(probability));
        let quantiles = Quantiles {
            p2_5: quantile(0.025),
            p5: quantile(0.05),
            p25: quantile(0.25),
            p50: quantile(0.5),
            p75: quantile(0.75),
            p95: quantile(0.95),
            p97_5: quantile(0.975),
        };
        let (mean, sd) = match self.map {
            None => (mean, deviation),
            Some(_) => {
                let points = || rule.nodes.iter().map(|node| self.at(mean + deviation * node)).zip(&rule.weights);
                let natural: f64 = points().map(|(value, weight)| weight * value).sum();
                let variance: f64 = points().map(|(value, weight)| weight * (value - natural).powi(2)).sum();
                (natural, variance.sqrt())
            }
        };
        SiteSummary { site, label, mean, sd, quantiles }
    }
}
