//! Interprets a model's statements: one declaration, five readings (site table, draws, density, predictive, pointwise).

mod affine;
mod latent;
mod layer;
mod on_device;
mod statement;

pub use layer::Moments;
pub(crate) use on_device::Resident;

use std::borrow::Cow;
use std::sync::{Arc, Mutex};

use burn::tensor::Tensor;

use crate::array::Array;
use crate::declare::gathered::Gathered;
use crate::declare::linear::Passes;
use crate::declare::site::{Part, SiteTable};
use crate::device::Device;
use crate::distribution::Loss;
use crate::error::Result;
use crate::handle::Handle;
use crate::noise::Noise;

/// What a model's functions speak to: `sample`, `observe`, `plate`, `factor`, `deterministic`, `module`.
///
/// The framework makes it; which reading is going on does not concern the model.
#[derive(Debug)]
pub struct Scope<'a> {
    pub(crate) device: &'a Device,
    pub(crate) table: Table<'a>,
    pub(crate) source: Source<'a>,
    pub(crate) observing: Observing,
    /// Whether log densities are summed.
    pub(crate) scoring: bool,
    /// Whether gradients by latents are wanted.
    pub(crate) tracking: bool,
    /// Whether latents are leaves of a tape; false where every density is known to be evaluated on the host.
    pub(crate) taping: bool,
    /// Whether natural-scale values are kept.
    pub(crate) keeping: bool,
    /// Whether the densities of this part are left out: globals seen from a silo.
    pub(crate) quiet: bool,
    pub(crate) part: Part,
    pub(crate) next: usize,
    pub(crate) plate: Option<Plate<'a>>,
    pub(crate) minibatch: &'a [Minibatch],
    /// Whether log densities inside plates are kept row by row instead of being summed.
    pub(crate) rowwise: bool,
    /// What log densities of the part are multiplied by, outside plates.
    pub(crate) weight: f64,
    /// What observations cost; log densities of latents and factors are as they are.
    pub(crate) loss: Loss,
    /// Latents on the device, for a reading of which nothing is read to the host.
    pub(crate) resident: Option<Resident<'a>>,
    /// Linear layers evaluated with moments, each with what it knows of the passes through it.
    pub(crate) layers: Vec<Arc<Mutex<Passes>>>,
    pub(crate) outcome: Outcome,
    /// What the names of sites begin with, dot included.
    pub(crate) prefix: String,
}

/// The site table: being written, or known.
#[derive(Debug)]
pub(crate) enum Table<'a> {
    Building(SiteTable),
    Known(&'a SiteTable),
}

impl Table<'_> {
    pub(crate) fn get(&self) -> &SiteTable {
        match self {
            Self::Building(table) => table,
            Self::Known(table) => table,
        }
    }
}

/// Where the values of latents come from; a part without a vector is drawn from its prior.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Source<'a> {
    pub(crate) globals: Option<&'a [f64]>,
    pub(crate) locals: Option<&'a [Vec<f64>]>,
    /// The noise of prior draws with the draw's index; without it a latent starts at f(0).
    pub(crate) prior: Option<(Noise, u64)>,
    /// What linear layers are evaluated with in place of the globals.
    pub(crate) moments: Option<Moments<'a>>,
}

/// What happens at an observed site.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Observing {
    /// Its log density is added.
    Score,
    /// New data are drawn.
    Simulate(Noise, u64),
    /// Its log density is kept event by event, unscaled.
    Pointwise,
}

/// The plate being evaluated.
#[derive(Debug, Clone)]
pub(crate) struct Plate<'a> {
    pub(crate) name: String,
    pub(crate) total: usize,
    pub(crate) chosen: Option<&'a [usize]>,
    /// N/B: what the rows' log densities are multiplied by so that a minibatch is unbiased.
    pub(crate) scale: f64,
}

/// The rows of one plate that are evaluated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Minibatch {
    /// The plate.
    pub plate: String,
    /// Row indices; each stands `repeats` times, one after another.
    pub rows: Vec<usize>,
    /// How many draws of its latents a row is evaluated with: 1 except for bounds with inner draws.
    pub repeats: usize,
    pub(crate) gathered: Gathered,
}

impl Minibatch {
    /// These rows of `plate`, each evaluated once.
    #[must_use]
    pub fn new(plate: &str, rows: Vec<usize>) -> Self {
        Self { plate: plate.to_owned(), rows, repeats: 1, gathered: Gathered::default() }
    }

