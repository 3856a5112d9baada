//! Checks the laws of models: gradients of every reading against differences, and that the joint density splits.

use partita_core::{
    Device, Error, Key, Latents, LogDensity, Model, Noise, Purpose, SiteTable, ValueAndGradient, theta, with_theta,
};

use crate::difference::{derivative, within};

const SEED: u64 = 161_803;
/// Points of the latents at which a model is checked.
const POINTS: u64 = 3;
/// Their standard deviation on the unconstrained scale: scales between a quarter and four, where nothing saturates.
const SPREAD: f64 = 0.5;
/// Fourth-order differences are good to about 1e-11 relative to the largest number in them.
const DIFFERENCE: f64 = 1e-8;
/// One pass adds the same terms as two in another order: a few hundred last digits.
const SPLIT: f64 = 1e-12;

/// A law of [`Model`] that does not hold at a point of the latents.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelViolation {
    /// A gradient is not the derivative of the log density.
    #[error("{reading} density: gradient {found} by entry {index} of {vector}, differences give {expected}")]
    Gradient {
        /// `global`, `local` or `joint`.
        reading: &'static str,
        /// The vector the gradient is by.
        vector: String,
        /// The entry.
        index: usize,
        /// What the backward pass gave.
        found: f64,
        /// What the differences give.
        expected: f64,
    },
    /// The joint density is not the sum of the global and the local one.
    #[error("joint density: entry {index} of {quantity} is {found}, global and local add up to {expected}")]
    Split {
        /// The value, or the vector a gradient is by.
        quantity: String,
        /// The entry.
        index: usize,
        /// That of the joint density.
        found: f64,
        /// The sum.
        expected: f64,
    },
    /// The model refused its data or its own values.
    #[error(transparent)]
    Failed(#[from] Error),
}

/// Checks `model` on `data` in double precision on `device`.
///
/// At three random points, the gradients of [`LogDensity::global`], [`LogDensity::local`] and [`LogDensity::joint`] by
/// every latent and by θ must equal central differences; and joint = global + local, value and gradients. Every entry
/// costs four evaluations a reading: give a few rows of data, not all.
///
/// # Errors
/// The first [`ModelViolation`] found.
///
/// # Example
/// ```
/// use partita_core::{Device, HalfNormal, Model, Normal, Result, Scope, burn};
/// use partita_laws as laws;
/// use burn::{module::Module, tensor::Tensor};
/// #[derive(Module, Debug)]
/// struct Level {}
/// impl Model for Level {
///     type Globals = Tensor<1>;
///     type Data = Tensor<1>;
///     fn global(&self, scope: &mut Scope) -> Result<Tensor<1>> { scope.sample("sd", HalfNormal::new(1.0)) }
///     fn local(&self, scope: &mut Scope, sd: &Tensor<1>, data: &Tensor<1>) -> Result<()> {
///         scope.plate("row", data.dims()[0], |s, rows| {
///             s.observe("y", Normal::new(0.0, sd.clone()).over(rows), rows.take(data)?)
///         })
///     }
/// }
/// let device = Device::flex();
/// laws::model(&Level {}, &device, &device.tensor(vec![0.3, -1.2], [2]))?;
/// # Ok::<(), partita_laws::ModelViolation>(())
/// ```
pub fn model<M: Model>(model: &M, device: &Device, data: &M::Data) -> Result<(), ModelViolation> {
    let table = SiteTable::of(model, device, data)?;
    let checked = Checked { model, device, data, table: &table };
    for number in 0..POINTS {
        let point = checked.point(number)?;
        let readings = [Reading::Global, Reading::Local, Reading::Joint];
        for reading in readings {
            checked.gradients(reading, &point)?;
        }
        checked.split(&point)?;
    }
    Ok(())
}

#[derive(Debug, Clone, Copy)]
enum Reading {
    Global,
    Local,
    Joint,
}

