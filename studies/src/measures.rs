//! Measures how far two posteriors lie apart, which words a topic has, and whether they occur in the same documents.

mod coherence;
mod fisher_rao;
mod moments;
mod top_words;

pub use coherence::umass_coherence;
pub use fisher_rao::fisher_rao_distance;
pub use moments::{covariance_distance, generalised_variance_difference, mean_distance};
pub use top_words::top_words;
