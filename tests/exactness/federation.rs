//! Holds the split over silos to be exact: federated gradient = pooled gradient, for any threads and order.

use fixtures::{Parties, six_cities_data, six_cities_family, six_cities_model, split, step};
use partita::core::{Key, Latents, LogDensity, Noise, NoiseKind, Purpose};
use partita::inference::{
    Algorithm, BlockDraw, ElboTerm, Family, FullRankGaussian, ImportanceGradient, InProcess, RowGaussian, RowOptions,
    SiloProgram,
};
use partita::models::{MixedLogistic, RepeatedBinary, six_cities};
use partita::{AlgorithmChoice, Device, Estimator, FitOptions, Precision, Settings, SiteTable, fit};

use super::importance::GRADIENTS;

const CHILDREN: usize = 537;

/// A point of the families and its noise, independent of the split of the children.
struct Point {
    global: Vec<f64>,
    global_noise: Vec<f64>,
    /// For each child: mean, log-scale, five slopes of the mean, five of the log-scale.
    rows: Vec<[f64; 12]>,
    noise: Vec<f64>,
}

fn point() -> Point {
    let mut stream = Noise::new(5).stream(Key::new(Purpose::Check, 0));
    let mut small =
        |count: usize, scale: f64| -> Vec<f64> { (0..count).map(|_| scale * stream.standard_normal()).collect() };
    let mut global = small(FullRankGaussian::new(5).parameter_len(), 0.3);
    global[5..10].iter_mut().for_each(|log_scale| *log_scale -= 1.0);
    let global_noise = small(5, 1.0);
    let rows = (0..CHILDREN).map(|_| small(12, 0.2).try_into().unwrap()).collect();
    let noise = small(CHILDREN, 1.0);
    Point { global, global_noise, rows, noise }
}

fn family(rows: usize) -> RowGaussian {
    let on = vec![true];
    let options = RowOptions { given_globals: on.clone(), scale_given_globals: on, ..RowOptions::independent(1) };
    RowGaussian::new(rows, 1, 5, options)
}

/// The rows' parameters in the family's layout: one array after another.
fn layout(rows: &[[f64; 12]]) -> Vec<f64> {
    (0..12).flat_map(|slot| rows.iter().map(move |row| row[slot])).collect()
}

/// A silo's ELBO term and the gradient by its rows' parameters, row by row.
fn share(
    model: &MixedLogistic,
    data: &RepeatedBinary,
    device: &Device,
    point: &Point,
    rows: std::ops::Range<usize>,
    estimator: Estimator,
) -> (ElboTerm, Vec<Vec<f64>>) {
    let table = SiteTable::of(model, device, data).unwrap();
    let global = FullRankGaussian::new(5).draw(&point.global, &point.global_noise);
    let family = family(rows.len());
    let parameters = layout(&point.rows[rows.clone()]);
    let noise = &point.noise[rows.clone()];
    let block = BlockDraw { family: &family, parameters: &parameters, noise, weight: 1.0, outer: None };
    // The plate of visits has no latents.
    let visits = RowGaussian::new(data.visits().rows(), 0, 5, RowOptions::independent(0));
    let visits = BlockDraw { family: &visits, parameters: &[], noise: &[], weight: 1.0, outer: None };
    let mut out = vec![vec![0.0; parameters.len()], Vec::new()];
    let density = LogDensity::new(model, device, &table);
    let share = estimator.local_elbo_term(&density, data, &global, &[block, visits], &mut out).unwrap();
    let count = rows.len();
    let by_row = (0..count).map(|row| (0..12).map(|slot| out[0][slot * count + row]).collect()).collect();
    (share, by_row)
}

/// The largest difference, relative to the largest of the expected numbers; NaN where either side has one.
pub(super) fn discrepancy(found: &[f64], expected: &[f64]) -> f64 {
    let scale = expected.iter().fold(1e-300_f64, |largest, value| largest.max(value.abs()));
    fixtures::largest(found.iter().zip(expected).map(|(a, b)| (a - b).abs() / scale))
}

