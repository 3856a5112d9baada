//! Holds the importance-weighted bound to a known evidence, its gradients to each other, and silos to pooled data.
#![allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]
#![allow(clippy::print_stdout, reason = "the numbers of the documentation are printed by the tests that hold them")]
#![allow(clippy::cast_precision_loss, reason = "counts of draws are small")]

use fixtures::{
    ConjugateGaussian, Parties, conjugate, exact_locals, groups, six_cities_data, six_cities_family, six_cities_model,
    split, structured,
};
use partita::burn::tensor::Tensor;
use partita::core::{Key, LogDensity, Noise, NoiseKind, Purpose};
use partita::inference::ImportanceGradient;
use partita::inference::{
    Adam, Algorithm, AveragingSilo, BlockDraw, ElboTerm, Error, Exchange, Family, FullRankGaussian, Message, Outcome,
    RowGaussian, RowOptions, SfviAvg, Sgd, Silo, SiloProgram,
};
use partita::{
    AlgorithmChoice, Device, Estimator, FitOptions, Model, RoundOptions, Schedule, Settings, SiteTable, fit,
};

const GRADIENTS: [ImportanceGradient; 3] =
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
fn parties(groups: &[Vec<f64>], silos: usize, point: &Point, settings: &Settings) -> Parties<ConjugateGaussian> {
    let device = Device::flex();
    let data: Vec<Tensor<2>> =
        split(groups, silos).iter().map(|part| ConjugateGaussian::data(part, &device).unwrap()).collect();
    let mut parties = Parties::new(&conjugate(), &data, &device, settings);
    place(&mut parties, point);
    parties
}

fn place(parties: &mut Parties<ConjugateGaussian>, point: &Point) {
    parties.algorithm.set_parameters(point.global.clone()).unwrap();
    let rows = split(&point.rows, parties.silos.len());
    for (silo, rows) in parties.silos.iter_mut().zip(rows) {
        silo.set_local_parameters(vec![layout(&rows)]).unwrap();
    }
}

/// One step, silo by silo.
fn step<M: Model + 'static>(parties: &mut Parties<M>) -> f64 {
    let requests = parties.algorithm.outgoing().unwrap();
    let answers = parties.silos.iter_mut().zip(requests);
    let replies = answers.map(|(silo, request)| Outcome::Reply(silo.answer(&request.message).unwrap())).collect();
    parties.algorithm.incoming(replies).unwrap().elbo
}

/// The present point; estimates the ELBO first, which delivers the weights of the last step.
fn reached(parties: &mut Parties<ConjugateGaussian>) -> Point {
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
    flat(found).iter().zip(flat(expected)).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
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
        let data: Vec<(String, Tensor<2>)> = split(&groups, silos)
            .iter()
            .zip(["a", "b", "c"])
            .map(|(part, name)| (name.to_owned(), ConjugateGaussian::data(part, &device).unwrap()))
            .collect();
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

/// The source of the noise of the globals, and the weighting of a silo in its local steps.
#[derive(Clone, Copy)]
struct Part {
    global_key: Key,
    first_silo: u32,
    weight: f64,
    entropy_weight: f64,
}

/// One step at rate 1 in one process, written from the formulas: groups of `sizes` share the noise of a silo each.
fn by_hand(
    groups: &[Vec<f64>],
    sizes: &[usize],
    point: &Point,
    part: Part,
    (gradient, particles): (ImportanceGradient, u32),
) -> (f64, Point) {
    let (device, model, noise) = (Device::flex(), conjugate(), Noise::new(1));
    let data = ConjugateGaussian::data(groups, &device).unwrap();
    let table = SiteTable::of(&model, &device, &data).unwrap();
    let global_family = FullRankGaussian::new(1);
    let options = RowOptions { given_globals: vec![true], ..RowOptions::independent(1) };
    let rows = RowGaussian::new(groups.len(), 1, 1, options);
    let parameters = layout(&point.rows);
    let inner = if gradient == ImportanceGradient::Total { Estimator::Total } else { Estimator::StickingTheLanding };
    let mut draws: Vec<(f64, Vec<f64>, Vec<f64>)> = Vec::new();
    for particle in 0..particles {
        let mut own = vec![0.0];
        noise.stream(part.global_key.particle(particle)).normal(&mut own);
        let global = global_family.draw(&point.global, &own);
        let mut by_row = Vec::new();
        for (size, silo) in sizes.iter().zip(part.first_silo..) {
            let mut values = vec![0.0; *size];
            let key = Key::new(Purpose::Fit, part.global_key.step).silo(silo).particle(particle);
            noise.stream(key).normal(&mut values);
            by_row.extend(values);
        }
        let density = LogDensity::new(&model, &device, &table).weight(part.weight);
        let weight = part.entropy_weight;
        let block = BlockDraw { family: &rows, parameters: &parameters, noise: &by_row, weight, outer: None };
        let mut by_local = vec![vec![0.0; parameters.len()]];
        let share = inner.local_elbo_term(&density, &data, &global, &[block], &mut by_local).unwrap();
        let prior = LogDensity::new(&model, &device, &table).global(&global.latent).unwrap();
        let own_elbo_term: ElboTerm = inner.global_elbo_term(prior, &global_family, &point.global, &global);
        let sum = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a + b).collect::<Vec<f64>>();
        let mut by_global = vec![0.0; 2];
        let (location, deviation) =
            (sum(&own_elbo_term.grad_mean, &share.grad_mean), sum(&own_elbo_term.grad_offset, &share.grad_offset));
        global_family.vjp(&point.global, &own, &location, &deviation, &mut by_global);
        if inner == Estimator::Total {
            global_family.add_entropy_gradient(&point.global, &mut by_global);
        }
        draws.push((own_elbo_term.elbo + share.elbo, by_global, by_local.remove(0)));
    }
    let largest = draws.iter().map(|draw| draw.0).fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = draws.iter().map(|draw| (draw.0 - largest).exp()).sum();
    let (mut global, mut locals) = (point.global.clone(), parameters);
    for (bound, by_global, by_local) in &draws {
        let weight = (bound - largest).exp() / total;
        let factor = if gradient == ImportanceGradient::DoublyReparameterised { weight * weight } else { weight };
        global.iter_mut().zip(by_global).for_each(|(slot, g)| *slot += factor * g);
        locals.iter_mut().zip(by_local).for_each(|(slot, g)| *slot += factor * g);
    }
    let count = groups.len();
    let rows = (0..count).map(|row| std::array::from_fn(|slot| locals[slot * count + row])).collect();
    (largest + (total / f64::from(particles)).ln(), Point { global, rows })
}

