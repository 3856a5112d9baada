//! Holds silos to their manifest: fields declared independent of the data do not change by a byte with the data.

use fixtures::vertical_run::{BinaryWorld, Hand};
use fixtures::{ConjugateGaussian, Parties, conjugate, groups, six_cities_family, six_cities_model, structured};
use partita::core::Groups;
use partita::inference::{
    Algorithm, Error, FedOptOptions, Field, Manifest, Message, Outcome, Pvi, PviSilo, Record, Release, Silo,
    SiloProgram, StartFrom, VerticalOptions, coordinator, silo_program,
};
use partita::models::vertical::Linear;
use partita::models::{BinaryRows, GaussianMean, LogisticRegression, RepeatedBinary, six_cities};
use partita::vertical::Party;
use partita::{AlgorithmChoice, Design, Device, FitOptions, Model, PviOptions, RoundOptions, Settings};

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

/// What a silo sent, what it may send, and the numbers that are its own.
struct Sent {
    replies: Vec<Message>,
    manifest: Manifest,
    own: Vec<f64>,
}

/// What a silo answers to two rounds and to an estimate of the ELBO.
fn asked(algorithm: &mut dyn Algorithm, silo: &mut dyn SiloProgram) -> Vec<Message> {
    let mut replies = Vec::new();
    for _ in 0..2 {
        let request = algorithm.outgoing().unwrap().remove(0).message;
        replies.push(silo.answer(&request).unwrap());
        algorithm.incoming(vec![Outcome::Reply(replies[replies.len() - 1].clone())]).unwrap();
    }
    replies.push(silo.answer(&algorithm.elbo_requests(3, 0).remove(0).message).unwrap());
    replies
}

/// The means and standard deviations of a silo's local latents.
fn moments(silo: &dyn SiloProgram) -> Vec<f64> {
    silo.local_moments().unwrap().into_iter().flat_map(|(means, deviations)| [means, deviations].concat()).collect()
}

/// All replies of one silo: to an estimate of the ELBO and to a step.
fn replies(variant: bool, shift_locals: f64, particles: usize) -> Sent {
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
    let own = silo.local_parameters().concat();
    Sent { replies, manifest: parties.algorithm.manifest().clone(), own }
}

/// All replies of one silo of PVI: to two local updates of seven steps and to an estimate of the ELBO.
fn visits(variant: bool, shift_locals: f64) -> Sent {
    let (device, model, options) = (Device::flex(), six_cities_model(), PviOptions::new(7));
    let settings = Settings { steps: 14, family: six_cities_family(), ..Settings::default() };
    let mut silo = Silo::new("silo-0", 0, &model, &data(variant, &device), &device, &settings).unwrap();
    let moved =
        silo.local_parameters().into_iter().map(|block| block.iter().map(|p| p + shift_locals).collect()).collect();
    silo.set_local_parameters(moved).unwrap();
    let mut silo = PviSilo::new(silo, 0, options.clone()).unwrap();
    let names = ["silo-0".to_owned()];
    let mut pvi = Pvi::new(&model, &device, &settings, &names, vec![537], options).unwrap();
    let replies = asked(&mut pvi, &mut silo);
    Sent { replies, manifest: pvi.manifest().clone(), own: moments(&silo) }
}

/// Whether a field depends on the data by every declaration of its name: replies of other kinds may have it too.
fn depends_on_data(manifest: &Manifest, name: &str) -> bool {
    let fields: Vec<&Field> = manifest.fields.iter().filter(|field| field.name == name).collect();
    assert!(!fields.is_empty(), "field {name} is not in the manifest");
    fields.iter().all(|field| field.release != Release::Public)
}

/// Compares replies with those for other data: equal in form, and byte for byte if declared independent. Returns the
/// number of such bytes.
fn watch(base: &[Message], changed: &[Message], manifest: &Manifest) -> usize {
    let mut watched = 0;
    for (before, after) in base.iter().zip(changed) {
        // All parts of a message except the content of fields: kind, version, names, types, shapes, order.
        let frame = |message: &Message| {
            let blank = |record: &Record| Record { bytes: vec![0; record.bytes.len()].into(), ..record.clone() };
            let numbers = message.numbers.iter().map(|(name, _)| (name.clone(), 0.0)).collect();
            Message { records: message.records.iter().map(blank).collect(), numbers, ..message.clone() }.encode()
        };
        assert_eq!(frame(before), frame(after));
        let fields = before.records.iter().zip(&after.records);
        let contents = fields.map(|(one, other)| (&one.name, one.bytes.to_vec(), other.bytes.to_vec()));
        let bytes = |number: f64| number.to_le_bytes().to_vec();
        let numbers = before.numbers.iter().zip(&after.numbers);
        let numbers = numbers.map(|((name, one), (_, other))| (name, bytes(*one), bytes(*other)));
        for (name, one, other) in contents.chain(numbers) {
            if !depends_on_data(manifest, name) {
                assert_eq!(one, other, "field {name}");
                watched += one.len();
            }
        }
    }
    watched
}

