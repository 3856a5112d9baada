//! Finds a signal in clutter over forty silos of one number, and compares robust losses under a wrong model.
//!
//! ```sh
//! cargo run --release -p partita-studies -- clutter
//! ```
//!
//! What you should see: four tables, and below each the claims made in advance and whether they were met. In the first,
//! partitioned inference over forty silos agrees with pooled variational inference, expectation propagation and the
//! exact posterior. In the second, one additional number moves a posterior of the log likelihood the more the farther
//! away it lies, and a posterior of the β loss hardly at all. In the third, a normal model without clutter is fitted to
//! numbers of which half are clutter. In the fourth, to numbers of which a tenth or a fifth are: β and γ loss keep the
//! mean. `--quick` takes fewer steps and data sets, to test that it runs. Numbers and times:
//! `docs/src/explanation-losses.md`.
//!
//! Mildner (2024), *Federated learning under misspecification*, sections 3.7.1, 3.7.2, 4.5.1 and 4.5.2.

mod contamination;
mod influence;
mod known;
mod method;
mod unknown;

use clap::Args;
use partita::core::{Key, Noise, NoiseStream, Purpose};
use partita::inference::plot::{Density, Panel, marginals};
use serde_json::json;

use super::{Clutter, ClutterSettings};
use crate::harness::{Claims, Result, Session, Shared};
use method::{Method, Posterior, RENYI, counters};

/// A signal in clutter, with known and with unknown clutter.
#[derive(Args, Debug, Clone)]
pub(crate) struct Options {
    #[command(flatten)]
    shared: Shared,
    /// Data sets of the last table.
    #[arg(long, default_value_t = 5)]
    sets: u64,
    /// Rounds over all silos.
    #[arg(long, default_value_t = 30)]
    rounds: u64,
    /// Gradient steps of a local update.
    #[arg(long, default_value_t = 10)]
    local_steps: u64,
    /// The damping of a silo's answer.
    #[arg(long, default_value_t = 1.0)]
    damping: f64,
    /// The learning rate at the start; it falls to zero along a cosine.
    #[arg(long, default_value_t = 0.05)]
    rate: f64,
    /// Draws of a step, an Owen-scrambled Sobol set.
    #[arg(long, default_value_t = 8)]
    particles: usize,
}

/// The state that the four tables share.
struct Study {
    options: Options,
    session: Session,
    claims: Claims,
    panels: Vec<Panel>,
}

pub(crate) fn run(mut options: Options) -> Result<()> {
    if options.shared.quick {
        (options.sets, options.rounds, options.local_steps) = (1, 6, 4);
    }
    let session = Session::start("clutter", &options.shared)?;
    let mut study = Study { options, session, claims: Claims::default(), panels: Vec::new() };
    let (agreement, influence) = (study.agreement()?, study.influence()?);
    let (half_clutter, contamination) = (study.half_clutter()?, study.contamination()?);
    println!("\nGradient steps are those of all silos together.");
    marginals(&study.session.file("posteriors.svg"), &study.panels)?;
    let result = json!({
        "agreement": agreement,
        "influence": influence,
        "half_clutter": half_clutter,
        "contamination": contamination,
        "claims": study.claims,
        "seed": study.options.shared.seed,
    });
    study.session.finish(&result, ", influence.svg and posteriors.svg")
}

/// A setting of the thesis: forty numbers of a signal in clutter.
struct World {
    name: &'static str,
    clutter: Clutter,
    settings: ClutterSettings,
    numbers: Vec<f64>,
}

impl World {
    /// The thesis' two settings: clutter near the signal, and far from it.
    fn both(seed: u64) -> [Self; 2] {
        let world = |name, settings, signal, index| {
            let clutter = Clutter::new(settings);
            let numbers = clutter.draw(signal, 40, &mut stream(seed, index));
            Self { name, clutter, settings, numbers }
        };
        [world("one peak", ClutterSettings::near(), 2.0, 0), world("two peaks", ClutterSettings::far(), 4.0, 1)]
    }

    /// Silos of one number.
    fn silos(&self) -> Vec<Vec<f64>> {
        self.numbers.iter().map(|x| vec![*x]).collect()
    }
}

fn stream(seed: u64, index: u64) -> NoiseStream {
    Noise::new(seed).stream(Key::new(Purpose::Prior, index))
}

fn panel(title: &str, methods: &[(&str, Posterior)]) -> Panel {
    let curve =
        |(name, found): &(&str, Posterior)| ((*name).to_owned(), Density::Normal { mean: found.mean, sd: found.sd });
    Panel { title: title.into(), unit: "mean of the signal".into(), curves: methods.iter().map(curve).collect() }
}
