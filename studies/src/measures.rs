//! Measures how far two posteriors lie apart: their means, covariances, determinants, and by Fisher's information.

mod fisher_rao;
mod moments;

pub use fisher_rao::fisher_rao_distance;
pub use moments::{covariance_distance, generalised_variance_difference, mean_distance};
