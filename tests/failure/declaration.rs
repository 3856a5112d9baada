//! Tests the errors of wrong models: names, plates, shapes, ranks, and sites that change.

use std::sync::atomic::{AtomicUsize, Ordering};

use partita::burn::module::{Module, Param};
use partita::burn::tensor::Tensor;
use partita::core::{Array, Latents, LogDensity, Minibatch, predictive_draw, theta, with_theta};
use partita::inference::{Error as FitError, check};
use partita::{Device, Error, Gamma, HalfNormal, LogNormal, MultivariateNormal, Normal, SiteTable, Uniform};

use super::{Local, Recipe, hierarchy, inner, says, short_fit, silos, sound, table, vector};

#[test]
fn a_site_declared_twice_is_refused_with_the_sites_so_far() {
    let model = Recipe::global(|scope| {
        scope.sample("mu", Normal::new(0.0, 1.0))?;
        scope.sample("tau", HalfNormal::new(1.0))?;
        scope.sample("mu", Normal::new(0.0, 1.0))
    });
    refused!(table(&model), Error::DuplicateSite { .. }, ["`mu` is declared twice", "its own name", "mu, tau"]);
}

#[test]
fn an_observation_with_the_name_of_a_latent_is_refused() {
    let model =
        Recipe::local(|scope, mu, data| scope.observe("mu", Normal::new(mu.clone().expand([3]), 1.0), data.clone()));
    refused!(table(&model), Error::DuplicateSite { .. }, ["`mu` is declared twice"]);
}

#[test]
fn a_plate_among_the_globals_is_refused() {
    let model = Recipe::global(|scope| {
        scope.plate("row", 3, |scope, rows| scope.sample("mu", Normal::new(0.0, 1.0).over(rows)))
    });
    refused!(table(&model), Error::Plate { .. }, ["plate `row`", "global function", "Declare it in `local`"]);
}

#[test]
fn a_number_of_rows_in_a_plate_is_refused() {
    let model = Recipe::local(|scope, mu, data| {
        scope.plate("outer", 3, |scope, _| {
            scope.plate("inner", 3, |scope, _| scope.observe("y", Normal::new(mu.clone(), 1.0), data.clone()))
        })
    });
    refused!(table(&model), Error::Plate { .. }, ["plate `inner`", "stands in plate `outer`", "Give `&Groups`"]);
}

#[test]
fn one_plate_with_two_row_counts_is_refused() {
    let model = Recipe::local(|scope, _, _| {
        scope.plate("row", 3, |_, _| Ok(()))?;
        scope.plate("row", 2, |_, _| Ok(()))
    });
    refused!(table(&model), Error::Plate { .. }, ["plate `row`", "2 rows here and 3 elsewhere", "one plate name"]);
}

#[test]
fn a_site_with_other_rows_than_its_plate_is_refused() {
    let model = Recipe::local(|scope, _, _| {
        scope.plate("row", 3, |scope, _| scope.sample("z", Normal::new(0.0, 1.0).iid([2])).map(drop))
    });
    refused!(table(&model), Error::Shape { .. }, ["site `z`", "plate `row`", "[2]", "[3]", "rows.len()"]);
}

#[test]
fn parameters_of_two_lengths_are_refused() {
    let model = Recipe::global(|scope| scope.sample("z", Normal::new(vector(&[0.0; 3]), vector(&[1.0; 4]))));
    refused!(table(&model), Error::Shape { .. }, ["parameter `scale` of Normal", "[4]", "[3]", "batch shape"]);
}

#[test]
fn parameters_that_burn_would_broadcast_are_refused() {
    let model = Recipe::global(|scope| {
        let device = scope.device().clone();
        let pair = Normal::new(device.tensor(vec![0.0; 3], [3, 1]), device.tensor(vec![1.0; 3], [1, 3]));
        Ok(scope.sample("z", pair)?.flatten(0, 1))
    });
    refused!(table(&model), Error::Shape { .. }, ["parameter `scale` of Normal", "[1, 3]", "[3, 1]"]);
}

