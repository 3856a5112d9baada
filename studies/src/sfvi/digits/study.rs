//! Runs one row of the table: a method on one split of the images, and the accuracy of its posterior.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use partita::inference::metrics::{self, Predictions};
use partita::inference::{Counters, LogPool, ParameterMean, Posterior, Progress, RunRecord, StepInfo};
use partita::models::{ClassifiedRows, MultinomialRegression};
use partita::{AlgorithmChoice, FamilyPlan, Fit, FitOptions, Gaussian, RoundOptions, Settings, fit};
use rayon::prelude::*;
use serde_json::{Value, json};

use super::{Options, World, pictures};
use crate::harness::{Failure, Result, mean};

/// Pixels and classes.
pub(crate) const SHAPE: [usize; 2] = [784, 10];

/// Rounds of the warm start.
pub(crate) const WARM_ROUNDS: u64 = 5;

/// Draws for a bound.
const ELBO_DRAWS: usize = 64;

/// One half of the table.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) silos: usize,
    /// Images in each silo.
    pub(crate) rows: usize,
    /// The paper's accuracies in per cent, train and test, in the order of [`Method::ALL`].
    pub(crate) paper: &'static [[f64; 2]],
}

pub(crate) const SMALL: Case =
    Case { name: "small", silos: 25, rows: 200, paper: &[[73.0, 51.5], [65.7, 63.9], [71.3, 69.3], [83.8, 84.0]] };

pub(crate) const LARGE: Case =
    Case { name: "large", silos: 5, rows: 10_000, paper: &[[88.7, 86.8], [90.4, 90.4], [90.1, 90.2], [90.7, 90.8]] };

/// To test that it runs: no row of the paper.
pub(crate) const QUICK: Case = Case { name: "quick", silos: 4, rows: 200, paper: &[] };

/// The silos of a case for one seed.
pub(crate) struct Split {
    pub(crate) case: &'static Case,
    pub(crate) seed: u64,
    pub(crate) silos: Vec<(String, ClassifiedRows)>,
}

/// A method of fitting the silos.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    /// Every silo alone; accuracies are means over silos.
    Independent,
    /// One round of SFVI-Avg: posteriors averaged once, afterwards.
    OneRound,
    /// SFVI-Avg.
    Rounds,
    /// SFVI from scratch.
    Sfvi,
    /// A few rounds, then SFVI.
    Warm,
    /// SFVI-Avg with the logarithmic pool.
    LogPool,
    /// SFVI-Avg with the mean of means and of log scales.
    ParameterMean,
    /// SFVI-Avg whose silos keep their optimisers between rounds.
    KeptOptimiser,
    /// SFVI-Avg with a tenth of the steps in the same number of rounds.
    ShortRounds,
}

impl Method {
    pub(crate) const ALL: [Self; 9] = [
        Self::Independent,
        Self::OneRound,
        Self::Rounds,
        Self::Sfvi,
        Self::Warm,
        Self::LogPool,
        Self::ParameterMean,
        Self::KeptOptimiser,
        Self::ShortRounds,
    ];

    /// The number of methods in the paper, which come first.
    pub(crate) const OF_THE_PAPER: usize = 4;

