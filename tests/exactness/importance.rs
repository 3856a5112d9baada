//! Holds the importance-weighted bound to a known evidence, its gradients to each other, and silos to pooled data.
#![allow(clippy::print_stdout, reason = "the numbers of the documentation are printed by the tests that hold them")]
#![allow(clippy::cast_precision_loss, reason = "counts of draws are small")]

mod reports;
mod silos;

use fixtures::{
    ConjugateGaussian, Parties, conjugate, conjugate_silos, exact_locals, groups, six_cities_data, six_cities_family,
    six_cities_model, split, structured,
};
use partita::burn::tensor::Tensor;
use partita::core::{Key, LogDensity, Noise, NoiseKind, Purpose};
use partita::inference::{
    Adam, Algorithm, AveragingSilo, BlockDraw, ElboTerm, Error, Exchange, Family, FullRankGaussian, ImportanceGradient,
    Message, Outcome, PointMass, RowGaussian, RowOptions, Sfvi, SfviAvg, Sgd, Silo, SiloProgram,
};
use partita::{
    AlgorithmChoice, Device, Estimator, FamilyPlan, FitOptions, Gaussian, RoundOptions, Schedule, Settings, SiteTable,
    fit,
};

pub(super) const GRADIENTS: [ImportanceGradient; 3] =
    [ImportanceGradient::Total, ImportanceGradient::StickingTheLanding, ImportanceGradient::DoublyReparameterised];

/// Rounding of sums of some hundred terms of size up to 100 in f64.
const ROUNDING: f64 = 1e-11;

/// A point of the structured family: global mean and log-scale; for each group mean, log-scale and slope.
#[derive(Clone)]
struct Point {
    global: Vec<f64>,
    rows: Vec<[f64; 3]>,
}

/// Three arrays over rows, as the family keeps them.
fn layout(rows: &[[f64; 3]]) -> Vec<f64> {
    (0..3).flat_map(|slot| rows.iter().map(move |row| row[slot])).collect()
}

/// The exact posterior of these groups.
fn exact(groups: &[Vec<f64>]) -> (Point, f64) {
    let exact = conjugate().posterior(groups);
    let locals = exact_locals(&exact, 0..groups.len()).remove(0);
    let rows = (0..groups.len()).map(|row| std::array::from_fn(|slot| locals[slot * groups.len() + row])).collect();
    (Point { global: vec![exact.mean, exact.sd.ln()], rows }, exact.log_evidence)
}

/// A deliberately wrong posterior: shifted and too wide, in globals and locals.
fn wrong(groups: &[Vec<f64>]) -> (Point, f64) {
    let (mut point, evidence) = exact(groups);
    point.global[0] += 0.3;
    point.global[1] += 0.5;
    for (row, sign) in point.rows.iter_mut().zip([1.0, -1.0].into_iter().cycle()) {
        *row = [row[0] + 0.1 * sign, row[1] + 0.2, row[2] - 0.2];
    }
    (point, evidence)
}

/// Steps of plain descent at rate 1, which moves each parameter by its gradient.
fn settings(estimator: Estimator, particles: usize) -> Settings {
    Settings {
        steps: 100,
        estimator,
        particles,
        family: structured(),
        optimiser: Sgd { momentum: 0.0 }.into(),
        schedule: Schedule::Constant { rate: 1.0 },
        ..Settings::default()
    }
}

/// The parties of a run over silos of these groups at a point.
fn parties(groups: &[Vec<f64>], silos: usize, point: &Point, settings: &Settings) -> Parties {
    let device = Device::flex();
    let data: Vec<Tensor<2>> =
        split(groups, silos).iter().map(|part| ConjugateGaussian::data(part, &device).unwrap()).collect();
    let mut parties = Parties::new(&conjugate(), &data, &device, settings);
    place(&mut parties, point);
    parties
}

fn place(parties: &mut Parties, point: &Point) {
    parties.algorithm.set_parameters(point.global.clone()).unwrap();
    let rows = split(&point.rows, parties.silos.len());
    for (silo, rows) in parties.silos.iter_mut().zip(rows) {
        silo.set_local_parameters(vec![layout(&rows)]).unwrap();
    }
}

