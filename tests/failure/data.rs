//! Tests the errors of bad data: missing, infinite, outside the support, of the wrong shape, or empty.

use partita::core::Groups;
use partita::inference::{Error as FitError, check};
use partita::{Bernoulli, Binomial, Design, Device, Error, Gamma, Multinomial, Normal, Poisson};

use super::{Recipe, fit_over, inner, says, silos, sound, table, vector};

#[test]
fn missing_data_are_named_with_site_and_index() {
    for missing in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let result = partita::SiteTable::of(&sound(), &Device::flex(), &vector(&[0.5, missing, 2.0]));
        refused!(result, Error::NotFinite { index: 1, .. }, ["site `y`", "plate `row`", "index 1", "impute"]);
    }
}

#[test]
fn a_fit_names_the_silo_of_missing_data() {
    let error = fit_over(&sound(), &silos(&[&[1.0], &[2.0, f64::NAN]]), |_| {}).unwrap_err();
    assert!(matches!(&error, FitError::InSilo { silo, step: 0, .. } if silo == "b"), "{error:?}");
    assert!(matches!(inner(&error), Error::NotFinite { index: 1, .. }), "{error:?}");
    says(&error, &["silo `b`", "site `y`"]);
}

#[test]
fn a_check_names_the_silo_of_missing_data() {
    let error = check(&sound(), &silos(&[&[1.0], &[f64::NAN]]), &Device::flex()).unwrap_err();
    assert!(matches!(&error, FitError::InSilo { silo, .. } if silo == "b"), "{error:?}");
}

#[test]
fn an_infinite_design_is_named_with_the_index() {
    let result = Design::new(vec![1.0, f64::INFINITY, 0.0, 1.0], [2, 1, 2]);
    refused!(result, Error::NotFinite { index: 1, .. }, ["design matrix", "inf", "index 1", "impute"]);
}

#[test]
fn a_design_with_other_numbers_than_cells_is_refused() {
    let result = Design::new(vec![1.0; 5], [2, 1, 2]);
    refused!(result, Error::Length { found: 5, expected: 4, .. }, ["[2, 1, 2]", "found 5", "expected 4"]);
}

#[test]
fn a_bernoulli_outcome_of_two_is_refused() {
    let model = Recipe::local(|scope, mu, _| {
        scope.plate("row", 3, |scope, _| scope.observe("y", Bernoulli::logits(mu.clone()), vector(&[0.0, 1.0, 2.0])))
    });
    refused!(table(&model), Error::Support { index: 2, .. }, ["site `y`", "value 2", "0 or 1", "coding"]);
}

#[test]
fn a_negative_count_and_half_a_count_are_refused() {
    let model = Recipe::local(|scope, mu, _| {
        scope.plate("row", 2, |scope, _| scope.observe("y", Poisson::log_rate(mu.clone()), vector(&[3.0, -1.0])))
    });
    refused!(table(&model), Error::Support { index: 1, .. }, ["site `y`", "value -1", "Poisson", "counts"]);
    let model = Recipe::local(|scope, mu, _| {
        scope.plate("row", 2, |scope, _| scope.observe("y", Poisson::log_rate(mu.clone()), vector(&[0.5, 1.0])))
    });
    refused!(table(&model), Error::Support { index: 0, .. }, ["value 0.5"]);
}

#[test]
fn more_successes_than_trials_are_refused() {
    let model = Recipe::local(|scope, mu, _| {
        scope.plate("row", 2, |scope, _| scope.observe("y", Binomial::logits(4.0, mu.clone()), vector(&[4.0, 5.0])))
    });
    refused!(table(&model), Error::Support { index: 1, .. }, ["value 5", "0 to 4"]);
}

#[test]
fn half_a_count_in_a_vector_of_counts_is_refused() {
    let model = Recipe::local(|scope, _, _| {
        let logits = scope.device().tensor(vec![0.0; 6], [2, 3]);
        let counts = scope.device().tensor(vec![1.0, 1.0, 1.0, 1.0, 1.5, 0.5], [2, 3]);
        scope.plate("row", 2, |scope, _| scope.observe("y", Multinomial::logits(3.0, logits), counts))
    });
    refused!(
        table(&model),
        Error::Support { .. },
        ["site `y`", "Multinomial", "vectors of counts", "value 1.5", "index 4"]
    );
}

#[test]
fn a_waiting_time_of_zero_is_refused() {
    let model = Recipe::local(|scope, _, _| {
        scope.plate("row", 2, |scope, _| scope.observe("y", Gamma::new(2.0, 1.0), vector(&[1.0, 0.0])))
    });
    refused!(table(&model), Error::Support { index: 1, .. }, ["site `y`", "Gamma", "> 0"]);
}

