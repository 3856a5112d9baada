//! Holds masked sums to the plain ones bit for bit, and silos to their rosters, keys and charges.

use std::path::Path;
use std::time::Duration;

use partita_core::vertical::{Labels, Party};
use partita_core::{Design, Device, Normal};
use partita_inference::vertical::{self, PredictedModel, Predictive, party_program};
use partita_inference::{
    Algorithm, AlgorithmChoice, Arrival, Counters, Error, Exchange, FitOptions, InProcess, Manifest, Message, Outcome,
    PrivateRoundsOptions, Refusal, Request, Result, RunOptions, Settings, Silent, SiloProgram, StartFrom,
    VerticalOptions, coordinator, fit_parties, run, silo_program,
};
use partita_models::GaussianMean;
use partita_models::vertical::{BernoulliHead, Linear, WithIntercept, binary_labels};
use partita_privacy::{Budget, Ledger, RunKey, SeededBits, SignedKey, SiloKey, SystemEntropy};

use super::messages::{KEY, MaskedRequest, key_of, values_of};
use super::parts::apart;
use super::{Departures, MaskedSilo, Masking, SecureSums};
use crate::private::{NoisedSums, Seated, Shares, silo};

mod rosters;

mod again;

const NAMES: [&str; 3] = ["north", "south", "west"];

fn options() -> PrivateRoundsOptions {
    PrivateRoundsOptions { rounds: 4, ..PrivateRoundsOptions::new(1.0, 1e-5, 2.0) }
}

fn fit_options() -> FitOptions {
    FitOptions { algorithm: AlgorithmChoice::PrivateRounds(options()), ..FitOptions::default() }
}

/// A silo with seeded noise, and a ledger where a folder is given.
fn plain(place: usize, folder: Option<&Path>) -> Box<dyn SiloProgram> {
    with_budget(place, folder, 50.0)
}

/// The same with this epsilon of its owner.
fn with_budget(place: usize, folder: Option<&Path>, epsilon: f64) -> Box<dyn SiloProgram> {
    sharing(place, folder, epsilon, Shares::WHOLE)
}

/// The same with a share of the noise.
fn sharing(place: usize, folder: Option<&Path>, epsilon: f64, shares: Shares) -> Box<dyn SiloProgram> {
    let (device, name) = (Device::flex(), NAMES[place]);
    let rows = GaussianMean::data(&(0..50).map(|k| f64::from(k % 7) / 3.0 - place as f64).collect::<Vec<_>>(), &device);
    let budget = Budget { epsilon, delta: 1e-5, unit: "row".into() };
    let ledger = folder.map(|folder| Ledger::open(&folder.join(name), budget).unwrap());
    let sums = NoisedSums::new(ledger, Box::new(SeededBits::new(place as u64))).shared(shares);
    let seated = Seated { name, index: place as u32, study: "" };
    silo(seated, (&GaussianMean {}, &rows), &device, &fit_options(), sums).unwrap().0
}

fn keys() -> Vec<SiloKey> {
    (1..=3).map(|byte| SiloKey::from_bytes(&[byte; 32])).collect()
}

fn masked(place: usize, fewest: usize, folder: Option<&Path>) -> MaskedSilo {
    behind_masks(plain(place, folder), place, fewest)
}

fn behind_masks(own: Box<dyn SiloProgram>, place: usize, fewest: usize) -> MaskedSilo {
    let keys = keys();
    let peers = NAMES.iter().zip(&keys).map(|(name, key)| ((*name).to_owned(), key.public())).collect();
    MaskedSilo::new(own, Masking { key: keys[place].clone(), peers, fewest, departures: Departures::FreshNoise })
}

fn method() -> Box<dyn Algorithm> {
    coordinator(&GaussianMean {}, &NAMES.map(str::to_owned), &[50; 3], &Device::flex(), &fit_options()).unwrap()
}

fn in_process(programs: Vec<Box<dyn SiloProgram>>) -> InProcess {
    InProcess::new(programs, 1).unwrap()
}