/// One step, silo by silo.
fn step(parties: &mut Parties) -> f64 {
    let requests = parties.algorithm.outgoing().unwrap();
    let answers = parties.silos.iter_mut().zip(requests);
    let replies = answers.map(|(silo, request)| Outcome::Reply(silo.answer(&request.message).unwrap())).collect();
    parties.algorithm.incoming(replies).unwrap().elbo
}

/// The present point; estimates the ELBO first, which delivers the weights of the last step.
fn reached(parties: &mut Parties) -> Point {
    // Twice: weights delivered again change nothing.
    for _ in 0..2 {
        for (silo, request) in parties.silos.iter_mut().zip(parties.algorithm.elbo_requests(1, 0)) {
            silo.answer(&request.message).unwrap();
        }
    }
    let mut rows = Vec::new();
    for silo in &parties.silos {
        let locals = silo.local_parameters().remove(0);
        let count = locals.len() / 3;
        rows.extend((0..count).map(|row| std::array::from_fn(|slot| locals[slot * count + row])));
    }
    Point { global: parties.algorithm.posterior().parameters.to_vec(), rows }
}

fn flat(point: &Point) -> Vec<f64> {
    [point.global.clone(), layout(&point.rows)].concat()
}

fn largest_difference(found: &Point, expected: &Point) -> f64 {
    assert_eq!(found.rows.len(), expected.rows.len());
    fixtures::largest(flat(found).iter().zip(flat(expected)).map(|(a, b)| (a - b).abs()))
}

/// Sampled bounds and their gradients by the two global parameters, from one silo at a point.
fn sampled(groups: &[Vec<f64>], point: &Point, estimator: Estimator, particles: usize, count: usize) -> Sample {
    let (algorithm, mut exchange) = parties(groups, 1, point, &settings(estimator, particles)).in_process(1);
    let mut sample = Sample { bounds: Vec::new(), gradients: Vec::new() };
    let most = 64 / particles;
    for offset in 0..(count / most) as u64 {
        let outcomes = exchange.exchange(algorithm.elbo_requests(most, offset), algorithm.manifest(), None).unwrap();
        let elbo_samples = algorithm.elbo_samples(outcomes, most, offset).unwrap();
        sample.bounds.extend(elbo_samples.elbos);
        sample.gradients.extend(elbo_samples.gradients);
    }
    sample
}

struct Sample {
    bounds: Vec<f64>,
    gradients: Vec<Vec<f64>>,
}

/// Mean and standard deviation.
fn moments(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    (mean, (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0)).sqrt())
}

fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let (mean, deviation) = moments(values);
    (mean, deviation / (values.len() as f64).sqrt())
}

#[test]
fn bound_rises_with_draws_and_approaches_the_evidence() {
    let groups = groups(3, 2);
    let (point, evidence) = wrong(&groups);
    let estimator = Estimator::ImportanceWeighted { gradient: ImportanceGradient::DoublyReparameterised };
    let mut before: Option<Vec<f64>> = None;
    let mut gaps = Vec::new();
    for particles in [1, 4, 16, 64] {
        let bounds = sampled(&groups, &point, estimator, particles, 19_200 / particles).bounds;
        // The draws are the same ones, 64 a request: the mean bound of each request.
        let means: Vec<f64> = bounds.chunks(64 / particles).map(|own| moments(own).0).collect();
        let (mean, error) = mean_and_error(&means);
        println!("K = {particles}: bound - log evidence = {:.4} (standard error {error:.4})", mean - evidence);
        gaps.push((mean - evidence, error));
        if let Some(before) = before.replace(means.clone()) {
            let rises: Vec<f64> = means.iter().zip(&before).map(|(after, before)| after - before).collect();
            // The logarithm is concave: averages of more of the same draws are larger, draw by draw.
            assert!(rises.iter().all(|rise| *rise > 0.0));
            let (rise, error) = mean_and_error(&rises);
            assert!(rise > 5.0 * error, "{rise} of {error}");
        }
    }
    let ((first, _), (last, error)) = (gaps[0], gaps[3]);
    assert!(last < 5.0 * error && last > 0.05 * first - 5.0 * error, "{gaps:?}");
}