/// The largest relative discrepancy between J silos and pooled data: by globals, by locals, of the bound.
fn federated_against_pooled(silos: usize, precision: Precision, estimator: Estimator) -> f64 {
    let device = Device::flex().with_precision(precision);
    let (model, point, children) = (six_cities_model(), point(), six_cities());
    let pooled_data = RepeatedBinary::six_cities(&children, &device).unwrap();
    let (pooled, pooled_rows) = share(&model, &pooled_data, &device, &point, 0..CHILDREN, estimator);
    let mut sum = ElboTerm { grad_mean: vec![0.0; 5], grad_offset: vec![0.0; 5], ..ElboTerm::default() };
    let mut rows = Vec::new();
    let mut start = 0;
    for part in split(&children, silos) {
        let data = RepeatedBinary::six_cities(&part, &device).unwrap();
        let (own, own_rows) = share(&model, &data, &device, &point, start..start + part.len(), estimator);
        start += part.len();
        sum.elbo += own.elbo;
        sum.grad_mean.iter_mut().zip(&own.grad_mean).for_each(|(slot, a)| *slot += a);
        sum.grad_offset.iter_mut().zip(&own.grad_offset).for_each(|(slot, b)| *slot += b);
        rows.extend(own_rows);
    }
    fixtures::largest([
        discrepancy(&sum.grad_mean, &pooled.grad_mean),
        discrepancy(&sum.grad_offset, &pooled.grad_offset),
        discrepancy(&rows.concat(), &pooled_rows.concat()),
        discrepancy(&[sum.elbo], &[pooled.elbo]),
    ])
}

#[test]
fn what_is_no_number_on_either_side_is_no_agreement() {
    use fixtures::{far, largest};
    for (found, expected) in
        [([f64::NAN, 1.0], [1.0, 1.0]), ([1.0, 1.0], [1.0, f64::NAN]), ([f64::NAN; 2], [f64::NAN; 2])]
    {
        assert!(discrepancy(&found, &expected).is_nan());
    }
    assert!(far(&[f64::NAN, 1.0], &[1.0, 1.0]) > f64::MAX && far(&[1.0, 1.0], &[f64::NAN, 1.0]) > f64::MAX);
    assert!(far(&[f64::INFINITY, 1.0], &[f64::NEG_INFINITY, 1.0]).is_nan());
    // Before all silos have answered there is no bound on either side.
    assert!(far(&[f64::NAN, 1.0], &[f64::NAN, 1.0]).abs() < f64::MIN_POSITIVE);
    assert!(largest([2.0, f64::NAN, 1.0]).is_nan() && largest([1.0, 2.0, 0.5]).to_bits() == 2.0_f64.to_bits());
}

#[test]
fn federated_gradient_equals_pooled_gradient_to_1e_12_in_f64() {
    for estimator in [Estimator::StickingTheLanding, Estimator::Total, Estimator::ClosedFormEntropy] {
        for silos in [1, 2, 7] {
            let found = federated_against_pooled(silos, Precision::Double, estimator);
            assert!(found < 1e-12, "J = {silos}, {estimator:?}: {found:e}");
        }
    }
}

#[test]
fn federated_gradient_equals_pooled_gradient_to_1e_5_in_f32() {
    for silos in [1, 2, 7] {
        let found = federated_against_pooled(silos, Precision::Single, Estimator::StickingTheLanding);
        assert!(found < 1e-5, "J = {silos}: {found:e}");
    }
}

#[test]
fn shares_of_one_machine_equal_its_joint_density() {
    let (device, model, point) = (Device::flex(), six_cities_model(), point());
    let data = RepeatedBinary::six_cities(&six_cities(), &device).unwrap();
    let table = SiteTable::of(&model, &device, &data).unwrap();
    let locals = vec![point.noise.clone(), Vec::new()];
    let latents = Latents { globals: &point.global_noise, locals: &locals };
    let density = LogDensity::new(&model, &device, &table);
    let (prior, own, joint) = (
        density.global(latents.globals).unwrap(),
        density.local(latents, &data).unwrap(),
        density.joint(latents, &data).unwrap(),
    );
    let sum: Vec<f64> = prior.globals.iter().zip(&own.globals).map(|(a, b)| a + b).collect();
    assert!(discrepancy(&sum, &joint.globals) < 1e-12);
    assert!(discrepancy(&own.locals[0], &joint.locals[0]) < 1e-12);
    assert!(discrepancy(&[prior.value + own.value], &[joint.value]) < 1e-12);
}