#[test]
fn federated_steps_equal_pooled_ones_to_1e_12_local_parameters_too() {
    let groups = groups(7, 2);
    let (start, _) = wrong(&groups);
    for gradient in GRADIENTS {
        for silos in [1, 2, 3] {
            let sizes: Vec<usize> = split(&groups, silos).iter().map(Vec::len).collect();
            let mut parties = parties(&groups, silos, &start, &settings(Estimator::ImportanceWeighted { gradient }, 5));
            let mut point = start.clone();
            for number in 0..3 {
                let bound = step(&mut parties);
                let part = Part {
                    global_key: Key::new(Purpose::Fit, number),
                    first_silo: 0,
                    weight: 1.0,
                    entropy_weight: 1.0,
                };
                let (expected, next) = by_hand(&groups, &sizes, &point, part, (gradient, 5));
                assert!((bound - expected).abs() < 1e-12 * expected.abs(), "{bound} against {expected}");
                // Each step begins at the same point, so that plain descent at rate 1 cannot amplify rounding.
                let found = largest_difference(&reached(&mut parties), &next);
                let size = flat(&next).iter().zip(flat(&point)).map(|(a, b)| (a - b).abs()).fold(1.0, f64::max);
                assert!(found < 1e-12 * size, "{gradient:?}, J = {silos}, step {number}: {found:e}");
                point.rows.iter_mut().for_each(|row| row[0] += 0.01);
                place(&mut parties, &point);
            }
        }
    }
}

#[test]
fn a_local_step_of_averaging_weighs_the_scaled_bound() {
    let groups = groups(6, 2);
    let (start, _) = wrong(&groups);
    let (device, model) = (Device::flex(), conjugate());
    for gradient in GRADIENTS {
        for scale_entropy in [false, true] {
            let settings = settings(Estimator::ImportanceWeighted { gradient }, 4);
            let mut parties = parties(&groups, 2, &start, &settings);
            let rounds = RoundOptions { scale_entropy, ..RoundOptions::paper(1) };
            let names = ["silo-0".to_owned(), "silo-1".to_owned()];
            let mut coordinator = SfviAvg::new(&model, &device, &settings, &names, vec![3, 3], rounds).unwrap();
            let mut request = coordinator.outgoing().unwrap().remove(1).message;
            // The same request with the start as its globals.
            request.records.retain(|record| record.name != "global");
            let request = request.floats("global", &start.global);
            let mut silo = AveragingSilo::new(parties.silos.remove(1), 1);
            let reply = silo.answer(&request).unwrap();
            let part = Part {
                global_key: Key::new(Purpose::Fit, 0).silo(1).block(u32::MAX),
                first_silo: 1,
                weight: 2.0,
                entropy_weight: if scale_entropy { 2.0 } else { 1.0 },
            };
            let own = Point { global: start.global.clone(), rows: start.rows[3..].to_vec() };
            let (bound, next) = by_hand(&groups[3..], &[3], &own, part, (gradient, 4));
            assert!((reply.get_floats("elbo").unwrap()[0] - bound).abs() < ROUNDING);
            let found = reply.get_floats("global").unwrap();
            assert!(found.iter().zip(&next.global).all(|(a, b)| (a - b).abs() < ROUNDING), "{found:?}");
            let (means, scales) = silo.local_moments().unwrap().remove(0);
            for ((mean, scale), row) in means.iter().zip(scales).zip(&next.rows) {
                // Over the globals that the request brought.
                let expected = row[1].exp().hypot(row[2] * start.global[1].exp());
                assert!((mean - row[0]).abs() < ROUNDING && (scale / expected - 1.0).abs() < ROUNDING);
            }
        }
    }
}