#[test]
fn a_field_that_one_of_its_declarations_calls_independent_is_watched() {
    let declared = |release| Field { name: "a", meaning: "a number", limit: 1, release };
    let message = |number| vec![Message::new("some.kind").number("a", number)];
    for (fields, watched) in [
        (vec![Release::Forbidden], 0),
        (vec![Release::Forbidden, Release::Public], 8),
        (vec![Release::Public, Release::Noised], 8),
        (vec![Release::Public], 8),
    ] {
        let manifest = Manifest { fields: fields.into_iter().map(declared).collect() };
        assert_eq!(watch(&message(1.0), &message(1.0), &manifest), watched);
        let found = std::panic::catch_unwind(|| watch(&message(1.0), &message(2.0), &manifest));
        assert_eq!(found.is_err(), watched > 0);
    }
}

#[test]
fn fields_declared_independent_of_the_data_do_not_change_by_a_byte_and_no_reply_holds_a_number_of_the_local_posterior()
{
    let hold = |what: &str, sent: &dyn Fn(bool, f64) -> Sent| {
        let base = sent(false, 0.3);
        assert!(base.own.len() >= 2 * 537, "{what}: {}", base.own.len());
        for (variant, shift_locals) in [(true, 0.0), (false, 0.7), (true, -0.4)] {
            base.hold(&sent(variant, shift_locals), what);
        }
    };
    hold("one particle", &|variant, shift_locals| replies(variant, shift_locals, 1));
    hold("five particles", &|variant, shift_locals| replies(variant, shift_locals, 5));
    hold("partitioned inference", &visits);
}

#[test]
fn a_change_of_a_factor_and_its_log_likelihood_do_change_with_the_data() {
    let (base, changed) = (visits(false, 0.0).replies, visits(true, 0.0).replies);
    for (before, after) in base.iter().zip(&changed).take(2) {
        assert_ne!(before.get_floats("change").unwrap(), after.get_floats("change").unwrap());
        let log_likelihood = |reply: &Message| reply.get_number("log_likelihood").unwrap().to_bits();
        assert_ne!(log_likelihood(before), log_likelihood(after));
    }
}

