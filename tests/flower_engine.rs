//! Runs federated fits through a real SuperLink and two SuperNodes: the bits are those of one process.

#![allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]

#[path = "fixtures/engine.rs"]
mod engine;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::{Deployment, Pace, installed};
use partita::flower::{CoordinatorOptions, Engine, Flower, Keeper, Patience, SiloOptions, serve};
use partita::inference::{AlgorithmChoice, RunOptions, Silent, coordinator, run, silo_program};
use partita::models::{MixedLogistic, RepeatedBinary, six_cities_silos};
use partita::{
    Device, FamilyPlan, FitOptions, Gaussian, PviOptions, RoundOptions, Schedule, Settings, VisitSchedule, fit,
};

const IDENTITY: &str = "six cities";

fn options(algorithm: AlgorithmChoice, steps: u64) -> FitOptions {
    let family = FamilyPlan::new().global(Gaussian::full_rank()).local(Gaussian::diagonal().given_globals());
    let settings = Settings { steps, family, schedule: Schedule::Constant { rate: 0.01 }, ..Settings::default() };
    FitOptions { algorithm, settings, elbo_draws: 10, summary_draws: 0, ..FitOptions::default() }
}

fn silos() -> Vec<(String, RepeatedBinary)> {
    let device = Device::flex();
    let parts = six_cities_silos();
    let names = ["north", "south"];
    names
        .iter()
        .zip(parts)
        .map(|(name, part)| ((*name).to_owned(), RepeatedBinary::six_cities(&part, &device).unwrap()))
        .collect()
}

/// A silo on a thread, as its executable runs it.
fn silo(
    index: usize,
    engine: Engine,
    folder: &Path,
    fit: &FitOptions,
    stop: &Arc<AtomicBool>,
) -> std::thread::JoinHandle<()> {
    let (folder, fit, stop) = (folder.join(format!("silo-{index}")), fit.clone(), Arc::clone(stop));
    std::thread::spawn(move || {
        let data = silos();
        let names: Vec<String> = data.iter().map(|(name, _)| name.clone()).collect();
        let make = {
            let (names, own, fit) = (names.clone(), data[index].1.clone(), fit.clone());
            move || Ok(silo_program(&MixedLogistic::new(4), (&names, index as u32), &own, &Device::flex(), &fit)?.0)
        };
        let rows = silo_program(&MixedLogistic::new(4), (&names, index as u32), &data[index].1, &Device::flex(), &fit)
            .unwrap()
            .1;
        let mut keeper = Keeper::open(&folder, Box::new(make)).unwrap();
        let allow = ["sfvi", "avg", "pvi"].map(str::to_owned).to_vec();
        let options = SiloOptions { name: names[index].clone(), engine, allow, largest_request: 1 << 30 };
        let mut log = |_: &str| {};
        serve(&options, (IDENTITY, rows as u64), &mut keeper, &stop, &mut log).unwrap();
    })
}

/// The parameters of the posterior after a run over the engine.
fn over_the_engine(deployment: &Deployment, folder: &Path, fit: &FitOptions) -> Vec<f64> {
    let stop = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..2).map(|index| silo(index, deployment.silo(index), folder, fit, &stop)).collect();
    let names = ["north", "south"].map(str::to_owned).to_vec();
    let how = CoordinatorOptions {
        engine: deployment.coordinator(),
        silos: names.clone(),
        patience: Patience { appear_seconds: 60, deadline_seconds: 120, attempts: 3, ..Patience::default() },
        quorum: 2,
    };
    let mut exchange = Flower::connect(how, IDENTITY).unwrap();
    let rows: Vec<usize> = exchange.rows().iter().map(|rows| *rows as usize).collect();
    let mut algorithm = coordinator(&MixedLogistic::new(4), (&names, &rows), &Device::flex(), fit).unwrap();
    let how = RunOptions { steps: fit.settings.steps, ..RunOptions::default() };
    run(&mut *algorithm, &mut exchange, &how, &mut Silent).unwrap();
    let found = algorithm.posterior().parameters.to_vec();
    assert!(exchange.history().is_empty(), "{:?}", exchange.history());
    assert!(exchange.bytes().iter().all(|bytes| *bytes > 1_000), "{:?}", exchange.bytes());
    exchange.end(None).unwrap();
    stop.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    found
}

fn in_one_process(how: &FitOptions) -> Vec<f64> {
    let found = fit(&MixedLogistic::new(4), &silos(), &Device::flex(), how, None).unwrap();
    found.posterior().parameters.to_vec()
}

#[test]
fn averaging_over_a_stock_deployment_has_the_bits_of_one_process() {
    let Some(programs) = installed() else { return };
    let folder = tempfile::tempdir().unwrap();
    let deployment = Deployment::start(&programs, folder.path(), 2, Pace::Stock);
    let how = options(AlgorithmChoice::SfviAvg(RoundOptions::paper(100)), 300);
    assert_eq!(over_the_engine(&deployment, folder.path(), &how), in_one_process(&how));
}

#[test]
fn structured_partitioned_inference_over_the_engine_has_the_bits_of_one_process() {
    let Some(programs) = installed() else { return };
    let folder = tempfile::tempdir().unwrap();
    let deployment = Deployment::start(&programs, folder.path(), 2, Pace::Capped);
    let together = PviOptions { schedule: VisitSchedule::Synchronous, ..PviOptions::new(100) };
    for (index, algorithm) in [PviOptions::new(100), together].into_iter().enumerate() {
        let how = options(AlgorithmChoice::Pvi(algorithm), 400);
        let own = folder.path().join(format!("run-{index}"));
        assert_eq!(over_the_engine(&deployment, &own, &how), in_one_process(&how));
    }
}
