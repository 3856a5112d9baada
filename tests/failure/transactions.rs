//! Claims that a failed answer, by malformed fields or bad numbers, leaves its silo's state unchanged.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fixtures::vertical_run::{BinaryWorld, Hand, Switched};
use fixtures::{Parties, six_cities_data, six_cities_family, six_cities_model};
use partita::inference::{
    Adam, Algorithm, FewRoundsOptions, Message, Optimiser, Outcome, Plug, Sgd, SiloProgram, VerticalOptions,
    VerticalParty, coordinator, silo_program,
};
use partita::models::{BinaryRows, LogisticRegression};
use partita::vertical::Party;
use partita::{AlgorithmChoice, Design, Device, Estimator, FitOptions, Schedule, Settings};

/// A silo that waits for the weights of its last step, and the request that brings them.
fn waiting() -> (Parties, Message) {
    let device = Device::flex();
    let estimator = Estimator::ImportanceWeighted { gradient: partita::inference::ImportanceGradient::Total };
    let settings = Settings { estimator, particles: 3, family: six_cities_family(), ..Settings::default() };
    let mut parties = Parties::new(&six_cities_model(), &six_cities_data(2, &device), &device, &settings);
    let requests = parties.algorithm.outgoing().unwrap();
    let answers = requests.iter().zip(&mut parties.silos).map(|(request, silo)| silo.answer(&request.message).unwrap());
    let answers = answers.map(Outcome::Reply).collect();
    parties.algorithm.incoming(answers).unwrap();
    let next = parties.algorithm.outgoing().unwrap().swap_remove(0).message;
    (parties, next)
}

/// A request with one record in the place of another.
fn with(request: &Message, name: &str, values: &[f64]) -> Message {
    let mut changed = request.clone();
    changed.records.retain(|record| record.name != name);
    if values.is_empty() { changed } else { changed.floats(name, values) }
}

#[test]
fn a_step_that_fails_takes_back_the_weights_that_it_settled() {
    let (mut parties, next) = waiting();
    let silo = &mut parties.silos[0];
    let before = silo.local_parameters();
    // The weights are good; the fields after them are missing, of another length, or give no finite number.
    for wrong in [with(&next, "global", &[]), with(&next, "global", &[0.0]), with(&next, "global", &[f64::NAN; 20])] {
        assert!(silo.answer(&wrong).is_err());
        assert_eq!(silo.local_parameters(), before);
    }
    // The same request, well formed, is accepted, and changes the silo.
    silo.answer(&next).unwrap();
    assert_ne!(silo.local_parameters(), before);
}

#[test]
fn a_round_that_fails_leaves_the_rules_of_rows_where_they_stood() {
    // Nothing is integrated, so that no other evaluation fails before that at the draws does.
    let (model, device, names) = (LogisticRegression::new(1), Device::flex(), ["north".to_owned()]);
    let data = BinaryRows::new(&[0.5, -1.0, 2.0, 0.1], 1, &[true, false, true, false], &device).unwrap();
    let options =
        FitOptions { algorithm: AlgorithmChoice::FewRounds(FewRoundsOptions::default()), ..FitOptions::default() };
    let mut algorithm = coordinator(&model, &names, &[4], &device, &options).unwrap();
    let silo = || silo_program(&model, &names, 0, &data, &device, &options).unwrap().0;
    let (mut asked, mut unasked) = (silo(), silo());
    let start = algorithm.outgoing().unwrap().swap_remove(0).message;
    let answer = asked.answer(&start).unwrap();
    assert_eq!(unasked.answer(&start).unwrap(), answer);
    algorithm.incoming(vec![Outcome::Reply(answer)]).unwrap();
    let round = algorithm.outgoing().unwrap().swap_remove(0).message;
    // Where the log odds overflow there is no likelihood.
    let outside: Vec<f64> = round.get_floats("global").unwrap().iter().map(|own| own + 1e300).collect();
    for _ in 0..2 {
        let error = asked.answer(&with(&round, "global", &outside)).unwrap_err().to_string();
        assert!(!error.contains("panicked"), "{error}");
    }
    assert_eq!(asked.answer(&round).unwrap(), unasked.answer(&round).unwrap());
}

#[test]
fn a_party_whose_settled_step_leads_nowhere_is_where_it_was() {
    let world = BinaryWorld::new(12, 2, 2);
    let settings = Settings { family: partita::FamilyPlan::new(), ..Settings::default() };
    let mut hand = Hand::new(&world.parties, &world.labels, &settings, &VerticalOptions::augmented(1.0));
    hand.exchange();
    let request = hand.algorithm.outgoing().unwrap().swap_remove(0).message;
    let length = request.get_floats("gradient").unwrap().len();
    let party = &mut hand.parties[0];
    let state = |party: &VerticalParty| (party.parameters().to_vec(), party.auxiliary_parameters().to_vec());
    let before = state(party);
    for wrong in [vec![f64::NAN; length], vec![0.0; length + 1]] {
        assert!(party.answer(&with(&request, "gradient", &wrong)).is_err());
        assert_eq!(state(party), before);
    }
    // The pending state is kept: the well-formed request is accepted.
    party.answer(&request).unwrap();
    assert_ne!(state(party), before);
}

/// Steps on five of twelve rows, one of which fails after its gradient was taken if `fails`: what the parties have then.
fn steps_on_some_rows(how: &VerticalOptions, optimiser: &Plug<dyn Optimiser>, fails: bool) -> Vec<[Vec<f64>; 2]> {
    let world = BinaryWorld::new(12, 2, 2);
    // A rate at which plain descent does not run away.
    let schedule = Schedule::Constant { rate: 0.002 };
    let mut settings = Settings { steps: 10, optimiser: optimiser.clone(), schedule, ..Settings::default() };
    settings.minibatch.insert("row".into(), 5);
    let on = Arc::new(AtomicBool::new(false));
    let design = Design::new(world.inputs[0].clone(), [12, 1, 2]).unwrap();
    let parties = [Party::new("ward", Switched { on: Arc::clone(&on) }, design), world.parties[1].clone()];
    let mut hand = Hand::new(&parties, &world.labels, &settings, how);
    let state = |party: &VerticalParty| [party.parameters().to_vec(), party.auxiliary_parameters().to_vec()];
    // Two epochs, so that rows come again.
    (0..4).for_each(|_| hand.whole_step());
    if fails {
        // The gradient is good, and what follows it is not: the contribution of the next rows, or their numbers.
        let request = hand.algorithm.outgoing().unwrap().swap_remove(0).message;
        let before = state(&hand.parties[0]);
        on.store(true, Ordering::Relaxed);
        assert!(hand.parties[0].answer(&request).is_err());
        on.store(false, Ordering::Relaxed);
        assert!(hand.parties[0].answer(&with(&request, "rows", &[3.0, 12.0])).is_err());
        assert_eq!(state(&hand.parties[0]), before);
    }
    (0..4).for_each(|_| hand.whole_step());
    hand.parties.iter().map(state).collect()
}

#[test]
fn a_step_on_some_rows_that_fails_after_its_gradient_was_taken_is_undone() {
    let augmented = VerticalOptions::augmented(1.0);
    let power = VerticalOptions::power_likelihood(1.0);
    for how in [augmented, augmented.mean_field().local_steps(2), augmented.mean_field(), power] {
        for optimiser in [Plug::from(Adam::default()), Sgd { momentum: 0.5 }.into()] {
            let [disturbed, plain] = [true, false].map(|fails| steps_on_some_rows(&how, &optimiser, fails));
            assert_eq!(disturbed, plain, "{how:?} {optimiser:?}");
        }
    }
}
