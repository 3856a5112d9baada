//! Tests that Partita's own tape and Burn's agree, and that evaluations which Partita's does not cover take Burn's.
#![allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]

use std::sync::atomic::Ordering::Relaxed;

use burn::module::Module;
use burn::tensor::Tensor;

use crate::math::kernel::testing::{bits, scattered};
use crate::math::operation::own_tape;
use crate::{
    Array, Bernoulli, Design, Device, Differentiable, Error, Groups, HalfNormal, Handle, Latents, LogDensity,
    Minibatch, Model, Normal, Part, Precision, Real, Recurrence, Result, Scan, Scope, SiteTable, ValueAndGradient,
    custom_vjp, elementwise, hidden_markov, log_sum_exp, scan, taped,
};

/// What the local part of the model does with its globals.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    // Operations of Partita alone.
    Linear,
    Logistic,
    Mixed,
    Schools,
    Scanned,
    Custom,
    Several,
    // Operations of Burn that Partita's tape knows.
    Taped,
    // Operations of Burn of which no gradient is wanted.
    Inner,
    IntoData,
    Deterministic,
    // Operations of Burn on the way to a density.
    Times,
    Exp,
    Cat,
    Slice,
    Detach,
    Branch,
    Factor,
    HiddenMarkov,
    // No value at all.
    Panics,
    Refuses,
}

const OWN: [Kind; 11] = [
    Kind::Linear,
    Kind::Logistic,
    Kind::Mixed,
    Kind::Schools,
    Kind::Scanned,
    Kind::Custom,
    Kind::Several,
    Kind::Taped,
    Kind::Inner,
    Kind::IntoData,
    Kind::Deterministic,
];
const FOREIGN: [Kind; 7] =
    [Kind::Times, Kind::Exp, Kind::Cat, Kind::Slice, Kind::Detach, Kind::Factor, Kind::HiddenMarkov];

#[derive(Module, Debug)]
struct Tested {}

#[derive(Debug, Clone)]
struct Globals {
    beta: Tensor<1>,
    scale: Tensor<1>,
    level: Tensor<1>,
}

#[derive(Debug, Clone)]
struct Data {
    kind: Kind,
    groups: Groups,
    design: Design<2>,
    y: Tensor<1>,
}

/// $`s_t = b_0 s_{t-1} + b_1 x_t`$.
struct Autoregression;

impl Recurrence for Autoregression {
    fn step<T: Real>(&self, state: &mut [T], input: &[T], parameters: &[T]) -> [T; 1] {
        state[0] = parameters[0] * state[0] + parameters[1] * input[0];
        [state[0]]
    }
}

impl Model for Tested {
    type Globals = Globals;
    type Data = Data;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Globals> {
        let beta = scope.sample("beta", Normal::new(0.0, 2.0).iid([2]))?;
        let scale = scope.sample("scale", HalfNormal::new(1.0))?;
        let level = scope.sample("level", Normal::new(0.0, scale.clone()))?;
        Ok(Globals { beta, scale, level })
    }

