//! Runs federated fits through a real SuperLink and two SuperNodes: the bits are those of one process.

#![allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

#[path = "fixtures/engine.rs"]
mod engine;
#[path = "fixtures/engine_run.rs"]
mod engine_run;

use std::path::Path;

use engine::{Deployment, Pace, installed};
use engine_run::{over_the_engine, rows, seats};
use partita::inference::{AlgorithmChoice, Exchange, RunOptions, Silent, coordinator, run};
use partita::models::{BinaryRows, LogisticRegression, MixedLogistic, RepeatedBinary, Standardisation};
use partita::models::{credit, six_cities_silos};
use partita::{
    Device, FamilyPlan, FitOptions, Gaussian, Model, Noise, PviOptions, RoundOptions, Schedule, Settings, SmallLarge,
    VisitSchedule, fit, partition_small_large,
};

fn options(algorithm: AlgorithmChoice, steps: u64) -> FitOptions {
    let family = FamilyPlan::new().global(Gaussian::full_rank()).local(Gaussian::diagonal().given_globals());
    let settings = Settings { steps, family, schedule: Schedule::Constant { rate: 0.01 }, ..Settings::default() };
    FitOptions { algorithm, settings, elbo_draws: 10, summary_draws: 0, ..FitOptions::default() }
}

fn six_cities() -> Vec<(String, RepeatedBinary)> {
    let device = Device::flex();
    let named = ["north", "south"].into_iter().zip(six_cities_silos());
    named.map(|(name, part)| (name.to_owned(), RepeatedBinary::six_cities(&part, &device).unwrap())).collect()
}

/// The parameters of the posterior after a run over the engine.
fn posterior_over_the_engine<M: Model + 'static>(
    (deployment, folder): (&Deployment, &Path),
    (model, silos): (&M, &[(String, M::Data)]),
    fit: &FitOptions,
) -> Vec<f64>
where
    M::Data: Clone + Send + 'static,
{
    over_the_engine(deployment, folder, seats(model, silos, fit), |exchange| {
        let names = exchange.silos().to_vec();
        let mut algorithm = coordinator(model, (&names, &rows(exchange)), &Device::flex(), fit).unwrap();
        let how = RunOptions { steps: fit.settings.steps, ..RunOptions::default() };
        run(&mut *algorithm, exchange, &how, &mut Silent).unwrap();
        algorithm.posterior().parameters.to_vec()
    })
}

fn in_one_process<M: Model + 'static>((model, silos): (&M, &[(String, M::Data)]), how: &FitOptions) -> Vec<f64> {
    let found = fit(model, silos, &Device::flex(), how, None).unwrap();
    found.posterior().parameters.to_vec()
}

#[test]
fn averaging_over_a_stock_deployment_has_the_bits_of_one_process() {
    let Some(programs) = installed() else { return };
    let folder = tempfile::tempdir().unwrap();
    let deployment = Deployment::start(&programs, folder.path(), 2, Pace::Stock);
    let silos = six_cities();
    let world = (&MixedLogistic::new(4), silos.as_slice());
    let how = options(AlgorithmChoice::SfviAvg(RoundOptions::paper(100)), 300);
    let found = posterior_over_the_engine((&deployment, folder.path()), world, &how);
    assert_eq!(found, in_one_process(world, &how));
}

#[test]
fn structured_partitioned_inference_over_the_engine_has_the_bits_of_one_process() {
    let Some(programs) = installed() else { return };
    let folder = tempfile::tempdir().unwrap();
    let deployment = Deployment::start(&programs, folder.path(), 2, Pace::Capped);
    let silos = six_cities();
    let world = (&MixedLogistic::new(4), silos.as_slice());
    let together = PviOptions { schedule: VisitSchedule::Synchronous, ..PviOptions::new(100) };
    for (index, algorithm) in [PviOptions::new(100), together].into_iter().enumerate() {
        let how = options(AlgorithmChoice::Pvi(algorithm), 400);
        let own = folder.path().join(format!("run-{index}"));
        assert_eq!(posterior_over_the_engine((&deployment, &own), world, &how), in_one_process(world, &how));
    }
}

/// Credit approval at a small and a large silo with different labels, as in split B of the PVI paper.
fn credit_silos() -> Option<(LogisticRegression, Vec<(String, BinaryRows)>)> {
    let Ok(table) = credit() else {
        eprintln!("skipped: credit approval is neither in PARTITA_DATA nor in the cache, and cannot be downloaded");
        return None;
    };
    let noise = Noise::new(1);
    let [train, _] = table.split(0.8, Standardisation::TrainingRows, &noise).unwrap();
    let imbalance = SmallLarge { size_imbalance: 0.3, label_imbalance: -0.7 };
    let parts = partition_small_large(train.labels(), 2, imbalance, &noise).unwrap();
    let silo = |(name, rows): (&str, Vec<usize>)| {
        (name.to_owned(), BinaryRows::encoded(&train.select(&rows).unwrap(), &Device::flex()).unwrap())
    };
    let silos = ["small", "large"].into_iter().zip(parts).map(silo).collect();
    Some((LogisticRegression::new(train.columns()), silos))
}

#[test]
fn credit_approval_by_partitioned_inference_over_the_engine_has_the_bits_of_one_process() {
    let Some(programs) = installed() else { return };
    let Some((model, silos)) = credit_silos() else { return };
    let folder = tempfile::tempdir().unwrap();
    let deployment = Deployment::start(&programs, folder.path(), 2, Pace::Capped);
    let world = (&model, silos.as_slice());
    // The settings of the example `pvi_uci`: three sweeps over both silos, with minibatches.
    let settings = Settings {
        steps: 6 * 300,
        particles: 4,
        family: FamilyPlan::new().global(Gaussian::diagonal()).initial_scale(1.0),
        schedule: Schedule::Cosine { initial: 1e-2, last: 0.0 },
        minibatch: [("row".to_owned(), 64)].into(),
        ..Settings::default()
    };
    let algorithm = AlgorithmChoice::Pvi(PviOptions::new(300));
    let how = FitOptions { algorithm, settings, elbo_draws: 10, summary_draws: 0, ..FitOptions::default() };
    let found = posterior_over_the_engine((&deployment, folder.path()), world, &how);
    assert_eq!(found, in_one_process(world, &how));
}