#[test]
fn pooled_fit_takes_the_same_steps_as_one_silo() {
    let device = Device::flex();
    let silos = [("all".to_owned(), six_cities_data(1, &device).remove(0))];
    for gradient in GRADIENTS {
        let run = |algorithm| {
            let estimator = Estimator::ImportanceWeighted { gradient };
            let settings =
                Settings { steps: 30, particles: 3, estimator, family: six_cities_family(), ..Settings::default() };
            let options = FitOptions { algorithm, settings, elbo_draws: 30, summary_draws: 2, ..FitOptions::default() };
            let mut fit = fit(&six_cities_model(), &silos, &device, &options, None).unwrap();
            let locals = fit.exchange.programs()[0].local_moments().unwrap().remove(0).0;
            ([fit.posterior().parameters.to_vec(), locals].concat(), fit.report.elbo)
        };
        let (central, central_bound) = run(AlgorithmChoice::Central);
        let (federated, federated_bound) = run(AlgorithmChoice::Sfvi);
        // Adam amplifies rounding of 1e-16 a little.
        assert!(central.iter().zip(&federated).all(|(a, b)| (a - b).abs() < 1e-9), "{gradient:?}");
        assert!((central_bound - federated_bound).abs() < 1e-6);
    }
}

#[test]
fn a_resumed_run_ends_with_the_same_bits_though_the_last_step_waited() {
    let groups = groups(5, 2);
    let (start, _) = wrong(&groups);
    let estimator = Estimator::ImportanceWeighted { gradient: ImportanceGradient::DoublyReparameterised };
    let settings = Settings {
        optimiser: Adam::default().into(),
        schedule: Schedule::Cosine { initial: 0.05, last: 0.0 },
        ..settings(estimator, 6)
    };
    let bits = |parties: &mut Parties<ConjugateGaussian>| -> Vec<u64> {
        flat(&reached(parties)).iter().map(|value| value.to_bits()).collect()
    };
    let mut whole = parties(&groups, 2, &start, &settings);
    let folder = tempfile::tempdir().unwrap();
    let asked = |verb: &str| Message::new(verb).setting("folder", &folder.path().to_string_lossy());
    (0..3).for_each(|_| drop(step(&mut whole).to_string()));
    let state = whole.algorithm.save();
    for silo in &mut whole.silos {
        silo.answer(&asked("silo.save")).unwrap();
    }
    // Killed here; new parties, with other parameters, resume from the files.
    let mut resumed = parties(&groups, 2, &exact(&groups).0, &settings);
    step(&mut resumed);
    resumed.algorithm.load(&state).unwrap();
    for silo in &mut resumed.silos {
        silo.answer(&asked("silo.restore")).unwrap();
    }
    for run in [&mut whole, &mut resumed] {
        (0..3).for_each(|_| drop(step(run).to_string()));
    }
    assert_eq!(bits(&mut whole), bits(&mut resumed));
}

#[test]
fn weights_of_another_step_are_refused() {
    let groups = groups(4, 2);
    let (start, _) = wrong(&groups);
    let estimator = Estimator::ImportanceWeighted { gradient: ImportanceGradient::Total };
    let mut parties = parties(&groups, 1, &start, &settings(estimator, 3));
    let first = parties.algorithm.outgoing().unwrap().remove(0).message;
    parties.silos[0].answer(&first).unwrap();
    // The coordinator asks again, without the weights of the pending step.
    let refused = parties.silos[0].answer(&first).unwrap_err();
    assert!(matches!(&refused, Error::Message { problem, .. } if problem.contains("weights")), "{refused}");
}

#[test]
fn threads_change_no_bit_whatever_the_noise() {
    let device = Device::flex();
    for noise in [NoiseKind::Independent, NoiseKind::Antithetic, NoiseKind::Sobol] {
        let bits = |threads| {
            let estimator = Estimator::ImportanceWeighted { gradient: ImportanceGradient::Total };
            let family = six_cities_family();
            let settings =
                Settings { estimator, particles: 6, noise, threads: Some(threads), family, ..Settings::default() };
            let parties = Parties::new(&six_cities_model(), &six_cities_data(2, &device), &device, &settings);
            let (mut algorithm, mut exchange) = parties.in_process(threads);
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| (0..5).for_each(|_| drop(fixtures::step(&mut algorithm, &mut exchange).elbo.to_string())));
            algorithm.posterior().parameters.iter().map(|value| value.to_bits()).collect::<Vec<u64>>()
        };
        assert_eq!(bits(1), bits(2), "{noise:?}");
    }
}

/// Mean and standard deviation of each component of the gradient by all parameters over `steps` steps at the point of
/// the parties; plain descent at rate 1 moves them by their gradient.
fn gradient_moments<M: Model + 'static>(mut parties: Parties<M>, steps: usize) -> Vec<(f64, f64)> {
    let state = |parties: &Parties<M>| -> (Vec<f64>, Vec<Vec<Vec<f64>>>) {
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
