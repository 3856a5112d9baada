//! Tests what silos that leave, are removed or do not answer may change in PVI, and what they may not.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fixtures::counts::Counts;
use fixtures::message::{with_floats, with_word};
use fixtures::partitioned::{LINEAR, Run, close, conjugate_options, exact, four_silos, plus, settings};
use fixtures::regression::Rows;
use partita::inference::{
    Algorithm, Arrival, Asynchronous, Delays, Ending, Error, Exchange, GradientDescent, Manifest, MissingSilo, Order,
    Outcome, PriorShare, PviSilo, Request, RunOptions, Sgd, Silent, SiloProgram, StepInfo, Tolerance, run,
    run_asynchronous,
};
use partita::{Device, PviOptions, Schedule, Settings, SiloSchedule};

/// Every schedule of rounds and of the simulated clock.
const SCHEDULES: [SiloSchedule; 6] = [
    SiloSchedule::Sequential(Order::Fixed),
    SiloSchedule::Sequential(Order::Random),
    SiloSchedule::Sequential(Order::Residual),
    SiloSchedule::Synchronous,
    SiloSchedule::Subset(2),
    SiloSchedule::Asynchronous(Delays { longest: 8.0, straggle: 1.0, loss: 0.0, seed: 1 }),
];

fn go_on(schedule: SiloSchedule) -> PviOptions {
    PviOptions { missing_silo: MissingSilo::GoOn, ..conjugate_options(schedule) }
}

fn without(data: &[(String, Rows)], silo: usize) -> Vec<f64> {
    exact(&[&data[..silo], &data[silo + 1..]].concat(), 3)
}

/// An exchange in which these silos do not answer.
fn lose(run: &mut Run, silent: &[usize]) -> std::result::Result<StepInfo, Error> {
    let requests = run.pvi.outgoing().unwrap();
    let outcome = |request: &Request| match silent.contains(&request.silo) {
        true => Outcome::Lost { reason: "the line is cut".into() },
        false => run.silos[request.silo].answer(&request.message).map_or_else(Outcome::Failed, Outcome::Reply),
    };
    let outcomes = requests.iter().map(outcome).collect();
    run.pvi.incoming(outcomes)
}

#[test]
fn a_silo_that_never_answers_holds_up_no_schedule() {
    let data = four_silos();
    for schedule in SCHEDULES {
        // A local update of one silo in four moves its factor by a quarter of the remaining distance.
        let exchanges = if matches!(schedule, SiloSchedule::Asynchronous(_)) { 400 } else { 70 };
        for silent in [0, 2] {
            let mut run = Run::new(&LINEAR, &data, &settings(1_000), go_on(schedule));
            for _ in 0..exchanges {
                lose(&mut run, &[silent]).unwrap();
            }
            close(run.pvi.natural(), &without(&data, silent), 1e-6);
            // Once it is back, its answer counts.
            let run = run.steps(exchanges);
            close(run.pvi.natural(), &exact(&data, 3), 1e-6);
        }
    }
}

#[test]
fn an_exchange_without_an_answer_is_no_step_and_is_counted() {
    let data = four_silos();
    for schedule in SCHEDULES {
        let mut run = Run::new(&LINEAR, &data, &settings(1_000), go_on(schedule));
        let prior = run.pvi.natural().to_vec();
        let info = lose(&mut run, &[0, 1, 2, 3]).unwrap();
        assert_eq!((info.step, info.tally.silo_steps), (0, 0), "{schedule:?}");
        assert!(info.tally.missed_answers > 0 && info.movement.is_none(), "{schedule:?}: {info:?}");
        assert_eq!(run.pvi.natural(), prior);
        // The posterior is still the prior; the next local update starts elsewhere in that case.
        let request = run.pvi.outgoing().unwrap().remove(0);
        assert_eq!(request.message.get_word("version").unwrap(), 1, "{schedule:?}");
    }
}

#[test]
fn a_run_that_no_silo_answers_ends_with_an_error_that_names_all() {
    let data = four_silos();
    for schedule in SCHEDULES {
        let mut run = Run::new(&LINEAR, &data, &settings(1_000), go_on(schedule));
        let ended = (0..1_000).find_map(|_| lose(&mut run, &[0, 1, 2, 3]).err());
        match ended {
            Some(Error::SiloLost { silo, step: 0, .. }) => assert_eq!(silo, "silo-0`, `silo-1`, `silo-2`, `silo-3"),
            other => panic!("{schedule:?}: {other:?}"),
        }
    }
}

