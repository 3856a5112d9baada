//! Fits a mixture of two normal distributions, whose means are ordered so that they keep their names.

use fixtures::cookbook::{Bounds, Columns, holds};
use partita::Device;

// ANCHOR: model
use partita::burn::{self, module::Module, tensor::Tensor};
use partita::{HalfNormal, Mixture, Model, Normal, Result, Scope};

#[derive(Module, Debug)]
struct TwoNormals {}

struct Globals {
    logit: Tensor<1>, // log odds of the lower component
    mean: Tensor<1>,
    sd: Tensor<1>,
}

impl Model for TwoNormals {
    type Globals = Globals;
    type Data = Tensor<1>; // one number a row

    fn global(&self, scope: &mut Scope) -> Result<Globals> {
        Ok(Globals {
            logit: scope.sample("logit", Normal::new(0.0, 1.5))?,
            mean: scope.sample("mean", Normal::new(0.0, 3.0).iid([2]).ordered())?,
            sd: scope.sample("sd", HalfNormal::new(2.0).iid([2]))?,
        })
    }

    fn local(&self, scope: &mut Scope, globals: &Globals, data: &Tensor<1>) -> Result<()> {
        scope.plate("row", data.dims()[0], |scope, rows| {
            let of = |both: &Tensor<1>, k| both.clone().narrow(0, k, 1);
            let component = |k| Normal::new(of(&globals.mean, k), of(&globals.sd, k)).over(rows);
            let logits = Tensor::cat(vec![globals.logit.clone(), globals.logit.zeros_like()], 0);
            scope.observe("y", Mixture::logits(logits, vec![component(0), component(1)]), rows.take(data)?)
        })
    }
}
// ANCHOR_END: model

fn data(columns: &Columns, device: &Device) -> Tensor<1> {
    let y = columns.numbers("y");
    // ANCHOR: data
    let rows = y.len();
    device.tensor(y, [rows])
    // ANCHOR_END: data
}

#[test]
fn mixture_agrees_with_numpyro() {
    holds("mixture", &TwoNormals {}, data, &Bounds::default());
}
