//! Starts the executables as the how-to page does: a coordinator, two silos, and a silo and a coordinator that are killed.

#![allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]

#[path = "fixtures/engine.rs"]
mod engine;

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use engine::{Deployment, Pace, Running, installed};
use partita::executables::{CoordinatorFile, SiloFile};
use partita::flower::{Engine, read_toml};
use serde_json::Value;

const ROUNDS: u64 = 6;

/// Writes the files of a run into a folder.
fn files(folder: &Path, deployment: &Deployment) {
    let run = format!(
        "model = \"six-cities\"\nalgorithm = \"sfvi-avg\"\nsilos = [\"north\", \"south\"]\nsteps = {}\nlocal_steps = 50\n",
        50 * ROUNDS
    );
    std::fs::write(folder.join("run.toml"), run).unwrap();
    let engine = |engine: Engine| format!("[engine]\naddress = \"{}\"\npatience_seconds = 60\n", engine.address);
    for (index, name) in ["north", "south"].iter().enumerate() {
        let text = format!(
            "name = \"{name}\"\nallow = [\"avg\", \"sfvi\"]\ndata = \"example:{}\"\nstate = \"{name}-state\"\n{}",
            index + 1,
            engine(deployment.silo(index))
        );
        std::fs::write(folder.join(format!("{name}.toml")), text).unwrap();
    }
    let text = format!(
        "state = \"coordinator-state\"\noutput = \"output\"\nappear_seconds = 120\ndeadline_seconds = 120\n{}",
        engine(deployment.coordinator())
    );
    std::fs::write(folder.join("coordinator.toml"), text).unwrap();
}

fn start(folder: &Path, program: &str, arguments: &[&str], log: &str) -> Running {
    let log = File::options().create(true).append(true).open(folder.join(log)).unwrap();
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    Running::spawn(command.stdout(log.try_clone().unwrap()).stderr(log))
}

fn silo(folder: &Path, name: &str) -> Running {
    start(folder, env!("CARGO_BIN_EXE_partita-silo"), &["--silo", &format!("{name}.toml")], &format!("{name}.log"))
}

fn coordinator(folder: &Path, arguments: &[&str]) -> Running {
    start(folder, env!("CARGO_BIN_EXE_partita-coordinator"), arguments, "coordinator.log")
}

fn log(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).unwrap_or_default()
}

/// Waits until a log says so many times what happened.
fn wait_for(folder: &Path, name: &str, words: &str, times: usize) {
    let started = Instant::now();
    while log(folder, name).matches(words).count() < times {
        assert!(started.elapsed() < Duration::from_secs(200), "{name} never said `{words}`:\n{}", log(folder, name));
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn wait_for_end(folder: &Path, running: &mut Running) {
    let started = Instant::now();
    while !running.is_over() {
        assert!(started.elapsed() < Duration::from_secs(300), "it has not ended:\n{}", log(folder, "coordinator.log"));
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// What a run found: the posterior of every number and the bound.
fn found(folder: &Path) -> Value {
    let path = folder.join("output/result.json");
    let Ok(bytes) = std::fs::read(&path) else { panic!("no result:\n{}", log(folder, "coordinator.log")) };
    let report: Value = serde_json::from_slice(&bytes).unwrap();
    serde_json::json!([report["sites"], report["elbo"]])
}

/// A run that nothing disturbs.
fn undisturbed(folder: &Path, deployment: &Deployment) -> Value {
    let folder = folder.join("undisturbed");
    std::fs::create_dir_all(&folder).unwrap();
    files(&folder, deployment);
    let _silos = [silo(&folder, "north"), silo(&folder, "south")];
    wait_for_end(&folder, &mut coordinator(&folder, &[]));
    found(&folder)
}

#[test]
fn a_silo_and_a_coordinator_killed_in_mid_round_change_nothing() {
    let Some(programs) = installed() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let deployment = Deployment::start(&programs, scratch.path(), 2, Pace::Capped);
    let expected = undisturbed(scratch.path(), &deployment);

    let folder = scratch.path().join("disturbed");
    std::fs::create_dir_all(&folder).unwrap();
    files(&folder, &deployment);
    let mut north = silo(&folder, "north");
    let _south = silo(&folder, "south");
    let mut own = coordinator(&folder, &[]);
    wait_for(&folder, "north.log", "avg.round", 2);
    north.kill();
    let _north = silo(&folder, "north");
    wait_for(&folder, "north.log", "avg.round", 4);
    own.kill();
    let mut own = coordinator(&folder, &["--resume"]);
    wait_for_end(&folder, &mut own);
    assert_eq!(found(&folder), expected);
}

#[test]
fn a_misspelt_entry_of_a_configuration_file_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file.toml");
    let honest = "state = \"s\"\noutput = \"o\"\ndeadline_seconds = 7\n";
    let engine = "[engine]\naddress = \"127.0.0.1:1\"\n";
    std::fs::write(&path, format!("{honest}{engine}")).unwrap();
    let file: CoordinatorFile = read_toml(&path).unwrap();
    assert_eq!((file.patience.deadline_seconds, file.patience.attempts), (7, 10));
    std::fs::write(&path, format!("{honest}deadline_second = 7\n{engine}")).unwrap();
    let found = read_toml::<CoordinatorFile>(&path).unwrap_err();
    assert!(found.to_string().contains("deadline_second"), "{found}");
    let silo = "name = \"north\"\nallow = [\"avg\"]\ndata = \"example:1\"\nstate = \"s\"\n";
    std::fs::write(&path, format!("{silo}{engine}")).unwrap();
    assert_eq!(read_toml::<SiloFile>(&path).unwrap().name, "north");
    std::fs::write(&path, format!("{silo}allowed = []\n{engine}")).unwrap();
    let found = read_toml::<SiloFile>(&path).unwrap_err();
    assert!(found.to_string().contains("allowed"), "{found}");
}
