//! Reads what a file for ArviZ holds of the rows of silos: data, predictive draws, and log likelihoods.

use partita_core::{
    AnyData, AnyModel, Array, Device, DrawNoise, Latents, LocalBlock, Noise, Part, Predictive, SiteTable,
    observed_values, pointwise_log_likelihood, predictive_draw,
};

use super::tree::{Axis, Elements, Variable, plain};
use crate::engine::error::{Error, Result};
use crate::engine::integral::AtDraws;
use crate::engine::normal::Normal;
use crate::engine::terms::particles::Worker;
use crate::engine::trust::values::{Refusal, UNTIL, unresolved};
use crate::engine::whitened::Draws;

/// Draws of one number a row, or of several, of one silo.
#[derive(Debug, Clone)]
pub(crate) struct Drawn {
    name: String,
    /// What rows are of.
    axis: String,
    /// The shape of one draw, the rows first.
    shape: Vec<usize>,
    /// All draws, one after another.
    values: Vec<f64>,
}

/// A silo whose owner lets its rows leave into a file.
#[derive(Debug)]
pub(crate) struct OpenSilo<'a> {
    pub(crate) model: &'a AnyModel,
    pub(crate) data: &'a AnyData,
    pub(crate) device: &'a Device,
    pub(crate) table: SiteTable,
    /// Its place among the silos of the fit.
    pub(crate) place: usize,
}

/// A draw of the globals, and of the locals where there is one.
type At<'g> = (&'g [f64], Option<Vec<Vec<f64>>>);

/// What of one silo was read, by its name.
pub(crate) type ReadRows = Vec<(String, Vec<Drawn>)>;

impl<'a> OpenSilo<'a> {
    /// The silo of this name among those of a fit.
    ///
    /// # Errors
    /// [`Error::Setting`] if there is none; what the model refuses.
    pub(crate) fn new(
        model: &'a AnyModel,
        (name, data): &'a (String, AnyData),
        silos: &[String],
        device: &'a Device,
    ) -> Result<Self> {
        let Some(place) = silos.iter().position(|own| own == name) else {
            let found = format!("rows of `{name}`, which is none of {}", silos.join(", "));
            return Err(Error::Setting { setting: "rows", found, expected: "the names of silos of the fit" });
        };
        Ok(Self { model, data, device, table: SiteTable::of(model, device, data)?, place })
    }

    /// Whether it has latents of its own.
    pub(crate) fn has_latents(&self) -> bool {
        self.table.latents(Part::Local).next().is_some()
    }

    /// Its data.
    pub(crate) fn observed(&self) -> Result<Vec<Drawn>> {
        let found = observed_values(self.model, self.device, &self.table, self.data)?;
        Ok(self.drawn(vec![Some(found)]))
    }

