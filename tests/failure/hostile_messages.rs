//! Claims that no well-formed wrong message makes a party panic, nor changes a party that refuses it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex};

use fixtures::between::between;
use fixtures::vertical::LinearWorld;
use fixtures::vertical_run::{BinaryWorld, Hand};
use fixtures::{ConjugateGaussian, conjugate, groups, split, structured};
use partita::inference::{
    Adam, Algorithm, Counters, DataType, Error, Exchange, FedOptOptions, FewRoundsOptions, GradientDescent, InProcess,
    Message, Outcome, Record, Request, SiloProgram, VerticalOptions, coordinator, evaluate, evaluating_silo,
    silo_program,
};
use partita::models::GaussianMean;
use partita::vertical::{PredictedModel, Predictive, predict};
use partita::{
    AlgorithmChoice, Device, FamilyPlan, FitOptions, Model, PviOptions, RoundOptions, Settings, SiloSchedule,
};
use partita_studies::Soul;

/// Every fault of a message that can still be decoded.
fn wrong_versions(honest: &Message) -> Vec<(String, Message)> {
    let mut found = Vec::new();
    let mut add = |what: String, change: &dyn Fn(&mut Message)| {
        let mut message = honest.clone();
        change(&mut message);
        found.push((what, message));
    };
    add("another kind".into(), &|m| m.kind = "unknown.kind".into());
    add("nothing in it".into(), &|m| {
        m.records.clear();
        m.numbers.clear();
        m.settings.clear();
    });
    add("something more".into(), &|m| m.records.push(floats("more", &[1.0; 7], &[7])));
    for (place, record) in honest.records.iter().enumerate() {
        let name = &record.name;
        add(format!("no `{name}`"), &|m| drop(m.records.remove(place)));
        add(format!("`{name}` twice"), &|m| m.records.push(m.records[place].clone()));
        add(format!("`{name}` empty"), &|m| m.records[place] = floats(name, &[], &[0]));
        add(format!("`{name}` of the other type"), &|m| {
            let record = &mut m.records[place];
            record.data_type = if record.data_type == DataType::F64 { DataType::U64 } else { DataType::F64 };
        });
        add(format!("`{name}` one shorter"), &|m| {
            let record = &mut m.records[place];
            let cells = (record.bytes.len() / 8).saturating_sub(1);
            Arc::make_mut(&mut record.bytes).truncate(8 * cells);
            record.shape = vec![cells as u64];
        });
        add(format!("`{name}` one longer"), &|m| {
            let record = &mut m.records[place];
            Arc::make_mut(&mut record.bytes).extend([0; 8]);
            record.shape = vec![record.bytes.len() as u64 / 8];
        });
        add(format!("`{name}` in another shape"), &|m| m.records[place].shape.insert(0, 1));
        add(format!("`{name}` in a shape that its bytes are not"), &|m| {
            m.records[place].shape = vec![1 << 40, 1 << 40]
        });
        for value in [f64::NAN, f64::INFINITY, -1e308, 0.0, -1.0] {
            add(format!("`{name}` all {value}"), &|m| {
                let record = &mut m.records[place];
                if record.data_type == DataType::F64 {
                    Arc::make_mut(&mut record.bytes)
                        .chunks_mut(8)
                        .for_each(|cell| cell.copy_from_slice(&value.to_le_bytes()));
                }
            });
        }
        for value in [0, u64::MAX, 1 << 53] {
            add(format!("`{name}` the word {value}"), &|m| {
                let record = &mut m.records[place];
                if record.data_type == DataType::U64 {
                    Arc::make_mut(&mut record.bytes)
                        .chunks_mut(8)
                        .for_each(|cell| cell.copy_from_slice(&value.to_le_bytes()));
                }
            });
        }
    }
    for (place, (name, _)) in honest.numbers.iter().enumerate() {
        add(format!("no number `{name}`"), &|m| drop(m.numbers.remove(place)));
        for value in [f64::NAN, f64::NEG_INFINITY, -1.0, 0.0, 1e300] {
            add(format!("number `{name}` {value}"), &|m| m.numbers[place].1 = value);
        }
    }
    for (place, (name, _)) in honest.settings.iter().enumerate() {
        add(format!("no setting `{name}`"), &|m| drop(m.settings.remove(place)));
        add(format!("setting `{name}` another"), &|m| m.settings[place].1 = "another \u{0} thing".repeat(1_000));
    }
    found
}

fn floats(name: &str, values: &[f64], shape: &[u64]) -> Record {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Record { name: name.into(), data_type: DataType::F64, shape: shape.to_vec(), bytes: bytes.into() }
}

