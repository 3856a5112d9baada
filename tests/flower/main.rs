//! Claims what holds over a real engine on this machine, and of the executables; tests of the engine skip where it is not installed.

mod algorithms;
mod asynchronous;
mod bytes;
mod compiled_in;
mod engine;
mod executables;
mod faults;
mod generalised;
mod messages;
mod policies;
mod trust;
mod vertical;
