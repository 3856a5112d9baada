//! What silos agree on without showing rows: each sends a profile, and the profiles merge to one agreement.

mod agreement;
mod declared;
mod error;
mod histogram;
mod item;
mod moments;
mod polynomial;
mod profile;

pub use agreement::Agreement;
pub use declared::{Boundary, Contrast, Declared, Scaling};
pub use error::AgreementError;
pub use histogram::{Histogram, HistogramCell};
pub use item::{ChebyshevSums, DesignPart, Item};
pub use moments::Moments;
pub use polynomial::OrthogonalPolynomial;
pub use profile::Profile;
