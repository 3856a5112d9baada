//! Runs asynchronous PVI over a real engine: the fixed point is that of one silo after another.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fixtures::between::between;
use fixtures::engine::Deployment;
use fixtures::engine_run::{Seat, over_the_engine, seats};
use fixtures::programs::{Folder, ROUNDS};
use fixtures::proxy::Proxy;
use fixtures::regression::{Regression, silos};
use fixtures::table::{IDENTITY, Served, how, patience, program, rows};
use partita::flower::{Flower, LostSilo};
use partita::inference::{
    Conjugate, Counters, Delays, Exchange, Fitted, Progress, RunRecord, StepInfo, coordinator, fit, fit_asynchronous,
    latest_checkpoint,
};
use partita::{AlgorithmChoice, Device, FamilyPlan, FitOptions, Gaussian, PviOptions, Settings, SiloSchedule};
use serde_json::Value;

const MODEL: Regression = Regression { columns: 3, binary: false };

/// Exchanges of the run, and the local updates of the other silo for each of the straggler.
const VISITS: u64 = 16;
const BEHIND: u64 = 3;

fn options(schedule: SiloSchedule, damping: f64, steps: u64) -> FitOptions {
    let solver = Conjugate.into();
    let how = PviOptions { schedule, damping: Some(damping), solver, theta_every: 0, ..PviOptions::new(1) };
    let settings = Settings { steps, family: FamilyPlan::new().global(Gaussian::full_rank()), ..Settings::default() };
    let algorithm = AlgorithmChoice::Pvi(how);
    FitOptions { algorithm, settings, elbo_draws: 10, summary_draws: 0, ..FitOptions::default() }
}

#[test]
fn a_straggler_over_the_engine_holds_no_other_back_and_the_fixed_point_is_that_of_visits_in_turn() {
    let Some((folder, deployment)) = Deployment::capped(2) else { return };
    let (device, data) = (Device::flex(), silos(&[12, 9], 3, false, &Device::flex()));
    // The answer of a silo with a conjugate solver is exact for any request: damped by 0.99, each local update reduces
    // the error of its factor to a hundredth.
    const DAMPING: f64 = 0.99;
    let how = options(SiloSchedule::Asynchronous(Delays::default()), DAMPING, VISITS);
    let solved: Arc<[AtomicU64; 2]> = Arc::default();
    let counted = (0..).zip(seats(&MODEL, &data, &how)).map(|(place, seat)| {
        let (solved, Seat { name, rows, mut make }) = (Arc::clone(&solved), seat);
        // It counts solutions; the straggler answers only after three more local updates of the other silo.
        let counted = move || {
            let solved = Arc::clone(&solved);
            Ok(between(make()?, move |silo, request| {
                if request.kind == "pvi.solve" {
                    solved[place].fetch_add(1, Ordering::SeqCst);
                    let (of, started) = (|place: usize| solved[place].load(Ordering::SeqCst), Instant::now());
                    let enough = of(0) + BEHIND;
                    while place == 1 && of(0) < enough && of(0) + of(1) <= VISITS {
                        assert!(started.elapsed() < Duration::from_secs(300), "the other silo waits for the straggler");
                        std::thread::sleep(Duration::from_millis(10));
                    }
                }
                silo.answer(request)
            }))
        };
        Seat { name, rows, make: Box::new(counted) }
    });
    let (found, visits) = over_the_engine(&deployment, folder.path(), counted.collect(), |exchange| {
        let names = exchange.silos().to_vec();
        let mut algorithm = coordinator(&MODEL, &names, &rows(exchange), &device, &how).unwrap();
        let Fitted { report, record, .. } =
            fit_asynchronous(&MODEL, &device, &how, &mut *algorithm, exchange, None).unwrap();
        assert!(report.elbo.is_finite());
        (algorithm.posterior().parameters.to_vec(), record.trace.len() as u64)
    });
    let solved: Vec<u64> = solved.iter().map(|count| count.load(Ordering::SeqCst)).collect();
    // All local updates are counted, and one may have been in progress at the end.
    assert_eq!(visits, VISITS);
    assert!((VISITS..=VISITS + 1).contains(&solved.iter().sum()), "{solved:?}");
    assert!(solved[0] >= BEHIND * (solved[1] - 1) && solved[1] >= 3, "{solved:?}");

    let in_turn = options(SiloSchedule::Sequential(partita::inference::Order::Fixed), 1.0, 4);
    let exact = fit(&MODEL, &data, &device, &in_turn, None).unwrap();
    // The last answer of the straggler may have come too late to count.
    let bound = 10.0 * (1.0 - DAMPING).powi(i32::try_from(solved[1] - 1).unwrap()).max(1e-9);
    for (found, exact) in found.iter().zip(exact.posterior().parameters) {
        assert!((found - exact).abs() <= bound * (1.0 + exact.abs()), "{found} against {exact}, {solved:?} visits");
    }
}

