//! Fits patients with unequal numbers of visits: a logistic regression with an effect of each patient.

use fixtures::cookbook::{Bounds, Columns, holds};
use partita::Device;

// ANCHOR: model
use partita::burn::{self, module::Module, tensor::Tensor};
use partita::{Bernoulli, Design, Groups, HalfNormal, Model, Normal, Result, Scope};

#[derive(Module, Debug)]
struct Visits {}

#[derive(Clone)]
struct Clinic {
    visits: Groups, // the patient of each visit
    design: Design, // [visits, 1, 3]: one, treated, week
    y: Tensor<2>,   // [visits, 1]
}

impl Model for Visits {
    type Globals = (Tensor<1>, Tensor<1>);
    type Data = Clinic;

    fn global(&self, scope: &mut Scope) -> Result<Self::Globals> {
        let beta = scope.sample("beta", Normal::new(0.0, 2.5).iid([3]))?;
        Ok((beta, scope.sample("sd", HalfNormal::new(2.0))?))
    }

    fn local(&self, scope: &mut Scope, (beta, sd): &Self::Globals, data: &Clinic) -> Result<()> {
        scope.plate("patient", data.visits.groups(), |scope, _| {
            let b = scope.sample("b", Normal::new(0.0, sd.clone()).non_centred())?;
            scope.plate("visit", &data.visits, |scope, visits| {
                let logits = data.design.take(visits)?.predictor(beta.clone(), Some(visits.expand(&b)?))?;
                scope.observe("y", Bernoulli::logits(logits), visits.take(&data.y)?)
            })
        })
    }
}
// ANCHOR_END: model

fn data(columns: &Columns, device: &Device) -> Clinic {
    let [patient, treated, week, y] = ["patient", "treated", "week", "y"].map(|name| columns.numbers(name));
    // ANCHOR: data
    let visits = Groups::by_key(&patient).unwrap();
    let covariates = treated.iter().zip(&week).flat_map(|(treated, week)| [1.0, *treated, *week]).collect();
    let design = Design::new(covariates, [y.len(), 1, 3]).unwrap();
    Clinic { visits, design, y: device.tensor(y.clone(), [y.len(), 1]) }
    // ANCHOR_END: data
}

#[test]
fn unequal_groups_agree_with_numpyro() {
    holds("unequal_groups", &Visits {}, data, &Bounds::default());
}
