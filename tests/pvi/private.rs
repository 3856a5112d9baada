//! Holds private visits to plain ones without noise, to answers without a number of the rows, and to budgets.

use fixtures::message::with_word;
use fixtures::private::{Recorded, around_one, labelled, spends_within_its_budget, tenths_beyond_the_clip};
use partita::Device;
use partita::inference::{
    EarlyStop, Error, Fitted, GradientDescent, Message, Monitor, PrivateParty, PrivateSteps, Pvi, PviOptions, PviSilo,
    Result, Schedule, Settings, Silo, SiloProgram, SiloSchedule,
};
use partita::models::LogisticRegression;
use partita::private::{PrivateMethod, PrivateOptions};

const SUMS: u64 = 12;

fn visits() -> PrivateSteps {
    PrivateSteps { epsilon: 1.0, delta: 1e-5, noise: 1.0, clip: 1.0, rate: 1.0, sums: SUMS, whole_silo: false }
}

fn settings() -> Settings {
    Settings { particles: 3, threads: Some(2), schedule: Schedule::Constant { rate: 0.05 }, ..Settings::default() }
}

fn silo(options: &PviOptions, settings: &Settings) -> PviSilo {
    let silo = Silo::new("north", 0, &LogisticRegression::new(2), &labelled(), &Device::flex(), settings).unwrap();
    PviSilo::new(silo, 0, options.clone()).unwrap()
}

fn private() -> PviOptions {
    PviOptions { private: Some(visits()), ..PviOptions::new(6) }
}

/// A private silo that tells its sums as they are.
fn private_silo(settings: &Settings) -> Result<PviSilo> {
    silo(&private(), settings).private(Box::new(Recorded::default()))
}

fn request() -> Message {
    let (model, names) = (LogisticRegression::new(2), ["north".to_owned()]);
    let mut pvi = Pvi::new(&model, &Device::flex(), &settings(), &names, vec![40], private()).unwrap();
    partita::inference::Algorithm::outgoing(&mut pvi).unwrap().remove(0).message
}

#[test]
fn without_noise_a_private_visit_is_a_plain_one_and_tells_no_likelihood() {
    let mut plain = silo(&PviOptions::new(6), &settings());
    let mut hidden = private_silo(&settings()).unwrap();
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
    let own = private_silo(&settings()).unwrap();
    assert!(party(own).answer(&request()).is_ok());
}

#[test]
fn a_private_silo_of_pvi_refuses_more_sums_than_were_promised_and_what_has_no_noise() {
    let mut own = private_silo(&settings()).unwrap();
    let mut again = request();
    own.answer(&again).unwrap();
    for (name, value) in [("step", 6), ("version", 2), ("settled", 1)] {
        again = with_word(&again, name, value);
    }
    for (_, share) in again.numbers.iter_mut().filter(|(name, _)| name == "share") {
        *share = 1.0;
    }
    own.answer(&again).unwrap();
    let refused = |own: &mut PviSilo, message: &Message| own.answer(message).unwrap_err().to_string();
    for (name, value) in [("version", 3), ("settled", 2)] {
        again = with_word(&again, name, value);
    }
    assert!(refused(&mut own, &again).contains("12 sums are given"), "{}", refused(&mut own, &again));
    let mut other = request();
    for kind in ["sfvi.estimate", "trust.values"] {
        other.kind = kind.into();
        assert!(refused(&mut own, &other).contains("answers visits alone"));
    }
    // Private options without a mechanism, and a mechanism without private options.
    assert!(refused(&mut silo(&private(), &settings()), &request()).contains("without a mechanism"));
    assert!(silo(&PviOptions::new(6), &settings()).private(Box::new(Recorded::default())).is_err());
    // Decisions by what has no noise.
    let adaptive = Settings { schedule: Schedule::Adaptive { initial: 0.1 }, ..settings() };
    assert!(private_silo(&adaptive).unwrap_err().to_string().contains("Adaptive"));
    let stop = Some(EarlyStop { monitor: Monitor::FreeEnergy, window: 2, patience: 1 });
    let solver = GradientDescent { stop, ..GradientDescent::default() };
    let stopping = PviOptions { solver: solver.into(), ..private() };
    assert!(stopping.check().unwrap_err().to_string().contains("without early stopping"));
}

/// A fit of six hundred numbers in two silos under a promise.
fn fitted(promise: PrivateOptions, seed: u64) -> Result<Fitted> {
    let settings = Settings { seed, schedule: Schedule::Constant { rate: 0.05 }, ..Settings::default() };
    let how = PviOptions { schedule: SiloSchedule::Synchronous, ..PviOptions::new(20) };
    let method = PrivateMethod::Pvi { options: how, rate: 0.2, clip: 2.0 };
    around_one(settings, &PrivateOptions { method, rounds: 4, ..promise })
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
    for (schedule, rate) in
        [(SiloSchedule::Synchronous, 1.0), (SiloSchedule::Sequential(partita::inference::Order::Fixed), 0.5)]
    {
        let options = PviOptions { schedule, ..PviOptions::new(20) };
        let method = PrivateMethod::Pvi { options, rate, clip: 3.0 };
        let settings = Settings { schedule: Schedule::Constant { rate: 0.05 }, ..Settings::default() };
        tenths_beyond_the_clip(settings, &PrivateOptions { method, rounds: 3, ..PrivateOptions::new(100.0, 1e-5) });
    }
}

#[test]
fn a_run_of_visits_beyond_the_budget_spends_nothing_and_a_repeated_one_costs_nothing() {
    spends_within_its_budget(80, fitted);
}
