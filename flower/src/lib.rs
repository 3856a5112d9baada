//! Carries Partita's messages between machines: an exchange over an unmodified Flower deployment, and the silo's loop.

mod carrier;
mod connection;
mod control;
mod decoders;
mod envelope;
mod error;
mod exchange;
mod fleet;
mod heart;
mod keeper;
mod length;
mod node_key;
mod node_signer;
mod npy;
mod object;
mod record;
mod run_file;
mod silo;
mod task;
mod wire;

pub use connection::Engine;
pub use decoders::{DECODERS, Decoder};
pub use envelope::{Envelope, LAYOUT_VERSION};
pub use error::{Error, Result};
pub use exchange::{CoordinatorOptions, Event, EventKind, Flower, Log, LostSilo, Patience};
pub use keeper::{Keeper, Program};
pub use length::{Length, LongRuns, STOCK_ROUND_SECONDS};
pub use node_key::NodeKey;
pub use npy::{npy_decode, npy_encode};
pub use object::{Limits, Object, ObjectId, Objects};
pub use record::{pack, unpack};
pub use run_file::{AlgorithmName, RunFile, ScheduleName, read_toml};
pub use silo::{SiloOptions, serve};
pub use wire::ENGINE_VERSION;
