//! Claims that private studies over a real engine keep their promise: budgets, ledgers, and nothing that has no noise.

use std::path::Path;

use fixtures::engine::{Deployment, Pace, Running, copy, installed};
use fixtures::visits::FORMULA;
use fixtures::wait_until;
use partita::privacy::{Budget, Ledger, Spent};
use serde_json::Value;

use super::study::{in_one_process, read, run_page, start, start_with, wait, write_parties};

/// The noised sums of a study.
const SUMS: usize = 8;

/// A private study over these silos.
fn study(silos: &[&str], epsilon: f64, seed: u64) -> String {
    format!(
        "formula = \"{FORMULA}\"\nfamily = \"bernoulli\"\nsilos = {silos:?}\nseed = {seed}\n[privacy]\nunit = \"row\"\n\
         epsilon = {epsilon:?}\ndelta = 1e-5\nrounds = {SUMS}\n[privacy.columns]\nwheeze = [0, 1]\nsmoke = [0, 1]\nage = [-2, 1]\n"
    )
}

/// The files of all parties: a third of the children are dealt to the silos in turn.
fn write_files(folder: &Path, deployment: &Deployment, silos: &[&str], study: &str, privacy: &str) {
    write_parties(folder, deployment, (silos, 3), [study, privacy, "deadline_seconds = 60"]);
}

/// Waits until a silo has ended at its start.
fn ended(mut silo: Running, folder: &Path, name: &str) -> String {
    let log = || read(folder, &format!("{name}.log"));
    wait_until(60, || silo.is_over(), || format!("it serves: {}", log()));
    log()
}

/// The keys with which three silos sign and mask, and the tables of their files.
fn with_masks(folder: &Path, names: &[&str], fewest: usize) -> Vec<String> {
    for name in names.iter().filter(|name| !folder.join(format!("{name}-signs.key")).exists()) {
        fixtures::said(folder, &["keys", "silo", name]);
    }
    let peers = |own: &str| {
        let others = names.iter().filter(|name| **name != own);
        others.map(|name| format!("{name} = \"{name}-signs.pub\"\n")).collect::<String>()
    };
    let one = |name: &&str| {
        format!(
            "signs = \"{name}-signs.key\"\n[privacy]\nepsilon = 3.0\ndelta = 1e-5\n[secure]\nfewest = {fewest}\n[secure.peers]\n{}",
            peers(name)
        )
    };
    names.iter().map(one).collect()
}

#[test]
fn masked_sums_over_an_engine_survive_kills_of_a_silo_and_of_the_coordinator_and_rosters_are_those_of_owners() {
    let names = ["north", "south", "west"];
    let Some((scratch, deployment)) = Deployment::capped(names.len()) else { return };
    let folder = scratch.path();
    let masked = study(&names, 2.0, 1).replace("delta = 1e-5\n", "delta = 1e-5\nsecure_sums = true\n");
    write_files(folder, &deployment, &names, &masked, "");
    let write_all = |fewest| {
        for (name, own) in names.iter().zip(with_masks(folder, &names, fewest)) {
            let path = folder.join(format!("{name}.toml"));
            let text = std::fs::read_to_string(&path).unwrap();
            // The last table of the file is that of the engine; what is before it is what was written above.
            let (top, engine) = text.split_once("[engine]").unwrap();
            let top = top.split("signs = ").next().unwrap();
            std::fs::write(&path, format!("{top}{own}\n[engine]{engine}")).unwrap();
        }
    };
    // An owner who wants more silos than there are does not take part.
    write_all(4);
    let said = ended(start(folder, "silo", "north"), folder, "north");
    assert!(said.contains("found 3, expected at least 4"), "{said}");
    write_all(3);
    let mut silos = names.map(|name| start(folder, "silo", name));
    let mut coordinator = start(folder, "coordinator", "coordinator");
    let charged = || read(folder, "south-state.ledger").matches("\"spent\"").count();
    wait_until(120, || charged() >= 4, || read(folder, "coordinator.log"));
    // With the process its keys are gone: keys are exchanged anew, and no sum is charged for it twice.
    silos[1].kill();
    silos[1] = start(folder, "silo", "south");
    wait(&mut coordinator);
    let said = read(folder, "coordinator.log");
    assert!(said.contains("verdict") && said.contains("differentially private"), "{said}");
    // Wherever in its request the silo was killed, its SuperNode goes on at once.
    assert!(!said.contains("no answer in"), "{said}");
    assert!((SUMS..=SUMS + 1).contains(&charged()), "{}", charged());
    let silo = read(folder, "north.log");
    assert!(silo.contains("private.masked_round") && !silo.contains(": private.round"), "{silo}");
    assert!(silo.contains("masked with 2 silos, at least 3 in all"), "{silo}");
    assert!(silo.matches("private.key").count() >= 2, "{silo}");

    // The same study again, from ledgers: its coordinator is killed in the middle, resumed, and nothing is charged or lost.
    let whole = charged();
    let (first, asked) = (read(folder, "output/posterior.csv"), silo.matches("private.masked_round").count());
    std::fs::remove_file(folder.join("output/posterior.csv")).unwrap();
    let mut coordinator = start(folder, "coordinator", "killed");
    let rounds = || read(folder, "north.log").matches("private.masked_round").count();
    wait_until(120, || rounds() >= asked + 4, || read(folder, "killed.log"));
    coordinator.kill();
    assert!(!folder.join("output/posterior.csv").exists(), "it had ended");
    wait(&mut start_with(folder, "coordinator", "resumed", &["--resume"]));
    assert!(read(folder, "resumed.log").contains("verdict"), "{}", read(folder, "resumed.log"));
    assert!(first.lines().count() > 1_000 && read(folder, "output/posterior.csv") == first);
    assert_eq!(charged(), whole);
}

