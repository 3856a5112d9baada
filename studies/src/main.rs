//! Runs a study by its name: `cargo run --release -p partita-studies -- NAME [options]`.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    partita_studies::main()
}
