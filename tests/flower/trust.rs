//! Confronts every party of a real deployment with untrusted peers: each is refused, with a line that says why.
//!
//! Each test is rows of the table in `docs/src/reference-flower-faults.md`.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fixtures::between::between;
use fixtures::engine::{Deployment, installed};
use fixtures::proxy::{Action, Proxy};
use fixtures::secure::Secure;
use fixtures::table::{IDENTITY, Served, fitted, how, patience, program, rows};
use fixtures::wait_until;
use partita::flower::{CoordinatorOptions, Engine, Error, EventKind, Flower, LostSilo, NodeKey, Patience};
use partita::inference::{AlgorithmChoice, Conjugate, RunOptions, coordinator};
use partita::models::GaussianMean;
use partita::{Device, FitOptions, Model, PviOptions, Settings, fit};

use super::policies::After;

const NAMES: [&str; 2] = ["north", "south"];

pub(super) fn silos() -> Vec<(String, <GaussianMean as Model>::Data)> {
    let (device, numbers) = (Device::flex(), [vec![1.0, 2.5], vec![3.0]]);
    NAMES.iter().zip(numbers).map(|(name, own)| ((*name).to_owned(), GaussianMean::data(&own, &device))).collect()
}

/// Four local updates, which find the exact posterior.
pub(super) fn options() -> FitOptions {
    let algorithm = AlgorithmChoice::Pvi(PviOptions { solver: Conjugate.into(), ..PviOptions::new(1) });
    let settings = Settings { steps: 4, ..Settings::default() };
    FitOptions { algorithm, settings, elbo_draws: 1, summary_draws: 0, ..FitOptions::default() }
}

pub(super) fn expected() -> Vec<f64> {
    fit(&GaussianMean {}, &silos(), &Device::flex(), &options(), None).unwrap().posterior().parameters.to_vec()
}

fn served(index: u32, engine: Engine, folder: &Path, identity: &str) -> Served {
    let (make, rows) = program((&GaussianMean {}, &silos()), index, &options());
    Served::start((NAMES[index as usize], rows), engine, folder, identity, make)
}

/// The log of a coordinator for a run over these silos.
fn run(engine: Engine, patience: Patience, disturb: impl FnOnce()) -> (Result<Vec<f64>, String>, Vec<String>) {
    run_by(how(engine, &NAMES.map(str::to_owned), 2, patience), disturb)
}

pub(super) fn run_by(how: CoordinatorOptions, disturb: impl FnOnce()) -> (Result<Vec<f64>, String>, Vec<String>) {
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let own = Arc::clone(&lines);
    let log = Arc::new(move |line: &str| own.lock().unwrap().push(line.to_owned()));
    let connected = Flower::connect_with(how, IDENTITY, log);
    let found = connected.map_err(|error| error.to_string()).and_then(|mut exchange| {
        disturb();
        let rows = rows(&exchange);
        let found = fitted(&GaussianMean {}, &mut exchange, &rows, &options());
        let found = found.map(|algorithm| algorithm.posterior().parameters.to_vec());
        exchange.end(None).unwrap();
        found.map_err(|error| error.to_string())
    });
    let lines = lines.lock().unwrap().clone();
    (found, lines)
}

#[test]
fn an_engine_with_another_certificate_a_key_that_is_not_registered_another_secret_and_the_key_of_another_silo_are_refused()
 {
    let Some(programs) = installed() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let secure = Secure::start(&programs, scratch.path(), 3);
    [0, 1].into_iter().for_each(|index| secure.register(index));
    let _nodes = [secure.node(0), secure.node(1)];
    let mut stranger = secure.node(2);

    let names = NAMES.map(str::to_owned);
    // Neither waits for the patience, after which it would be an error of transport.
    let connect = |ca: &str, secret: &str| {
        let how = how(secure.coordinator(ca, secret), &names, 2, patience(20, LostSilo::Wait));
        Flower::connect(how, IDENTITY).unwrap_err()
    };
    let found = connect("other.pem", "secret");
    assert!(matches!(found, Error::Untrusted { .. }), "{found}");
    assert!(found.to_string().contains("UnknownIssuer"), "{found}");
    std::fs::write(scratch.path().join("guess"), "a guess\n").unwrap();
    let found = connect("ca.pem", "guess");
    assert!(matches!(found, Error::Refused { status: 401, .. }) && found.to_string().contains("secret"), "{found}");

    // Silos with their own keys find the same result as one process.
    let _silos = [0, 1].map(|index: u32| served(index, secure.silo(index as usize), scratch.path(), IDENTITY));
    let bound = |keys: [usize; 2], appear_seconds| {
        let key = |index: usize| NodeKey::read(&scratch.path().join(format!("node-{index}.pub"))).unwrap();
        let keys = names.iter().cloned().zip(keys.map(key)).collect();
        let patience = Patience { appear_seconds, ..patience(20, LostSilo::Wait) };
        run_by(CoordinatorOptions { keys, ..how(secure.coordinator("ca.pem", "secret"), &names, 2, patience) }, || ())
    };
    let (found, lines) = bound([0, 1], 300);
    assert_eq!(found.unwrap(), expected(), "{lines:?}");

    // A registered node that claims another name is not accepted under it.
    let (found, lines) = bound([0, 2], 20);
    let problem = found.unwrap_err();
    assert!(problem.contains("20 s for the silos `south`"), "{problem}");
    assert!(lines.iter().any(|line| line.contains("`south`") && line.contains("another key")), "{lines:?}");

    wait_until(120, || stranger.is_over(), || "a SuperNode with an unknown key is still there".into());
    let said = std::fs::read_to_string(scratch.path().join("node-2.log")).unwrap();
    assert!(said.to_lowercase().contains("activate"), "{said}");
}

