//! Holds composites to refusals that name what does not fit: bounds, intervals, supports, statuses, distributions.

use burn::module::Module;
use burn::tensor::Tensor;
use fixtures::says;
use partita_core::{
    Array, Bernoulli, Beta, Categorical, Censoring, Chance, Device, Error, Exponential, Gamma, Mixture, Model, Normal,
    Poisson, Result, Scope, SiteTable,
};

fn array(values: &[f64]) -> Array {
    Array::new(values.to_vec(), vec![values.len()]).unwrap()
}

fn tensor(values: &[f64]) -> Tensor<1> {
    Device::flex().tensor(values.to_vec(), [values.len()])
}

#[test]
fn an_interval_with_its_ends_exchanged_is_refused_with_its_row() {
    let high = tensor(&[2.0, 1.0, f64::INFINITY]);
    let times = Exponential::new(1.0).iid([3]).censored(Censoring::interval(high));
    let error = times.log_prob_of(&array(&[1.0, 1.5, 0.5])).unwrap_err();
    says(&error, &["high is 1 at index 1", "exchanged"]);
    assert!(times.log_prob_of(&array(&[1.0, 0.5, f64::NEG_INFINITY])).unwrap().is_finite());
}

#[test]
fn a_censored_value_outside_the_support_is_refused_with_its_row() {
    let times = Exponential::new(1.0).iid([2]).censored(Censoring::right(tensor(&[1.0, 0.0])));
    let error = times.log_prob_of(&array(&[1.0, -0.5])).unwrap_err();
    assert!(matches!(error, Error::Support { index: 1, .. }), "{error:?}");
    says(&error, &["-0.5", "index 1", "Censored(Exponential)", "numbers > 0"]);
    let error = times.log_prob_of(&array(&[-1.0, 2.0])).unwrap_err();
    assert!(matches!(error, Error::Support { index: 0, .. }), "{error:?}");
    let error = times.log_prob_of(&array(&[1.0, f64::NAN])).unwrap_err();
    assert!(matches!(error, Error::NotFinite { index: 1, .. }), "{error:?}");
    let below = Beta::new(2.0, 2.0).censored(Censoring::left(0.0));
    assert!(below.log_prob_of(&Array::scalar(0.0)).is_err() && below.log_prob_of(&Array::scalar(1.5)).is_err());
    let half = Poisson::log_rate(0.0).censored(Censoring::right(0.0));
    assert!(half.log_prob_of(&Array::scalar(0.5)).is_err());
}

#[test]
fn a_status_other_than_zero_and_one_is_refused() {
    let times = Exponential::new(1.0).iid([2]).censored(Censoring::right(tensor(&[1.0, 2.0])));
    let error = times.log_prob_of(&array(&[1.0, 1.0])).unwrap_err();
    assert!(matches!(error, Error::Parameter { parameter: "status", index: 1, .. }), "{error:?}");
}

#[test]
fn bounds_that_are_exchanged_or_without_mass_are_refused() {
    let error = Normal::new(0.0, 1.0).truncated(1.0, -1.0).log_prob_of(&Array::scalar(0.0)).unwrap_err();
    assert!(matches!(error, Error::Parameter { parameter: "high", .. }), "{error:?}");
    says(&error, &["Truncated(Normal)", "exchanged"]);
    let error = Gamma::new(2.0, 1.0).truncated(-3.0, 0.0).log_prob_of(&Array::scalar(0.0)).unwrap_err();
    says(&error, &["Truncated(Gamma)", "mass"]);
    let error = Normal::new(0.0, 1.0).truncated(0.0, 1.0).log_prob_of(&Array::scalar(2.0)).unwrap_err();
    says(&error, &["Truncated(Normal)", "(0, 1)"]);
    let error = Poisson::log_rate(0.0).truncated(1.0, f64::INFINITY).log_prob_of(&Array::scalar(0.0)).unwrap_err();
    says(&error, &["the counts from 1"]);
}

