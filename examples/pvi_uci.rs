//! Repeats the logistic regressions of the PVI paper: three UCI tables over ten silos, alike or far from alike.
//!
//! ```sh
//! cargo run --release --example pvi_uci
//! ```
//!
//! What you should see: for the tables adult, bank and credit and the splits A (silos alike) and B (small and large silos
//! with different labels), the test loss of seven methods, mean and standard deviation over five seeds; then the claims of
//! the paper's Figure 4, each met or not met within tolerances that stand in the code. Global VI reaches its loss after
//! hundreds of contacts with every silo, PVI after a few. `--quick` shows on credit that it runs. `--stand-in` repeats
//! section 5.2 instead, a regression and a network over five silos, on a stand-in for its hospital records, which are not
//! public. Times and numbers: `docs/src/reference-pvi-uci.md`.
//!
//! Source: Ashman et al. (2022), Partitioned variational inference, arXiv:2202.12275, sections 5.1 and 5.2, Figures 4 and 5.

#![allow(clippy::print_stdout, reason = "an example prints")]

#[path = "pvi_uci/claims.rs"]
mod claims;
#[path = "claims/outcome.rs"]
mod outcome;
#[path = "pvi_uci/stand_in.rs"]
mod stand_in;
#[path = "pvi_uci/study.rs"]
mod study;
#[path = "claims/verdict.rs"]
mod verdict;

use std::path::PathBuf;

use clap::builder::ArgPredicate;
use clap::{Parser, ValueEnum};
use partita::datasets::{LabelledTable, adult, bank, credit};
use partita::inference::{plot, write_atomically};
use partita::{Device, SmallLarge};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use study::{Curve, Method};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Logistic regression on UCI tables over ten silos by PVI and what it is compared with.
#[derive(Parser, Debug, Clone)]
struct Options {
    /// Which tables; all three if none is named, bank alone for the stand-in.
    #[arg(long, value_enum)]
    table: Vec<TableName>,
    /// Which splits over silos; both if none is named.
    #[arg(long, value_enum)]
    split: Vec<Split>,
    /// Repeats section 5.2 on a stand-in for MIMIC-III: clusters of a table, a regression and a network.
    #[arg(long)]
    stand_in: bool,
    /// Random splits into training and test rows and over silos, each with its own noise; starts alone for the stand-in.
    #[arg(long, default_value_t = 5, default_value_if("stand_in", ArgPredicate::Equals("true".into()), "2"))]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Sweeps of sequential methods, ten visits each, and rounds of synchronous PVI.
    #[arg(long, default_value_t = 10, default_value_if("stand_in", ArgPredicate::Equals("true".into()), "8"))]
    rounds: u64,
    /// Gradient steps of a visit.
    #[arg(long, default_value_t = 1_000)]
    local_steps: u64,
    /// Gradient steps of global VI.
    #[arg(long, default_value_t = 2_000, default_value_if("stand_in", ArgPredicate::Equals("true".into()), "4000"))]
    global_steps: u64,
    /// Draws of a gradient step of a regression: with one alone local solutions are so noisy that sequential PVI runs away on bank B.
    #[arg(long, default_value_t = 4)]
    particles: usize,
    /// Threads for silos; the result does not depend on them.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// The folder for result.json and the pictures.
    #[arg(long, default_value = "output/pvi_uci")]
    output: PathBuf,
    /// Takes the seeds that an earlier run with the same settings has finished from the folder of the result.
    #[arg(long)]
    resume: bool,
    /// Credit alone with few steps and seeds: to see that it runs.
    #[arg(long)]
    quick: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TableName {
    Adult,
    Bank,
    Credit,
}

impl TableName {
    const ALL: [Self; 3] = [Self::Adult, Self::Bank, Self::Credit];

    fn name(self) -> &'static str {
        match self {
            Self::Adult => "adult",
            Self::Bank => "bank",
            Self::Credit => "credit",
        }
    }

    fn read(self) -> Result<LabelledTable, Failure> {
        Ok(match self {
            Self::Adult => adult()?,
            Self::Bank => bank()?,
            Self::Credit => credit()?,
        })
    }

    /// Split B of the paper's Table 2.
    fn imbalance(self) -> SmallLarge {
        match self {
            Self::Adult | Self::Bank => SmallLarge { size_imbalance: 0.7, label_imbalance: -3.0 },
            Self::Credit => SmallLarge { size_imbalance: 0.3, label_imbalance: -0.7 },
        }
    }
}

/// How rows are split over silos.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Split {
    /// Silos alike.
    A,
    /// Silos that differ in size and labels.
    B,
}

/// One picture of the paper's Figures 4 and 5: a table and a split, with the curves of every seed and method.
pub(crate) struct Panel {
    /// The table, and the model where there are two.
    pub(crate) table: String,
    /// Nothing for the stand-in for MIMIC-III, whose silos are clusters.
    pub(crate) split: Option<Split>,
    /// The seed of the first.
    pub(crate) first_seed: u64,
    /// Seed by seed, in the order of [`Method::ALL`], of which the stand-in has the first three.
    pub(crate) seeds: Vec<Vec<Curve>>,
}

