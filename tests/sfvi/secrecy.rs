//! Holds silos to their manifest: fields declared independent of the data do not change by a byte with the data.
#![allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]

use fixtures::{Parties, six_cities_family, six_cities_model};
use partita::core::Groups;
use partita::inference::{
    Algorithm, Error, Field, Manifest, Message, Outcome, Pvi, PviSilo, Record, Silo, SiloProgram,
};
use partita::models::{MixedLogistic, RepeatedBinary, six_cities};
use partita::{Design, Device, PviOptions, Settings};

/// One silo's data; `variant` changes outcomes and covariates, but not what the coordinator may know.
fn data(variant: bool, device: &Device) -> RepeatedBinary {
    let children = six_cities();
    let outcomes = children.iter().flat_map(|child| child.wheeze.map(|wheeze| f64::from(u8::from(wheeze ^ variant))));
    let scale = if variant { 2.5 } else { 1.0 };
    let covariates = children.iter().flat_map(|child| {
        let smoke = f64::from(u8::from(child.smoke));
        [-2.0, -1.0, 0.0, 1.0].into_iter().flat_map(move |age| [1.0, smoke, scale * age, smoke * age])
    });
    let visits = Groups::of_sizes(&vec![4; children.len()]).unwrap();
    let design = Design::new(covariates.collect(), [visits.rows(), 4]).unwrap();
    RepeatedBinary::new(visits, design, outcomes.collect(), device).unwrap()
}

/// All replies of one silo: to an estimate of the ELBO and to a step.
fn replies(variant: bool, shift_locals: f64, particles: usize) -> (Vec<Message>, Manifest, Vec<Vec<f64>>) {
    let device = Device::flex();
    let settings = Settings { particles, family: six_cities_family(), ..Settings::default() };
    let mut parties = Parties::new(&six_cities_model(), &[data(variant, &device)], &device, &settings);
    let silo = &mut parties.silos[0];
    let moved =
        silo.local_parameters().into_iter().map(|block| block.iter().map(|p| p + shift_locals).collect()).collect();
    silo.set_local_parameters(moved).unwrap();
    let step = parties.algorithm.outgoing().unwrap().remove(0).message;
    let estimate_elbo = parties.algorithm.elbo_requests(3, 0).remove(0).message;
    let requests = [estimate_elbo, step];
    let replies = requests.iter().map(|request| silo.answer(request).unwrap()).collect();
    let locals = silo.local_parameters();
    (replies, parties.algorithm.manifest().clone(), locals)
}

/// All replies of one silo of PVI: to two local updates of seven steps and to an estimate of the ELBO; and the silo
/// after them.
fn visits(variant: bool, shift_locals: f64) -> (Vec<Message>, Manifest, PviSilo<MixedLogistic>) {
    let (device, model, options) = (Device::flex(), six_cities_model(), PviOptions::new(7));
    let settings = Settings { steps: 14, family: six_cities_family(), ..Settings::default() };
    let mut silo = Silo::new("silo-0", 0, &model, &data(variant, &device), &device, &settings).unwrap();
    let moved =
        silo.local_parameters().into_iter().map(|block| block.iter().map(|p| p + shift_locals).collect()).collect();
    silo.set_local_parameters(moved).unwrap();
    let mut silo = PviSilo::new(silo, 0, options.clone()).unwrap();
    let names = ["silo-0".to_owned()];
    let mut pvi = Pvi::new(&model, &device, &settings, &names, vec![537], options).unwrap();
    let mut replies = Vec::new();
    for _ in 0..2 {
        let request = pvi.outgoing().unwrap().remove(0).message;
        replies.push(silo.answer(&request).unwrap());
        pvi.incoming(vec![Outcome::Reply(replies[replies.len() - 1].clone())]).unwrap();
    }
    replies.push(silo.answer(&pvi.elbo_requests(3, 0).remove(0).message).unwrap());
    (replies, pvi.manifest().clone(), silo)
}

fn field<'a>(manifest: &'a Manifest, name: &str) -> &'a Field {
    manifest
        .fields
        .iter()
        .find(|field| field.name == name)
        .unwrap_or_else(|| panic!("field {name} is not in the manifest"))
}

#[test]
fn every_field_of_every_reply_is_in_the_manifest() {
    for particles in [1, 5] {
        let (replies, manifest, _) = replies(false, 0.0, particles);
        replies.iter().for_each(|reply| manifest.check("silo", reply).unwrap());
    }
}

#[test]
fn every_field_of_every_reply_of_partitioned_inference_is_in_the_manifest() {
    let (replies, manifest, _) = visits(false, 0.0);
    replies.iter().for_each(|reply| manifest.check("silo-0", reply).unwrap());
}

/// Compares replies with those for other data: equal in form, and byte for byte if declared independent. Returns the
/// number of such bytes.
fn watch(base: &[Message], changed: &[Message], manifest: &Manifest) -> usize {
    let mut watched = 0;
    for (before, after) in base.iter().zip(changed) {
        // All parts of a message except the content of fields: kind, version, names, types, shapes, order.
        let frame = |message: &Message| {
            let blank = |record: &Record| Record { bytes: vec![0; record.bytes.len()], ..record.clone() };
            let numbers = message.numbers.iter().map(|(name, _)| (name.clone(), 0.0)).collect();
            Message { records: message.records.iter().map(blank).collect(), numbers, ..message.clone() }.encode()
        };
        assert_eq!(frame(before), frame(after));
        let fields = before.records.iter().zip(&after.records);
        let contents = fields.map(|(one, other)| (&one.name, one.bytes.clone(), other.bytes.clone()));
        let bytes = |number: f64| number.to_le_bytes().to_vec();
        let numbers = before.numbers.iter().zip(&after.numbers);
        let numbers = numbers.map(|((name, one), (_, other))| (name, bytes(*one), bytes(*other)));
        for (name, one, other) in contents.chain(numbers) {
            if !field(manifest, name).depends_on_data {
                assert_eq!(one, other, "field {name}");
                watched += one.len();
            }
        }
    }
    watched
}

