//! Compares what a silo observed with what the fitted model would have it observe; p-values alone leave the silo.

use partita_core::{Array, DrawNoise, Noise, Predictive, Site, SiteTable, observed_values, predictive_draw};
use serde::{Deserialize, Serialize};

use super::judging::{Fitted, Sizes};
use super::statistic::{PredictiveCheck, Statistic};
use crate::engine::error::{Error, Result};
use crate::engine::family::real;
use crate::engine::report::{Severity, Warning, number};
use crate::engine::terms::particles::{Worker, spread};
use crate::engine::wire::typed::message;

/// The most draws that a silo takes for one request: a request must not keep it for ever.
pub(crate) const MOST_DRAWS: u64 = 1 << 20;
/// The most bytes of the checks in a request.
const MOST_TEXT: u64 = 1 << 16;

message! {
    /// Asks a silo to check a posterior.
    struct CheckRequest = "predictive.check", sizes: &Sizes {
        /// how many replicates
        draws: u64 = Request <= MOST_DRAWS,
        /// the seed of the run
        seed: u64 = Request <= u64::MAX,
        /// the parameters of the global posterior
        global: Vec<f64> = Request <= sizes.parameters,
        /// the shared part of θ
        theta: Vec<f64> = Request <= sizes.theta,
        /// the checks, one a line
        checks: String = Request <= MOST_TEXT,
    }
}

message! {
    /// What a silo says of it.
    struct Checked = "predictive.checked", checks: &u64 {
        /// for each check the part of replicated data sets whose statistic is larger than the observed one
        p_values: Vec<f64> = Data <= *checks,
    }
}

impl CheckRequest {
    /// The checks that it asks for.
    ///
    /// # Errors
    /// [`Error::Setting`] for a text that is none.
    pub(crate) fn checks(&self) -> Result<Vec<PredictiveCheck>> {
        self.checks.lines().map(str::parse).collect()
    }

    /// The text of some checks.
    pub(crate) fn text(checks: &[PredictiveCheck]) -> String {
        checks.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }
}

/// A statistic of a silo's own data beside that of replicates, for the owner of the data: no message carries it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Replicated {
    /// What is compared.
    pub check: PredictiveCheck,
    /// The statistic $`T(y)`$ of the data.
    pub observed: f64,
    /// The statistic of each replicate, $`T(y^s)`$.
    pub replicates: Vec<f64>,
}

impl Replicated {
    /// The posterior predictive p-value: the part of replicates whose statistic is larger, those that are equal counted by half.
    ///
    /// ```math
    /// p = \frac1S \sum_s \big( 1[T(y^s) > T(y)] + \tfrac12\, 1[T(y^s) = T(y)] \big)
    /// ```
    #[must_use]
    pub fn p_value(&self) -> f64 {
        let above = |own: &f64| match own.total_cmp(&self.observed) {
            std::cmp::Ordering::Greater => 1.0,
            std::cmp::Ordering::Equal => 0.5,
            std::cmp::Ordering::Less => 0.0,
        };
        self.replicates.iter().map(above).sum::<f64>() / real(self.replicates.len())
    }
}

/// The replicates of a silo.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Replicates {
    pub(crate) draws: u64,
    pub(crate) seed: u64,
    /// The place of the silo, which keys its noise.
    pub(crate) silo: u32,
}

impl Fitted<'_> {
    /// Compares data with as many replicates as asked for: `globals` of each from the posterior, local latents from their
    /// prior given them, observations given both.
    ///
    /// # Errors
    /// [`Error::Setting`] for no draws, and for a site that observes nothing or has censored events; what the model reports.
    pub(crate) fn replicate(
        &self,
        globals: &(dyn Fn(&Noise, u64) -> Vec<f64> + Sync),
        checks: &[PredictiveCheck],
        replicates: Replicates,
    ) -> Result<Vec<Replicated>> {
        let (Worker { model, data }, device, table) = (&self.worker, self.device, self.table);
        Error::unless(replicates.draws > 0, "check_draws", replicates.draws, "at least 1; 1,000 or more serve")?;
        let is_censored = |check: &&PredictiveCheck| table.site(&check.site).is_some_and(|site| site.censored);
        if let Some(check) = checks.iter().find(is_censored) {
            let found = format!("`{check}`, of which some events may be censored");
            let expected = "a statistic of what is known in every row: when the others would have been censored is not known; judge such models by rows left out and by calibration";
            return Err(Error::Setting { setting: "checks", found, expected });
        }
        let observed = statistics(table, checks, &observed_values(model, device, table, data)?)?;
        let noise = Noise::new(replicates.seed);
        let mut workers = vec![self.worker.clone(); self.threads.max(1)];
        let count = usize::try_from(replicates.draws).unwrap_or(usize::MAX);
        let found = spread(&mut workers, count, |Worker { model, data }: &Worker, index| {
            let draw = index as u64;
            let globals = globals(&noise, draw);
            let noise = DrawNoise { noise, index: draw | u64::from(replicates.silo) << 32 };
            let at = Predictive { globals: &globals, locals: None, noise };
            statistics(table, checks, &predictive_draw(model, device, table, data, at)?.observed)
        })?;
        let each = checks.iter().zip(observed).enumerate();
        let joined = each.map(|(place, (check, observed))| Replicated {
            check: check.clone(),
            observed,
            replicates: found.iter().map(|own| own[place]).collect(),
        });
        Ok(joined.collect())
    }
}

