//! Fits models over the data of silos from the command line.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    partita::commands::run(&partita::commands::Models::usual())
}
