//! Proves a model's plumbing before a run: plates scale, nothing broadcasts, silos add up to the joint density.

mod pooled;

pub use pooled::check_pooled;

use std::fmt;

use partita_core::kernel::add_scaled;
use partita_core::{
    AnyData, AnyModel, Device, DrawNoise, Encoded, Key, Latents, LogDensity, Minibatch, Model, Noise, Purpose,
    SiteTable, ValueAndGradient, prior_draw,
};

use crate::engine::error::{Error, Result};
use crate::engine::estimator::add;
use crate::engine::panic::{COORDINATOR, caught};

/// What was checked, with the largest discrepancy found.
#[derive(Debug, Clone)]
pub struct CheckReport {
    /// The model's sites for each silo.
    pub tables: Vec<(String, SiteTable)>,
    /// Each check: its name, the largest relative discrepancy, and the bound it had to stay below.
    pub checks: Vec<(String, f64, f64)>,
}

impl CheckReport {
    /// Whether every check stayed below its bound.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.checks.iter().all(|(_, found, bound)| found <= bound)
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (silo, table) in &self.tables {
            writeln!(formatter, "silo `{silo}`\n{table}")?;
        }
        let width = self.checks.iter().map(|(name, ..)| name.chars().count()).max().unwrap_or_default();
        for (name, found, bound) in &self.checks {
            let verdict = if found <= bound { "ok" } else { "FAILED" };
            writeln!(formatter, "{name:<width$} {found:>7.1e} (bound {bound:.0e})  {verdict}")?;
        }
        Ok(())
    }
}

/// Checks `model` against the data of `silos` at one random point of its latents.
///
/// - every site's shape, support and data, silo by silo (the site table);
/// - the same global sites in every silo;
/// - full batch = mean of minibatches, for every outermost plate: value and gradient by globals (plate scale, silent
///   broadcasts over rows), and the gradient by the latents of every level, whose rows follow those chosen;
/// - the sum of the prior and the silos' shares = the joint density that other readings take, value and gradient;
/// - an encoder gives a row the same local posterior whatever other rows are evaluated;
/// - a prior draw can be made and simulates data of the observed shapes.
///
/// # Errors
/// What the model refuses; [`Error::OtherModel`] if silos declare other globals; [`Error::Panicked`].
///
/// # Example
/// ```
/// use partita_core::{Device, Model, Normal, Result, Scope, burn};
/// use burn::{module::Module, tensor::Tensor};
///
#[doc = include_str!("../../doc/mean.md")]
///
/// let device = Device::flex();
/// let report = partita_inference::check(&Mean {}, &[("a".into(), device.tensor(vec![1.0, 2.0], [2]))], &device)?;
/// assert!(report.passed());
/// # Ok::<(), partita_inference::Error>(())
/// ```
pub fn check<M: Model>(model: &M, silos: &[(String, M::Data)], device: &Device) -> Result<CheckReport> {
    check_any(&AnyModel::new(model), &AnyData::of_silos(silos), device)
}

fn check_any(model: &AnyModel, silos: &[(String, AnyData)], device: &Device) -> Result<CheckReport> {
    if silos.is_empty() {
        return Err(Error::NoSilos);
    }
    let mut checked = caught(COORDINATOR, || Checked::new(model, device))?;
    for ((name, data), index) in silos.iter().zip(0_u32..) {
        caught(name, || checked.silo(name, index, data))?;
    }
    Ok(checked.finish(silos.len()))
}

/// A model at one point of its globals, with the sums over the silos seen so far.
struct Checked<'a> {
    model: &'a AnyModel,
    device: &'a Device,
    bound: f64,
    noise: Noise,
    signature: String,
    globals: Vec<f64>,
    prior: ValueAndGradient,
    /// Prior and shares of the silos: value and gradient by the globals.
    total: (f64, Vec<f64>),
    /// The same from joint densities.
    joint: (f64, Vec<f64>),
    report: CheckReport,
}

