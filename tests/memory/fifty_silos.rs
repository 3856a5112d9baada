//! Holds the memory of a coordinator of fifty silos with a million parameters to a bound that does not grow with silos.

#![expect(clippy::print_stdout, reason = "the measures are printed")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use fixtures::engine::{Deployment, installed};
use fixtures::table::{IDENTITY, Served, how, patience, program};
use partita::flower::{Engine, Flower, LostSilo};
use partita::inference::{AlgorithmChoice, Exchange, RunOptions, Silent, coordinator, run};
use partita::models::{BinaryRows, LogisticRegression};
use partita::{Device, FamilyPlan, FitOptions, Gaussian, Schedule, Settings};

/// With the intercept half a million latents, each with a mean and a log standard deviation.
const COLUMNS: usize = 499_999;
const SILOS: usize = 50;
const STEPS: u64 = 2;
/// The answers of a step together, in MB: a gradient by half a million latents of each silo.
const ANSWERS_OF_A_STEP: f64 = 8.0 * 0.5 * SILOS as f64;

/// What the coordinator of another process is told.
const ADDRESS: &str = "PARTITA_TEST_ADDRESS";
const ANSWERS: &str = "PARTITA_TEST_ANSWERS";

fn options() -> FitOptions {
    let algorithm = AlgorithmChoice::Sfvi;
    let family = FamilyPlan::new().global(Gaussian::diagonal());
    let settings =
        Settings { steps: STEPS, family, schedule: Schedule::Constant { rate: 0.01 }, ..Settings::default() };
    FitOptions { algorithm, settings, elbo_draws: 0, summary_draws: 0, ..FitOptions::default() }
}

fn names() -> Vec<String> {
    (0..SILOS).map(|index| format!("silo-{index:02}")).collect()
}

/// The most memory that this process has had, in MB.
fn most() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1_024.0
}

/// The coordinator, where this process is one: its memory is no other party's.
#[test]
fn a_coordinator_in_a_process_of_its_own() {
    let Ok(address) = std::env::var(ADDRESS) else { return };
    let fit = options();
    let how = how(Engine::insecure(&address), &names(), SILOS, patience(300, LostSilo::Fail));
    let mut exchange = Flower::connect_with(how, IDENTITY, Arc::new(|line| println!("{line}"))).unwrap();
    println!("connected: {:.0} MB", most());
    let sizes = vec![2; SILOS];
    let model = LogisticRegression::new(COLUMNS);
    let mut algorithm = coordinator(&model, &names(), &sizes, &Device::flex(), &fit).unwrap();
    println!("begins: {:.0} MB", most());
    if std::env::var(ANSWERS).unwrap() == "in turn" {
        let steps = RunOptions { steps: STEPS, ..RunOptions::default() };
        run(&mut *algorithm, &mut exchange, &steps, &mut Silent).unwrap();
    } else {
        // The fault: all answers are held before one is looked at.
        let requests = algorithm.outgoing().unwrap();
        let outcomes = exchange.exchange(requests, algorithm.manifest(), None).unwrap();
        algorithm.incoming(outcomes).unwrap();
    }
    println!("bytes: {:?}", exchange.bytes());
    println!("peak: {:.0} MB", most());
    exchange.end(None).unwrap();
}

/// The peak of a coordinator of all silos, in MB.
fn peak(programs: &Path, answers: &str) -> f64 {
    let scratch = tempfile::tempdir().unwrap();
    let deployment = Deployment::forked(programs, scratch.path(), 0);
    let address = deployment.coordinator().address;
    let (fit, model, device) = (options(), LogisticRegression::new(COLUMNS), Device::flex());
    let inputs: Vec<f64> = (0..2 * COLUMNS).map(|place| if place % 3 == 0 { 0.5 } else { -0.25 }).collect();
    let rows = BinaryRows::new(&inputs, COLUMNS, &[true, false], &device).unwrap();
    let silos: Vec<_> = names().into_iter().map(|name| (name, rows.clone())).collect();
    let serve = |(index, name): (u32, String)| {
        let made = fixtures::command(scratch.path(), &["keys", "silo", &name]);
        assert!(made.status.success(), "{name} has no key");
        let key = Some(scratch.path().join(format!("{name}.key")));
        let engine = Engine { key, ..Engine::insecure(&address) };
        let (make, rows) = program((&model, &silos), index, &fit);
        Served::start((&name, rows), engine, scratch.path(), IDENTITY, make)
    };
    let served: Vec<Served> = (0..).zip(names()).map(serve).collect();
    let mut own = Command::new(std::env::current_exe().unwrap());
    own.args(["fifty_silos::a_coordinator_in_a_process_of_its_own", "--exact", "--nocapture"]);
    own.env(ADDRESS, &address).env(ANSWERS, answers).stderr(Stdio::inherit());
    let said = own.output().unwrap();
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    println!("{answers}: {said}");
    let first = served[0].said();
    served.iter().for_each(Served::stop);
    served.into_iter().for_each(|silo| silo.end().unwrap());
    let line = said.lines().find_map(|line| line.strip_prefix("peak: "));
    let line = line.unwrap_or_else(|| panic!("the coordinator has not ended:\n{said}\nthe first silo:\n{first}"));
    line.trim_end_matches(" MB").parse().unwrap()
}

#[test]
fn a_coordinator_of_fifty_silos_with_a_million_parameters_stays_below_two_hundred_megabytes() {
    let Some(programs) = installed() else { return };
    let _alone = crate::ALONE.lock();
    let found = peak(&programs, "in turn");
    assert!(found <= 200.0, "{found} MB");
    // Without the turns the answers of all silos are held.
    let found = peak(&programs, "all at once");
    assert!(found > ANSWERS_OF_A_STEP, "all answers at once take {found} MB");
}
