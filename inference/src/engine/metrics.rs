//! Judges predictions, topics, Markov chains and posteriors of simulated data, one measure a file.

mod accuracy;
mod calibration;
mod chains;
mod coherence;
mod effective_sample_size;
mod error;
mod leave_one_out;
mod log_likelihood;
mod predictions;
mod r_hat;
mod smoothed_weights;
mod symmetry;
mod top_words;
mod uniformity;

pub use accuracy::accuracy;
pub use calibration::{Calibration, CalibrationBin, calibration, expected_calibration_error};
pub use coherence::umass_coherence;
pub use effective_sample_size::{bulk_effective_sample_size, tail_effective_sample_size};
pub use error::MetricError;
pub use leave_one_out::LeaveOneOut;
pub use log_likelihood::test_log_likelihood;
pub use predictions::Predictions;
pub use r_hat::r_hat;
pub use smoothed_weights::SmoothedWeights;
pub(crate) use smoothed_weights::{shape_beyond, threshold as pareto_k_threshold};
pub use symmetry::Symmetry;
pub use top_words::top_words;
pub use uniformity::{Counts, SimultaneousBand};

use crate::engine::family::real;
