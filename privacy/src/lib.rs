//! Makes sums over a silo's rows differentially private: exact clipping, discrete noise, accounting, ledger and masks.
//!
//! The crate depends on no other one of the workspace, and its only input or output is the file of the ledger.
//!
//! $$ \text{release} = \sum_i \mathrm{clip}_C(v_i) + \text{noise}, $$
//!
//! where $v_i$ is what row $i$ contributes. [`Grid`] truncates and clips in whole numbers, so that the sensitivity is
//! exact; [`DiscreteGaussian`] draws the noise; [`Cost`] and [`Accountant`] say what releases cost; [`Ledger`] refuses
//! what a silo's owner does not allow; [`Masker`] hides a silo's sum among those of others.

mod accountant;
mod audit;
mod entropy;
mod error;
mod gaussian;
mod grid;
pub mod hexadecimal;
mod ledger;
mod masks;
mod renyi;
mod sample;

pub use accountant::{Accountant, Conversion, Cost};
pub use audit::Audit;
pub use entropy::{Entropy, SeededBits, SystemEntropy};
pub use error::{Error, Result};
pub use gaussian::DiscreteGaussian;
pub use grid::{Grid, GridSum, Released};
pub use ledger::{Answer, Budget, Ledger, Mark, Spent};
pub use masks::{Masked, Masker, Peers, Place, RunKey, SignedKey, SiloKey};
pub use sample::poisson_sample;