#[test]
fn the_executables_ask_silos_one_by_one_and_have_rows_judged_that_silos_keep_for_it() {
    let Some((scratch, deployment)) = Deployment::capped(2) else { return };
    let silos = [&deployment.silo(0), &deployment.silo(1)];
    let folder = Folder::new(scratch.path().join("run"), "pvi", &deployment.coordinator(), silos, "");
    let change = |name: &str, change: &dyn Fn(String) -> String| {
        let path = folder.path(name);
        std::fs::write(&path, change(std::fs::read_to_string(&path).unwrap())).unwrap();
    };
    change("run.toml", &|text| text + "schedule = \"asynchronous\"\nheld_out_draws = 5\n");
    for (name, other) in [("north", 2), ("south", 1)] {
        let allow = |text: String| text.replace("allow = [", "allow = [\"evaluate\", ");
        change(&format!("{name}.toml"), &|text| format!("held_out = \"example:{other}\"\n{}", allow(text)));
    }
    let _silos = [folder.silo("north"), folder.silo("south")];
    folder.wait_for_end(&mut folder.coordinator(&[]));
    let read = |name: &str| -> Value {
        let Ok(bytes) = std::fs::read(folder.path(name)) else { panic!("{}", folder.log("coordinator.log")) };
        serde_json::from_slice(&bytes).unwrap()
    };
    let (result, judged) = (read("output/result.json"), read("output/evaluation.json"));
    let page = std::fs::read_to_string(folder.path("output/report.html")).unwrap();
    for words in
        ["Marginal density of beta[0]", "The dashed line", "Trace of the bound", "All that a message from a silo"]
    {
        assert!(page.contains(words), "{words}");
    }
    // Every local update is an exchange; the bound is one more, and every look of the round of trust.
    let looks = result["trust"]["Checked"]["draws"].as_u64().unwrap() / 2_048;
    assert_eq!((&result["ending"], &result["rounds"]), (&"Completed".into(), &(ROUNDS + 1 + looks).into()));
    let rows: Vec<&Value> = judged["silos"].as_array().unwrap().iter().map(|silo| &silo["rows"]).collect();
    assert_eq!((rows, &judged["draws"]), (vec![&Value::from(4 * 237), &Value::from(4 * 300)], &5.into()));
    // A finished run has only its report left to do.
    folder.wait_for_end(&mut folder.coordinator(&["--resume"]));
    let again = read("output/result.json");
    assert_eq!((&again["sites"], &again["rounds"]), (&result["sites"], &result["rounds"]));
}

/// Ends its coordinator abruptly after this many steps.
struct Killed(u64);

impl Progress for Killed {
    fn step(&mut self, info: &StepInfo, _: &Counters) {
        if info.step == self.0 {
            std::panic::resume_unwind(Box::new("killed"));
        }
    }
    fn end(&mut self, _: &RunRecord) {}
}

/// The round of the latest answer of each silo in a checkpoint.
fn latest_accepted(root: &std::path::Path) -> Vec<u64> {
    let folder = latest_checkpoint(root).unwrap().unwrap().0;
    let text = std::fs::read_to_string(folder.join("flower.json")).unwrap();
    // Its last line is the SHA-256 of what stands above.
    let (text, _) = text.trim_end().rsplit_once('\n').unwrap();
    let json: serde_json::Value = serde_json::from_str(text).unwrap();
    json["accepted"].as_array().unwrap().iter().map(|round| round.as_u64().unwrap()).collect()
}

