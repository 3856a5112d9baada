//! Continues without a silo, takes it back and takes in a late one, over a real deployment and by the stated rules.
//!
//! Each test is rows of the table in `docs/src/reference-flower-faults.md`.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fixtures::between::between;
use fixtures::engine::{Deployment, copy};
use fixtures::interrupted::Interrupted;
use fixtures::message::with_floats;
use fixtures::table::{IDENTITY, Served, how, patience, program, rows};
use partita::flower::{Event, EventKind, Flower, LostSilo, Patience};
use partita::inference::{
    AlgorithmChoice, Conjugate, Counters, Exchange, Message, MissingSilo, Outcome, Progress, Request, RunOptions,
    RunRecord, StepInfo, coordinator, parties, run,
};
use partita::models::GaussianMean;
use partita::{Device, FitOptions, Model, PviOptions, Settings};

const NAMES: [&str; 3] = ["north", "south", "west"];

fn numbers() -> Vec<Vec<f64>> {
    vec![vec![1.0, 2.5], vec![3.0], vec![-4.0, 5.0, 6.5]]
}

fn silos() -> Vec<(String, <GaussianMean as Model>::Data)> {
    let device = Device::flex();
    NAMES.iter().zip(numbers()).map(|(name, own)| ((*name).to_owned(), GaussianMean::data(&own, &device))).collect()
}

/// One silo after another, each with the exact solution of its local problem: the result does not depend on the number
/// of local updates of a silo, provided it has one, and nothing is counted twice.
fn options(visits: u64, missing_silo: MissingSilo) -> FitOptions {
    let pvi = PviOptions { solver: Conjugate.into(), missing_silo, ..PviOptions::new(1) };
    let settings = Settings { steps: visits, ..Settings::default() };
    FitOptions { algorithm: AlgorithmChoice::Pvi(pvi), settings, ..FitOptions::default() }
}

/// The exact posterior given the numbers of some silos: mean and standard deviation.
fn exact(silos: &[usize]) -> [f64; 2] {
    let numbers = numbers();
    let found = GaussianMean::posterior(&silos.iter().map(|silo| numbers[*silo].clone()).collect::<Vec<_>>());
    [found.mean, found.variance.sqrt()]
}

/// Acts after a step.
pub(super) struct After<F: FnMut(u64)>(pub(super) F);

impl<F: FnMut(u64) + Send> Progress for After<F> {
    fn step(&mut self, info: &StepInfo, _: &Counters) {
        (self.0)(info.step);
    }

    fn end(&mut self, _: &RunRecord) {}
}

fn served(deployment: &Deployment, folder: &Path, index: u32) -> Served {
    let (make, rows) = program((&GaussianMean {}, &silos()), index, &options(1, MissingSilo::Fail));
    Served::start((NAMES[index as usize], rows), deployment.silo(index as usize), folder, IDENTITY, make)
}

/// The result of a run, the parameters of its posterior and mean with standard deviation, and the events meanwhile.
struct Found {
    parameters: Vec<f64>,
    moments: [f64; 2],
    history: Vec<Event>,
}

fn fitted(
    exchange: &mut dyn Exchange,
    rows: &[usize],
    (visits, missing_silo): (u64, MissingSilo),
    after: impl FnMut(u64) + Send,
) -> partita::inference::Result<(Vec<f64>, [f64; 2])> {
    let names = exchange.silos().to_vec();
    let mut algorithm = coordinator(&GaussianMean {}, &names, rows, &Device::flex(), &options(visits, missing_silo))?;
    let how = RunOptions { steps: visits, ..RunOptions::default() };
    run(&mut *algorithm, exchange, &how, &mut After(after))?;
    let posterior = algorithm.posterior();
    let own = posterior.parameters;
    let moments = [posterior.family.mean(own)[0], posterior.family.covariance_matrix(own).deviations()[0]];
    Ok((own.to_vec(), moments))
}

/// A run over the engine in which `after` acts after a step; if it fails, the error and the events before.
fn over_the_engine(
    deployment: &Deployment,
    (quorum, patience): (usize, Patience),
    visits: u64,
    after: impl FnMut(u64) + Send,
) -> Result<Found, (partita::inference::Error, Vec<Event>)> {
    let names = NAMES.map(str::to_owned);
    let mut exchange = Flower::connect(how(deployment.coordinator(), &names, quorum, patience), IDENTITY).unwrap();
    let rows = rows(&exchange);
    let missing_silo = if patience.lost_silo == LostSilo::GoOn { MissingSilo::GoOn } else { MissingSilo::Fail };
    let fitted = fitted(&mut exchange, &rows, (visits, missing_silo), after);
    let history = exchange.history().to_vec();
    exchange.end(None).unwrap();
    match fitted {
        Ok((parameters, moments)) => Ok(Found { parameters, moments, history }),
        Err(error) => Err((error, history)),
    }
}

