//! Fits one statement of the model by one algorithm, and keeps the numbers for tables and figures.

use std::fmt;

use partita::inference::VerticalOptions;
use partita::vertical::{Augmentation, Pooled, fit as fit_vertical};
use partita::{AlgorithmChoice, FamilyPlan, FitOptions, Gaussian, Nuts, Schedule, Settings, fit};
use serde::{Deserialize, Serialize};

use super::Options;
use super::world::{self, World};
use crate::harness::{Result, Session, mean, thinned};
use crate::measures::fisher_rao_distance;

/// Chains of the sampler.
const CHAINS: usize = 4;

/// Points of a bound's curve: each is the mean over an interval of steps.
const CURVE_POINTS: usize = 100;

/// The model of a fit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) enum Statement {
    True,
    Augmented { rho: f64 },
    PowerLikelihood { rho: f64 },
}

impl Statement {
    pub(crate) const AUGMENTED: &'static str = "augmented";
    pub(crate) const POWER_LIKELIHOOD: &'static str = "power likelihood";

    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::True => "true",
            Self::Augmented { .. } => Self::AUGMENTED,
            Self::PowerLikelihood { .. } => Self::POWER_LIKELIHOOD,
        }
    }

    fn augmentation(self) -> Augmentation {
        match self {
            Self::True => Augmentation::None,
            Self::Augmented { rho } => Augmentation::Auxiliary { rho },
            Self::PowerLikelihood { rho } => Augmentation::PowerLikelihood { rho },
        }
    }

    pub(crate) fn rho(self) -> Option<f64> {
        match self {
            Self::True => None,
            Self::Augmented { rho } | Self::PowerLikelihood { rho } => Some(rho),
        }
    }

    pub(crate) fn has_rho(self, rho: f64) -> bool {
        self.rho().is_some_and(|own| own.to_bits() == rho.to_bits())
    }
}

/// The algorithm of a fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Algorithm {
    Sampler,
    MeanField,
    Amortised,
}

impl Algorithm {
    /// The sampler first, the algorithms with auxiliary variables last.
    pub(crate) const ALL: [Self; 3] = [Self::Sampler, Self::MeanField, Self::Amortised];

    fn name(self) -> &'static str {
        match self {
            Self::Sampler => "NUTS",
            Self::MeanField => "mean-field",
            Self::Amortised => "amortised",
        }
    }
}

/// The result of a fit.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Found {
    pub(crate) statement: Statement,
    pub(crate) algorithm: Algorithm,
    pub(crate) parties: usize,
    /// The bound in nats and its standard error; none for the sampler.
    pub(crate) elbo: Option<(f64, f64)>,
    /// The bound against steps, averaged over intervals.
    pub(crate) curve: Vec<(f64, f64)>,
    /// Means and standard deviations of the coefficients in the order of the columns, then of the intercept.
    pub(crate) moments: Vec<(f64, f64)>,
    /// Draws of the first coefficient; none for a Gaussian.
    pub(crate) draws: Vec<f64>,
    /// The sampler's largest R-hat, smallest sample size and divergences over coefficients, intercept and auxiliaries.
    pub(crate) quality: Option<(f64, f64, usize)>,
    pub(crate) seconds: f64,
}

impl Found {
    pub(crate) fn header() -> String {
        format!(
            "{:<17} {:>7} {:>4} {:<10} {:>18} {:>17} {:>7}  {}",
            "model", "parties", "rho", "algorithm", "ELBO, nats", "coefficient 1", "s", "sampler"
        )
    }

    pub(crate) fn is(&self, kind: &str, parties: usize) -> bool {
        self.statement.kind() == kind && self.parties == parties
    }

    pub(crate) fn name(&self) -> String {
        match self.statement.rho() {
            Some(rho) => format!("{}, rho {rho}", self.algorithm.name()),
            None => format!("true, {}", self.algorithm.name()),
        }
    }

    pub(crate) fn short_name(&self) -> String {
        match self.algorithm {
            Algorithm::Sampler => format!("{}, NUTS", self.statement.kind()),
            other => format!("{}, {}", self.statement.kind(), other.name()),
        }
    }

    /// The mean Fisher-Rao distance of the coefficients' marginals from those of another fit, as normal densities.
    pub(crate) fn distance(&self, other: &Self) -> f64 {
        let pairs = self.moments.iter().zip(&other.moments).take(world::COLUMNS);
        mean(&pairs.map(|(own, other)| fisher_rao_distance(*own, *other).unwrap_or(f64::NAN)).collect::<Vec<f64>>())
    }
}

impl fmt::Display for Found {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mean, sd) = self.moments[0];
        let parties = if self.statement == Statement::True { "-".to_owned() } else { self.parties.to_string() };
        let rho = self.statement.rho().map_or_else(|| "-".to_owned(), |rho| rho.to_string());
        let elbo = self.elbo.map_or_else(|| "-".to_owned(), |(elbo, error)| format!("{elbo:.2} ± {error:.2}"));
        write!(
            formatter,
            "{:<17} {parties:>7} {rho:>4} {:<10} {elbo:>18} {:>17} {:>7.1}",
            self.statement.kind(),
            self.algorithm.name(),
            format!("{mean:.3} ± {sd:.3}"),
            self.seconds
        )?;
        match self.quality {
            Some((r_hat, size, divergences)) => {
                write!(formatter, "  R-hat {r_hat:.3}, sample size {size:.0}, {divergences} divergences")
            }
            None => Ok(()),
        }
    }
}

