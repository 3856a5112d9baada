//! Kills every process of a real deployment in mid-round, and fills its disk: the results have the same bits.
//!
//! Each test is rows of the table in `docs/src/reference-flower-faults.md`.

use std::path::Path;
use std::sync::Arc;

use fixtures::engine::{Deployment, Keeps, Pace, Running};
use fixtures::programs::{Folder, in_one_process};
use fixtures::proxy::{Hold, Proxy};
use tempfile::TempDir;

/// The time limits of the coordinators of these tests: a SuperNode that was killed is taken for gone after 20 s, before the
/// second attempt.
const PATIENCE: &str = "appear_seconds = 240\ndeadline_seconds = 25";

/// A deployment with proxies before the SuperLink and the SuperNode of `north`.
struct World {
    deployment: Deployment,
    link: Proxy,
    north: Proxy,
}

impl World {
    fn start(keeps: Keeps) -> Option<(TempDir, Self)> {
        let (folder, deployment) = Deployment::capped_behind(2, keeps, |port| port)?;
        let link = Proxy::before(&deployment.coordinator().address);
        let north = Proxy::before(&deployment.silo(0).address);
        Some((folder, Self { deployment, link, north }))
    }

    fn folder(&self, path: &Path, algorithm: &str) -> Folder {
        self.folder_with(path, algorithm, PATIENCE)
    }

    /// A folder whose coordinator has other time limits.
    fn folder_with(&self, path: &Path, algorithm: &str, patience: &str) -> Folder {
        let south = self.deployment.silo(1);
        Folder::new(path.to_owned(), algorithm, &self.link.engine(), [&self.north.engine(), &south], patience)
    }
}

/// A run that has reached the third answer of `north`, which is computed and saved but not sent.
struct MidRound {
    north: Running,
    _south: Running,
    coordinator: Running,
    hold: Arc<Hold>,
}

impl MidRound {
    fn reach(world: &World, folder: &Folder) -> Self {
        // The first answer is to the hello.
        let hold = world.north.hold("push-messages", 4);
        let (north, south, coordinator) = (folder.silo("north"), folder.silo("south"), folder.coordinator(&[]));
        hold.wait();
        Self { north, _south: south, coordinator, hold }
    }
}

/// What a silo says that was killed while its answer was under way, and the calls of an answer at which it may be: whether
/// the call is lost.
const REST: &str = "the rest of an answer";
const NOTHING: &str = "the last answer had been sent whole";
const CALLS: [(&str, &str, bool, &str); 5] = [
    ("before its head", "push-messages", true, REST),
    ("after its head", "push-messages", false, REST),
    ("before its object", "push-object", true, REST),
    ("after its object", "push-object", false, NOTHING),
    ("after it", "push-task-output", true, NOTHING),
];

/// Kills `north` at every such call of its answer number `nth`, the first of which is to the hello, and starts it again.
fn killed_in_an_answer(algorithm: &str, nth: usize) {
    let Some((scratch, world)) = World::start(Keeps::InMemory) else { return };
    let expected = in_one_process(algorithm);
    for (name, call, lose, said) in CALLS {
        let folder = world.folder(&scratch.path().join(name.replace(' ', "-")), algorithm);
        let hold = world.north.hold(call, nth);
        let (mut north, _south, mut coordinator) =
            (folder.silo("north"), folder.silo("south"), folder.coordinator(&[]));
        hold.wait();
        north.kill();
        if lose {
            hold.lose();
        } else {
            hold.release();
            // The SuperNode sends on what is whole.
            std::thread::sleep(std::time::Duration::from_secs(1));
        }
        let _north = folder.silo("north");
        folder.wait_for_end(&mut coordinator);
        assert_eq!(folder.found(), expected, "{name}");
        assert!(folder.log("north.log").contains(said), "{name}: {}", folder.log("north.log"));
        assert!(folder.history().iter().all(|event| event.silo != "north"), "{name}: {:?}", folder.history());
    }
}

#[test]
fn a_silo_killed_anywhere_in_its_answer_sends_what_is_missing_and_its_supernode_goes_on_at_once() {
    killed_in_an_answer("pvi", 4);
}

#[test]
fn a_silo_of_few_rounds_killed_anywhere_in_its_answer_changes_nothing() {
    // The answer to the first round, after that of the start.
    killed_in_an_answer("few-rounds", 3);
}

#[test]
fn a_supernode_killed_in_mid_round_changes_nothing() {
    let Some((scratch, mut world)) = World::start(Keeps::InMemory) else { return };
    let expected = in_one_process("pvi");
    let folder = world.folder(&scratch.path().join("node"), "pvi");
    let mut run = MidRound::reach(&world, &folder);
    world.deployment.nodes[0].kill();
    run.hold.lose();
    // Without a key, it returns under another name: its silo is accepted there once the engine knows that the old node
    // is gone.
    world.deployment.nodes[0] = world.deployment.node(0, Pace::Capped);
    folder.wait_for_end(&mut run.coordinator);
    assert_eq!(folder.found(), expected);
    let refused = |event: &partita::flower::Event| event.silo == "north" && event.what.contains("still connected");
    assert!(folder.history().iter().any(refused), "{:?}", folder.history());
}