#[test]
fn bound_of_k_draws_has_the_gradient_that_total_and_doubly_reparameterised_estimate() {
    let groups = groups(3, 2);
    let (point, _) = wrong(&groups);
    for particles in [2, 8] {
        let of = |gradient| sampled(&groups, &point, Estimator::ImportanceWeighted { gradient }, particles, 6_400);
        let [total, stopped, doubly] = GRADIENTS.map(of);
        for parameter in 0..2 {
            // The draws are the same ones, so that the difference has less noise than either.
            let apart = |other: &Sample| {
                let pairs = total.gradients.iter().zip(&other.gradients);
                mean_and_error(&pairs.map(|(a, b)| b[parameter] - a[parameter]).collect::<Vec<f64>>())
            };
            let (difference, error) = apart(&doubly);
            assert!(difference.abs() < 5.0 * error, "K = {particles}: {difference} of {error}");
            let (bias, error) = apart(&stopped);
            println!("K = {particles}, parameter {parameter}: bias of sticking the landing {bias:.4} ({error:.4})");
        }
        assert_eq!(total.bounds, doubly.bounds);
    }
}

#[test]
fn signal_to_noise_falls_with_draws_for_the_total_gradient_and_rises_for_the_doubly_reparameterised() {
    let groups = groups(3, 2);
    let (point, _) = wrong(&groups);
    let counts = [1, 4, 16, 64];
    let mut table = Vec::new();
    for particles in counts {
        let of = |gradient| {
            sampled(&groups, &point, Estimator::ImportanceWeighted { gradient }, particles, 38_400 / particles)
                .gradients
        };
        let (total, doubly) = (of(ImportanceGradient::Total), of(ImportanceGradient::DoublyReparameterised));
        let row: [[f64; 2]; 2] = std::array::from_fn(|parameter| {
            let column = |gradients: &[Vec<f64>]| gradients.iter().map(|g| g[parameter]).collect::<Vec<f64>>();
            // Both have the same mean; that of the estimator with less noise is the signal of both.
            let (signal, noise) = moments(&column(&doubly));
            let (_, total_noise) = moments(&column(&total));
            [signal.abs() / total_noise, signal.abs() / noise]
        });
        println!(
            "K = {particles}: mean {:.4} {:.4}, log-scale {:.4} {:.4}",
            row[0][0], row[0][1], row[1][0], row[1][1]
        );
        table.push(row);
    }
    // From 4 to 64 draws: a factor of 1/4 for the total gradient, of 4 for the doubly reparameterised one. From one
    // draw to 4 the bound itself changes, and with it the signal.
    for parameter in 0..2 {
        let ratio = |which: usize| table[3][parameter][which] / table[1][parameter][which];
        assert!((0.15..0.35).contains(&ratio(0)) && ratio(1) > 2.5, "{table:?}");
        assert!(table[1][parameter][1] < table[2][parameter][1] && table[2][parameter][1] < table[3][parameter][1]);
    }
}

#[test]
fn one_draw_is_the_ordinary_bound_to_the_last_digits() {
    let groups = groups(6, 2);
    let (point, _) = wrong(&groups);
    for gradient in GRADIENTS {
        let ordinary =
            if gradient == ImportanceGradient::Total { Estimator::Total } else { Estimator::StickingTheLanding };
        let run = |estimator| {
            let settings = Settings {
                optimiser: Adam::default().into(),
                schedule: Schedule::Constant { rate: 0.01 },
                ..settings(estimator, 1)
            };
            let mut parties = parties(&groups, 2, &point, &settings);
            let bounds: Vec<f64> = (0..30).map(|_| step(&mut parties)).collect();
            (bounds, flat(&reached(&mut parties)))
        };
        assert_eq!(run(Estimator::ImportanceWeighted { gradient }), run(ordinary), "{gradient:?}");
    }
}

