//! Fits grades: an ordered logistic regression with cutpoints.

use fixtures::cookbook::{Bounds, Columns, holds};
use partita::Device;

// ANCHOR: model
use partita::burn::{self, module::Module, tensor::Tensor};
use partita::core::OrderedLogistic;
use partita::{Design, Model, Normal, Result, Scope};

#[derive(Module, Debug)]
struct Grades {}

#[derive(Clone)]
struct Patients {
    design: Design,   // [patients, 1, 2]: arm and age, no intercept
    grade: Tensor<2>, // [patients, 1]: 0, 1, 2 or 3
}

impl Model for Grades {
    type Globals = (Tensor<1>, Tensor<1>);
    type Data = Patients;

    fn global(&self, scope: &mut Scope) -> Result<Self::Globals> {
        let beta = scope.sample("beta", Normal::new(0.0, 2.5).iid([2]))?;
        Ok((beta, scope.sample("cut", Normal::new(0.0, 3.0).iid([3]).ordered())?))
    }

    fn local(&self, scope: &mut Scope, (beta, cut): &Self::Globals, data: &Patients) -> Result<()> {
        scope.plate("patient", data.grade.dims()[0], |scope, rows| {
            let eta = data.design.take(rows)?.predictor(beta.clone(), None)?;
            scope.observe("grade", OrderedLogistic::new(eta, cut.clone()), rows.take(&data.grade)?)
        })
    }
}
// ANCHOR_END: model

fn data(columns: &Columns, device: &Device) -> Patients {
    let [arm, age, grade] = ["arm", "age", "grade"].map(|name| columns.numbers(name));
    // ANCHOR: data
    let rows = grade.len();
    let covariates = arm.iter().zip(&age).flat_map(|(arm, age)| [*arm, *age]).collect();
    Patients { design: Design::new(covariates, [rows, 1, 2]).unwrap(), grade: device.tensor(grade, [rows, 1]) }
    // ANCHOR_END: data
}

#[test]
fn ordinal_agrees_with_numpyro() {
    holds("ordinal", &Grades {}, data, &Bounds::default());
}
