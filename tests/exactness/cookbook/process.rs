//! Fits a curve: a Gaussian process by basis functions, whose weights all silos share.

use fixtures::cookbook::{Bounds, Columns, holds};
use partita::Device;

// ANCHOR: model
use partita::burn::{self, module::Module, tensor::Tensor};
use partita::models::priors::{BasisFunctions, Kernel, basis_process};
use partita::{Design, HalfNormal, LogNormal, Model, Normal, Result, Scope};

#[derive(Module, Debug)]
struct Curve {
    #[module(skip)]
    basis: BasisFunctions, // the same in all silos
}

#[derive(Clone)]
struct Points {
    design: Design<2>, // [rows, functions]
    y: Tensor<1>,
}

impl Model for Curve {
    type Globals = (Tensor<1>, Tensor<1>);
    type Data = Points;

    fn global(&self, scope: &mut Scope) -> Result<Self::Globals> {
        let amplitude = scope.sample("amplitude", HalfNormal::new(1.5))?;
        let length = scope.sample("length", LogNormal::new(-0.7, 0.5))?;
        let curve = basis_process(scope, "curve", &self.basis, &Kernel { amplitude, length })?;
        Ok((curve, scope.sample("sigma", HalfNormal::new(1.0))?))
    }

    fn local(&self, scope: &mut Scope, (curve, sigma): &Self::Globals, data: &Points) -> Result<()> {
        scope.plate("row", data.y.dims()[0], |scope, rows| {
            let mean = data.design.take(rows)?.predictor(curve.clone(), None)?;
            scope.observe("y", Normal::new(mean, sigma.clone()), rows.take(&data.y)?)
        })
    }
}
// ANCHOR_END: model

// ANCHOR: basis
/// Twelve functions for x between -1 and 1, with a boundary factor of 1.5.
fn basis() -> BasisFunctions {
    BasisFunctions::new([-1.0, 1.0], 1.5, 12).unwrap()
}
// ANCHOR_END: basis

fn data(columns: &Columns, device: &Device) -> Points {
    let [x, y] = ["x", "y"].map(|name| columns.numbers(name));
    // ANCHOR: data
    let rows = y.len();
    Points { design: basis().design(&x).unwrap(), y: device.tensor(y, [rows]) }
    // ANCHOR_END: data
}

#[test]
fn process_agrees_with_numpyro() {
    holds("process", &Curve { basis: basis() }, data, &Bounds { mean: 0.4, sd: 0.65, ..Bounds::default() });
}
