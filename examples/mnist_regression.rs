//! Classifies handwritten digits over silos that do not share them (SFVI paper, section 4.1, Table 1 and Figure 3).
//!
//! ```sh
//! cargo run --release --example mnist_regression
//! ```
//!
//! What you should see: Table 1 of the paper, all eight rows beside the paper's numbers, mean and range over three random
//! splits, and below them what the paper does not have: a warm start, other averages, shorter rounds. SFVI has the best
//! bound in both halves. `--figure3` adds how many steps a warm start saves. `--paper` takes the paper's 50,000 steps and 50 rounds
//! instead of as many as are needed; `--quick` shows in seconds that it runs. `--checkpoint DIR --resume` goes on after an
//! interruption. Times and numbers: `docs/src/reference-table-1.md`.

#![allow(clippy::print_stdout, reason = "an example prints")]

#[path = "mnist_regression/figure3.rs"]
mod figure3;
#[path = "mnist_regression/pictures.rs"]
mod pictures;
#[path = "mnist_regression/study.rs"]
mod study;
#[path = "mnist_regression/table.rs"]
mod table;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Parser, ValueEnum};
use partita::datasets::{ImageSet, mnist};
use partita::inference::write_atomically;
use partita::models::ClassifiedRows;
use partita::{Device, Key, Noise, Purpose};
use serde_json::{Value, json};

use study::{Case, LARGE, Method, QUICK, SMALL};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Multinomial regression on MNIST over silos: Table 1 of the SFVI paper.
#[derive(Parser, Debug, Clone)]
struct Options {
    /// Which half of the table.
    #[arg(long, value_enum, default_value_t = CaseName::Both)]
    case: CaseName,
    /// Random splits of the data, each with its own noise.
    #[arg(long, default_value_t = 3)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Steps of SFVI, of the independent fits and of the single round.
    #[arg(long, default_value_t = 2_000)]
    steps: u64,
    /// Rounds of SFVI-Avg.
    #[arg(long, default_value_t = 5)]
    rounds: u64,
    /// Local steps a round.
    #[arg(long, default_value_t = 1_000)]
    local_steps: u64,
    /// The learning rate at the start; it falls to zero along a cosine.
    #[arg(long, default_value_t = 0.05)]
    rate: f64,
    /// Posterior draws behind a prediction.
    #[arg(long, default_value_t = 50)]
    draws: u64,
    /// The paper's numbers of steps (50,000) and rounds (50).
    #[arg(long)]
    paper: bool,
    /// Leaves out the rows the paper does not have.
    #[arg(long)]
    only_paper_rows: bool,
    /// Measures what a warm start saves instead of the table.
    #[arg(long)]
    figure3: bool,
    /// The device: flex, ndarray, wgpu, vulkan or cuda; else the variable BURN_DEVICE, else flex.
    #[arg(long)]
    device: Option<String>,
    /// Threads for silos; the result does not depend on them.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// The folder for result.json and the pictures.
    #[arg(long, default_value = "output/mnist_regression")]
    output: PathBuf,
    /// Keeps finished rows and the state of the fit under way there.
    #[arg(long)]
    checkpoint: Option<PathBuf>,
    /// Goes on from the checkpoint.
    #[arg(long, requires = "checkpoint")]
    resume: bool,
    /// A few silos and steps: to see that it runs.
    #[arg(long)]
    quick: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CaseName {
    /// 25 silos of 200 images.
    Small,
    /// 5 silos of 10,000 images.
    Large,
    Both,
}

impl Options {
    fn settled(mut self) -> Self {
        if self.paper {
            (self.steps, self.rounds, self.local_steps) = (50_000, 50, 1_000);
        }
        if self.quick {
            (self.steps, self.rounds, self.local_steps, self.seeds, self.draws) = (150, 3, 50, 1, 10);
        }
        self
    }

    fn cases(&self) -> Vec<&'static Case> {
        match (self.quick, self.case) {
            (true, _) => vec![&QUICK],
            (false, CaseName::Small) => vec![&SMALL],
            (false, CaseName::Large) => vec![&LARGE],
            (false, CaseName::Both) => vec![&SMALL, &LARGE],
        }
    }

