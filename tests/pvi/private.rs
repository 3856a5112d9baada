//! Holds private visits to plain ones without noise, to answers without a number of the rows, and to budgets.

use partita::inference::{
    EarlyStop, Error, Fitted, GradientDescent, Mechanism, Message, Monitor, PrivateParty, PrivateSteps, Pvi,
    PviOptions, PviSilo, Result, RowSum, Schedule, Settings, Silo, SiloProgram, SiloSchedule,
};
use partita::models::{BinaryRows, GaussianMean, LogisticRegression};
use partita::privacy::SeededBits;
use partita::private::{PrivateMethod, PrivateOptions, simulate};
use partita::{Device, FitOptions};

/// Sums rows as they are.
#[derive(Debug)]
struct Plain;

impl Mechanism for Plain {
    fn release(&mut self, _: &[u8], sum: RowSum<'_>) -> Result<Vec<f64>> {
        let mut total = vec![0.0; sum.length];
        for row in (sum.rows)(&(0..sum.count).collect::<Vec<_>>())? {
            total.iter_mut().zip(row).for_each(|(slot, value)| *slot += value);
        }
        Ok(total)
    }
}

const SUMS: u64 = 12;

fn visits() -> PrivateSteps {
    PrivateSteps { epsilon: 1.0, delta: 1e-5, noise: 1.0, clip: 1.0, rate: 1.0, sums: SUMS, whole_silo: false }
}

fn settings() -> Settings {
    Settings { particles: 3, threads: Some(2), schedule: Schedule::Constant { rate: 0.05 }, ..Settings::default() }
}

fn rows() -> BinaryRows {
    let inputs: Vec<f64> = (0..80).map(|k| f64::from(k * k % 17) / 8.0 - 1.0).collect();
    let labels: Vec<bool> = (0..40).map(|row| inputs[2 * row] > 0.3 * inputs[2 * row + 1]).collect();
    BinaryRows::new(&inputs, 2, &labels, &Device::flex()).unwrap()
}

fn silo(options: &PviOptions, settings: &Settings) -> PviSilo {
    let silo = Silo::new("north", 0, &LogisticRegression::new(2), &rows(), &Device::flex(), settings).unwrap();
    PviSilo::new(silo, 0, options.clone()).unwrap()
}

fn private() -> PviOptions {
    PviOptions { private: Some(visits()), ..PviOptions::new(6) }
}

fn request() -> Message {
    let (model, names) = (LogisticRegression::new(2), ["north".to_owned()]);
    let mut pvi = Pvi::new(&model, &Device::flex(), &settings(), &names, vec![40], private()).unwrap();
    partita::inference::Algorithm::outgoing(&mut pvi).unwrap().remove(0).message
}

#[test]
fn without_noise_a_private_visit_is_a_plain_one_and_tells_no_likelihood() {
    let mut plain = silo(&PviOptions::new(6), &settings());
    let mut hidden = silo(&private(), &settings()).private(Box::new(Plain)).unwrap();
    let manifest = hidden.manifest();
    let expected = plain.answer(&request()).unwrap();
    let found = hidden.answer(&request()).unwrap();
    let [expected_change, change] = [&expected, &found].map(|own| own.get_floats("change").unwrap());
    for (expected, found) in expected_change.iter().zip(&change) {
        assert!((expected - found).abs() < 1e-9 * expected.abs().max(1.0), "{expected} {found}");
    }
    assert!(expected.numbers.iter().any(|(name, _)| name == "log_likelihood"));
    assert!(found.numbers.iter().all(|(name, _)| name != "log_likelihood"));
    // What a plain silo answers is held back, a private silo's answer is not.
    let party = |own: PviSilo| PrivateParty::new(Box::new(own), manifest.clone());
    let refused = party(silo(&PviOptions::new(6), &settings())).answer(&request()).unwrap_err();
    assert!(matches!(&refused, Error::Manifest { field, .. } if field == "log_likelihood"), "{refused}");
    let own = silo(&private(), &settings()).private(Box::new(Plain)).unwrap();
    assert!(party(own).answer(&request()).is_ok());
}

#[test]
fn a_private_silo_of_pvi_refuses_more_sums_than_were_promised_and_what_has_no_noise() {
    let mut own = silo(&private(), &settings()).private(Box::new(Plain)).unwrap();
    let mut again = request();
    own.answer(&again).unwrap();
    for (name, value) in [("step", 6_u64), ("version", 2), ("settled", 1)] {
        for record in again.records.iter_mut().filter(|record| record.name == name) {
            record.bytes = value.to_le_bytes().to_vec().into();
        }
    }
    for (_, share) in again.numbers.iter_mut().filter(|(name, _)| name == "share") {
        *share = 1.0;
    }
    own.answer(&again).unwrap();
    let refused = |own: &mut PviSilo, message: &Message| own.answer(message).unwrap_err().to_string();
    for record in again.records.iter_mut().filter(|record| record.name == "version" || record.name == "settled") {
        let at = u64::from_le_bytes(record.bytes.as_slice().try_into().unwrap()) + 1;
        record.bytes = at.to_le_bytes().to_vec().into();
    }
    assert!(refused(&mut own, &again).contains("12 sums are given"), "{}", refused(&mut own, &again));
    let mut other = request();
    for kind in ["sfvi.estimate", "trust.values"] {
        other.kind = kind.into();
        assert!(refused(&mut own, &other).contains("answers visits alone"));
    }
    // Private options without a mechanism, and a mechanism without private options.
    assert!(refused(&mut silo(&private(), &settings()), &request()).contains("without a mechanism"));
    assert!(silo(&PviOptions::new(6), &settings()).private(Box::new(Plain)).is_err());
    // Decisions by what has no noise.
    let adaptive = Settings { schedule: Schedule::Adaptive { initial: 0.1 }, ..settings() };
    assert!(silo(&private(), &adaptive).private(Box::new(Plain)).unwrap_err().to_string().contains("Adaptive"));
    let stop = Some(EarlyStop { monitor: Monitor::FreeEnergy, window: 2, patience: 1 });
    let solver = GradientDescent { stop, ..GradientDescent::default() };
    let stopping = PviOptions { solver: solver.into(), ..private() };
    assert!(stopping.check().unwrap_err().to_string().contains("without early stopping"));
}

