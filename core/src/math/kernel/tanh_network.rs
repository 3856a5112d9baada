//! Passes rows through a small network of one hidden layer and back, hidden units never leaving registers.

mod back;
mod forward;

pub use back::{TanhNetworkBack, tanh_network_back, tanh_network_back_single};
pub use forward::{tanh_network, tanh_network_single};

use super::block::{BLOCK, Lane, Padded, Whole, add};
use super::polynomial::{exp_below_zero, exp_below_zero_single};

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

impl TanhNetwork<'_> {
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

    /// All weights, in the precision that rows pass in.
    #[inline(always)]
    fn weights<F: Lane>(&self) -> Vec<F> {
        self.parameters.iter().map(|weight| F::of(*weight)).collect()
    }

    /// The five blocks of all weights.
    #[inline(always)]
    fn split<'w, F>(&self, weights: &'w [F]) -> [&'w [F]; 5] {
        let mut rest = weights;
        self.lengths().map(|length| {
            let (own, left) = rest.split_at(length.min(rest.len()));
            rest = left;
            own
        })
    }
}

/// Numbers that pass through hidden units.
trait Unit: Lane {
    /// $\tanh x$ within 4e-16, or 1.2e-7 in single precision; odd to the last bit and exact at both ends.
    fn squashed<const FAST: bool>(self) -> Self;
}

macro_rules! squashed {
    ($kind:ty, $exponential:ident) => {
        impl Unit for $kind {
            #[inline(always)]
            fn squashed<const FAST: bool>(self) -> Self {
                if !FAST {
                    return self.tanh();
                }
                let t = $exponential(-2.0 * self.abs());
                ((1.0 - t) / (1.0 + t)).copysign(self)
            }
        }
    };
}

squashed!(f32, exp_below_zero_single);
squashed!(f64, exp_below_zero);

/// The block from `start` on of a column of `count` rows.
#[inline(always)]
fn load<F: Lane>(columns: &[f64], column: usize, count: usize, start: usize) -> [F; BLOCK] {
    let own = columns.get(column * count..(column + 1) * count).unwrap_or(&[]);
    let numbers: [f64; BLOCK] = if start + BLOCK <= count { Whole.load(own, start) } else { Padded.load(own, start) };
    let mut block = [F::ZERO; BLOCK];
    for (slot, number) in block.iter_mut().zip(numbers) {
        *slot = F::of(number);
    }
    block
}

/// Writes the block from `start` on of a column of `count` rows, as far as it reaches.
#[inline(always)]
fn store<F: Lane>(columns: &mut [f64], column: usize, count: usize, start: usize, block: &[F; BLOCK]) {
    let own = columns.get_mut(column * count..(column + 1) * count).unwrap_or(&mut []);
    let mut numbers = [0.0; BLOCK];
    for (number, slot) in numbers.iter_mut().zip(block) {
        *number = slot.wide();
    }
    if start + BLOCK <= count { Whole.store(own, start, &numbers) } else { Padded.store(own, start, &numbers) }
}

/// Where a column of `count` rows lies.
#[inline(always)]
fn column(columns: &[f64], index: usize, count: usize) -> &[f64] {
    columns.get(index * count..(index + 1) * count).unwrap_or(&[])
}

/// The hidden unit of a block of rows.
#[inline(always)]
fn unit<const FAST: bool, F: Unit>(w1: &[F], bias: F, columns: &[f64], count: usize, start: usize) -> [F; BLOCK] {
    let mut sums = [bias; BLOCK];
    for (input, weight) in w1.iter().enumerate() {
        for (sum, x) in sums.iter_mut().zip(load::<F>(columns, input, count, start)) {
            *sum = add::<FAST, F>(*sum, *weight, x);
        }
    }
    for sum in &mut sums {
        *sum = sum.squashed::<FAST>();
    }
    sums
}

/// Adds products of two blocks to running sums.
#[inline(always)]
fn accumulate<const FAST: bool, F: Lane>(sums: &mut [F; BLOCK], a: &[F; BLOCK], b: &[F; BLOCK]) {
    for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
        *sum = add::<FAST, F>(*sum, *a, *b);
    }
}
