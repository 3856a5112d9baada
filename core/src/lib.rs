//! Holds what a probability statement of Partita needs: data, sites, scope, distributions, bijectors, noise.
//!
//! | room | contents |
//! |---|---|
//! | `array`, `device`, `handle`, `error`, `noise` | the basis: numbers, tensors, errors, every random number |
//! | `math` | special functions, vectorised loops, host functions as nodes of Burn's tape |
//! | `distribution` | densities with their draws and derivatives, and the losses of observations |
//! | `bijector` | maps between unconstrained numbers and supports |
//! | `data` | tables, partitions, minibatches, alignment by key |
//! | `declare` | models: the trait, the scope, sites, rows, matrices, layers, encoders |
//! | `ode` | ordinary differential equations, with the feature `ode` |
//! | `read` | the five readings of a model: site table, draws, density, predictive, pointwise |

pub use burn;

mod array;
mod bijector;
pub mod data;
mod declare;
mod device;
mod distribution;
mod error;
mod handle;
mod math;
mod noise;
mod number;
#[cfg(feature = "ode")]
pub mod ode;
mod read;

pub use array::Array;
pub use bijector::{
    Bijector, CorrelationCholeskyMap, CovarianceCholeskyMap, ExponentialMap, HalfLineMap, IdentityMap, IntervalMap,
    OrderedMap, PositiveOrderedMap, SimplexMap, for_support,
};
pub use data::{
    Alignment, BadCell, DataError, Fold, Groups, Minibatches, MissingCell, PartyColumn, PartyKeys, PartyRows,
    RepeatedKey, Scaling, SmallLarge, Table, distinct_labels, folds, keyed_digest, partition_by_class,
    partition_by_k_means, partition_by_key, partition_by_label_skew, partition_by_shards, partition_by_sizes,
    partition_each_row, partition_equally, partition_groups, partition_small_large, stratified_folds,
};
pub use declare::{
    Amortised, AnyData, AnyModel, BayesianLinear, Design, Encoder, Encoding, LocalBlock, Minibatch, Model, Moments,
    Parent, Part, PlateRows, Role, Rows, Scope, Site, SiteTable, SparseRows, device_theta, low_rank_multinomial,
    shared_theta, theta, with_device_theta, with_shared_theta, with_theta,
};
pub use device::{Device, Precision, host_reads};
pub use distribution::*;
pub use error::{Error, Result};
pub use handle::Handle;
pub use math::awake::{at_work, keep_awake};
pub use math::operation::{
    Differentiable, Recurrence, Scan, cholesky, custom_vjp, custom_vjp_outputs, digamma, elementwise, hidden_markov,
    ln_gamma, log_sum_exp, ordered_sum, scan, taped, triangular_solve,
};
pub use math::real::Real;
pub use math::{kernel, special};
pub use noise::{DrawNoise, Key, Noise, NoiseKind, NoiseStream, Purpose};
pub use number::Number;
pub use read::{
    DeviceEncoded, DeviceLevels, DeviceValueAndGradient, Draw, Encoded, Enhanced, Latents, Levels, LogDensity,
    Predictive, SiloNoise, Simulated, SimulatedData, ValueAndGradient, expected_values, natural_values,
    observed_values, pointwise_log_likelihood, predictive_draw, predictive_log_likelihood, prior_draw,
    replicated_log_likelihood, vertical,
};
