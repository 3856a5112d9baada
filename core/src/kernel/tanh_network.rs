//! Passes rows through a small network of one hidden layer and their gradients back, hidden units never leaving registers.

pub use back::tanh_network_back;
pub use forward::tanh_network;

use super::block::{BLOCK, Padded, Whole};
use super::polynomial::exp_below_zero;

/// A network of one hidden layer with a linear path beside it.
///
/// $$ o = W_2 \tanh(W_1 x + b_1) + A x + b_2 $$
///
/// # Shapes
/// $W_1$ `[hidden, inputs]`, $b_1$ `[hidden]`, $W_2$ `[heads, hidden]`, $A$ `[heads, inputs]`, $b_2$ `[heads]`, one after another
/// in `parameters`. Columns of rows are stored one after another.
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

mod forward {
    //! Rows through the network.
    use super::{BLOCK, TanhNetwork, accumulate, add, load, store, tanh, unit};

    dispatch! {
        /// Writes the network's outputs for every row.
        ///
        /// # Shapes
        /// `rows`: `[inputs, count]`; `outputs`: `[heads, count]`.
        ///
        /// # Numerics
        /// Hidden units within 4e-16 of their true value for the sum they are given.
        ///
        /// # Panics
        /// If the lengths disagree: callers have checked them.
        tanh_network(network: TanhNetwork<'_>, rows: &[f64], outputs: &mut [f64]) -> ()
        where network.fits() && rows.len() * network.heads == outputs.len() * network.inputs
    }

    #[inline(always)]
    fn pass<const FAST: bool>(network: TanhNetwork<'_>, rows: &[f64], outputs: &mut [f64]) {
        let [w1, b1, w2, a, b2] = network.split();
        let TanhNetwork { inputs, hidden, heads, .. } = network;
        let count = outputs.len() / heads.max(1);
        for start in (0..count).step_by(BLOCK) {
            for head in 0..heads {
                let mut sums = [b2[head]; BLOCK];
                for (input, weight) in a[head * inputs..(head + 1) * inputs].iter().enumerate() {
                    for (sum, x) in sums.iter_mut().zip(load(rows, input, count, start)) {
                        *sum = add::<FAST>(*sum, *weight, x);
                    }
                }
                store(outputs, head, count, start, &sums);
            }
            for (own, bias) in b1.iter().enumerate() {
                let values = unit::<FAST>(&w1[own * inputs..(own + 1) * inputs], *bias, rows, count, start);
                for head in 0..heads {
                    let mut sums = load(outputs, head, count, start);
                    for (sum, value) in sums.iter_mut().zip(values) {
                        *sum = add::<FAST>(*sum, w2[head * hidden + own], value);
                    }
                    store(outputs, head, count, start, &sums);
                }
            }
        }
    }

    /// The same for a known number of inputs and outputs, which stay in registers from unit to unit.
    #[inline(always)]
    fn known<const INPUTS: usize, const HEADS: usize>(network: TanhNetwork<'_>, rows: &[f64], outputs: &mut [f64]) {
        let [w1, b1, w2, a, b2] = network.split();
        let count = outputs.len() / HEADS;
        for start in (0..count).step_by(BLOCK) {
            let (mut x, mut sums) = ([[0.0; BLOCK]; INPUTS], [[0.0; BLOCK]; HEADS]);
            for (input, own) in x.iter_mut().enumerate() {
                *own = load(rows, input, count, start);
            }
            for head in 0..HEADS {
                sums[head] = [b2[head]; BLOCK];
                for input in 0..INPUTS {
                    accumulate::<true>(&mut sums[head], &[a[head * INPUTS + input]; BLOCK], &x[input]);
                }
            }
            for (own, bias) in b1.iter().enumerate() {
                let mut values = [*bias; BLOCK];
                for input in 0..INPUTS {
                    accumulate::<true>(&mut values, &[w1[own * INPUTS + input]; BLOCK], &x[input]);
                }
                for value in &mut values {
                    *value = tanh::<true>(*value);
                }
                for head in 0..HEADS {
                    accumulate::<true>(&mut sums[head], &[w2[head * b1.len() + own]; BLOCK], &values);
                }
            }
            for (head, sums) in sums.iter().enumerate() {
                store(outputs, head, count, start, sums);
            }
        }
    }

    #[inline(always)]
    pub(super) fn vector(network: TanhNetwork<'_>, rows: &[f64], outputs: &mut [f64]) {
        match (network.inputs, network.heads) {
            (1, 1) => known::<1, 1>(network, rows, outputs),
            (1, 2) => known::<1, 2>(network, rows, outputs),
            (2, 2) => known::<2, 2>(network, rows, outputs),
            _ => pass::<true>(network, rows, outputs),
        }
    }

    pub(super) fn scalar(network: TanhNetwork<'_>, rows: &[f64], outputs: &mut [f64]) {
        pass::<false>(network, rows, outputs);
    }
}

mod back {
    //! Gradients back to rows and parameters; hidden units are computed again, which costs less than keeping them.
    use super::{BLOCK, TanhNetwork, accumulate, column, load, store, unit};
    use crate::kernel::block::sum_blocks;

