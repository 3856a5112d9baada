//! Declares models of rows whose columns are held by different parties, and reads the share of each party.
//!
//! The rows are the same everywhere, the columns are split, $`x = (x_1, \dots, x_J)`$, and the posterior is
//! ```math
//! \pi(\theta \mid y) \propto p\Big(y \,\Big|\, \sum_j g_j(x_j, \theta_j), \gamma\Big)\,
//! p(\gamma) \prod_j p_j(\theta_j).
//! ```
//! Each party declares its prior and its contribution ([`Contribution`]), whoever holds the labels declares what they
//! are given the sum ([`Head`]). Auxiliary variables and families are the framework's business.
//!
//! # References
//! Hassan, Sutton, Mira and Mengersen (2024), Scalable vertical federated learning via data augmentation and amortized
//! inference.

mod labels;
mod party;
mod pooled;

pub use crate::declare::vertical::{Columns, Contribution, Head};
pub use labels::{Labels, LikelihoodAt, LikelihoodShare};
pub use party::{Contributed, Party};
pub use pooled::{Augmentation, Pooled, PooledGlobals};