fn spent(ledger: &Path) -> Spent {
    let budget = Budget { epsilon: 100.0, delta: 1e-5, unit: "child".into() };
    Ledger::open(ledger, budget).unwrap().spent().unwrap()
}

#[test]
fn a_private_study_has_the_bits_of_one_process_with_its_ledgers_and_says_what_it_promised() {
    let names = ["north", "south"];
    let Some((scratch, deployment)) = Deployment::capped(names.len()) else { return };
    let folder = scratch.path();
    let privacy = "[privacy]\nepsilon = 3.0\ndelta = 1e-5";
    write_files(folder, &deployment, &names, &study(&names, 3.0, 1), privacy);
    let silos = names.map(|name| start(folder, "silo", name));
    wait(&mut start(folder, "coordinator", "coordinator"));
    let [said, silo] = ["coordinator.log", "north.log"].map(|name| read(folder, name));
    for words in [
        "privacy: everything that a silo sends will be (3, 1e-5)-differentially private for one child: 8 sums",
        "privacy: everything that a silo sent is (3, 1e-5)-differentially private",
        "noise for differential privacy (epsilon 3",
    ] {
        assert!(said.contains(words), "{words}: {said}\n{silo}");
    }
    assert!(silo.contains("epsilon 0.0000 of the owner's 3 at delta 1e-5 is spent"), "{silo}");
    assert!(!silo.contains("levels:") && !silo.contains("What silo north says"), "{silo}");
    assert!(!said.contains("ELBO") && !said.contains("NaN"), "{said}");
    let own: Value = serde_json::from_str(&read(folder, "output/privacy.json")).unwrap();
    assert_eq!((own["epsilon"].as_f64(), own["releases_of_each_silo"].as_u64()), (Some(3.0), Some(SUMS as u64)));
    assert!(own["standard_deviations_widened_by"]["smoke"].as_f64().unwrap() > 1.0, "{own}");
    assert!(read(folder, "output/report.html").contains("-differentially private for one child"));
    let own: Value = serde_json::from_str(&read(folder, "north-report/privacy.json")).unwrap();
    assert_eq!(own["spent"]["releases"].as_u64(), Some(SUMS as u64));
    assert!((own["spent"]["epsilon"].as_f64().unwrap() - 3.0).abs() < 1e-3, "{own}");
    drop(silos);

    the_same_in_one_process(folder, &names);
}

/// One process that has the ledgers asks the same, and gets the same sums at no cost.
fn the_same_in_one_process(folder: &Path, names: &[&str]) {
    std::fs::create_dir(folder.join("ledgers")).unwrap();
    for name in names {
        std::fs::copy(folder.join(format!("{name}-state.ledger")), folder.join(format!("ledgers/{name}.ledger")))
            .unwrap();
    }
    let before = read(folder, "ledgers/north.ledger");
    in_one_process(folder, names, &["--ledgers", "ledgers"]);
    let [found, expected]: [Value; 2] =
        ["output", "one"].map(|at| serde_json::from_str(&read(folder, &format!("{at}/result.json"))).unwrap());
    for entry in ["sites", "privacy", "verdict"] {
        assert_eq!(found[entry], expected[entry], "{entry}");
    }
    assert_eq!(before, read(folder, "ledgers/north.ledger"));
}