#[test]
fn one_draw_is_the_ordinary_bound_for_every_algorithm() {
    let (device, model) = (Device::flex(), conjugate());
    let groups = groups(6, 2);
    for (algorithm, silos) in [
        (AlgorithmChoice::Central, 1),
        (AlgorithmChoice::Sfvi, 3),
        (AlgorithmChoice::SfviAvg(RoundOptions::paper(10)), 2),
        (AlgorithmChoice::SfviAvg(RoundOptions { most: Some(2), ..RoundOptions::paper(10) }), 2),
    ] {
        let data = conjugate_silos(&groups, silos);
        for gradient in GRADIENTS {
            let ordinary =
                if gradient == ImportanceGradient::Total { Estimator::Total } else { Estimator::StickingTheLanding };
            let run = |estimator| {
                // Scales that depend on the globals: the entropy's gradient depends on the draw.
                let settings = Settings { steps: 40, estimator, family: six_cities_family(), ..Settings::default() };
                let options =
                    FitOptions { algorithm: algorithm.clone(), settings, elbo_draws: 70, ..FitOptions::default() };
                let mut fit = fit(&model, &data, &device, &options, None).unwrap();
                let locals: Vec<_> = fit.exchange.programs().iter().map(|silo| silo.local_moments().unwrap()).collect();
                (fit.posterior().parameters.to_vec(), locals, fit.report.elbo, fit.report.gradient_variance)
            };
            assert_eq!(run(Estimator::ImportanceWeighted { gradient }), run(ordinary), "{algorithm:?} {gradient:?}");
        }
    }
}

#[test]
fn doubly_reparameterised_gradient_is_zero_at_the_posterior_for_every_noise() {
    let groups = groups(6, 2);
    let (point, evidence) = exact(&groups);
    let estimator = Estimator::ImportanceWeighted { gradient: ImportanceGradient::DoublyReparameterised };
    let sample = sampled(&groups, &point, estimator, 8, 64);
    assert!(sample.bounds.iter().all(|bound| (bound - evidence).abs() < ROUNDING));
    assert!(sample.gradients.iter().flatten().all(|g| g.abs() < ROUNDING));
    // At rate 1 each parameter moves by its gradient.
    let mut parties = parties(&groups, 2, &point, &settings(estimator, 8));
    for _ in 0..20 {
        step(&mut parties);
    }
    let moved = largest_difference(&reached(&mut parties), &point);
    assert!(moved < 20.0 * ROUNDING, "{moved:e}");
}

/// Mean and standard deviation of each component of the gradient by all parameters over `steps` steps at the point of
/// the parties; plain descent at rate 1 moves them by their gradient.
fn gradient_moments(mut parties: Parties, steps: usize) -> Vec<(f64, f64)> {
    let state = |parties: &Parties| -> (Vec<f64>, Vec<Vec<Vec<f64>>>) {
        let global = parties.algorithm.posterior().parameters.to_vec();
        (global, parties.silos.iter().map(Silo::local_parameters).collect())
    };
    let all = |(global, locals): &(Vec<f64>, Vec<Vec<Vec<f64>>>)| [global.clone(), locals.concat().concat()].concat();
    let start = state(&parties);
    let mut gradients: Vec<Vec<f64>> = Vec::new();
    for _ in 0..steps {
        step(&mut parties);
        gradients.push(all(&state(&parties)).iter().zip(all(&start)).map(|(a, b)| a - b).collect());
        parties.algorithm.set_parameters(start.0.clone()).unwrap();
        for (silo, locals) in parties.silos.iter_mut().zip(&start.1) {
            silo.set_local_parameters(locals.clone()).unwrap();
        }
    }
    let column = |parameter: usize| gradients.iter().map(|g| g[parameter]).collect::<Vec<f64>>();
    (0..gradients[0].len()).map(|parameter| moments(&column(parameter))).collect()
}

/// The summed variance of the first `parameters` components, relative to another's.
fn variance_ratio(found: &[(f64, f64)], other: &[(f64, f64)], parameters: usize) -> f64 {
    let variance =
        |list: &[(f64, f64)]| list[..parameters].iter().map(|(_, deviation)| deviation * deviation).sum::<f64>();
    variance(found) / variance(other)
}

