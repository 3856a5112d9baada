//! Holds silos to their manifest: what it declares independent of the data does not change by a byte with the data.
#![allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]

mod fixtures;

use fixtures::{Parties, six_cities_family, six_cities_model};
use partita::inference::{Algorithm, Error, Field, Manifest, Message, Record, SiloProgram};
use partita::models::{RepeatedBinary, six_cities};
use partita::{Design, Device, Settings};

/// One silo's data; `variant` changes outcomes and covariates, but not what the coordinator may know.
fn data(variant: bool, device: &Device) -> RepeatedBinary {
    let children = six_cities();
    let outcomes = children.iter().flat_map(|child| child.wheeze.map(|wheeze| f64::from(u8::from(wheeze ^ variant))));
    let scale = if variant { 2.5 } else { 1.0 };
    let covariates = children.iter().flat_map(|child| {
        let smoke = f64::from(u8::from(child.smoke));
        [-2.0, -1.0, 0.0, 1.0].into_iter().flat_map(move |age| [1.0, smoke, scale * age, smoke * age])
    });
    let design = Design::new(covariates.collect(), [children.len(), 4, 4]).unwrap();
    RepeatedBinary::new(design, outcomes.collect(), device).unwrap()
}

/// All replies of one silo: to an assessment and to a step.
fn replies(variant: bool, shift_locals: f64, particles: usize) -> (Vec<Message>, Manifest, Vec<Vec<f64>>) {
    let device = Device::flex();
    let settings = Settings { particles, family: six_cities_family(), ..Settings::default() };
    let mut parties = Parties::new(&six_cities_model(), &[data(variant, &device)], &device, &settings);
    let silo = &mut parties.silos[0];
    let moved =
        silo.local_parameters().into_iter().map(|block| block.iter().map(|p| p + shift_locals).collect()).collect();
    silo.set_local_parameters(moved).unwrap();
    let step = parties.algorithm.outgoing().unwrap().remove(0).message;
    let assess = parties.algorithm.assessing(3, 0).remove(0).message;
    let requests = [assess, step];
    let replies = requests.iter().map(|request| silo.answer(request).unwrap()).collect();
    let locals = silo.local_parameters();
    (replies, parties.algorithm.manifest().clone(), locals)
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
fn fields_declared_independent_of_the_data_do_not_change_by_a_byte() {
    for particles in [1, 5] {
        let (base, manifest, _) = replies(false, 0.0, particles);
        let mut watched = 0;
        for (variant, shift) in [(true, 0.0), (false, 0.7), (true, -0.4)] {
            let (changed, _, _) = replies(variant, shift, particles);
            for (before, after) in base.iter().zip(&changed) {
                // Everything of a message that is not the content of a field: kind, version, names, types, shapes, order.
                let frame = |message: &Message| {
                    let blank = |record: &Record| Record { bytes: vec![0; record.bytes.len()], ..record.clone() };
                    Message { records: message.records.iter().map(blank).collect(), ..message.clone() }.encode()
                };
                assert_eq!(frame(before), frame(after));
                assert!(before.numbers.is_empty(), "numbers are not watched yet: {:?}", before.numbers);
                for (one, other) in before.records.iter().zip(&after.records) {
                    if !field(&manifest, &one.name).depends_on_data {
                        assert_eq!(one.bytes, other.bytes, "field {}", one.name);
                        watched += one.bytes.len();
                    }
                }
            }
        }
        assert!(watched > 0, "the test watched no byte");
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
        silo.answer(&parties.algorithm.outgoing().unwrap()[0].message).unwrap().get_floats("location").unwrap()
    };
    assert_ne!(reply(None), reply(Some(99)));
    assert_eq!(reply(Some(99)), reply(Some(99)));
}
