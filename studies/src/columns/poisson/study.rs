//! Fits the true or the augmented model of the areas by one algorithm, and keeps draws of means and coefficients.

use std::fmt;

use partita::inference::{VerticalOptions, metrics};
use partita::vertical::{Augmentation, AuxiliaryFamily, Pooled, fit as fit_vertical};
use partita::{AlgorithmChoice, FamilyPlan, FitOptions, Gaussian, Nuts, Schedule, Settings, fit};
use serde::Serialize;

use super::Options;
use super::world::{self, World};
use crate::harness::{Result, largest, moments};

/// Chains of the sampler.
const CHAINS: usize = 4;

/// The first scale of amortised auxiliary variables as a share of rho.
const FIRST_SCALE: f64 = 0.1;

/// The model of a fit, and its algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) enum How {
    TrueSampled,
    TrueMeanField,
    AugmentedSampled { rho: f64 },
    AugmentedAmortised { rho: f64 },
}

impl How {
    pub(crate) fn rho(self) -> Option<f64> {
        match self {
            Self::TrueSampled | Self::TrueMeanField => None,
            Self::AugmentedSampled { rho } | Self::AugmentedAmortised { rho } => Some(rho),
        }
    }

    pub(crate) fn name(self) -> String {
        let name = match self {
            Self::TrueSampled => "true, NUTS",
            Self::TrueMeanField => "true, mean-field",
            Self::AugmentedSampled { .. } => "augmented, NUTS",
            Self::AugmentedAmortised { .. } => "augmented, amortised",
        };
        name.to_owned()
    }
}

/// The result of a fit.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Found {
    pub(crate) how: How,
    /// Means and standard deviations: the means of coefficients in the order of the covariates, then the coefficients.
    pub(crate) moments: Vec<(f64, f64)>,
    /// Draws of the same.
    #[serde(skip)]
    pub(crate) draws: Vec<Vec<f64>>,
    /// The bound in nats and its standard error; none for the sampler.
    pub(crate) elbo: Option<(f64, f64)>,
    /// The sampler's largest R-hat of means and coefficients, its divergences, and its trees cut at the largest depth.
    pub(crate) quality: Option<(f64, usize, usize)>,
    pub(crate) seconds: f64,
}

impl fmt::Display for Found {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |place: usize| format!("{:.3} ± {:.3}", self.moments[place].0, self.moments[place].1);
        let rho = self.how.rho().map_or_else(|| "-".to_owned(), |rho| rho.to_string());
        let (mu, beta) = (show(0), show(world::MEANS));
        write!(
            formatter,
            "{:<21} rho {rho:>3}: mu {mu:>15}, beta {beta:>15}, {:>6.1} s",
            self.how.name(),
            self.seconds
        )?;
        if let Some((elbo, error)) = self.elbo {
            write!(formatter, ", ELBO {elbo:.1} ± {error:.1} nats")?;
        }
        match self.quality {
            Some((r_hat, divergences, cut)) => {
                write!(formatter, ", R-hat {r_hat:.3}, {divergences} divergences, {cut} trees cut")
            }
            None => Ok(()),
        }
    }
}

/// Draws by site and label.
type Draws = Vec<(String, String, Vec<f64>)>;

/// The data and the settings of all fits.
pub(crate) struct Study<'a> {
    world: &'a World,
    options: &'a Options,
}

impl<'a> Study<'a> {
    pub(crate) fn new(world: &'a World, options: &'a Options) -> Self {
        Self { world, options }
    }

    pub(crate) fn found(&self, how: How) -> Result<Found> {
        match how {
            How::TrueSampled => self.sampled(how, Augmentation::None, self.options.draws),
            How::AugmentedSampled { rho } => {
                self.sampled(how, Augmentation::Auxiliary { rho }, self.options.augmented_draws)
            }
            How::TrueMeanField => self.pooled(how),
            How::AugmentedAmortised { rho } => self.federated(how, rho),
        }
    }

