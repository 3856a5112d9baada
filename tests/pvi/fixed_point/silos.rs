//! Runs partitioned inference over silos that are lost, fail, are resumed or have threads of their own.

use fixtures::message::{with_floats, with_word};

use super::*;

#[test]
fn silos_and_coordinator_agree_on_every_factor_after_losses() {
    let data = four_silos();
    let delays = Delays { loss: 0.4, ..Delays::default() };
    let mut run = Run::new(&LINEAR, &data, &settings(1_000), conjugate_options(SiloSchedule::Asynchronous(delays)));
    let (mut seen, mut compared) = (vec![false; 4], 0);
    for _ in 0..60 {
        let requests = run.pvi.outgoing().unwrap();
        let silo = requests[0].silo;
        let known = run.pvi.factor(silo).unwrap().to_vec();
        let outcomes = run.answers(&requests);
        // The request settles what the coordinator has.
        if std::mem::replace(&mut seen[silo], true) {
            close(run.silos[silo].factor(), &known, ROUNDING);
            compared += 1;
        }
        run.pvi.incoming(outcomes).unwrap();
    }
    assert!(compared > 40);
}

#[test]
fn a_silo_that_cannot_be_reached_ends_the_run_or_is_gone_without() {
    let data = four_silos();
    let lose = |missing_silo| {
        let options = PviOptions { missing_silo, ..conjugate_options(SiloSchedule::Synchronous) };
        let mut run = Run::new(&LINEAR, &data, &settings(100), options).steps(2);
        let mut outcomes = run.outcomes();
        outcomes[1] = Outcome::Lost { reason: "the line is cut".into() };
        run.pvi.incoming(outcomes).map(|_| run)
    };
    match lose(MissingSilo::Fail) {
        Err(Error::SiloLost { silo, reason, .. }) => {
            assert_eq!((silo.as_str(), reason.as_str()), ("silo-1", "the line is cut"))
        }
        other => panic!("{:?}", other.map(|run| run.pvi)),
    }
    // The silo's factor does not include the lost answer either.
    let run = lose(MissingSilo::GoOn).unwrap().steps(200);
    close(run.pvi.natural(), &exact(&data, 3), 1e-9);
    for (silo, program) in run.silos.iter().enumerate() {
        // All except the last answer, which silos learn with the next request: geometrically small by now.
        close(program.factor(), run.pvi.factor(silo).unwrap(), 1e-9);
    }
}

