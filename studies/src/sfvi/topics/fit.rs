//! Fits topics by one method, stage by stage, and measures the bound, held-out documents and coherence.

use std::path::Path;

use partita::core::{Array, Key, Noise, Purpose};
use partita::inference::metrics::{top_words, umass_coherence};
use partita::inference::{
    Algorithm, AveragingSilo, ElboEstimate, InProcess, Posterior, RoundOptions, RunOptions, RunRecord, Sfvi, SfviAvg,
    Silent, Silo, SiloProgram, estimate_elbo, run, write_atomically,
};
use partita::models::KnownTopics;
use partita::{
    AlgorithmChoice, Device, FamilyPlan, FitOptions, Gaussian, Model, Schedule, Settings, SiteTable, SparseRows, fit,
};
use serde::{Deserialize, Serialize};

use super::memory::{cpu_seconds, peak, reset_peak};
use super::{Options, Setup, Way, tokens};
use crate::harness::{Result, mean};

/// Words of a topic that are compared and enter the coherence.
const TOP: usize = 10;
/// Draws of the posterior of the topics that are averaged.
const TOPIC_DRAWS: u32 = 32;

/// The bound on all documents of a method after some steps.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Stage {
    pub(crate) steps: u64,
    pub(crate) rounds: u64,
    pub(crate) bytes: u64,
    pub(crate) seconds: f64,
    pub(crate) cpu_seconds: f64,
    pub(crate) elbo: f64,
    pub(crate) elbo_se: f64,
    /// The largest resident memory of this method so far.
    pub(crate) peak_megabytes: f64,
}

/// The result of one method.
#[derive(Debug, Serialize)]
pub(crate) struct Fitted {
    pub(crate) way: Way,
    pub(crate) name: &'static str,
    pub(crate) stages: Vec<Stage>,
    pub(crate) gradient_evaluations: u64,
    pub(crate) tokens: f64,
    pub(crate) elbo_per_token: f64,
    /// With weights trained for each held-out document, given the topics and alpha.
    pub(crate) held_out_per_token: f64,
    /// The same bound with the encoder alone; nothing is trained.
    pub(crate) encoder_held_out_per_token: Option<f64>,
    pub(crate) coherence: Vec<f64>,
    pub(crate) mean_coherence: f64,
    pub(crate) alpha: f64,
    pub(crate) beta: f64,
    pub(crate) peak_megabytes: f64,
    pub(crate) local_numbers: usize,
    pub(crate) topics: Vec<Vec<String>>,
}

impl Fitted {
    pub(crate) fn last(&self) -> Stage {
        self.stages[self.stages.len() - 1]
    }
}

