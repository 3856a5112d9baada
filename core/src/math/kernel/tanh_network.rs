//! Passes rows through a small network of one hidden layer and back, hidden units never leaving registers.

mod back;
mod forward;

pub use back::{TanhNetworkBack, tanh_network_back};
pub use forward::tanh_network;

use super::block::{BLOCK, Padded, Whole, add};
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
