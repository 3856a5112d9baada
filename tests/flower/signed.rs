//! Silos that have a coordinator's key answer it over a real engine, and tell a stranger nothing.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use fixtures::engine::Deployment;
use fixtures::programs::{Folder, NAMES, in_one_process};
use fixtures::proxy::{Action, Proxy};
use fixtures::table::{IDENTITY, Keys, Served, how, patience, program};
use partita::flower::{CoordinatorOptions, Engine, LostSilo, PartyKey, PartyPublicKey, Patience};
use partita::models::GaussianMean;

use super::trust::{expected, options, run_by, silos};

/// The keys of RFC 8410, and of RFC 8032 (test 1).
const KEY: &str = "MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC";
const ANOTHER: &str = "MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g";

fn key(text: &str) -> PartyKey {
    PartyKey::parse(text).unwrap()
}

fn served(index: u32, coordinator: Option<PartyPublicKey>, engine: Engine, folder: &Path) -> Served {
    signing(index, Keys { coordinator, ..Keys::default() }, engine, folder)
}

/// The same with a key that signs its answers.
fn signing(index: u32, keys: Keys, engine: Engine, folder: &Path) -> Served {
    let (make, rows) = program((&GaussianMean {}, &silos()), index, &options());
    Served::answering(keys, (NAMES[index as usize], rows), engine, folder, IDENTITY, make)
}

/// What a coordinator with this key finds, and its log.
fn found(engine: Engine, key: Option<PartyKey>, appear_seconds: u64) -> (Result<Vec<f64>, String>, String) {
    found_by(engine, key, BTreeMap::new(), appear_seconds)
}

/// The same where the coordinator has keys that sign the answers of silos.
fn found_by(
    engine: Engine,
    key: Option<PartyKey>,
    signatures: BTreeMap<String, PartyPublicKey>,
    appear_seconds: u64,
) -> (Result<Vec<f64>, String>, String) {
    let patience = Patience { appear_seconds, ..patience(20, LostSilo::Wait) };
    let how = CoordinatorOptions { key, signatures, ..how(engine, &NAMES.map(str::to_owned), 2, patience) };
    let (found, said) = run_by(how, || ());
    (found, said.join("\n"))
}

#[test]
fn a_silo_with_a_key_answers_its_coordinator_with_the_same_bits_and_no_other_even_at_the_hello() {
    let Some((scratch, deployment)) = Deployment::capped(2) else { return };
    let public = Some(key(KEY).public());
    let both = [0, 1]
        .map(|index: u32| served(index, public.clone(), deployment.silo(index as usize), &scratch.path().join("run")));
    for stranger in [None, Some(key(ANOTHER))] {
        let (problem, said) = found(deployment.coordinator(), stranger, 12);
        let problem = problem.unwrap_err();
        assert!(problem.contains("waited 12 s for the silos `north`, `south`"), "{problem}");
        assert!(said.contains("refused this coordinator's hello for the signature of a request"), "{said}");
        // The coordinator knows of nodes, and not which silo is at which.
        assert!(!said.contains("rows") && !said.contains("silo `north`"), "{said}");
    }
    let said = both[0].said();
    assert!(said.contains("the signature of a request: found none"), "{said}");
    assert!(said.contains("found another's, or one of another content"), "{said}");
    assert!(!said.contains("says hello") && !scratch.path().join("run/north/silo.json").exists(), "{said}");

    let (same, passed) = overheard(&deployment, Some(key(KEY)));
    assert_eq!(same.unwrap(), expected());
    // What the engine had of the answers says neither their kinds, nor their fields, nor the number of rows.
    assert!(has(&passed, b"flower.sealed"));
    for word in [&b"pvi.answer"[..], b"sfvi.", b"change", b"flower.hello", b"rows"] {
        assert!(!has(&passed, word), "{}", String::from_utf8_lossy(word));
    }
    both.into_iter().for_each(|silo| silo.end().unwrap());

    // Without a key a silo says at its start that it answers everyone, and the engine reads all of it.
    let open =
        [0, 1].map(|index: u32| served(index, None, deployment.silo(index as usize), &scratch.path().join("open")));
    open[0].wait_for("warning: this silo answers whoever sends it a request");
    let (same, passed) = overheard(&deployment, Some(key(KEY)));
    assert_eq!(same.unwrap(), expected());
    assert!(has(&passed, b"change") && has(&passed, b"flower.hello") && has(&passed, b"rows"));
    open.into_iter().for_each(|silo| silo.end().unwrap());
}

