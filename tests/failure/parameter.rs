//! Tests the errors of parameters outside their domain, as constants and when latents make them during a fit.

use partita::burn::tensor::Tensor;
use partita::core::{Array, Noise, cholesky, pointwise_log_likelihood, triangular_solve};
use partita::inference::Error as FitError;
use partita::{
    Beta, Cauchy, Device, Dirichlet, Error, Exponential, FitOptions, Gamma, HalfCauchy, HalfNormal, InverseGamma,
    Laplace, LogNormal, MultivariateNormal, NegativeBinomial, Normal, Schedule, SiteTable, StudentT, Uniform,
};

use super::{Local, Recipe, inner, says, short_fit, table, vector};

#[test]
fn a_constant_scale_that_is_not_positive_is_refused() {
    for (global, found) in [
        ((|scope| scope.sample("z", Normal::new(0.0, 0.0))) as super::Global, "is 0"),
        (|scope| scope.sample("z", Normal::new(0.0, -1.0)), "is -1"),
        (|scope| scope.sample("z", Normal::new(0.0, f64::NAN)), "is NaN"),
        (|scope| scope.sample("z", Normal::new(vector(&[0.0; 2]), vector(&[1.0, -2.0]))), "is -2 at index 1"),
    ] {
        let result = table(&Recipe::global(global));
        let words = ["Normal", "parameter `scale`", found, "a finite number > 0", "positive map such as exp"];
        refused!(result, Error::Parameter { parameter: "scale", .. }, words);
    }
}

#[test]
fn a_location_that_is_not_finite_is_refused() {
    let model = Recipe::global(|scope| scope.sample("z", Normal::new(f64::INFINITY, 1.0)));
    refused!(
        table(&model),
        Error::Parameter { parameter: "location", .. },
        ["parameter `location` is inf", "a finite number"]
    );
}

#[test]
fn bounds_in_the_wrong_order_are_refused() {
    let model = Recipe::global(|scope| scope.sample("z", Uniform::new(1.0, 0.0)));
    refused!(table(&model), Error::Parameter { parameter: "high", .. }, ["Uniform", "above `low`"]);
}

#[test]
fn a_factor_that_is_no_cholesky_factor_is_refused() {
    for factor in [[1.0, 0.0, 0.5, 0.0], [1.0, 0.0, 0.5, -1.0], [1.0, 0.5, 0.0, 1.0]] {
        let tensor = Device::flex().tensor(factor.to_vec(), [2, 2]);
        let result = MultivariateNormal::new(vector(&[0.0; 2]), tensor)
            .log_prob_of(&Array { values: vec![0.0; 2], shape: vec![2] });
        let words = ["MultivariateNormal", "scale_tril", "lower-triangular", "diagonal > 0"];
        refused!(result, Error::Parameter { parameter: "scale_tril", .. }, words);
    }
}

#[test]
fn the_cholesky_factor_of_an_indefinite_matrix_names_the_pivot() {
    let matrix = Device::flex().tensor(vec![1.0, 2.0, 2.0, 1.0], [2, 2]);
    let words = ["Cholesky", "pivot 1 is -3e0", "expected > 0", "multiple of the identity"];
    refused!(cholesky(matrix), Error::NotPositiveDefinite { index: 1, .. }, words);
}

#[test]
fn a_singular_triangle_is_refused() {
    let device = Device::flex();
    let result = triangular_solve(device.tensor(vec![1.0, 0.0, 1.0, 0.0], [2, 2]), device.tensor(vec![1.0; 2], [2, 1]));
    refused!(result, Error::Parameter { parameter: "factor", index: 3, .. }, ["is 0 at index 3"]);
}

/// A latent that is 1 when the table is read and becomes negative within a few steps.
fn falling(mu: &Tensor<1>) -> Tensor<1> {
    mu.clone() * 1e3 + 1.0
}

/// Fits a model whose parameter falls below zero and expects an error that names this parameter.
fn falls(local: Local, distribution: &str, parameter: &str) {
    // An adaptive rate would undo the fall.
    let annealed = |options: &mut FitOptions| {
        (options.settings.steps, options.settings.schedule) = (100, Schedule::cosine());
    };
    let error = short_fit(&Recipe::local(local), annealed).unwrap_err();
    assert!(matches!(error, FitError::InSilo { .. }), "{distribution}: {error:?}");
    assert!(matches!(inner(&error), Error::Parameter { .. }), "{distribution}: {error:?}");
    says(&error, &["silo `a`", "step ", distribution, &format!("parameter `{parameter}` is -"), "positive map"]);
}

