//! Claims that the regressions and the Gaussian mean have the exact posteriors that a second program computed.

use partita::core::{Key, Noise, Purpose};
use partita::datasets::{RuggedCountry, rugged};
use partita::inference::metrics::{Predictions, accuracy, test_log_likelihood};
use partita::models::{
    BinaryRows, Coefficients, GaussianMean, LinearRegression, LogisticRegression, MeasuredRows, PROBIT_CONSTANT,
};
use partita::{Device, FamilyPlan, FitOptions, Gaussian, Settings, fit};
use partita_studies::gaussian_mean_silos;

/// Sums over the 1,000 numbers of each silo, from NumPy 2.2.6 by `RandomState(c).normal(5, 1, 1000).sum()`.
const SUMS: [f64; 10] = [
    5038.812476160,
    4952.150064805,
    5017.284332981,
    5051.529617885,
    5033.277027893,
    4991.143350567,
    4971.524973429,
    5037.356002270,
    5031.573864112,
    4985.443364385,
];

#[test]
fn the_silos_of_the_gaussian_mean_have_the_sums_of_the_published_generator() {
    let silos = gaussian_mean_silos();
    assert!(silos.iter().all(|silo| silo.len() == 1000));
    for (silo, expected) in silos.iter().zip(SUMS) {
        // The sums are given to nine digits after the point.
        assert!((silo.iter().sum::<f64>() - expected).abs() < 1e-9, "{expected}");
    }
    let squares: f64 = silos.iter().flatten().map(|value| value * value).sum();
    assert!((squares - 260_806.004416225).abs() < 1e-8, "{squares}");
}

#[test]
fn the_gaussian_mean_has_the_exact_posterior_of_the_thesis_data() {
    let exact = GaussianMean::posterior(&gaussian_mean_silos());
    assert!((exact.mean - 5.010508457).abs() < 1e-9, "{}", exact.mean);
    assert!((exact.variance - 1.0 / 10_001.0).abs() < 1e-18);
    assert!((exact.log_evidence + 14_058.465194).abs() < 1e-6, "{}", exact.log_evidence);
}

fn assert_near(found: &[f64], expected: [f64; 4], tolerance: f64) {
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() <= tolerance * expected.abs().max(1e-9), "{found} instead of {expected}");
    }
}

#[test]
fn the_ruggedness_regression_has_the_exact_posterior_of_a_second_program() {
    if !fixtures::is_staged(&["rugged"]) {
        return;
    }
    let rows = RuggedCountry::columns(&rugged().unwrap());
    let data = MeasuredRows::new(&rows.covariates, 3, &rows.log_gdp, &Device::flex()).unwrap();
    let exact = LinearRegression::new(3, 1.0).posterior(std::slice::from_ref(&data)).unwrap();
    // Half a unit of the last of four or five digits given.
    assert_near(exact.coefficients.mean(), [8.98693, -1.64856, -0.09862, 0.26253], 6e-5);
    assert_near(&exact.mean_field_variances(), [0.005848, 0.02000, 0.001873, 0.007147], 3e-4);
    let deviations: Vec<f64> = exact.coefficients.variances().iter().map(|variance| variance.sqrt()).collect();
    assert_near(&deviations, [0.1443, 0.2320, 0.0804, 0.1358], 7e-4);
    let narrow = LinearRegression::new(3, 0.03).posterior(std::slice::from_ref(&data)).unwrap();
    assert_near(narrow.coefficients.mean(), [9.22300, -1.94775, -0.20276, 0.39326], 3e-5);
    assert_near(&narrow.mean_field_variances(), [5.29e-6, 1.84e-5, 1.69e-6, 6.48e-6], 3e-3);
    // With hardly any prior the residuals are those of least squares: root of 147.8815 / 170.
    let flat = LinearRegression::new(3, 1.0).prior_sd(1e4);
    let (_, error) = flat.test(&data, &flat.posterior(std::slice::from_ref(&data)).unwrap().coefficients).unwrap();
    assert!((error - (147.8815_f64 / 170.0).sqrt()).abs() < 1e-5, "{error}");
}

