//! Passes gradients back to rows and parameters; hidden units are computed again, which costs less than keeping them.

use super::{BLOCK, TanhNetwork, Unit, accumulate, column, load, store, unit};
use crate::math::kernel::block::{self, Lane, sum_blocks};
use crate::math::kernel::linear::{product, scaled_sum};

/// What a backward pass reads, and the gradients that it adds to.
///
/// # Shapes
/// `[inputs, count]`, `[heads, count]`, `[wanted, count]` with `wanted` of the inputs, and as the parameters.
#[derive(Debug)]
pub struct TanhNetworkBack<'a> {
    /// The rows that went in.
    pub rows: &'a [f64],
    /// The gradient by the outputs.
    pub upstream: &'a [f64],
    /// The gradient by the first inputs of every row.
    pub by_rows: &'a mut [f64],
    /// The gradient by the parameters.
    pub by_parameters: &'a mut [f64],
}

impl TanhNetworkBack<'_> {
    /// How many rows there are, and by how many of their inputs a gradient is wanted.
    #[inline(always)]
    fn counts(&self, heads: usize) -> [usize; 2] {
        let count = self.upstream.len() / heads.max(1);
        [count, self.by_rows.len() / count.max(1)]
    }
}

dispatch! {
    /// Adds the gradients of `network` by its parameters and by the first inputs of every row.
    ///
    /// # Panics
    /// If the lengths disagree: callers have checked them.
    tanh_network_back(network: TanhNetwork<'_>, back: TanhNetworkBack<'_>) -> ()
    where network.fits()
        && back.by_parameters.len() == network.parameters.len()
        && back.rows.len() * network.heads == back.upstream.len() * network.inputs
        && back.by_rows.len() <= back.rows.len();
    vector::<f64>, pass::<false, f64>
}

dispatch! {
    /// [`tanh_network_back`] with hidden units and their derivatives in single precision, and sums over the rows given too:
    /// callers pass some hundred rows at a time, whose sums are added in double precision.
    ///
    /// # Panics
    /// If the lengths disagree: callers have checked them.
    tanh_network_back_single(network: TanhNetwork<'_>, back: TanhNetworkBack<'_>) -> ()
    where network.fits()
        && back.by_parameters.len() == network.parameters.len()
        && back.rows.len() * network.heads == back.upstream.len() * network.inputs
        && back.by_rows.len() <= back.rows.len();
    vector::<f32>, pass::<false, f32>
}

#[inline(always)]
fn total(column: &[f64]) -> f64 {
    sum_blocks!(column.len(), |io, start| { io.load(column, start) })
}

#[inline(always)]
fn pass<const FAST: bool, F: Unit>(network: TanhNetwork<'_>, back: TanhNetworkBack<'_>) {
    let weights = network.weights::<F>();
    let [w1, b1, w2, a, _] = network.split(&weights);
    let TanhNetwork { inputs, hidden, heads, .. } = network;
    let [count, wanted] = back.counts(heads);
    let TanhNetworkBack { rows, upstream, by_rows, by_parameters } = back;
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
            scaled_sum(&mut by_rows[input * count..(input + 1) * count], a[head * inputs + input].wide(), up);
        }
    }
    for own in 0..hidden {
        let weights = &w1[own * inputs..(own + 1) * inputs];
        for start in (0..count).step_by(BLOCK) {
            let value = unit::<FAST, F>(weights, b1[own], rows, count, start);
            let mut slope = [F::ZERO; BLOCK];
            for head in 0..heads {
                let gradient = load(upstream, head, count, start);
                accumulate::<FAST, F>(&mut slope, &[w2[head * hidden + own]; BLOCK], &gradient);
            }
            for (slope, value) in slope.iter_mut().zip(value) {
                *slope *= F::ONE - value * value;
            }
            store(values, 0, count, start, &value);
            store(slopes, 0, count, start, &slope);
        }
        by_parameters[at_b1 + own] += total(slopes);
        for (input, weight) in weights.iter().enumerate() {
            by_parameters[own * inputs + input] += product(slopes, column(rows, input, count));
            if input < wanted {
                scaled_sum(&mut by_rows[input * count..(input + 1) * count], weight.wide(), slopes);
            }
        }
        for head in 0..heads {
            by_parameters[at_w2 + head * hidden + own] += product(values, column(upstream, head, count));
        }
    }
}

