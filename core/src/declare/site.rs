//! Lists what a model declares: every site with its role, shape, support and place in the latent vectors.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::nesting::Nesting;
use crate::bijector::Bijector;
use crate::distribution::Support;

/// Whether a site belongs to all silos or to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Shared by all silos.
    Global,
    /// Of one silo.
    Local,
}

/// The role of a site in the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// Unknown, inferred.
    Latent,
    /// Data.
    Observed,
    /// A function of other sites, recorded for reports.
    Deterministic,
    /// A log density added by hand.
    Factor,
}

/// One named statement of a model.
#[derive(Debug, Clone)]
pub struct Site {
    /// Its name.
    pub name: String,
    /// What it is.
    pub role: Role,
    /// The part it belongs to.
    pub part: Part,
    /// The plate it stands in.
    pub plate: Option<String>,
    /// The name of its distribution, empty for deterministic sites and factors.
    pub distribution: Cow<'static, str>,
    /// The support of its values.
    pub support: Option<Support>,
    /// The shape of its value, the plate's rows first.
    pub shape: Vec<usize>,
    /// Whether the latent is the standardised value.
    pub non_centred: bool,
    /// Whether its distribution is improper, so that the data must make the posterior proper.
    pub improper: bool,
    /// Whether some of its events may be censored, of which it is known only that they are beyond a number or between two.
    pub censored: bool,
    /// Numbers in one event.
    pub(crate) event: usize,
    /// The local block it belongs to; 0 for globals.
    pub(crate) block: usize,
    /// Its first column in the global vector, or in each row of its block.
    pub(crate) offset: usize,
    /// Unconstrained numbers: in all for globals, in one row of its block for locals.
    pub(crate) width: usize,
    /// The map from unconstrained numbers to its support.
    pub(crate) bijector: Option<Arc<dyn Bijector>>,
    /// Where posterior means start, on the unconstrained scale, row by row; empty for zeros.
    pub(crate) start: Vec<f64>,
    /// Whether it is a parameter of a module, such as a network's weights.
    pub(crate) lifted: bool,
    /// Where posterior standard deviations start, on the unconstrained scale.
    pub(crate) start_scale: Option<f64>,
    /// Whether it is the weight or the bias of a linear layer.
    pub(crate) layer: bool,
}

impl Site {
    /// The first column of a latent site in the global vector, or in each row of its block.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Whether it is the weight or the bias of a layer of [`crate::Scope::linear`].
    #[must_use]
    pub fn is_layer(&self) -> bool {
        self.layer
    }

    /// Whether it stands in a plate that has no rows in all: it has no numbers then, and no map to a support.
    pub(crate) fn is_without_rows(&self) -> bool {
        self.plate.is_some() && self.shape.first() == Some(&0)
    }

    /// The local block of a local latent, and that of the plate that any other site stands in; 0 for the rest.
    #[must_use]
    pub fn block(&self) -> usize {
        self.block
    }

    /// Unconstrained numbers of a latent site: in all for globals, in one row of its block for locals.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }
}

/// Local latents of one plate, or of none: independent row by row given the globals and the rows they belong to. A
/// plate without latents is a block of width 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalBlock {
    /// The plate, or `None` for local latents outside any plate (one row).
    pub plate: Option<String>,
    /// The number of rows.
    pub rows: usize,
    /// Unconstrained numbers in one row.
    pub width: usize,
    /// The block whose rows these rows belong to; it stands before this one in the table.
    ///
    /// Of a plate inside another it is that plate's; of an outermost plate it is that of the silo's own latents, where
    /// some were declared before the plate was opened.
    pub parent: Option<Parent>,
    /// The groups of a plate inside another.
    pub(crate) nesting: Option<Nesting>,
}

/// The outer rows of a block's rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parent {
    /// The place in the table of the outer block.
    pub block: usize,
    /// The outer row of each row.
    pub rows: Arc<[usize]>,
}

/// All sites of a model for one silo's data, in the order of declaration.
#[derive(Debug, Clone, Default)]
pub struct SiteTable {
    pub(crate) sites: Vec<Site>,
    pub(crate) blocks: Vec<LocalBlock>,
    pub(crate) global_len: usize,
    /// Whether some density of the global part depends on another global latent or on θ, and so needs the tape.
    pub(crate) global_tape: bool,
    /// Whether an evaluation of the globals alone, and one with a silo's part, was found to need Burn's tape: the next
    /// go there at once. It saves work and changes no number.
    pub(crate) needs_burn_tape: Arc<[AtomicBool; 2]>,
}

impl SiteTable {
    /// The sites in the order of declaration.
    #[must_use]
    pub fn sites(&self) -> &[Site] {
        &self.sites
    }

    /// The site with this name.
    #[must_use]
    pub fn site(&self, name: &str) -> Option<&Site> {
        self.sites.iter().find(|site| site.name == name)
    }

    /// The blocks of local latents; block k of a local vector has `rows × width` numbers, row-major.
    #[must_use]
    pub fn blocks(&self) -> &[LocalBlock] {
        &self.blocks
    }

    /// Whether some latents are local, of rows or of a silo.
    #[must_use]
    pub fn has_local_latents(&self) -> bool {
        self.blocks.iter().any(|block| block.width > 0)
    }

    /// The length of the unconstrained global vector, $n_G$.
    #[must_use]
    pub fn global_len(&self) -> usize {
        self.global_len
    }

    /// The start of the posterior means of the unconstrained global vector: the values of
    /// [`crate::Distribution::start`], those of the modules given to [`crate::Scope::module`] and
    /// [`crate::Scope::linear`], and zero elsewhere.
    #[must_use]
    pub fn start(&self) -> Vec<f64> {
        let mut start = vec![0.0; self.global_len];
        for site in self.latents(Part::Global).filter(|site| !site.start.is_empty()) {
            start[site.offset..site.offset + site.width].copy_from_slice(&site.start);
        }
        start
    }