/// The outcome of a hostile message: an answer (true) or an error (false), but never a panic.
fn unharmed<T>(what: &str, work: impl FnOnce() -> partita::inference::Result<T>) -> Result<bool, String> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Err(_) => Err(format!("{what}: panics")),
        Ok(Err(Error::Panicked { reason, .. })) => Err(format!("{what}: panics inside: {reason}")),
        Ok(found) => Ok(found.is_ok()),
    }
}

/// The state of a silo as saved, byte by byte.
fn saved(silo: &mut dyn SiloProgram, folder: &Path) -> Vec<Vec<u8>> {
    silo.answer(&Message::new("silo.save").setting("folder", &folder.to_string_lossy())).unwrap();
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    files.into_iter().map(|file| std::fs::read(file).unwrap()).collect()
}

/// Sends a silo every fault of a request; returns those that harm it. A refused request leaves the silo unchanged.
/// After an accepted one, it is restored.
fn besieged(silo: &mut dyn SiloProgram, honest: &Message, where_it_is: &str, tried: &mut usize) -> Vec<String> {
    let scratch = tempfile::tempdir().unwrap();
    let (own, now) = (scratch.path().join("before"), scratch.path().join("after"));
    let before = saved(silo, &own);
    let mut harmed = Vec::new();
    for (what, wrong) in wrong_versions(honest) {
        let what = format!("{where_it_is}, request `{}`, {what}", wrong.kind);
        *tried += 1;
        match unharmed(&what, || silo.answer(&wrong)) {
            Err(harm) => harmed.push(harm),
            Ok(false) if saved(silo, &now) != before => harmed.push(format!("{what}: refused, and changed the silo")),
            Ok(false) => continue,
            Ok(true) => (),
        }
        silo.answer(&Message::new("silo.restore").setting("folder", &own.to_string_lossy())).unwrap();
        assert!(saved(silo, &now) == before, "{what}: a silo that was restored is another");
    }
    harmed
}

/// Parties of one fit that can be made anew.
trait World {
    fn parties(&self) -> (Box<dyn Algorithm>, Vec<Box<dyn SiloProgram>>);
}

struct Horizontal<M: Model> {
    model: M,
    data: Vec<M::Data>,
    options: FitOptions,
}

impl<M: Model> World for Horizontal<M> {
    fn parties(&self) -> (Box<dyn Algorithm>, Vec<Box<dyn SiloProgram>>) {
        let device = Device::flex();
        let names = ["north", "south"].map(str::to_owned)[..self.data.len()].to_vec();
        let silo = |index: u32| {
            let data = &self.data[index as usize];
            silo_program(&self.model, &names, index, data, &device, &self.options).unwrap()
        };
        let (programs, rows): (Vec<_>, Vec<_>) = (0..names.len() as u32).map(silo).unzip();
        (coordinator(&self.model, &names, &rows, &device, &self.options).unwrap(), programs)
    }
}

struct Vertical(VerticalOptions);

impl World for Vertical {
    fn parties(&self) -> (Box<dyn Algorithm>, Vec<Box<dyn SiloProgram>>) {
        let world = BinaryWorld::new(12, 2, 2);
        let settings = Settings { steps: 4, ..Settings::default() };
        let hand = Hand::new(&world.parties, &world.labels, &settings, &self.0);
        (hand.algorithm, hand.parties.into_iter().map(|party| Box::new(party) as Box<dyn SiloProgram>).collect())
    }
}

/// What is left where a silo was taken out of its exchange.
struct Gone;

impl SiloProgram for Gone {
    fn name(&self) -> &str {
        "gone"
    }

    fn answer(&mut self, request: &Message) -> partita::inference::Result<Message> {
        Err(Error::Message { kind: request.kind.clone(), problem: "the silo was taken out".into() })
    }
}

struct SoulWorld;

impl World for SoulWorld {
    fn parties(&self) -> (Box<dyn Algorithm>, Vec<Box<dyn SiloProgram>>) {
        let LinearWorld { parties, labels, .. } = LinearWorld::new(12, 2, 1);
        let how = Soul { rho: 1.0, draws: 2, langevin_step: 0.04, burn_in: 1 };
        let settings = Settings { steps: 20, ..Settings::default() };
        let (coordinator, mut exchange) = how.parties(parties, labels, &Device::flex(), &settings, 1).unwrap();
        let programs = exchange.programs().iter_mut().map(|place| std::mem::replace(place, Box::new(Gone)));
        (Box::new(coordinator), programs.collect())
    }
}

/// The requests of the first exchanges, with their replies.
fn honest_exchanges(world: &dyn World, count: usize) -> Vec<Vec<(Request, Message)>> {
    let (mut algorithm, mut programs) = world.parties();
    let mut exchange = |_| {
        let answered: Vec<(Request, Message)> = algorithm
            .outgoing()
            .unwrap()
            .into_iter()
            .map(|request| {
                let reply = programs[request.silo].answer(&request.message).unwrap();
                (request, reply)
            })
            .collect();
        let outcomes = answered.iter().map(|(_, reply)| Outcome::Reply(reply.clone())).collect();
        algorithm.incoming(outcomes).unwrap();
        answered
    };
    (0..count).map(&mut exchange).collect()
}

