//! Runs a party from its configuration file: what the executables do for the models they know, and yours for your own.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use partita_core::{Device, Model};
use partita_flower::{
    CoordinatorOptions, Engine, Error, Flower, Keeper, Limits, Log, LostSilo, Patience, Result, RunFile, SiloOptions,
    serve,
};
use partita_inference::{Absence, AlgorithmChoice, Progress, Report, Settings, coordinator, fit_parties, silo_program};
use serde::{Deserialize, Serialize};

/// A silo's own file, such as `north.toml`: who it is, where its data are, and what its owner allows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiloFile {
    /// The silo's name.
    pub name: String,
    /// Its SuperNode.
    pub engine: Engine,
    /// What it may be asked: `sfvi`, `avg`, `pvi`.
    pub allow: Vec<String>,
    /// Its data, as the model reads them.
    pub data: PathBuf,
    /// The folder of its state: its factor, its local posteriors. Nobody else may have it.
    pub state: PathBuf,
}

/// The coordinator's own file: where the SuperLink is, and where its results go.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoordinatorFile {
    /// The SuperLink.
    pub engine: Engine,
    /// The folder of its checkpoints: one after every round.
    pub state: PathBuf,
    /// The folder of the report.
    pub output: PathBuf,
    /// How long it waits, and how much it reads.
    #[serde(flatten)]
    pub patience: Patience,
    /// The fewest silos with which the run goes on, where `lost_silo = "go-on"`.
    #[serde(default)]
    pub quorum: Option<usize>,
}

impl CoordinatorFile {
    /// How silos are reached, and what the algorithm does without one.
    fn options(&self, silos: &[String], algorithm: &mut AlgorithmChoice) -> Result<CoordinatorOptions> {
        let unwelcome = |what, found: &str, expected: &str, remedy| {
            Err(Error::Unwelcome { what, found: found.into(), expected: expected.into(), remedy })
        };
        let goes_on = self.patience.lost_silo == LostSilo::GoOn;
        let quorum = match (self.quorum, goes_on) {
            (Some(quorum), true) => quorum,
            (None, false) => silos.len(),
            (None, true) => {
                let remedy = "Add `quorum`, the fewest silos with which the run goes on.";
                return unwelcome("the policy for a lost silo", "`go-on` without a quorum", "a quorum", remedy);
            }
            (Some(_), false) => {
                let remedy = "Take `quorum` away, or set `lost_silo = \"go-on\"`.";
                return unwelcome("the policy for a lost silo", "a quorum without `go-on`", "none", remedy);
            }
        };
        match algorithm {
            AlgorithmChoice::Pvi(how) if goes_on => how.absence = Absence::GoOn,
            other if goes_on => {
                let remedy = "Run `pvi`, whose silos keep a factor, or set `lost_silo` to `wait` or `fail`.";
                return unwelcome("the policy for a lost silo", &format!("`go-on` for {other:?}"), "`pvi`", remedy);
            }
            _ => {}
        }
        Ok(CoordinatorOptions { engine: self.engine.clone(), silos: silos.to_vec(), patience: self.patience, quorum })
    }
}

/// Rounds that take longer than this many are announced before they begin: at four seconds each, an hour.
const MANY: u64 = 900;

