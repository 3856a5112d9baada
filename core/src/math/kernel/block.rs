//! Cuts slices into blocks of a fixed width, and sums blocks in an order that no instruction set changes.

use std::ops::{Add, AddAssign, Mul, MulAssign, Sub};

/// Numbers in one block of a vectorised loop: two AVX-512 registers, four AVX2 registers; half as many in single precision.
pub const BLOCK: usize = 16;

/// Numbers that a kernel computes with: in double precision, or in single precision with twice as many in a register.
pub(super) trait Lane:
    Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + AddAssign + MulAssign
{
    const ZERO: Self;
    const ONE: Self;
    const NAN: Self;

    /// This number plus $ab$, with one rounding.
    fn fused(self, a: Self, b: Self) -> Self;

    /// The nearest number to one in double precision.
    fn of(number: f64) -> Self;

    /// The same number in double precision.
    fn wide(self) -> f64;
}

macro_rules! lane {
    ($kind:ty) => {
        impl Lane for $kind {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const NAN: Self = <$kind>::NAN;

            #[inline(always)]
            fn fused(self, a: Self, b: Self) -> Self {
                a.mul_add(b, self)
            }

            #[inline(always)]
            fn of(number: f64) -> Self {
                number as $kind
            }

            #[inline(always)]
            fn wide(self) -> f64 {
                f64::from(self)
            }
        }
    };
}

lane!(f64);
lane!(f32);

/// Whether a parameter has one number for each of `count` events, or one for all.
#[inline]
pub(super) fn serves(parameter: &[f64], count: usize) -> bool {
    parameter.len() == count || parameter.len() == 1
}

/// The number of an event, or the one that serves all.
#[inline]
pub(crate) fn at(parameter: &[f64], event: usize) -> f64 {
    if let [shared] = parameter { *shared } else { parameter[event] }
}

/// Whether an output has one slot for each of `count` events, or none because it is not asked for.
#[inline]
pub(super) fn takes<T>(output: &[T], count: usize) -> bool {
    output.len() == count || output.is_empty()
}

/// One multiplication and addition, with one rounding where the machine has the instruction.
#[inline(always)]
pub(super) fn add<const FUSED: bool, F: Lane>(sum: F, a: F, b: F) -> F {
    if FUSED { sum.fused(a, b) } else { sum + a * b }
}

/// Reads and writes the blocks that lie wholly inside their slices: without any index the compiler does not know, so
/// that blocks stay in registers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Whole;

impl Whole {
    /// The block from `start` on.
    #[inline(always)]
    pub(super) fn load<F: Lane>(self, numbers: &[F], start: usize) -> [F; BLOCK] {
        numbers.get(start..).and_then(<[F]>::first_chunk).copied().unwrap_or([F::NAN; BLOCK])
    }

    /// The block from `start` on, or the one number that serves every event.
    #[inline(always)]
    pub(super) fn serve(self, parameter: &[f64], start: usize) -> [f64; BLOCK] {
        if let [shared] = parameter { [*shared; BLOCK] } else { self.load(parameter, start) }
    }

    /// Writes the block from `start` on; an empty slice takes nothing.
    #[inline(always)]
    pub(super) fn store<F: Lane>(self, numbers: &mut [F], start: usize, block: &[F; BLOCK]) {
        if let Some(place) = numbers.get_mut(start..).and_then(<[F]>::first_chunk_mut) {
            *place = *block;
        }
    }
}

/// Reads and writes the last block, which reaches beyond the end of its slices.
#[derive(Debug, Clone, Copy)]
pub(super) struct Padded;

impl Padded {
    /// The numbers from `start` on, the last of them repeated: padding is always a number that a kernel accepts.
    #[inline(always)]
    pub(super) fn load<F: Lane>(self, numbers: &[F], start: usize) -> [F; BLOCK] {
        let mut block = [numbers.last().copied().unwrap_or(F::NAN); BLOCK];
        for (slot, number) in block.iter_mut().zip(numbers.get(start..).unwrap_or(&[])) {
            *slot = *number;
        }
        block
    }

    /// As `load`, which repeats the one number that serves every event.
    #[inline(always)]
    pub(super) fn serve(self, parameter: &[f64], start: usize) -> [f64; BLOCK] {
        self.load(parameter, start)
    }

    /// Writes the block from `start` on as far as there are slots.
    #[inline(always)]
    pub(super) fn store<F: Lane>(self, numbers: &mut [F], start: usize, block: &[F; BLOCK]) {
        for (slot, number) in numbers.get_mut(start..).unwrap_or(&mut []).iter_mut().zip(block) {
            *slot = *number;
        }
    }
}

