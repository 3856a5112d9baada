//! Sends requests after a fit to silos that never answer: bound, evaluation and prediction end by the deadline.

use std::time::Duration;

use fixtures::interrupted::Interrupted;
use fixtures::vertical_run::BinaryWorld;
use fixtures::{ConjugateGaussian, conjugate, groups, split, structured};
use partita::inference::{
    Arrival, Counters, Error, Exchange, Field, InProcess, Manifest, Message, MissingSilo, Outcome, Request, Result,
    SiloProgram, Threads, VerticalOptions, evaluate, fit_parties, parties,
};
use partita::vertical::{self, PredictedModel, Predictive};
use partita::{AlgorithmChoice, Device, FitOptions, PviOptions, RoundOptions, Settings};

/// The time limit of a wait that would not end.
const FOR_EVER: &str = "it would be waited for without end";

/// Silos of which the second does not answer requests of these kinds.
fn mute(silos: InProcess, to: &'static [&'static str]) -> impl Exchange {
    Interrupted::new(silos, move |_, request: &Request, deadline: Option<Duration>| {
        let is_mute = request.silo == 1 && to.contains(&request.message.kind.as_str());
        is_mute.then(|| match deadline {
            Some(_) => Outcome::Timeout,
            None => Outcome::Lost { reason: FOR_EVER.into() },
        })
    })
}

fn options(algorithm: AlgorithmChoice) -> FitOptions {
    let settings = Settings { steps: 4, family: structured(), ..Settings::default() };
    let deadline = Some(Duration::from_millis(1));
    FitOptions { algorithm, settings, elbo_draws: 2, summary_draws: 0, deadline, ..FitOptions::default() }
}

/// A fit of two silos with the second silent at its end: the bound that is reported.
fn bound(algorithm: AlgorithmChoice) -> Result<f64> {
    let (device, how) = (Device::flex(), options(algorithm));
    let data = split(&groups(6, 3), 2);
    let silos: Vec<_> = ["a", "b"].into_iter().zip(&data).collect();
    let silos: Vec<(String, _)> = silos
        .into_iter()
        .map(|(name, own)| (name.to_owned(), ConjugateGaussian::data(own, &device).unwrap()))
        .collect();
    let (mut algorithm, silos) = parties(&conjugate(), &silos, &device, &how)?;
    let mut exchange = mute(silos, &["sfvi.estimate_elbo"]);
    let report = fit_parties(&conjugate(), &device, &how, &mut *algorithm, &mut exchange, None)?.report;
    Ok(report.elbo)
}

#[track_caller]
fn assert_late<T: std::fmt::Debug>(found: Result<T>, name: &str) {
    let found = found.unwrap_err();
    assert!(
        matches!(&found, Error::SiloLost { silo, reason, .. } if silo == name && reason.contains("deadline")),
        "{found}"
    );
}

#[test]
fn a_silo_that_never_answers_for_the_bound_ends_the_fit_by_the_deadline() {
    let rounds = AlgorithmChoice::SfviAvg(RoundOptions::paper(2));
    for algorithm in [AlgorithmChoice::Sfvi, rounds, AlgorithmChoice::Pvi(PviOptions::new(2))] {
        assert_late(bound(algorithm), "b");
    }
    // If the run may continue without it, the fit is kept, without a bound.
    let how = PviOptions { missing_silo: MissingSilo::GoOn, ..PviOptions::new(2) };
    assert!(bound(AlgorithmChoice::Pvi(how)).unwrap().is_nan());
}

#[test]
fn a_silo_that_never_judges_a_posterior_ends_the_evaluation_by_the_deadline() {
    let (device, how) = (Device::flex(), options(AlgorithmChoice::Sfvi));
    let data = |name: &str| (name.to_owned(), ConjugateGaussian::data(&groups(3, 2), &device).unwrap());
    let (algorithm, silos) = parties(&conjugate(), &[data("a"), data("b")], &device, &how).unwrap();
    // Neither has rows to evaluate: the first says so, and the second does not answer.
    let mut exchange = mute(silos, &["evaluate.rows"]);
    let ask = |silo: usize, exchange: &mut dyn Exchange| {
        let mut one = Only { silo, all: exchange };
        evaluate(&*algorithm, &mut one, 2, 1, how.deadline, &mut Counters::default())
    };
    assert!(matches!(ask(0, &mut exchange), Err(Error::InSilo { .. })));
    assert_late(ask(1, &mut exchange), "b");
}