/// Gives the silos and the coordinator every wrong version of the messages of the first exchanges.
fn assault(name: &str, world: &dyn World) {
    const EXCHANGES: usize = 3;
    let honest = honest_exchanges(world, EXCHANGES);
    let (mut tried, mut harmed) = (0, Vec::new());
    for exchange in 0..EXCHANGES {
        // Parties that have advanced to this exchange.
        let ready = || {
            let (mut algorithm, mut programs) = world.parties();
            for answered in &honest[..exchange] {
                algorithm.outgoing().unwrap();
                for (request, _) in answered {
                    programs[request.silo].answer(&request.message).unwrap();
                }
                let outcomes = answered.iter().map(|(_, reply)| Outcome::Reply(reply.clone())).collect();
                algorithm.incoming(outcomes).unwrap();
            }
            (algorithm, programs)
        };
        let (request, reply) = &honest[exchange][0];
        let (_, mut programs) = ready();
        let where_it_is = format!("{name}, exchange {exchange}");
        let silo = &mut *programs[request.silo];
        harmed.extend(besieged(silo, &request.message, &where_it_is, &mut tried));
        // Reports may be requested at any time.
        let elbo_requests = ready().0.elbo_requests(2, 0).swap_remove(0);
        let silo = &mut *programs[elbo_requests.silo];
        harmed.extend(besieged(silo, &elbo_requests.message, &where_it_is, &mut tried));
        for (what, wrong) in wrong_versions(reply) {
            let what = format!("{where_it_is}, reply `{}`, {what}", wrong.kind);
            let (mut algorithm, _) = ready();
            algorithm.outgoing().unwrap();
            let before = algorithm.save().encode();
            let outcomes = honest[exchange]
                .iter()
                .enumerate()
                .map(|(place, (_, own))| Outcome::Reply(if place == 0 { wrong.clone() } else { own.clone() }));
            let outcomes = outcomes.collect();
            match unharmed(&what, || algorithm.incoming(outcomes)) {
                Err(harm) => harmed.push(harm),
                Ok(false) if algorithm.save().encode() != before => {
                    harmed.push(format!("{what}: refused, and changed the coordinator"));
                }
                Ok(_) => (),
            }
            tried += 1;
        }
    }
    assert!(tried > 100, "{tried}");
    assert!(harmed.is_empty(), "{} of {tried}:\n{}", harmed.len(), harmed.join("\n"));
}

/// Asks parties something outside the fit: gives the first silo every wrong version of the request, and the asking
/// coordinator every wrong version of that silo's reply.
fn interrogate<T>(
    name: &str,
    silos: &dyn Fn() -> Vec<Box<dyn SiloProgram>>,
    ask: &dyn Fn(&mut dyn Exchange) -> partita::inference::Result<T>,
) {
    let heard: Arc<Mutex<Option<(Message, Message)>>> = Arc::default();
    let asked = |instead: Option<Message>| {
        let mut programs = silos();
        let (silo, heard) = (programs.remove(0), Arc::clone(&heard));
        let tapped = between(silo, move |silo, request| {
            let reply = silo.answer(request)?;
            *heard.lock().unwrap() = Some((request.clone(), reply.clone()));
            Ok(instead.clone().unwrap_or(reply))
        });
        programs.insert(0, tapped);
        ask(&mut InProcess::new(programs, 1).unwrap())
    };
    asked(None).unwrap();
    let (request, reply) = heard.lock().unwrap().take().unwrap();
    let (mut tried, mut refused) = (0, 0);
    let mut silo = silos().remove(0);
    let mut harmed = besieged(&mut *silo, &request, name, &mut tried);
    for (what, wrong) in wrong_versions(&reply).into_iter().filter(|(_, wrong)| *wrong != reply) {
        let what = format!("{name}, reply, {what}");
        tried += 1;
        let answered = unharmed(&what, || asked(Some(wrong)));
        match answered {
            Err(harm) => harmed.push(harm),
            Ok(true) if what.contains("NaN") || what.contains("inf") => harmed.push(format!("{what}: accepted")),
            Ok(true) => (),
            Ok(false) => refused += 1,
        }
    }
    assert!(tried > 30 && refused >= 5, "{tried}, {refused}");
    assert!(harmed.is_empty(), "{} of {tried}:\n{}", harmed.len(), harmed.join("\n"));
}

fn options(algorithm: AlgorithmChoice, family: FamilyPlan) -> FitOptions {
    let settings = Settings { steps: 20, family, ..Settings::default() };
    FitOptions { algorithm, settings, threads: 1, ..FitOptions::default() }
}