/// Adds products of two blocks to the running sums of a parameter, which are read and written whole.
#[inline(always)]
fn add_products<F: Lane>(sums: &mut [[F; BLOCK]], parameter: usize, a: &[F; BLOCK], b: &[F; BLOCK]) {
    let mut own = sums[parameter];
    accumulate::<true, F>(&mut own, a, b);
    sums[parameter] = own;
}

/// The same for a known number of inputs and outputs: a block of rows stays in registers from unit to unit, and the
/// sums over rows, one block of lanes a parameter, in the first-level cache.
#[inline(always)]
fn known<const INPUTS: usize, const HEADS: usize, F: Unit>(network: TanhNetwork<'_>, back: TanhNetworkBack<'_>) {
    let weights = network.weights::<F>();
    let [w1, b1, w2, a, _] = network.split(&weights);
    let [_, at_b1, at_w2, at_a, at_b2] = network.starts();
    let ([count, wanted], hidden) = (back.counts(HEADS), b1.len());
    let TanhNetworkBack { rows, upstream, by_rows, by_parameters } = back;
    let zero = [F::ZERO; BLOCK];
    let mut sums = vec![zero; by_parameters.len()];
    for start in (0..count).step_by(BLOCK) {
        let (mut x, mut by_x, mut up) = ([zero; INPUTS], [zero; INPUTS], [zero; HEADS]);
        for input in 0..INPUTS {
            x[input] = load(rows, input, count, start);
            if input < wanted {
                by_x[input] = load(by_rows, input, count, start);
            }
        }
        for (head, up) in up.iter_mut().enumerate() {
            *up = load(upstream, head, count, start);
            // What stands for rows beyond the last has no gradient.
            up[(count - start).min(BLOCK)..].fill(F::ZERO);
            add_products(&mut sums, at_b2 + head, &[F::ONE; BLOCK], up);
            for input in 0..INPUTS {
                let at = head * INPUTS + input;
                add_products(&mut sums, at_a + at, &x[input], up);
                accumulate::<true, F>(&mut by_x[input], &[a[at]; BLOCK], up);
            }
        }
        for own in 0..hidden {
            let mut value = [b1[own]; BLOCK];
            for input in 0..INPUTS {
                accumulate::<true, F>(&mut value, &[w1[own * INPUTS + input]; BLOCK], &x[input]);
            }
            for value in &mut value {
                *value = value.squashed::<true>();
            }
            let mut slope = [F::ZERO; BLOCK];
            for (head, up) in up.iter().enumerate() {
                let at = head * hidden + own;
                accumulate::<true, F>(&mut slope, &[w2[at]; BLOCK], up);
                add_products(&mut sums, at_w2 + at, &value, up);
            }
            for (slope, value) in slope.iter_mut().zip(&value) {
                *slope *= F::ONE - *value * *value;
            }
            add_products(&mut sums, at_b1 + own, &[F::ONE; BLOCK], &slope);
            for input in 0..INPUTS {
                let at = own * INPUTS + input;
                add_products(&mut sums, at, &slope, &x[input]);
                accumulate::<true, F>(&mut by_x[input], &[w1[at]; BLOCK], &slope);
            }
        }
        for (input, by_x) in by_x.iter().enumerate().take(wanted) {
            store(by_rows, input, count, start, by_x);
        }
    }
    for (slot, lanes) in by_parameters.iter_mut().zip(&sums) {
        *slot += block::total(lanes).wide();
    }
}

#[inline(always)]
fn vector<F: Unit>(network: TanhNetwork<'_>, back: TanhNetworkBack<'_>) {
    match (network.inputs, network.heads) {
        (1, 1) => known::<1, 1, F>(network, back),
        (1, 2) => known::<1, 2, F>(network, back),
        (2, 2) => known::<2, 2, F>(network, back),
        _ => pass::<true, F>(network, back),
    }
}