impl<'a> Checked<'a> {
    fn new(model: &'a AnyModel, device: &'a Device) -> Result<Self> {
        let bound = match device.precision() {
            partita_core::Precision::Double => 1e-10,
            partita_core::Precision::Single => 1e-3,
        };
        let table = SiteTable::globals(model, device)?;
        let noise = Noise::new(20_260_101);
        let mut globals = vec![0.0; table.global_len()];
        noise.stream(Key::new(Purpose::Check, 0)).normal(&mut globals);
        globals.iter_mut().for_each(|z| *z *= 0.5);
        let prior = LogDensity::new(model, device, &table).global(&globals)?;
        let sums = || (prior.value, prior.globals.clone());
        Ok(Self {
            model,
            device,
            bound,
            noise,
            signature: crate::engine::terms::silo::global_signature(&table),
            total: sums(),
            joint: sums(),
            globals,
            prior,
            report: CheckReport { tables: Vec::new(), checks: Vec::new() },
        })
    }

    fn silo(&mut self, name: &str, index: u32, data: &AnyData) -> Result<()> {
        let Self { model, device, bound, noise, .. } = *self;
        let located = |error: partita_core::Error| Error::from(error).in_silo(name, 0);
        let table = SiteTable::of(model, device, data).map_err(located)?;
        let found = crate::engine::terms::silo::global_signature(&table);
        if found != self.signature {
            return Err(Error::OtherModel { silo: name.to_owned(), found, expected: self.signature.clone() });
        }
        let locals = local_point(&table, &noise, index);
        let latents = Latents { globals: &self.globals, locals: &locals };
        let share = LogDensity::new(model, device, &table).local(latents, data).map_err(located)?;
        let joint = LogDensity::new(model, device, &table).joint(latents, data).map_err(located)?;
        let outermost = table.blocks().iter().enumerate().filter(|(index, _)| table.outermost(*index) == *index);
        for (_, block) in outermost.filter(|(_, block)| block.rows > 1) {
            let Some(plate) = &block.plate else { continue };
            let found = minibatches(model, device, &table, data, latents, plate).map_err(located)?;
            let check = format!("silo `{name}`: full batch = mean of minibatches of `{plate}`");
            self.report.checks.push((check, found.whole, bound));
            for (index, discrepancy) in found.levels {
                let level = table.blocks()[index].plate.as_deref().unwrap_or_default();
                let check = format!("silo `{name}`: rows of `{level}` follow those of `{plate}`");
                self.report.checks.push((check, discrepancy, bound));
            }
        }
        for (index, block) in table.blocks().iter().enumerate() {
            if let Some(discrepancy) = encoder(model, &table, index, data).map_err(located)? {
                let plate = block.plate.as_deref().unwrap_or_default();
                let check = format!("silo `{name}`: encoding of `{plate}` is row by row");
                self.report.checks.push((check, discrepancy, bound));
            }
        }
        prior_draw(model, device, &table, data, DrawNoise { noise, index: 0 }).map_err(located)?;
        self.total.0 += share.value;
        add(&mut self.total.1, &share.globals);
        self.joint.0 += joint.value - self.prior.value;
        let gradients = self.joint.1.iter_mut().zip(&joint.globals).zip(&self.prior.globals);
        gradients.for_each(|((slot, joint), prior)| *slot += joint - prior);
        self.report.tables.push((name.to_owned(), table));
        Ok(())
    }

    fn finish(mut self, silos: usize) -> CheckReport {
        let silos = if silos == 1 { "1 silo".to_owned() } else { format!("{silos} silos") };
        let value = relative(self.total.0, self.joint.0, 1.0);
        self.report.checks.push((format!("bound: prior and {silos} = joint density"), value, self.bound));
        let discrepancy = gradient_discrepancy(&self.total.1, &self.joint.1);
        self.report.checks.push((
            format!("gradient by globals: prior and {silos} = joint density"),
            discrepancy,
            self.bound,
        ));
        self.report
    }
}

fn local_point(table: &SiteTable, noise: &Noise, silo: u32) -> Vec<Vec<f64>> {
    table
        .blocks()
        .iter()
        .zip(0_u32..)
        .map(|(block, index)| {
            let mut values = vec![0.0; block.rows * block.width];
            noise.stream(Key::new(Purpose::Check, 1).silo(silo).block(index)).normal(&mut values);
            values
        })
        .collect()
}

/// How far the average over two halves of a plate's rows is from all of them.
struct Halves {
    /// By value and by the gradients of the globals, of the silo's latents and of those of outermost plates.
    whole: f64,
    /// By the gradient of the latents of each plate inside.
    levels: Vec<(usize, f64)>,
}