#[test]
fn the_masked_sum_has_the_bits_of_the_plain_one() {
    let request = method().outgoing().unwrap().remove(0).message;
    // What silos are asked has the roster in it, which their noise is drawn for.
    let mut sum = vec![0_u128; 3];
    let mut frame = None;
    for place in 0..3 {
        let (own, numbers) = apart(&plain(place, None).answer(&request).unwrap(), &request).unwrap();
        sum.iter_mut().zip(numbers).for_each(|(slot, own)| *slot = slot.wrapping_add(own));
        assert_eq!(frame.get_or_insert_with(|| own.clone()), &own);
    }
    let frame = frame.unwrap();
    let mut own = in_process((0..3).map(|place| Box::new(masked(place, 3, None)) as Box<dyn SiloProgram>).collect());
    let mut secure = SecureSums::new(&mut own);
    let manifest = method().manifest().clone();
    let outcomes = secure.exchange(Request::to_all(3, &request), &manifest, None).unwrap();
    let replies: Vec<Message> = outcomes.into_iter().map(|own| own.reply("a silo", 0).unwrap()).collect();
    assert_eq!(replies[0], frame.with(&sum).unwrap());
    assert!(sum.iter().all(|number| *number != 0));
    assert!(replies[1..].iter().all(|own| *own == frame.with(&[0; 3]).unwrap()));
}

#[test]
fn a_run_by_masked_sums_is_that_by_plain_ones_up_to_the_unit() {
    let found = |secure: bool| {
        let programs = (0..3).map(|place| match secure {
            true => Box::new(masked(place, 3, None)) as Box<dyn SiloProgram>,
            false => plain(place, None),
        });
        let (mut own, mut method) = (in_process(programs.collect()), method());
        let how = RunOptions { steps: 5, ..RunOptions::default() };
        let record = match secure {
            true => run(&mut *method, &mut SecureSums::new(&mut own), &how, &mut Silent),
            false => run(&mut *method, &mut own, &how, &mut Silent),
        };
        assert_eq!(record.unwrap().counters.rounds, 4);
        method.posterior().parameters.to_vec()
    };
    for (masked, plain) in found(true).iter().zip(found(false)) {
        assert!((masked - plain).abs() < 1e-6, "{masked} of {plain}");
    }
}

/// The keys of a session, told by three silos.
fn exchange_keys(silos: &mut [MaskedSilo], session: &str) -> Vec<SignedKey> {
    let ask = Message::new(KEY).setting("session", session);
    silos.iter_mut().map(|silo| key_of(&silo.answer(&ask).unwrap()).unwrap()).collect()
}

fn asked(session: &str, attempt: u64, roster: &[&str], keys: &[SignedKey]) -> Message {
    asked_for(method().outgoing().unwrap().remove(0).message, session, attempt, roster, keys)
}

fn asked_for(plain: Message, session: &str, attempt: u64, roster: &[&str], keys: &[SignedKey]) -> Message {
    let roster = roster.iter().map(|name| (*name).to_owned()).collect();
    MaskedRequest { session: session.into(), round: 1, attempt, roster, keys: keys.to_vec(), plain }.write().unwrap()
}

/// The request of the first round, with one of its numbers multiplied.
fn changed(number: &str, by: f64) -> Message {
    let mut request = method().outgoing().unwrap().remove(0).message;
    request.numbers.iter_mut().filter(|own| own.0 == number).for_each(|own| own.1 *= by);
    request.get_number(number).unwrap();
    request
}

