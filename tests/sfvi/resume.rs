//! Holds checkpoints to their contract: killed at any moment, a run resumes and ends with the same bits.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fixtures::{executable, latest_step, steps_shown};

const STEPS: &str = "6000";

/// The study of the six cities, which keeps its checkpoints beside its report.
fn study(output: &Path) -> Command {
    let mut command = Command::new(executable("partita-studies"));
    command.args(["six_cities", "--no-alone", "--output"]).arg(output).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn command(output: &Path) -> Command {
    let mut command = study(output);
    command.args(["--steps", STEPS, "--threads", "1"]);
    command
}

/// The report without times.
fn result(output: &Path) -> serde_json::Value {
    let text = std::fs::read_to_string(output.join("result.json")).unwrap();
    let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
    value.as_object_mut().unwrap().remove("seconds").unwrap();
    value
}

#[test]
fn a_run_killed_in_the_middle_resumes_to_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, cut) = (folder.path().join("whole"), folder.path().join("cut"));
    let checkpoint = cut.join("state/fit");
    assert!(command(&whole).status().unwrap().success());

    let mut child = command(&cut).spawn().unwrap();
    let start = Instant::now();
    while latest_step(&checkpoint).is_none_or(|step| step < 2_000) {
        assert!(start.elapsed() < Duration::from_secs(120), "no checkpoint after two minutes");
        assert!(child.try_wait().unwrap().is_none(), "the run ended before it could be killed");
        std::thread::sleep(Duration::from_millis(1));
    }
    // SIGKILL: the process cannot clean up.
    child.kill().unwrap();
    child.wait().unwrap();
    let reached = latest_step(&checkpoint).unwrap();
    assert!(!cut.join("result.json").exists() && (2_000..6_000).contains(&reached), "killed at step {reached}");

    assert!(command(&cut).arg("--resume").status().unwrap().success());
    assert_eq!(result(&cut), result(&whole));
    // Lines from before the kill stay, and none is duplicated.
    assert_eq!(steps_shown(&cut.join("metrics.jsonl")), (1..=60).map(|line| 100 * line).collect::<Vec<_>>());
    assert_eq!(steps_shown(&cut.join("metrics.jsonl")), steps_shown(&whole.join("metrics.jsonl")));
}

#[test]
fn a_run_resumed_at_its_end_reports_the_same() {
    let folder = tempfile::tempdir().unwrap();
    assert!(command(folder.path()).status().unwrap().success());
    let first = result(folder.path());
    std::fs::remove_file(folder.path().join("result.json")).unwrap();
    assert!(command(folder.path()).arg("--resume").status().unwrap().success());
    assert_eq!(result(folder.path()), first);
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_run_cleanly_with_what_was_reached() {
    let folder = tempfile::tempdir().unwrap();
    // Far more steps than the time until the interrupt allows.
    let mut child = study(folder.path()).args(["--steps", "100000000"]).spawn().unwrap();
    let metrics = folder.path().join("metrics.jsonl");
    let start = Instant::now();
    while !std::fs::metadata(&metrics).is_ok_and(|file| file.len() > 0) {
        assert!(start.elapsed() < Duration::from_secs(120), "no metrics after two minutes");
        std::thread::sleep(Duration::from_millis(5));
    }
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success() && child.wait().unwrap().success());
    let reached = result(folder.path());
    assert_eq!(reached["ending"], "Interrupted");
    assert!(reached["gradient_steps"].as_u64().unwrap() > 0 && reached["sites"].as_array().unwrap().len() == 5);
}
