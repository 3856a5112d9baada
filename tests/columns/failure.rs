//! Claims that a vertical run names the party that fails, keeps its last good state, and resumes with the same bits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fixtures::vertical_run::{BinaryWorld, Hand, Switched};
use partita::inference::{
    Algorithm, Error, InProcess, Message, Outcome, RunOptions, Silent, SiloProgram, VerticalOptions, VerticalParty,
    run, vertical,
};
use partita::models::vertical::Linear;
use partita::vertical::{AuxiliaryFamily, Party};
use partita::{AlgorithmChoice, Clip, Device, Estimator, FitOptions, Settings};

const STEPS: u64 = 8;

fn settings() -> Settings {
    Settings { steps: STEPS, ..Settings::default() }
}

/// Every model and family of auxiliary variables.
fn all_options() -> [VerticalOptions; 5] {
    [
        VerticalOptions::augmented(1.0),
        VerticalOptions::augmented(1.0).mean_field().local_steps(2),
        VerticalOptions::power_likelihood(1.0),
        VerticalOptions::power_likelihood(1.0).mean_field(),
        VerticalOptions::direct(),
    ]
}

/// The fault of a party, once.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    NotANumber,
    TooShort,
    Missing,
    UnknownField,
    AnotherStep,
}

/// A party that gets one answer wrong.
struct Faulty {
    inner: VerticalParty,
    fault: Fault,
    /// The answer it gets wrong, counted from 0.
    at: usize,
    answers: usize,
}

impl SiloProgram for Faulty {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn local_moments(&self) -> partita::inference::Result<Vec<(Vec<f64>, Vec<f64>)>> {
        self.inner.local_moments()
    }

    fn answer(&mut self, request: &Message) -> partita::inference::Result<Message> {
        let reply = self.inner.answer(request)?;
        self.answers += 1;
        if self.answers != self.at + 1 {
            return Ok(reply);
        }
        let name = if reply.has("z") { "z" } else { "predictor_gradient" };
        let mut values = reply.get_floats(name).unwrap();
        let mut wrong = reply.clone();
        wrong.records.retain(|record| record.name != name);
        Ok(match self.fault {
            Fault::NotANumber => {
                values[3] = f64::NAN;
                wrong.floats(name, &values)
            }
            Fault::TooShort => wrong.floats(name, &values[1..]),
            Fault::Missing => wrong,
            Fault::UnknownField => reply.floats("columns", &[1.0]),
            Fault::AnotherStep => {
                let mut other = reply;
                other.records.retain(|record| record.name != "step");
                other.word("step", 99)
            }
        })
    }
}

fn run_options(steps: u64) -> RunOptions {
    RunOptions { steps, ..RunOptions::default() }
}

/// The coordinator's state and the parties' moments after a run, as bits.
fn bits(algorithm: &dyn Algorithm, exchange: &mut InProcess) -> (Vec<u8>, Vec<u64>) {
    let moments = exchange.programs().iter().flat_map(|party| party.local_moments().unwrap());
    let moments = moments.flat_map(|(means, sds)| [means, sds].concat()).map(f64::to_bits).collect();
    (algorithm.save().encode(), moments)
}

fn hand(options: &VerticalOptions) -> (Box<dyn Algorithm>, Vec<VerticalParty>) {
    let world = BinaryWorld::new(12, 3, 2);
    let Hand { algorithm, parties } = Hand::new(&world.parties, &world.labels, &settings(), options);
    (algorithm, parties)
}

#[test]
fn a_party_that_answers_wrongly_is_named_and_the_run_goes_on_from_its_last_good_state() {
    for options in all_options() {
        let (mut undisturbed, parties) = hand(&options);
        let programs = parties.into_iter().map(|party| Box::new(party) as Box<dyn SiloProgram>).collect();
        let mut exchange = InProcess::new(programs, 1).unwrap();
        run(&mut *undisturbed, &mut exchange, &run_options(STEPS), &mut Silent).unwrap();
        let expected = bits(&*undisturbed, &mut exchange);
        let faults = [Fault::NotANumber, Fault::TooShort, Fault::Missing, Fault::UnknownField, Fault::AnotherStep];
        for fault in faults {
            // In a power likelihood answers 6 and 7 are of the two exchanges of a step.
            for at in [0, 6, 7] {
                let (mut algorithm, parties) = hand(&options);
                let programs = parties.into_iter().enumerate().map(|(index, inner)| -> Box<dyn SiloProgram> {
                    let at = if index == 1 { at } else { usize::MAX - 1 };
                    Box::new(Faulty { inner, fault, at, answers: 0 })
                });
                let mut exchange = InProcess::new(programs.collect(), 1).unwrap();
                let failed = run(&mut *algorithm, &mut exchange, &run_options(STEPS), &mut Silent);
                let words = failed.unwrap_err().to_string();
                assert!(words.contains("p1"), "{options:?} {fault:?} {at}: {words}");
                run(&mut *algorithm, &mut exchange, &run_options(STEPS), &mut Silent).unwrap();
                assert!(bits(&*algorithm, &mut exchange) == expected, "{options:?} {fault:?} {at}");
            }
        }
    }
}