    dispatch! {
        /// Adds the gradient by the parameters to `by_parameters` and that by the first inputs of every row to `by_rows`.
        ///
        /// # Shapes
        /// `rows`: `[inputs, count]`; `upstream`: `[heads, count]`, the gradient by the outputs; `by_rows`: `[wanted, count]`
        /// with `wanted` of the inputs; `by_parameters`: as the parameters.
        ///
        /// # Panics
        /// If the lengths disagree: callers have checked them.
        tanh_network_back(
            network: TanhNetwork<'_>,
            rows: &[f64],
            upstream: &[f64],
            by_rows: &mut [f64],
            by_parameters: &mut [f64],
        ) -> ()
        where network.fits()
            && by_parameters.len() == network.parameters.len()
            && rows.len() * network.heads == upstream.len() * network.inputs
            && by_rows.len() <= rows.len()
    }

    /// The dot product of two columns.
    #[inline(always)]
    fn product(a: &[f64], b: &[f64]) -> f64 {
        sum_blocks!(a.len(), |io, start| {
            let (mut terms, other) = (io.load(a, start), io.load(b, start));
            for (term, other) in terms.iter_mut().zip(other) {
                *term *= other;
            }
            terms
        })
    }

    #[inline(always)]
    fn total(column: &[f64]) -> f64 {
        sum_blocks!(column.len(), |io, start| { io.load(column, start) })
    }

    /// Adds a multiple of a column to a column.
    #[inline(always)]
    fn add_scaled(sum: &mut [f64], factor: f64, x: &[f64]) {
        for (slot, x) in sum.iter_mut().zip(x) {
            *slot += factor * x;
        }
    }

    #[inline(always)]
    fn pass<const FAST: bool>(
        network: TanhNetwork<'_>,
        rows: &[f64],
        upstream: &[f64],
        by_rows: &mut [f64],
        by_parameters: &mut [f64],
    ) {
        let [w1, b1, w2, a, _] = network.split();
        let TanhNetwork { inputs, hidden, heads, .. } = network;
        let count = upstream.len() / heads.max(1);
        let wanted = by_rows.len() / count.max(1);
        let [_, at_b1, at_w2, at_a, at_b2] = network.starts();
        let mut buffer = vec![0.0; 2 * count];
        let (values, slopes) = buffer.split_at_mut(count);
        for head in 0..heads {
            let up = column(upstream, head, count);
            by_parameters[at_b2 + head] += total(up);
            for input in 0..inputs {
                by_parameters[at_a + head * inputs + input] += product(up, column(rows, input, count));
            }
            for input in 0..wanted {
                add_scaled(&mut by_rows[input * count..(input + 1) * count], a[head * inputs + input], up);
            }
        }
        for own in 0..hidden {
            let weights = &w1[own * inputs..(own + 1) * inputs];
            for start in (0..count).step_by(BLOCK) {
                let value = unit::<FAST>(weights, b1[own], rows, count, start);
                let mut slope = [0.0; BLOCK];
                for head in 0..heads {
                    let gradient = load(upstream, head, count, start);
                    accumulate::<FAST>(&mut slope, &[w2[head * hidden + own]; BLOCK], &gradient);
                }
                for (slope, value) in slope.iter_mut().zip(value) {
                    *slope *= 1.0 - value * value;
                }
                store(values, 0, count, start, &value);
                store(slopes, 0, count, start, &slope);
            }
            by_parameters[at_b1 + own] += total(slopes);
            for (input, weight) in weights.iter().enumerate() {
                by_parameters[own * inputs + input] += product(slopes, column(rows, input, count));
                if input < wanted {
                    add_scaled(&mut by_rows[input * count..(input + 1) * count], *weight, slopes);
                }
            }
            for head in 0..heads {
                by_parameters[at_w2 + head * hidden + own] += product(values, column(upstream, head, count));
            }
        }
    }

