//! Repeats the logistic regressions of the PVI paper: three UCI tables over ten silos, identical or very different.
//!
//! ```sh
//! cargo run --release -p partita-studies -- pvi_uci
//! ```
//!
//! What you should see: for the tables adult, bank and credit and the splits A (identical silos) and B (small and large
//! silos with different labels), the test loss of seven methods, mean and standard deviation over five seeds. Then the
//! claims of the paper's Figure 4, each met or not met within tolerances in the code. Global VI reaches its loss after
//! hundreds of exchanges with every silo, PVI after a few. `--quick` tests on credit that it runs. `--stand-in` repeats
//! section 5.2 instead, a regression and a network over five silos, on a stand-in for its hospital records, which are
//! not public. Times and numbers: `docs/src/study-pvi.md`.
//!
//! Source: Ashman et al. (2022), Partitioned variational inference, arXiv:2202.12275, sections 5.1 and 5.2, Figures 4
//! and 5.

mod claims;
mod stand_in;
mod study;

use clap::builder::ArgPredicate;
use clap::{Args, ValueEnum};
use partita::Device;
use partita::core::SmallLarge;
use partita::datasets::{LabelledTable, adult, bank, credit};
use serde_json::json;

use crate::harness::{Claims, Pace, Result, Session, Shared, real};
use crate::pictures;
use study::{Curve, Method};

/// Logistic regression on UCI tables over ten silos by PVI and other methods.
#[derive(Args, Debug, Clone)]
pub(crate) struct Options {
    #[command(flatten)]
    shared: Shared,
    #[command(flatten)]
    pace: Pace,
    /// The tables; all three if none is named, bank alone for the stand-in.
    #[arg(long, value_enum)]
    table: Vec<TableName>,
    /// The splits over silos; both if none is named.
    #[arg(long, value_enum)]
    split: Vec<Split>,
    /// Repeats section 5.2 on a stand-in for MIMIC-III: clusters of a table, a regression and a network.
    #[arg(long)]
    stand_in: bool,
    /// Random splits into training and test rows and over silos, each with its own noise; for the stand-in only
    /// different starts.
    #[arg(long, default_value_t = 5, default_value_if("stand_in", ArgPredicate::Equals("true".into()), "2"))]
    seeds: u64,
    /// Sweeps of sequential methods, ten local updates each, and rounds of synchronous PVI.
    #[arg(long, default_value_t = 10, default_value_if("stand_in", ArgPredicate::Equals("true".into()), "8"))]
    rounds: u64,
    /// Gradient steps of a local update.
    #[arg(long, default_value_t = 1_000)]
    local_steps: u64,
    /// Gradient steps of global VI.
    #[arg(long, default_value_t = 2_000, default_value_if("stand_in", ArgPredicate::Equals("true".into()), "4000"))]
    global_steps: u64,
    /// Draws of a gradient step of a regression: with one draw local solutions are so noisy that sequential PVI
    /// diverges on bank B.
    #[arg(long, default_value_t = 4)]
    particles: usize,
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

    fn read(self) -> Result<LabelledTable> {
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

/// The split of rows over silos.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Split {
    /// Identical silos.
    A,
    /// Silos that differ in size and labels.
    B,
}

/// The distribution of rows over silos: identical, or with small silos that differ in labels.
pub(crate) enum RowDistribution {
    Alike,
    SmallLarge(SmallLarge),
}

impl Split {
    fn rows(self, table: TableName) -> RowDistribution {
        match self {
            Self::A => RowDistribution::Alike,
            Self::B => RowDistribution::SmallLarge(table.imbalance()),
        }
    }
}

/// One picture of the paper's Figures 4 and 5: a table and a split, with the curves of every seed and method.
pub(crate) struct Panel {
    /// The table, and the model if there are two.
    pub(crate) table: String,
    /// `None` for the stand-in for MIMIC-III, whose silos are clusters.
    pub(crate) split: Option<Split>,
    /// The first seed.
    pub(crate) first_seed: u64,
    /// Seed by seed, in the order of [`Method::ALL`]; the stand-in has the first three.
    pub(crate) seeds: Vec<Vec<Curve>>,
}

impl Options {
    fn settled(mut self) -> Self {
        if self.shared.quick {
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

pub(crate) fn run(options: Options) -> Result<()> {
    let options = options.settled();
    let session = Session::start("pvi_uci", &options.shared)?;
    let study = Study { device: session.device()?, options, session };
    let (panels, verdicts, figure) = if study.options.stand_in {
        let panels = stand_in::panels(&study)?;
        let verdicts = claims::judge_stand_in(&panels);
        (panels, verdicts, "Figure 5, on a stand-in for its data")
    } else {
        let panels = study.panels()?;
        let verdicts = claims::judge(&panels);
        (panels, verdicts, "Figure 4")
    };
    for panel in &panels {
        claims::print_table(panel);
    }
    let mut claims = Claims::from(verdicts);
    claims.print_new(&format!("Claims of {figure} (tolerances in {}, fixed before the run):", claims::FILE));
    let result = json!({
        "panels": panels.iter().map(claims::json_of).collect::<Vec<_>>(),
        "claims": claims,
        "options": format!("{:?}", study.options),
    });
    study.session.finish(&result, " and the pictures")
}

/// The state that all panels share.
struct Study {
    options: Options,
    session: Session,
    device: Device,
}

impl Study {
    /// The panels of Figure 4.
    fn panels(&self) -> Result<Vec<Panel>> {
        let mut panels = Vec::new();
        for name in &self.options.table {
            let table = name.read()?;
            for &split in &self.options.split {
                let curves = |seed| study::World::new(self, &table, split.rows(*name), seed)?.curves();
                panels.push(self.panel(name.name(), Some(split), curves)?);
            }
        }
        Ok(panels)
    }

    /// The panel of all seeds with its figure: curves of a seed are read from the output folder, or fitted now.
    fn panel(&self, table: &str, split: Option<Split>, fit: impl Fn(u64) -> Result<Vec<Curve>>) -> Result<Panel> {
        let (settings, first_seed) = (study::settings_of(&self.options), self.options.shared.seed);
        let mut panel = Panel { table: table.to_owned(), split, first_seed, seeds: Vec::new() };
        for seed in first_seed..first_seed + self.options.seeds {
            let name = format!("{}_{seed}", panel.slug());
            let curves = self.session.kept(&name, &settings, || fit(seed))?;
            println!("{}, seed {seed}: {}", panel.place(), study::ends(&curves));
            panel.seeds.push(curves);
        }
        self.draw(&panel)?;
        Ok(panel)
    }

    /// Draws the test log likelihood of each method against messages, on a logarithmic axis: the mean over seeds, and
    /// each seed as a thin line.
    fn draw(&self, panel: &Panel) -> Result<()> {
        let line = |curve: &Curve| -> Vec<(f64, f64)> {
            curve.points.iter().map(|point| (real(point.messages).log10(), -point.loss)).collect()
        };
        let kind = |method: &Method| {
            let lines: Vec<_> = panel.of(*method).map(line).filter(|line| line.len() > 1).collect();
            (!lines.is_empty()).then(|| (method.label().to_owned(), lines))
        };
        let kinds: Vec<_> = Method::ALL.iter().filter_map(kind).collect();
        let level = panel.end(Method::GlobalVi);
        let words = [&panel.place(), "messages (powers of ten)", "test log likelihood, nats a row"];
        let path = self.session.file(&format!("{}.svg", panel.slug()));
        pictures::repeated(&path, &kinds, words, level.is_finite().then_some(-level))?;
        Ok(())
    }
}
