//! Passes rows through a small network of one hidden layer, its outputs staying in registers.

use super::{BLOCK, TanhNetwork, Unit, accumulate, add, load, store, unit};

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
    vector::<f64>, pass::<false, f64>
}

dispatch! {
    /// [`tanh_network`] with all arithmetic in single precision: sixteen rows in a register of AVX-512.
    ///
    /// # Numerics
    /// Hidden units within 1.2e-7 of their true value for the sum they are given.
    ///
    /// # Panics
    /// If the lengths disagree: callers have checked them.
    tanh_network_single(network: TanhNetwork<'_>, rows: &[f64], outputs: &mut [f64]) -> ()
    where network.fits() && rows.len() * network.heads == outputs.len() * network.inputs;
    vector::<f32>, pass::<false, f32>
}

#[inline(always)]
fn pass<const FAST: bool, F: Unit>(network: TanhNetwork<'_>, rows: &[f64], outputs: &mut [f64]) {
    let weights = network.weights::<F>();
    let [w1, b1, w2, a, b2] = network.split(&weights);
    let TanhNetwork { inputs, hidden, heads, .. } = network;
    let count = outputs.len() / heads.max(1);
    for start in (0..count).step_by(BLOCK) {
        for head in 0..heads {
            let mut sums = [b2[head]; BLOCK];
            for (input, weight) in a[head * inputs..(head + 1) * inputs].iter().enumerate() {
                for (sum, x) in sums.iter_mut().zip(load::<F>(rows, input, count, start)) {
                    *sum = add::<FAST, F>(*sum, *weight, x);
                }
            }
            store(outputs, head, count, start, &sums);
        }
        for (own, bias) in b1.iter().enumerate() {
            let values = unit::<FAST, F>(&w1[own * inputs..(own + 1) * inputs], *bias, rows, count, start);
            for head in 0..heads {
                let mut sums = load::<F>(outputs, head, count, start);
                for (sum, value) in sums.iter_mut().zip(values) {
                    *sum = add::<FAST, F>(*sum, w2[head * hidden + own], value);
                }
                store(outputs, head, count, start, &sums);
            }
        }
    }
}

/// The same for a known number of inputs and outputs, which stay in registers from unit to unit.
#[inline(always)]
fn known<const INPUTS: usize, const HEADS: usize, F: Unit>(
    network: TanhNetwork<'_>,
    rows: &[f64],
    outputs: &mut [f64],
) {
    let weights = network.weights::<F>();
    let [w1, b1, w2, a, b2] = network.split(&weights);
    let count = outputs.len() / HEADS;
    for start in (0..count).step_by(BLOCK) {
        let (mut x, mut sums) = ([[F::ZERO; BLOCK]; INPUTS], [[F::ZERO; BLOCK]; HEADS]);
        for (input, own) in x.iter_mut().enumerate() {
            *own = load(rows, input, count, start);
        }
        for head in 0..HEADS {
            sums[head] = [b2[head]; BLOCK];
            for input in 0..INPUTS {
                accumulate::<true, F>(&mut sums[head], &[a[head * INPUTS + input]; BLOCK], &x[input]);
            }
        }
        for (own, bias) in b1.iter().enumerate() {
            let mut values = [*bias; BLOCK];
            for input in 0..INPUTS {
                accumulate::<true, F>(&mut values, &[w1[own * INPUTS + input]; BLOCK], &x[input]);
            }
            for value in &mut values {
                *value = value.squashed::<true>();
            }
            for head in 0..HEADS {
                accumulate::<true, F>(&mut sums[head], &[w2[head * b1.len() + own]; BLOCK], &values);
            }
        }
        for (head, sums) in sums.iter().enumerate() {
            store(outputs, head, count, start, sums);
        }
    }
}

#[inline(always)]
fn vector<F: Unit>(network: TanhNetwork<'_>, rows: &[f64], outputs: &mut [f64]) {
    match (network.inputs, network.heads) {
        (1, 1) => known::<1, 1, F>(network, rows, outputs),
        (1, 2) => known::<1, 2, F>(network, rows, outputs),
        (2, 2) => known::<2, 2, F>(network, rows, outputs),
        _ => pass::<true, F>(network, rows, outputs),
    }
}
