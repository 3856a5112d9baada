//! Tests the errors of plates inside plates: groups that do not fit, minibatches of inner plates, panics at a site.

use partita::core::{Groups, Latents, LogDensity, Minibatch};
use partita::{Device, Error, Normal, Result, Scope, SiteTable};

use super::{Recipe, says, table, vector};

/// Rows of two groups.
fn groups() -> Groups {
    Groups::new(vec![1, 0, 1], 2).unwrap()
}

/// Three visits of two patients around `mu`.
fn nested() -> Recipe {
    Recipe::local(|scope, mu, data| {
        scope.plate("patient", 2, |scope, _| {
            let level = scope.sample("level", Normal::new(mu.clone(), 1.0))?;
            scope.plate("visit", &groups(), |scope, visits| {
                scope.observe("y", Normal::new(visits.expand(&level)?, 1.0), visits.take(data)?)
            })
        })
    })
}

#[test]
fn groups_outside_a_plate_are_refused() {
    let model = Recipe::local(|scope, _, _| scope.plate("visit", &groups(), |_, _| Ok(())));
    refused!(table(&model), Error::Plate { .. }, ["plate `visit`", "outside a plate", "2 groups", "number of rows"]);
    let model =
        Recipe::global(|scope| scope.plate("visit", &groups(), |scope, _| scope.sample("z", Normal::new(0.0, 1.0))));
    refused!(table(&model), Error::Plate { .. }, ["plate `visit`", "global function"]);
}

#[test]
fn groups_of_other_rows_than_the_plate_around_them_are_refused() {
    let model = Recipe::local(|scope, _, _| {
        scope.plate("patient", 4, |scope, _| scope.plate("visit", &groups(), |_, _| Ok(())))
    });
    let words = ["plate `visit`", "2 groups", "plate `patient` of 4 rows", "Groups::by_key_in"];
    refused!(table(&model), Error::Plate { .. }, words);
}

#[test]
fn a_plate_of_groups_is_opened_again_only_where_its_rows_belong_to_the_same_rows() {
    fn visits(scope: &mut Scope<'_>, around: &str, groups: &Groups) -> Result<()> {
        scope.plate(around, 2, |scope, _| scope.plate("visit", groups, |_, _| Ok(())))
    }
    let same = Recipe::local(|scope, _, _| {
        visits(scope, "patient", &groups())?;
        visits(scope, "patient", &groups())
    });
    assert!(table(&same).is_ok());
    let regrouped = Recipe::local(|scope, _, _| {
        visits(scope, "patient", &groups())?;
        visits(scope, "patient", &Groups::new(vec![0, 0, 1], 2).unwrap())
    });
    let elsewhere = Recipe::local(|scope, _, _| {
        visits(scope, "patient", &groups())?;
        visits(scope, "school", &groups())
    });
    let outermost = Recipe::local(|scope, _, _| {
        visits(scope, "patient", &groups())?;
        scope.plate("visit", 3, |_, _| Ok(()))
    });
    for model in [regrouped, elsewhere, outermost] {
        refused!(table(&model), Error::Plate { .. }, ["plate `visit`", "belong to other rows", "one plate name"]);
    }
}

#[test]
fn a_minibatch_of_an_inner_plate_is_refused_with_the_plate_to_name() {
    let (device, model, data) = (Device::flex(), nested(), vector(&[0.5, -1.0, 2.0]));
    let table = SiteTable::of(&model, &device, &data).unwrap();
    let evaluate = |minibatch: &[Minibatch]| {
        let locals = [vec![0.0; 2], Vec::new()];
        let latents = Latents { globals: &[0.0], locals: &locals };
        LogDensity::new(&model, &device, &table).minibatch(minibatch).local(latents, &data)
    };
    let words = ["plate `visit`", "follow those of plate `patient`", "Name `patient`"];
    refused!(evaluate(&[Minibatch::new("visit", vec![0, 2])]), Error::Plate { .. }, words);
    let words = ["plate `patient`", "row 2", "2 rows"];
    refused!(evaluate(&[Minibatch::new("patient", vec![0, 2])]), Error::Plate { .. }, words);
    assert!(evaluate(&[Minibatch::new("patient", vec![0, 1])]).is_ok());
}

#[test]
fn an_expanded_tensor_of_other_rows_than_the_outer_ones_is_refused() {
    let model = Recipe::local(|scope, _, data| {
        scope.plate("patient", 2, |scope, _| scope.plate("visit", &groups(), |_, visits| visits.expand(data).map(drop)))
    });
    refused!(table(&model), Error::Shape { .. }, ["rows.expand", "found shape [3]", "expected [2]", "enclosing plate"]);
    let model = Recipe::local(|scope, _, data| scope.plate("row", 3, |_, rows| rows.expand(data).map(drop)));
    refused!(
        table(&model),
        Error::Shape { .. },
        ["rows.expand", "found shape [3]", "expected [1]", "one for the silo"]
    );
}

#[test]
fn data_of_other_inner_rows_than_the_site_table_are_refused() {
    let (device, model) = (Device::flex(), nested());
    let table = SiteTable::of(&model, &device, &vector(&[0.5, -1.0, 2.0])).unwrap();
    let locals = [vec![0.0; 2], Vec::new()];
    let latents = Latents { globals: &[0.0], locals: &locals };
    let result = LogDensity::new(&model, &device, &table).local(latents, &vector(&[0.5, -1.0]));
    refused!(result, Error::Shape { .. }, ["rows.take", "found shape [2]", "expected [3]"]);
}

#[test]
fn an_index_out_of_range_is_an_error_that_names_the_last_site() {
    let model = Recipe::local(|scope, _, data| {
        scope.plate("row", 3, |scope, rows| {
            let z = scope.sample("effect", Normal::new(0.0, 1.0))?;
            let missing = [1.0, 2.0, 3.0][rows.len() + data.dims()[0] - 3];
            scope.observe("y", Normal::new(z, missing), data.clone())
        })
    });
    let error = table(&model).unwrap_err();
    assert!(matches!(error, Error::Panicked { .. }), "{error:?}");
    says(&error, &["panicked after site `effect`", "index out of bounds", "nesting.rs:", "rows of the plate"]);
    let model = Recipe::global(|_| panic!("nothing yet"));
    refused!(table(&model), Error::Panicked { .. }, ["before its first site", "nothing yet"]);
}