#[test]
fn a_contribution_that_is_not_a_number_is_named_and_the_party_keeps_its_state() {
    let world = BinaryWorld::new(12, 2, 2);
    for options in all_options() {
        let on = Arc::new(AtomicBool::new(false));
        let design = partita::Design::new(world.inputs[1].clone(), [12, 1, 2]).unwrap();
        let parties = [world.parties[0].clone(), Party::new("ward", Switched { on: Arc::clone(&on) }, design)];
        let Hand { mut algorithm, parties } = Hand::new(&parties, &world.labels, &settings(), &options);
        let programs = parties.into_iter().map(|party| Box::new(party) as Box<dyn SiloProgram>).collect();
        let mut exchange = InProcess::new(programs, 1).unwrap();
        run(&mut *algorithm, &mut exchange, &run_options(3), &mut Silent).unwrap();
        let before = bits(&*algorithm, &mut exchange).0;
        on.store(true, Ordering::Relaxed);
        let failed = run(&mut *algorithm, &mut exchange, &run_options(STEPS), &mut Silent).unwrap_err().to_string();
        assert!(failed.contains("ward") && failed.contains("NaN"), "{failed}");
        assert!(bits(&*algorithm, &mut exchange).0 == before, "{options:?}");
        on.store(false, Ordering::Relaxed);
        run(&mut *algorithm, &mut exchange, &run_options(STEPS), &mut Silent).unwrap();
    }
}

#[test]
fn a_gradient_whose_square_overflows_is_refused_with_its_party_and_clipped_where_a_clip_is_set() {
    // Adam would never move again what has such a square in its mean, and would say nothing.
    let world = BinaryWorld::new(12, 2, 2);
    let huge = world.inputs[1].iter().map(|value| value * 1e160).collect();
    let ward = Party::new("ward", Linear::new(2), partita::Design::new(huge, [12, 1, 2]).unwrap());
    let parties = [world.parties[0].clone(), ward];
    let fit = |how, clip| {
        let settings = Settings { clip, ..settings() };
        let options = FitOptions { algorithm: AlgorithmChoice::Vertical(how), settings, ..FitOptions::default() };
        vertical::fit(&parties, &world.labels, &Device::flex(), &options, None)
    };
    for how in [VerticalOptions::power_likelihood(1.0), VerticalOptions::direct()] {
        let words = fit(how, None).unwrap_err().to_string();
        assert!(words.contains("ward") && words.contains("the square of the gradient"), "{how:?}: {words}");
    }
    fit(VerticalOptions::direct(), Some(Clip { norm: 1.0 })).unwrap();
}

#[test]
fn a_party_with_other_rows_is_named_with_its_rows() {
    let (world, shorter) = (BinaryWorld::new(12, 2, 2), BinaryWorld::new(11, 2, 2));
    let parties = [world.parties[0].clone(), shorter.parties[1].clone()];
    let algorithm = AlgorithmChoice::Vertical(VerticalOptions::augmented(1.0));
    let options = FitOptions { algorithm, settings: settings(), ..FitOptions::default() };
    let words = vertical::fit(&parties, &world.labels, &Device::flex(), &options, None).unwrap_err().to_string();
    assert!(words.contains("11 at party `p1`") && words.contains("align"), "{words}");
    // A party over a wire reads it from the request.
    let how = (&settings(), &VerticalOptions::augmented(1.0));
    let mut alone = VerticalParty::new(&shorter.parties[1], 1, None, &Device::flex(), how.0, how.1).unwrap();
    let mut hand = Hand::new(&world.parties, &world.labels, how.0, how.1);
    let requests = hand.algorithm.outgoing().unwrap();
    let error = alone.answer(&requests[1].message).unwrap_err();
    assert!(error.to_string().contains("`p1`") && error.to_string().contains("holds 11"), "{error}");
    let reply = hand.parties[0].answer(&requests[0].message).unwrap();
    let error = hand.algorithm.incoming(vec![Outcome::Reply(reply), Outcome::Failed(error)]).unwrap_err();
    assert!(matches!(&error, Error::InSilo { silo, .. } if silo == "p1"), "{error}");
}

#[test]
fn rows_out_of_range_other_seeds_and_unknown_requests_are_refused_by_name() {
    let world = BinaryWorld::new(12, 2, 2);
    let options = VerticalOptions::augmented(1.0);
    let mut hand = Hand::new(&world.parties, &world.labels, &settings(), &options);
    let request = hand.algorithm.outgoing().unwrap().swap_remove(0).message;
    let mut refused = |message: Message, words: &str| {
        let error = hand.parties[0].answer(&message).unwrap_err().to_string();
        assert!(error.contains("p0") && error.contains(words), "{error}");
    };
    refused(request.clone().floats("rows", &[1.0, 12.0]), "row 12");
    refused(request.clone().floats("rows", &[0.5]), "no indices");
    refused(Message::new("vertical.columns"), "does not know");
    let mut other = request;
    other.records.retain(|record| record.name != "seed");
    refused(other.word("seed", 77), "seed is 77");
}

