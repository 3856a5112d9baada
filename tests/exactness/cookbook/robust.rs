//! Fits a line to data with outliers: Student's t in place of the normal distribution.

use fixtures::cookbook::{Bounds, Columns, holds};
use partita::Device;

// ANCHOR: model
use partita::burn::{self, module::Module, tensor::Tensor};
use partita::{Design, Gamma, HalfNormal, Model, Normal, Result, Scope, StudentT};

#[derive(Module, Debug)]
struct Robust {}

struct Globals {
    beta: Tensor<1>,
    sigma: Tensor<1>,
    degrees: Tensor<1>,
}

#[derive(Clone)]
struct Measurements {
    design: Design, // [rows, 1, 2]: one and x
    y: Tensor<2>,   // [rows, 1]
}

impl Model for Robust {
    type Globals = Globals;
    type Data = Measurements;

    fn global(&self, scope: &mut Scope) -> Result<Globals> {
        Ok(Globals {
            beta: scope.sample("beta", Normal::new(0.0, 2.5).iid([2]))?,
            sigma: scope.sample("sigma", HalfNormal::new(2.0))?,
            degrees: scope.sample("degrees", Gamma::new(2.0, 0.1))?,
        })
    }

    fn local(&self, scope: &mut Scope, globals: &Globals, data: &Measurements) -> Result<()> {
        scope.plate("row", data.y.dims()[0], |scope, rows| {
            let mean = data.design.take(rows)?.predictor(globals.beta.clone(), None)?;
            let (degrees, sigma) = (globals.degrees.clone(), globals.sigma.clone());
            scope.observe("y", StudentT::new(degrees, mean, sigma), rows.take(&data.y)?)
        })
    }
}
// ANCHOR_END: model

fn data(columns: &Columns, device: &Device) -> Measurements {
    let x = columns.numbers("x");
    // ANCHOR: data
    let design = Design::new(x.iter().flat_map(|x| [1.0, *x]).collect(), [x.len(), 1, 2]).unwrap();
    let y = device.tensor(columns.numbers("y"), [x.len(), 1]);
    Measurements { design, y }
    // ANCHOR_END: data
}

#[test]
fn robust_regression_agrees_with_numpyro() {
    holds("robust", &Robust {}, data, &Bounds::default());
}
