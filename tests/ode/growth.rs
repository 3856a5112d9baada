//! Fits growth in time that follows a differential equation, measured with a relative error.

use fixtures::cookbook::{Bounds, Columns, holds};
use partita::{Device, Nuts};

// ANCHOR: model
use partita::burn::{self, module::Module, tensor::Tensor};
use partita::core::Real;
use partita::core::ode::{Ode, OdeOptions, OdeSystem, ode};
use partita::{HalfNormal, LogNormal, Model, Result, Scope};

/// x' = r x (1 - x / K).
struct Logistic;

impl OdeSystem for Logistic {
    fn derivative<T: Real>(&self, _time: f64, x: &[T], p: &[T], derivative: &mut [T]) {
        derivative[0] = p[0] * x[0] - p[0] * x[0] * x[0] / p[1];
    }
}

#[derive(Module, Debug)]
struct Growth {}

#[derive(Clone)]
struct Measured {
    times: Vec<f64>, // ascending
    y: Tensor<1>,
}

impl Model for Growth {
    type Globals = [Tensor<1>; 4];
    type Data = Measured;

    fn global(&self, scope: &mut Scope) -> Result<Self::Globals> {
        let rate = scope.sample("rate", LogNormal::new(0.0, 0.5))?;
        let capacity = scope.sample("capacity", LogNormal::new(2.0, 0.5))?;
        let start = scope.sample("start", LogNormal::new(0.0, 0.5))?;
        Ok([rate, capacity, start, scope.sample("sigma", HalfNormal::new(0.5))?])
    }

    fn local(&self, scope: &mut Scope, globals: &Self::Globals, data: &Measured) -> Result<()> {
        let [rate, capacity, start, sigma] = globals.clone();
        let (initial, parameters) = (start.into(), vec![rate.into(), capacity.into()]);
        // Errors of 1e-6 are far below those of the measurements.
        let options = OdeOptions { relative: 1e-6, absolute: 1e-6, ..OdeOptions::default() };
        let times = data.times.clone();
        let states = ode("growth", Logistic, Ode { initial, parameters, start: 0.0, times, options })?;
        let log_x = states.log().flatten::<1>(0, 1);
        scope.plate("row", data.times.len(), |scope, rows| {
            scope.observe("y", LogNormal::new(rows.take(&log_x)?, sigma), rows.take(&data.y)?)
        })
    }
}
// ANCHOR_END: model

fn data(columns: &Columns, device: &Device) -> Measured {
    let [times, y] = ["time", "y"].map(|name| columns.numbers(name));
    // ANCHOR: data
    let rows = times.len();
    Measured { times, y: device.tensor(y, [rows]) }
    // ANCHOR_END: data
}

#[test]
fn growth_agrees_with_numpyro() {
    // Half the chains of other pages: a gradient takes a solution with four sensitivities.
    let nuts = Nuts { chains: 2, ..Bounds::default().nuts };
    holds("ode", &Growth {}, data, &Bounds { nuts, sd: 0.2, ..Bounds::default() });
}