fn made_up(rows: usize) -> (Vec<f64>, Vec<f64>) {
    let mut noise = Noise::new(9).stream(Key::new(Purpose::Prior, 0));
    let inputs: Vec<f64> = (0..2 * rows).map(|_| noise.standard_normal()).collect();
    let targets = inputs.chunks(2).map(|x| 0.7 - x[0] + 0.4 * x[1] + 0.5 * noise.standard_normal()).collect();
    (inputs, targets)
}

#[test]
fn the_evidence_of_a_linear_regression_is_the_product_of_its_predictions() {
    // log p(y) = sum of log p(y_i | y_1, ..., y_(i-1)): the predictive density and the evidence prove each other.
    let (device, (inputs, targets)) = (Device::flex(), made_up(12));
    let model = LinearRegression::new(2, 0.5).prior_sd(1.7);
    let rows = |range: std::ops::Range<usize>| {
        let inputs = &inputs[2 * range.start..2 * range.end];
        MeasuredRows::new(inputs, 2, &targets[range], &device).unwrap()
    };
    let mut sum = 0.0;
    for row in 0..12 {
        let before = model.posterior(&[rows(0..row)]).unwrap().coefficients;
        sum -= model.test(&rows(row..row + 1), &before).unwrap().0;
    }
    let exact = model.posterior(&[rows(0..5), rows(5..12)]).unwrap();
    assert!((exact.log_evidence - sum).abs() < 1e-10, "{} {sum}", exact.log_evidence);
}

#[test]
fn sfvi_finds_the_exact_posterior_of_the_linear_regression_and_its_mean_field_twin() {
    let (device, (inputs, targets)) = (Device::flex(), made_up(60));
    let model = LinearRegression::new(2, 0.5);
    let silo = |range: std::ops::Range<usize>| {
        let inputs = &inputs[2 * range.start..2 * range.end];
        MeasuredRows::new(inputs, 2, &targets[range], &device).unwrap()
    };
    let silos = [silo(0..25), silo(25..60)];
    let exact = model.posterior(&silos).unwrap();
    let named: Vec<(String, MeasuredRows)> =
        ["a", "b"].into_iter().map(String::from).zip(silos.iter().cloned()).collect();
    for (family, variances) in
        [(Gaussian::full_rank(), exact.coefficients.variances()), (Gaussian::diagonal(), exact.mean_field_variances())]
    {
        let family = FamilyPlan::new().global(family);
        let options = FitOptions {
            settings: Settings { steps: 3_000, particles: 4, family, ..Settings::default() },
            summary_draws: 0,
            ..FitOptions::default()
        };
        let fit = fit(&model, &named, &device, &options, None).unwrap();
        let posterior = fit.posterior();
        let found = posterior.family.mean(posterior.parameters);
        for (found, expected) in found.iter().zip(exact.coefficients.mean()) {
            // A twentieth of the posterior standard deviations, which are about 0.065.
            assert!((found - expected).abs() < 0.003, "{found} instead of {expected}");
        }
        let covariance = posterior.family.covariance(posterior.parameters);
        for (found, expected) in covariance.iter().step_by(4).zip(&variances) {
            assert!((found / expected - 1.0).abs() < 0.05, "{found} instead of {expected}");
        }
    }
}

#[test]
fn logistic_predictions_by_the_probit_formula_are_predictions() {
    let (inputs, targets) = made_up(50);
    let labels: Vec<bool> = targets.iter().map(|target| *target > 0.5).collect();
    let model = LogisticRegression::new(2);
    let posterior = Coefficients::mean_field(vec![0.4, -1.2, 0.5], &[0.04, 0.09, 0.02]).unwrap();
    let formula = model.predict(&inputs, &posterior, PROBIT_CONSTANT).unwrap();
    let classes: Vec<u8> = labels.iter().map(|label| u8::from(*label)).collect();
    let predictions = Predictions::new(&formula, 2, &classes).unwrap();
    assert!(accuracy(&predictions) > 0.7 && test_log_likelihood(&predictions) > -0.6);
    assert!(model.predict(&inputs[1..], &posterior, PROBIT_CONSTANT).is_err());
    assert!(LogisticRegression::new(3).predict(&inputs, &posterior, PROBIT_CONSTANT).is_err());
    assert!(BinaryRows::new(&inputs[1..], 2, &labels, &Device::flex()).is_err());
}