/// What a coordinator reads that asks north for one thing and all others for the usual in a session, and north's own numbers,
/// both modulo 2¹²⁸.
fn betrayed(folder: &Path, session: &str, north: &Message) -> (Vec<u128>, Vec<u128>) {
    let mut silos: Vec<MaskedSilo> = (0..3).map(|place| masked(place, 3, Some(folder))).collect();
    let keys = exchange_keys(&mut silos, session);
    let mut sum = vec![0_u128; 3];
    for (place, silo) in silos.iter_mut().enumerate() {
        let plain = if place == 0 { north.clone() } else { changed("clip", 1.0) };
        let reply = silo.answer(&asked_for(plain, session, 0, &NAMES, &keys)).unwrap();
        let own = values_of(&reply).unwrap().1.values;
        sum.iter_mut().zip(own).for_each(|(slot, own)| *slot = slot.wrapping_add(own));
    }
    // Its ledger has what it gave.
    drop(silos);
    let request = north.clone().setting("roster", &NAMES.join("\n")).word("attempt", 0);
    let answer = plain(0, Some(folder)).answer(&request).unwrap();
    (sum, apart(&answer, north).unwrap().1)
}

/// How far numbers modulo 2¹²⁸ are from each other.
fn distance(one: u128, other: u128) -> u128 {
    one.wrapping_sub(other).cast_signed().unsigned_abs()
}

/// Two random numbers modulo 2¹²⁸ are nearer than this with probability 2⁻¹⁹.
const NEAR: u128 = 1 << 108;

#[test]
fn a_request_changed_for_one_silo_leaves_no_number_near_its_own_sum() {
    // Without the request in the masks, they would cancel whatever north alone was asked.
    let folder = tempfile::tempdir().unwrap();
    let (sum, own) = betrayed(folder.path(), "s1", &changed("curvature", 16_384.0));
    assert!(distance(sum[0], own[0]) > NEAR, "its gradient is read through the masks: {sum:?}, {own:?}");
    // And a coordinator that is honest sees that something is amiss.
    let mut silos: Vec<MaskedSilo> = (0..3).map(|place| masked(place, 3, None)).collect();
    let keys = exchange_keys(&mut silos, "s2");
    let replies = silos.iter_mut().enumerate().map(|(place, silo)| {
        let plain = changed("curvature", if place == 0 { 2.0 } else { 1.0 });
        values_of(&silo.answer(&asked_for(plain, "s2", 0, &NAMES, &keys)).unwrap()).unwrap().1
    });
    let refused = partita_privacy::Masked::sum(&replies.collect::<Vec<_>>(), 3).unwrap_err().to_string();
    assert!(refused.contains("the rosters or requests of the answers"), "{refused}");
}

#[test]
fn two_sessions_with_other_requests_for_one_silo_do_not_give_it_by_difference() {
    let folder = tempfile::tempdir().unwrap();
    let (honest, own) = betrayed(folder.path(), "s1", &changed("clip", 1.0));
    // The others answer from their ledgers, with the same noise.
    let (other, changed) = betrayed(folder.path(), "s2", &changed("clip", 0.5));
    for at in 0..2 {
        let (found, expected) = (other[at].wrapping_sub(honest[at]), changed[at].wrapping_sub(own[at]));
        assert!(expected != 0 && distance(found, expected) > NEAR, "number {at}: {found} is near {expected}");
    }
}

#[test]
fn what_a_silo_does_not_mask_with_is_refused_before_anything_is_spent() {
    let folder = tempfile::tempdir().unwrap();
    let mut silos: Vec<MaskedSilo> = (0..3).map(|place| masked(place, 2, Some(folder.path()))).collect();
    let keys = exchange_keys(&mut silos, "s1");
    let mut refused = |request: &Message| silos[0].answer(request).unwrap_err().to_string();
    let plain = method().outgoing().unwrap().remove(0).message;
    assert!(refused(&plain).contains("masked sums alone"));
    assert!(refused(&asked("s2", 0, &NAMES, &keys)).contains("no key of session `s2`"));
    // The coordinator's own key in the name of a silo.
    let mut bits = SystemEntropy::default();
    let forged = RunKey::new("s1", "west", &SiloKey::from_bytes(&[9; 32]), &mut bits).unwrap().signed();
    let forged = [keys[0].clone(), keys[1].clone(), forged];
    assert!(refused(&asked("s1", 0, &NAMES, &forged)).contains("a key is another of west"));
    // Its key of the session is used up with that.
    let keys = exchange_keys(&mut silos, "s3");
    let mut refused = |request: &Message| silos[0].answer(request).unwrap_err().to_string();
    for (roster, words) in [
        (&["north"][..], "the number of silos is 1"),
        (&["south", "west"], "the roster is south, west"),
        (&["north", "south", "stranger"], "a silo of the roster is stranger"),
    ] {
        let found = refused(&asked("s3", 0, roster, &keys));
        assert!(found.contains(words), "{found}");
    }
    let mut other = asked("s3", 0, &NAMES, &keys);
    other =
        MaskedRequest { plain: Message::new("private.key"), ..MaskedRequest::read(&other).unwrap() }.write().unwrap();
    assert!(refused(&other).contains("expected a request for a sum"));
    let ledger = std::fs::read_to_string(folder.path().join("north")).unwrap();
    assert!(!ledger.contains("\"spent\""), "{ledger}");
    silos[0].answer(&asked("s3", 0, &NAMES, &keys)).unwrap();
    // A mask is used once.
    assert!(silos[0].answer(&asked("s3", 0, &NAMES, &keys)).unwrap_err().to_string().contains("the place"));
}

