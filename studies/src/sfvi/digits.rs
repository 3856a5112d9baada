//! Classifies handwritten digits over silos that share none (SFVI paper, section 4.1, Table 1 and Figure 3).
//!
//! ```sh
//! cargo run --release -p partita-studies -- mnist_regression
//! ```
//!
//! What you should see: Table 1 of the paper, all eight rows beside the paper's numbers, mean and range over three
//! random splits. Below them are rows that the paper does not have: a warm start, other averages, shorter rounds. SFVI
//! has the best bound in both halves. `--figure3` adds how many steps a warm start saves. `--paper` takes the paper's
//! 50,000 steps and 50 rounds instead of as many as are needed; `--quick` tests in seconds that it runs. `--resume`
//! resumes after an interruption. Times and numbers: `docs/src/study-sfvi.md`.

mod figure3;
mod pictures;
mod study;
mod table;

use clap::{Args, ValueEnum};
use partita::Device;
use partita::core::{Key, Noise, Purpose};
use partita::datasets::{ImageSet, mnist};
use partita::models::ClassifiedRows;
use serde_json::{Value, json};

use crate::harness::{Pace, Result, Session, Shared};
use study::{Case, LARGE, Method, QUICK, SMALL, Split};

/// Multinomial regression on MNIST over silos: Table 1 of the SFVI paper.
#[derive(Args, Debug, Clone)]
pub(crate) struct Options {
    #[command(flatten)]
    shared: Shared,
    #[command(flatten)]
    pace: Pace,
    /// The half of the table.
    #[arg(long, value_enum, default_value_t = CaseName::Both)]
    case: CaseName,
    /// Random splits of the data, each with its own noise.
    #[arg(long, default_value_t = 3)]
    seeds: u64,
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
    /// Posterior draws for a prediction.
    #[arg(long, default_value_t = 50)]
    draws: u64,
    /// The paper's numbers of steps (50,000) and rounds (50).
    #[arg(long)]
    paper: bool,
    /// Leaves out the rows the paper does not have.
    #[arg(long)]
    only_paper_rows: bool,
    /// Measures how many steps a warm start saves, instead of the table.
    #[arg(long)]
    figure3: bool,
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
        if self.shared.quick {
            (self.steps, self.rounds, self.local_steps, self.seeds, self.draws) = (150, 3, 50, 1, 10);
        }
        self
    }

    fn cases(&self) -> Vec<&'static Case> {
        match (self.shared.quick, self.case) {
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

/// The data and options of every fit.
struct World {
    options: Options,
    session: Session,
    device: Device,
    images: ImageSet,
    test: ClassifiedRows,
}

impl World {
    /// The silos of a case: disjoint rows of the training images, drawn at random.
    fn silos(&self, case: &Case, seed: u64) -> Result<Vec<(String, ClassifiedRows)>> {
        let mut order: Vec<usize> = (0..self.images.train.len()).collect();
        Noise::new(seed).stream(Key::new(Purpose::Partition, 0)).shuffle(&mut order);
        let silo = |(index, rows): (usize, &[usize])| -> Result<_> {
            let images = self.images.train.select(rows)?;
            Ok((format!("silo-{index}"), ClassifiedRows::new(images.sparse()?, images.labels(), &self.device)?))
        };
        order.chunks(case.rows).take(case.silos).enumerate().map(silo).collect()
    }

    /// Fits every row for every seed, or takes it from an earlier run, and prints the table.
    fn table(&self) -> Result<Value> {
        let options = &self.options;
        let mut rows = Vec::new();
        for case in options.cases() {
            println!("{} silos of {} images", case.silos, case.rows);
            for seed in options.shared.seed..options.shared.seed + options.seeds {
                let split = Split { case, seed, silos: self.silos(case, seed)? };
                for method in options.methods() {
                    let name = format!("{}-{}-{seed}", case.name, method.slug());
                    let settings = study::settings_of(options);
                    let row = self.session.kept(&name, &settings, || method.row(self, &split, &name))?;
                    table::print_row(&row);
                    rows.push(row);
                }
            }
        }
        let summary = table::summarise(&rows);
        table::print(&summary);
        Ok(json!({ "table": summary, "rows": rows, "options": format!("{options:?}") }))
    }
}

pub(crate) fn run(options: Options) -> Result<()> {
    let options = options.settled();
    let session = Session::start("mnist_regression", &options.shared)?;
    let (device, images) = (session.device()?, mnist()?);
    let test = ClassifiedRows::new(images.test.sparse()?, images.test.labels(), &device)?;
    let world = World { options, session, device, images, test };
    let result = if world.options.figure3 { figure3::run(&world)? } else { world.table()? };
    world.session.finish(&result, " and the pictures")
}