#[test]
fn who_answers_in_the_name_of_a_silo_without_its_key_is_refused_even_at_the_hello() {
    let Some((scratch, deployment)) = Deployment::capped(2) else { return };
    let keys = |signs: Option<PartyKey>| Keys { coordinator: Some(key(KEY).public()), signs, ..Keys::default() };
    let names = NAMES.map(str::to_owned);
    // The coordinator knows of one key for both here; each signs with it, or with another, or not.
    let signatures: BTreeMap<String, PartyPublicKey> =
        names.iter().map(|name| (name.clone(), key(ANOTHER).public())).collect();
    let north = signing(0, keys(Some(key(ANOTHER))), deployment.silo(0), &scratch.path().join("one"));
    for forged in [None, Some(key(KEY))] {
        let south = signing(1, keys(forged), deployment.silo(1), &scratch.path().join("one"));
        let (problem, said) = found_by(deployment.coordinator(), Some(key(KEY)), signatures.clone(), 12);
        let problem = problem.unwrap_err();
        assert!(problem.contains("waited 12 s for the silos `south`"), "{problem}");
        assert!(said.contains("the signature of an answer: found "), "{said}");
        // Who names no key takes what comes: this is what the key is for.
        let (found, _) = found(deployment.coordinator(), Some(key(KEY)), 60);
        found.unwrap();
        south.end().unwrap();
    }
    let south = signing(1, keys(Some(key(ANOTHER))), deployment.silo(1), &scratch.path().join("one"));
    let (same, said) = found_by(deployment.coordinator(), Some(key(KEY)), signatures, 60);
    assert_eq!(same.unwrap(), expected(), "{said}");
    [north, south].into_iter().for_each(|silo| silo.end().unwrap());
}

/// What a coordinator finds, and every object that the engine gave it.
fn overheard(deployment: &Deployment, key: Option<PartyKey>) -> (Result<Vec<f64>, String>, Vec<Vec<u8>>) {
    let (link, passed) = (Proxy::before(&deployment.coordinator().address), Arc::new(Mutex::new(Vec::new())));
    let own = Arc::clone(&passed);
    link.rule(move |path, _, _| {
        if path != "pull-object" {
            return Action::Pass;
        }
        let own = Arc::clone(&own);
        Action::Change(Box::new(move |answer| {
            own.lock().unwrap().push(answer.clone());
            answer
        }))
    });
    let found = found(link.engine(), key, 120).0;
    let passed = passed.lock().unwrap().clone();
    (found, passed)
}

fn has(passed: &[Vec<u8>], word: &[u8]) -> bool {
    passed.iter().any(|bytes| bytes.windows(word.len()).any(|part| part == word))
}

#[test]
fn a_silo_that_declares_a_number_of_rows_that_cannot_be_is_refused_with_its_name() {
    let Some((scratch, deployment)) = Deployment::capped(2) else { return };
    let _north = served(0, None, deployment.silo(0), scratch.path());
    let (make, _) = program((&GaussianMean {}, &silos()), 1, &options());
    let many = ("south", 1_000_000_000_001);
    let south = Served::start(many, deployment.silo(1), scratch.path(), IDENTITY, make);
    let (problem, said) = found(deployment.coordinator(), None, 60);
    let problem = problem.unwrap_err();
    assert!(problem.contains("1000000000001 at silo `south`, expected at most 1000000000"), "{problem}");
    assert!(said.contains("silo `south`: it says 1000000000001 rows"), "{said}");
    south.end().unwrap();
}

#[test]
fn the_programs_read_keys_from_their_files_and_find_the_bits_of_one_process() {
    let Some((scratch, deployment)) = Deployment::capped(2) else { return };
    let silos = [&deployment.silo(0), &deployment.silo(1)];
    let how = "appear_seconds = 120\nkey = \"coordinator.key\"";
    let folder = Folder::new(scratch.path().join("run"), "pvi", &deployment.coordinator(), silos, how);
    let private = format!("-----BEGIN PRIVATE KEY-----\n{KEY}\n-----END PRIVATE KEY-----\n");
    // The public part of the key of RFC 8410.
    let public = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n\
                  -----END PUBLIC KEY-----\n";
    std::fs::write(folder.path("coordinator.key"), private).unwrap();
    for name in NAMES {
        let path = folder.path(&format!("{name}.toml"));
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("coordinator = \"coordinator.pub\"\n{text}")).unwrap();
    }
    // A file that is no key ends each program at its start.
    std::fs::write(folder.path("coordinator.pub"), "no key").unwrap();
    folder.wait_for_end(&mut folder.silo("north"));
    let said = folder.log("north.log");
    assert!(said.contains("coordinator.pub") && said.contains("which `partita keys` writes"), "{said}");

    std::fs::write(folder.path("coordinator.pub"), public).unwrap();
    let (_north, _south) = (folder.silo("north"), folder.silo("south"));
    folder.wait_for_end(&mut folder.coordinator(&[]));
    assert_eq!(folder.found(), in_one_process("pvi"));
    let said = folder.log("north.log") + &folder.log("south.log");
    assert!(!said.contains("answers whoever"), "{said}");
}
