//! Fits means to contaminated data under robust losses: optima, silos, pooled data and solvers.

use super::*;

#[test]
fn the_pull_of_a_far_observation_fades_under_robust_losses_and_grows_under_the_log_likelihood() {
    let device = Device::flex();
    let pull = |loss: Loss, distance: f64| {
        let data = device.tensor(vec![distance], [1]);
        let table = SiteTable::of(&Mean {}, &device, &data).unwrap();
        let density = LogDensity::new(&Mean {}, &device, &table).loss(loss);
        density.local(Latents { globals: &[0.0], locals: &[Vec::new()] }, &data).unwrap().globals[0]
    };
    for distance in [2.0, 4.0, 6.0, 8.0, 10.0, 12.0] {
        let further = distance + 2.0;
        let grown = pull(Loss::NegativeLogLikelihood, further) - pull(Loss::NegativeLogLikelihood, distance);
        assert!((grown - 2.0).abs() < 1e-12);
        for loss in [Loss::Beta(1.5), Loss::Gamma(1.5)] {
            assert!(pull(loss, further) < 0.5 * pull(loss, distance), "{loss} at {further}");
        }
    }
    // d exp(-d²/4) (2π)^(-¼) at 14.
    assert!(pull(Loss::Beta(1.5), 14.0) < 1e-19);
}

/// Fits the mean of `numbers` by a normal posterior; returns its mean and standard deviation.
fn fit_mean(silos: &[Vec<f64>], loss: Loss, algorithm: AlgorithmChoice) -> (f64, f64, Fit) {
    let device = Device::flex();
    let silos = fixtures::named(silos.iter().map(|numbers| device.tensor(numbers.clone(), [numbers.len()])));
    let settings = Settings {
        steps: 1_500,
        particles: 32,
        noise: NoiseKind::Sobol,
        estimator: Estimator::ClosedFormEntropy,
        schedule: Schedule::Cosine { initial: 0.05, last: 0.0 },
        family: FamilyPlan::new().global(Gaussian::diagonal()),
        loss,
        ..Settings::default()
    };
    let options = FitOptions { settings, algorithm, summary_draws: 0, ..FitOptions::default() };
    let fit = fit(&Mean {}, &silos, &device, &options, None).unwrap();
    let (means, sds) = fixtures::moments(fit.posterior());
    (means[0], sds[0], fit)
}

/// Forty numbers around 1 and ten around 8.
fn contaminated() -> Vec<f64> {
    let spread = |count: u32, centre: f64| {
        (0..count).map(move |k| {
            let probability = (f64::from(k) + 0.5) / f64::from(count);
            centre + partita::core::special::normal_quantile(probability)
        })
    };
    spread(40, 1.0).chain(spread(10, 8.0)).collect()
}

/// Minus E_q of the β-generalised objective of [`Mean`], up to a constant, by the closed form of the page (1.7).
fn objective(numbers: &[f64], index: f64, (mean, log_sd): (f64, f64)) -> f64 {
    let (excess, variance) = (index - 1.0, (2.0 * log_sd).exp());
    let spread = 1.0 + excess * variance;
    let constant = (2.0 * std::f64::consts::PI).powf(-0.5 * excess) / spread.sqrt();
    let power = |x: &f64| constant * (-excess * (x - mean).powi(2) / (2.0 * spread)).exp();
    let divergence = 0.5 * (variance + mean * mean) / 10.0 - log_sd;
    numbers.iter().map(power).sum::<f64>() / excess - divergence
}

/// The maximum by Newton steps with numerical derivatives, from a start in its basin.
fn optimum(numbers: &[f64], index: f64, start: (f64, f64)) -> (f64, f64) {
    const STEP: f64 = 1e-4;
    let mut at = start;
    for _ in 0..50 {
        let f = |a: f64, b: f64| objective(numbers, index, (at.0 + a * STEP, at.1 + b * STEP));
        let (ga, gb) = ((f(1.0, 0.0) - f(-1.0, 0.0)) / 2.0, (f(0.0, 1.0) - f(0.0, -1.0)) / 2.0);
        let centre = 2.0 * f(0.0, 0.0);
        let (aa, bb) = (f(1.0, 0.0) + f(-1.0, 0.0) - centre, f(0.0, 1.0) + f(0.0, -1.0) - centre);
        let ab = (f(1.0, 1.0) - f(1.0, -1.0) - f(-1.0, 1.0) + f(-1.0, -1.0)) / 4.0;
        let determinant = aa * bb - ab * ab;
        at.0 -= STEP * (bb * ga - ab * gb) / determinant;
        at.1 -= STEP * (aa * gb - ab * ga) / determinant;
    }
    at
}

