//! What a Partita probability statement is made of: data, sites, scope, distributions, bijectors, noise.

pub use burn;

mod amortised;
mod array;
mod bijector;
pub mod data;
mod design;
mod device;
mod distribution;
mod error;
mod gathered;
mod handle;
pub mod kernel;
#[cfg(feature = "laws")]
pub mod laws;
mod linear;
mod loss;
mod model;
mod noise;
mod operation;
mod reading;
mod rows;
mod scope;
mod site;
mod sparse;
pub mod special;
mod theta;
mod uploaded;
pub mod vertical;

pub use amortised::{Amortised, Encoder, Encoding};
pub use array::Array;
pub use bijector::{
    AffineMap, Bijector, CorrelationCholeskyMap, CovarianceCholeskyMap, ExponentialMap, IdentityMap, IntervalMap,
    OrderedMap, SimplexMap, SoftplusMap, for_support,
};
pub use data::{
    Alignment, BadCell, DataError, Fold, Minibatches, MissingCell, PartyColumn, PartyRows, RepeatedKey, Scaling,
    SmallLarge, Table, distinct_labels, folds, keyed_digest, partition_by_class, partition_by_k_means,
    partition_by_key, partition_by_label_skew, partition_by_shards, partition_by_sizes, partition_each_row,
    partition_equally, partition_groups, partition_small_large, stratified_folds,
};
pub use design::Design;
pub use device::{Device, Precision, host_reads};
pub use distribution::*;
pub use error::{Error, Result};
pub use handle::Handle;
pub use linear::BayesianLinear;
pub use loss::Loss;
pub use model::Model;
pub use noise::{Key, Noise, NoiseKind, NoiseStream, Purpose};
pub use operation::{cholesky, digamma, elementwise, ln_gamma, log_sum_exp, low_rank_multinomial, triangular_solve};
pub use reading::{
    Assessment, DeviceAssessment, DeviceEncoded, Draw, Encoded, Enhanced, Latents, LogDensity, natural_values,
    pointwise_log_likelihood, predictive_draw, predictive_log_likelihood, prior_draw,
};
pub use rows::Rows;
pub use scope::{Minibatch, Moments, Scope};
pub use site::{LocalBlock, Part, Role, Site, SiteTable};
pub use sparse::SparseRows;
pub use theta::{device_theta, shared_theta, theta, with_device_theta, with_shared_theta, with_theta};
