//! Fits conjugate models, where the method is exact: means, deviations, evidence and local posteriors in closed form.

use fixtures::{ConjugateGaussian, ConjugateSettings};
use partita::Device;
use partita::core::{Key, Noise, Purpose};
use partita::models::{LinearRegression, MeasuredRows};

use super::{fitted, fitted_with_four_draws, moments};

const SETTINGS: ConjugateSettings = ConjugateSettings { prior_mean: 0.5, prior_sd: 3.0, group_sd: 0.8, noise_sd: 0.4 };

fn groups() -> Vec<Vec<f64>> {
    (0..12).map(|group| (0..3).map(|t| 1.7 + f64::from(7 * group + 5 * t).sin()).collect()).collect()
}

#[test]
fn a_conjugate_hierarchy_is_exact_after_three_rounds_for_any_silos() {
    let (model, device, groups) = (ConjugateGaussian::new(SETTINGS), Device::flex(), groups());
    let exact = model.posterior(&groups);
    let mut pooled: Option<[f64; 2]> = None;
    for count in [1, 3, 6] {
        let silos: Vec<_> = groups
            .chunks(groups.len() / count)
            .enumerate()
            .map(|(index, part)| (format!("silo-{index}"), ConjugateGaussian::data(part, &device).unwrap()))
            .collect();
        let mut fit = fitted(&model, &silos);
        assert!(fit.record.counters.rounds <= 3, "{count} silos: {} rounds", fit.record.counters.rounds);
        let (means, sds) = moments(&fit);
        assert!((means[0] - exact.mean).abs() < 1e-9, "{count} silos: mean {} {}", means[0], exact.mean);
        assert!((sds[0] / exact.sd - 1.0).abs() < 1e-9, "{count} silos: sd {} {}", sds[0], exact.sd);
        let [mean, sd] = *pooled.get_or_insert([means[0], sds[0]]);
        assert!((means[0] - mean).abs() < 1e-12 * sd.max(1.0), "{count} silos: mean {}, in one {mean}", means[0]);
        assert!((sds[0] / sd - 1.0).abs() < 1e-12, "{count} silos: sd {}, in one {sd}", sds[0]);
        // Every sampled bound is the evidence: the posterior is in the family.
        assert!((fit.report.elbo - exact.log_evidence).abs() < 1e-9, "{} {}", fit.report.elbo, exact.log_evidence);
        assert!(fit.report.elbo_se < 1e-9);
        // Local posteriors: the conditional, averaged over the globals.
        let spread = (exact.group_sd.powi(2) + (exact.slope * exact.sd).powi(2)).sqrt();
        let mut found = Vec::new();
        for program in fit.exchange.programs() {
            let moments = program.local_moments().unwrap();
            assert!(moments[0].1.iter().all(|sd| (sd / spread - 1.0).abs() < 1e-8), "{:?} {spread}", moments[0].1);
            found.extend(moments[0].0.clone());
        }
        assert!(found.iter().zip(&exact.group_means).all(|(a, b)| (a - b).abs() < 1e-8));
    }
}

#[test]
fn rows_in_parts_are_as_exact_as_rows_together() {
    let (model, device) = (ConjugateGaussian::new(SETTINGS), Device::flex());
    // In an order that rows of a part must not follow: 16,385 rows are two parts.
    let groups: Vec<Vec<f64>> = (0..16_385)
        .map(|group| (0..2).map(|t| 1.7 + f64::from(group) * 1e-4 + f64::from(7 * group + 5 * t).sin()).collect())
        .collect();
    let exact = model.posterior(&groups);
    let mut fit =
        fitted_with_four_draws(&model, &[("all".to_owned(), ConjugateGaussian::data(&groups, &device).unwrap())]);
    let (means, sds) = moments(&fit);
    assert!((means[0] - exact.mean).abs() < 1e-9, "{} {}", means[0], exact.mean);
    assert!((sds[0] / exact.sd - 1.0).abs() < 1e-8, "{} {}", sds[0], exact.sd);
    assert!((fit.report.elbo / exact.log_evidence - 1.0).abs() < 1e-12, "{} {}", fit.report.elbo, exact.log_evidence);
    let found = fit.exchange.programs()[0].local_moments().unwrap();
    assert!(found[0].0.iter().zip(&exact.group_means).all(|(a, b)| (a - b).abs() < 1e-8));
}

#[test]
fn a_linear_regression_is_exact_after_three_rounds_for_any_silos() {
    const COLUMNS: usize = 3;
    let mut stream = Noise::new(31).stream(Key::new(Purpose::Check, 0));
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for _ in 0..120 {
        let row: Vec<f64> = (0..COLUMNS).map(|_| stream.standard_normal()).collect();
        y.push(0.7 - row[0] + 0.4 * row[1] + 0.6 * stream.standard_normal());
        x.extend(row);
    }
    let (model, device) = (LinearRegression::new(COLUMNS, 0.6).prior_sd(1.5), Device::flex());
    let mut pooled = None;
    for count in [1, 3, 8] {
        let rows = y.len() / count;
        let silos: Vec<_> = x
            .chunks(COLUMNS * rows)
            .zip(y.chunks(rows))
            .enumerate()
            .map(|(index, (x, y))| (format!("silo-{index}"), MeasuredRows::new(x, COLUMNS, y, &device).unwrap()))
            .collect();
        assert_eq!(silos.len(), count);
        let own: Vec<MeasuredRows> = silos.iter().map(|(_, rows)| rows.clone()).collect();
        let exact = model.posterior(&own).unwrap();
        let fit = fitted(&model, &silos);
        assert!(fit.record.counters.rounds <= 3, "{count} silos: {} rounds", fit.record.counters.rounds);
        let (means, sds) = moments(&fit);
        let exactly = exact.coefficients.mean().iter().zip(exact.coefficients.variances());
        for (place, ((mean, sd), (exact, variance))) in means.iter().zip(&sds).zip(exactly).enumerate() {
            assert!((mean - exact).abs() < 1e-9, "{count} silos, {place}: mean {mean} {exact}");
            assert!((sd / variance.sqrt() - 1.0).abs() < 1e-9, "{count} silos, {place}: sd {sd} {}", variance.sqrt());
        }
        let bound = fit.report.elbo;
        assert!((bound - exact.log_evidence).abs() < 1e-9, "{count} silos: {bound} {}", exact.log_evidence);
        assert!(fit.report.elbo_se < 1e-9, "{count} silos: {}", fit.report.elbo_se);
        // So are they those of one silo with all rows.
        let (one_means, one_sds, one_bound) = pooled.get_or_insert_with(|| (means.clone(), sds.clone(), bound));
        let apart = |own: &[f64], one: &[f64]| {
            fixtures::largest(own.iter().zip(one).zip(&sds).map(|((own, one), sd)| (own - one).abs() / sd))
        };
        assert!(apart(&means, one_means) < 1e-12, "{count} silos: {means:?}, in one {one_means:?}");
        assert!(apart(&sds, one_sds) < 1e-12, "{count} silos: {sds:?}, in one {one_sds:?}");
        assert!((bound / *one_bound - 1.0).abs() < 1e-12, "{count} silos: {bound}, in one {one_bound}");
    }
}