/// The result of the same run in one process, with silos absent as in the history.
fn in_one_process(visits: u64, history: &[Event]) -> Vec<f64> {
    let (_, silos) = parties(&GaussianMean {}, &silos(), &Device::flex(), &options(visits, MissingSilo::GoOn)).unwrap();
    let is_absent = |round: u64, silo: usize| {
        let mut own = history.iter().filter(|event| event.silo == NAMES[silo]);
        let last =
            own.rfind(|event| matches!(event.kind, EventKind::Missing | EventKind::Back) && event.round <= round);
        last.is_some_and(|event| event.kind == EventKind::Missing)
    };
    let rows: Vec<usize> = numbers().iter().map(Vec::len).collect();
    let instead = |round: u64, request: &Request, _| {
        is_absent(round, request.silo).then(|| Outcome::Lost { reason: "it is absent".into() })
    };
    fitted(&mut Interrupted::new(silos, instead), &rows, (visits, MissingSilo::GoOn), |_| ()).unwrap().0
}

#[track_caller]
fn assert_close(found: [f64; 2], expected: [f64; 2]) {
    // Sums of a few numbers in natural parameters and back.
    assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?}, expected {expected:?}");
}

fn kinds(history: &[Event], silo: &str) -> Vec<EventKind> {
    let own = history.iter().filter(|event| event.silo == silo).map(|event| event.kind);
    own.filter(|kind| *kind != EventKind::Unanswered).collect()
}

#[test]
fn a_run_goes_on_without_a_silo_that_is_gone_with_its_factor_and_takes_in_one_that_is_late() {
    let Some((scratch, deployment)) = Deployment::capped(3) else { return };
    let go_on = |appear_seconds| Patience { appear_seconds, ..patience(5, LostSilo::GoOn) };

    // West ends after two sweeps and never comes back: its factor stays.
    let folder = scratch.path().join("gone");
    let (_north, _south) = (served(&deployment, &folder, 0), served(&deployment, &folder, 1));
    let mut west = Some(served(&deployment, &folder, 2));
    let found = over_the_engine(&deployment, (2, go_on(60)), 15, |step| {
        if step == 6 {
            west.take().unwrap().end().unwrap();
        }
    });
    let found = found.unwrap();
    assert_close(found.moments, exact(&[0, 1, 2]));
    assert_eq!(kinds(&found.history, "west"), [EventKind::Missing], "{:?}", found.history);
    assert_eq!(found.history.iter().find(|event| event.kind == EventKind::Missing).unwrap().round, 9);
    assert_eq!(found.parameters, in_one_process(15, &found.history));
    drop((_north, _south));

    // West appears after two sweeps: until then the posterior is that without it.
    let folder = scratch.path().join("late");
    let (_north, _south) = (served(&deployment, &folder, 0), served(&deployment, &folder, 1));
    let mut west = None;
    let found = over_the_engine(&deployment, (2, go_on(15)), 15, |step| {
        if step == 6 {
            let late = west.insert(served(&deployment, &folder, 2));
            late.wait_for("says hello");
            // The coordinator lists the nodes once a second while it waits.
            std::thread::sleep(Duration::from_millis(1_500));
        }
    });
    let found = found.unwrap();
    assert_close(found.moments, exact(&[0, 1, 2]));
    assert_eq!(kinds(&found.history, "west"), [EventKind::Missing, EventKind::Back], "{:?}", found.history);
    assert_eq!(found.history[0].round, 0);
    assert_eq!(found.parameters, in_one_process(15, &found.history));
    // The result with fewer silos differs from that with all.
    assert!(in_one_process(6, &found.history[..1]) != in_one_process(6, &[]));
}

