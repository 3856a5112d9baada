//! Passes rows through a small network of one hidden layer, its outputs staying in registers.

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
    where network.fits() && rows.len() * network.heads == outputs.len() * network.inputs;
    vector, pass::<false>
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
fn vector(network: TanhNetwork<'_>, rows: &[f64], outputs: &mut [f64]) {
    match (network.inputs, network.heads) {
        (1, 1) => known::<1, 1>(network, rows, outputs),
        (1, 2) => known::<1, 2>(network, rows, outputs),
        (2, 2) => known::<2, 2>(network, rows, outputs),
        _ => pass::<true>(network, rows, outputs),
    }
}
