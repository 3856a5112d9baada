//! Provides the parts that all studies share: options, a session, claims, tables, numbers.

mod claim;
mod numbers;
mod options;
mod outcome;
mod pace;
mod session;
mod table;

pub use claim::{Claim, Claims};
pub use numbers::{curve_of, improper_cavities, largest, mean, moments, real, sample_sd, thinned};
pub use options::{Shared, WithPage};
pub use outcome::is_outcome;
pub use pace::Pace;
pub use session::{Session, State};
pub use table::Table;

/// Why a study ends early.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The result of a part of a study.
pub type Result<T> = std::result::Result<T, Failure>;