    /// Whether there are latents, and all are weights and biases of linear layers ([`crate::Scope::linear`]).
    #[must_use]
    pub fn is_of_layers(&self) -> bool {
        let mut latents = self.sites.iter().filter(|site| site.role == Role::Latent).peekable();
        latents.peek().is_some() && latents.all(Site::is_layer)
    }

    /// Whether some global latents are parameters of a module ([`crate::Scope::module`], [`crate::Scope::linear`]): those
    /// of a network have many modes.
    #[must_use]
    pub fn has_modules(&self) -> bool {
        self.latents(Part::Global).any(|site| site.lifted)
    }

    /// The start of the posterior standard deviations of the unconstrained global vector: what
    /// [`crate::Distribution::start_scale`] says, and `otherwise` elsewhere; `None` if no global site says any.
    #[must_use]
    pub fn start_scales(&self, otherwise: f64) -> Option<Vec<f64>> {
        self.latents(Part::Global).any(|site| site.start_scale.is_some()).then(|| {
            let mut scales = vec![otherwise; self.global_len];
            for (site, scale) in self.latents(Part::Global).filter_map(|site| Some((site, site.start_scale?))) {
                scales[site.offset..site.offset + site.width].fill(scale);
            }
            scales
        })
    }

    /// The start of the posterior means and of the standard deviations of a local block, each `[rows, width]`,
    /// row-major: what its sites say, and zero and `otherwise` elsewhere.
    #[must_use]
    pub fn local_start(&self, block: usize, otherwise: f64) -> [Vec<f64>; 2] {
        let LocalBlock { rows, width, .. } = self.blocks[block];
        let (mut means, mut scales) = (vec![0.0; rows * width], vec![otherwise; rows * width]);
        for site in self.latents(Part::Local).filter(|site| site.block == block && site.width > 0) {
            let own = site.offset..site.offset + site.width;
            for (row, start) in site.start.chunks_exact(site.width).enumerate() {
                means[row * width..(row + 1) * width][own.clone()].copy_from_slice(start);
            }
            if let Some(scale) = site.start_scale {
                scales.chunks_exact_mut(width).for_each(|row| row[own.clone()].fill(scale));
            }
        }
        [means, scales]
    }

    /// The latent sites of one part.
    pub fn latents(&self, part: Part) -> impl Iterator<Item = &Site> {
        self.sites.iter().filter(move |site| site.role == Role::Latent && site.part == part)
    }

    /// Whether an evaluation of this part was found to need Burn's tape, for tests of models.
    #[doc(hidden)]
    #[must_use]
    pub fn was_on_burn_tape(&self, part: Part) -> bool {
        self.needs_burn_tape(part).load(Ordering::Relaxed)
    }

    /// Whether an evaluation of this part was found to need Burn's tape.
    pub(crate) fn needs_burn_tape(&self, part: Part) -> &AtomicBool {
        &self.needs_burn_tape[usize::from(part == Part::Local)]
    }

    pub(crate) fn names(&self) -> String {
        self.sites.iter().map(|site| site.name.as_str()).collect::<Vec<_>>().join(", ")
    }
}

impl SiteTable {
    /// A plate with the plate it stands in: `visit in patient`.
    fn nested(&self, plate: &str) -> String {
        let block = self.blocks.iter().find(|block| block.plate.as_deref() == Some(plate));
        let outer = block.and_then(|block| self.blocks.get(block.parent.as_ref()?.block)?.plate.as_deref());
        outer.map_or_else(|| plate.to_owned(), |outer| format!("{plate} in {outer}"))
    }
}

impl fmt::Display for SiteTable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plates: Vec<String> =
            self.sites.iter().map(|site| site.plate.as_ref().map_or("-".into(), |plate| self.nested(plate))).collect();
        let first = self.sites.iter().map(|site| site.name.chars().count()).max().unwrap_or(0).max(20);
        let wide = plates.iter().map(String::len).max().unwrap_or(0).max(10);
        writeln!(
            formatter,
            "{:<first$} {:<8} {:<14} {:<wide$} {:<18} {:<14} support",
            "site", "part", "role", "plate", "distribution", "shape"
        )?;
        for (site, plate) in self.sites.iter().zip(plates) {
            let part = if site.part == Part::Global { "global" } else { "local" };
            let role = match site.role {
                Role::Latent if site.non_centred => "latent (nc)",
                Role::Latent => "latent",
                Role::Observed => "observed",
                Role::Deterministic => "deterministic",
                Role::Factor => "factor",
            };
            let distribution = match (&*site.distribution, site.improper) {
                ("", _) => "-".to_owned(),
                (name, true) => format!("{name} (improper)"),
                (name, false) => name.to_owned(),
            };
            writeln!(
                formatter,
                "{:<first$} {:<8} {:<14} {:<wide$} {:<18} {:<14} {}",
                site.name,
                part,
                role,
                plate,
                distribution,
                format!("{:?}", site.shape),
                site.support.map_or_else(|| "-".into(), |support| support.describe()),
            )?;
        }
        write!(formatter, "global latents: {} numbers", self.global_len)?;
        for block in &self.blocks {
            let plate = block.plate.as_ref().map_or_else(|| "no plate".into(), |plate| self.nested(plate));
            match block.width {
                0 => write!(formatter, "; {plate}: {} rows without latents", block.rows)?,
                1 => write!(formatter, "; {plate}: {} rows of 1 latent number", block.rows)?,
                width => write!(formatter, "; {plate}: {} rows of {width} latent numbers", block.rows)?,
            }
        }
        Ok(())
    }
}