/// Which mean of the globals the density of the rows' posterior is centred at, while the posterior of the globals moves.
#[derive(Debug, Clone, Copy)]
enum Centre {
    Held,
    Moved,
}

/// The bound log p(y, Z_L | Z_G) - log q(Z_L | Z_G) of all children at one draw, written out for each row, where the
/// globals have the parameters `global`.
fn bound_at_a_draw(
    density: &LogDensity<'_, MixedLogistic>,
    data: &RepeatedBinary,
    global: &[f64],
    centre: Centre,
) -> f64 {
    let point = point();
    let latent = FullRankGaussian::new(5).draw(global, &point.global_noise).latent;
    let from = |centre: &[f64]| -> Vec<f64> { latent.iter().zip(centre).map(|(z, mean)| z - mean).collect() };
    let drawn_at = from(&global[..5]);
    let judged_at = match centre {
        Centre::Held => from(&point.global[..5]),
        Centre::Moved => drawn_at.clone(),
    };
    let conditional = |row: &[f64; 12], offset: &[f64]| {
        let along = |slopes: &[f64]| slopes.iter().zip(offset).map(|(slope, own)| slope * own).sum::<f64>();
        (row[0] + along(&row[2..7]), row[1] + along(&row[7..]))
    };
    let (mut log_q, mut rows) = (0.0, Vec::new());
    for (row, noise) in point.rows.iter().zip(&point.noise) {
        let (mean, log_sd) = conditional(row, &drawn_at);
        let z = mean + log_sd.exp() * noise;
        let (mean, log_sd) = conditional(row, &judged_at);
        log_q -= 0.5 * ((z - mean) / log_sd.exp()).powi(2) + log_sd + 0.5 * (2.0 * std::f64::consts::PI).ln();
        rows.push(z);
    }
    let latents = Latents { globals: &latent, locals: &[rows, Vec::new()] };
    density.local(latents, data).unwrap().value - log_q
}

#[test]
fn the_vectors_of_a_silo_pull_back_to_the_derivative_of_its_bound_by_the_global_parameters() {
    // The paper's g_j holds the parameters of q in log q while Z_G and Z_L move; the total gradient moves them too.
    const STEP: f64 = 1e-5;
    let (device, model, point) = (Device::flex(), six_cities_model(), point());
    let data = RepeatedBinary::six_cities(&six_cities(), &device).unwrap();
    let table = SiteTable::of(&model, &device, &data).unwrap();
    let density = LogDensity::new(&model, &device, &table);
    let family = FullRankGaussian::new(5);
    for (estimator, centre) in [(Estimator::StickingTheLanding, Centre::Held), (Estimator::Total, Centre::Moved)] {
        let (share, _) = share(&model, &data, &device, &point, 0..CHILDREN, estimator);
        let bound = bound_at_a_draw(&density, &data, &point.global, centre);
        assert!(discrepancy(&[share.elbo], &[bound]) < 1e-12, "{estimator:?}: {} and {bound}", share.elbo);
        let mut found = vec![0.0; family.parameter_len()];
        family.vjp(&point.global, &point.global_noise, &share.grad_mean, &share.grad_offset, &mut found);
        let at = |parameter: usize, step: f64| {
            let mut moved = point.global.clone();
            moved[parameter] += step;
            bound_at_a_draw(&density, &data, &moved, centre)
        };
        let slope = |parameter| (at(parameter, STEP) - at(parameter, -STEP)) / (2.0 * STEP);
        let expected: Vec<f64> = (0..family.parameter_len()).map(slope).collect();
        // A bound of 1e3 rounded to 1e-16 and divided by the step, and the square of the step.
        assert!(discrepancy(&found, &expected) < 1e-7, "{estimator:?}: {found:?} and {expected:?}");
    }
}

/// The bits of the global posterior after some steps.
fn bits_after(settings: &Settings, silos: usize, threads: usize, order: fn(usize) -> Vec<usize>) -> Vec<u64> {
    let device = Device::flex();
    let settings = Settings { steps: 200, threads: Some(threads), family: six_cities_family(), ..settings.clone() };
    let parties = Parties::new(&six_cities_model(), &six_cities_data(silos, &device), &device, &settings);
    let boxed = parties.silos.into_iter().map(|silo| Box::new(silo) as Box<dyn SiloProgram>).collect();
    let mut algorithm = parties.algorithm;
    let mut exchange = InProcess::new(boxed, threads).unwrap().with_order(order);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    pool.install(|| {
        (0..50).for_each(|_| drop(std::hint::black_box(step(&mut algorithm, &mut exchange).elbo.to_bits().to_string())))
    });
    algorithm.posterior().parameters.iter().map(|value| value.to_bits()).collect()
}