/// The data and the settings of all fits.
pub(crate) struct Study<'a> {
    world: &'a World,
    pub(crate) options: &'a Options,
    session: &'a Session,
}

impl<'a> Study<'a> {
    pub(crate) fn new(world: &'a World, options: &'a Options, session: &'a Session) -> Self {
        Self { world, options, session }
    }

    /// The fit of `statement` by `algorithm`: from an earlier run with equal settings, if wanted, or now.
    pub(crate) fn found(&self, statement: Statement, algorithm: Algorithm, parties: usize) -> Result<Found> {
        let rho = statement.rho().map_or_else(String::new, |rho| format!("_{rho}"));
        let kind = statement.kind().replace(' ', "_");
        let name = format!("{kind}{rho}_{parties}_{}", algorithm.name());
        let Options { rows, steps, draws, warmup, elbo_draws, .. } = self.options;
        let settings = format!("{rows} {steps} {draws} {warmup} {elbo_draws} {}", self.options.shared.seed);
        self.session.kept(&name, &settings, || match (statement, algorithm) {
            (_, Algorithm::Sampler) => self.sampled(statement, parties),
            (Statement::True, _) => self.pooled(parties),
            _ => self.federated(statement, algorithm, parties),
        })
    }

    fn fit_options(&self, algorithm: AlgorithmChoice) -> FitOptions {
        let settings = Settings {
            steps: self.options.steps,
            seed: self.options.shared.seed,
            family: FamilyPlan::new().global(Gaussian::full_rank()),
            schedule: Schedule::Cosine { initial: 0.02, last: 0.0 },
            ..Settings::default()
        };
        let (threads, elbo_draws) = (self.options.shared.threads, self.options.elbo_draws);
        FitOptions { algorithm, settings, threads, elbo_draws, ..FitOptions::default() }
    }

    /// The no-U-turn sampler on the pooled model, with standardised auxiliary variables, since labels inform each only
    /// weakly.
    fn sampled(&self, statement: Statement, parties: usize) -> Result<Found> {
        let (world, options) = (self.world, self.options);
        let model = Pooled::new(world.parties(parties)?, world.labels(), statement.augmentation())?.non_centred();
        let nuts = Nuts {
            warmup: options.warmup,
            draws: options.draws,
            chains: CHAINS,
            seed: options.shared.seed,
            threads: options.shared.threads,
            ..Nuts::default()
        };
        let fit = nuts.sample(&model, &[("all".to_owned(), ())], world.device())?;
        // Parties come first and in their order, the head last.
        let moments = fit.sites.iter().map(|site| (site.mean, site.sd)).collect();
        let convergence = &fit.diagnostics.convergence;
        let least = convergence.iter().map(|one| one.bulk.min(one.tail)).fold(f64::INFINITY, f64::min);
        Ok(Found {
            statement,
            algorithm: Algorithm::Sampler,
            parties,
            elbo: None,
            curve: Vec::new(),
            moments,
            draws: fit.draws[0].2.clone(),
            quality: Some((fit.diagnostics.worst_r_hat(), least, fit.diagnostics.divergences())),
            seconds: fit.seconds,
        })
    }

    /// Variational inference of the true model on pooled data.
    fn pooled(&self, parties: usize) -> Result<Found> {
        let model = Pooled::new(self.world.parties(parties)?, self.world.labels(), Augmentation::None)?;
        let options = self.fit_options(AlgorithmChoice::Central);
        let fit = fit(&model, &[("all".to_owned(), ())], self.world.device(), &options, None)?;
        Ok(Found {
            statement: Statement::True,
            algorithm: Algorithm::MeanField,
            parties,
            elbo: Some((fit.report.elbo, fit.report.elbo_se)),
            curve: thinned(&fit.record.trace, CURVE_POINTS),
            moments: fit.report.sites.iter().map(|site| (site.mean, site.sd)).collect(),
            draws: Vec::new(),
            quality: None,
            seconds: fit.report.seconds,
        })
    }

    /// The federated algorithm over parties and messages.
    fn federated(&self, statement: Statement, algorithm: Algorithm, parties: usize) -> Result<Found> {
        let how = match statement {
            Statement::PowerLikelihood { rho } => VerticalOptions::power_likelihood(rho),
            other => VerticalOptions::augmented(other.rho().unwrap_or(1.0)),
        };
        let how = if algorithm == Algorithm::MeanField { how.mean_field() } else { how };
        let options = self.fit_options(AlgorithmChoice::Vertical(how));
        let own = self.world.parties(parties)?;
        let fit = fit_vertical(&own, &self.world.labels(), self.world.device(), &options, None)?;
        let mut moments = Vec::new();
        for party in &own {
            moments.extend(fit.summary_of(party.name())?.iter().map(|site| (site.mean, site.sd)));
        }
        moments.extend(fit.report.sites.iter().map(|site| (site.mean, site.sd)));
        Ok(Found {
            statement,
            algorithm,
            parties,
            elbo: Some((fit.report.elbo, fit.report.elbo_se)),
            curve: thinned(&fit.record.trace, CURVE_POINTS),
            moments,
            draws: Vec::new(),
            quality: None,
            seconds: fit.report.seconds,
        })
    }
}
