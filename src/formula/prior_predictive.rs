//! Draws outcomes from the prior for the rows of the files, to see what priors say before any outcome is looked at.

use std::fmt;

use partita_core::{Device, Noise, SiloNoise, SimulatedData};
use partita_inference::SiteSummary;
use partita_models::regression::RegressionRows;

use super::csv::{cell, quoted};
use super::priors::four_digits;
use super::shared_model::SharedModel;
use super::{Prepared, StudyError};

/// Outcomes drawn from the prior.
#[derive(Debug, Clone, PartialEq)]
pub struct PriorPredictive {
    /// The name of the outcome.
    pub outcome: String,
    /// The silos.
    pub silos: Vec<String>,
    /// For each data set and silo the outcome of each row.
    pub data_sets: Vec<Vec<Vec<f64>>>,
}

impl Prepared {
    /// Draws so many data sets: globals from their priors, effects of groups given them, and an outcome for each row of
    /// each silo. Of the files it reads covariates, groups and, for usual priors, the scale of the outcome.
    ///
    /// # Errors
    /// [`StudyError::Model`] where priors are so wide that an outcome is no number.
    pub fn prior_predictive(&self, data_sets: u32, seed: u64, device: &Device) -> Result<PriorPredictive, StudyError> {
        self.shared().prior_predictive(&self.silos, data_sets, seed, device)
    }
}

impl SharedModel<'_> {
    /// Draws so many data sets for the rows of silos.
    pub(crate) fn prior_predictive(
        &self,
        silos: &[(String, RegressionRows)],
        data_sets: u32,
        seed: u64,
        device: &Device,
    ) -> Result<PriorPredictive, StudyError> {
        self.study.has_numbers()?;
        let noise = Noise::new(seed);
        let of_silo = |draw: u32, silo: u32, rows| -> Result<Vec<f64>, StudyError> {
            let drawn = SimulatedData::draw(&self.plan.model, device, rows, SiloNoise { noise, draw, silo })?;
            Ok(drawn.outcomes().iter().flat_map(|(_, values)| values.values.clone()).collect())
        };
        let all = (0..data_sets)
            .map(|draw| silos.iter().zip(0..).map(|((_, rows), silo)| of_silo(draw, silo, rows)).collect());
        Ok(PriorPredictive {
            outcome: self.study.outcome().to_owned(),
            silos: silos.iter().map(|(name, _)| name.clone()).collect(),
            data_sets: all.collect::<Result<_, StudyError>>()?,
        })
    }
}

impl PriorPredictive {
    /// The draws as comma-separated values, one outcome a line.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut text = format!("data_set,silo,row,{}\n", quoted(&self.outcome));
        for (number, data_set) in self.data_sets.iter().enumerate() {
            for (silo, outcomes) in self.silos.iter().zip(data_set) {
                let place = format!("{},{}", number + 1, quoted(silo));
                let line = |(row, outcome): (usize, &f64)| format!("{place},{},{}\n", row + 1, cell(*outcome));
                text.extend(outcomes.iter().enumerate().map(line));
            }
        }
        text
    }
}

impl fmt::Display for PriorPredictive {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { outcome, data_sets, .. } = self;
        let rows: Vec<Vec<f64>> = data_sets.iter().map(|own| own.concat()).collect();
        let means: Vec<f64> = rows.iter().map(|own| own.iter().sum::<f64>() / own.len() as f64).collect();
        let [means, all] = [means, rows.concat()].map(|own| SiteSummary::of(outcome.clone(), outcome.clone(), &own));
        let [(low, high), (from, to)] = [means, all].map(|own| (own.quantiles.p2_5, own.quantiles.p97_5));
        write!(
            out,
            "{} data sets from the prior: in 95 % of them the mean of `{outcome}` is between {} and {}, and of all \
             outcomes 95 % are between {} and {}",
            data_sets.len(),
            short(low),
            short(high),
            short(from),
            short(to)
        )
    }
}

/// A number with four digits, and with a power of ten where it is large or small: wide priors reach far.
fn short(number: f64) -> String {
    match number == 0.0 || (1e-3..1e6).contains(&number.abs()) {
        true => four_digits(number).to_string(),
        false => format!("{number:.3e}"),
    }
}