impl Options {
    fn settled(mut self) -> Self {
        if self.quick {
            let few = if self.stand_in { (1, 6, 60, 200) } else { (2, 3, 300, 800) };
            (self.seeds, self.rounds, self.local_steps, self.global_steps) = few;
            self.table = vec![TableName::Credit];
        }
        if self.table.is_empty() {
            self.table = if self.stand_in { vec![TableName::Bank] } else { TableName::ALL.to_vec() };
        }
        if self.split.is_empty() {
            self.split = vec![Split::A, Split::B];
        }
        self
    }
}

fn main() -> Result<(), Failure> {
    let options = Options::parse().settled();
    let device = Device::flex();
    std::fs::create_dir_all(&options.output)?;
    let (panels, verdicts, figure) = if options.stand_in {
        let panels = stand_in::panels(&options, &device)?;
        let verdicts = claims::judge_stand_in(&panels);
        (panels, verdicts, "Figure 5, on a stand-in for its data")
    } else {
        let panels = panels(&options, &device)?;
        let verdicts = claims::judge(&panels);
        (panels, verdicts, "Figure 4")
    };
    for panel in &panels {
        claims::print_table(panel);
    }
    println!("\nClaims of {figure} (tolerances in examples/pvi_uci/claims.rs, fixed before the run):");
    for verdict in &verdicts {
        println!("{verdict}");
    }
    let result: Value = json!({
        "panels": panels.iter().map(claims::json_of).collect::<Vec<_>>(),
        "claims": verdicts,
        "options": format!("{options:?}"),
    });
    let path = options.output.join("result.json");
    write_atomically(&path, serde_json::to_string_pretty(&result)?.as_bytes())?;
    println!("\nWrote {}", path.display());
    Ok(())
}

/// The panels of Figure 4.
fn panels(options: &Options, device: &Device) -> Result<Vec<Panel>, Failure> {
    let mut panels = Vec::new();
    for name in &options.table {
        let table = name.read()?;
        for &split in &options.split {
            let curves = |seed| study::World::new(&table, (split, name.imbalance()), seed, options, device)?.curves();
            panels.push(panel((name.name(), Some(split)), options, curves)?);
        }
    }
    Ok(panels)
}

/// The panel of all seeds with its picture: curves of a seed are kept beside the result, or fitted now.
fn panel(
    (table, split): (&str, Option<Split>),
    options: &Options,
    fit: impl Fn(u64) -> Result<Vec<Curve>, Failure>,
) -> Result<Panel, Failure> {
    let settings = study::settings_of(options);
    let mut panel = Panel { table: table.to_owned(), split, first_seed: options.seed, seeds: Vec::new() };
    for seed in options.seed..options.seed + options.seeds {
        let place = options.output.join(format!("{}_{seed}.json", panel.slug()));
        let earlier = match options.resume && place.exists() {
            true => Some(serde_json::from_str::<Kept>(&std::fs::read_to_string(&place)?)?),
            false => None,
        };
        let curves = match earlier {
            Some(kept) if kept.settings == settings => kept.curves,
            _ => {
                let kept = Kept { settings: settings.clone(), curves: fit(seed)? };
                write_atomically(&place, serde_json::to_string(&kept)?.as_bytes())?;
                kept.curves
            }
        };
        println!("{}, seed {seed}: {}", panel.place(), study::ends(&curves));
        panel.seeds.push(curves);
    }
    draw(options, &panel)?;
    Ok(panel)
}

/// The curves of one seed, as they are kept.
#[derive(Serialize, Deserialize)]
struct Kept {
    settings: String,
    curves: Vec<Curve>,
}

/// Draws the test log likelihood of each method against contacts with silos, on a logarithmic axis: the mean over seeds, and
/// each seed thin.
fn draw(options: &Options, panel: &Panel) -> Result<(), Failure> {
    let line = |curve: &Curve| -> Vec<(f64, f64)> {
        curve.points.iter().map(|point| (study::real(point.messages).log10(), -point.loss)).collect()
    };
    let kind = |method: &Method| {
        let lines: Vec<_> = panel.of(*method).map(line).filter(|line| line.len() > 1).collect();
        (!lines.is_empty()).then(|| (method.label().to_owned(), lines))
    };
    let kinds: Vec<_> = Method::ALL.iter().filter_map(kind).collect();
    let level = panel.end(Method::GlobalVi);
    let title = format!("{}: test log likelihood by log10 of messages", panel.place());
    let path = options.output.join(format!("{}.svg", panel.slug()));
    plot::repeated(&path, &kinds, &title, level.is_finite().then_some(-level))?;
    Ok(())
}
