//! Waits, interrupts, locks and restarts: each is said, heard or refused, over a real engine where one is needed.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use fixtures::engine::{Deployment, Running};
use fixtures::programs::{Folder, in_one_process};
use fixtures::proxy::Proxy;
use fixtures::wait_until;
use partita::flower::Engine;

/// Sends a process a signal, as a terminal or a service manager does.
fn signal(running: &Running, name: &str) {
    let sent = Command::new("/bin/kill").args([&format!("-{name}"), &running.id().to_string()]).status();
    assert!(sent.unwrap().success());
}

/// Waits until a program is over; how long it took.
#[track_caller]
fn until_over(running: &mut Running, seconds: u64) -> Duration {
    let started = Instant::now();
    wait_until(seconds, || running.is_over(), || format!("it is not over after {seconds} s"));
    started.elapsed()
}

/// The files of a run at an engine that is not there.
fn without_an_engine(folder: &Path) -> Folder {
    let engine = Engine::insecure("127.0.0.1:1");
    Folder::new(folder.to_owned(), "pvi", &engine, [&engine, &engine], "")
}

#[test]
fn a_wait_is_said_a_second_party_in_a_folder_is_refused_and_a_signal_ends_the_wait() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = without_an_engine(scratch.path());
    let mut first = folder.coordinator(&[]);
    folder.wait_for("coordinator.log", "waiting for the engine at 127.0.0.1:1, ", 1);
    // From the second second on; a process that waits for a processor says it later, and with the seconds that passed.
    let said = folder.log("coordinator.log");
    let seconds = said.split("127.0.0.1:1, ").nth(1).and_then(|rest| rest.split(" s").next()?.parse::<u64>().ok());
    assert!(seconds.is_some_and(|seconds| (2..20).contains(&seconds)), "{said}");

    let second = fixtures::command(&folder.0, &["coordinator"]);
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(said.contains("coordinator-state: this folder is in use"), "{said}");

    signal(&first, "TERM");
    until_over(&mut first, 20);
    let said = folder.log("coordinator.log");
    assert!(said.contains("interrupted while waiting for the engine at 127.0.0.1:1"), "{said}");

    // The lock went with the process. A silo says its wait for its SuperNode as well, and hears a signal in it.
    let mut silo = folder.silo("north");
    folder.wait_for("north.log", "waiting at 127.0.0.1:1", 1);
    let second = fixtures::command(&folder.0, &["silo", "--silo", "north.toml"]);
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(said.contains("north-state: this folder is in use"), "{said}");
    folder.wait_for("north.log", "waiting for the engine at 127.0.0.1:1, ", 1);
    signal(&silo, "INT");
    until_over(&mut silo, 20);
    assert!(folder.log("north.log").contains("once more ends at once"), "{}", folder.log("north.log"));
}

#[test]
fn an_interrupted_round_leaves_its_history_and_its_checkpoint_which_only_resume_or_restart_takes() {
    let Some((scratch, deployment)) = Deployment::capped(2) else { return };
    let north = Proxy::before(&deployment.silo(0).address);
    let engines = [&north.engine(), &deployment.silo(1)];
    let patience = "appear_seconds = 240\ndeadline_seconds = 60";
    let folder = Folder::new(scratch.path().join("run"), "pvi", &deployment.coordinator(), engines, patience);

    // Alone it says whom it waits for.
    let (_south, mut coordinator) = (folder.silo("south"), folder.coordinator(&[]));
    folder.wait_for("coordinator.log", "waiting for north to appear", 1);
    signal(&coordinator, "INT");
    until_over(&mut coordinator, 30);
    assert!(folder.log("coordinator.log").contains("interrupted while waiting for north to appear"));

    // The third answer of `north` is computed and not sent.
    let hold = north.hold("push-messages", 4);
    let (_north, mut coordinator) = (folder.silo("north"), folder.coordinator(&[]));
    hold.wait();
    folder.wait_for("coordinator.log", "waiting for north, ", 1);
    signal(&coordinator, "TERM");
    let took = until_over(&mut coordinator, 60);
    assert!(took > Duration::from_secs(8), "an answer within ten seconds would still be taken: {took:?}");
    let said = folder.log("coordinator.log");
    assert!(said.contains("interrupted while waiting for north.") && said.contains("--resume"), "{said}");
    assert!(folder.path("output/history.json").exists());
    hold.release();

    let mut again = folder.coordinator(&[]);
    until_over(&mut again, 60);
    let said = folder.log("coordinator.log");
    assert!(said.contains("a run that has not ended in coordinator-state/step-"), "{said}");
    // A second signal does not wait for the answer.
    let hold = north.hold("push-messages", 1);
    let mut hasty = folder.coordinator(&["--resume"]);
    hold.wait();
    signal(&hasty, "INT");
    folder.wait_for("coordinator.log", "once more ends at once", 1);
    signal(&hasty, "INT");
    let took = until_over(&mut hasty, 60);
    assert!(took < Duration::from_secs(8), "{took:?}");
    hold.release();
    folder.wait_for_end(&mut folder.coordinator(&["--resume"]));
    assert_eq!(folder.found(), in_one_process("pvi"));

    // A run that has ended is replaced.
    std::fs::remove_file(folder.path("output/result.json")).unwrap();
    folder.wait_for_end(&mut folder.coordinator(&[]));
    assert_eq!(folder.found(), in_one_process("pvi"));
    // One that was killed is replaced where its owner says so.
    let hold = north.hold("push-messages", 4);
    let mut coordinator = folder.coordinator(&[]);
    hold.wait();
    coordinator.kill();
    hold.lose();
    folder.wait_for_end(&mut folder.coordinator(&["--restart"]));
    assert_eq!(folder.found(), in_one_process("pvi"));
}