/// The statistic of each check.
fn statistics(table: &SiteTable, checks: &[PredictiveCheck], observed: &[(String, Array)]) -> Result<Vec<f64>> {
    let of = |check: &PredictiveCheck| match observed.iter().find(|(name, _)| *name == check.site) {
        Some((_, values)) if check.statistic == Statistic::DeviationOfRows => {
            let block = table.site(&check.site).filter(|site| site.plate.is_some()).map(Site::block);
            Ok(check.statistic.of(values, block.and_then(|block| outermost_rows(table, block)).as_deref()))
        }
        Some((_, values)) => Ok(check.statistic.of(values, None)),
        None => {
            let names: Vec<&str> = observed.iter().map(|(name, _)| name.as_str()).collect();
            let found = format!("`{check}`, where the model observes {}", names.join(", "));
            Err(Error::Setting { setting: "checks", found, expected: "a statistic of a site that the model observes" })
        }
    };
    checks.iter().map(of).collect()
}

/// The row of the outermost plate of each row of a block; `None` for rows that stand in no others.
fn outermost_rows(table: &SiteTable, block: usize) -> Option<Vec<usize>> {
    if block >= table.blocks().len() || table.outermost(block) == block {
        return None;
    }
    let parent = table.blocks().get(block)?.parent.as_ref()?;
    let Some(outer) = outermost_rows(table, parent.block) else { return Some(parent.rows.to_vec()) };
    Some(parent.rows.iter().map(|row| outer[*row]).collect())
}

/// What one silo says of the checks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SiloChecks {
    /// The silo.
    pub silo: String,
    /// The p-value of each check ([`Replicated::p_value`]), in their order.
    #[serde(with = "number::list")]
    pub p_values: Vec<f64>,
}

/// Posterior predictive checks in all silos.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PredictiveChecks {
    /// What is compared.
    pub checks: Vec<PredictiveCheck>,
    /// What each silo says, in their order.
    pub silos: Vec<SiloChecks>,
    /// Replicates in each silo.
    pub draws: u64,
}

/// The probability that a model which is right is doubted by any of its checks, at most.
const LEVEL: f64 = 0.05;
const LEVEL_SOURCE: &str = "Gelman, Meng and Stern (1996), at .05 over all checks together";
/// Replicates for each p-value of a report: a p-value must be able to be small enough to say something.
const DRAWS_A_CHECK: u64 = 100;
const LEAST_DRAWS: u64 = 1_000;

impl PredictiveChecks {
    /// As many replicates as so many p-values want.
    pub(crate) fn enough(checks: usize, silos: usize) -> u64 {
        (DRAWS_A_CHECK * (checks * silos) as u64).clamp(LEAST_DRAWS, MOST_DRAWS)
    }

    /// How small twice a tail has to be for a word.
    #[must_use]
    pub fn threshold(&self) -> f64 {
        LEVEL / real((self.checks.len() * self.silos.len()).max(1))
    }

    /// Twice the smaller tail of a p-value, with the data as one replicate more, so that no number of replicates gives
    /// zero.
    #[must_use]
    pub fn both_tails(&self, p_value: f64) -> f64 {
        let draws = self.draws as f64;
        let both = 2.0 * (p_value.min(1.0 - p_value) * draws + 1.0) / (draws + 1.0);
        // `f64::min` would take one for what is no number.
        if both > 1.0 { 1.0 } else { both }
    }

    /// Whether data with this p-value fail a check; they do where it is no number.
    pub(crate) fn fails(&self, p_value: f64) -> bool {
        let both = self.both_tails(p_value);
        both.is_nan() || both < self.threshold()
    }

    /// Every check that the data of a silo fail, with the silo and the p-value.
    pub fn failed(&self) -> impl Iterator<Item = (&PredictiveCheck, &str, f64)> {
        let each = self.silos.iter().flat_map(|own| {
            self.checks.iter().zip(&own.p_values).map(|(check, p_value)| (check, own.silo.as_str(), *p_value))
        });
        each.filter(|(_, _, p_value)| self.fails(*p_value))
    }

    /// What failed checks mean for a report.
    pub(crate) fn warnings(&self) -> Vec<Warning> {
        let warn = |(check, silo, p_value): (&PredictiveCheck, &str, f64)| {
            let side = if p_value < 0.5 { "larger" } else { "smaller" };
            let problem =
                format!("the {check} is {side} than the model expects: both tails of its replicates together are");
            let remedy = "Let the model have what is missing, such as heavier tails, more zeros or effects of rows; until then, conclude nothing that depends on it.";
            let warning = Warning::new(Severity::Limit, problem, remedy).of_silo(Some(&silo.to_owned()));
            warning.measured(self.both_tails(p_value)).beyond(self.threshold(), LEVEL_SOURCE)
        };
        let too_few = (self.both_tails(0.0) >= self.threshold()).then(|| {
            let problem = "no p-value of so few replicates is small enough to doubt a check: the smallest is";
            let remedy = "Leave `check_draws` out, or ask for more.";
            Warning::new(Severity::Note, problem, remedy)
                .measured(self.both_tails(0.0))
                .beyond(self.threshold(), LEVEL_SOURCE)
        });
        self.failed().map(warn).chain(too_few).collect()
    }
}