#[test]
fn a_superlink_and_a_coordinator_killed_in_mid_round_change_nothing() {
    let Some((scratch, mut world)) = World::start(Keeps::InFile) else { return };
    let expected = in_one_process("sfvi-avg");

    let folder = world.folder(&scratch.path().join("link"), "sfvi-avg");
    let mut run = MidRound::reach(&world, &folder);
    world.deployment.link.kill();
    run.hold.release();
    world.deployment.restart_link();
    folder.wait_for_end(&mut run.coordinator);
    assert_eq!(folder.found(), expected);
    drop(run);

    let folder = world.folder(&scratch.path().join("coordinator"), "sfvi-avg");
    let mut run = MidRound::reach(&world, &folder);
    folder.wait_for("south.log", "round 3", 1);
    run.coordinator.kill();
    run.hold.release();
    folder.wait_for_end(&mut folder.coordinator(&["--resume"]));
    assert_eq!(folder.found(), expected);
    drop(run);

    // The same while it sends the first request of the third round: a silo has the head of a message, but never its object.
    let folder = world.folder(&scratch.path().join("sending"), "sfvi-avg");
    let hold = world.link.hold("push-object", 7);
    let (_north, _south, mut coordinator) = (folder.silo("north"), folder.silo("south"), folder.coordinator(&[]));
    hold.wait();
    std::thread::sleep(std::time::Duration::from_secs(2));
    coordinator.kill();
    hold.lose();
    folder.wait_for_end(&mut folder.coordinator(&["--resume"]));
    assert_eq!(folder.found(), expected);
    let said = [folder.log("north.log"), folder.log("south.log")].concat();
    assert!(said.contains("never came whole"), "{said}");
}

#[test]
fn a_coordinator_killed_between_its_rounds_and_its_report_finds_the_silos_where_it_left_them() {
    let Some((scratch, world)) = World::start(Keeps::InMemory) else { return };
    let folder = world.folder(&scratch.path().join("run"), "pvi");
    // The bound is requested after the last checkpoint: silos are a round ahead of it.
    let (_north, _south, mut coordinator) = (folder.silo("north"), folder.silo("south"), folder.coordinator(&[]));
    folder.wait_for("north.log", "sfvi.estimate_elbo", 1);
    coordinator.kill();
    let _ = std::fs::remove_dir_all(folder.path("output"));
    folder.wait_for_end(&mut folder.coordinator(&["--resume"]));
    assert_eq!(folder.found(), in_one_process("pvi"));
}

#[test]
fn a_silo_whose_folder_is_two_rounds_old_is_refused_and_goes_on_from_its_own() {
    let Some((scratch, world)) = World::start(Keeps::InMemory) else { return };
    // The engine counts a silo as dead after 60 s. A second attempt before that would still be with the silo when this test
    // kills it again, perhaps in the middle of its answer, of which the other folder knows nothing.
    let patience = "appear_seconds = 240\ndeadline_seconds = 120";
    let folder = world.folder_with(&scratch.path().join("run"), "sfvi-avg", patience);
    let mut run = MidRound::reach(&world, &folder);
    folder.replace("north-state", "old");
    let later = world.north.hold("push-messages", 2);
    run.hold.release();
    later.wait();
    run.north.kill();
    later.lose();
    folder.replace("north-state", "own");
    folder.replace("old", "north-state");
    let mut north = folder.silo("north");
    folder.wait_for_end(&mut run.coordinator);
    let said = folder.log("coordinator.log");
    assert!(said.contains("silo `north`") && said.contains("the state of this silo"), "{said}");
    let said = folder.log("north.log");
    assert!(said.contains("a request after round 4, expected one after round 3"), "{said}");
    assert!(!folder.path("output/result.json").exists());

    north.kill();
    folder.replace("own", "north-state");
    let _north = folder.silo("north");
    folder.wait_for_end(&mut folder.coordinator(&["--resume"]));
    assert_eq!(folder.found(), in_one_process("sfvi-avg"));
}

#[test]
fn a_disk_that_is_full_ends_a_party_with_its_last_checkpoint_whole() {
    let Some((scratch, world)) = World::start(Keeps::InMemory) else { return };
    let folder = world.folder(&scratch.path().join("run"), "sfvi-avg");
    let mut run = MidRound::reach(&world, &folder);
    run.coordinator.kill();
    run.hold.release();
    let latest = || std::fs::read_to_string(folder.path("coordinator-state/latest")).unwrap();
    let before = latest();
    let state = folder.path("coordinator-state").join(&before).join("coordinator.partita");
    let size = std::fs::metadata(&state).unwrap().len();

    // Files are limited to less than the size of a checkpoint.
    assert!(size > 512, "{size}");
    let mut full = folder.without_room("coordinator", 1, "full.log");
    folder.wait_for_end(&mut full);
    let said = folder.log("full.log");
    assert!(said.contains("File too large") && said.contains("coordinator-state"), "{said}");
    assert_eq!((latest(), std::fs::metadata(&state).unwrap().len()), (before, size));

    // The same at a silo: it gives no answer that it cannot save.
    run.north.kill();
    let mut full = folder.without_room("north", 4, "north-full.log");
    let mut coordinator = folder.coordinator(&["--resume"]);
    folder.wait_for_end(&mut full);
    let said = folder.log("north-full.log");
    assert!(said.contains("File too large") && said.contains("north-state"), "{said}");
    let _north = folder.silo("north");
    folder.wait_for_end(&mut coordinator);
    assert_eq!(folder.found(), in_one_process("sfvi-avg"));
    assert!(
        folder.history().iter().any(|event| event.what.contains("cannot keep its state")),
        "{:?}",
        folder.history()
    );
}
