//! Declares models: the user's functions, the sites they declare, and the rows, matrices and layers they use.

mod amortised;
mod any_model;
mod design;
pub(crate) mod encoding;
mod gathered;
mod linear;
pub(crate) mod model;
mod nesting;
pub(crate) mod panic;
pub(crate) mod rows;
pub(crate) mod scope;
pub(crate) mod site;
mod sparse;
mod takes;
pub(crate) mod theta;
pub(crate) mod uploaded;
pub(crate) mod vertical;

pub use amortised::Amortised;
pub use any_model::{AnyData, AnyModel};
pub use design::Design;
pub use encoding::{Encoder, Encoding};
pub use linear::BayesianLinear;
pub use model::Model;
pub use rows::Rows;
pub use scope::{Minibatch, Moments, PlateRows, Scope};
pub use site::{LocalBlock, Parent, Part, Role, Site, SiteTable};
pub use sparse::{SparseRows, low_rank_multinomial};
pub use theta::{device_theta, shared_theta, theta, with_device_theta, with_shared_theta, with_theta};
