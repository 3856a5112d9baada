//! Claims what holds over a real engine on this machine; each test skips where it is not installed.

mod asynchronous;
mod bytes;
mod engine;
mod executables;
mod faults;
mod generalised;
mod messages;
mod policies;
mod trust;
mod vertical;