    #[inline(always)]
    pub(super) fn vector(
        network: TanhNetwork<'_>,
        rows: &[f64],
        upstream: &[f64],
        by_rows: &mut [f64],
        by_parameters: &mut [f64],
    ) {
        pass::<true>(network, rows, upstream, by_rows, by_parameters);
    }

    pub(super) fn scalar(
        network: TanhNetwork<'_>,
        rows: &[f64],
        upstream: &[f64],
        by_rows: &mut [f64],
        by_parameters: &mut [f64],
    ) {
        pass::<false>(network, rows, upstream, by_rows, by_parameters);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::testing::{bits, scattered, vectorised};

    const SHAPES: [[usize; 3]; 4] = [[1, 8, 1], [1, 3, 2], [2, 5, 2], [6, 4, 3]];
    const COUNTS: [usize; 5] = [1, 15, 16, 17, 300];

    fn each(check: impl Fn(TanhNetwork<'_>, usize)) {
        for [inputs, hidden, heads] in SHAPES {
            let shape = TanhNetwork { parameters: &[], inputs, hidden, heads };
            let parameters = scattered(shape.lengths().iter().sum(), -1.0, 1.2);
            COUNTS.into_iter().for_each(|count| check(TanhNetwork { parameters: &parameters, ..shape }, count));
        }
    }

    /// The outputs, the gradients by rows and the gradients by parameters.
    type Passed = [Vec<f64>; 3];

    fn passed(network: TanhNetwork<'_>, count: usize, fast: bool) -> Passed {
        let rows = scattered(network.inputs * count, -3.0, 2.0);
        let upstream = scattered(network.heads * count, -1.0, 2.0);
        let (mut outputs, mut by_rows) = (vec![0.0; upstream.len()], vec![0.5; count]);
        let mut by_parameters = vec![0.25; network.parameters.len()];
        if fast {
            tanh_network(network, &rows, &mut outputs);
            tanh_network_back(network, &rows, &upstream, &mut by_rows, &mut by_parameters);
        } else {
            forward::scalar(network, &rows, &mut outputs);
            back::scalar(network, &rows, &upstream, &mut by_rows, &mut by_parameters);
        }
        [outputs, by_rows, by_parameters]
    }

    #[test]
    fn outputs_are_those_of_the_formula() {
        each(|network, count| {
            let [w1, b1, w2, a, b2] = network.split();
            let rows = scattered(network.inputs * count, -3.0, 2.0);
            let [outputs, ..] = passed(network, count, true);
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
            for (found, expected) in passed(network, count, true).iter().zip(passed(network, count, false)) {
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
            let rows = scattered(network.inputs * count, -3.0, 2.0);
            let upstream = scattered(network.heads * count, -1.0, 2.0);
            let (mut outputs, mut by_rows) = (vec![0.0; upstream.len()], vec![0.5; count]);
            let mut by_parameters = vec![0.25; network.parameters.len()];
            forward::vector(network, &rows, &mut outputs);
            back::vector(network, &rows, &upstream, &mut by_rows, &mut by_parameters);
            for (found, expected) in passed(network, count, true).iter().zip([outputs, by_rows, by_parameters]) {
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