#[test]
fn fields_declared_dependent_do_change_with_the_data() {
    let Sent { replies: base, manifest, .. } = replies(false, 0.0, 1);
    for (before, after) in base.iter().zip(&replies(true, 0.0, 1).replies) {
        for (one, other) in before.records.iter().zip(&after.records) {
            if depends_on_data(&manifest, &one.name) {
                assert_ne!(one.bytes, other.bytes, "field {} is declared dependent but did not change", one.name);
            }
        }
    }
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
    let Sent { mut replies, manifest, .. } = replies(false, 0.0, 1);
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

#[test]
fn a_party_that_is_made_alone_takes_its_seed_from_the_options_and_no_other_party_needs_it() {
    let (device, names) = (Device::flex(), ["silo".to_owned()]);
    let start = StartFrom::Declared;
    let settings = Settings { family: six_cities_family(), start, ..Settings::default() };
    let reply = |private_seed: Option<u64>| {
        let algorithm = AlgorithmChoice::Sfvi;
        let options = FitOptions { algorithm, settings: settings.clone(), private_seed, ..FitOptions::default() };
        let model = six_cities_model();
        let (mut silo, count) = silo_program(&model, &names, 0, &data(false, &device), &device, &options).unwrap();
        let open = FitOptions { private_seed: None, ..options };
        let mut algorithm = coordinator(&model, &names, &[count], &device, &open).unwrap();
        silo.answer(&algorithm.outgoing().unwrap()[0].message).unwrap().get_floats("grad_mean").unwrap()
    };
    assert_ne!(reply(None), reply(Some(99)));
    assert_eq!(reply(Some(99)), reply(Some(99)));
}

#[test]
fn a_silo_does_not_tell_what_the_manifest_of_its_run_does_not_list_whoever_asks() {
    let (device, settings) = (Device::flex(), Settings::default());
    let model = LogisticRegression::new(1);
    let rows = BinaryRows::new(&[1.0, -1.0], 1, &[true, false], &device).unwrap();
    // The gradient at a point, which a run lists that begins with a climb, and another does not.
    let slope = Message::new("sfvi.slope").word("seed", settings.seed).floats("point", &[0.0; 2]);
    let mut bare = Silo::new("silo", 0, &model, &rows, &device, &settings).unwrap();
    assert!(bare.answer(&slope).unwrap().has("slope"));
    let asked = |algorithm, start| {
        let settings = Settings { start, ..settings.clone() };
        let options = FitOptions { algorithm, settings, ..FitOptions::default() };
        let mut own = silo_program(&model, &["silo".to_owned()], 0, &rows, &device, &options).unwrap().0;
        own.answer(&slope)
    };
    assert!(asked(AlgorithmChoice::Sfvi, StartFrom::Mode).unwrap().has("slope"));
    let found = asked(AlgorithmChoice::SfviAvg(RoundOptions::paper(10)), StartFrom::Declared).unwrap_err();
    assert!(
        matches!(&found, Error::Manifest { field, .. } if field == "log_likelihood" || field == "slope"),
        "{found}"
    );
}

impl Sent {
    /// All replies of one silo with these rows: to two rounds, and to an estimate of the ELBO.
    fn of<M: Model>(model: &M, data: &M::Data, rows: &[f64], options: &FitOptions) -> Self {
        let (device, names) = (Device::flex(), ["silo".to_owned()]);
        let (mut silo, count) = silo_program(model, &names, 0, data, &device, options).unwrap();
        let mut algorithm = coordinator(model, &names, &[count], &device, options).unwrap();
        let replies = asked(&mut *algorithm, &mut *silo);
        let own = [rows, &moments(&*silo)].concat();
        Self { replies, manifest: algorithm.manifest().clone(), own }
    }

    /// Two steps of a party of columns and an estimate of the ELBO, where it holds these columns.
    fn of_columns(inputs: &[f64], options: &VerticalOptions) -> Self {
        let mut world = BinaryWorld::new(12, 2, 2);
        world.parties[0] = Party::new("p0", Linear::new(2), Design::new(inputs.to_vec(), [12, 1, 2]).unwrap());
        let settings = Settings { steps: 4, ..Settings::default() };
        let mut hand = Hand::new(&world.parties, &world.labels, &settings, options);
        let mut replies: Vec<Message> = (0..4).map(|_| hand.exchange().0.swap_remove(0)).collect();
        let request = hand.algorithm.elbo_requests(3, 0).remove(0).message;
        replies.push(hand.parties[0].answer(&request).unwrap());
        let own = [inputs, hand.parties[0].parameters(), hand.parties[0].auxiliary_parameters()].concat();
        Self { replies, manifest: hand.algorithm.manifest().clone(), own }
    }

    /// Holds it to its manifest, and to hold nothing of its own bit for bit; `other` is of other rows.
    fn hold(&self, other: &Self, what: &str) {
        self.replies.iter().for_each(|reply| self.manifest.check("silo", reply).unwrap());
        assert!(watch(&self.replies, &other.replies, &self.manifest) > 0, "{what}: the test watched no byte");
        assert_ne!(self.replies, other.replies, "{what}: the rows make no difference");
        let all: Vec<u8> = self.replies.iter().flat_map(Message::encode).collect();
        for own in self.own.iter().filter(|own| own.abs() > 1e-6) {
            assert!(!all.windows(8).any(|window| window == own.to_le_bytes()), "{what}: {own} stands in a reply");
        }
    }
}

fn rounds_of(algorithm: AlgorithmChoice) -> FitOptions {
    let settings = Settings { steps: 20, family: structured(), ..Settings::default() };
    FitOptions { algorithm, settings, threads: 1, ..FitOptions::default() }
}

#[test]
fn a_round_of_averaging_sends_no_row_and_no_local_moment_and_declares_all_that_rows_change() {
    let sent = |scale: f64| {
        let rows: Vec<Vec<f64>> =
            groups(6, 3).into_iter().map(|group| group.iter().map(|y| scale * y).collect()).collect();
        let data = ConjugateGaussian::data(&rows, &Device::flex()).unwrap();
        let options = rounds_of(AlgorithmChoice::SfviAvg(RoundOptions::paper(3)));
        Sent::of(&conjugate(), &data, &rows.concat(), &options)
    };
    let base = sent(1.0);
    // 18 rows, and the mean and the standard deviation of six groups.
    assert_eq!(base.own.len(), 30);
    base.hold(&sent(1.7), "SFVI-Avg");
}

#[test]
fn a_round_of_federated_point_estimation_sends_no_row_and_declares_all_that_rows_change() {
    let sent = |scale: f64| {
        let rows = [0.311, -1.27, 2.083].map(|y| scale * y);
        let data = GaussianMean::data(&rows, &Device::flex());
        let options = FitOptions {
            settings: Settings { steps: 20, ..Settings::default() },
            ..rounds_of(AlgorithmChoice::FedOpt(FedOptOptions::fed_avg(3)))
        };
        Sent::of(&GaussianMean {}, &data, &rows, &options)
    };
    sent(1.0).hold(&sent(1.7), "FedAvg");
}

#[test]
fn a_party_of_columns_sends_no_column_and_no_parameter_and_declares_all_that_columns_change() {
    let columns = BinaryWorld::new(12, 2, 2).inputs.swap_remove(0);
    let others: Vec<f64> = columns.iter().map(|x| 1.7 * x - 0.2).collect();
    for (what, options) in [
        ("augmented", VerticalOptions::augmented(1.0)),
        ("augmented, mean-field", VerticalOptions::augmented(1.0).mean_field()),
        ("power likelihood", VerticalOptions::power_likelihood(1.0)),
        ("split network", VerticalOptions::direct()),
    ] {
        Sent::of_columns(&columns, &options).hold(&Sent::of_columns(&others, &options), what);
    }
}
