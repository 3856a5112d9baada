//! Loses, repeats, delays and replays messages of a real deployment: the results have the same bits.
//!
//! Each test is rows of the table in `docs/src/reference-flower-faults.md`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fixtures::engine::{Deployment, Keeps};
use fixtures::proxy::{Action, Proxy};
use fixtures::table::{IDENTITY, Served, fitted, how, patience, program, rows};
use partita::flower::{Event, Flower, LostSilo};
use partita::inference::{AlgorithmChoice, Exchange, coordinator};
use partita::models::{MixedLogistic, RepeatedBinary};
use partita::{Device, FamilyPlan, FitOptions, Gaussian, PviOptions, Schedule, Settings, SiloSchedule, fit};
use tempfile::TempDir;

fn silos() -> Vec<(String, RepeatedBinary)> {
    fixtures::six_cities_halves(["north", "south"], &Device::flex())
}

/// Five rounds of PVI, all silos at once.
fn options() -> FitOptions {
    let family = FamilyPlan::new().global(Gaussian::full_rank()).local(Gaussian::diagonal().given_globals());
    let settings = Settings { steps: 100, family, schedule: Schedule::Constant { rate: 0.01 }, ..Settings::default() };
    let algorithm = AlgorithmChoice::Pvi(PviOptions { schedule: SiloSchedule::Synchronous, ..PviOptions::new(20) });
    FitOptions { algorithm, settings, elbo_draws: 1, summary_draws: 0, ..FitOptions::default() }
}

/// A deployment with proxies everywhere.
struct World {
    deployment: Deployment,
    /// Between the SuperNodes and the SuperLink.
    fleet: Proxy,
    /// Between the coordinator and the SuperLink.
    link: Proxy,
    /// Between the first silo and its SuperNode.
    north: Proxy,
    expected: Vec<f64>,
}

impl World {
    fn start() -> Option<(TempDir, Self)> {
        let mut fleet = None;
        let (folder, deployment) = Deployment::capped_behind(2, Keeps::InMemory, |port| {
            fleet.insert(Proxy::before(&format!("127.0.0.1:{port}"))).port()
        })?;
        let link = Proxy::before(&deployment.coordinator().address);
        let north = Proxy::before(&deployment.silo(0).address);
        let expected = fit(&MixedLogistic::new(4), &silos(), &Device::flex(), &options(), None).unwrap();
        let expected = expected.posterior().parameters.to_vec();
        Some((folder, Self { deployment, fleet: fleet.unwrap(), link, north, expected }))
    }

    /// A run that `disturb` disturbs once it has begun, with unchanged bits; returns the logs of the coordinator and
    /// the silo.
    #[track_caller]
    fn run(&self, folder: &Path, deadline: u64, disturb: impl FnOnce(&Self)) -> (Vec<Event>, String) {
        let (silos, options) = (silos(), options());
        let names: Vec<String> = silos.iter().map(|(name, _)| name.clone()).collect();
        let serve = |index: u32, engine| {
            let (make, rows) = program((&MixedLogistic::new(4), &silos), index, &options);
            Served::start((&names[index as usize], rows), engine, folder, IDENTITY, make)
        };
        let served = [serve(0, self.north.engine()), serve(1, self.deployment.silo(1))];
        let how = how(self.link.engine(), &names, 2, patience(deadline, LostSilo::Wait));
        let mut exchange = Flower::connect(how, IDENTITY).unwrap();
        disturb(self);
        let rows = rows(&exchange);
        let found = fitted(&MixedLogistic::new(4), &mut exchange, &rows, &options).unwrap();
        assert_eq!(found.posterior().parameters, self.expected);
        let history = exchange.history().to_vec();
        for proxy in [&self.fleet, &self.link, &self.north] {
            proxy.rule(|_, _, _| Action::Pass);
        }
        exchange.end(None).unwrap();
        let [north, south] = served;
        let said = north.said();
        north.end().unwrap();
        south.end().unwrap();
        (history, said)
    }
}

/// Changes the `nth` answer to calls of this name that is not empty.
fn change(
    name: &'static str,
    nth: usize,
    how: impl Fn(&[Vec<u8>], Vec<u8>) -> Vec<u8> + Send + Sync + 'static,
) -> impl FnMut(&str, usize, &[u8]) -> Action + Send + 'static {
    let seen: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
    let how = Arc::new(how);
    move |path, _, _| {
        if path != name {
            return Action::Pass;
        }
        let (seen, how) = (Arc::clone(&seen), Arc::clone(&how));
        Action::Change(Box::new(move |answer| {
            if answer.is_empty() {
                return answer;
            }
            let mut seen = seen.lock().unwrap();
            seen.push(answer.clone());
            if seen.len() == nth { how(&seen, answer) } else { answer }
        }))
    }
}

