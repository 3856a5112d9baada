//! Reads one model declaration five ways: site table, prior draws, log density, predictive draws, pointwise likelihood.

mod density;
mod draw;
mod encoding;
mod gradient;
mod latents;
mod levels;
mod levels_on_device;
mod locally_enhanced;
mod on_device;
mod on_device_encoding;
mod simulated;
mod table;
#[cfg(all(test, feature = "flex"))]
mod tapes;
pub mod vertical;

pub use density::LogDensity;
pub use draw::{
    Draw, Predictive, expected_values, natural_values, observed_values, pointwise_log_likelihood, predictive_draw,
    predictive_log_likelihood, prior_draw, replicated_log_likelihood,
};
pub use encoding::Encoded;
pub use gradient::ValueAndGradient;
pub use latents::Latents;
pub use levels::Levels;
pub use levels_on_device::DeviceLevels;
pub use locally_enhanced::Enhanced;
pub use on_device::DeviceValueAndGradient;
pub use on_device_encoding::DeviceEncoded;
pub use simulated::{SiloNoise, Simulated, SimulatedData};