impl Setup {
    /// Fits one method, stage by stage, and measures it.
    pub(super) fn one<M: Model<Data = SparseRows> + 'static>(
        &self,
        way: Way,
        model: &M,
        encoder_alone: impl FnOnce(&dyn Algorithm, &Settings) -> Result<Option<f64>>,
    ) -> Result<Fitted> {
        let silos = match way.alone() {
            Some(silo) => &self.silos[silo..=silo],
            None => &self.silos,
        };
        let settings = self.settings();
        reset_peak();
        let (mut algorithm, mut exchange) = self.parties(way, model, silos, &settings)?;
        let stages = self.stages(way, &mut *algorithm, &mut exchange)?;
        let posterior = algorithm.posterior();
        let topics = mean_topics(model, &self.device, posterior, self.options.shared.seed)?;
        let (words, coherence) = self.words(&topics)?;
        let (alpha, beta) = (posterior.theta[0], posterior.theta[1].exp());
        let count: f64 = silos.iter().map(|(_, counts)| tokens(counts)).sum();
        let local_numbers = match way {
            Way::Amortised => posterior.theta.len() - 2,
            _ => silos.iter().map(|(_, counts)| 2 * self.options.topics * counts.rows()).sum(),
        };
        let last = stages[stages.len() - 1];
        Ok(Fitted {
            way,
            name: way.name(),
            gradient_evaluations: last.steps,
            tokens: count,
            elbo_per_token: last.elbo / count,
            held_out_per_token: self.held_out(topics, alpha)?,
            encoder_held_out_per_token: encoder_alone(&*algorithm, &settings)?,
            mean_coherence: mean(&coherence),
            coherence,
            alpha,
            beta,
            peak_megabytes: last.peak_megabytes,
            local_numbers,
            topics: words,
            stages,
        })
    }

    fn settings(&self) -> Settings {
        let Options { shared, pace, steps, scatter, rate, batch, .. } = &self.options;
        Settings {
            steps: *steps,
            seed: shared.seed,
            family: FamilyPlan::new().global(Gaussian::diagonal()).scattered(*scatter, shared.seed),
            schedule: pace.schedule(*rate),
            minibatch: [("document".to_owned(), *batch)].into(),
            ..Settings::default()
        }
    }

    /// The most probable words of each topic, and their coherence.
    fn words(&self, topics: &Array) -> Result<(Vec<Vec<String>>, Vec<f64>)> {
        let (mut words, mut coherence) = (Vec::new(), Vec::new());
        for topic in topics.values.chunks_exact(topics.shape[1]) {
            let top = top_words(topic, TOP)?;
            coherence.push(umass_coherence(&top, &self.reference)?);
            words.push(top.into_iter().map(|word| self.vocabulary[word].clone()).collect());
        }
        Ok((words, coherence))
    }

    fn parties<M: Model<Data = SparseRows> + 'static>(
        &self,
        way: Way,
        model: &M,
        silos: &[(String, SparseRows)],
        settings: &Settings,
    ) -> Result<(Box<dyn Algorithm>, InProcess)> {
        let device = &self.device;
        let averages = matches!(way, Way::Avg | Way::AvgScaled);
        let mut programs: Vec<Box<dyn SiloProgram>> = Vec::new();
        for ((name, counts), index) in silos.iter().zip(0_u32..) {
            let silo = Silo::new(name, index, model, counts, device, settings)?;
            programs.push(if averages { Box::new(AveragingSilo::new(silo, index)) } else { Box::new(silo) });
        }
        let names: Vec<String> = silos.iter().map(|(name, _)| name.clone()).collect();
        let algorithm: Box<dyn Algorithm> = if averages {
            let sizes = silos.iter().map(|(_, counts)| counts.rows()).collect();
            let scale_entropy = way == Way::AvgScaled;
            let rounds = RoundOptions { scale_entropy, ..RoundOptions::paper(self.options.local_steps) };
            Box::new(SfviAvg::new(model, device, settings, &names, sizes, rounds)?)
        } else {
            Box::new(Sfvi::new(model, device, settings, &names)?)
        };
        Ok((algorithm, InProcess::new(programs, self.options.shared.threads)?))
    }

    /// Runs to the end, with the bound on all documents at every stage.
    fn stages(&self, way: Way, algorithm: &mut dyn Algorithm, exchange: &mut InProcess) -> Result<Vec<Stage>> {
        let folder = self.session.state(&way.to_string())?.folder;
        let curve = folder.join("stages.json");
        let mut stages: Vec<Stage> = match curve.exists() {
            true => serde_json::from_str(&std::fs::read_to_string(&curve)?)?,
            false => Vec::new(),
        };
        let (done, count) = (stages.last().map_or(0, |stage| stage.steps), self.options.stages.max(1));
        // A run may have been interrupted after its checkpoint and before its bound was recorded.
        let mut resumed = match done {
            0 => None,
            _ => Some(run(algorithm, exchange, &RunOptions { resume: true, ..until(done, &folder) }, &mut Silent)?),
        };
        for target in (1..=count).map(|stage| self.options.steps * stage / count).filter(|target| *target > done) {
            self.session.check()?;
            let before = cpu_seconds();
            let mut record = match resumed.take().filter(|record| reached(record) >= target) {
                Some(record) => record,
                None => run(algorithm, exchange, &until(target, &folder), &mut Silent)?,
            };
            let spent = cpu_seconds() - before;
            let bound = estimate_elbo(algorithm, exchange, 4, &mut record.counters)?;
            stages.push(Stage::new(stages.last(), &record, spent, &bound));
            write_atomically(&curve, serde_json::to_string(&stages)?.as_bytes())?;
        }
        Ok(stages)
    }

    /// The bound a token of held-out documents, with weights trained for them and the topics known.
    fn held_out(&self, topics: Array, alpha: f64) -> Result<f64> {
        let model = KnownTopics::new(topics, alpha, self.link)?;
        let settings = Settings {
            steps: if self.options.shared.quick { 30 } else { 300 },
            seed: self.options.shared.seed,
            family: FamilyPlan::new().local(Gaussian::diagonal()),
            schedule: Schedule::Cosine { initial: 0.1, last: 0.0 },
            ..Settings::default()
        };
        let options = FitOptions {
            algorithm: AlgorithmChoice::Central,
            settings,
            elbo_draws: 10,
            summary_draws: 2,
            ..FitOptions::default()
        };
        let silos = [("held out".to_owned(), self.held_out.clone())];
        Ok(fit(&model, &silos, &self.device, &options, None)?.report.elbo / tokens(&self.held_out))
    }
}

