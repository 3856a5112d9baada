//! Holds ready-made parts of vertical models: contributions of parties, and heads of the label holder.

mod heads;
mod linear;
mod multilevel;
mod network;

pub use heads::{BernoulliHead, CategoricalHead, Counts, GaussianHead, PoissonHead, WithIntercept, binary_labels};
pub use linear::Linear;
pub use multilevel::{Multilevel, MultilevelLatents, by_level};
pub use network::{LastLayer, LatentNetwork, PointNetwork};