#[test]
fn a_silo_that_answers_with_an_error_is_not_absent() {
    let data = four_silos();
    let mut run = Run::new(&LINEAR, &data, &settings(100), go_on(SiloSchedule::Synchronous));
    let mut outcomes = run.outcomes();
    outcomes[2] = Outcome::Failed(Error::NoSilos);
    let found = run.pvi.incoming(outcomes);
    assert!(matches!(&found, Err(Error::InSilo { silo, .. }) if silo == "silo-2"), "{found:?}");
}

#[test]
fn a_silo_that_is_removed_is_not_asked_asynchronously_and_its_answer_under_way_is_not_taken() {
    let data = four_silos();
    let schedule = SiloSchedule::Asynchronous(Delays::default());
    let mut run = Run::new(&LINEAR, &data, &settings(1_000), conjugate_options(schedule));
    run.pvi.remove(2).unwrap();
    let (mut pvi, mut threads) = run.threads();
    let how = RunOptions { steps: 1_000, ..RunOptions::default() };
    run_asynchronous(&mut pvi, &mut threads, &how, &mut Silent).unwrap();
    close(pvi.natural(), &without(&data, 2), 1e-9);
    // Without silos there is no run.
    (0..4).for_each(|silo| pvi.leave(silo).unwrap());
    let how = RunOptions { steps: 2_000, ..RunOptions::default() };
    assert!(matches!(run_asynchronous(&mut pvi, &mut threads, &how, &mut Silent), Err(Error::NoSilos)));

    for schedule in SCHEDULES {
        let mut run = Run::new(&LINEAR, &data, &settings(1_000), go_on(schedule)).steps(5);
        let mut requests = run.pvi.outgoing().unwrap();
        while !requests.iter().any(|request| request.silo == 1) {
            let outcomes = run.answers(&requests);
            run.pvi.incoming(outcomes).unwrap();
            requests = run.pvi.outgoing().unwrap();
        }
        let outcomes = run.answers(&requests);
        run.pvi.remove(1).unwrap();
        run.pvi.incoming(outcomes).unwrap();
        assert!(run.pvi.factor(1).unwrap().iter().all(|eta| *eta == 0.0), "{schedule:?}");
        let run = run.steps(if matches!(schedule, SiloSchedule::Asynchronous(_)) { 300 } else { 60 });
        close(run.pvi.natural(), &without(&data, 1), 1e-6);
    }
}

#[test]
fn an_asynchronous_run_goes_on_with_the_same_parties_after_it_ended() {
    let data = four_silos();
    let schedule = SiloSchedule::Asynchronous(Delays::default());
    let run = Run::new(&LINEAR, &data, &settings(3_000), conjugate_options(schedule));
    let (mut pvi, mut threads) = run.threads();
    // There is always work in progress when a run ends.
    for ending in 1..=30 {
        let how = RunOptions { steps: 100, ..RunOptions::default() };
        let how = RunOptions { steps: ending * how.steps, ..how };
        run_asynchronous(&mut pvi, &mut threads, &how, &mut Silent).unwrap();
    }
    close(pvi.natural(), &exact(&data, 3), 1e-9);
}

#[test]
fn the_bound_after_a_removal_is_that_of_the_others() {
    let data = four_silos();
    let bound = |run: &mut Run| {
        let requests = run.pvi.elbo_requests(4, 0);
        let asked: Vec<usize> = requests.iter().map(|request| request.silo).collect();
        let outcomes = run.answers(&requests);
        (run.pvi.elbo_samples(outcomes, 4, 0).unwrap().elbos, asked)
    };
    let mut run = Run::new(&LINEAR, &data, &settings(1_000), conjugate_options(SiloSchedule::Synchronous)).steps(90);
    run.pvi.remove(1).unwrap();
    let mut run = run.steps(90);
    let others = [&data[..1], &data[2..]].concat();
    let alone = conjugate_options(SiloSchedule::Synchronous);
    let mut alone = Run::new(&LINEAR, &others, &settings(1_000), alone).steps(90);
    let ((found, asked), (expected, _)) = (bound(&mut run), bound(&mut alone));
    assert_eq!(asked, [0, 2, 3]);
    // At the exact posterior every draw of the bound is the log evidence.
    close(&found, &expected, 1e-9);
    // A resting silo has its factor in the posterior, and its rows in the bound.
    let mut run = Run::new(&LINEAR, &data, &settings(1_000), conjugate_options(SiloSchedule::Synchronous)).steps(5);
    run.pvi.leave(1).unwrap();
    assert_eq!(bound(&mut run).1, [0, 1, 2, 3]);
}