/// Adds up the terms of blocks: one running sum a lane, the lanes added in pairs at the end.
///
/// `sum_blocks!(count, |io, start| body)` evaluates `body`, an array of [`BLOCK`] terms, for each block from `start`
/// on, with `io` the [`Whole`] or [`Padded`] access to slices. A macro, because a closure would not be compiled for the
/// instruction set of its caller.
macro_rules! sum_blocks {
    ($count:expr, |$io:ident, $start:ident| $body:block) => {{
        let count = $count;
        let whole = count - count % $crate::math::kernel::block::BLOCK;
        let mut lanes = [0.0; $crate::math::kernel::block::BLOCK];
        for $start in (0..whole).step_by($crate::math::kernel::block::BLOCK) {
            let $io = $crate::math::kernel::block::Whole;
            let terms: [f64; $crate::math::kernel::block::BLOCK] = $body;
            for (lane, term) in lanes.iter_mut().zip(terms) {
                *lane += term;
            }
        }
        if whole < count {
            let ($io, $start) = ($crate::math::kernel::block::Padded, whole);
            let mut terms: [f64; $crate::math::kernel::block::BLOCK] = $body;
            terms[count - whole..].fill(0.0);
            for (lane, term) in lanes.iter_mut().zip(terms) {
                *lane += term;
            }
        }
        $crate::math::kernel::block::total(&lanes)
    }};
}
pub(super) use sum_blocks;

/// Replaces every number of a slice by what a function makes of it, block by block. A macro for the reason of [`sum_blocks`].
macro_rules! map_blocks {
    ($numbers:expr, $map:expr) => {{
        let (blocks, rest) = $numbers.as_chunks_mut::<{ $crate::math::kernel::block::BLOCK }>();
        for block in blocks {
            for number in block {
                *number = $map(*number);
            }
        }
        if !rest.is_empty() {
            let block = $crate::math::kernel::block::Padded.load(rest, 0).map($map);
            $crate::math::kernel::block::Padded.store(rest, 0, &block);
        }
    }};
}
pub(super) use map_blocks;

/// The sum of the lanes, added in pairs.
///
/// It is a call of its own: where it is seen, LLVM keeps the running sums in pairs, in place of whole registers.
#[inline(never)]
pub(super) fn total<F: Lane>(lanes: &[F; BLOCK]) -> F {
    let mut lanes = *lanes;
    let mut width = BLOCK / 2;
    while width > 0 {
        for lane in 0..width {
            let other = lanes[lane + width];
            lanes[lane] += other;
        }
        width /= 2;
    }
    lanes[0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::kernel::testing::bits;

    #[test]
    fn one_number_serves_every_event() {
        assert_eq!(bits(&Whole.serve(&[2.5], 32)), bits(&[2.5; BLOCK]));
        assert_eq!(bits(&Padded.serve(&[2.5], 32)), bits(&[2.5; BLOCK]));
    }

    #[test]
    fn a_short_block_repeats_the_last_number() {
        let numbers: Vec<f64> = (0..19).map(f64::from).collect();
        let mut expected = [18.0; BLOCK];
        expected[..3].copy_from_slice(&[16.0, 17.0, 18.0]);
        assert_eq!(bits(&Padded.load(&numbers, 16)), bits(&expected));
    }

    #[test]
    fn storing_what_was_loaded_copies() {
        let numbers: Vec<f64> = (0..35).map(f64::from).collect();
        let mut copy = vec![0.0; numbers.len()];
        Whole.store(&mut copy, 0, &Whole.load(&numbers, 0));
        Whole.store(&mut copy, 16, &Whole.load(&numbers, 16));
        Padded.store(&mut copy, 32, &Padded.load(&numbers, 32));
        assert_eq!(bits(&copy), bits(&numbers));
        Whole.store(&mut [], 0, &[1.0; BLOCK]);
        Padded.store(&mut [], 16, &[1.0; BLOCK]);
    }

    #[test]
    fn a_sum_counts_every_term_once() {
        for count in [0_u16, 1, 15, 16, 17, 40] {
            let numbers = vec![1.0; count.into()];
            let sum = sum_blocks!(numbers.len(), |io, start| { io.load(&numbers, start) });
            assert_eq!(sum.to_bits(), f64::from(count).to_bits());
        }
    }
}