    /// New data at draws of the globals; given its locals, or with local latents drawn anew where there are none.
    pub(crate) fn predictive<'g>(&self, seed: u64, draws: impl Iterator<Item = At<'g>>) -> Result<Vec<Drawn>> {
        let one = |(index, (globals, locals)): (usize, At<'g>)| {
            let noise = DrawNoise { noise: Noise::new(seed), index: ((self.place as u64) << 32) + index as u64 };
            let at = Predictive { globals, locals: locals.as_deref(), noise };
            Ok(Some(predictive_draw(self.model, self.device, &self.table, self.data, at)?.observed))
        };
        Ok(self.drawn(draws.enumerate().map(one).collect::<Result<_>>()?))
    }

    /// The log likelihood of every observation at draws of globals and locals.
    pub(crate) fn pointwise<'g>(&self, draws: impl Iterator<Item = (&'g [f64], Vec<Vec<f64>>)>) -> Result<Vec<Drawn>> {
        let one = |(globals, locals): (&[f64], Vec<Vec<f64>>)| {
            let latents = Latents { globals, locals: &locals };
            match pointwise_log_likelihood(self.model, self.device, &self.table, self.data, latents) {
                Err(error) if crate::engine::error::is_outside(&error) => Ok(None),
                found => Ok(Some(found?)),
            }
        };
        Ok(self.drawn(draws.map(one).collect::<Result<_>>()?))
    }

    /// The log likelihood of every outermost row at draws of the globals, its latents integrated out; why there is none where
    /// integrals are not resolved.
    ///
    /// # Errors
    /// What the model refuses.
    pub(crate) fn marginal(
        &self,
        seed: u64,
        threads: usize,
        around: &Normal,
        draws: &[Vec<f64>],
    ) -> Result<std::result::Result<Vec<Drawn>, Refusal>> {
        let blocks = self.table.blocks();
        let worker = Worker { model: self.model.clone(), data: self.data.clone() };
        let whitened = Draws::enough(seed, self.table.global_len())?;
        let rows = AtDraws::new(worker, threads, self.device, self.table.clone(), whitened)?;
        let mut rows = rows.ready_around(around, UNTIL)?;
        if let Some(refusal) = unresolved(&rows, &around.mean)? {
            return Ok(Err(refusal));
        }
        let found = rows.by_row(around, draws.len(), |index| draws[index].clone())?;
        // Rows come block after block, outermost blocks alone.
        let outermost = |block: &usize| blocks[*block].width > 0 && self.table.outermost(*block) == *block;
        let outermost: Vec<_> = (0..blocks.len()).filter(outermost).map(|block| &blocks[block]).collect();
        let one = |found: Vec<f64>| {
            let mut rest = found.into_iter();
            let one = |block: &&LocalBlock| {
                let values = rest.by_ref().take(block.rows).collect();
                (block.plate.clone().unwrap_or_default(), Array { values, shape: vec![block.rows] })
            };
            outermost.iter().map(one).collect::<Vec<_>>()
        };
        let mut drawn = self.drawn(found.into_iter().map(|own| own.map(one)).collect());
        drawn.iter_mut().for_each(|own| (own.axis, own.name) = (own.name.clone(), format!("by_{}", own.name)));
        Ok(Ok(drawn))
    }

    /// Draws site by site; minus infinity where there is none.
    fn drawn(&self, draws: Vec<Option<Vec<(String, Array)>>>) -> Vec<Drawn> {
        let Some(like) = draws.iter().flatten().next().cloned() else { return Vec::new() };
        let one = |(at, (name, array)): (usize, (String, Array))| {
            let plate = self.table.site(&name).and_then(|site| site.plate.clone());
            let values = draws.iter().flat_map(|draw| match draw {
                Some(draw) => draw[at].1.values.clone(),
                None => vec![f64::NEG_INFINITY; array.values.len()],
            });
            let axis = plate.unwrap_or_else(|| format!("{name}_dim_0"));
            Drawn { axis, shape: array.shape, values: values.collect(), name }
        };
        like.into_iter().enumerate().map(one).collect()
    }
}

/// The rows of all silos as one variable a site, with the silo of each row; `samples` are the axes of the draws.
///
/// # Errors
/// [`Error::Setting`] for silos whose rows differ in shape.
pub(crate) fn joined(silos: &ReadRows, samples: &[Axis]) -> Result<Vec<Variable>> {
    let mut all: Vec<Variable> = Vec::new();
    let draws: usize = samples.iter().map(|axis| axis.length).product();
    let every = || silos.iter().flat_map(|(silo, found)| found.iter().map(move |own| (silo, own)));
    for (_, first) in every() {
        let name = plain(&first.name);
        if all.iter().any(|known| known.name == name) {
            continue;
        }
        let parts: Vec<(&String, &Drawn)> = every().filter(|(_, own)| own.name == first.name).collect();
        if let Some((silo, other)) = parts.iter().find(|(_, own)| own.shape[1..] != first.shape[1..]) {
            let found = format!("`{name}` of shape {:?} and, of `{silo}`, {:?}", first.shape, other.shape);
            let expected = "silos that differ in the number of rows alone; write one file a silo for others";
            return Err(Error::Setting { setting: "rows", found, expected });
        }
        // A variable that is called like an axis would hold its labels.
        let is_taken = every().any(|(_, own)| own.name == first.axis);
        let axis = plain(&if is_taken { format!("{}_dim", first.axis) } else { first.axis.clone() });
        let rows: usize = parts.iter().map(|(_, own)| own.shape[0]).sum();
        let mut values = Vec::with_capacity(draws * rows);
        for draw in 0..draws {
            for (_, own) in &parts {
                let length: usize = own.shape.iter().product();
                values.extend_from_slice(&own.values[draw * length..][..length]);
            }
        }
        let row_axis = Axis::new(&axis, rows);
        let inner = first.shape[1..].iter().enumerate();
        let inner = inner.map(|(place, length)| Axis::new(&format!("{name}_dim_{}", place + 1), *length));
        let axes = samples.iter().cloned().chain([row_axis.clone()]).chain(inner).collect();
        let of_silo = format!("{axis}_silo");
        if all.iter().all(|known| known.name != of_silo) {
            let words = parts.iter().flat_map(|(silo, own)| vec![(*silo).clone(); own.shape[0]]);
            all.push(Variable { name: of_silo, axes: vec![row_axis], elements: Elements::Words(words.collect()) });
        }
        all.push(Variable { name, axes, elements: Elements::Numbers(values) });
    }
    Ok(all)
}