#[test]
fn weights_of_silos_are_kept_in_a_checkpoint() {
    let data = four_silos();
    let options = conjugate_options(SiloSchedule::Synchronous);
    let mut run = Run::new(&LINEAR, &data, &settings(100), options.clone());
    run.pvi.damp(vec![0.1, 0.2, 0.3, 0.4]).unwrap();
    let run = run.steps(3);
    let mut fresh = Run::new(&LINEAR, &data, &settings(100), options);
    fresh.pvi.load(&run.pvi.save()).unwrap();
    fresh.silos = run.silos;
    let mut undisturbed = Run { pvi: run.pvi, silos: Vec::new() };
    let requests = undisturbed.pvi.outgoing().unwrap();
    let again = fresh.pvi.outgoing().unwrap();
    for (one, other) in requests.iter().zip(&again) {
        assert_eq!(one.message, other.message);
    }
}

#[test]
fn stale_work_is_sent_the_posterior_less_the_prior_of_the_same_time() {
    let device = Device::flex();
    let data = fixtures::named([4.0, 9.0, 6.0].map(|count| device.tensor(vec![count], [1])));
    let schedule = SiloSchedule::Asynchronous(Delays::default());
    let options = PviOptions { schedule, prior: PriorShare::BySize, ..PviOptions::new(20) };
    let settings = Settings { steps: 10_000, ..Settings::default() };
    let mut run = Run::new(&Counts {}, &data, &settings, options);
    let (mut known, mut stale) = (Vec::new(), 0);
    for _ in 0..30 {
        // Version 1 is the first.
        known.push((run.pvi.natural().to_vec(), run.pvi.prior().to_vec()));
        let requests = run.pvi.outgoing().unwrap();
        let message = &requests[0].message;
        let version = usize::try_from(message.get_word("version").unwrap()).unwrap();
        let (natural, prior) = &known[version - 1];
        close(&message.get_floats("natural").unwrap(), &plus(natural, -2.0 / 3.0, prior), 1e-12);
        stale += usize::from(prior != run.pvi.prior());
        let outcomes = run.answers(&requests);
        run.pvi.incoming(outcomes).unwrap();
    }
    assert!(stale > 10, "{stale}");
}

#[test]
fn answers_that_do_not_come_are_no_sign_of_convergence() {
    let data = four_silos();
    let delays = Delays { loss: 0.9, ..Delays::default() };
    let tolerance = Tolerance { change: 1e-3, exchanges: 4 };
    let run = Run::new(&LINEAR, &data, &settings(2_000), conjugate_options(SiloSchedule::Asynchronous(delays)));
    let (mut pvi, silos) = run.programs();
    let mut exchange = partita::inference::InProcess::new(silos, 1).unwrap();
    let how = RunOptions { steps: 2_000, tolerance: Some(tolerance), ..RunOptions::default() };
    partita::inference::run(&mut pvi, &mut exchange, &how, &mut Silent).unwrap();
    assert!(pvi.counts().unwrap().of("missed_answers").unwrap() > 50, "{:?}", pvi.counts());
    close(pvi.natural(), &exact(&data, 3), 0.05);
}

#[test]
fn a_silo_that_there_is_not_is_refused() {
    let data = four_silos();
    let mut pvi = Run::new(&LINEAR, &data, &settings(10), conjugate_options(SiloSchedule::Synchronous)).pvi;
    for found in [pvi.leave(4), pvi.join(4), pvi.remove(4)] {
        assert!(matches!(found, Err(Error::Setting { setting: "silo", .. })), "{found:?}");
    }
    assert!(pvi.discrepancy() <= 0.0);
}