#[test]
fn another_roster_or_attempt_has_fresh_noise_and_is_charged_and_the_same_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let mut silos: Vec<MaskedSilo> = (0..3).map(|place| masked(place, 2, Some(folder.path()))).collect();
    let charged = || std::fs::read_to_string(folder.path().join("north")).unwrap().matches("\"spent\"").count();
    let mut sums = Vec::new();
    for (session, attempt, roster) in
        [("s1", 0, &NAMES[..]), ("s2", 1, &NAMES), ("s3", 0, &NAMES[..2]), ("s4", 0, &NAMES)]
    {
        let keys = exchange_keys(&mut silos, session);
        let request = asked(session, attempt, roster, &keys);
        let members = silos.iter_mut().filter(|silo| roster.contains(&silo.name()));
        let replies: Vec<_> = members.map(|silo| values_of(&silo.answer(&request).unwrap()).unwrap().1).collect();
        sums.push(partita_privacy::Masked::sum(&replies, roster.len()).unwrap());
    }
    assert_eq!(charged(), 3);
    assert!(sums[0] != sums[1] && sums[0] != sums[2]);
    assert_eq!(sums[0], sums[3], "the same roster and attempt have the same noise, under other masks");
}

/// A silo that loses its keys once, as one that is started again does.
struct Forgetful {
    own: MaskedSilo,
    place: usize,
    asked: usize,
}

impl SiloProgram for Forgetful {
    fn name(&self) -> &str {
        self.own.name()
    }

    fn answer(&mut self, request: &Message) -> Result<Message> {
        self.asked += 1;
        if self.asked == 4 {
            self.own = masked(self.place, 3, None);
        }
        self.own.answer(request)
    }
}

#[test]
fn keys_are_exchanged_anew_after_a_silo_was_started_again() {
    let programs = (0..3).map(|place| match place {
        1 => Box::new(Forgetful { own: masked(1, 3, None), place, asked: 0 }) as Box<dyn SiloProgram>,
        _ => Box::new(masked(place, 3, None)),
    });
    let (mut own, mut method) = (in_process(programs.collect()), method());
    let how = RunOptions { steps: 5, ..RunOptions::default() };
    let record = run(&mut *method, &mut SecureSums::new(&mut own), &how, &mut Silent).unwrap();
    assert_eq!(record.counters.rounds, 4);
    assert!(method.posterior().parameters.iter().all(|number| number.is_finite()));
}

/// An exchange that counts what is asked, and in which a silo may stall.
struct Watched {
    own: InProcess,
    asked: Vec<String>,
    stalls: Option<usize>,
}

impl Exchange for Watched {
    fn silos(&self) -> &[String] {
        self.own.silos()
    }

    fn send(&mut self, requests: Vec<Request>, deadline: Option<Duration>) -> Result<()> {
        self.asked.extend(requests.iter().map(|request| request.message.kind.clone()));
        self.own.send(requests, deadline)
    }

