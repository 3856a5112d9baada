//! Fits largest values with a density that Partita does not have: Gumbel's, written in the model's file.

use fixtures::cookbook::{Bounds, Columns, holds};
use partita::Device;

// ANCHOR: density
use partita::core::{Density, Domain, Gradient, NoiseStream, ParameterRule, Parameters, Signature, Support};

/// log p(x) = -log s - z - exp(-z) with z = (x - m) / s.
#[derive(Debug)]
struct Gumbel;

impl Signature for Gumbel {
    fn name(&self) -> &'static str {
        "Gumbel"
    }

    fn parameters(&self) -> &'static [ParameterRule] {
        const RULES: [ParameterRule; 2] =
            [ParameterRule::number("location", Domain::Real), ParameterRule::number("scale", Domain::Positive)];
        &RULES
    }

    fn support(&self, _: [&[f64]; 3]) -> Support {
        Support::Real
    }
}

impl Density for Gumbel {
    fn log_prob(&self, value: &[f64], [location, scale, _]: [&[f64]; 3], gradient: &mut Gradient) -> f64 {
        let (s, z) = (scale[0], (value[0] - location[0]) / scale[0]);
        let slope = ((-z).exp() - 1.0) / s; // by the value
        gradient.add([slope, -slope, -slope * z - 1.0 / s, 0.0]); // by value, location, scale; there is no third
        -s.ln() - z - (-z).exp()
    }

    fn draw(&self, [location, scale, _]: [&[f64]; 3], noise: &mut NoiseStream, out: &mut [f64]) {
        out[0] = location[0] - scale[0] * (-noise.uniform().ln()).ln();
    }

    fn mean(&self, [location, scale, _]: [&[f64]; 3]) -> Option<Vec<f64>> {
        Some(vec![location[0] + 0.577_215_664_901_532_9 * scale[0]]) // Euler's constant
    }

    fn variance(&self, [_, scale, _]: [&[f64]; 3]) -> Option<Vec<f64>> {
        Some(vec![(std::f64::consts::PI * scale[0]).powi(2) / 6.0])
    }
}
// ANCHOR_END: density

// ANCHOR: model
use partita::burn::{self, module::Module, tensor::Tensor};
use partita::core::{Continuous, Distribution};
use partita::{Design, HalfNormal, Model, Normal, Result, Scope};

#[derive(Module, Debug)]
struct Largest {}

#[derive(Clone)]
struct Floods {
    design: Design, // [rows, 1, 2]: one and x
    y: Tensor<2>,   // [rows, 1]
}

impl Model for Largest {
    type Globals = (Tensor<1>, Tensor<1>);
    type Data = Floods;

    fn global(&self, scope: &mut Scope) -> Result<Self::Globals> {
        let beta = scope.sample("beta", Normal::new(0.0, 5.0).iid([2]))?;
        Ok((beta, scope.sample("scale", HalfNormal::new(2.0))?))
    }

    fn local(&self, scope: &mut Scope, (beta, scale): &Self::Globals, data: &Floods) -> Result<()> {
        scope.plate("row", data.y.dims()[0], |scope, rows| {
            let location = data.design.take(rows)?.predictor(beta.clone(), None)?;
            let gumbel: Distribution<2, Continuous> = (location, scale.clone()).build(&Gumbel);
            scope.observe("y", gumbel, rows.take(&data.y)?)
        })
    }
}
// ANCHOR_END: model

fn data(columns: &Columns, device: &Device) -> Floods {
    let [x, y] = ["x", "y"].map(|name| columns.numbers(name));
    // ANCHOR: data
    let design = Design::new(x.iter().flat_map(|x| [1.0, *x]).collect(), [x.len(), 1, 2]).unwrap();
    Floods { design, y: device.tensor(y, [x.len(), 1]) }
    // ANCHOR_END: data
}

// ANCHOR: law
#[test]
fn gumbel_keeps_the_laws_of_densities() {
    use partita::laws::{DensityCase, density};
    let cases = [(0.3, 1.0, 2.0), (-4.0, -1.0, 0.7), (9.0, 0.0, 1.5)];
    let cases = cases.map(|(x, location, scale)| DensityCase::new(&[x], &[&[location], &[scale]]));
    density(&Gumbel, &cases).unwrap();
}
// ANCHOR_END: law

#[test]
fn own_density_agrees_with_numpyro() {
    holds("own_density", &Largest {}, data, &Bounds::default());
}