    fn methods(&self) -> Vec<Method> {
        let count = if self.only_paper_rows { Method::OF_THE_PAPER } else { Method::ALL.len() };
        Method::ALL[..count].to_vec()
    }
}

/// What every fit needs.
struct World {
    options: Options,
    device: Device,
    images: ImageSet,
    test: ClassifiedRows,
    /// Set by Ctrl-C.
    interrupted: Arc<AtomicBool>,
    /// Where rows and fits are kept.
    keep: PathBuf,
}

impl World {
    /// The silos of a case: disjoint rows of the training images, drawn at random.
    fn silos(&self, case: &Case, seed: u64) -> Result<Vec<(String, ClassifiedRows)>, Failure> {
        let mut order: Vec<usize> = (0..self.images.train.len()).collect();
        Noise::new(seed).stream(Key::new(Purpose::Partition, 0)).shuffle(&mut order);
        let silo = |(index, rows): (usize, &[usize])| -> Result<_, Failure> {
            let images = self.images.train.select(rows)?;
            Ok((format!("silo-{index}"), ClassifiedRows::new(images.sparse()?, images.labels(), &self.device)?))
        };
        order.chunks(case.rows).take(case.silos).enumerate().map(silo).collect()
    }

    fn check(&self) -> Result<(), Failure> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Err("interrupted; with --checkpoint, the same command with --resume goes on from here".into());
        }
        Ok(())
    }
}

fn main() -> Result<(), Failure> {
    let options = Options::parse().settled();
    let device = partita::gpu::device(options.device.as_deref())?;
    let images = mnist()?;
    let test = ClassifiedRows::new(images.test.sparse()?, images.test.labels(), &device)?;
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupted);
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))?;
    let scratch = tempfile::tempdir()?;
    let keep = options.checkpoint.clone().unwrap_or_else(|| scratch.path().to_owned());
    std::fs::create_dir_all(&keep)?;
    std::fs::create_dir_all(&options.output)?;
    let world = World { options, device, images, test, interrupted, keep };
    let result = if world.options.figure3 { figure3::run(&world)? } else { run_table(&world)? };
    let path = world.options.output.join("result.json");
    write_atomically(&path, serde_json::to_string_pretty(&result)?.as_bytes())?;
    println!("\nWrote {}", path.display());
    Ok(())
}

/// Fits every row for every seed, or takes it from the checkpoint, and prints the table.
fn run_table(world: &World) -> Result<Value, Failure> {
    let options = &world.options;
    let mut rows = Vec::new();
    for case in options.cases() {
        println!("{} silos of {} images", case.silos, case.rows);
        for seed in options.seed..options.seed + options.seeds {
            let silos = world.silos(case, seed)?;
            for method in options.methods() {
                let place = world.keep.join(format!("{}-{}-{seed}", case.name, method.slug()));
                let row = match kept(&place, options)? {
                    Some(row) => row,
                    None => {
                        let row = method.row(world, case, &silos, (seed, &place))?;
                        let text = serde_json::to_string_pretty(&row)?;
                        write_atomically(&place.with_extension("json"), text.as_bytes())?;
                        if place.exists() {
                            std::fs::remove_dir_all(&place)?;
                        }
                        row
                    }
                };
                table::print_row(&row);
                rows.push(row);
            }
        }
    }
    let summary = table::summarise(&rows);
    table::print(&summary);
    Ok(json!({ "table": summary, "rows": rows, "options": format!("{options:?}") }))
}

/// A row that an earlier run has finished with the same settings.
fn kept(place: &Path, options: &Options) -> Result<Option<Value>, Failure> {
    let path = place.with_extension("json");
    if !options.resume || !path.exists() {
        return Ok(None);
    }
    let row: Value = serde_json::from_str(&std::fs::read_to_string(path)?)?;
    Ok((row["settings"] == study::settings_of(options)).then_some(row))
}