fn forwards(count: usize) -> Vec<usize> {
    (0..count).collect()
}

fn backwards(count: usize) -> Vec<usize> {
    (0..count).rev().collect()
}

#[test]
fn one_and_two_threads_give_the_same_bits() {
    let with = |particles| Settings { particles, ..Settings::default() };
    let estimator = Estimator::ImportanceWeighted { gradient: ImportanceGradient::Total };
    let weighted = |noise| (2, Settings { estimator, noise, ..with(6) });
    let plain = [(1, with(4)), (2, with(1)), (7, with(3))];
    let noises = [NoiseKind::Independent, NoiseKind::Antithetic, NoiseKind::Sobol];
    for (silos, settings) in plain.into_iter().chain(noises.map(weighted)) {
        let bits = |threads| bits_after(&settings, silos, threads, forwards);
        assert_eq!(bits(1), bits(2), "J = {silos}, {settings:?}");
    }
}

#[test]
fn order_of_replies_changes_no_bit() {
    let bits = |order| bits_after(&Settings::default(), 7, 1, order);
    assert_eq!(bits(forwards), bits(backwards));
}

#[test]
fn a_silo_sends_the_pulled_back_gradient_where_that_is_smaller_than_vectors() {
    // Three particles of (a, b) are 30 numbers, their vjp is 20: the silo sends the smaller one.
    let device = Device::flex();
    let settings = |particles| Settings { steps: 100, particles, family: six_cities_family(), ..Settings::default() };
    let reply_of = |particles| {
        let mut parties =
            Parties::new(&six_cities_model(), &six_cities_data(2, &device), &device, &settings(particles));
        let request = parties.algorithm.outgoing().unwrap().remove(0);
        parties.silos[0].answer(&request.message).unwrap()
    };
    assert!(reply_of(1).has("grad_mean") && reply_of(2).has("grad_offset") && !reply_of(1).has("gradient"));
    assert!(reply_of(3).has("gradient") && !reply_of(3).has("grad_mean"));
    assert_eq!(reply_of(3).get_floats("gradient").unwrap().len(), 20);
}

#[test]
fn pooled_fit_takes_the_same_steps_as_one_silo_of_sfvi() {
    let device = Device::flex();
    let silos = [("all".to_owned(), six_cities_data(1, &device).remove(0))];
    let with = |steps, particles, estimator| Settings {
        steps,
        particles,
        estimator,
        family: six_cities_family(),
        ..Settings::default()
    };
    // With three particles the silo sends the vjp, with fewer the vectors: both must equal the joint pass.
    let plain = [1, 2, 3].map(|particles| (with(100, particles, Estimator::StickingTheLanding), 1e-6));
    let weighted = GRADIENTS.map(|gradient| (with(30, 3, Estimator::ImportanceWeighted { gradient }), 1e-6));
    let enhanced = (with(20, 1, Estimator::LocallyEnhanced { inner: 3 }), 1e-8);
    for (settings, of_bounds) in plain.into_iter().chain(weighted).chain([enhanced]) {
        let run = |algorithm| {
            let settings = settings.clone();
            let options = FitOptions { algorithm, settings, elbo_draws: 30, summary_draws: 2, ..FitOptions::default() };
            let mut fit = fit(&six_cities_model(), &silos, &device, &options, None).unwrap();
            let locals = fit.exchange.programs()[0].local_moments().unwrap().remove(0).0;
            ([fit.posterior().parameters.to_vec(), locals].concat(), fit.report.elbo)
        };
        let (central, central_elbo) = run(AlgorithmChoice::Central);
        let (federated, federated_elbo) = run(AlgorithmChoice::Sfvi);
        // 100 steps of Adam amplify rounding of 1e-16 slightly.
        let apart = fixtures::largest(central.iter().zip(&federated).map(|(a, b)| (a - b).abs()));
        assert!(apart < 1e-9, "{settings:?}: {apart:e}");
        assert!((federated_elbo - central_elbo).abs() < of_bounds, "{settings:?}");
    }
}