    /// The no-U-turn sampler on the pooled model; auxiliary variables are not standardised, since counts determine
    /// their sum.
    fn sampled(&self, how: How, augmentation: Augmentation, draws: usize) -> Result<Found> {
        let (world, options) = (self.world, self.options);
        let model = Pooled::new(world.parties()?, world.labels()?, augmentation)?;
        let nuts = Nuts {
            warmup: options.warmup,
            draws,
            chains: CHAINS,
            seed: options.shared.seed,
            threads: options.shared.threads,
            max_depth: options.max_depth,
            ..Nuts::default()
        };
        let fit = nuts.sample(&model, &[("all".to_owned(), ())], world.device())?;
        let kept = unknowns(&fit.draws);
        let r_hat = |draws: &Vec<f64>| {
            let chains: Vec<&[f64]> = draws.chunks_exact(nuts.draws).collect();
            metrics::r_hat(&chains).unwrap_or(f64::INFINITY)
        };
        let worst = largest(kept.iter().map(r_hat));
        let cut = fit.diagnostics.chains.iter().map(|chain| chain.at_max_depth).sum();
        let quality = Some((worst, fit.diagnostics.divergences(), cut));
        Ok(Found { how, moments: moments(&kept), draws: kept, elbo: None, quality, seconds: fit.seconds })
    }

    fn fit_options(&self, algorithm: AlgorithmChoice, globals: Gaussian) -> FitOptions {
        let settings = Settings {
            steps: self.options.steps,
            seed: self.options.shared.seed,
            family: FamilyPlan::new().global(globals),
            schedule: Schedule::Cosine { initial: 0.02, last: 0.0 },
            ..Settings::default()
        };
        FitOptions { algorithm, settings, threads: self.options.shared.threads, ..FitOptions::default() }
    }

    /// Mean-field variational inference of the true model on pooled data. Coefficients are known a thousand times
    /// better than their means, which makes a full covariance slow to fit.
    fn pooled(&self, how: How) -> Result<Found> {
        let model = Pooled::new(self.world.parties()?, self.world.labels()?, Augmentation::None)?;
        let options = self.fit_options(AlgorithmChoice::Central, Gaussian::diagonal());
        let fit = fit(&model, &[("all".to_owned(), ())], self.world.device(), &options, None)?;
        let (kept, elbo) = (unknowns(&fit.draws), Some((fit.report.elbo, fit.report.elbo_se)));
        Ok(Found { how, moments: moments(&kept), draws: kept, elbo, quality: None, seconds: fit.report.seconds })
    }

    /// The augmented-variable algorithm over parties and messages with amortised auxiliary variables.
    fn federated(&self, how: How, rho: f64) -> Result<Found> {
        // With a starting standard deviation of rho, the exponentials of a few draws of log rates would dominate a
        // step.
        let auxiliary = AuxiliaryFamily::AmortisedScale { hidden: 8, start: FIRST_SCALE };
        let algorithm = AlgorithmChoice::Vertical(VerticalOptions { auxiliary, ..VerticalOptions::augmented(rho) });
        let options = self.fit_options(algorithm, Gaussian::full_rank());
        let own = self.world.parties()?;
        let fit = fit_vertical(&own, &self.world.labels()?, self.world.device(), &options, None)?;
        let mut draws = Draws::new();
        for party in &own {
            draws.extend(fit.draws_of(party.name())?.into_iter().map(|(site, label, values)| {
                let name = party.name();
                (format!("{name}.{site}"), format!("{name}.{label}"), values)
            }));
        }
        let (kept, elbo) = (unknowns(&draws), Some((fit.report.elbo, fit.report.elbo_se)));
        Ok(Found { how, moments: moments(&kept), draws: kept, elbo, quality: None, seconds: fit.report.seconds })
    }
}

/// The draws of means, then those of coefficients, party by party.
fn unknowns(draws: &Draws) -> Vec<Vec<f64>> {
    let of = |site: &'static str| {
        (0..world::PARTIES).flat_map(move |place| {
            let name = format!("{}.{site}", world::name(place));
            draws.iter().filter(move |(own, _, _)| *own == name).map(|(_, _, values)| values.clone())
        })
    };
    of("mu").chain(of("beta")).collect()
}