    fn local(&self, scope: &mut Scope<'_>, globals: &Globals, data: &Data) -> Result<()> {
        let Globals { beta, scale, level } = globals.clone();
        let Data { kind, groups, design, y } = data;
        let rows = y.dims()[0];
        let design = |rows: &crate::Rows<'_>, beta: Tensor<1>| design.take(rows)?.predictor(beta, None);
        match kind {
            Kind::Linear => scope.plate("row", rows, |scope, rows| {
                scope.observe("y", Normal::new(design(rows, beta)?, scale), rows.take(y)?)
            }),
            Kind::Logistic => scope.plate("row", rows, |scope, rows| {
                scope.observe("y", Bernoulli::logits(design(rows, beta)?), rows.take(y)?)
            }),
            Kind::Mixed => scope.plate("group", groups.groups(), |scope, outer| {
                let effects = scope.sample("effect", Normal::new(level, scale).over(outer))?;
                scope.plate("row", groups, |scope, rows| {
                    let logits = data.design.take(rows)?.predictor_by_group(beta, effects)?;
                    scope.observe("y", Bernoulli::logits(logits), rows.take(y)?)
                })
            }),
            Kind::Schools => scope.plate("row", rows, |scope, rows| {
                let effects = scope.sample("effect", Normal::new(level, scale).over(rows).non_centred())?;
                scope.observe("y", Normal::new(effects, 1.5), rows.take(y)?)
            }),
            Kind::Scanned => {
                let from = Scan { initial: level.into(), inputs: y.clone().into(), parameters: vec![beta.into()] };
                let path = scan("autoregression", Autoregression, from)?;
                scope.observe("y", Normal::new(path, scale), y.clone().reshape([rows, 1]))
            }
            Kind::Custom => {
                let mean = custom_vjp::<1>("product", [beta.into(), level.into()], |inputs| {
                    let (beta, level) = (inputs[0].values.clone(), inputs[1].values[0]);
                    let value = Array::scalar(beta[0] * beta[1] * level);
                    Ok(Differentiable::new(value, move |gradient, by| {
                        by[0][0] += gradient[0] * beta[1] * level;
                        by[0][1] += gradient[0] * beta[0] * level;
                        by[1][0] += gradient[0] * beta[0] * beta[1];
                    }))
                })?;
                scope.plate("row", rows, |scope, rows| {
                    scope.observe("y", Normal::new(mean, scale).over(rows), rows.take(y)?)
                })
            }
            Kind::Several => scope.plate("row", rows, |scope, rows| {
                let sd = elementwise(scale.clone(), f64::sqrt, |x| 0.5 / x.sqrt());
                scope.observe("first", Normal::new(level.clone(), sd.clone()).over(rows), rows.take(y)?)?;
                scope.observe("second", Normal::new(level.clone(), scale).over(rows), rows.take(y)?)?;
                scope.observe("third", Normal::new(design(rows, beta.clone())?, sd.clone()), rows.take(y)?)?;
                scope.observe("fourth", Normal::new(design(rows, beta)?, level.inner().abs() + 0.5), rows.take(y)?)?;
                scope.observe("fifth", Normal::new(0.25, sd).over(rows), rows.take(y)?)
            }),
            Kind::Taped => scope.plate("row", rows, |scope, rows| {
                let all = taped::joined(vec![beta.clone(), level.clone(), scope.device().tensor(vec![0.5], [1])], 0);
                let square = taped::reshaped(all, [2, 2]);
                let columns = taped::times(taped::reshaped(beta, [1, 2]), square.clone());
                let product = taped::product(square, taped::transposed(columns));
                let last = taped::reshaped(taped::part(product, 1, 1, 1), [2]);
                let beta = taped::plus(taped::log_sigmoid(last), taped::negated(level));
                let sd = taped::exp(taped::times(taped::log(scale.clone()), scale));
                scope.observe("y", Normal::new(design(rows, beta)?, sd), rows.take(y)?)
            }),
            Kind::Inner => scope.plate("row", rows, |scope, rows| {
                let sd = scale.clone().inner() * 2.0;
                scope.observe("y", Normal::new(design(rows, beta)?, sd), rows.take(y)?)?;
                scope.observe("again", Normal::new(level, scale).over(rows), rows.take(y)?)
            }),
            Kind::IntoData => scope.plate("row", rows, |scope, rows| {
                let sd = 2.0 * number(&scale);
                scope.observe("y", Normal::new(design(rows, beta)?, sd), rows.take(y)?)?;
                scope.observe("again", Normal::new(level, scale).over(rows), rows.take(y)?)
            }),
            Kind::Deterministic => scope.plate("row", rows, |scope, rows| {
                scope.deterministic("twice", scale.clone() * 2.0)?;
                scope.observe("y", Normal::new(design(rows, beta)?, scale), rows.take(y)?)
            }),
            Kind::Times => scope.plate("row", rows, |scope, rows| {
                scope.observe("y", Normal::new(design(rows, beta * 2.0)?, scale), rows.take(y)?)
            }),
            Kind::Exp => scope.plate("row", rows, |scope, rows| {
                scope.observe("y", Normal::new(design(rows, beta)?, level.exp()), rows.take(y)?)
            }),
            Kind::Cat => scope.plate("row", rows, |scope, rows| {
                let beta = Tensor::cat(vec![level, scale], 0);
                scope.observe("y", Normal::new(design(rows, beta)?, 1.0), rows.take(y)?)
            }),
            Kind::Slice => scope.plate("row", rows, |scope, rows| {
                scope.observe("y", Normal::new(beta.narrow(0, 1, 1), scale).over(rows), rows.take(y)?)
            }),
            Kind::Detach => scope.plate("row", rows, |scope, rows| {
                scope.observe("y", Normal::new(level.detach(), scale).over(rows), rows.take(y)?)
            }),
            Kind::Branch => scope.plate("row", rows, |scope, rows| {
                let location = if number(&level) > 0.0 { level * 3.0 } else { level };
                scope.observe("y", Normal::new(location, scale).over(rows), rows.take(y)?)
            }),
            Kind::Factor => scope.factor("bend", log_sum_exp(beta)),
            Kind::HiddenMarkov => {
                let device = scope.device();
                let transition = device.tensor(vec![-0.5, -1.0, -1.0, -0.5], [2, 2]);
                let observation = device.tensor(scattered(rows * 2, -2.0, 0.0), [rows, 2]);
                scope.factor("chain", hidden_markov(beta, transition, observation)?)
            }
            Kind::Panics => panic!("planted"),
            Kind::Refuses => Err(Error::Operation { operation: "planted".into(), problem: "It refuses.".into() }),
        }
    }
}