#[test]
fn a_distribution_of_many_numbers_is_not_repeated() {
    let model = Recipe::global(|scope| scope.sample("z", Normal::new(vector(&[0.0; 3]), 1.0).iid([6])));
    refused!(table(&model), Error::Shape { .. }, ["Normal::iid", "[3]", "full shape"]);
}

#[test]
fn a_scale_matrix_of_another_order_than_the_mean_is_refused() {
    let model = Recipe::global(|scope| {
        let factor = scope.device().tensor(vec![1.0, 0.0, 0.0, 1.0], [2, 2]);
        scope.sample("z", MultivariateNormal::new(vector(&[0.0; 3]), factor))
    });
    refused!(table(&model), Error::Shape { .. }, ["scale_tril", "[2, 2]", "[3, 3]", "Cholesky factor"]);
}

#[test]
fn a_vector_of_no_numbers_is_refused() {
    let model = Recipe::global(|scope| {
        let factor = scope.device().tensor(Vec::new(), [0, 0]);
        scope.sample("z", MultivariateNormal::new(vector(&[]), factor))
    });
    refused!(table(&model), Error::Shape { .. }, ["MultivariateNormal", "[0]", "at least one"]);
}

#[test]
fn a_distribution_without_location_and_scale_is_not_standardised() {
    let model = Recipe::global(|scope| scope.sample("z", Gamma::new(2.0, 1.0).non_centred()));
    refused!(table(&model), Error::Argument { argument: "distribution", .. }, ["Gamma", "location-scale", "leave out"]);
    let model = Recipe::global(|scope| scope.sample("z", LogNormal::new(1.0, 0.5).non_centred()));
    refused!(table(&model), Error::Argument { argument: "distribution", .. }, ["LogNormal", "all numbers"]);
}

#[test]
fn bounds_that_move_with_a_latent_are_refused() {
    let model = Recipe::global(|scope| {
        let high = scope.sample("high", HalfNormal::new(1.0))?;
        scope.sample("z", Uniform::new(0.0, high))
    });
    let error = short_fit(&model, |_| {}).unwrap_err();
    assert!(matches!(inner(&error), Error::Argument { argument: "support", .. }), "{error:?}");
    says(&error, &["site `z`", "same constant bounds", "rescale with `deterministic`"]);
}

#[test]
fn bounds_that_move_are_refused_where_they_start_at_zero_or_nowhere() {
    let moving = Recipe::global(|scope| {
        let low = scope.sample("low", Normal::new(0.0, 1.0))?;
        scope.sample("z", Normal::new(0.0, 1.0).truncated(low, f64::INFINITY))
    });
    let error = short_fit(&moving, |_| {}).unwrap_err();
    assert!(matches!(inner(&error), Error::Argument { argument: "support", .. }), "{error:?}");
    // The first event has no bound or zero, the second another.
    let apart = [
        Recipe::global(|scope| {
            let low = vector(&[f64::NEG_INFINITY, 0.0]);
            scope.sample("z", Normal::new(0.0, 1.0).iid([2]).truncated(low, f64::INFINITY))
        }),
        Recipe::global(|scope| {
            scope.sample("z", Normal::new(0.0, 1.0).iid([2]).truncated(vector(&[0.0, 1.0]), f64::INFINITY))
        }),
    ];
    for apart in apart {
        let error = short_fit(&apart, |_| {}).unwrap_err();
        assert!(matches!(inner(&error), Error::Argument { argument: "support", .. }), "{error:?}");
    }
    // Constant bounds are no obstacle.
    let constant = Recipe::global(|scope| scope.sample("z", Normal::new(0.0, 1.0).truncated(0.0, f64::INFINITY)));
    assert!(short_fit(&constant, |_| {}).is_ok());
}

/// A network with one layer: six weights.
#[derive(Module, Debug)]
struct Weights {
    weights: Param<Tensor<2>>,
}

fn weights() -> Weights {
    Weights { weights: Param::from_tensor(Device::flex().tensor(vec![0.1; 6], [3, 2])) }
}