#[test]
fn a_generalised_posterior_is_the_optimum_of_its_objective() {
    let numbers = contaminated();
    let (mean, sd, fit) = fit_mean(std::slice::from_ref(&numbers), Loss::Beta(1.5), AlgorithmChoice::Central);
    let (exact_mean, log_sd) = optimum(&numbers, 1.5, (1.0, -1.5));
    let exact_sd = log_sd.exp();
    // Thirty-two scrambled Sobol draws a step, the rate falling to zero; measured 0.001 of each.
    assert!((mean - exact_mean).abs() < 0.02 * exact_sd, "{mean} {exact_mean} ± {exact_sd}");
    assert!((sd / exact_sd - 1.0).abs() < 0.02, "{sd} {exact_sd}");
    // The reported bound is minus the objective: shift and integral are constants here.
    let constant = log_integral(&Normal, 1.5, [&[0.0], &[1.0], &[]]).exp() / 1.5 + Loss::Beta(1.5).shift();
    let expected = objective(&numbers, 1.5, (exact_mean, log_sd)) - 50.0 * constant + 0.5 - 0.5 * 10.0_f64.ln();
    let (found, error) = (fit.report.elbo, fit.report.elbo_se);
    assert!((found - expected).abs() < 5.0 * error + 0.01, "{found} ± {error}, {expected}");
}

#[test]
fn with_a_fifth_of_outliers_robust_losses_keep_the_mean_that_the_log_likelihood_loses() {
    let numbers = contaminated();
    let (plain, _, _) = fit_mean(std::slice::from_ref(&numbers), Loss::NegativeLogLikelihood, AlgorithmChoice::Central);
    // The mean of all is 2.4.
    assert!((plain - 2.4).abs() < 0.05, "{plain}");
    for loss in [Loss::Beta(1.5), Loss::Gamma(1.5)] {
        let (robust, sd, _) = fit_mean(std::slice::from_ref(&numbers), loss, AlgorithmChoice::Central);
        assert!((robust - 1.0).abs() < 0.2 * sd, "{loss}: {robust} ± {sd}");
    }
}

#[test]
fn silos_reach_the_generalised_posterior_of_pooled_data() {
    let numbers = contaminated();
    let parts: Vec<Vec<f64>> = numbers.chunks(17).map(<[f64]>::to_vec).collect();
    let (pooled, pooled_sd, _) = fit_mean(&[numbers], Loss::Gamma(1.3), AlgorithmChoice::Central);
    let (mean, sd, _) = fit_mean(&parts, Loss::Gamma(1.3), AlgorithmChoice::Sfvi);
    // The same noise and the same steps: only rounding in another order over 1,500 steps remains.
    assert!((mean - pooled).abs() < 1e-9 && (sd - pooled_sd).abs() < 1e-9, "{mean} {pooled}, {sd} {pooled_sd}");
}

#[test]
fn partitioned_inference_reaches_the_optimum_of_the_generalised_objective() {
    let numbers = contaminated();
    let parts: Vec<Vec<f64>> = numbers.chunks(17).map(<[f64]>::to_vec).collect();
    // One optimiser and one rate over the whole run, which falls to zero.
    let solver = GradientDescent { keep_optimiser: true, ..GradientDescent::default() }.into();
    let options = PviOptions { solver, ..PviOptions::new(20) };
    let (mean, sd, _) = fit_mean(&parts, Loss::Beta(1.5), AlgorithmChoice::Pvi(options));
    let (exact_mean, log_sd) = optimum(&numbers, 1.5, (1.0, -1.5));
    let exact_sd = log_sd.exp();
    // Three silos, ten sweeps, fifty steps a local update with a rate that falls to zero in each; measured 0.003 and
    // 0.006.
    assert!((mean - exact_mean).abs() < 0.02 * exact_sd, "{mean} {exact_mean} ± {exact_sd}");
    assert!((sd / exact_sd - 1.0).abs() < 0.02, "{sd} {exact_sd}");
}

#[test]
fn a_solver_for_conjugate_problems_does_not_take_a_robust_loss_for_one() {
    let device = Device::flex();
    let settings = Settings { loss: Loss::Beta(1.5), steps: 1, ..Settings::default() };
    let options = PviOptions { solver: Conjugate.into(), ..PviOptions::new(1) };
    let options = FitOptions { settings, algorithm: AlgorithmChoice::Pvi(options), ..FitOptions::default() };
    let data = [("only".to_owned(), device.tensor(contaminated(), [50]))];
    let error = fit(&Mean {}, &data, &device, &options, None).unwrap_err();
    assert!(error.to_string().contains("not quadratic"), "{error}");
}