#[test]
fn a_removal_that_leaves_no_density_is_refused_and_changes_nothing() {
    let data = four_silos();
    let mut run = Run::new(&LINEAR, &data, &settings(100), conjugate_options(SiloSchedule::Synchronous));
    let mut outcomes = run.outcomes();
    let change = |outcome: &Outcome| {
        let Outcome::Reply(reply) = outcome else { panic!("{outcome:?}") };
        (reply.get_floats("change").unwrap(), reply.clone())
    };
    let sum =
        [0, 2, 3].iter().fold(run.pvi.natural().to_vec(), |sum, silo| plus(&sum, 1.0, &change(&outcomes[*silo]).0));
    // Silo 1 removes nearly all the precision of the first coefficient: 0.1 remains, all of it silo 2's.
    let (mut doctored, reply) = change(&outcomes[1]);
    for (index, left) in [(3, -0.05), (4, 0.0), (6, 0.0)] {
        doctored[index] = left - sum[index];
    }
    outcomes[1] = Outcome::Reply(with_floats(&reply, "change", &doctored));
    run.pvi.incoming(outcomes).unwrap();
    let before = run.pvi.save();
    match run.pvi.remove(2) {
        Err(Error::Improper { operation, found, .. }) => {
            assert_eq!(operation, "removing silo `silo-2` from the posterior");
            assert!(found < 0.0, "{found}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(run.pvi.save(), before);
}

#[test]
fn an_answer_whose_log_likelihood_is_no_number_is_refused_by_name_and_changes_nothing() {
    let data = four_silos();
    for forged in [f64::NAN, f64::NEG_INFINITY] {
        let mut run = Run::new(&LINEAR, &data, &settings(100), go_on(SiloSchedule::Synchronous));
        let mut outcomes = run.outcomes();
        let Outcome::Reply(reply) = &mut outcomes[2] else { panic!("no reply") };
        reply.numbers.retain(|(name, _)| name != "log_likelihood");
        reply.numbers.push(("log_likelihood".into(), forged));
        let before = run.pvi.natural().to_vec();
        match run.pvi.incoming(outcomes) {
            Err(Error::NotFinite { who, quantity, .. }) => {
                assert!(who.contains("silo-2") && quantity.contains("log likelihood"), "{who}: {quantity}");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(run.pvi.natural(), before);
        // A change that is not finite is refused as well; the error names its damping.
        let mut run = Run::new(&LINEAR, &data, &settings(100), go_on(SiloSchedule::Synchronous));
        let mut outcomes = run.outcomes();
        let Outcome::Reply(reply) = &outcomes[1] else { panic!("no reply") };
        let mut change = reply.get_floats("change").unwrap();
        change[4] = forged;
        outcomes[1] = Outcome::Reply(with_floats(reply, "change", &change));
        match run.pvi.incoming(outcomes) {
            Err(Error::NotFinite { who, quantity, .. }) => {
                assert!(
                    who.contains("silo-1") && quantity.contains("parameter 4 of 9, with damping rho = 0.25"),
                    "{quantity}"
                );
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(run.pvi.natural(), before);
    }
}

#[test]
fn a_visit_that_fails_leaves_the_silo_as_it_was() {
    // Plain descent with momentum that is kept between local updates: one step is fine, hundreds diverge.
    let data = four_silos();
    let kept = GradientDescent { keep_optimiser: true, ..GradientDescent::default() }.into();
    let options = PviOptions { solver: kept, ..PviOptions::new(2_000) };
    let settings = Settings {
        optimiser: Sgd { momentum: 0.9 }.into(),
        schedule: Schedule::Constant { rate: 0.5 },
        ..settings(100_000)
    };
    let mut runs = [(); 2].map(|()| Run::new(&LINEAR, &data, &settings, options.clone()));
    let request = runs[0].pvi.outgoing().unwrap().remove(0).message;
    let of_steps = |count: u64| with_word(&request, "local_steps", count);
    let failed = runs[0].silos[0].answer(&of_steps(2_000));
    assert!(failed.is_err(), "{failed:?}");
    let mut again = of_steps(1);
    again.records.retain(|record| record.name != "settled");
    again.numbers.retain(|(name, _)| name != "share");
    let again = again.word("settled", 1).number("share", 0.0);
    let [one, other] = runs.each_mut().map(|run| {
        let silo = &mut run.silos[0];
        [silo.answer(&of_steps(1)).unwrap(), silo.answer(&again).unwrap()]
    });
    assert_eq!(one, other);
}

/// Silos of which none ever answers.
struct Deaf {
    names: Vec<String>,
    asked: VecDeque<usize>,
}

impl Exchange for Deaf {
    fn silos(&self) -> &[String] {
        &self.names
    }

    fn send(&mut self, requests: Vec<Request>, _: Option<Duration>) -> Result<(), Error> {
        self.asked.extend(requests.iter().map(|request| request.silo));
        Ok(())
    }

    fn receive(&mut self, _: &Manifest, _: Option<Duration>) -> Result<Option<Arrival>, Error> {
        Ok(self.asked.pop_front().map(|silo| Arrival { silo, outcome: Outcome::Timeout }))
    }
}

#[test]
fn a_run_that_no_silo_answers_hears_an_interruption() {
    let data = four_silos();
    let mut pvi = Run::new(&LINEAR, &data, &settings(100), go_on(SiloSchedule::Synchronous)).pvi;
    let names = data.iter().map(|(name, _)| name.clone()).collect();
    let mut deaf = Deaf { names, asked: VecDeque::new() };
    let interrupt = Some(Arc::new(AtomicBool::new(true)));
    let how = RunOptions { steps: 100, interrupt, ..RunOptions::default() };
    let record = run(&mut pvi, &mut deaf, &how, &mut Silent).unwrap();
    let missed = pvi.counts().unwrap().of("missed_answers");
    assert_eq!((record.ending, missed), (Ending::Interrupted, Some(4)));
}

/// Silos that answer at once, except the last, which never finishes.
struct Endless {
    names: Vec<String>,
    silos: Vec<PviSilo>,
    answers: VecDeque<Arrival>,
}

impl Exchange for Endless {
    fn silos(&self) -> &[String] {
        &self.names
    }

    fn send(&mut self, requests: Vec<Request>, _: Option<Duration>) -> Result<(), Error> {
        for Request { silo, message } in requests {
            if silo + 1 < self.silos.len() {
                let outcome = self.silos[silo].answer(&message).map_or_else(Outcome::Failed, Outcome::Reply);
                self.answers.push_back(Arrival { silo, outcome });
            }
        }
        Ok(())
    }

    fn receive(&mut self, _: &Manifest, _: Option<Duration>) -> Result<Option<Arrival>, Error> {
        Ok(self.answers.pop_front())
    }
}

#[test]
fn an_asynchronous_run_that_is_over_does_not_wait_for_work_that_is_not_taken() {
    let data = four_silos();
    let options = conjugate_options(SiloSchedule::Asynchronous(Delays::default()));
    let Run { mut pvi, silos } = Run::new(&LINEAR, &data, &settings(10_000), options);
    let names = data.iter().map(|(name, _)| name.clone()).collect();
    let mut exchange = Endless { names, silos, answers: VecDeque::new() };
    let how = RunOptions { steps: 10_000, ..RunOptions::default() };
    let record = run_asynchronous(&mut pvi, &mut exchange, &how, &mut Silent).unwrap();
    assert_eq!(record.ending, Ending::Completed);
    close(pvi.natural(), &without(&data, 3), 1e-9);
    // The trace is thinned like that of other runs: the first hundred steps, and two thousand.
    assert_eq!(record.trace.len(), 100 + 1_980);
    // A silo that is given up in the middle is different.
    exchange.answers.clear();
    let how = RunOptions { steps: 20_000, ..RunOptions::default() };
    exchange.names.truncate(4);
    exchange.silos.truncate(1);
    let found = run_asynchronous(&mut pvi, &mut exchange, &how, &mut Silent);
    assert!(matches!(found, Err(Error::SiloLost { .. })), "{found:?}");
}

#[test]
fn threads_forget_an_answer_that_a_run_has_given_up() {
    let data = four_silos();
    let options = conjugate_options(SiloSchedule::Asynchronous(Delays::default()));
    let (mut pvi, mut threads) = Run::new(&LINEAR, &data, &settings(100), options).threads();
    let request = pvi.ask(0).unwrap().unwrap();
    pvi.discard(0);
    let mut second = pvi.ask(0).unwrap().unwrap();
    second.message = with_word(&second.message, "version", 2);
    threads.send(vec![request], None).unwrap();
    threads.send(vec![second], None).unwrap();
    let Arrival { silo, outcome } = threads.receive(pvi.manifest(), None).unwrap().unwrap();
    let Outcome::Reply(reply) = outcome else { panic!("{outcome:?}") };
    assert_eq!((silo, reply.get_word("version").unwrap()), (0, 2));
}