#[test]
fn a_prior_of_many_numbers_over_a_module_is_refused() {
    let model = Recipe::global(|scope| {
        scope.module("network", &weights(), Normal::new(vector(&[0.0; 3]), 1.0))?;
        scope.sample("mu", Normal::new(0.0, 1.0))
    });
    refused!(table(&model), Error::Shape { .. }, ["module `network`", "[3]", "[1]", "prior of one number"]);
}

#[test]
fn a_module_in_a_plate_is_refused() {
    let model = Recipe::local(|scope, _, _| {
        scope.plate("row", 3, |scope, _| scope.module("network", &weights(), Normal::new(0.0, 1.0)).map(drop))
    });
    refused!(table(&model), Error::Plate { .. }, ["plate `row`", "module `network`", "outside the plate"]);
}

/// Counts evaluations of the models that change.
static CALLS: [AtomicUsize; 4] = [const { AtomicUsize::new(0) }; 4];

/// Whether this evaluation is after the third: the model was read for its table, and fitted for several steps.
fn is_late(model: usize) -> bool {
    CALLS[model].fetch_add(1, Ordering::Relaxed) >= 3
}

#[test]
fn a_site_that_changes_its_name_or_distribution_appears_or_disappears_in_mid_run_is_refused() {
    let changing: [(Local, &[&str]); 4] = [
        (
            |scope, mu, data| {
                let name = if is_late(0) { "other" } else { "y" };
                scope.observe(name, Normal::new(mu.clone().expand(data.dims()), 1.0), data.clone())
            },
            &["declares `other Normal [", "site table has `y Normal [", "same sites in the same order"],
        ),
        (
            |scope, mu, data| {
                scope.observe("y", Normal::new(mu.clone().expand(data.dims()), 1.0), data.clone())?;
                if is_late(1) { scope.sample("new", Normal::new(0.0, 1.0)).map(drop) } else { Ok(()) }
            },
            &["declares `new Normal [1]`", "no further site"],
        ),
        (
            |scope, mu, data| match is_late(2) {
                true => Ok(()),
                false => scope.observe("y", Normal::new(mu.clone().expand(data.dims()), 1.0), data.clone()),
            },
            &["declares `no further site`", "site table has `y Normal ["],
        ),
        (
            |scope, _, _| {
                let prior = if is_late(3) { HalfNormal::new(1.0) } else { Normal::new(0.0, 1.0) };
                scope.sample("z", prior).map(drop)
            },
            &["declares `z HalfNormal [1]`", "site table has `z Normal [1]`"],
        ),
    ];
    for (local, words) in changing {
        let error = short_fit(&Recipe::local(local), |_| {}).unwrap_err();
        assert!(matches!(inner(&error), Error::ChangingStructure { .. }), "{error:?}");
        says(&error, words);
    }
}

/// A model whose globals depend on the number of its evaluations, like two versions of a model.
#[derive(Module, Debug)]
struct TwoVersions {
    #[module(skip)]
    calls: std::sync::Arc<AtomicUsize>,
}

impl partita::Model for TwoVersions {
    type Globals = Tensor<1>;
    type Data = Tensor<1>;

    fn global(&self, scope: &mut partita::Scope<'_>) -> partita::Result<Tensor<1>> {
        let name = if self.calls.fetch_add(1, Ordering::Relaxed) < 3 { "mu" } else { "nu" };
        scope.sample(name, Normal::new(0.0, 1.0))
    }

    fn local(&self, _: &mut partita::Scope<'_>, _: &Tensor<1>, _: &Tensor<1>) -> partita::Result<()> {
        Ok(())
    }
}

#[test]
fn a_silo_with_other_globals_than_the_coordinator_is_named() {
    // Three readings on the coordinator; the silo then declares another site.
    let model = TwoVersions { calls: std::sync::Arc::default() };
    let result = check(&model, &silos(&[&[1.0]]), &Device::flex());
    refused!(result, FitError::OtherModel { .. }, ["silo `a`", "nu Normal [1]", "mu Normal [1]", "the same model"]);
}

