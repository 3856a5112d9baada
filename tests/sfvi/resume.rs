//! Holds checkpoints to their promise: killed at any moment, a run resumes and ends with the same bits.
#![allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fixtures::{example, latest_step, steps_shown};

const STEPS: &str = "6000";

fn command(checkpoint: Option<&Path>, output: &Path) -> Command {
    let mut command = Command::new(example("six_cities"));
    command.args(["--steps", STEPS, "--no-alone", "--threads", "1", "--output"]).arg(output);
    if let Some(folder) = checkpoint {
        command.arg("--checkpoint").arg(folder);
    }
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// The report without what a clock decides.
fn result(output: &Path) -> serde_json::Value {
    let text = std::fs::read_to_string(output.join("result.json")).unwrap();
    let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
    value.as_object_mut().unwrap().remove("seconds").unwrap();
    value
}

#[test]
fn a_run_killed_in_the_middle_resumes_to_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, cut, checkpoint) =
        (folder.path().join("whole"), folder.path().join("cut"), folder.path().join("state"));
    assert!(command(None, &whole).status().unwrap().success());

    let mut child = command(Some(&checkpoint), &cut).spawn().unwrap();
    let start = Instant::now();
    while latest_step(&checkpoint).is_none_or(|step| step < 2_000) {
        assert!(start.elapsed() < Duration::from_secs(120), "no checkpoint after two minutes");
        assert!(child.try_wait().unwrap().is_none(), "the run ended before it could be killed");
        std::thread::sleep(Duration::from_millis(1));
    }
    // SIGKILL: the process has no chance to tidy up.
    child.kill().unwrap();
    child.wait().unwrap();
    let reached = latest_step(&checkpoint).unwrap();
    assert!(!cut.join("result.json").exists() && (2_000..6_000).contains(&reached), "killed at step {reached}");

    assert!(command(Some(&checkpoint), &cut).arg("--resume").status().unwrap().success());
    assert_eq!(result(&cut), result(&whole));
    // Lines from before the kill stay, and none is there twice.
    assert_eq!(steps_shown(&cut.join("metrics.jsonl")), (1..=60).map(|line| 100 * line).collect::<Vec<_>>());
    assert_eq!(steps_shown(&cut.join("metrics.jsonl")), steps_shown(&whole.join("metrics.jsonl")));
}

#[test]
fn a_run_resumed_at_its_end_reports_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second, checkpoint) = (folder.path().join("a"), folder.path().join("b"), folder.path().join("state"));
    assert!(command(Some(&checkpoint), &first).status().unwrap().success());
    assert!(command(Some(&checkpoint), &second).arg("--resume").status().unwrap().success());
    assert_eq!(result(&first), result(&second));
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_run_cleanly_with_what_was_reached() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(example("six_cities"));
    // Far more steps than the time until the interrupt allows.
    command.args(["--steps", "100000000", "--no-alone", "--output"]).arg(folder.path());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
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