    fn receive(&mut self, manifest: &Manifest, deadline: Option<Duration>) -> Result<Option<Arrival>> {
        let mut arrival = self.own.receive(manifest, deadline)?;
        if let Some(own) = arrival.as_mut().filter(|own| Some(own.silo) == self.stalls) {
            own.outcome = Outcome::Lost { reason: "no answer in 60 s".into() };
        }
        Ok(arrival)
    }
}

/// The error of a run over masked silos of which west has this epsilon, and the kinds of what was asked.
fn failed(folder: Option<&Path>, epsilon: f64, stalls: Option<usize>) -> (Error, Vec<String>) {
    let programs = (0..3).map(|place| {
        let own = with_budget(place, folder, if place == 2 { epsilon } else { 50.0 });
        Box::new(behind_masks(own, place, 3)) as Box<dyn SiloProgram>
    });
    let mut watched = Watched { own: in_process(programs.collect()), asked: Vec::new(), stalls };
    let how = RunOptions { steps: 5, ..RunOptions::default() };
    let error = run(&mut *method(), &mut SecureSums::new(&mut watched), &how, &mut Silent).unwrap_err();
    (error, watched.asked)
}

#[test]
fn a_refusal_by_the_budget_is_told_once_and_a_silo_that_stalls_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (error, asked) = failed(Some(folder.path()), 0.1, None);
    assert_eq!(error.refusal(), Some(Refusal::Budget), "{error}");
    assert!(error.to_string().starts_with("silo `west`, step 0: the owner's privacy budget: "), "{error}");
    // Keys of three, one masked sum, and no second attempt.
    assert_eq!(asked.iter().filter(|kind| *kind == KEY).count(), 3, "{asked:?}");
    assert_eq!(asked.len(), 6, "{asked:?}");
    let (error, asked) = failed(None, 50.0, Some(2));
    let said = error.to_string();
    assert!(said.contains("silo `west`, step 0: no answer (no answer in 60 s)"), "{said}");
    assert!(said.contains("`lost_silo = \"go-on\"`") && !said.contains("::") && asked.len() == 3, "{said}");
}

/// A silo of SFVI behind masks, of whose sums none has noise.
fn open(place: usize, secure: bool) -> Box<dyn SiloProgram> {
    let device = Device::flex();
    let rows = GaussianMean::data(&[0.5, 1.5 + place as f64, -0.3], &device);
    let names = NAMES.map(str::to_owned);
    // It may be asked on the way to a mode, too.
    let fit = FitOptions { settings: Settings { start: StartFrom::Mode, ..sfvi().settings }, ..sfvi() };
    let own = silo_program(&GaussianMean {}, &names, place as u32, &rows, &device, &fit).unwrap().0;
    if secure { Box::new(without_noise(own, place)) } else { own }
}

fn without_noise(own: Box<dyn SiloProgram>, place: usize) -> MaskedSilo {
    let mut own = behind_masks(own, place, 3);
    own.masking.departures = Departures::Refused;
    own
}

fn sfvi() -> FitOptions {
    let settings = Settings { steps: 30, start: StartFrom::Declared, ..Settings::default() };
    FitOptions { algorithm: AlgorithmChoice::Sfvi, settings, trust_draws: Some(0), ..FitOptions::default() }
}

