//! Compares averages of posteriors with closed forms and POT, and SFVI-Avg with cases where it must be exact.

use fixtures::{
    ConjugateGaussian, conjugate, groups, numbers, six_cities_data, six_cities_family, six_cities_model, structured,
};
use partita::burn::tensor::Tensor;
use partita::core::{Key, Noise, Purpose};
use partita::inference::{
    Averaging, Barycentre, CovarianceMatrix, DiagonalGaussian, Error, Family, FullRankGaussian, LogPool,
    LowRankGaussian, ParameterMean, Plug,
};
use partita::{AlgorithmChoice, Device, Estimator, Fit, FitOptions, RoundOptions, Schedule, Settings, fit};

use super::baselines::close;

/// The fixed point is iterated to a relative change of 1e-12; the error left is of that order.
const FIXED_POINT: f64 = 1e-10;

#[test]
fn members_are_rebuilt_from_their_moments() {
    let diagonal = vec![0.5, -1.0, 0.3, -0.7];
    let family = DiagonalGaussian::new(2);
    close(
        &family.with_moments(&family.mean(&diagonal), &family.covariance_matrix(&diagonal)).unwrap(),
        &diagonal,
        1e-12,
    );
    let full = vec![0.5, -1.0, 2.0, 0.3, -0.7, 0.1, 0.4, -0.6, 0.9];
    let family = FullRankGaussian::new(3);
    close(&family.with_moments(&family.mean(&full), &family.covariance_matrix(&full)).unwrap(), &full, 1e-12);
    // Signs of the factor are free, and of two components so is more: covariances are compared. The second member has
    // 0.2 % of its variances outside the factor, the third a weak and uneven factor.
    for (log_deviations, factor) in [
        (vec![-1.0, -0.8, -1.2, -0.9], vec![0.9, 0.5, -0.4, 0.7]),
        (vec![0.5_f64.ln(); 2], vec![10.0, 10.0]),
        (vec![0.0; 3], vec![1.0, 0.1, 0.1]),
    ] {
        let family = LowRankGaussian::new(factor.len(), 1);
        let low = [vec![0.0; factor.len()], log_deviations, factor].concat();
        let rebuilt = family.with_moments(&family.mean(&low), &family.covariance_matrix(&low)).unwrap();
        close(&family.covariance(&rebuilt), &family.covariance(&low), 1e-6);
    }
}

#[test]
fn low_rank_members_in_wild_units_are_rebuilt_from_their_moments() {
    // Deviations of about a thousandth to a thousand.
    let (family, units): (_, [f64; 4]) = (LowRankGaussian::new(4, 1), [1e-3, 1.0, 1e3, 30.0]);
    let log_scales = [-1.0_f64, -0.8, -1.2, -0.9].into_iter().zip(units).map(|(log, unit)| log + unit.ln());
    let factor = [0.9_f64, 0.5, -0.4, 0.7].into_iter().zip(units).map(|(entry, unit)| entry * unit);
    let low: Vec<f64> = [0.0; 4].into_iter().chain(log_scales).chain(factor).collect();
    let rebuilt = family.with_moments(&family.mean(&low), &family.covariance_matrix(&low)).unwrap();
    let in_units = |own: &[f64]| -> Vec<f64> {
        let cells = family.covariance(own).into_iter().enumerate();
        cells.map(|(cell, value)| value / (units[cell / 4] * units[cell % 4])).collect()
    };
    close(&in_units(&rebuilt), &in_units(&low), 1e-9);
}

#[test]
fn independent_components_need_no_matrix_and_deviations_are_those_of_the_covariance() {
    let sds = CovarianceMatrix::Diagonal(vec![0.2, 3.0, 1e-3]);
    let correlated = [vec![0.0; 3], vec![-1.0, 0.4, 0.2], vec![0.9, -0.5, 0.4]].concat();
    let [low, full]: [&dyn Family; 2] = [&LowRankGaussian::new(3, 1), &FullRankGaussian::new(3)];
    for family in [low, full] {
        let member = family.with_moments(&[1.0, -2.0, 0.5], &sds).unwrap();
        close(&family.mean(&member), &[1.0, -2.0, 0.5], 1e-12);
        close(&family.covariance(&member), &sds.dense(), 1e-12);
        close(&family.deviations(&correlated), &family.covariance_matrix(&correlated).deviations(), 1e-12);
    }
}