#[test]
fn another_model_and_answers_that_are_no_numbers_or_too_large_are_refused_with_the_name_of_the_silo() {
    let Some((scratch, deployment)) = Deployment::capped(2) else { return };
    let wait = patience(20, LostSilo::Wait);

    let folder = scratch.path().join("model");
    let north = served(0, deployment.silo(0), &folder, IDENTITY);
    let south = served(1, deployment.silo(1), &folder, "another model");
    let (found, lines) = run(deployment.coordinator(), wait, || ());
    let problem = found.unwrap_err();
    // By the entry of the file that differs, and not by two hashes.
    assert!(
        problem.contains("found another `model` at silo `south`, expected that of the coordinator")
            && problem.contains("the same file of the study, or of the run"),
        "{problem}"
    );
    assert!(lines.iter().any(|line| line.contains("`south`") && line.contains("another `model`")), "{lines:?}");
    south.wait_for("says hello, of another `model` than this silo has");
    assert!(!north.said().contains("of another"), "{}", north.said());
    north.end().unwrap();
    south.end().unwrap();

    let folder = scratch.path().join("number");
    let north = served(0, deployment.silo(0), &folder, IDENTITY);
    let (mut make, rows) = program((&GaussianMean {}, &silos()), 1, &options());
    let broken = move || {
        Ok(between(make()?, |silo, request| {
            let mut reply = silo.answer(request)?;
            for record in reply.records.iter_mut().filter(|record| record.name == "change") {
                Arc::make_mut(&mut record.bytes)[..8].copy_from_slice(&f64::NAN.to_le_bytes());
            }
            Ok(reply)
        }))
    };
    let south = Served::start(("south", rows), deployment.silo(1), &folder, IDENTITY, Box::new(broken));
    let (found, _) = run(deployment.coordinator(), wait, || ());
    let problem = found.unwrap_err();
    assert!(problem.contains("south") && problem.contains("NaN") && problem.contains("change"), "{problem}");
    north.end().unwrap();
    south.end().unwrap();

    let folder = scratch.path().join("norm");
    let both = [0, 1].map(|silo| served(silo, deployment.silo(silo as usize), &folder, IDENTITY));
    let bounded = Patience { largest_norm: Some(1e-9), ..wait };
    let (found, _) = run(deployment.coordinator(), bounded, || ());
    let problem = found.unwrap_err();
    assert!(problem.contains("of silo `") && problem.contains("largest_norm"), "{problem}");
    both.into_iter().for_each(|silo| silo.end().unwrap());
}

/// Spoils the `nth` answer to calls of this name that is longer than this many bytes.
fn spoil(
    name: &'static str,
    (nth, longer): (usize, usize),
    how: impl Fn(Vec<u8>) -> Vec<u8> + Send + Sync + 'static,
) -> impl FnMut(&str, usize, &[u8]) -> Action + Send + 'static {
    let (count, how) = (Arc::new(Mutex::new(0)), Arc::new(how));
    move |path, _, _| {
        if path != name {
            return Action::Pass;
        }
        let (count, how) = (Arc::clone(&count), Arc::clone(&how));
        Action::Change(Box::new(move |answer| {
            let mut count = count.lock().unwrap();
            *count += usize::from(answer.len() > longer);
            if answer.len() > longer && *count == nth { how(answer) } else { answer }
        }))
    }
}

