//! Declares the options that every study has: its size, its folders, its seed and its device.

use std::path::PathBuf;

use clap::Args;

/// The options of every study.
#[derive(Args, Debug, Clone)]
pub struct Shared {
    /// Takes few rows, steps and draws, to test that it runs.
    #[arg(long)]
    pub quick: bool,
    /// Resumes: takes finished results of an earlier run with the same settings from the output folder.
    #[arg(long)]
    pub resume: bool,
    /// The folder for result.json, the pictures and what `--resume` needs; output/NAME if none is given.
    #[arg(long)]
    pub output: Option<PathBuf>,
    /// The seed of all randomness.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The device: flex, ndarray, wgpu, vulkan or cuda; else the variable `BURN_DEVICE`, else flex.
    #[arg(long)]
    pub device: Option<String>,
    /// Threads for silos, parties and chains; the result does not depend on them.
    #[arg(long, default_value_t = 2)]
    pub threads: usize,
}

/// The options of a study that writes its page of the book.
#[derive(Args, Debug, Clone)]
pub struct WithPage {
    /// Those of every study.
    #[command(flatten)]
    pub shared: Shared,
    /// Writes the page of the book.
    #[arg(long)]
    pub page: Option<PathBuf>,
}