#[test]
fn barycentre_of_diagonal_members_averages_standard_deviations() {
    let family = DiagonalGaussian::new(2);
    let members = [vec![0.0, 2.0, 1.0_f64.ln(), 4.0_f64.ln()], vec![2.0, 0.0, 3.0_f64.ln(), 2.0_f64.ln()]];
    let average = Barycentre.average(&family, &members, &[0.75, 0.25]).unwrap();
    close(&average, &[0.5, 1.5, 1.5_f64.ln(), 3.5_f64.ln()], 1e-14);
}

#[test]
fn barycentre_in_one_dimension_and_of_commuting_covariances_has_its_closed_form() {
    let family = FullRankGaussian::new(1);
    let average = Barycentre.average(&family, &[vec![0.0, 0.0], vec![4.0, 3.0_f64.ln()]], &[0.5, 0.5]).unwrap();
    close(&average, &[2.0, 2.0_f64.ln()], FIXED_POINT);
    // Members that share eigenvectors: square roots of eigenvalues average.
    let (c, s) = (0.6, 0.8);
    let family = FullRankGaussian::new(2);
    let member = |a: f64, b: f64| {
        let covariance = vec![c * c * a + s * s * b, c * s * (a - b), c * s * (a - b), s * s * a + c * c * b];
        family.with_moments(&[0.0, 0.0], &CovarianceMatrix::Full(covariance)).unwrap()
    };
    let average = Barycentre.average(&family, &[member(1.0, 9.0), member(4.0, 0.25)], &[0.5, 0.5]).unwrap();
    close(&family.covariance(&average), &family.covariance(&member(2.25, 1.75 * 1.75)), FIXED_POINT);
}

/// The product of square matrices, row-major.
fn product(a: &[f64], b: &[f64], size: usize) -> Vec<f64> {
    let entry = |at: usize| (0..size).map(|k| a[at / size * size + k] * b[k * size + at % size]).sum();
    (0..size * size).map(entry).collect()
}

#[test]
fn barycentre_of_badly_conditioned_members_is_the_midpoint_of_their_optimal_map() {
    // B = TAT for a symmetric positive definite T, which is the optimal map then: halfway is (1 + T)/2 A (1 + T)/2.
    let (size, mut normal) = (5, Noise::new(3).stream(Key::new(Purpose::Check, 0)));
    for _ in 0..20 {
        let mut symmetric = |scales: &dyn Fn(usize) -> f64| {
            let mut root = vec![0.0; size * size];
            normal.normal(&mut root);
            let wide: Vec<f64> = (0..size * size).map(|at| root[at] * scales(at % size)).collect();
            let transposed: Vec<f64> = (0..size * size).map(|at| wide[at % size * size + at / size]).collect();
            product(&wide, &transposed, size)
        };
        let (a, mut map) = (symmetric(&|k| 10_f64.powf(-0.75 * k as f64)), symmetric(&|_| 1.0));
        (0..size).for_each(|k| map[k * size + k] += 0.1);
        let b = product(&product(&map, &a, size), &map, size);
        let half: Vec<f64> = (0..size * size).map(|at| 0.5 * (map[at] + f64::from(at / size == at % size))).collect();
        let expected = product(&product(&half, &a, size), &half, size);
        let family = FullRankGaussian::new(size);
        let member = |own: &[f64]| {
            let both = |at: usize| 0.5 * (own[at] + own[at % size * size + at / size]);
            let symmetric = (0..size * size).map(both).collect();
            family.with_moments(&vec![0.0; size], &CovarianceMatrix::Full(symmetric)).unwrap()
        };
        let average = Barycentre.average(&family, &[member(&a), member(&b)], &[0.5, 0.5]).unwrap();
        let largest = expected.iter().fold(0.0_f64, |largest, own| largest.max(own.abs()));
        close(&family.covariance(&average), &expected, 1e-5 * largest);
    }
}

