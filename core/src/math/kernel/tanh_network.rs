//! Passes rows through a small network of one hidden layer and back, hidden units never leaving registers.

mod back;
mod forward;

pub use back::{TanhNetworkBack, tanh_network_back};
pub use forward::tanh_network;

use super::block::{BLOCK, Padded, Whole};
use super::polynomial::exp_below_zero;

/// A network of one hidden layer with a linear path beside it.
///
/// $$ o = W_2 \tanh(W_1 x + b_1) + A x + b_2 $$
///
/// # Shapes
/// $W_1$ `[hidden, inputs]`, $b_1$ `[hidden]`, $W_2$ `[heads, hidden]`, $A$ `[heads, inputs]`, $b_2$ `[heads]`, one
/// after another in `parameters`. Columns of rows are stored one after another.
#[derive(Debug, Clone, Copy)]
pub struct TanhNetwork<'a> {
    /// All weights.
    pub parameters: &'a [f64],
    /// Numbers in a row.
    pub inputs: usize,
    /// Hidden units.
    pub hidden: usize,
    /// Numbers that come out.
    pub heads: usize,
}

impl<'a> TanhNetwork<'a> {
    /// The lengths of the five blocks of parameters.
    #[must_use]
    pub fn lengths(&self) -> [usize; 5] {
        let Self { inputs, hidden, heads, .. } = *self;
        [hidden * inputs, hidden, heads * hidden, heads * inputs, heads]
    }

    /// Where the five blocks begin.
    #[inline(always)]
    fn starts(&self) -> [usize; 5] {
        let mut next = 0;
        self.lengths().map(|length| {
            next += length;
            next - length
        })
    }

    /// Whether the parameters are as many as the shape wants.
    #[inline]
    fn fits(&self) -> bool {
        self.lengths().iter().sum::<usize>() == self.parameters.len()
    }

    #[inline(always)]
    fn split(&self) -> [&'a [f64]; 5] {
        let mut rest = self.parameters;
        self.lengths().map(|length| {
            let (own, left) = rest.split_at(length.min(rest.len()));
            rest = left;
            own
        })
    }
}

/// $\tanh x$ within 4e-16, odd to the last bit and exact at both ends.
#[inline(always)]
fn tanh<const FAST: bool>(x: f64) -> f64 {
    if !FAST {
        return x.tanh();
    }
    let t = exp_below_zero(-2.0 * x.abs());
    ((1.0 - t) / (1.0 + t)).copysign(x)
}

/// One multiplication and addition, with one rounding where the machine has the instruction.
#[inline(always)]
fn add<const FAST: bool>(sum: f64, a: f64, b: f64) -> f64 {
    if FAST { a.mul_add(b, sum) } else { sum + a * b }
}

/// The block from `start` on of a column of `count` rows.
#[inline(always)]
fn load(columns: &[f64], column: usize, count: usize, start: usize) -> [f64; BLOCK] {
    let own = columns.get(column * count..(column + 1) * count).unwrap_or(&[]);
    if start + BLOCK <= count { Whole.load(own, start) } else { Padded.load(own, start) }
}

/// Writes the block from `start` on of a column of `count` rows, as far as it reaches.
#[inline(always)]
fn store(columns: &mut [f64], column: usize, count: usize, start: usize, block: &[f64; BLOCK]) {
    let own = columns.get_mut(column * count..(column + 1) * count).unwrap_or(&mut []);
    if start + BLOCK <= count { Whole.store(own, start, block) } else { Padded.store(own, start, block) }
}

/// Where a column of `count` rows lies.
#[inline(always)]
fn column(columns: &[f64], index: usize, count: usize) -> &[f64] {
    columns.get(index * count..(index + 1) * count).unwrap_or(&[])
}

/// The hidden unit of a block of rows.
#[inline(always)]
fn unit<const FAST: bool>(w1: &[f64], bias: f64, columns: &[f64], count: usize, start: usize) -> [f64; BLOCK] {
    let mut sums = [bias; BLOCK];
    for (input, weight) in w1.iter().enumerate() {
        for (sum, x) in sums.iter_mut().zip(load(columns, input, count, start)) {
            *sum = add::<FAST>(*sum, *weight, x);
        }
    }
    for sum in &mut sums {
        *sum = tanh::<FAST>(*sum);
    }
    sums
}