#[test]
fn bytes_that_were_changed_cut_short_or_announced_without_end_are_refused_on_both_sides() {
    let Some((scratch, deployment)) = Deployment::capped(2) else { return };
    let (link, north) = (Proxy::before(&deployment.coordinator().address), Proxy::before(&deployment.silo(0).address));
    let wait = patience(6, LostSilo::Wait);
    let flip = |mut bytes: Vec<u8>| {
        let place = bytes.len() - 3;
        bytes[place] ^= 1;
        bytes
    };
    let half = |bytes: Vec<u8>| bytes[..bytes.len() / 2].to_vec();

    let serve = |name: &str| {
        let folder = scratch.path().join(name);
        [served(0, north.engine(), &folder, IDENTITY), served(1, deployment.silo(1), &folder, IDENTITY)]
    };
    let end = |silos: [Served; 2]| {
        for proxy in [&link, &north] {
            proxy.rule(|_, _, _| Action::Pass);
        }
        silos.into_iter().for_each(|silo| silo.end().unwrap());
    };

    // A changed byte of an answer: it is asked for again.
    let silos = serve("reply");
    let (found, lines) = run(link.engine(), wait, || link.rule(spoil("pull-object", (2, 40), flip)));
    assert_eq!(found.unwrap(), expected(), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("its bytes hash to")), "{lines:?}");
    end(silos);

    // A changed byte of a request: the silo reports it, and answers the next attempt.
    let silos = serve("request");
    let (found, lines) = run(link.engine(), wait, || north.rule(spoil("pull-object", (2, 40), flip)));
    assert_eq!(found.unwrap(), expected(), "{lines:?}");
    assert!(silos[0].said().contains("its bytes hash to"), "{}", silos[0].said());
    assert!(lines.iter().any(|line| line.contains("the silo could not answer")), "{lines:?}");
    end(silos);

    // Half of a protobuf message to a silo: the engine does not deliver it again until the task's time is over, and the
    // request is sent again.
    let silos = serve("half");
    let (found, lines) = run(link.engine(), wait, || link.rule(spoil("pull-messages", (2, 40), half)));
    let problem = found.unwrap_err();
    assert!(problem.contains("receiving messages cannot be read"), "{problem} {lines:?}");
    end(silos);

    // Ten gigabytes are announced to the coordinator, and to a silo.
    let silos = serve("length");
    let announce = |name: &'static str, nth: usize| {
        move |path: &str, count: usize, _: &[u8]| match path == name && count == nth {
            true => Action::Announce(10_000_000_000),
            false => Action::Pass,
        }
    };
    north.rule(announce("acquire-task", 3));
    silos[0].wait_for("it announces 10000000000 bytes");
    let (found, lines) = run(link.engine(), wait, || link.rule(announce("pull-messages", 2)));
    let problem = found.unwrap_err();
    assert!(problem.contains("it announces 10000000000 bytes"), "{problem} {lines:?}");
    end(silos);
}

#[test]
fn a_second_node_is_not_taken_for_a_silo_whose_first_is_connected_and_is_once_that_one_is_gone() {
    let Some((scratch, mut deployment)) = Deployment::capped(3) else { return };
    let (folder, other) = (scratch.path().join("run"), scratch.path().join("second"));
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let has_refused = |lines: &Mutex<Vec<String>>| {
        let lines = lines.lock().unwrap();
        lines.iter().any(|line| line.contains("silo `north`: node") && line.contains("still connected"))
    };
    let mut north = Some(served(0, deployment.silo(0), &folder, IDENTITY));
    // The coordinator lists the nodes while it waits.
    let ((mut make, rows_of_south), seen) = (program((&GaussianMean {}, &silos()), 1, &options()), Arc::clone(&lines));
    // It delays its solutions until the other node is refused.
    let slow = move || {
        let seen = Arc::clone(&seen);
        Ok(between(make()?, move |silo, request| {
            let started = Instant::now();
            while request.kind == "pvi.solve" && !has_refused(&seen) && started.elapsed() < Duration::from_secs(20) {
                std::thread::sleep(Duration::from_millis(20));
            }
            silo.answer(request)
        }))
    };
    let _south = Served::start(("south", rows_of_south), deployment.silo(1), &folder, IDENTITY, Box::new(slow));

    let own = Arc::clone(&lines);
    let log = Arc::new(move |line: &str| own.lock().unwrap().push(line.to_owned()));
    let names = NAMES.map(str::to_owned);
    let how = how(deployment.coordinator(), &names, 2, patience(30, LostSilo::Wait));
    let mut exchange = Flower::connect_with(how, IDENTITY, log).unwrap();
    let fit_options = FitOptions { settings: Settings { steps: 6, ..Settings::default() }, ..options() };
    let device = Device::flex();
    let mut algorithm = coordinator(&GaussianMean {}, &names, &rows(&exchange), &device, &fit_options).unwrap();
    let (mut second, engine, node) = (None, deployment.silo(2), &mut deployment.nodes[0]);
    let mut after = After(|step| match step {
        1 => second = Some(served(0, engine.clone(), &other, IDENTITY)),
        // The silo moves: with its folder, to the node that was refused.
        3 => {
            second.take().unwrap().end().unwrap();
            north.take().unwrap().end().unwrap();
            let sent = std::process::Command::new("kill").args(["-TERM", &node.id().to_string()]).status().unwrap();
            assert!(sent.success());
            north = Some(served(0, engine.clone(), &folder, IDENTITY));
        }
        _ => (),
    });
    let run_options = RunOptions { steps: 6, ..RunOptions::default() };
    let found = partita::inference::run(&mut *algorithm, &mut exchange, &run_options, &mut after);
    let history = exchange.history().to_vec();
    exchange.end(None).unwrap();
    found.unwrap_or_else(|error| panic!("{error}: {history:?}"));
    let expected = fit(&GaussianMean {}, &silos(), &device, &fit_options, None).unwrap();
    assert_eq!(algorithm.posterior().parameters, expected.posterior().parameters);
    let refused: Vec<_> = history.iter().filter(|event| event.kind == EventKind::Refused).collect();
    assert!(refused.len() == 1 && refused[0].silo == "north" && has_refused(&lines), "{history:?}");
}