#[test]
fn rounds_whose_rows_are_averages_have_to_scale_density_and_entropy_together() {
    let settings = Settings { estimator: Estimator::LocallyEnhanced { inner: 2 }, ..Settings::default() };
    let silos: Vec<(String, Tensor<2>)> = ["a", "b"]
        .map(|name| (name.to_owned(), ConjugateGaussian::data(&groups(3, 2), &Device::flex()).unwrap()))
        .into();
    let fitted = |scale_entropy| {
        let algorithm = AlgorithmChoice::SfviAvg(RoundOptions { scale_entropy, ..RoundOptions::paper(5) });
        let settings = Settings { steps: 10, ..settings.clone() };
        fit(&conjugate(), &silos, &Device::flex(), &FitOptions { algorithm, settings, ..FitOptions::default() }, None)
    };
    let refused = fitted(false).unwrap_err();
    assert!(matches!(refused, Error::Setting { setting: "scale_entropy", .. }), "{refused}");
    fitted(true).unwrap();
}

#[test]
fn barycentre_equals_the_golden_number_of_pot() {
    let golden: serde_json::Value = serde_json::from_str(include_str!("../golden/barycentre.json")).unwrap();
    let family = FullRankGaussian::new(3);
    let members: Vec<Vec<f64>> = (0..3)
        .map(|j| {
            family
                .with_moments(
                    &numbers(&golden["means"][j]),
                    &CovarianceMatrix::Full(numbers(&golden["covariances"][j])),
                )
                .unwrap()
        })
        .collect();
    let average = Barycentre.average(&family, &members, &numbers(&golden["weights"])).unwrap();
    close(&family.mean(&average), &numbers(&golden["mean"]), FIXED_POINT);
    // POT stops at a change of 1e-14; both are fixed points of the same map.
    close(&family.covariance(&average), &numbers(&golden["covariance"]), 1e-9);
}

#[test]
fn logarithmic_pool_weighs_by_precision() {
    let family = DiagonalGaussian::new(1);
    let members = [vec![0.0, 0.0], vec![3.0, 0.5_f64.ln()]];
    // Precisions 1 and 4: the pool has precision 2.5 and mean (0.5·0·1 + 0.5·3·4)/2.5.
    let expected = [2.4, -0.5 * 2.5_f64.ln()];
    close(&LogPool.average(&family, &members, &[0.5, 0.5]).unwrap(), &expected, 1e-14);
    let family = FullRankGaussian::new(1);
    close(&LogPool.average(&family, &members, &[0.5, 0.5]).unwrap(), &expected, 1e-12);
}

#[test]
fn a_covariance_that_is_not_positive_definite_is_refused() {
    let refused = FullRankGaussian::new(2).with_moments(&[0.0, 0.0], &CovarianceMatrix::Full(vec![1.0, 2.0, 2.0, 1.0]));
    assert!(matches!(refused, Err(Error::Improper { found: -3.0, .. })), "{refused:?}");
    let point = DiagonalGaussian::new(1);
    assert!(matches!(LogPool.average(&point, &[vec![0.0, f64::NEG_INFINITY]], &[1.0]), Err(Error::Average { .. })));
}

/// Two silos that hold the same groups, so that one, scaled, represents both exactly.
fn twins(algorithm: AlgorithmChoice, steps: u64, trust_draws: Option<usize>) -> (Fit, fixtures::ConjugatePosterior) {
    let (device, half) = (Device::flex(), groups(6, 3));
    let data = ConjugateGaussian::data(&half, &device).unwrap();
    let silos: Vec<(String, Tensor<2>)> = vec![("a".into(), data.clone()), ("b".into(), data)];
    let settings = Settings {
        steps,
        family: structured(),
        schedule: Schedule::Cosine { initial: 0.05, last: 0.0 },
        ..Settings::default()
    };
    let options = FitOptions { algorithm, settings, trust_draws, ..FitOptions::default() };
    let exact = conjugate().posterior(&[half.clone(), half].concat());
    (fit(&conjugate(), &silos, &device, &options, None).unwrap(), exact)
}