/// Adds products of two blocks to running sums.
#[inline(always)]
fn accumulate<const FAST: bool>(sums: &mut [f64; BLOCK], a: &[f64; BLOCK], b: &[f64; BLOCK]) {
    for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
        *sum = add::<FAST>(*sum, *a, *b);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::kernel::testing::{bits, scattered, vectorised};

    const SHAPES: [[usize; 3]; 4] = [[1, 8, 1], [1, 3, 2], [2, 5, 2], [6, 4, 3]];
    const COUNTS: [usize; 5] = [1, 15, 16, 17, 300];

    fn each(check: impl Fn(TanhNetwork<'_>, usize)) {
        for [inputs, hidden, heads] in SHAPES {
            let shape = TanhNetwork { parameters: &[], inputs, hidden, heads };
            let parameters = scattered(shape.lengths().iter().sum(), -1.0, 1.2);
            COUNTS.into_iter().for_each(|count| check(TanhNetwork { parameters: &parameters, ..shape }, count));
        }
    }

    type Forward = fn(TanhNetwork<'_>, &[f64], &mut [f64]);
    type Back = fn(TanhNetwork<'_>, TanhNetworkBack<'_>);
    const CHOSEN: (Forward, Back) = (tanh_network, tanh_network_back);
    const SCALAR: (Forward, Back) = (forward::scalar, back::scalar);
    const VECTOR: (Forward, Back) = (forward::vector, back::vector);

    /// The outputs, the gradients by rows and the gradients by parameters.
    fn passed(network: TanhNetwork<'_>, count: usize, (forward, back): (Forward, Back)) -> [Vec<f64>; 3] {
        let rows = scattered(network.inputs * count, -3.0, 2.0);
        let upstream = scattered(network.heads * count, -1.0, 2.0);
        let (mut outputs, mut by_rows) = (vec![0.0; upstream.len()], vec![0.5; count]);
        let mut by_parameters = vec![0.25; network.parameters.len()];
        forward(network, &rows, &mut outputs);
        let (rows, upstream) = (rows.as_slice(), upstream.as_slice());
        back(network, TanhNetworkBack { rows, upstream, by_rows: &mut by_rows, by_parameters: &mut by_parameters });
        [outputs, by_rows, by_parameters]
    }

    #[test]
    fn outputs_are_those_of_the_formula() {
        each(|network, count| {
            let [w1, b1, w2, a, b2] = network.split();
            let rows = scattered(network.inputs * count, -3.0, 2.0);
            let [outputs, ..] = passed(network, count, CHOSEN);
            for row in 0..count {
                let x = |input: usize| rows[input * count + row];
                let through = |weights: &[f64], from: usize| -> f64 {
                    (0..network.inputs).map(|input| weights[from * network.inputs + input] * x(input)).sum()
                };
                for head in 0..network.heads {
                    let hidden = (0..network.hidden)
                        .map(|unit| w2[head * network.hidden + unit] * (b1[unit] + through(w1, unit)).tanh());
                    let expected = hidden.sum::<f64>() + through(a, head) + b2[head];
                    assert!((outputs[head * count + row] - expected).abs() < 1e-14);
                }
            }
        });
    }

    #[test]
    fn the_vector_loops_agree_with_libm() {
        each(|network, count| {
            for (found, expected) in passed(network, count, CHOSEN).iter().zip(passed(network, count, SCALAR)) {
                let size = expected.iter().fold(1.0_f64, |most, value| most.max(value.abs()));
                let error = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                assert!(error < 1e-14 * size * 10.0, "{count}: {error:e}");
            }
        });
    }

    #[test]
    fn every_instruction_set_gives_the_same_bits() {
        if !vectorised() {
            return;
        }
        each(|network, count| {
            for (found, expected) in passed(network, count, CHOSEN).iter().zip(passed(network, count, VECTOR)) {
                assert_eq!(bits(found), bits(&expected));
            }
        });
    }

    #[test]
    fn hidden_units_are_exact_at_both_ends_and_a_nan_is_not_hidden() {
        // One unit of weight 1 and one output of weight 1.
        let network = TanhNetwork { parameters: &[1.0, 0.0, 1.0, 0.0, 0.0], inputs: 1, hidden: 1, heads: 1 };
        let mut outputs = [0.0; 4];
        tanh_network(network, &[-800.0, 0.0, 800.0, f64::NAN], &mut outputs);
        assert_eq!(outputs[..3], [-1.0, 0.0, 1.0]);
        assert!(outputs[3].is_nan());
    }
}