#[test]
fn a_silo_restored_from_an_old_disk_joins_again_with_the_factor_that_the_coordinator_has() {
    let Some((scratch, deployment)) = Deployment::capped(3) else { return };
    let go_on = Patience { appear_seconds: 60, ..patience(5, LostSilo::GoOn) };
    let folder = scratch.path().join("run");
    let (_north, _south) = (served(&deployment, &folder, 0), served(&deployment, &folder, 1));
    let mut west = Some(served(&deployment, &folder, 2));
    let (own, old) = (folder.join("west"), folder.join("old"));
    let found = over_the_engine(&deployment, (2, go_on), 18, |step| {
        if step == 3 {
            std::fs::create_dir_all(&old).unwrap();
            copy(&own, &old);
        }
        if step == 9 {
            west.take().unwrap().end().unwrap();
            std::fs::remove_dir_all(&own).unwrap();
            copy(&old, &own);
            west = Some(served(&deployment, &folder, 2));
        }
    });
    let found = found.unwrap();
    assert_close(found.moments, exact(&[0, 1, 2]));
    let expected = [EventKind::Refused, EventKind::Missing, EventKind::Back];
    assert_eq!(kinds(&found.history, "west"), expected, "{:?}", found.history);
    assert_eq!(found.parameters, in_one_process(18, &found.history));
    assert!(west.unwrap().said().contains("the state of this silo"));
}

#[test]
fn a_run_that_may_not_go_on_without_a_silo_ends_with_an_error_that_names_it() {
    let Some((scratch, deployment)) = Deployment::capped(3) else { return };
    let fail = patience(4, LostSilo::Fail);
    let quorum = Patience { attempts: 2, ..patience(4, LostSilo::GoOn) };
    let wait = Patience { attempts: 2, ..patience(4, LostSilo::Wait) };
    for (name, how, expected, attempts) in [
        ("fail", (3, fail), "silo `west`", 1),
        ("quorum", (3, quorum), "a quorum of 3", 2),
        ("wait", (3, wait), "silo `west`", 2),
    ] {
        let folder = scratch.path().join(name);
        let (_north, _south) = (served(&deployment, &folder, 0), served(&deployment, &folder, 1));
        let mut west = Some(served(&deployment, &folder, 2));
        let found = over_the_engine(&deployment, how, 15, |step| {
            if step == 3 {
                west.take().unwrap().end().unwrap();
            }
        });
        let (error, history) = found.err().unwrap();
        assert!(error.to_string().contains(expected) && !error.to_string().contains("::"), "{name}: {error}");
        let asked = history.iter().filter(|event| event.silo == "west" && event.kind == EventKind::Unanswered);
        assert_eq!(asked.count(), attempts, "{name}: {history:?}");
    }
}

/// Makes a bad answer of one.
type Spoil = fn(Message) -> Message;

#[test]
fn a_bad_answer_of_one_silo_loses_that_silo_for_a_round_and_not_the_run() {
    let Some((scratch, deployment)) = Deployment::capped(3) else { return };
    let go_on = Patience { largest_norm: Some(1e6), ..patience(5, LostSilo::GoOn) };
    let fail = Patience { lost_silo: LostSilo::Fail, ..go_on };
    let huge = |answer: Message| with_floats(&answer, "change", &[1e9, 1.0]);
    let cases: [(&str, Spoil, &str); 2] = [
        ("unlisted", |answer| answer.floats("rows", &[-4.0, 5.0, 6.5]), "field `rows`"),
        ("huge", huge, "the size of an answer"),
    ];
    for (name, with, words) in cases {
        let folder = scratch.path().join(name);
        let over = |how, folder: &Path| {
            let (_north, _south) = (served(&deployment, folder, 0), served(&deployment, folder, 1));
            let (mut make, rows) = program((&GaussianMean {}, &silos()), 2, &options(1, MissingSilo::Fail));
            // How often it was asked, over all programs that are made of it.
            let asked = Arc::new(AtomicUsize::new(0));
            let make = Box::new(move || {
                let asked = Arc::clone(&asked);
                Ok(between(make()?, move |silo, request| {
                    let answer = silo.answer(request)?;
                    let is_second = !request.kind.starts_with("silo.") && asked.fetch_add(1, Ordering::Relaxed) == 1;
                    Ok(if is_second { with(answer) } else { answer })
                }))
            });
            let _west = Served::start((NAMES[2], rows), deployment.silo(2), folder, IDENTITY, make);
            over_the_engine(&deployment, how, 15, |_| ())
        };
        let found = over((2, go_on), &folder.join("go-on")).unwrap();
        let expected = [EventKind::Refused, EventKind::Missing, EventKind::Back];
        assert_eq!(kinds(&found.history, "west"), expected, "{:?}", found.history);
        assert!(found.history.iter().any(|event| event.what.contains(words)), "{:?}", found.history);
        // It went back to its state before that answer: nothing is counted twice.
        assert_close(found.moments, exact(&[0, 1, 2]));
        assert_eq!(found.parameters, in_one_process(15, &found.history));
        let (error, _) = over((3, fail), &folder.join("fail")).err().unwrap();
        assert!(error.to_string().contains(words), "{error}");
    }
}