/// Serves as a silo until `stop` is set. `base` are the settings that the model is usually fitted with, and `load` reads the
/// silo's data.
///
/// # Errors
/// What the files, the data, the model or the engine report.
pub fn run_silo<M: Model + 'static>(
    model: &M,
    (run, base): (&RunFile, &Settings),
    file: &SiloFile,
    load: impl Fn(&Path, &Device) -> Result<M::Data>,
    (stop, log): (&AtomicBool, &mut dyn FnMut(&str)),
) -> Result<()>
where
    M::Data: Clone + Send + 'static,
{
    let device = Device::flex();
    let fit = run.fit_options(base)?;
    let identity = run.identity(base)?;
    let Some(index) = run.silos.iter().position(|name| *name == file.name) else {
        return Err(Error::Unwelcome {
            what: "this silo's name",
            found: format!("`{}`", file.name),
            expected: format!("one of {}, the silos of the run", run.silos.join(", ")),
            remedy: "Correct the name in the silo's file, or the silos in the run's.",
        });
    };
    let index = u32::try_from(index).unwrap_or(u32::MAX);
    let data = load(&file.data, &device)?;
    let (_, rows) = silo_program(model, (&run.silos, index), &data, &device, &fit)?;
    let (model, names) = (model.clone(), run.silos.clone());
    let make = move || Ok(silo_program(&model, (&names, index), &data, &device, &fit)?.0);
    let mut keeper = Keeper::open(&file.state, Box::new(make))?;
    let SiloFile { name, engine, allow, .. } = file.clone();
    log(&format!("silo `{name}` of run `{}` with {rows} rows, waiting at {}", &identity[..12], engine.address));
    let options = SiloOptions { name, engine, allow, largest_request: Limits::default().bytes };
    serve(&options, (&identity, rows as u64), &mut keeper, stop, log)
}

/// Fits a model over the silos of a run; the report, which is written too. `is_resumed` goes on from the latest checkpoint.
///
/// # Errors
/// What the files, the model, the silos or the engine report.
pub fn run_coordinator<M: Model + 'static>(
    model: &M,
    (run, base): (&RunFile, &Settings),
    (file, is_resumed): (&CoordinatorFile, bool),
    (interrupt, progress): (Arc<AtomicBool>, &mut dyn Progress),
    log: &Log,
) -> Result<Report> {
    let device = Device::flex();
    let mut fit = run.fit_options(base)?;
    if run.exchanges() > MANY {
        let (rounds, hours) = (run.exchanges(), run.exchanges() * 4 / 3600);
        log(&format!(
            "{rounds} rounds: a stock SuperNode takes about four seconds each, {hours} hours in all. Take more local steps."
        ));
    }
    fit.checkpoint = Some((file.state.clone(), 1));
    fit.resume = is_resumed;
    fit.interrupt = Some(interrupt);
    let options = file.options(&run.silos, &mut fit.algorithm)?;
    if is_resumed && let Some((folder, _)) = partita_inference::latest_checkpoint(&file.state)? {
        Flower::end_former_run(&file.engine, &folder)?;
    }
    let mut exchange = Flower::connect_with(options, &run.identity(base)?, Arc::clone(log))?;
    let rows: Vec<usize> = exchange.rows().iter().map(|rows| usize::try_from(*rows).unwrap_or(usize::MAX)).collect();
    let described = run.silos.iter().zip(&rows).map(|(name, rows)| match rows {
        0 => format!("{name} (not yet)"),
        rows => format!("{name} ({rows} rows)"),
    });
    log(&format!("the silos are there: {}", described.collect::<Vec<_>>().join(", ")));
    let mut algorithm = coordinator(model, (&run.silos, &rows), &device, &fit)?;
    let fitted = fit_parties(model, &device, &fit, (&mut *algorithm, &mut exchange), Some(progress));
    let (history, [sent, received]) = (exchange.history().to_vec(), exchange.bytes());
    let ended = exchange.end(fitted.as_ref().err().map(|_| "the coordinator's log says more"));
    // Who was missing is asked first where a run failed.
    let events = serde_json::to_vec_pretty(&history)
        .map_err(|error| Error::File { path: file.output.join("history.json"), problem: error.to_string() })?;
    let kept = partita_inference::write_atomically(&file.output.join("history.json"), &events);
    if let Err(error) = ended {
        log(&format!("the engine was not told that the run ended: {error}"));
    }
    let (report, _, _) = fitted?;
    kept?;
    report.write_json(&file.output.join("result.json"))?;
    log(&format!(
        "{sent} bytes of requests and {received} bytes of answers crossed the wire; {} events",
        history.len()
    ));
    Ok(report)
}
