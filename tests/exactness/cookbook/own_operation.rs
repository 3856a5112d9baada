//! Fits a dose response through a function of the user's own with its own derivatives.

use fixtures::cookbook::{Bounds, Columns, holds};
use partita::Device;
use partita::core::Handle;

// ANCHOR: operation
use partita::Result;
use partita::burn::tensor::Tensor;
use partita::core::{Array, Differentiable, custom_vjp};

/// top / (1 + (half / dose)^slope) at every dose, and its derivatives: one node of the tape.
fn response(dose: Tensor<1>, [top, half, slope]: [Tensor<1>; 3]) -> Result<Tensor<1>> {
    custom_vjp("response", [dose.into(), top.into(), half.into(), slope.into()], |inputs| {
        let [dose, top, half, slope] = [0, 1, 2, 3].map(|i| inputs[i].values.clone());
        let part: Vec<f64> = dose.iter().map(|dose| 1.0 / (1.0 + (half[0] / dose).powf(slope[0]))).collect();
        let value = Array::new(part.iter().map(|part| top[0] * part).collect(), vec![dose.len()])?;
        Ok(Differentiable::new(value, move |gradient, by| {
            for ((g, part), dose) in gradient.iter().zip(&part).zip(&dose) {
                let rest = g * top[0] * part * (1.0 - part);
                by[1][0] += g * part;
                by[2][0] -= rest * slope[0] / half[0];
                // At a dose of zero the part is zero, and so is this derivative.
                by[3][0] -= if *part > 0.0 { rest * (half[0] / dose).ln() } else { 0.0 };
            }
        }))
    })
}

// ANCHOR_END: operation

// ANCHOR: model
use partita::burn::{self, module::Module};
use partita::{HalfNormal, LogNormal, Model, Normal, Scope};

#[derive(Module, Debug)]
struct DoseResponse {}

impl Model for DoseResponse {
    type Globals = ([Tensor<1>; 3], Tensor<1>);
    type Data = [Tensor<1>; 2]; // dose and response

    fn global(&self, scope: &mut Scope) -> Result<Self::Globals> {
        let top = scope.sample("top", LogNormal::new(1.0, 1.0))?;
        let half = scope.sample("half", LogNormal::new(0.5, 1.0))?;
        let slope = scope.sample("slope", LogNormal::new(0.0, 0.5))?;
        Ok(([top, half, slope], scope.sample("sigma", HalfNormal::new(1.0))?))
    }

    fn local(&self, scope: &mut Scope, (curve, sigma): &Self::Globals, [dose, y]: &Self::Data) -> Result<()> {
        scope.plate("row", dose.dims()[0], |scope, rows| {
            let mean = response(rows.take(dose)?, curve.clone())?;
            scope.observe("y", Normal::new(mean, sigma.clone()), rows.take(y)?)
        })
    }
}
// ANCHOR_END: model

fn data(columns: &Columns, device: &Device) -> [Tensor<1>; 2] {
    let [dose, y] = ["dose", "y"].map(|name| columns.numbers(name));
    // ANCHOR: data
    let rows = dose.len();
    [device.tensor(dose, [rows]), device.tensor(y, [rows])]
    // ANCHOR_END: data
}

// ANCHOR: law
#[test]
fn response_keeps_the_law_of_operations() {
    let device = Device::flex();
    let globals = [4.0, 2.0, 1.0].map(Array::scalar); // top, half, slope
    let function = |globals: &[Handle]| {
        let [top, half, slope] = [globals[0].tensor()?, globals[1].tensor()?, globals[2].tensor()?];
        response(device.tensor(vec![2.0, 1.0], [2]), [top, half, slope]).map(Handle::from)
    };
    partita::laws::custom_operation("response", &device, &globals, &[2.0, 4.0 / 3.0], function).unwrap();
}
// ANCHOR_END: law

#[test]
fn own_operation_agrees_with_numpyro() {
    holds("own_operation", &DoseResponse {}, data, &Bounds::default());
}