#[test]
fn a_run_that_resumes_has_the_bits_of_one_that_was_never_interrupted() {
    let world = BinaryWorld::new(12, 2, 2);
    for how in all_options() {
        let mut settings = settings();
        settings.minibatch.insert("row".into(), 5);
        settings.clip = Some(Clip { norm: 1.0 });
        let options = FitOptions { algorithm: AlgorithmChoice::Vertical(how), settings, ..FitOptions::default() };
        let start = || vertical::parties(&world.parties, &world.labels, &Device::flex(), &options).unwrap();
        let (mut whole, mut exchange) = start();
        let record = run(&mut *whole, &mut exchange, &run_options(STEPS), &mut Silent).unwrap();
        let expected = (bits(&*whole, &mut exchange), record.counters.clipped_steps);
        let folder = tempfile::tempdir().unwrap();
        let checkpoint = Some((folder.path().to_owned(), 3));
        let (mut first, mut exchange) = start();
        let halfway = RunOptions { checkpoint: checkpoint.clone(), ..run_options(6) };
        run(&mut *first, &mut exchange, &halfway, &mut Silent).unwrap();
        let (mut second, mut exchange) = start();
        let rest = RunOptions { checkpoint, resume: true, ..run_options(STEPS) };
        let record = run(&mut *second, &mut exchange, &rest, &mut Silent).unwrap();
        assert!((bits(&*second, &mut exchange), record.counters.clipped_steps) == expected, "{how:?}");
    }
}

#[test]
fn neither_the_order_of_replies_nor_the_number_of_threads_changes_a_bit() {
    let reversed = |count: usize| (0..count).rev().collect::<Vec<_>>();
    for options in all_options() {
        let mut all = Vec::new();
        for (threads, order) in [(1, None), (2, None), (1, Some(reversed as fn(usize) -> Vec<usize>))] {
            let (mut algorithm, parties) = hand(&options);
            let programs = parties.into_iter().map(|party| Box::new(party) as Box<dyn SiloProgram>).collect();
            let exchange = InProcess::new(programs, threads).unwrap();
            let mut exchange = order.into_iter().fold(exchange, InProcess::with_order);
            run(&mut *algorithm, &mut exchange, &run_options(STEPS), &mut Silent).unwrap();
            all.push(bits(&*algorithm, &mut exchange));
        }
        assert!(all[0] == all[1] && all[0] == all[2], "{options:?}");
    }
}

#[test]
fn settings_that_do_not_go_together_are_refused() {
    let world = BinaryWorld::new(12, 2, 2);
    let refused = |how: VerticalOptions, settings: Settings, words: &str| {
        let options = FitOptions { algorithm: AlgorithmChoice::Vertical(how), settings, ..FitOptions::default() };
        let error = vertical::fit(&world.parties, &world.labels, &Device::flex(), &options, None).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    };
    let augmented = VerticalOptions::augmented(1.0);
    refused(augmented.local_steps(2), settings(), "local_steps");
    refused(VerticalOptions::power_likelihood(1.0).mean_field().local_steps(2), settings(), "local_steps");
    refused(augmented.mean_field().local_steps(0), settings(), "local_steps");
    refused(VerticalOptions::augmented(0.0), settings(), "rho");
    let none = AuxiliaryFamily::Amortised { hidden: 0, labels: false };
    refused(VerticalOptions { auxiliary: none, ..augmented }, settings(), "auxiliary");
    refused(augmented, Settings { estimator: Estimator::LocallyEnhanced { inner: 2 }, ..settings() }, "estimator");
    let minibatch = [("child".to_owned(), 3)].into_iter().collect();
    refused(augmented, Settings { minibatch, ..settings() }, "child");
    let horizontal = FitOptions { settings: settings(), ..FitOptions::default() };
    let error = vertical::fit(&world.parties, &world.labels, &Device::flex(), &horizontal, None).unwrap_err();
    assert!(error.to_string().contains("AlgorithmChoice::Vertical"), "{error}");
}

#[test]
fn a_party_without_labels_serves_the_models_that_keep_them_with_their_holder() {
    let world = BinaryWorld::new(12, 2, 2);
    for how in all_options() {
        let made = VerticalParty::new(&world.parties[0], 0, None, &Device::flex(), &settings(), &how);
        assert_eq!(made.is_err(), how.shares_labels(), "{how:?}");
    }
}

#[test]
fn an_amortised_party_has_as_many_parameters_for_a_thousand_rows_as_for_ten() {
    let numbers = |rows: usize, how: &VerticalOptions| {
        let world = BinaryWorld::new(rows, 2, 2);
        Hand::new(&world.parties, &world.labels, &settings(), how).parties[0].auxiliary_parameters().len()
    };
    let (amortised, mean_field) = (VerticalOptions::augmented(1.0), VerticalOptions::augmented(1.0).mean_field());
    assert_eq!(numbers(10, &amortised), numbers(1_000, &amortised));
    assert_eq!(numbers(1_000, &mean_field), 2_000);
}