/// The number of a tensor of one, as a model reads it without a gradient.
fn number(tensor: &Tensor<1>) -> f64 {
    tensor.clone().into_data().iter::<f64>().next().unwrap()
}

fn data(kind: Kind, device: &Device) -> Data {
    let groups = Groups::of_sizes(&[2, 1, 3]).unwrap();
    let design = Design::new(scattered(12, -1.0, 1.0), [6, 2]).unwrap();
    Data { kind, groups, design, y: device.tensor(vec![1.0, 0.0, 0.0, 1.0, 1.0, 0.0], [6]) }
}

fn table(data: &Data, device: &Device) -> SiteTable {
    // A model that fails has the sites of another.
    let kind = if matches!(data.kind, Kind::Panics | Kind::Refuses) { Kind::Linear } else { data.kind };
    SiteTable::of(&Tested {}, device, &Data { kind, ..data.clone() }).unwrap()
}

/// Latents of all blocks, with so many rows each where rows are chosen.
fn locals(table: &SiteTable, chosen: Option<usize>) -> Vec<Vec<f64>> {
    let numbers = |block: &crate::LocalBlock| chosen.unwrap_or(block.rows) * block.width;
    table.blocks().iter().map(|block| scattered(numbers(block), -1.0, 1.5)).collect()
}

fn all_bits(found: &ValueAndGradient) -> Vec<u64> {
    let mut numbers = vec![found.value];
    for part in [&found.globals, &found.theta].into_iter().chain(&found.locals) {
        numbers.extend(part);
    }
    bits(&numbers)
}