#[test]
fn a_parameter_that_latents_make_negative_is_named_with_silo_and_step() {
    macro_rules! observes {
        ($distribution:expr, $name:literal, $parameter:literal) => {
            falls(
                |scope, mu, _| {
                    let make: fn(Tensor<1>) -> _ = $distribution;
                    scope.observe("y", make(falling(mu)), vector(&[0.5]))
                },
                $name,
                $parameter,
            )
        };
    }
    observes!(|x| Normal::new(0.0, x), "Normal", "scale");
    observes!(|x| HalfNormal::new(x), "HalfNormal", "scale");
    observes!(|x| LogNormal::new(0.0, x), "LogNormal", "scale");
    observes!(|x| StudentT::new(3.0, 0.0, x), "StudentT", "scale");
    observes!(|x| StudentT::new(x, 0.0, 1.0), "StudentT", "degrees_of_freedom");
    observes!(|x| Cauchy::new(0.0, x), "Cauchy", "scale");
    observes!(|x| HalfCauchy::new(x), "HalfCauchy", "scale");
    observes!(|x| Laplace::new(0.0, x), "Laplace", "scale");
    observes!(|x| Exponential::new(x), "Exponential", "rate");
    observes!(|x| Gamma::new(x, 1.0), "Gamma", "concentration");
    observes!(|x| Gamma::new(1.0, x), "Gamma", "rate");
    observes!(|x| InverseGamma::new(x, 1.0), "InverseGamma", "concentration");
    observes!(|x| InverseGamma::new(1.0, x), "InverseGamma", "scale");
    observes!(|x| Beta::new(x, 1.0), "Beta", "concentration_one");
    observes!(|x| Beta::new(1.0, x), "Beta", "concentration_zero");
}

#[test]
fn a_count_whose_concentration_latents_make_negative_is_named() {
    let local: Local = |scope, mu, _| scope.observe("y", NegativeBinomial::logits(falling(mu), 0.5), vector(&[3.0]));
    falls(local, "NegativeBinomial", "concentration");
}

#[test]
fn a_vector_parameter_that_latents_make_negative_is_named() {
    let local: Local = |scope, mu, _| {
        let simplex = scope.device().tensor(vec![0.25, 0.75], [1, 2]);
        scope.observe("y", Dirichlet::new(falling(mu).expand([1, 2])), simplex)
    };
    falls(local, "Dirichlet", "concentration");
    let local: Local = |scope, mu, _| {
        let fixed = scope.device().tensor(vec![1.0, 0.0, 0.3, 0.0], [2, 2]);
        let corner = scope.device().tensor(vec![0.0, 0.0, 0.0, 1.0], [2, 2]);
        let factor = fixed + corner * falling(mu).reshape([1, 1]);
        scope.observe("y", MultivariateNormal::new(vector(&[0.0; 2]), factor), vector(&[0.1, 0.2]))
    };
    falls(local, "MultivariateNormal", "scale_tril");
}

#[test]
fn an_observation_that_moving_bounds_leave_outside_is_refused() {
    let model =
        Recipe::local(|scope, mu, _| scope.observe("y", Uniform::new(-1.0, mu.clone() * 1e3 + 1.0), vector(&[0.5])));
    let error = short_fit(&model, |options| options.settings.steps = 100).unwrap_err();
    assert!(matches!(inner(&error), Error::Support { .. } | Error::Parameter { .. }), "{error:?}");
    says(&error, &["silo `a`", "Uniform"]);
}

#[test]
fn a_prior_that_latents_break_is_named_with_the_coordinator() {
    let model = Recipe::global(|scope| {
        let mu = scope.sample("mu", Normal::new(0.0, 1.0))?;
        scope.sample("nu", Normal::new(0.0, falling(&mu)))
    });
    let error = short_fit(&model, |options| options.settings.steps = 100).unwrap_err();
    assert!(matches!(inner(&error), Error::Parameter { parameter: "scale", .. }), "{error:?}");
    says(&error, &["silo `the coordinator`", "step "]);
}

#[test]
fn readings_off_the_tape_refuse_bad_parameters_too() {
    let device = Device::flex();
    let model = Recipe::local(|scope, mu, _| scope.observe("y", Normal::new(0.0, falling(mu)), vector(&[0.5])));
    let data = vector(&[0.5]);
    let table = SiteTable::of(&model, &device, &data).unwrap();
    let latents = partita::core::Latents { globals: &[-1.0], locals: &[] };
    let result = pointwise_log_likelihood(&model, &device, &table, &data, latents);
    refused!(result, Error::Parameter { parameter: "scale", .. }, ["Normal", "-999"]);
    let noise = partita::core::DrawNoise { noise: Noise::new(1), index: 0 };
    let at = partita::core::Predictive { globals: &[-1.0], locals: None, noise };
    let result = partita::core::predictive_draw(&model, &device, &table, &data, at);
    refused!(result, Error::Parameter { parameter: "scale", .. }, ["Normal", "-999"]);
}