impl Reading {
    fn name(self) -> &'static str {
        match self {
            Self::Global => "global",
            Self::Local => "local",
            Self::Joint => "joint",
        }
    }
}

/// Latents and θ, as the vectors a log density is a function of: globals, θ, then the local blocks.
type Point = Vec<Vec<f64>>;

fn name(vector: usize) -> String {
    match vector {
        0 => "the globals".into(),
        1 => "θ".into(),
        block => format!("local block {}", block - 2),
    }
}

/// A model with what its evaluation needs.
struct Checked<'a, M: Model> {
    model: &'a M,
    device: &'a Device,
    data: &'a M::Data,
    table: &'a SiteTable,
}

impl<M: Model> Checked<'_, M> {
    fn point(&self, number: u64) -> Result<Point, Error> {
        let mut stream = Noise::new(SEED).stream(Key::new(Purpose::Check, number));
        let mut random = |length: usize| (0..length).map(|_| SPREAD * stream.standard_normal()).collect::<Vec<f64>>();
        let mut point = vec![random(self.table.global_len()), theta(self.model)?];
        point.extend(self.table.blocks().iter().map(|block| random(block.rows * block.width)));
        Ok(point)
    }

    fn evaluate(&self, reading: Reading, point: &Point) -> Result<ValueAndGradient, Error> {
        let model = with_theta(self.model, &point[1], self.device)?;
        let density = LogDensity::new(&model, self.device, self.table);
        let latents = Latents { globals: &point[0], locals: &point[2..] };
        match reading {
            Reading::Global => density.global(latents.globals),
            Reading::Local => density.local(latents, self.data),
            Reading::Joint => density.joint(latents, self.data),
        }
    }

    fn gradients(&self, reading: Reading, point: &Point) -> Result<(), ModelViolation> {
        let evaluated = self.evaluate(reading, point)?;
        let bound = DIFFERENCE * (1.0 + evaluated.value.abs());
        for (vector, gradient) in vectors(evaluated).into_iter().enumerate() {
            for (index, found) in gradient.into_iter().enumerate() {
                // A point that the model refuses gives NaN, which is a violation below.
                let objective = |entries: &[f64]| {
                    let mut moved = point.clone();
                    moved[vector] = entries.to_vec();
                    self.evaluate(reading, &moved).map_or(f64::NAN, |evaluated| evaluated.value)
                };
                let expected = derivative(objective, &point[vector], index);
                if !within(found, expected, bound + DIFFERENCE * expected.abs()) {
                    let (reading, vector) = (reading.name(), name(vector));
                    return Err(ModelViolation::Gradient { reading, vector, index, found, expected });
                }
            }
        }
        Ok(())
    }

    fn split(&self, point: &Point) -> Result<(), ModelViolation> {
        let global = self.evaluate(Reading::Global, point)?;
        let local = self.evaluate(Reading::Local, point)?;
        let joint = self.evaluate(Reading::Joint, point)?;
        let bound = SPLIT * (1.0 + global.value.abs() + local.value.abs());
        let compare = |quantity: &str, index: usize, found: f64, expected: f64| {
            if within(found, expected, bound) {
                return Ok(());
            }
            Err(ModelViolation::Split { quantity: quantity.to_owned(), index, found, expected })
        };
        compare("the value", 0, joint.value, global.value + local.value)?;
        let (global, local) = (vectors(global), vectors(local));
        for (vector, gradient) in vectors(joint).into_iter().enumerate() {
            for (index, found) in gradient.into_iter().enumerate() {
                let own = |parts: &Point| parts.get(vector).and_then(|part| part.get(index)).copied().unwrap_or(0.0);
                compare(&format!("the gradient by {}", name(vector)), index, found, own(&global) + own(&local))?;
            }
        }
        Ok(())
    }
}

/// The gradients of an evaluation in the order of a [`Point`].
fn vectors(evaluated: ValueAndGradient) -> Point {
    let mut vectors = vec![evaluated.globals, evaluated.theta];
    vectors.extend(evaluated.locals);
    vectors
}
