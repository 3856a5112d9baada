//! Serves as a silo of a federated run: its data stay here, and its owner's file names the requests it answers.
#![allow(clippy::print_stderr, reason = "an executable tells its owner what happens")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Parser;
use partita::compiled_in::{CompiledIn, binary_head, labelled_data, party_of, six_cities_data};
use partita::executables::{Planned, SiloFile, Watch, run_party, run_silo};
use partita::flower::{Result, RunFile, read_toml};
use partita::models::{LogisticRegression, MixedLogistic};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A silo of a federated run over Flower.
#[derive(Parser, Debug)]
#[command(version)]
struct Options {
    /// The run's file, the same at all parties.
    #[arg(long, default_value = "run.toml")]
    run: PathBuf,
    /// This silo's own file.
    #[arg(long)]
    silo: PathBuf,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    if let Err(error) = ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed)) {
        eprintln!("Ctrl-C will end the silo at once: {error}");
    }
    match serve(&options, &stop) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("partita-silo: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(options: &Options, stop: &AtomicBool) -> Result<()> {
    let run = RunFile::read(&options.run)?;
    let file: SiloFile = read_toml(&options.silo)?;
    let model = CompiledIn::named(&run.model)?;
    let base = model.settings();
    let mut log = |line: &str| eprintln!("{line}");
    let watch = Watch { stop, log: &mut log };
    let run = Planned { file: &run, base: &base };
    match model {
        CompiledIn::SixCities => {
            let load = |path: &Path, device: &partita::Device| six_cities_data(path, device);
            run_silo(&MixedLogistic::new(4), run, &file, load, watch)
        }
        CompiledIn::LogisticRegression => {
            let (columns, _) = labelled_data(&file.data, &partita::Device::flex())?;
            let load = |path: &Path, device: &partita::Device| Ok(labelled_data(path, device)?.1);
            run_silo(&LogisticRegression::new(columns), run, &file, load, watch)
        }
        CompiledIn::VerticalLogistic => run_party(run, &file, party_of, binary_head, watch),
    }
}