impl Stage {
    /// The stage after `before`; the counters of a record are those of its own run.
    fn new(before: Option<&Self>, record: &RunRecord, cpu_seconds: f64, bound: &ElboEstimate) -> Self {
        let of = |count: fn(&Self) -> u64| before.map_or(0, count);
        let time = |seconds: fn(&Self) -> f64| before.map_or(0.0, seconds);
        Self {
            steps: reached(record),
            rounds: of(|stage| stage.rounds) + record.counters.rounds,
            bytes: of(|stage| stage.bytes) + record.counters.bytes_to_silos + record.counters.bytes_from_silos,
            seconds: time(|stage| stage.seconds) + record.seconds,
            cpu_seconds: time(|stage| stage.cpu_seconds) + cpu_seconds,
            elbo: bound.elbo,
            elbo_se: bound.standard_error,
            peak_megabytes: peak().max(time(|stage| stage.peak_megabytes)),
        }
    }
}

/// The options of a run to `steps` steps, with a checkpoint at its end.
fn until(steps: u64, folder: &Path) -> RunOptions {
    RunOptions { steps, checkpoint: Some((folder.to_owned(), steps)), ..RunOptions::default() }
}

/// The step of the whole fit at which a part of it ended.
fn reached(record: &RunRecord) -> u64 {
    record.trace.last().map_or(0, |(step, _)| *step)
}

/// The exponential of the posterior mean of the topics' logarithms, `[topics, vocabulary]`.
fn mean_topics<M: Model>(model: &M, device: &Device, posterior: Posterior<'_>, seed: u64) -> Result<Array> {
    let table = SiteTable::globals(model, device)?;
    let mut mean: Option<Array> = None;
    for draw in 0..TOPIC_DRAWS {
        let mut noise = vec![0.0; posterior.family.noise_len()];
        Noise::new(seed).stream(Key::new(Purpose::Report, 1).particle(draw)).normal(&mut noise);
        let latent = posterior.family.draw(posterior.parameters, &noise).latent;
        let Some((_, topics)) = table.natural_globals(model, device, &latent)?.into_iter().next() else {
            return Err("the model has no topics".into());
        };
        let sum = mean.get_or_insert_with(|| Array { values: vec![0.0; topics.len()], shape: topics.shape.clone() });
        sum.values.iter_mut().zip(&topics.values).for_each(|(slot, x)| *slot += x.ln() / f64::from(TOPIC_DRAWS));
    }
    let mut topics = mean.ok_or("no draw of the topics")?;
    topics.values.iter_mut().for_each(|x| *x = x.exp());
    Ok(topics)
}