/// Evaluates on both tapes, and returns how many evaluations took Partita's own.
fn agree(
    own: &LogDensity<'_, Tested>,
    burn: &LogDensity<'_, Tested>,
    read: impl Fn(&LogDensity<'_, Tested>) -> Result<ValueAndGradient>,
) -> u32 {
    let before = own_tape::counts().0;
    let found = read(own).unwrap();
    let taken = own_tape::counts().0 - before;
    let expected = read(burn).unwrap();
    assert_eq!(own_tape::counts(), (before + taken, 0), "Burn's tape was asked for");
    assert_eq!(all_bits(&found), all_bits(&expected), "{found:?} {expected:?}");
    assert!(found.globals.iter().any(|own| *own != 0.0), "{found:?}");
    taken
}

const GLOBALS: [[f64; 4]; 2] = [[0.4, -0.7, 0.3, 0.9], [-1.3, 0.2, -0.8, -0.6]];

#[test]
fn both_tapes_have_the_same_bits_for_operations_of_partita() {
    for precision in [Precision::Double, Precision::Single] {
        let device = Device::flex().with_precision(precision);
        for kind in OWN {
            let data = data(kind, &device);
            let table = table(&data, &device);
            let locals = locals(&table, None);
            for globals in &GLOBALS {
                let latents = Latents { globals, locals: &locals };
                for weight in [1.0, 2.5] {
                    let own = LogDensity::new(&Tested {}, &device, &table).weight(weight);
                    let burn = LogDensity::new(&Tested {}, &device, &table).weight(weight).on_burn_tape();
                    let taken = [
                        agree(&own, &burn, |density| density.global(globals)),
                        agree(&own, &burn, |density| density.local(latents, &data)),
                        agree(&own, &burn, |density| density.joint(latents, &data)),
                    ];
                    assert_eq!(taken, [1; 3], "{kind:?}, {precision:?}");
                }
            }
        }
    }
}

#[test]
fn both_tapes_have_the_same_bits_for_a_minibatch() {
    let device = Device::flex();
    let minibatch = [Minibatch::new("row", vec![0, 1, 4])];
    for kind in [Kind::Linear, Kind::Logistic, Kind::Schools, Kind::Custom] {
        let data = data(kind, &device);
        let table = table(&data, &device);
        let locals = locals(&table, Some(3));
        let latents = Latents { globals: &GLOBALS[0], locals: &locals };
        let own = LogDensity::new(&Tested {}, &device, &table).minibatch(&minibatch);
        let burn = LogDensity::new(&Tested {}, &device, &table).minibatch(&minibatch).on_burn_tape();
        assert_eq!(agree(&own, &burn, |density| density.local(latents, &data)), 1, "{kind:?}");
        assert_eq!(agree(&own, &burn, |density| density.joint(latents, &data)), 1, "{kind:?}");
    }
}

#[test]
fn both_tapes_have_the_same_bits_for_levels_of_rows() {
    for precision in [Precision::Double, Precision::Single] {
        let device = Device::flex().with_precision(precision);
        for kind in [Kind::Linear, Kind::Logistic, Kind::Mixed, Kind::Schools, Kind::Several, Kind::Taped] {
            let data = data(kind, &device);
            let table = table(&data, &device);
            let first = locals(&table, None);
            let second = first.iter().map(|block| block.iter().map(|own| 0.25 - own).collect()).collect();
            let passes = [first, second];
            let weights = |pass: usize, block: Option<usize>| -> Vec<f64> {
                let rows = block.map_or(1, |block| table.blocks()[block].rows);
                (0..rows).map(|row| 1.5 - 0.25 * row as f64 - pass as f64).collect()
            };
            let own = LogDensity::new(&Tested {}, &device, &table);
            let burn = LogDensity::new(&Tested {}, &device, &table).on_burn_tape();
            let taken = agree(&own, &burn, |density| density.levels(&GLOBALS[0], &passes, &data)?.gradient(weights));
            assert_eq!(taken, 1, "{kind:?}, {precision:?}");
        }
    }
}

#[test]
fn levels_with_operations_of_burn_go_to_burns_tape() {
    let device = Device::flex();
    for kind in [Kind::Times, Kind::Exp, Kind::Slice] {
        let data = data(kind, &device);
        let table = table(&data, &device);
        let passes = [locals(&table, None)];
        let own = LogDensity::new(&Tested {}, &device, &table);
        let burn = LogDensity::new(&Tested {}, &device, &table).on_burn_tape();
        let read =
            |density: &LogDensity<'_, Tested>| density.levels(&GLOBALS[0], &passes, &data)?.gradient(|_, _| vec![0.75]);
        assert_eq!(agree(&own, &burn, read), 0, "{kind:?}");
        assert!(table.was_on_burn_tape(Part::Local), "{kind:?}");
    }
}

#[test]
fn operations_of_burn_on_the_way_to_a_density_go_to_burns_tape() {
    let device = Device::flex();
    for kind in FOREIGN {
        let data = data(kind, &device);
        let table = table(&data, &device);
        let locals = locals(&table, None);
        let latents = Latents { globals: &GLOBALS[0], locals: &locals };
        let own = LogDensity::new(&Tested {}, &device, &table);
        let burn = LogDensity::new(&Tested {}, &device, &table).on_burn_tape();
        // The first evaluation finds out, the second knows.
        for _ in 0..2 {
            assert_eq!(agree(&own, &burn, |density| density.local(latents, &data)), 0, "{kind:?}");
            assert!(table.needs_burn_tape(Part::Local).load(Relaxed), "{kind:?}");
        }
        // The globals alone have operations of Partita only.
        assert_eq!(agree(&own, &burn, |density| density.global(&GLOBALS[0])), 1, "{kind:?}");
    }
}

#[test]
fn an_operation_of_burn_in_one_branch_is_found_when_the_branch_is_taken() {
    let device = Device::flex();
    let data = data(Kind::Branch, &device);
    let table = table(&data, &device);
    let locals = locals(&table, None);
    let own = LogDensity::new(&Tested {}, &device, &table);
    let burn = LogDensity::new(&Tested {}, &device, &table).on_burn_tape();
    let [above, below] = &GLOBALS;
    for (globals, expected) in [(below, 1), (above, 0), (below, 0)] {
        let latents = Latents { globals, locals: &locals };
        assert_eq!(agree(&own, &burn, |density| density.local(latents, &data)), expected);
    }
}

#[test]
fn an_evaluation_after_one_that_failed_is_right() {
    let device = Device::flex();
    let sound = data(Kind::Linear, &device);
    let table = table(&sound, &device);
    let locals = locals(&table, None);
    let latents = Latents { globals: &GLOBALS[0], locals: &locals };
    let own = LogDensity::new(&Tested {}, &device, &table);
    let burn = LogDensity::new(&Tested {}, &device, &table).on_burn_tape();
    for kind in [Kind::Panics, Kind::Refuses] {
        let error = own.local(latents, &data(kind, &device)).unwrap_err();
        assert_eq!(matches!(error, Error::Panicked { .. }), kind == Kind::Panics, "{error}");
        assert_eq!(own_tape::counts().1, 0);
        assert_eq!(agree(&own, &burn, |density| density.local(latents, &sound)), 1);
    }
}

#[test]
fn evaluations_on_several_threads_are_those_of_one() {
    use rayon::prelude::*;

    let device = Device::flex();
    let data = data(Kind::Mixed, &device);
    let table = table(&data, &device);
    let locals = locals(&table, None);
    let density = LogDensity::new(&Tested {}, &device, &table);
    let latents = Latents { globals: &GLOBALS[0], locals: &locals };
    let expected = all_bits(&density.joint(latents, &data).unwrap());
    let all: Vec<Vec<u64>> = (0..256)
        .into_par_iter()
        .map(|_| all_bits(&LogDensity::new(&Tested {}, &device, &table).joint(latents, &data).unwrap()))
        .collect();
    assert!(all.iter().all(|found| *found == expected));
    assert!(!table.needs_burn_tape(Part::Local).load(Relaxed));
}

#[test]
fn a_sum_of_a_handle_and_itself_counts_twice() {
    let device = Device::flex();
    let ((x, root), tape) = own_tape::during(|| {
        let x = Handle::from(device.unregistered_leaf(vec![3.0], [1]));
        own_tape::note(&x);
        (x.clone(), x.clone().plus(x))
    });
    assert_eq!(tape.backward(&root).unwrap().take(&x).unwrap(), [2.0]);
}

/// Asserts that numbers are what these round to, but for roundings of so many units of one.
fn rounds(found: &[f32], expected: &[f64], units: f64) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        let error = (f64::from(*found) - expected).abs();
        assert!(error <= units * f64::from(f32::EPSILON) * expected.abs().max(1.0), "{found} {expected}");
    }
}

