//! Claims that a failed answer, by malformed fields or bad numbers, leaves its silo's state unchanged.

use fixtures::vertical_run::BinaryWorld;
use fixtures::vertical_run::Hand;
use fixtures::{Parties, six_cities_data, six_cities_family, six_cities_model};
use partita::inference::{Algorithm, Message, Outcome, SiloProgram, VerticalOptions};
use partita::{Device, Estimator, Settings};

/// A silo that waits for the weights of its last step, and the request that brings them.
fn waiting() -> (Parties<partita::models::MixedLogistic>, Message) {
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
fn a_party_whose_settled_step_leads_nowhere_is_where_it_was() {
    let world = BinaryWorld::new(12, 2, 2);
    let settings = Settings { family: partita::FamilyPlan::new(), ..Settings::default() };
    let mut hand = Hand::new(&world.parties, &world.labels, &settings, &VerticalOptions::augmented(1.0));
    hand.exchange();
    let request = hand.algorithm.outgoing().unwrap().swap_remove(0).message;
    let length = request.get_floats("gradient").unwrap().len();
    let party = &mut hand.parties[0];
    let state = |party: &partita::inference::VerticalParty| {
        (party.parameters().to_vec(), party.auxiliary_parameters().to_vec())
    };
    let before = state(party);
    for wrong in [vec![f64::NAN; length], vec![0.0; length + 1]] {
        assert!(party.answer(&with(&request, "gradient", &wrong)).is_err());
        assert_eq!(state(party), before);
    }
    // The pending state is kept: the well-formed request is accepted.
    party.answer(&request).unwrap();
    assert_ne!(state(party), before);
}