#[test]
fn data_of_another_length_than_the_distribution_are_refused() {
    let model = Recipe::local(|scope, mu, data| scope.observe("y", Normal::new(mu.clone(), 1.0), data.clone()));
    refused!(table(&model), Error::Shape { .. }, ["site `y`", "[3]", "[1]", "broadcast"]);
}

#[test]
fn a_column_is_not_broadcast_against_a_row() {
    let model = Recipe::local(|scope, mu, data| {
        scope.plate("row", 3, |scope, _| {
            // [3, 1] - [1, 3] is [3, 3] in Burn; the observation is [3, 1].
            let location = mu.clone().expand([1, 3]);
            let residual = data.clone().reshape([3, 1]) - location;
            scope.observe("y", Normal::new(residual, 1.0), data.clone().reshape([3, 1]))
        })
    });
    refused!(table(&model), Error::Shape { .. }, ["site `y`", "[3, 1]", "[3, 3]", "broadcast"]);
}

#[test]
fn rows_of_other_data_are_refused() {
    let model = Recipe::local(|scope, mu, data| {
        scope.plate("row", 2, |scope, rows| scope.observe("y", Normal::new(mu.clone(), 1.0), rows.take(data)?))
    });
    refused!(table(&model), Error::Shape { .. }, ["rows.take", "[3]", "[2]", "as many rows as the data"]);
}

#[test]
fn rows_of_another_design_are_refused() {
    let model = Recipe::local(|scope, mu, _| {
        let design = Design::new(vec![1.0; 4], [4, 1, 1])?;
        scope.plate("row", 3, |_, rows| design.take(rows)?.predictor(mu.clone(), None).map(drop))
    });
    refused!(table(&model), Error::Shape { .. }, ["design", "[4, 1, 1]", "[3, 1, 1]"]);
}

#[test]
fn a_tensor_of_rank_1_with_several_elements_beside_a_higher_rank_is_refused() {
    let matrix = Device::flex().tensor(vec![1.0; 6], [3, 2]);
    for (law, name) in [
        (Normal::new(matrix.clone(), vector(&[1.0, 2.0])), "parameter `scale` of Normal"),
        (Normal::new(vector(&[1.0; 3]), matrix.clone()), "parameter `location` of Normal"),
        (Normal::new(matrix.slice([0..1, 0..1]), vector(&[1.0, 2.0])), "parameter `scale` of Normal"),
    ] {
        refused!(law.mean(), Error::Shape { .. }, [name, "[1]", "one element"]);
    }
}

#[test]
fn intercepts_of_groups_must_be_those_of_the_enclosing_plate() {
    let model = Recipe::local(|scope, mu, data| {
        let (visits, design) = (Groups::of_sizes(&[2, 1]).unwrap(), Design::new(vec![1.0; 3], [3, 1])?);
        scope.plate("patient", 2, |scope, _| {
            scope.plate("visit", &visits, |_, rows| {
                design.take(rows)?.predictor_by_group(mu.clone(), data.clone()).map(drop)
            })
        })
    });
    refused!(table(&model), Error::Shape { .. }, ["by group", "[3]", "[2]", "enclosing plate"]);
    let design = Design::new(vec![1.0; 3], [3, 1]).unwrap();
    let result = design.predictor_by_group(vector(&[1.0]), vector(&[1.0]));
    refused!(result, Error::Argument { .. }, ["predictor_by_group", "no plate took rows", "design.take(rows)"]);
}

#[test]
fn coefficients_of_another_length_than_the_design_are_refused() {
    let design = Design::new(vec![1.0; 4], [2, 1, 2]).unwrap();
    refused!(design.predictor(vector(&[1.0; 3]), None), Error::Shape { .. }, ["coefficients", "[3]", "[2]"]);
    let result = design.predictor(vector(&[1.0; 2]), Some(vector(&[1.0; 3])));
    refused!(result, Error::Shape { .. }, ["intercepts", "[3]", "[2]", "one intercept a row"]);
}

#[test]
fn an_empty_silo_is_refused_with_its_name() {
    let error = fit_over(&sound(), &silos(&[&[1.0], &[]]), |_| {}).unwrap_err();
    assert!(matches!(inner(&error), Error::Plate { .. }), "{error:?}");
    says(&error, &["silo `b`", "plate `row`", "no rows", "leave out a silo"]);
}

#[test]
fn no_silo_is_refused() {
    refused!(fit_over(&sound(), &[], |_| {}), FitError::NoSilos, ["found no silo", "at least one", "pooled data"]);
    refused!(check(&sound(), &[], &Device::flex()), FitError::NoSilos, ["found no silo"]);
}

#[test]
fn two_silos_of_one_name_are_refused() {
    let mut twins = silos(&[&[1.0], &[2.0]]);
    twins[1].0 = "a".into();
    refused!(fit_over(&sound(), &twins, |_| {}), FitError::DuplicateSilo { .. }, ["called `a`", "its own name"]);
}
