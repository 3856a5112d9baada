//! Offers vectorised loops for what a step spends its time on: log densities with derivatives, `exp`, Adam.
//!
//! Every kernel is one plain loop over blocks of [`BLOCK`] numbers, written so that LLVM vectorises it, and compiled
//! three times: under AVX-512, under AVX2 with FMA, and, for machines with neither, as another loop over libm. The
//! choice is made at run time. The AVX2 and the AVX-512 build perform the same IEEE operations in the same order, so
//! that they return the same bits; the libm loop agrees to the relative error stated at each kernel.
//!
//! Nanoseconds an element, 2,144 elements in the first-level cache, value and derivative (AMD EPYC with AVX-512,
//! Rust 1.95; `cargo bench --bench kernels` repeats it):
//!
//! | kernel | AVX-512 | AVX2 | libm |
//! |---|---|---|---|
//! | [`bernoulli_logit`] | 1.20 | 2.12 | 9.06 |
//! | [`poisson_log`] | 0.48 | 0.97 | 3.02 |
//! | [`normal()`], all derivatives, scales differ | 0.80 | 1.53 | 5.06 |
//! | [`categorical_logit`], ten categories, per logit | 2.13 | 2.88 | 5.67 |
//! | [`exponential()`] | 0.45 | 0.83 | 2.51 |
//! | [`adam()`] | 0.35 | 0.70 | 1.37 |
//!
//! A NaN among the inputs that matter gives a NaN result; nothing is clamped into looking finite.

/// Defines a public kernel and the method of [`InstructionSet`] that runs it: `vector` under a vector set, or `scalar`.
macro_rules! dispatch {
    (
        $(#[$attribute:meta])*
        $name:ident($($argument:ident: $kind:ty),* $(,)?) -> $answer:ty
        where $invariant:expr;
        $vector:expr, $scalar:expr
    ) => {
        $(#[$attribute])*
        pub fn $name($($argument: $kind),*) -> $answer {
            crate::math::kernel::InstructionSet::Avx512.$name($($argument),*)
        }

        impl crate::math::kernel::InstructionSet {
            #[doc = concat!("`", stringify!($name), "` under this instruction set, or the widest of a machine without it.")]
            ///
            /// # Panics
            /// If the lengths disagree.
            #[cfg_attr(target_arch = "x86_64", expect(unsafe_code, reason = "calls follow a run-time check of the instruction set"))]
            pub fn $name(self, $($argument: $kind),*) -> $answer {
                assert!($invariant, concat!("invariant: the lengths given to `", stringify!($name), "` agree"));
                #[cfg(target_arch = "x86_64")]
                {
                    #[target_feature(enable = "avx2,fma")]
                    fn avx2($($argument: $kind),*) -> $answer {
                        $vector($($argument),*)
                    }
                    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx2,fma")]
                    fn avx512($($argument: $kind),*) -> $answer {
                        $vector($($argument),*)
                    }
                    match self.max(Self::of_this_machine()) {
                        // SAFETY: `of_this_machine` found every feature that `avx512` is compiled with.
                        Self::Avx512 => return unsafe { avx512($($argument),*) },
                        // SAFETY: `of_this_machine` found every feature that `avx2` is compiled with.
                        Self::Avx2 => return unsafe { avx2($($argument),*) },
                        Self::Libm => {}
                    }
                }
                // On other machines the vectorised loop is compiled, checked and left out.
                #[cfg(not(target_arch = "x86_64"))]
                let _ = $vector;
                $scalar($($argument),*)
            }
        }
    };
}

mod adam;
mod bernoulli;
mod beta;
mod binomial;
mod block;
mod box_muller;
mod categorical;
mod diagonal;
mod draw_slopes;
mod exponential;
mod linear;
mod logarithm;
mod low_rank;
mod normal;
pub mod on_device;
mod poisson;
mod polynomial;
mod sparse;
mod stick;
mod tanh_network;

pub use adam::{AdamUpdate, adam, adam_single};
pub use bernoulli::bernoulli_logit;
pub use beta::{BetaTerms, beta};
pub use binomial::{BinomialTerms, binomial_logit};
pub use block::BLOCK;
pub(crate) use block::at;
pub use box_muller::box_muller;
pub use categorical::categorical_logit;
pub use diagonal::{
    DiagonalDraw, DiagonalSlopes, diagonal_draw, diagonal_draw_single, diagonal_slopes, diagonal_slopes_single,
    diagonal_variances_single,
};
pub use draw_slopes::{DrawEntropy, DrawSlopes, draw_slopes};
pub use exponential::exponential;
pub use linear::{add_scaled, add_scaled_single, dot, dot_single};
pub use logarithm::logarithm;
pub use low_rank::{ROWS, low_rank_factors, low_rank_loadings, low_rank_logits};
pub use normal::{NormalTerms, normal, normal_single};
pub use poisson::poisson_log;
pub use sparse::{SparseColumns, SparseEntries, sparse_columns, sparse_product, sparse_transposed};
pub use stick::stick;
pub use tanh_network::{
    TanhNetwork, TanhNetworkBack, tanh_network, tanh_network_back, tanh_network_back_single, tanh_network_single,
};

/// An instruction set that kernels run under, the widest first; its methods are the kernels under this set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum InstructionSet {
    /// Eight numbers at a time.
    Avx512,
    /// Four numbers at a time.
    Avx2,
    /// One number at a time, with the functions of the platform's C library.
    Libm,
}

impl InstructionSet {
    /// The widest one of this machine. The environment is asked once; later calls read a cached flag.
    #[must_use]
    #[inline]
    pub fn of_this_machine() -> Self {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            let wide = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl");
            return if wide { Self::Avx512 } else { Self::Avx2 };
        }
        Self::Libm
    }
}

/// Numbers shared by unit tests.
#[cfg(test)]
pub(crate) mod testing {
    /// Lengths around the block, and one long.
    pub(crate) const LENGTHS: [usize; 8] = [0, 1, 3, 15, 16, 17, 65, 2144];

    /// Numbers in `low..high` in no particular order, the same on every run.
    pub(crate) fn scattered(length: usize, low: f64, high: f64) -> Vec<f64> {
        let golden = 0.618_033_988_749_894_9;
        (1..=length).map(|index| low + (high - low) * (index as f64 * golden).fract()).collect()
    }

    /// The bits of a list, to compare exactly.
    pub(crate) fn bits(numbers: &[f64]) -> Vec<u64> {
        numbers.iter().map(|number| number.to_bits()).collect()
    }
}
