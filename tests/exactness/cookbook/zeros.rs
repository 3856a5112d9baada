//! Fits counts with more zeros than a Poisson distribution has.

use fixtures::cookbook::{Bounds, Columns, holds};
use partita::Device;

// ANCHOR: model
use partita::burn::{self, module::Module, tensor::Tensor};
use partita::{Chance, Design, Model, Normal, Poisson, Result, Scope};

#[derive(Module, Debug)]
struct Zeros {}

#[derive(Clone)]
struct Counts {
    design: Design, // [rows, 1, 2]: one and x
    y: Tensor<2>,   // [rows, 1]
}

impl Model for Zeros {
    type Globals = (Tensor<1>, Tensor<1>);
    type Data = Counts;

    fn global(&self, scope: &mut Scope) -> Result<Self::Globals> {
        let beta = scope.sample("beta", Normal::new(0.0, 2.5).iid([2]))?;
        Ok((beta, scope.sample("gate", Normal::new(0.0, 1.5))?))
    }

    fn local(&self, scope: &mut Scope, (beta, gate): &Self::Globals, data: &Counts) -> Result<()> {
        scope.plate("row", data.y.dims()[0], |scope, rows| {
            let log_rate = data.design.take(rows)?.predictor(beta.clone(), None)?;
            let counts = Poisson::log_rate(log_rate).zero_inflated(Chance::logits(gate.clone().unsqueeze()));
            scope.observe("y", counts, rows.take(&data.y)?)
        })
    }
}
// ANCHOR_END: model

fn data(columns: &Columns, device: &Device) -> Counts {
    let [x, y] = ["x", "y"].map(|name| columns.numbers(name));
    // ANCHOR: data
    let design = Design::new(x.iter().flat_map(|x| [1.0, *x]).collect(), [x.len(), 1, 2]).unwrap();
    Counts { design, y: device.tensor(y, [x.len(), 1]) }
    // ANCHOR_END: data
}

#[test]
fn counts_with_zeros_agree_with_numpyro() {
    holds("zeros", &Zeros {}, data, &Bounds::default());
}