#[test]
fn sfvi_by_masked_sums_is_that_by_plain_ones_to_rounding() {
    let found = |secure: bool| {
        let mut own = in_process((0..3).map(|place| open(place, secure)).collect());
        let names = NAMES.map(str::to_owned);
        let mut method = coordinator(&GaussianMean {}, &names, &[3; 3], &Device::flex(), &sfvi()).unwrap();
        let mut fitted = |exchange: &mut dyn Exchange| {
            fit_parties(&GaussianMean {}, &Device::flex(), &sfvi(), &mut *method, exchange, None).unwrap()
        };
        let fitted = if secure { fitted(&mut SecureSums::new(&mut own)) } else { fitted(&mut own) };
        (method.posterior().parameters.to_vec(), fitted.report.elbo, fitted.record.counters.rounds)
    };
    let ((masked, bound, rounds), (plain, expected, of_plain)) = (found(true), found(false));
    assert!(rounds == of_plain && (bound - expected).abs() < 1e-9, "{bound} of {expected}, {rounds} rounds");
    for (masked, plain) in masked.iter().zip(plain) {
        assert!((masked - plain).abs() < 1e-9, "{masked} of {plain}");
    }
    // On the way to a mode the slopes are summed.
    let settings = Settings { start: StartFrom::Mode, ..sfvi().settings };
    let names = NAMES.map(str::to_owned);
    let mode = FitOptions { settings, ..sfvi() };
    let mut method = coordinator(&GaussianMean {}, &names, &[3; 3], &Device::flex(), &mode).unwrap();
    let (request, manifest) = (method.outgoing().unwrap().remove(0).message, method.manifest().clone());
    assert_eq!(request.kind, "sfvi.slope");
    let mut own = in_process((0..3).map(|place| open(place, true)).collect());
    let total = SecureSums::new(&mut own).exchange(Request::to_all(3, &request), &manifest, None).unwrap().remove(0);
    let total = total.reply("all", 0).unwrap().get_floats("slope").unwrap();
    let each = (0..3).map(|place| open(place, false).answer(&request).unwrap().get_floats("slope").unwrap()[0]);
    let expected: f64 = each.sum();
    assert!(expected.abs() > 0.1 && (total[0] - expected).abs() < 1e-12, "{total:?} of {expected}");
}

#[test]
fn columns_at_parties_that_mask_their_contributions_give_the_fit_and_the_predictions_of_plain_ones() {
    let device = Device::flex();
    let column = |place: usize, rows: usize| {
        let values: Vec<f64> = (0..rows).map(|row| ((row * 7 + place * 5) % 11) as f64 / 5.0 - 1.0).collect();
        Party::new(NAMES[place], Linear::new(1), Design::new(values, [rows, 1, 1]).unwrap())
    };
    let labels = |rows: usize| {
        let yes: Vec<bool> = (0..rows).map(|row| row * row % 5 < 2).collect();
        Labels::new(WithIntercept::new(BernoulliHead {}, Normal::new(0.0, 1.0)), binary_labels(&yes, &device))
    };
    for how in [VerticalOptions::augmented(0.5), VerticalOptions::direct()] {
        let settings = Settings { steps: 12, particles: 2, ..Settings::default() };
        let fit =
            FitOptions { algorithm: AlgorithmChoice::Vertical(how), settings, elbo_draws: 8, ..FitOptions::default() };
        let found = |secure: bool| {
            let party = |place: usize| {
                let mut own = party_program(&column(place, 20), place as u32, None, &device, &fit).unwrap();
                own.hold_out(column(place, 6));
                match secure {
                    true => Box::new(without_noise(Box::new(own), place)) as Box<dyn SiloProgram>,
                    false => Box::new(own),
                }
            };
            let mut own = in_process((0..3).map(party).collect());
            let mut masks = SecureSums::new(&mut own);
            let exchange: &mut dyn Exchange = if secure { &mut masks } else { masks.own };
            let names = NAMES.map(str::to_owned);
            let mut method = vertical::coordinator(&labels(20), &names, &device, &fit).unwrap();
            let fitted = vertical::fit_parties(&labels(20), &device, &fit, &mut *method, exchange, None).unwrap();
            let ask = Predictive { draws: 5, model: PredictedModel::Declared, seed: 1, deadline: None };
            let mut counters = Counters::default();
            let predicted = vertical::predict(&labels(6), &device, &*method, exchange, ask, &mut counters).unwrap();
            let means = fitted.report.sites.iter().map(|site| site.mean);
            means.chain([fitted.report.elbo]).chain(predicted.mean.values).collect::<Vec<f64>>()
        };
        let (masked, plain) = (found(true), found(false));
        assert_eq!(masked.len(), 8);
        for (masked, plain) in masked.iter().zip(plain) {
            assert!((masked - plain).abs() < 1e-9, "{how:?}: {masked} of {plain}");
        }
    }
}