    /// These rows of `plate`, each evaluated with `repeats` draws of its latents.
    #[must_use]
    pub fn repeated(plate: &str, rows: &[usize], repeats: usize) -> Self {
        let rows = rows.iter().flat_map(|row| std::iter::repeat_n(*row, repeats)).collect();
        Self { plate: plate.to_owned(), rows, repeats, gathered: Gathered::default() }
    }
}

/// What a reading leaves behind.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) total: f64,
    pub(crate) tape: Option<Tensor<1>>,
    pub(crate) leaves: Vec<Leaf>,
    pub(crate) values: Vec<(String, Array)>,
    pub(crate) observed: Vec<(String, Array)>,
    /// Log densities of a plate row by row, and those of them that are on the tape.
    pub(crate) rows: Vec<f64>,
    pub(crate) row_tape: Option<Tensor<1>>,
}

/// One latent site on the tape, with what its pull-back to unconstrained numbers needs.
#[derive(Debug)]
pub(crate) struct Leaf {
    pub(crate) site: usize,
    pub(crate) handle: Handle,
    /// Unconstrained and constrained values; empty where the bijector is the identity.
    pub(crate) unconstrained: Vec<f64>,
    pub(crate) constrained: Vec<f64>,
    /// Gradient of densities evaluated off the tape; empty for none.
    pub(crate) host_gradient: Vec<f64>,
    /// Weight of the log-determinant.
    pub(crate) weight: f64,
    /// Whether its row decides the weight, of the host's gradient too.
    pub(crate) rowwise: bool,
    /// Whether it is the variance of a site, not its value.
    pub(crate) variance: bool,
}

impl<'a> Scope<'a> {
    pub(crate) fn new(device: &'a Device, table: Table<'a>, source: Source<'a>) -> Self {
        Self {
            device,
            table,
            source,
            observing: Observing::Score,
            scoring: false,
            tracking: false,
            taping: true,
            keeping: false,
            quiet: false,
            part: Part::Global,
            next: 0,
            plate: None,
            minibatch: &[],
            rowwise: false,
            weight: 1.0,
            loss: Loss::default(),
            resident: None,
            layers: Vec::new(),
            outcome: Outcome::default(),
            prefix: String::new(),
        }
    }

    /// The device and precision of this run, for tensors a model makes itself.
    #[must_use]
    pub fn device(&self) -> &Device {
        self.device
    }

    /// The name of a site where the model now stands.
    fn full<'n>(&self, name: &'n str) -> Cow<'n, str> {
        if self.prefix.is_empty() { name.into() } else { format!("{}{name}", self.prefix).into() }
    }

    /// What densities are multiplied by where the model now stands.
    fn weight_here(&self) -> f64 {
        self.weight * self.plate.as_ref().map_or(1.0, |plate| plate.scale)
    }

    fn operation(&self, name: &str) -> String {
        let prefix = &self.prefix;
        match &self.plate {
            Some(plate) => format!("site `{prefix}{name}` in plate `{}`", plate.name),
            None => format!("site `{prefix}{name}`"),
        }
    }

    fn add(&mut self, total: f64, tape: Option<Handle>) {
        self.outcome.total += total;
        if let Some(term) = tape {
            let term = term.typed::<1>();
            self.outcome.tape = Some(match self.outcome.tape.take() {
                Some(sum) => sum + term,
                None => term,
            });
        }
    }

    /// Adds log densities of a plate's rows; `numbers` holds as many to a row as there are events in it.
    fn add_rows(&mut self, numbers: &[f64], tape: Option<Handle>) {
        let rows = self.plate.as_ref().map_or(1, |plate| plate.chosen.map_or(plate.total, <[usize]>::len));
        self.outcome.rows.resize(rows, 0.0);
        let each = (numbers.len() / rows.max(1)).max(1);
        for (slot, own) in self.outcome.rows.iter_mut().zip(numbers.chunks(each)) {
            *slot += own.iter().sum::<f64>();
        }
        if let Some(term) = tape {
            let term = term.typed::<1>();
            self.outcome.row_tape = Some(match self.outcome.row_tape.take() {
                Some(sum) => sum + term,
                None => term,
            });
        }
    }

    /// Whether log densities are now kept row by row.
    fn by_row(&self) -> bool {
        self.rowwise && self.plate.is_some()
    }

    fn keep(&mut self, name: &str, handle: &Handle) -> Result<()> {
        if self.keeping {
            self.outcome.values.push((self.full(name).into_owned(), handle.read()?));
        }
        Ok(())
    }
}