#[test]
fn a_request_and_a_reply_that_are_lost_and_a_reply_that_is_late_change_nothing() {
    let Some((scratch, world)) = World::start() else { return };

    // The SuperLink believes that a message is delivered which the SuperNode never receives, over a slow link: the
    // deadline passes while the coordinator polls for answers.
    let (history, _) = world.run(&scratch.path().join("request"), 4, |world| {
        world.link.rule(|path, _, _| {
            if path == "pull-messages" {
                std::thread::sleep(std::time::Duration::from_secs(1));
            }
            Action::Pass
        });
        world.fleet.rule(change("pull-messages", 3, |_, _| Vec::new()));
    });
    assert!(history.iter().any(|event| event.what.contains("no answer in 4 s")), "{history:?}");

    // The same with an answer, which the silo repeats without computing it again.
    let (history, _) = world.run(&scratch.path().join("reply"), 4, |world| {
        world.link.rule(change("pull-messages", 3, |_, _| Vec::new()));
    });
    // The SuperLink reports that it has already delivered it.
    assert!(history.iter().any(|event| event.what.contains("Message Unavailable")), "{history:?}");

    // The first answer arrives after the request was sent again, and counts.
    let (history, _) = world.run(&scratch.path().join("late"), 4, |world| {
        let hold = world.north.hold("push-messages", 2);
        std::thread::spawn(move || {
            hold.wait();
            std::thread::sleep(std::time::Duration::from_secs(5));
            hold.release();
        });
    });
    assert!(history.iter().any(|event| event.what.contains("no answer in 4 s")), "{history:?}");
}

#[test]
fn replies_that_come_twice_or_from_an_earlier_round_or_run_change_nothing() {
    let Some((scratch, world)) = World::start() else { return };

    // Lists of a protobuf message that is appended to itself hold everything twice. Of a thousand answers the content
    // of one is fetched.
    let asked: Arc<Mutex<BTreeMap<Vec<u8>, usize>>> = Arc::default();
    let count = Arc::clone(&asked);
    let (history, _) = world.run(&scratch.path().join("twice"), 60, move |world| {
        let mut messages = change("pull-messages", 2, |_, answer| answer.repeat(1_000));
        world.link.rule(move |path, calls, body| {
            if path == "pull-object" {
                *count.lock().unwrap().entry(body.to_vec()).or_default() += 1;
            }
            messages(path, calls, body)
        });
    });
    assert!(history.is_empty(), "{history:?}");
    let asked = asked.lock().unwrap();
    // More than one each: while it is in transit, and when two answers share it.
    assert!(!asked.is_empty() && asked.values().all(|count| *count < 900), "{:?}", asked.values());

    let earlier: Arc<Mutex<Vec<u8>>> = Arc::default();
    let kept = Arc::clone(&earlier);
    let (history, _) = world.run(&scratch.path().join("round"), 60, |world| {
        world.link.rule(change("pull-messages", 4, move |seen, answer| {
            kept.lock().unwrap().clone_from(&seen[0]);
            [seen[0].clone(), answer].concat()
        }));
    });
    assert!(history.is_empty(), "{history:?}");

    let (history, _) = world.run(&scratch.path().join("run"), 60, |world| {
        let earlier = earlier.lock().unwrap().clone();
        assert!(!earlier.is_empty());
        world.link.rule(change("pull-messages", 3, move |_, answer| [earlier.clone(), answer].concat()));
    });
    assert!(history.is_empty(), "{history:?}");
}

#[test]
fn a_request_of_an_earlier_round_that_is_replayed_to_a_silo_is_not_applied_again() {
    let Some((scratch, world)) = World::start() else { return };
    let (history, said) = world.run(&scratch.path().join("run"), 10, |world| {
        // In the third round the silo receives the message of the first one again, with all its objects.
        let objects: Arc<Mutex<BTreeMap<Vec<u8>, Vec<u8>>>> = Arc::default();
        let mut messages = change("pull-messages", 3, |seen, _| seen[0].clone());
        world.north.rule(move |path, count, body| {
            if path != "pull-object" {
                return messages(path, count, body);
            }
            if let Some(known) = objects.lock().unwrap().get(body) {
                return Action::Answer(known.clone());
            }
            let (objects, body) = (Arc::clone(&objects), body.to_vec());
            Action::Change(Box::new(move |answer| {
                // A message in transit still has no content.
                if answer.len() > 16 {
                    objects.lock().unwrap().insert(body, answer.clone());
                }
                answer
            }))
        });
    });
    // On a slow machine its time expires first.
    assert!(said.contains("the age of a request") || said.contains("after its time"), "{said}");
    assert!(history.iter().any(|event| event.what.contains("no answer in 10 s")), "{history:?}");
}