#[test]
fn vectors_of_other_lengths_than_the_site_table_are_refused() {
    let (device, model, data) = (Device::flex(), hierarchy(), vector(&[0.5, -1.0, 2.0]));
    let table = SiteTable::of(&model, &device, &data).unwrap();
    let density = LogDensity::new(&model, &device, &table);
    refused!(density.global(&[0.0; 2]), Error::Length { .. }, ["global vector", "found 2", "expected 1", "site table"]);
    let result = density.local(Latents { globals: &[0.0], locals: &[] }, &data);
    refused!(result, Error::Length { .. }, ["local blocks", "found 0", "expected 1"]);
    let result = density.joint(Latents { globals: &[0.0], locals: &[vec![0.0; 4]] }, &data);
    refused!(result, Error::Length { .. }, ["local vector", "found 4", "expected 3"]);
    let noise = partita::core::DrawNoise { noise: partita::core::Noise::new(1), index: 0 };
    let at = partita::core::Predictive { globals: &[], locals: None, noise };
    let draw = predictive_draw(&model, &device, &table, &data, at);
    refused!(draw, Error::Length { .. }, ["global vector", "found 0"]);
    refused!(Array::new(vec![1.0; 3], vec![2, 2]), Error::Length { .. }, ["[2, 2]", "found 3", "expected 4"]);
}

#[test]
fn theta_of_another_length_is_refused() {
    let device = Device::flex();
    assert_eq!(theta(&weights()).unwrap().len(), 6);
    refused!(with_theta(&weights(), &[0.0; 5], &device), Error::Length { .. }, ["θ", "found 5", "expected 6"]);
}

#[test]
fn minibatches_of_no_row_and_of_rows_there_are_not_are_refused() {
    let (device, model, data) = (Device::flex(), sound(), vector(&[0.5, -1.0, 2.0]));
    let table = SiteTable::of(&model, &device, &data).unwrap();
    let evaluate = |rows: Vec<usize>| {
        let minibatch = [Minibatch::new("row", rows)];
        let latents = Latents { globals: &[0.0], locals: &[Vec::new()] };
        LogDensity::new(&model, &device, &table).minibatch(&minibatch).local(latents, &data)
    };
    refused!(evaluate(vec![]), Error::Plate { .. }, ["plate `row`", "no rows", "at least one"]);
    refused!(evaluate(vec![0, 3]), Error::Plate { .. }, ["plate `row`", "row 3", "3 rows"]);
    assert!(evaluate(vec![2]).is_ok());
}

#[test]
fn a_start_outside_the_support_is_refused_with_site_value_and_support() {
    let model = Recipe::global(|scope| scope.sample("rate", Gamma::new(2.0, 1.0).start(-1.5)));
    refused!(table(&model), Error::Support { .. }, ["start of site `rate`", "-1.5", "numbers > 0"]);
    let model = Recipe::global(|scope| scope.sample("share", Uniform::new(0.0, 1.0).start(1.0)));
    refused!(table(&model), Error::Support { .. }, ["start of site `share`", "(0, 1)"]);
    let model = Recipe::global(|scope| scope.sample("cuts", Normal::new(0.0, 1.0).iid([2]).ordered().start(0.5)));
    refused!(table(&model), Error::Support { .. }, ["start of site `cuts`", "0.5", "increasing"]);
    let model = Recipe::global(|scope| scope.sample("mu", Normal::new(0.0, 1.0).start(f64::NAN)));
    refused!(table(&model), Error::Support { .. }, ["start of site `mu`", "real numbers"]);
    let model = Recipe::global(|scope| scope.sample("mu", Normal::new(0.0, 1.0).iid([3]).start(vector(&[1.0, 2.0]))));
    refused!(table(&model), Error::Shape { .. }, ["start of site `mu`", "[2]", "[3]", "one number"]);
    let model = Recipe::global(|scope| scope.sample("mu", Normal::new(0.0, 1.0).start_scale(0.0)));
    refused!(table(&model), Error::Argument { .. }, ["site `mu`", "start_scale", "> 0"]);
}
