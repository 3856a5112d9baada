//! Serves as a silo of a federated run: its data stay here, and its owner's file names the requests it answers.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::compiled_in::{CompiledIn, binary_head, check_covariates, labelled_data, party_of, six_cities_data};
use crate::executables::{Planned, SiloFile, Stay, StudyFile, Watch, run_party, run_silo, run_study_silo};
use crate::flower::{Log, Result, RunFile};
use crate::models::{LogisticRegression, MixedLogistic};
use clap::Args;

use super::say::note;
use super::shared::{Shared, SharedFile, clock, own_file};

/// The files of a silo.
#[derive(Args, Debug)]
pub(super) struct Options {
    #[command(flatten)]
    shared: SharedFile,
    /// This silo's own file.
    #[arg(long)]
    silo: PathBuf,
    /// Ends once it has the report of the study.
    #[arg(long)]
    once: bool,
}

pub(super) fn run(options: &Options, stop: &Arc<AtomicBool>) -> std::result::Result<(), Box<dyn Error>> {
    let file: SiloFile = own_file(&options.silo, "silo NAME --data FILE --link ADDRESS")?;
    let file = file.with_ledger_beside(&options.silo);
    let log: Log = Arc::new(|line: &str| note(format_args!("{} {line}", clock())));
    let watch = Watch { stop, log: &log };
    Ok(match options.shared.find()? {
        Shared::Study(path) => {
            let stay = if options.once { Stay::UntilReported } else { Stay::UntilStopped };
            run_study_silo(&StudyFile::read(&path)?, &file, stay, watch)
        }
        Shared::Run(path) => compiled_in(&RunFile::read(&path)?, &file, watch),
    }?)
}

/// Serves in a run of a model that is compiled in.
fn compiled_in(run: &RunFile, file: &SiloFile, watch: Watch<'_>) -> Result<()> {
    let model = CompiledIn::named(&run.model)?;
    model.check_columns(run)?;
    let base = model.settings();
    let run = Planned { file: run, base: &base };
    match model {
        CompiledIn::SixCities => {
            let load = |path: &Path, device: &crate::Device| six_cities_data(path, device);
            run_silo(&MixedLogistic::new(4), run, file, load, watch)
        }
        CompiledIn::LogisticRegression => {
            if let Some(expected) = &run.file.columns {
                let mut files = [Some(&file.data), file.held_out.as_ref()].into_iter().flatten();
                files.try_for_each(|path| check_covariates(&file.name, path, expected, "`columns` of the run file"))?;
            }
            let (columns, _) = labelled_data(&file.data, &crate::Device::flex())?;
            let load = |path: &Path, device: &crate::Device| Ok(labelled_data(path, device)?.1);
            run_silo(&LogisticRegression::new(columns), run, file, load, watch)
        }
        CompiledIn::VerticalLogistic => run_party(run, file, party_of, binary_head, watch),
    }
}
