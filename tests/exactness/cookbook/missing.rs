//! Fits a line where some covariates are missing: they are latent numbers of their rows.

use fixtures::cookbook::{Bounds, Columns, holds};
use partita::Device;

// ANCHOR: model
use partita::burn::{self, module::Module, tensor::Tensor};
use partita::{HalfNormal, Model, Normal, Result, Scope};

#[derive(Module, Debug)]
struct Missing {}

#[derive(Clone)]
struct Rows {
    complete: [Tensor<1>; 2], // x and y of the rows with both
    y: Tensor<1>,             // y of the rows without x
}

impl Model for Missing {
    type Globals = [Tensor<1>; 4];
    type Data = Rows;

    fn global(&self, scope: &mut Scope) -> Result<Self::Globals> {
        let beta = scope.sample("beta", Normal::new(0.0, 2.5).iid([2]))?;
        let sigma = scope.sample("sigma", HalfNormal::new(2.0))?;
        let centre = scope.sample("centre", Normal::new(0.0, 2.5))?;
        Ok([beta, sigma, centre, scope.sample("spread", HalfNormal::new(2.0))?])
    }

    fn local(&self, scope: &mut Scope, globals: &Self::Globals, data: &Rows) -> Result<()> {
        let [beta, sigma, centre, spread] = globals.clone();
        let line = |x| Normal::new(beta.clone().narrow(0, 0, 1) + beta.clone().narrow(0, 1, 1) * x, sigma.clone());
        let covariate = Normal::new(centre, spread);
        scope.plate("complete", data.complete[0].dims()[0], |scope, rows| {
            let [x, y] = [rows.take(&data.complete[0])?, rows.take(&data.complete[1])?];
            scope.observe("x", covariate.clone().over(rows), x.clone())?;
            scope.observe("y", line(x), y)
        })?;
        scope.plate("incomplete", data.y.dims()[0], |scope, rows| {
            let x = scope.sample("absent", covariate.clone())?;
            scope.observe("z", line(x), rows.take(&data.y)?)
        })
    }
}
// ANCHOR_END: model

fn data(columns: &Columns, device: &Device) -> Rows {
    let [x, seen, y] = ["x", "seen", "y"].map(|name| columns.numbers(name));
    // ANCHOR: data
    let part = |column: &[f64], is_seen: f64| {
        let kept: Vec<f64> = column.iter().zip(&seen).filter(|(_, own)| **own == is_seen).map(|(v, _)| *v).collect();
        let rows = kept.len();
        device.tensor::<1>(kept, [rows])
    };
    Rows { complete: [part(&x, 1.0), part(&y, 1.0)], y: part(&y, 0.0) }
    // ANCHOR_END: data
}

#[test]
fn missing_covariates_agree_with_numpyro() {
    holds("missing", &Missing {}, data, &Bounds::default());
}
