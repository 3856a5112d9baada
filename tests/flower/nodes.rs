//! Kills silos that are nodes of the SuperLink themselves, and the SuperLink under them: the results have the same bits.
//!
//! Each test is rows of the table in `docs/src/reference-flower-faults.md`.

use std::path::PathBuf;

use fixtures::engine::Deployment;
use fixtures::programs::{Folder, NAMES, in_one_process};
use fixtures::proxy::Proxy;

const PATIENCE: &str = "appear_seconds = 240\ndeadline_seconds = 60";

/// The files of a run whose silos have keys: `north` speaks to the SuperLink through a relay, the others without one.
fn with_keys(path: PathBuf, algorithm: &str, deployment: &Deployment, north: &Proxy) -> Folder {
    let link = deployment.coordinator();
    let folder = Folder::new(path, algorithm, &link, [&north.engine(), &link], PATIENCE);
    for name in NAMES {
        fixtures::said(&folder.0, &["keys", "silo", name]);
        let file = folder.path(&format!("{name}.toml"));
        // `[engine]` is the last table of the file.
        let text = std::fs::read_to_string(&file).unwrap() + &format!("key = \"{name}.key\"\n");
        std::fs::write(file, text).unwrap();
    }
    folder
}

#[test]
fn a_silo_without_a_supernode_that_is_killed_in_its_answer_goes_on_where_it_was() {
    let Some((scratch, deployment)) = Deployment::capped(0) else { return };
    let relay = Proxy::before(&deployment.coordinator().address);
    let expected = in_one_process("pvi");
    for (name, call) in [("before its head", "push-messages"), ("before its object", "push-object")] {
        let folder = with_keys(scratch.path().join(name.replace(' ', "-")), "pvi", &deployment, &relay);
        // The first answer is to the hello.
        let hold = relay.hold(call, 4);
        let (mut north, _south, mut coordinator) =
            (folder.silo("north"), folder.silo("south"), folder.coordinator(&[]));
        hold.wait();
        let place = std::fs::read_to_string(folder.path("north-state/node.json")).unwrap();
        north.kill();
        hold.lose();
        let _north = folder.silo("north");
        folder.wait_for_end(&mut coordinator);
        assert_eq!(folder.found(), expected, "{name}");
        // It is the same node again, and says what became of the answer.
        assert_eq!(std::fs::read_to_string(folder.path("north-state/node.json")).unwrap(), place, "{name}");
        let said = folder.log("north.log");
        assert!(said.contains("the rest of an answer that was on its way when this silo ended"), "{name}: {said}");
        assert!(folder.history().iter().all(|event| event.silo != "north"), "{name}: {:?}", folder.history());
    }
}

#[test]
fn a_superlink_that_forgets_its_nodes_ends_the_run_with_a_sentence_and_they_join_anew_for_its_resumption() {
    let Some((scratch, mut deployment)) = Deployment::capped(0) else { return };
    let relay = Proxy::before(&deployment.coordinator().address);
    let folder = with_keys(scratch.path().join("run"), "sfvi-avg", &deployment, &relay);
    let hold = relay.hold("push-messages", 4);
    let (_north, _south, mut coordinator) = (folder.silo("north"), folder.silo("south"), folder.coordinator(&[]));
    hold.wait();
    // Its data are in memory: it knows neither the run nor a node afterwards.
    deployment.link.kill();
    hold.release();
    deployment.restart_link();
    folder.wait_for_end(&mut coordinator);
    let said = folder.log("coordinator.log");
    assert!(said.contains("the engine refused with status"), "{said}");
    assert!(!folder.path("output/result.json").exists());
    for name in NAMES {
        let log = format!("{name}.log");
        folder.wait_for(&log, "the engine does not know this node any more: it is registered anew", 1);
        folder.wait_for(&log, "the engine has taken this node again", 1);
    }
    folder.wait_for_end(&mut folder.coordinator(&["--resume"]));
    assert_eq!(folder.found(), in_one_process("sfvi-avg"));
}