#[test]
fn every_method_of_a_private_study_over_an_engine_has_the_bits_of_one_process_with_its_ledgers() {
    let names = ["north", "south"];
    let Some((scratch, deployment)) = Deployment::capped(names.len()) else { return };
    // Five globals have sixteen draws a round of SFVI; other rounds have two sums each. Points are of formulas without groups.
    for (method, rounds, sums) in [("sfvi", 1, 16), ("sfvi-avg", 2, 4), ("fed-opt", 2, 4), ("pvi", 2, 4)] {
        let folder = scratch.path().join(method);
        let [of_steps, local_steps] = match method {
            "sfvi" => ["", ""],
            _ => ["clip = 2.0\n", "local_steps = 2\n"],
        };
        let study = study(&names, 3.0, 1);
        let study = study.replace(&format!("rounds = {SUMS}\n"), &format!("rounds = {rounds}\n{of_steps}"));
        let (study, unit) = match method {
            "fed-opt" => (study.replace(" + (1 | child)", ""), "row"),
            _ => (study, "child"),
        };
        let study = format!("{study}[run]\nalgorithm = \"{method}\"\n{local_steps}");
        // Where local steps draw what leaves as it is, one process draws the same.
        write_files(&folder, &deployment, &names, &study, "noise = \"run\"\n[privacy]\nepsilon = 3.0\ndelta = 1e-5");
        let silos = names.map(|name| start(&folder, "silo", name));
        wait(&mut start(&folder, "coordinator", "coordinator"));
        let said = read(&folder, "coordinator.log");
        assert!(said.contains(&format!("private for one {unit}: {sums} sums")), "{method}: {said}");
        assert!(said.contains("verdict"), "{method}: {said}");
        let words = "the effects of each child were integrated out";
        assert_eq!(said.contains(words), method == "sfvi", "{method}: {said}");
        let own: Value = serde_json::from_str(&read(&folder, "output/privacy.json")).unwrap();
        assert_eq!(
            (own["unit"].as_str(), own["releases_of_each_silo"].as_u64()),
            (Some(format!("one {unit}").as_str()), Some(sums))
        );
        for name in names {
            let own: Value = serde_json::from_str(&read(&folder, &format!("{name}-report/privacy.json"))).unwrap();
            assert_eq!(own["spent"]["releases"].as_u64(), Some(sums), "{method}: {own}");
            assert!((own["spent"]["epsilon"].as_f64().unwrap() - 3.0).abs() < 1e-3, "{method}: {own}");
        }
        drop(silos);
        the_same_in_one_process(&folder, &names);
    }
}

#[test]
fn no_kill_and_no_older_state_lowers_a_ledger_and_an_older_ledger_is_refused() {
    let names = ["north", "south"];
    let Some((scratch, deployment)) = Deployment::capped(names.len()) else { return };
    let folder = scratch.path();
    // Room for a release that was charged and never drawn.
    write_files(folder, &deployment, &names, &study(&names, 2.0, 1), "[privacy]\nepsilon = 2.4\ndelta = 1e-5");
    let ledger = folder.join("north-state.ledger");
    let (mut north, _south) = (start(folder, "silo", "north"), start(folder, "silo", "south"));
    let mut coordinator = start(folder, "coordinator", "coordinator");
    let charged = || read(folder, "north-state.ledger").matches("\"spent\"").count();
    wait_until(120, || charged() >= 4, || read(folder, "coordinator.log"));
    north.kill();
    let (older_state, older) = (folder.join("older-state"), std::fs::read(&ledger).unwrap());
    copy(&folder.join("north-state"), &older_state);
    let mut north = start(folder, "silo", "north");
    wait(&mut coordinator);
    let done = charged();
    assert!((SUMS..=SUMS + 1).contains(&done), "{done}: {}", read(folder, "coordinator.log"));
    let said = read(folder, "coordinator.log");
    assert!(said.contains("verdict") && !said.contains("no answer in"), "{said}");

    // The state of the fourth round, and the same study from its beginning: all is answered from the ledger.
    north.kill();
    let whole = std::fs::read(&ledger).unwrap();
    std::fs::remove_dir_all(folder.join("north-state")).unwrap();
    copy(&older_state, &folder.join("north-state"));
    let first = read(folder, "output/posterior.csv");
    let mut north = start(folder, "silo", "north");
    wait(&mut start_with(folder, "coordinator", "again", &["--restart"]));
    assert_eq!(read(folder, "output/posterior.csv"), first, "{}", read(folder, "again.log"));
    assert_eq!(std::fs::read(&ledger).unwrap(), whole, "a repeated study was charged");

    // The ledger of the fourth round beside a state that saw more.
    north.kill();
    std::fs::write(&ledger, &older).unwrap();
    let said = ended(start(folder, "silo", "north"), folder, "north");
    assert!(said.contains("It was put back to an earlier state or replaced"), "{said}");
}

