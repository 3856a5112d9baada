//! Fits times to an event, some of which are only known to be longer than was observed.

use fixtures::cookbook::{Bounds, Columns, holds};
use partita::Device;

// ANCHOR: model
use partita::burn::{self, module::Module, tensor::Tensor};
use partita::core::Weibull;
use partita::{Censoring, Design, LogNormal, Model, Normal, Result, Scope};

#[derive(Module, Debug)]
struct Survival {}

#[derive(Clone)]
struct Patients {
    design: Design,  // [patients, 1, 3]: one, arm, age
    time: Tensor<2>, // [patients, 1]
    died: Tensor<2>, // 1: died then; 0: still alive then
}

impl Model for Survival {
    type Globals = (Tensor<1>, Tensor<1>);
    type Data = Patients;

    fn global(&self, scope: &mut Scope) -> Result<Self::Globals> {
        let shape = scope.sample("shape", LogNormal::new(0.0, 1.0))?;
        Ok((shape, scope.sample("beta", Normal::new(0.0, 2.5).iid([3]))?))
    }

    fn local(&self, scope: &mut Scope, (shape, beta): &Self::Globals, data: &Patients) -> Result<()> {
        scope.plate("patient", data.time.dims()[0], |scope, rows| {
            let scale = data.design.take(rows)?.predictor(beta.clone(), None)?.exp();
            let died = Censoring::right(rows.take(&data.died)?);
            let time = Weibull::new(shape.clone(), scale).censored(died);
            scope.observe("time", time, rows.take(&data.time)?)
        })
    }
}
// ANCHOR_END: model

fn data(columns: &Columns, device: &Device) -> Patients {
    let [arm, age, time, died] = ["arm", "age", "time", "died"].map(|name| columns.numbers(name));
    // ANCHOR: data
    let covariates = arm.iter().zip(&age).flat_map(|(arm, age)| [1.0, *arm, *age]).collect();
    let rows = time.len();
    let design = Design::new(covariates, [rows, 1, 3]).unwrap();
    Patients { design, time: device.tensor(time, [rows, 1]), died: device.tensor(died, [rows, 1]) }
    // ANCHOR_END: data
}

#[test]
fn survival_agrees_with_numpyro() {
    holds("survival", &Survival {}, data, &Bounds::default());
}