/// Groups with their own means: latents of both kinds.
fn fit(algorithm: AlgorithmChoice) -> Horizontal<ConjugateGaussian> {
    let groups = split(&groups(6, 3), 2);
    let data = [0, 1].map(|silo| ConjugateGaussian::data(&groups[silo], &Device::flex()).unwrap());
    Horizontal { model: conjugate(), data: data.into(), options: options(algorithm, structured()) }
}

/// One mean of all rows: federated point estimation has no local latents.
fn fit_mean(algorithm: AlgorithmChoice) -> Horizontal<GaussianMean> {
    let data = [[1.0, 2.0], [0.5, -1.0]].map(|rows| GaussianMean::data(&rows, &Device::flex()));
    Horizontal { model: GaussianMean {}, data: data.into(), options: options(algorithm, FamilyPlan::new()) }
}

#[test]
fn sfvi_parties_survive_any_wrong_message() {
    assault("SFVI", &fit(AlgorithmChoice::Sfvi));
}

#[test]
fn the_party_of_pooled_data_survives_any_wrong_message() {
    let world = fit(AlgorithmChoice::Central);
    let data = vec![world.data[0].clone()];
    assault("Central", &Horizontal { data, ..world });
}

#[test]
fn parties_of_few_rounds_survive_any_wrong_message() {
    assault("few rounds", &fit(AlgorithmChoice::FewRounds(FewRoundsOptions::default())));
}

#[test]
fn averaging_parties_survive_any_wrong_message() {
    assault("SFVI-Avg", &fit(AlgorithmChoice::SfviAvg(RoundOptions::paper(3))));
    let average = FedOptOptions { optimiser: Adam::default().into(), ..FedOptOptions::fed_avg(3) };
    assault("FedAvg", &fit_mean(AlgorithmChoice::FedOpt(average)));
}

#[test]
fn pvi_parties_survive_any_wrong_message() {
    let one = PviOptions::new(3);
    assault("sequential PVI", &fit(AlgorithmChoice::Pvi(one.clone())));
    let all = PviOptions { schedule: SiloSchedule::Synchronous, damping: Some(0.5), ..one };
    assault("synchronous PVI", &fit(AlgorithmChoice::Pvi(all.clone())));
    let solver = GradientDescent::default().into();
    assault("PVI by gradients", &fit(AlgorithmChoice::Pvi(PviOptions { solver, ..all })));
}

#[test]
fn vertical_parties_survive_any_wrong_message() {
    assault("augmented", &Vertical(VerticalOptions::augmented(1.0)));
    assault("augmented, mean-field", &Vertical(VerticalOptions::augmented(1.0).mean_field().local_steps(2)));
    assault("power likelihood", &Vertical(VerticalOptions::power_likelihood(1.0)));
    assault("split network", &Vertical(VerticalOptions::direct()));
}

#[test]
fn parties_of_soul_survive_any_wrong_message() {
    assault("SOUL", &SoulWorld);
}

#[test]
fn an_evaluation_by_held_out_rows_survives_any_wrong_message() {
    let world = fit(AlgorithmChoice::Sfvi);
    let silos = || {
        let (_, programs) = world.parties();
        let evaluating = |(index, program): (u32, Box<dyn SiloProgram>)| -> Box<dyn SiloProgram> {
            let rows = &world.data[index as usize];
            Box::new(evaluating_silo(program, index, &world.model, rows, &Device::flex(), &world.options).unwrap())
        };
        (0..).zip(programs).map(evaluating).collect()
    };
    let (algorithm, _) = world.parties();
    interrogate("evaluation", &silos, &|exchange| {
        evaluate(&*algorithm, exchange, 3, 1, None, &mut Counters::default())
    });
}

#[test]
fn a_prediction_from_columns_survives_any_wrong_message() {
    let (world, device) = (BinaryWorld::new(12, 2, 2), Device::flex());
    for options in [VerticalOptions::augmented(1.0), VerticalOptions::power_likelihood(1.0)] {
        // After one step whose gradient the parties have yet to hear of.
        let stepped = || {
            let settings = Settings { steps: 4, ..Settings::default() };
            let mut hand = Hand::new(&world.parties, &world.labels, &settings, &options);
            hand.whole_step();
            hand.parties.iter_mut().zip(&world.parties).for_each(|(party, rows)| party.hold_out(rows.clone()));
            hand
        };
        let silos = || stepped().parties.into_iter().map(|party| Box::new(party) as Box<dyn SiloProgram>).collect();
        let algorithm = stepped().algorithm;
        interrogate(&format!("prediction, {options:?}"), &silos, &|exchange| {
            let how = Predictive { draws: 3, model: PredictedModel::Augmented, seed: 1, deadline: None };
            predict(&world.labels, &device, &*algorithm, exchange, how, &mut Counters::default())
        });
    }
}