#[test]
fn two_coordinators_with_one_silo_spend_its_budget_once() {
    let Some(programs) = installed() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let ledger = scratch.path().join("north.ledger");
    let privacy = format!("[privacy]\nepsilon = 3.0\ndelta = 1e-5\nledger = \"{}\"", ledger.display());
    let folders = ["one", "two"].map(|name| scratch.path().join(name));
    let mut deployments = Vec::new();
    for (folder, seed) in folders.iter().zip([1, 2]) {
        std::fs::create_dir_all(folder).unwrap();
        let deployment = Deployment::start(&programs, folder, 1, Pace::Capped);
        write_files(folder, &deployment, &["north"], &study(&["north"], 2.5, seed), &privacy);
        deployments.push(deployment);
    }
    let _silos = folders.each_ref().map(|folder| start(folder, "silo", "north"));
    let mut coordinators = folders.each_ref().map(|folder| start(folder, "coordinator", "coordinator"));
    coordinators.iter_mut().for_each(wait);
    let said = folders.each_ref().map(|folder| read(folder, "north.log"));
    assert!(said.iter().any(|said| said.contains("the owner's privacy budget")), "{}\n{}", said[0], said[1]);
    assert!(said.iter().any(|said| said.contains("more releases at this noise")), "{}\n{}", said[0], said[1]);
    // The coordinator learns the reason, and no number.
    let told = folders.each_ref().map(|folder| read(folder, "coordinator.log"));
    let told: Vec<&String> =
        told.iter().filter(|told| told.contains("the silo refused: the owner's privacy budget.")).collect();
    assert!(!told.is_empty(), "{said:?}");
    for words in ["same version of Partita", "Declined", "more releases"] {
        assert!(told.iter().all(|told| !told.contains(words)), "{words}: {told:?}");
    }
    let Spent { epsilon, releases, .. } = spent(&ledger);
    assert!(epsilon <= 3.0 && releases > 0, "{epsilon} by {releases} sums");
    assert!(folders.iter().any(|folder| !folder.join("output/result.json").exists()));
}

#[test]
fn the_page_of_a_private_study_leads_to_a_report_under_a_budget_that_holds_for_the_next() {
    let Some(programs) = installed() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let [said, wrong] = run_page("how-to-private-study.md", 7, scratch.path(), &programs);
    let place = scratch.path().join("private-study");
    let logs = ["north/north.log", "north/second.log", "link/link.log"].map(|name| read(&place, name)).join("\n");
    for words in [
        "without noise: 1000 of 1000 guesses right",
        "privacy: everything that a silo sent is (3, 1e-5)-differentially private",
        "\"releases_of_each_silo\": 24",
        "the second study was refused",
        "the owner's privacy budget: with this request epsilon would be",
    ] {
        assert!(said.contains(words), "{words}: {said}\n{wrong}\n{logs}");
    }
    for name in ["north", "south", "west"] {
        let own: Value = serde_json::from_str(&read(&place, &format!("{name}/{name}-report/privacy.json"))).unwrap();
        assert_eq!(own["spent"]["releases"].as_u64(), Some(24), "{own}");
        let log = read(&place, &format!("{name}/{name}.log"));
        assert!(log.contains("masked with 2 silos") && !log.contains("answers whoever"), "{log}");
        assert_eq!(spent(&place.join(format!("{name}/{name}-state.ledger"))).releases, 24, "{name}");
    }
}