#[test]
fn sfvi_avg_over_equal_silos_recovers_the_exact_posterior_by_every_average() {
    for averaging in [Plug::<dyn Averaging>::from(Barycentre), ParameterMean.into(), LogPool.into()] {
        for keep_optimiser in [false, true] {
            let how = RoundOptions {
                averaging: averaging.clone(),
                keep_optimiser,
                scale_entropy: true,
                ..RoundOptions::paper(300)
            };
            let (fit, exact) = twins(AlgorithmChoice::SfviAvg(how.clone()), 9_000, Some(0));
            let [mean, log_sd] = fit.posterior().parameters else { panic!("two parameters of one global") };
            assert!((mean - exact.mean).abs() < 0.02 * exact.sd, "{how:?}: mean {mean}, exact {}", exact.mean);
            assert!((log_sd.exp() / exact.sd - 1.0).abs() < 0.02, "{how:?}: sd {}, exact {}", log_sd.exp(), exact.sd);
            assert!((fit.report.elbo - exact.log_evidence).abs() < 0.01, "{how:?}: bound {}", fit.report.elbo);
            assert_eq!((fit.report.gradient_steps, fit.record.trace.len()), (9_000, 30));
        }
    }
}

#[test]
fn scaling_the_log_density_alone_as_printed_makes_local_posteriors_too_narrow() {
    let sd_of_first_group = |scale_entropy| {
        let how = RoundOptions { scale_entropy, ..RoundOptions::paper(300) };
        let (mut fit, exact) = twins(AlgorithmChoice::SfviAvg(how), 9_000, Some(0));
        let marginal = fit.exchange.programs()[0].local_moments().unwrap()[0].1[0];
        // What the globals add to it is taken off.
        let through_globals = exact.slope * fit.posterior().parameters[1].exp();
        (marginal.powi(2) - through_globals.powi(2)).sqrt() / exact.group_sd
    };
    // The tempered posterior has N/N_j = 2 times the precision.
    assert!((sd_of_first_group(false) - 0.5_f64.sqrt()).abs() < 0.02);
    assert!((sd_of_first_group(true) - 1.0).abs() < 0.02);
}

#[test]
fn warm_start_goes_on_as_plain_sfvi_to_the_exact_posterior() {
    let how = RoundOptions { most: Some(3), ..RoundOptions::paper(500) };
    let (fit, exact) = twins(AlgorithmChoice::SfviAvg(how), 6_000, None);
    let [mean, log_sd] = fit.posterior().parameters else { panic!("two parameters of one global") };
    assert!((mean - exact.mean).abs() < 0.01 * exact.sd && (log_sd.exp() / exact.sd - 1.0).abs() < 0.01);
    // Three rounds count as 1,500 steps, 4,500 exchanges of SFVI follow, then the round of trust and the reported bound: 16
    // requests.
    assert_eq!(fit.record.counters.rounds, 3 + 4_500 + 1 + 16);
}

#[test]
fn sfvi_avg_resumes_to_the_same_bits_and_needs_no_thread() {
    let device = Device::flex();
    let silos: Vec<_> = ["a", "b"].iter().map(|name| (*name).to_owned()).zip(six_cities_data(2, &device)).collect();
    let how = RoundOptions { keep_optimiser: true, ..RoundOptions::paper(20) };
    let run = |steps, threads, checkpoint: Option<&std::path::Path>, resume| {
        let settings = Settings { steps, family: six_cities_family(), ..Settings::default() };
        let options = FitOptions {
            algorithm: AlgorithmChoice::SfviAvg(how.clone()),
            // The rate must not depend on where a run is cut.
            settings: Settings { schedule: Schedule::Constant { rate: 0.01 }, ..settings },
            threads,
            checkpoint: checkpoint.map(|folder| (folder.to_owned(), 20)),
            resume,
            elbo_draws: 2,
            summary_draws: 2,
            ..FitOptions::default()
        };
        fit(&six_cities_model(), &silos, &device, &options, None).unwrap().posterior().parameters.to_vec()
    };
    let folder = tempfile::tempdir().unwrap();
    let whole = run(100, 1, None, false);
    assert_eq!(run(100, 2, None, false), whole);
    run(60, 1, Some(folder.path()), false);
    assert_eq!(run(100, 1, Some(folder.path()), true), whole);
}
