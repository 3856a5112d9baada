//! Claims that silos evaluate a posterior by the predictive density of their rows, and reveal nothing else of them.

use std::f64::consts::PI;

use fixtures::{ConjugateGaussian, conjugate, groups, structured};
use partita::inference::{
    Algorithm, AlgorithmChoice, Counters, Error, InProcess, Message, RunOptions, Silent, SiloProgram, coordinator,
    evaluate, evaluating_silo, parties, run, silo_program,
};
use partita::{Device, FitOptions, Settings};

const SEED: u64 = 1;

fn options() -> FitOptions {
    let settings = Settings { steps: 40, family: structured(), seed: SEED, ..Settings::default() };
    FitOptions { algorithm: AlgorithmChoice::Sfvi, settings, ..FitOptions::default() }
}

/// Groups to fit at two silos, and other pairs of numbers at each to evaluate.
fn world() -> [Vec<Vec<Vec<f64>>>; 2] {
    let all = groups(22, 2);
    [vec![all[..5].to_vec(), all[5..12].to_vec()], vec![all[12..18].to_vec(), all[18..].to_vec()]]
}

fn fitted() -> (Box<dyn Algorithm>, InProcess) {
    let (device, model, how, [seen, unseen]) = (Device::flex(), conjugate(), options(), world());
    let names = ["a", "b"].map(str::to_owned).to_vec();
    let (mut programs, mut rows) = (Vec::new(), Vec::new());
    for (index, (own, held_out)) in (0..).zip(seen.iter().zip(&unseen)) {
        let data = |groups: &[Vec<f64>]| ConjugateGaussian::data(groups, &device).unwrap();
        let (program, count) = silo_program(&model, &names, index, &data(own), &device, &how).unwrap();
        let silo = evaluating_silo(program, index, &model, &data(held_out), &device, &how).unwrap();
        programs.push(Box::new(silo) as Box<dyn SiloProgram>);
        rows.push(count);
    }
    let mut algorithm = coordinator(&model, &names, &rows, &device, &how).unwrap();
    let mut exchange = InProcess::new(programs, 1).unwrap();
    let run_options = RunOptions { steps: how.settings.steps, ..RunOptions::default() };
    run(&mut *algorithm, &mut exchange, &run_options, &mut Silent).unwrap();
    (algorithm, exchange)
}

fn normal(x: f64, mean: f64, variance: f64) -> f64 {
    (-0.5 * (x - mean).powi(2) / variance).exp() / (2.0 * PI * variance).sqrt()
}

/// The predictive density of a pair under mu ~ N(mean, variance), and the standard deviation of its estimate by one
/// draw.
///
/// Two numbers around b have the density of their mean, around b with half the variance, times a constant in b.
fn exact(pair: &[f64], mean: f64, variance: f64) -> (f64, f64) {
    let (tau, sigma) = (0.8_f64, 0.6_f64);
    let (centre, half, width) = (0.5 * (pair[0] + pair[1]), 0.5 * sigma.powi(2), variance + tau.powi(2));
    let rest =
        normal(pair[0], centre, sigma.powi(2)) * normal(pair[1], centre, sigma.powi(2)) * (2.0 * PI * half).sqrt();
    let density = rest * normal(centre, mean, width + half);
    let second = rest.powi(2) / (4.0 * PI * half).sqrt() * normal(centre, mean, width + 0.5 * half);
    (density, (second - density.powi(2)).sqrt())
}

#[test]
fn the_density_of_rows_never_seen_is_that_of_the_posterior_predictive() {
    const DRAWS: u64 = 4_000;
    let (algorithm, mut exchange) = fitted();
    let posterior = algorithm.posterior();
    let mean = posterior.family.mean(posterior.parameters)[0];
    let variance = posterior.family.covariance(posterior.parameters)[0];
    let mut counters = Counters::default();
    let found = evaluate(&*algorithm, &mut exchange, DRAWS, SEED, None, &mut counters).unwrap();
    let [_, unseen] = world();
    for (silo, groups) in found.silos.iter().zip(&unseen) {
        let (mut expected, mut error) = (0.0, 0.0);
        for pair in groups {
            let (density, sd) = exact(pair, mean, variance);
            expected += density.ln();
            // The rows share draws of mu: their errors are added without cancellation.
            error += sd / density / (DRAWS as f64).sqrt();
        }
        assert_eq!(silo.rows, groups.len() as u64);
        assert!((silo.log_density - expected).abs() < 4.0 * error, "{} {expected} {error}", silo.log_density);
    }
    let sum: f64 = found.silos.iter().map(|silo| silo.log_density).sum();
    assert_eq!((found.mean(), found.draws), (sum / 10.0, DRAWS));
    // One request and one answer a silo.
    assert_eq!((counters.rounds, counters.messages), (1, 4));
}

#[test]
fn an_evaluation_changes_nothing_and_comes_out_the_same_again() {
    let (algorithm, mut exchange) = fitted();
    let mut ask = || evaluate(&*algorithm, &mut exchange, 20, SEED, None, &mut Counters::default()).unwrap();
    assert_eq!(ask(), ask());
}

/// A silo that judges any posterior so.
struct Judging {
    log_density: f64,
    rows: u64,
}

impl SiloProgram for Judging {
    fn name(&self) -> &'static str {
        "b"
    }

    fn answer(&mut self, _: &Message) -> partita::inference::Result<Message> {
        Ok(Message::new("evaluate.answer").number("log_density", self.log_density).word("rows", self.rows))
    }
}

#[test]
fn a_log_density_of_no_rows_is_a_malformed_answer_of_a_silo_with_a_name() {
    let (algorithm, _) = fitted();
    let ask = |log_density, rows| {
        let mut exchange = InProcess::new(vec![Box::new(Judging { log_density, rows })], 1).unwrap();
        evaluate(&*algorithm, &mut exchange, 10, SEED, None, &mut Counters::default())
    };
    let found = ask(-3.0, 0).unwrap_err();
    let Error::InSilo { silo, source, .. } = &found else { panic!("{found:?}") };
    assert!(silo == "b" && matches!(**source, Error::Message { .. }), "{found}");
    // No rows have the density of an empty product.
    assert_eq!(ask(0.0, 0).unwrap().silos[0].rows, 0);
    assert!((ask(-3.0, 2).unwrap().mean() + 1.5).abs() < 1e-15);
}

#[test]
fn silos_without_held_out_rows_and_no_draws_are_errors_with_a_name() {
    let (device, how) = (Device::flex(), options());
    let data = ConjugateGaussian::data(&world()[0][0], &device).unwrap();
    let (algorithm, mut exchange) = parties(&conjugate(), &[("a".to_owned(), data)], &device, &how).unwrap();
    let found = evaluate(&*algorithm, &mut exchange, 10, SEED, None, &mut Counters::default()).unwrap_err();
    assert!(
        matches!(&found, Error::InSilo { silo, source, .. }
        if silo == "a" && matches!(**source, Error::Message { .. })),
        "{found}"
    );
    let found = evaluate(&*algorithm, &mut exchange, 0, SEED, None, &mut Counters::default()).unwrap_err();
    assert!(matches!(found, Error::Setting { setting: "draws", .. }), "{found}");
}
