//! Gives rounds of local steps with a join: averages of posteriors, and the server rules of federated averaging.

pub(crate) mod average;
pub(crate) mod fed_opt;
mod fed_opt_options;
mod join;
mod messages;
mod on_device;
mod private;
pub(crate) mod server;
pub(crate) mod sfvi_avg;
pub(crate) mod silo;

pub use fed_opt::FedOpt;
pub use fed_opt_options::FedOptOptions;
pub use on_device::DeviceAveragingSilo;
pub use sfvi_avg::{RoundOptions, SfviAvg};
pub use silo::AveragingSilo;