#[test]
fn a_mixture_of_unlike_supports_is_refused_by_name() {
    let weights = || tensor(&[0.5, 0.5]);
    let gamma = Normal::new(0.0, 1.0);
    let error =
        Mixture::logits(weights(), vec![gamma, Gamma::new(1.0, 1.0)]).log_prob_of(&Array::scalar(1.0)).unwrap_err();
    says(&error, &["Mixture(Normal, Gamma)", "component 1 (Gamma)", "the real numbers", "numbers > 0"]);
    let three = vec![Normal::new(0.0, 1.0), Normal::new(1.0, 1.0), Normal::new(2.0, 1.0)];
    let error = Mixture::logits(weights(), three).log_prob_of(&Array::scalar(1.0)).unwrap_err();
    assert!(matches!(error, Error::Shape { .. }), "{error:?}");
    let bad = vec![Normal::new(0.0, 1.0), Normal::new(1.0, -1.0)];
    let error = Mixture::logits(weights(), bad).log_prob_of(&Array::scalar(1.0)).unwrap_err();
    says(&error, &["component 1 (Normal) of Mixture(Normal, Normal)", "`scale` is -1"]);
    let none: Vec<partita_core::Distribution<1>> = Vec::new();
    assert!(Mixture::logits(weights(), none).log_prob_of(&Array::scalar(1.0)).is_err());
}

#[test]
fn a_distribution_that_a_composite_cannot_be_made_of_is_refused() {
    let logits: Tensor<2> = Device::flex().tensor(vec![0.0, 0.0], [1, 2]);
    let error = Categorical::logits(logits).truncated(0.0, 1.0).log_prob_of(&Array::scalar(0.0)).unwrap_err();
    says(&error, &["Truncated(Categorical)", "cumulative"]);
    let point = Exponential::new(1.0).hurdle(Chance::probability(0.5)).truncated(0.0, 1.0);
    says(&point.log_prob_of(&Array::scalar(0.5)).unwrap_err(), &["Truncated(Hurdle(Exponential))", "cumulative"]);
    let error = Normal::new(0.0, 1.0).hurdle(Chance::probability(0.5)).log_prob_of(&Array::scalar(0.5)).unwrap_err();
    says(&error, &["Hurdle(Normal)", "the real numbers"]);
    let chance = Bernoulli::logits(0.0).zero_inflated(Chance::probability(1.5));
    let error = chance.log_prob_of(&Array::scalar(0.0)).unwrap_err();
    assert!(matches!(error, Error::Parameter { parameter: "probability", .. }), "{error:?}");
    let error = Normal::new(0.0, 1.0).weighted(-1.0).log_prob_of(&Array::scalar(0.0)).unwrap_err();
    says(&error, &["`weights` is -1", "Weighted(Normal)", ">= 0"]);
    // A weight would be lost in the tails.
    let censored = Exponential::new(0.5).weighted(10.0).censored(Censoring::right(0.0));
    says(&censored.log_prob_of(&Array::scalar(3.0)).unwrap_err(), &["Censored(Weighted(Exponential))", "comes last"]);
    let long = Normal::new(tensor(&[0.0; 3]), 1.0).truncated(tensor(&[0.0; 2]), 1.0);
    says(&long.log_prob_of(&array(&[0.5; 3])).unwrap_err(), &["parameter `low` of Truncated(Normal)", "[2]", "[3]"]);
}

#[test]
fn moments_of_bad_parameters_are_refused() {
    let exchanged = Normal::new(0.0, 1.0).truncated(2.0, 1.0).mean().unwrap_err();
    assert!(matches!(exchanged, Error::Parameter { parameter: "high", .. }), "{exchanged:?}");
    let negative = Normal::new(0.0, -1.0).variance().unwrap_err();
    assert!(matches!(negative, Error::Parameter { parameter: "scale", .. }), "{negative:?}");
}

#[derive(Module, Debug)]
struct Shifted {}

impl Model for Shifted {
    type Globals = Tensor<1>;
    type Data = ();

    fn global(&self, scope: &mut Scope) -> Result<Tensor<1>> {
        scope.sample("level", Normal::new(0.0, 1.0).truncated(0.0, f64::INFINITY).non_centred())
    }

    fn local(&self, _: &mut Scope, _: &Tensor<1>, (): &()) -> Result<()> {
        Ok(())
    }
}

#[test]
fn a_truncated_latent_is_not_standardised() {
    let error = SiteTable::of(&Shifted {}, &Device::flex(), &()).unwrap_err();
    says(&error, &["Truncated(Normal)", "location-scale"]);
}