/// The discrepancies between the full plate and the average over two halves of its rows.
fn minibatches(
    model: &AnyModel,
    device: &Device,
    table: &SiteTable,
    data: &AnyData,
    latents: Latents<'_>,
    plate: &str,
) -> partita_core::Result<Halves> {
    let block = table.blocks().iter().position(|block| block.plate.as_deref() == Some(plate)).unwrap_or(0);
    let rows = table.blocks()[block].rows;
    // What stands outside the plate is evaluated with every half; the parts weigh B/N so that both count it once.
    let full = LogDensity::new(model, device, table).local(latents, data)?;
    let mut value = 0.0;
    let mut gradient = vec![0.0; full.globals.len()];
    let mut by_local: Vec<Vec<f64>> = full.locals.iter().map(|own| vec![0.0; own.len()]).collect();
    for half in 0..2 {
        let chosen: Vec<usize> = (0..rows).filter(|row| row % 2 == half).collect();
        let share = chosen.len() as f64 / rows as f64;
        let minibatch = [Minibatch::new(plate, chosen)];
        let mut locals = latents.locals.to_vec();
        let mut cells: Vec<Vec<usize>> = locals.iter().map(|own| (0..own.len()).collect()).collect();
        for (index, cells) in cells.iter_mut().enumerate() {
            let (width, rows) = (table.blocks()[index].width, table.rows_evaluated(index, &minibatch)?);
            let Some(rows) = rows else { continue };
            *cells = rows.iter().flat_map(|row| row * width..(row + 1) * width).collect();
            locals[index] = cells.iter().map(|cell| latents.locals[index][*cell]).collect();
        }
        let density = LogDensity::new(model, device, table).minibatch(&minibatch);
        let part = density.local(Latents { globals: latents.globals, locals: &locals }, data)?;
        value += share * part.value;
        add_scaled(&mut gradient, share, &part.globals);
        for ((sum, own), cells) in by_local.iter_mut().zip(&part.locals).zip(&cells) {
            cells.iter().zip(own).for_each(|(cell, own)| sum[*cell] += share * own);
        }
    }
    let mut halves = Halves {
        whole: relative(value, full.value, 1.0).max(gradient_discrepancy(&gradient, &full.globals)),
        levels: Vec::new(),
    };
    for (index, (found, full)) in
        by_local.iter().zip(&full.locals).enumerate().filter(|(_, (found, _))| !found.is_empty())
    {
        let discrepancy = gradient_discrepancy(found, full);
        match table.outermost(index) {
            outermost if outermost == block && index != block => halves.levels.push((index, discrepancy)),
            _ => halves.whole = halves.whole.max(discrepancy),
        }
    }
    Ok(halves)
}

/// The discrepancy between the encoding of all rows and that of every other row; `None` without an encoder.
fn encoder(model: &AnyModel, table: &SiteTable, index: usize, data: &AnyData) -> partita_core::Result<Option<f64>> {
    let block = &table.blocks()[index];
    let Some(all) = Encoded::of(model, table, index, data, None)? else { return Ok(None) };
    let chosen: Vec<usize> = (0..block.rows).step_by(2).collect();
    let Some(half) = Encoded::of(model, table, index, data, Some(&chosen))? else { return Ok(None) };
    let (rows, width) = (block.rows, block.width);
    let row =
        |array: usize, row: usize| &all.parameters()[(array * rows + row) * width..(array * rows + row + 1) * width];
    let expected: Vec<f64> =
        (0..2).flat_map(|array| chosen.iter().flat_map(move |&own| row(array, own))).copied().collect();
    Ok(Some(gradient_discrepancy(half.parameters(), &expected)))
}

fn relative(found: f64, expected: f64, floor: f64) -> f64 {
    (found - expected).abs() / expected.abs().max(floor)
}

fn gradient_discrepancy(found: &[f64], expected: &[f64]) -> f64 {
    let scale = expected.iter().fold(1.0_f64, |largest, value| largest.max(value.abs()));
    found.iter().zip(expected).map(|(a, b)| (a - b).abs() / scale).fold(0.0, f64::max)
}