    pub(crate) fn slug(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    fn label(self, options: &Options) -> String {
        let Options { steps, local_steps, .. } = *options;
        match self {
            Self::Independent => "independent".into(),
            Self::OneRound => format!("SFVI-Avg({steps})"),
            Self::Rounds => format!("SFVI-Avg({local_steps})"),
            Self::Sfvi => "SFVI".into(),
            Self::Warm => format!("SFVI after {WARM_ROUNDS} rounds"),
            Self::LogPool => format!("SFVI-Avg({local_steps}), log pool"),
            Self::ParameterMean => format!("SFVI-Avg({local_steps}), means"),
            Self::KeptOptimiser => format!("SFVI-Avg({local_steps}), kept"),
            Self::ShortRounds => format!("SFVI-Avg({})", short(local_steps)),
        }
    }

    /// The algorithm, the steps a silo takes and the rounds they take.
    fn plan(self, options: &Options) -> (AlgorithmChoice, u64, u64) {
        let Options { steps, rounds, local_steps, .. } = *options;
        let paper = RoundOptions::paper(local_steps);
        let averaged = |how: RoundOptions| {
            let steps = rounds * how.local_steps;
            (AlgorithmChoice::SfviAvg(how), steps, rounds)
        };
        match self {
            Self::Independent => (AlgorithmChoice::Sfvi, steps, 0),
            Self::Sfvi => (AlgorithmChoice::Sfvi, steps, steps),
            Self::OneRound => (AlgorithmChoice::SfviAvg(RoundOptions::paper(steps)), steps, 1),
            Self::Rounds => averaged(paper),
            Self::LogPool => averaged(RoundOptions { averaging: LogPool.into(), ..paper }),
            Self::ParameterMean => averaged(RoundOptions { averaging: ParameterMean.into(), ..paper }),
            Self::KeptOptimiser => averaged(RoundOptions { keep_optimiser: true, ..paper }),
            Self::ShortRounds => averaged(RoundOptions::paper(short(local_steps))),
            Self::Warm => {
                let warm = RoundOptions { most: Some(WARM_ROUNDS), ..paper };
                (AlgorithmChoice::SfviAvg(warm), WARM_ROUNDS * local_steps + steps, WARM_ROUNDS + steps)
            }
        }
    }

    /// Fits and predicts; `name` is the name of the fit's checkpoints.
    pub(crate) fn row(self, world: &World, split: &Split, name: &str) -> Result<Value> {
        let (start, Split { case, seed, silos }) = (Instant::now(), split);
        let (algorithm, steps, rounds) = self.plan(&world.options);
        let settings = settings(&world.options, steps, *seed);
        let mut row = json!({
            "case": case.name,
            "silos": case.silos,
            "rows_per_silo": case.rows,
            "method": self.label(&world.options),
            "slug": self.slug(),
            "seed": seed,
            "rounds": rounds,
            "steps": steps,
            "paper": Method::ALL.iter().position(|method| *method == self).and_then(|index| case.paper.get(index)),
            "settings": settings_of(&world.options),
        });
        if self == Self::Independent {
            let [train, test] = independent(world, silos, &settings)?;
            (row["train"], row["test"]) = (train.into(), test.into());
        } else {
            let place = world.session.state(name)?.folder;
            let (fit, half) = fit_with_pause(world, silos, (algorithm, &settings), &place)?;
            row["elbo_at_half"] = half.into();
            self.judge(world, split, &fit, &mut row)?;
            std::fs::remove_dir_all(&place)?;
        }
        row["seconds"] = start.elapsed().as_secs_f64().into();
        Ok(row)
    }

    /// The accuracy of a fit's posterior, and its costs.
    fn judge(self, world: &World, Split { case, seed, silos }: &Split, fit: &Fit, row: &mut Value) -> Result<()> {
        let model = MultinomialRegression::new(SHAPE, &world.device);
        let judged = (*seed, world.options.draws);
        let right = |(_, silo): &(String, ClassifiedRows)| {
            Ok::<_, Failure>(accuracy(&model, silo, fit.posterior(), judged, &world.device)?.0)
        };
        let train = mean(&silos.iter().map(right).collect::<Result<Vec<f64>>>()?);
        let (test, probabilities) = accuracy(&model, &world.test, fit.posterior(), judged, &world.device)?;
        (row["train"], row["test"]) = (train.into(), test.into());
        (row["elbo"], row["elbo_se"]) = (fit.report.elbo.into(), fit.report.elbo_se.into());
        row["bytes"] = fit.report.bytes.into();
        let theta = &fit.report.theta;
        (row["sigma_weights"], row["sigma_intercepts"]) = (theta[0].exp().into(), theta[1].exp().into());
        let predictions = Predictions::new(&probabilities, SHAPE[1], world.test.labels())?;
        row["test_log_likelihood"] = metrics::test_log_likelihood(&predictions).into();
        row["calibration_error"] = metrics::expected_calibration_error(&predictions).into();
        if self == Self::Sfvi && *seed == world.options.shared.seed {
            pictures::draw(world, case, fit.posterior(), &predictions)?;
        }
        Ok(())
    }
}

fn short(local_steps: u64) -> u64 {
    (local_steps / 10).max(1)
}

/// The settings on which a row depends, to recognise rows of an earlier run.
pub(crate) fn settings_of(options: &Options) -> Value {
    let Options { steps, rounds, local_steps, rate, draws, .. } = options;
    json!({ "steps": steps, "rounds": rounds, "local_steps": local_steps, "rate": rate, "draws": draws })
}

/// Mean-field q, one draw a step.
pub(crate) fn settings(options: &Options, steps: u64, seed: u64) -> Settings {
    Settings {
        steps,
        seed,
        // On the standardised scale a weight without support in the data has the posterior N(0, 1).
        family: FamilyPlan::new().global(Gaussian::diagonal()).initial_scale(0.5),
        schedule: options.pace.schedule(options.rate),
        ..Settings::default()
    }
}

/// Every silo alone: mean accuracies on its own images and on the test images.
fn independent(world: &World, silos: &[(String, ClassifiedRows)], settings: &Settings) -> Result<[f64; 2]> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(world.options.shared.threads).build()?;
    let (device, draws, seed) = (&world.device, world.options.draws, settings.seed);
    let flag = &world.session.interrupt();
    let items: Vec<_> = silos.iter().map(|silo| (silo.clone(), world.test.clone())).collect();
    let alone = |(silo, test): ((String, ClassifiedRows), ClassifiedRows)| -> Result<[f64; 2]> {
        let model = MultinomialRegression::new(SHAPE, device);
        let options = FitOptions {
            settings: settings.clone(),
            elbo_draws: 1,
            summary_draws: 0,
            interrupt: Some(Arc::clone(flag)),
            ..FitOptions::default()
        };
        let fit = fit(&model, std::slice::from_ref(&silo), device, &options, None)?;
        let own = accuracy(&model, &silo.1, fit.posterior(), (seed, draws), device)?.0;
        Ok([own, accuracy(&model, &test, fit.posterior(), (seed, draws), device)?.0])
    };
    let all: Vec<[f64; 2]> = pool.install(|| items.into_par_iter().map(alone).collect::<Result<_>>())?;
    world.session.check()?;
    Ok([0, 1].map(|index| mean(&all.iter().map(|pair| pair[index]).collect::<Vec<f64>>())))
}