/// One silo of an exchange.
struct Only<'a> {
    silo: usize,
    all: &'a mut dyn Exchange,
}

impl Exchange for Only<'_> {
    fn silos(&self) -> &[String] {
        &self.all.silos()[self.silo..=self.silo]
    }

    fn send(&mut self, mut requests: Vec<Request>, deadline: Option<Duration>) -> Result<()> {
        requests.iter_mut().for_each(|request| request.silo = self.silo);
        self.all.send(requests, deadline)
    }

    fn receive(&mut self, manifest: &Manifest, deadline: Option<Duration>) -> Result<Option<Arrival>> {
        Ok(self.all.receive(manifest, deadline)?.map(|arrival| Arrival { silo: 0, ..arrival }))
    }
}

#[test]
fn a_party_that_never_answers_for_the_bound_or_a_prediction_ends_either_by_the_deadline() {
    let (device, world) = (Device::flex(), BinaryWorld::new(12, 2, 2));
    let mut how = options(AlgorithmChoice::Vertical(VerticalOptions::augmented(1.0)));
    how.settings.family = Settings::default().family;
    let fitted = |to: &'static [&'static str]| {
        let program = |(party, index): (&partita::vertical::Party, u32)| {
            let mut own = vertical::party_program(party, index, None, &device, &how).unwrap();
            own.hold_out(party.clone());
            Box::new(own) as Box<dyn SiloProgram>
        };
        let programs: Vec<_> = world.parties.iter().zip(0..).map(program).collect();
        let mut exchange = mute(InProcess::new(programs, 1).unwrap(), to);
        let names = exchange.silos().to_vec();
        let mut algorithm = vertical::coordinator(&world.labels, &names, &device, &how).unwrap();
        let found = vertical::fit_parties(&world.labels, &device, &how, &mut *algorithm, &mut exchange, None);
        let ask = Predictive { draws: 2, model: PredictedModel::Augmented, seed: 1, deadline: how.deadline };
        let counters = &mut Counters::default();
        let predicted = vertical::predict(&world.labels, &device, &*algorithm, &mut exchange, ask, counters);
        (found.map(|fitted| fitted.report.elbo), predicted)
    };
    let (found, predicted) = fitted(&["vertical.estimate_elbo"]);
    assert_late(found, "p1");
    assert!(predicted.is_ok(), "{predicted:?}");
    let (found, predicted) = fitted(&["vertical.predict"]);
    assert!(found.unwrap().is_finite());
    assert_late(predicted, "p1");
}

/// Takes its time, and says what it was asked.
struct Slow;

impl SiloProgram for Slow {
    fn name(&self) -> &'static str {
        "slow"
    }

    fn answer(&mut self, request: &Message) -> Result<Message> {
        std::thread::sleep(Duration::from_millis(100));
        Ok(Message::new("slow.reply").word("number", request.get_word("number")?))
    }
}

#[test]
fn an_answer_that_is_late_is_a_timeout_and_is_not_taken_for_that_to_the_next_request() {
    let mut threads = Threads::start(vec![Box::new(Slow)]).unwrap();
    let field =
        Field { name: "number", meaning: "what was asked", limit: 1, release: partita::inference::Release::Public };
    let manifest = Manifest { fields: vec![field] };
    let ask = |number| vec![Request { silo: 0, message: Message::new("slow").word("number", number) }];
    let late = threads.exchange(ask(1), &manifest, Some(Duration::from_millis(1))).unwrap();
    assert!(matches!(late[..], [Outcome::Timeout]), "{late:?}");
    let next = threads.exchange(ask(2), &manifest, None).unwrap().remove(0).reply("slow", 0).unwrap();
    assert_eq!(next.get_word("number").unwrap(), 2);
    // Of one that is patient nothing comes before its own deadline.
    threads.send(ask(3), None).unwrap();
    assert!(threads.receive(&manifest, Some(Duration::from_millis(1))).unwrap().is_none());
    assert!(matches!(threads.receive(&manifest, None), Ok(Some(Arrival { silo: 0, outcome: Outcome::Reply(_) }))));
    assert!(matches!(threads.receive(&manifest, None), Err(Error::Exchange { .. })));
}