#[test]
fn fields_declared_independent_of_the_data_do_not_change_by_a_byte() {
    let others = [(true, 0.0), (false, 0.7), (true, -0.4)];
    for particles in [1, 5] {
        let (base, manifest, _) = replies(false, 0.0, particles);
        let watched = others.map(|(variant, shift)| watch(&base, &replies(variant, shift, particles).0, &manifest));
        assert!(watched.iter().all(|bytes| *bytes > 0), "the test watched no byte");
    }
    let (base, manifest, _) = visits(false, 0.0);
    let watched = others.map(|(variant, shift)| watch(&base, &visits(variant, shift).0, &manifest));
    assert!(watched.iter().all(|bytes| *bytes > 0), "the test watched no byte of partitioned inference");
}

#[test]
fn a_change_of_a_factor_and_its_log_likelihood_do_change_with_the_data() {
    let (base, changed) = (visits(false, 0.0).0, visits(true, 0.0).0);
    for (before, after) in base.iter().zip(&changed).take(2) {
        assert_ne!(before.get_floats("change").unwrap(), after.get_floats("change").unwrap());
        let log_likelihood = |reply: &Message| reply.get_number("log_likelihood").unwrap().to_bits();
        assert_ne!(log_likelihood(before), log_likelihood(after));
    }
}

#[test]
fn fields_declared_dependent_do_change_with_the_data() {
    let (base, manifest, _) = replies(false, 0.0, 1);
    let (changed, _, _) = replies(true, 0.0, 1);
    for (before, after) in base.iter().zip(&changed) {
        for (one, other) in before.records.iter().zip(&after.records) {
            if field(&manifest, &one.name).depends_on_data {
                assert_ne!(one.bytes, other.bytes, "field {} is declared dependent but did not change", one.name);
            }
        }
    }
}

#[test]
fn no_reply_holds_a_number_of_the_local_posterior() {
    let (replies, _, locals) = replies(false, 0.3, 1);
    let all: Vec<u8> = replies.iter().flat_map(Message::encode).collect();
    let found = locals.concat().iter().filter(|value| value.abs() > 1e-6).any(|value| {
        let bytes = value.to_le_bytes();
        all.windows(8).any(|window| window == bytes)
    });
    assert!(!found, "a local variational parameter stands in a reply, bit for bit");
}

#[test]
fn no_reply_of_partitioned_inference_holds_a_number_of_the_local_posterior() {
    let (replies, _, silo) = visits(false, 0.3);
    let all: Vec<u8> = replies.iter().flat_map(Message::encode).collect();
    let stands = |value: f64| all.windows(8).any(|window| window == value.to_le_bytes());
    let moments = silo.local_moments().unwrap();
    let locals: Vec<f64> = moments.into_iter().flat_map(|(means, deviations)| [means, deviations].concat()).collect();
    assert!(locals.len() >= 2 * 537 && !locals.into_iter().any(stands), "a local moment stands in a reply");
}

#[test]
fn an_answer_for_the_checkpoint_carries_nothing() {
    let device = Device::flex();
    let settings = Settings { family: six_cities_family(), ..Settings::default() };
    let mut parties = Parties::new(&six_cities_model(), &[data(false, &device)], &device, &settings);
    let folder = tempfile::tempdir().unwrap();
    let request = Message::new("silo.save").setting("folder", &folder.path().to_string_lossy());
    let reply = parties.silos[0].answer(&request).unwrap();
    Manifest::default().check("silo", &reply).unwrap();
    assert_eq!(reply, Message::new("silo.saved"));
}

#[test]
fn a_reply_with_one_number_too_many_is_held_back() {
    let (mut replies, manifest, _) = replies(false, 0.0, 1);
    let step = replies.remove(1);
    let wide = step.clone().floats("theta_gradient", &[1.0]);
    assert!(matches!(manifest.check("silo", &wide), Err(Error::Manifest { field, .. }) if field == "theta_gradient"));
    let stranger = step.floats("local", &[1.0]);
    assert!(matches!(manifest.check("silo", &stranger), Err(Error::Manifest { field, .. }) if field == "local"));
}

#[test]
fn a_private_seed_changes_the_noise_the_coordinator_could_know() {
    let device = Device::flex();
    let settings = Settings { family: six_cities_family(), ..Settings::default() };
    let reply = |private: Option<u64>| {
        let mut parties = Parties::new(&six_cities_model(), &[data(false, &device)], &device, &settings);
        let silo = parties.silos.remove(0);
        let mut silo = match private {
            Some(seed) => silo.private_seed(seed),
            None => silo,
        };
        silo.answer(&parties.algorithm.outgoing().unwrap()[0].message).unwrap().get_floats("grad_mean").unwrap()
    };
    assert_ne!(reply(None), reply(Some(99)));
    assert_eq!(reply(Some(99)), reply(Some(99)));
}