#[test]
fn an_answer_whose_content_never_comes_delays_no_other_silo() {
    let Some((scratch, world)) = World::start() else { return };
    let (silos, options) = (silos(), options());
    let names: Vec<String> = silos.iter().map(|(name, _)| name.clone()).collect();
    let folder = scratch.path().join("run");
    let served = [0, 1].map(|index: u32| {
        let (make, rows) = program((&MixedLogistic::new(4), &silos), index, &options);
        let engine = world.deployment.silo(index as usize);
        Served::start((&names[index as usize], rows), engine, &folder, IDENTITY, make)
    });
    let mut exchange =
        Flower::connect(how(world.link.engine(), &names, 2, patience(60, LostSilo::Wait)), IDENTITY).unwrap();
    let device = Device::flex();
    let mut algorithm = coordinator(&MixedLogistic::new(4), &names, &rows(&exchange), &device, &options).unwrap();

    // The engine knows of the first answer to come, and does not have the object that names its silo.
    let (stalled, is_over) = (Arc::new(Mutex::new(None::<Vec<u8>>)), Arc::new(AtomicBool::new(false)));
    let (first, over) = (Arc::clone(&stalled), Arc::clone(&is_over));
    world.link.rule(move |path, _, _| {
        if path != "pull-object" {
            return Action::Pass;
        }
        let (first, over) = (Arc::clone(&first), Arc::clone(&over));
        Action::Change(Box::new(move |answer| {
            let name = [&b"north"[..], b"south"].into_iter().find(|name| contains(&answer, name));
            let Some(name) = name.filter(|_| !over.load(Ordering::Relaxed)) else { return answer };
            let mut first = first.lock().unwrap();
            // Found, and not available.
            if first.get_or_insert_with(|| name.to_vec()) == name { vec![0x08, 0x01] } else { answer }
        }))
    });
    let started = Instant::now();
    exchange.send(algorithm.outgoing().unwrap(), None).unwrap();
    let mut outcome = || exchange.receive(algorithm.manifest(), Some(Duration::from_secs(60))).unwrap().unwrap().silo;
    let other = outcome();
    assert!(started.elapsed() < Duration::from_secs(40), "{:?}", started.elapsed());
    let stalled = stalled.lock().unwrap().clone().unwrap();
    assert_ne!(names[other].as_bytes(), stalled);
    is_over.store(true, Ordering::Relaxed);
    assert_eq!(names[outcome()].as_bytes(), stalled);
    assert!(exchange.history().is_empty(), "{:?}", exchange.history());
    exchange.end(None).unwrap();
    served.into_iter().for_each(|silo| silo.end().unwrap());
}

fn contains(bytes: &[u8], name: &[u8]) -> bool {
    bytes.windows(name.len()).any(|part| part == name)
}

#[test]
fn calls_that_break_inside_the_engine_are_made_again_and_change_nothing() {
    let Some((scratch, world)) = World::start() else { return };
    let (history, said) = world.run(&scratch.path().join("run"), 60, |world| {
        for proxy in [&world.link, &world.north] {
            // As if other processes had locked the engine's database: every third call of each kind.
            proxy.rule(|_, count, _| if count % 3 == 0 { Action::Break } else { Action::Pass });
        }
    });
    assert!(history.is_empty(), "{history:?}");
    assert!(!said.contains("failed") && !said.contains("not taken"), "{said}");

    // A call that fails every time is reported, and soon.
    world.link.rule(|path, _, _| if path == "start-run" { Action::Break } else { Action::Pass });
    let names: Vec<String> = silos().into_iter().map(|(name, _)| name).collect();
    let how = how(world.link.engine(), &names, 2, patience(60, LostSilo::Wait));
    let error = Flower::connect(how, IDENTITY).unwrap_err().to_string();
    assert!(error.contains("status 500") && error.contains("Internal server error"), "{error}");
}