/// A fit of six hundred numbers in two silos under a promise, with seeded bits.
fn fitted(promise: PrivateOptions, seed: u64) -> Result<Fitted> {
    let device = Device::flex();
    let rows = |mean: f64| (0..300).map(|k| mean + f64::from(k % 21 - 10) / 6.06).collect::<Vec<f64>>();
    let silos = [0.8, 1.2].map(|mean| (format!("at-{mean}"), device.tensor(rows(mean), [300])));
    let settings = Settings { seed, schedule: Schedule::Constant { rate: 0.05 }, ..Settings::default() };
    let options = FitOptions { settings, ..FitOptions::default() };
    let how = PviOptions { schedule: SiloSchedule::Synchronous, ..PviOptions::new(20) };
    let method = PrivateMethod::Pvi { options: how, rate: 0.2, clip: 2.0 };
    let privacy = PrivateOptions { method, rounds: 4, ..promise };
    let mut bits = |silo: usize| Box::new(SeededBits::new(seed * 100 + silo as u64)) as Box<_>;
    simulate(&GaussianMean {}, &silos, &device, &options, &privacy, &mut bits)
}

#[test]
fn a_private_fit_finds_the_mean_and_says_that_its_noise_is_in_no_interval() {
    for seed in 1..=3 {
        let fit = fitted(PrivateOptions::new(4.0, 1e-5), seed).unwrap();
        let (site, privacy) = (&fit.report.sites[0], fit.report.privacy.as_ref().unwrap());
        assert!((site.mean - 1.0).abs() < 0.3, "{}", site.mean);
        assert!(privacy.releases == 80 && privacy.widened.is_empty());
        // No row is two away from where the mean ends.
        let clipped = privacy.clipped.unwrap();
        assert!(clipped.deviation > 0.0 && clipped.share.abs() < 5.0 * clipped.deviation, "{clipped:?}");
        assert!(fit.report.warnings.iter().any(|own| own.problem.contains("is not in it")));
    }
}

#[test]
fn rows_longer_than_the_clip_are_counted_with_noise() {
    let device = Device::flex();
    // Each tenth is six off, where the clip is three.
    let row = |k: i32| if k % 10 == 0 { 6.0 * f64::from(k / 10 % 2 * 2 - 1) } else { f64::from(k % 7 - 3) / 2.0 };
    let silos = ["one", "two"].map(|name| (name.to_owned(), device.tensor((0..300).map(row).collect(), [300])));
    let settings = Settings { schedule: Schedule::Constant { rate: 0.05 }, ..Settings::default() };
    let options = FitOptions { settings, ..FitOptions::default() };
    for (schedule, rate) in
        [(SiloSchedule::Synchronous, 1.0), (SiloSchedule::Sequential(partita::inference::Order::Fixed), 0.5)]
    {
        let options_of_pvi = PviOptions { schedule, ..PviOptions::new(20) };
        let method = PrivateMethod::Pvi { options: options_of_pvi, rate, clip: 3.0 };
        let promise = PrivateOptions { method, rounds: 3, ..PrivateOptions::new(100.0, 1e-5) };
        let mut bits = |silo: usize| Box::new(SeededBits::new(silo as u64)) as Box<_>;
        let fit = simulate(&GaussianMean {}, &silos, &device, &options, &promise, &mut bits).unwrap();
        let found = fit.report.privacy.unwrap().clipped.unwrap();
        assert!((found.share - 0.1).abs() < 5.0 * found.deviation + 1e-3, "{found:?}");
    }
}

#[test]
fn a_run_of_visits_beyond_the_budget_spends_nothing_and_a_repeated_one_costs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let promise = |epsilon: f64| PrivateOptions {
        ledgers: Some((folder.path().to_owned(), epsilon)),
        ..PrivateOptions::new(1.0, 1e-5)
    };
    let text = || std::fs::read_to_string(folder.path().join("at-1.2.ledger")).unwrap();
    let refused = fitted(promise(0.9), 1).unwrap_err();
    assert!(refused.to_string().contains("is left"), "{refused}");
    assert!(!text().contains("\"spent\""));
    let first = fitted(promise(1.2), 1).unwrap();
    let ledger = text();
    assert_eq!(ledger.lines().filter(|line| line.contains("\"spent\"")).count(), 80);
    let again = fitted(promise(1.2), 1).unwrap();
    assert_eq!(first.report.sites[0].mean.to_bits(), again.report.sites[0].mean.to_bits());
    // Another study asks the same bytes, and is another release.
    assert!(fitted(PrivateOptions { study: "another".into(), ..promise(1.2) }, 1).is_err());
    assert_eq!(text(), ledger);
    assert!(fitted(promise(1.2), 2).is_err());
    assert_eq!(text(), ledger);
}