/// Fits with a pause in the middle, at which the bound is measured.
fn fit_with_pause(
    world: &World,
    silos: &[(String, ClassifiedRows)],
    (algorithm, settings): (AlgorithmChoice, &Settings),
    place: &Path,
) -> Result<(Fit, Option<f64>)> {
    std::fs::create_dir_all(place)?;
    let model = MultinomialRegression::new(SHAPE, &world.device);
    let half_file = place.join("elbo_at_half");
    let every = if let AlgorithmChoice::SfviAvg(RoundOptions { local_steps, most: None, .. }) = &algorithm {
        *local_steps
    } else {
        500
    };
    let go = |pause: Option<u64>, resume: bool| -> Result<Fit> {
        let flag = Arc::new(AtomicBool::new(false));
        let mut progress = Pause { pause, flag: Arc::clone(&flag), interrupted: world.session.interrupt() };
        let options = FitOptions {
            algorithm: algorithm.clone(),
            settings: settings.clone(),
            threads: world.options.shared.threads,
            elbo_draws: ELBO_DRAWS,
            summary_draws: 0,
            checkpoint: Some((place.to_owned(), every)),
            resume,
            interrupt: Some(flag),
            ..FitOptions::default()
        };
        let fit = fit(&model, silos, &world.device, &options, Some(&mut progress))?;
        world.session.check()?;
        Ok(fit)
    };
    let has_begun = || Ok::<_, Failure>(partita::inference::latest_checkpoint(place)?.is_some());
    let round = if let AlgorithmChoice::SfviAvg(how) = &algorithm { how.local_steps } else { 1 };
    if round == settings.steps {
        // A single round has no middle.
        return Ok((go(None, has_begun()?)?, None));
    }
    if !half_file.exists() {
        let fit = go(Some(settings.steps / 2), has_begun()?)?;
        std::fs::write(&half_file, fit.report.elbo.to_string())?;
    }
    let half = std::fs::read_to_string(&half_file)?.parse()?;
    Ok((go(None, has_begun()?)?, Some(half)))
}

/// Ends a run at a step, or when the user interrupts it.
struct Pause {
    pause: Option<u64>,
    flag: Arc<AtomicBool>,
    interrupted: Arc<AtomicBool>,
}

impl Progress for Pause {
    fn step(&mut self, info: &StepInfo, _: &Counters) {
        if self.pause.is_some_and(|pause| info.step >= pause) || self.interrupted.load(Ordering::Relaxed) {
            self.flag.store(true, Ordering::Relaxed);
        }
    }

    fn end(&mut self, _: &RunRecord) {}
}

/// The share of rows whose most probable class is right, in per cent, and the probabilities.
fn accuracy(
    model: &MultinomialRegression,
    data: &ClassifiedRows,
    posterior: Posterior<'_>,
    (seed, draws): (u64, u64),
    device: &partita::Device,
) -> Result<(f64, Vec<f64>)> {
    let Posterior { family, parameters, theta } = posterior;
    let draw = |stream: &mut partita::core::NoiseStream| {
        let mut noise = vec![0.0; family.noise_len()];
        stream.normal(&mut noise);
        family.draw(parameters, &noise).latent
    };
    let probabilities = model.predict(data.covariates(), theta, draw, seed, draws, device)?;
    let share = metrics::accuracy(&Predictions::new(&probabilities, SHAPE[1], data.labels())?);
    Ok((100.0 * share, probabilities))
}