#[test]
fn a_coordinator_killed_with_answers_that_it_had_not_taken_goes_on_from_its_checkpoint_to_the_same_fixed_point() {
    let Some((scratch, deployment)) = Deployment::capped(2) else { return };
    let link = Proxy::before(&deployment.coordinator().address);
    let (device, data) = (Device::flex(), silos(&[12, 9], 3, false, &Device::flex()));
    // A silo's first answer has all but a hundredth of its factor: one that counts twice, or not at all, could not be
    // corrected later.
    const DAMPING: f64 = 0.99;
    const STEPS: u64 = 10;
    let fresh = FitOptions {
        checkpoint: Some((scratch.path().join("coordinator"), 1)),
        ..options(SiloSchedule::Asynchronous(Delays::default()), DAMPING, STEPS)
    };
    let names: Vec<String> = data.iter().map(|(name, _)| name.clone()).collect();
    let serve = |index: u32| {
        let (make, rows) = program((&MODEL, &data), index, &fresh);
        let name = &names[index as usize];
        Served::start((name, rows), deployment.silo(index as usize), scratch.path(), IDENTITY, make)
    };
    let served = [serve(0), serve(1)];
    let connect = || {
        let how = how(link.engine(), &names, 2, patience(60, LostSilo::Wait));
        Flower::connect(how, IDENTITY).unwrap()
    };

    let mut exchange = connect();
    let mut algorithm = coordinator(&MODEL, &names, &rows(&exchange), &device, &fresh).unwrap();
    // Both answers come at once: the checkpoint after the first is written with the second at hand.
    let hold = link.hold("pull-messages", 1);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            hold.wait();
            served.iter().for_each(|silo| silo.wait_for("pvi.solve"));
            std::thread::sleep(Duration::from_secs(3));
            hold.release();
        });
        let work = std::panic::AssertUnwindSafe(|| {
            let killed: &mut dyn Progress = &mut Killed(2);
            fit_asynchronous(&MODEL, &device, &fresh, &mut *algorithm, &mut exchange, Some(killed))
        });
        assert!(std::panic::catch_unwind(work).is_err());
    });
    drop((exchange, algorithm));

    let folder =
        latest_checkpoint(fresh.checkpoint.as_ref().map(|(root, _)| root.as_path()).unwrap()).unwrap().unwrap().0;
    assert!(Flower::end_former_run(&link.engine(), &folder).unwrap());
    let root = scratch.path().join("coordinator");
    let resumed = FitOptions { resume: true, ..fresh };
    let mut exchange = connect();
    let mut algorithm = coordinator(&MODEL, &names, &rows(&exchange), &device, &resumed).unwrap();
    let Fitted { report, record, .. } =
        fit_asynchronous(&MODEL, &device, &resumed, &mut *algorithm, &mut exchange, None).unwrap();
    exchange.end(None).unwrap();
    served.into_iter().for_each(|silo| silo.end().unwrap());
    // No work in progress counts; the round of trust and the bound are exchanges too.
    let steps: Vec<u64> = record.trace.iter().map(|(step, _)| *step).collect();
    // These silos allow no round of trust, which is asked once and said.
    assert!(report.to_string().contains("silo `silo-0` could not answer"), "{report}");
    assert_eq!((steps, report.rounds), ((1..=STEPS).collect(), STEPS + 2));
    let in_turn = options(SiloSchedule::Sequential(partita::inference::Order::Fixed), 1.0, 4);
    let exact = fit(&MODEL, &data, &device, &in_turn, None).unwrap();
    // An answer that waits for the engine to give it again comes after all steps: its silo then counted once.
    let visits = if latest_accepted(&root).iter().all(|round| *round > 2) { 2 } else { 1 };
    for (found, exact) in algorithm.posterior().parameters.iter().zip(exact.posterior().parameters) {
        let bound = 10.0 * (1.0 - DAMPING).powi(visits);
        assert!((found - exact).abs() <= bound * (1.0 + exact.abs()), "{found} against {exact}");
    }
}