#[test]
fn dependent_noise_leaves_the_gradient_unbiased_and_makes_it_quieter() {
    let groups = groups(6, 2);
    let (start, _) = wrong(&groups);
    for estimator in [Estimator::Total, Estimator::StickingTheLanding] {
        let of =
            |noise| gradient_moments(parties(&groups, 2, &start, &Settings { noise, ..settings(estimator, 16) }), 400);
        let independent = of(NoiseKind::Independent);
        for (noise, most) in [(NoiseKind::Antithetic, 0.9), (NoiseKind::Sobol, 0.5)] {
            let found = of(noise);
            for ((mean, deviation), (other, other_deviation)) in found.iter().zip(&independent) {
                // Five standard errors over 400 steps; rounding where antithetic pairs cancel exactly.
                let error = deviation.hypot(*other_deviation) / 20.0;
                assert!((mean - other).abs() < 5.0 * error + ROUNDING, "{noise:?}: {mean} and {other} ({error})");
            }
            let ratio = variance_ratio(&found, &independent, found.len());
            println!("groups, {estimator:?}, {noise:?}: {ratio:.3} of the variance of independent noise");
            assert!(ratio < most, "{noise:?}: {ratio}");
        }
    }
}

#[test]
fn dependent_noise_makes_the_gradient_of_six_cities_quieter() {
    let device = Device::flex();
    let (model, data) = (six_cities_model(), six_cities_data(2, &device));
    let warm = Settings { family: six_cities_family(), ..Settings::default() };
    let mut fitted = Parties::new(&model, &data, &device, &warm);
    (0..500).for_each(|_| drop(step(&mut fitted).to_string()));
    for estimator in [Estimator::Total, Estimator::StickingTheLanding] {
        let of = |noise| {
            let settings = Settings { noise, family: six_cities_family(), ..settings(estimator, 16) };
            let mut parties = Parties::new(&model, &data, &device, &settings);
            parties.algorithm.set_parameters(fitted.algorithm.posterior().parameters.to_vec()).unwrap();
            for (silo, from) in parties.silos.iter_mut().zip(&fitted.silos) {
                silo.set_local_parameters(from.local_parameters()).unwrap();
            }
            gradient_moments(parties, 100)
        };
        let independent = of(NoiseKind::Independent);
        for noise in [NoiseKind::Antithetic, NoiseKind::Sobol] {
            let found = of(noise);
            // Full-rank globals: 5 means, 5 log-scales, 10 entries below the diagonal.
            let (by_global, by_all) =
                (variance_ratio(&found, &independent, 20), variance_ratio(&found, &independent, found.len()));
            println!("six cities, {estimator:?}, {noise:?}: {by_global:.3} by globals, {by_all:.3} by all parameters");
            assert!(by_global < 1.0, "{noise:?}: {by_global}");
        }
    }
}

#[test]
fn what_makes_no_sense_together_is_refused() {
    let weighted = |gradient| Estimator::ImportanceWeighted { gradient };
    let refused = |settings: Settings| match settings.check() {
        Err(Error::Setting { setting, .. }) => Some(setting),
        _ => None,
    };
    let doubly = weighted(ImportanceGradient::DoublyReparameterised);
    let base = |estimator| Settings { particles: 4, estimator, ..Settings::default() };
    assert_eq!(refused(base(doubly)), None);
    let minibatch = [("group".to_owned(), 2)].into_iter().collect();
    assert_eq!(refused(Settings { minibatch, ..base(doubly) }), Some("minibatch"));
    for noise in [NoiseKind::Antithetic, NoiseKind::Sobol] {
        assert_eq!(refused(Settings { noise, ..base(doubly) }), Some("noise"));
        assert_eq!(refused(Settings { noise, ..base(weighted(ImportanceGradient::Total)) }), None);
    }
    let odd = Settings { noise: NoiseKind::Antithetic, particles: 3, ..Settings::default() };
    assert_eq!(refused(odd), Some("particles"));
}