#[test]
fn a_product_that_is_no_density_is_refused_with_silo_and_damping_or_shortened_on_request() {
    let data = four_silos();
    let answer = |backtracking| {
        let options = PviOptions { backtracking, ..conjugate_options(SiloSchedule::Synchronous) };
        let mut run = Run::new(&LINEAR, &data, &settings(100), options);
        let mut outcomes = run.outcomes();
        // Silo 2 removes more precision of beta than the prior has.
        let Outcome::Reply(reply) = &outcomes[2] else { panic!("no reply") };
        let mut change = vec![0.0; 9];
        change[3] = 40.0;
        outcomes[2] = Outcome::Reply(with_floats(reply, "change", &change));
        let before = run.pvi.natural().to_vec();
        let result = run.pvi.incoming(outcomes);
        (result, before, run.pvi)
    };
    let (result, before, pvi) = answer(0);
    match result {
        Err(Error::ImproperProduct { silos, damping, site, found, .. }) => {
            assert_eq!((silos.as_str(), damping, site.as_str()), ("silo-2", 0.25, "beta"));
            assert!(found < 0.0, "{found}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(pvi.natural(), before, "a refused product must change nothing");
    let (result, _, pvi) = answer(10);
    result.unwrap();
    assert_eq!(pvi.counts().unwrap().of("shortened_rounds"), Some(1));
    assert!(pvi.natural_family().impropriety(pvi.natural()).is_none());
    assert!(pvi.discrepancy() < ROUNDING);
}

#[test]
fn an_answer_to_another_posterior_or_of_another_run_is_refused() {
    let data = four_silos();
    let mut run = Run::new(&LINEAR, &data, &settings(100), conjugate_options(SiloSchedule::Synchronous));
    let first = run.pvi.outgoing().unwrap();
    let stale = run.answers(&first);
    let outcomes: Vec<Outcome> = stale
        .iter()
        .map(|outcome| match outcome {
            Outcome::Reply(reply) => Outcome::Reply(reply.clone()),
            other => panic!("{other:?}"),
        })
        .collect();
    run.pvi.incoming(outcomes).unwrap();
    let after = run.pvi.natural().to_vec();
    run.pvi.outgoing().unwrap();
    // The same answers once more: a delta is applied once.
    assert!(matches!(run.pvi.incoming(stale), Err(Error::Message { .. })));
    assert_eq!(run.pvi.natural(), after);
    let other = with_word(&first[0].message, "seed", 99);
    assert!(matches!(run.silos[0].answer(&other), Err(Error::Message { .. })));
}

#[test]
fn a_saved_run_goes_on_to_the_same_bits_for_every_schedule() {
    let data = four_silos();
    let delays = Delays { loss: 0.2, ..Delays::default() };
    for schedule in [
        SiloSchedule::Sequential(Order::Random),
        SiloSchedule::Sequential(Order::Residual),
        SiloSchedule::Synchronous,
        SiloSchedule::Subset(2),
        SiloSchedule::Asynchronous(delays),
    ] {
        let options = PviOptions { schedule, ..PviOptions::new(7) };
        let undisturbed = Run::new(&LINEAR, &data, &settings(1_000), options.clone()).steps(12);
        let mut first = Run::new(&LINEAR, &data, &settings(1_000), options.clone()).steps(5);
        let folder = tempfile::tempdir().unwrap();
        let ask = |kind: &str| Message::new(kind).setting("folder", &folder.path().to_string_lossy());
        let state = Message::decode(&first.pvi.save().encode()).unwrap();
        first.silos.iter_mut().for_each(|silo| drop(silo.answer(&ask("silo.save")).unwrap()));
        let mut second = Run::new(&LINEAR, &data, &settings(1_000), options);
        second.pvi.load(&state).unwrap();
        second.silos.iter_mut().for_each(|silo| drop(silo.answer(&ask("silo.restore")).unwrap()));
        let second = second.steps(7);
        assert_eq!(second.pvi.natural(), undisturbed.pvi.natural(), "{schedule:?}");
        assert_eq!(second.pvi.counts(), undisturbed.pvi.counts(), "{schedule:?}");
    }
}

#[test]
fn silos_on_threads_of_their_own_reach_the_fixed_point_in_whatever_order_they_answer() {
    let data = four_silos();
    let options = conjugate_options(SiloSchedule::Asynchronous(Delays::default()));
    let run = Run::new(&LINEAR, &data, &settings(2_000), options);
    let (mut pvi, mut threads) = run.threads();
    let how = RunOptions { steps: 2_000, ..RunOptions::default() };
    let record = run_asynchronous(&mut pvi, &mut threads, &how, &mut Silent).unwrap();
    close(pvi.natural(), &exact(&data, 3), 1e-9);
    assert_eq!(record.counters.rounds, 2_000);
    // Work in progress at the end is answered, but not used.
    assert!((4_000..=4_008).contains(&record.counters.messages), "{:?}", record.counters);
    // Without the damping of an asynchronous schedule there is no such run.
    let synchronous = conjugate_options(SiloSchedule::Synchronous);
    let mut other = Run::new(&LINEAR, &data, &settings(10), synchronous).pvi;
    assert!(matches!(run_asynchronous(&mut other, &mut threads, &how, &mut Silent), Err(Error::Setting { .. })));
    // Nor can it be resumed.
    let how = RunOptions { resume: true, ..how };
    let found = run_asynchronous(&mut pvi, &mut threads, &how, &mut Silent);
    assert!(matches!(found, Err(Error::Setting { setting: "resume", .. })));
}

#[test]
fn rounds_over_silos_on_threads_of_their_own_have_the_bits_of_one_process() {
    let data = four_silos();
    let options = PviOptions { schedule: SiloSchedule::Synchronous, ..PviOptions::new(7) };
    let make = || Run::new(&LINEAR, &data, &settings(35), options.clone());
    let (mut pvi, mut threads) = make().threads();
    let how = RunOptions { steps: 35, ..RunOptions::default() };
    let record = partita::inference::run(&mut pvi, &mut threads, &how, &mut Silent).unwrap();
    assert_eq!((pvi.natural(), record.counters.messages), (make().steps(5).pvi.natural(), 40));
}

#[test]
fn threads_change_no_bit() {
    let device = Device::flex();
    let data = four_silos();
    let run = |threads, schedule| {
        let algorithm = AlgorithmChoice::Pvi(PviOptions { schedule, ..PviOptions::new(20) });
        let settings = Settings { steps: 200, particles: 2, ..Settings::default() };
        let options = FitOptions { algorithm, settings, threads, ..FitOptions::default() };
        let fit = fit(&LINEAR, &data, &device, &options, None).unwrap();
        fit.posterior().parameters.to_vec()
    };
    for schedule in [SiloSchedule::Synchronous, SiloSchedule::Subset(3)] {
        assert_eq!(run(1, schedule), run(4, schedule));
    }
}