#[test]
fn globals_of_single_precision_have_the_density_and_the_gradient_of_the_same_numbers() {
    for precision in [Precision::Double, Precision::Single] {
        let device = Device::flex().with_precision(precision);
        for kind in OWN.into_iter().chain(FOREIGN) {
            let data = data(kind, &device);
            let table = table(&data, &device);
            let locals = locals(&table, None);
            let density = LogDensity::new(&Tested {}, &device, &table).weight(2.5).prior(0.75);
            for single in GLOBALS.map(|globals| globals.map(|own| own as f32)) {
                let double = single.map(f64::from);
                let (found, expected) = (density.global_of(&single).unwrap(), density.global(&double).unwrap());
                assert_eq!(found.value.to_bits(), expected.value.to_bits(), "{kind:?}, {precision:?}");
                // The level's prior is on the tape with the scale: there sums are rounded as the tape has them.
                rounds(&found.globals, &expected.globals, 1.0);
                let [found, local] = [true, false].map(|joint| {
                    let latents = Latents { globals: &single, locals: &locals };
                    if joint { density.joint_of(latents, &data) } else { density.local_of(latents, &data) }.unwrap()
                });
                let [expected, expected_local] = [true, false].map(|joint| {
                    let latents = Latents { globals: &double, locals: &locals };
                    if joint { density.joint_of(latents, &data) } else { density.local_of(latents, &data) }.unwrap()
                });
                for (found, expected) in [(found, expected), (local, expected_local)] {
                    assert_eq!(found.value.to_bits(), expected.value.to_bits(), "{kind:?}, {precision:?}");
                    assert_eq!(found.locals, expected.locals);
                    rounds(&found.globals, &expected.globals, 4.0);
                }
            }
        }
    }
}

#[test]
fn globals_of_single_precision_that_are_too_many_or_not_finite_are_refused() {
    let device = Device::flex().with_precision(Precision::Single);
    let data = data(Kind::Linear, &device);
    let table = table(&data, &device);
    let density = LogDensity::new(&Tested {}, &device, &table);
    assert!(density.global_of(&[0.5_f32; 5]).unwrap_err().to_string().contains('5'));
    let error = density.global_of(&[f32::NAN, 0.1, 0.2, 0.3]).unwrap_err();
    assert!(matches!(error, Error::NotFiniteMade { .. }) && error.to_string().contains("beta"), "{error}");
}
