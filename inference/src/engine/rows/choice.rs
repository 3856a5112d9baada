//! Chooses the rows that are evaluated together, a minibatch of each plate or all rows in parts, and keys their noise.

use partita_core::data::Minibatches;
use partita_core::{AnyData, AnyModel, Encoded, Key, Minibatch, Noise, SiteTable};

use crate::engine::error::{Error, Result};
use crate::engine::family::RowGaussian;
use crate::engine::settings::Settings;

/// How the rows of each block of one party are chosen.
#[derive(Debug)]
pub(crate) struct Choices {
    blocks: Vec<Choice>,
    table: SiteTable,
}

#[derive(Debug)]
struct Choice {
    plate: Option<String>,
    rows: usize,
    width: usize,
    /// Whether the model's encoder gives the parameters of rows.
    is_encoded: bool,
    minibatches: Option<Minibatches>,
}

/// Rows that are evaluated together.
#[derive(Debug, Clone)]
pub(crate) struct Chosen {
    /// The share of all rows that these are, where a bound over all rows is evaluated in parts.
    pub(crate) share: f64,
    /// The part's number.
    part: u32,
    /// Those of each block; `None` for all.
    pub(crate) blocks: Vec<Option<ChosenRows>>,
}

/// Some rows of a block.
#[derive(Debug, Clone)]
pub(crate) struct ChosenRows {
    pub(crate) rows: Vec<usize>,
    /// The place of each row's outer row among those chosen of the outer block; empty for rows that belong to none.
    pub(crate) outer: Vec<usize>,
    /// N/B.
    pub(crate) weight: f64,
}

impl Chosen {
    /// N/B of a block.
    pub(crate) fn weight(&self, block: usize) -> f64 {
        self.blocks[block].as_ref().map_or(1.0, |own| own.weight)
    }

    /// The places of outer rows of a block's rows, where not all rows of it are chosen.
    pub(crate) fn outer(&self, block: usize) -> Option<&[usize]> {
        self.blocks[block].as_ref().map(|own| own.outer.as_slice())
    }

    /// The rows of a block; `None` for all.
    pub(crate) fn rows(&self, block: usize) -> Option<&[usize]> {
        self.blocks[block].as_ref().map(|own| own.rows.as_slice())
    }
}

impl Choices {
    /// What the settings choose for each block of `table`.
    ///
    /// # Errors
    /// [`Error::Setting`] for a minibatch of a plate that is not there; what the model's encoder refuses.
    pub(crate) fn new(model: &AnyModel, data: &AnyData, table: &SiteTable, settings: &Settings) -> Result<Self> {
        let refuse = |found: String, expected| Error::Setting { setting: "minibatch", found, expected };
        let plates = || table.blocks().iter().filter_map(|block| block.plate.as_deref());
        if let Some(name) = settings.minibatch.keys().find(|name| plates().all(|plate| plate != name.as_str())) {
            let found = format!("`{name}`, where the plates are: {}", plates().collect::<Vec<_>>().join(", "));
            return Err(refuse(found, "the name of a plate of the model"));
        }
        if let Some(plate) =
            plates().find(|plate| settings.minibatch.contains_key(*plate) && !is_outermost(table, plate))
        {
            let found = format!("`{plate}`, which stands inside another plate");
            return Err(refuse(found, "an outermost plate: the rows of plates inside it follow"));
        }
        let choice = |(index, block): (usize, &partita_core::LocalBlock)| {
            // The first row tells whether there is an encoder, and whether its shapes are right.
            let first = (block.rows > 0).then_some([0]);
            let is_encoded =
                Encoded::of(model, table, index, data, first.as_ref().map(<[usize; 1]>::as_slice))?.is_some();
            let size = block.plate.as_ref().and_then(|plate| settings.minibatch.get(plate)).copied();
            let minibatches = size.filter(|&size| size < block.rows).map(|size| Minibatches::new(block.rows, size));
            let minibatches = minibatches.transpose().map_err(|error| refuse(error.to_string(), "at least one row"))?;
            let (plate, rows, width) = (block.plate.clone(), block.rows, block.width);
            Ok(Choice { plate, rows, width, is_encoded, minibatches })
        };
        let blocks = table.blocks().iter().enumerate().map(choice).collect::<Result<_>>()?;
        Ok(Self { blocks, table: table.clone() })
    }

    /// Whether the model's encoder gives the parameters of a block's rows.
    pub(crate) fn is_encoded(&self, block: usize) -> bool {
        self.blocks[block].is_encoded
    }

    /// Whether a block's plate stands in no other.
    pub(crate) fn is_outermost(&self, block: usize) -> bool {
        self.table.outermost(block) == block
    }

    /// The family of a block's rows.
    ///
    /// # Errors
    /// [`Error::Setting`] for a choice that does not fit the block.
    pub(crate) fn family(&self, index: usize, table: &SiteTable, settings: &Settings) -> Result<RowGaussian> {
        let block = &table.blocks()[index];
        match self.is_encoded(index) {
            true => settings.family.encoded_family(table, index, block),
            false => settings.family.row_family(table, index, block),
        }
    }

    /// The minibatch of a step.
    pub(crate) fn at(&self, step: u64, noise: &Noise, silo: u32) -> Chosen {
        let own = |block: &Choice| {
            let minibatches = block.minibatches.as_ref()?;
            let rows = minibatches.rows_at(step, noise, silo);
            Some(ChosenRows { rows, outer: Vec::new(), weight: minibatches.scale_at(step) })
        };
        self.follow(Chosen { share: 1.0, part: 0, blocks: self.blocks.iter().map(own).collect() })
    }

    /// The rows chosen of outermost plates, with those of plates inside, which follow, and the places of outer rows.
    fn follow(&self, mut chosen: Chosen) -> Chosen {
        let table = &self.table;
        // Of a plate without latents no rows are needed.
        let follows = |block: &usize| self.blocks[*block].width > 0 && table.blocks()[*block].parent.is_some();
        let within: Vec<usize> = (0..self.blocks.len()).filter(follows).collect();
        let minibatch = if within.is_empty() { Vec::new() } else { self.minibatch(&chosen) };
        if minibatch.is_empty() {
            return chosen;
        }
        for block in within {
            let weight = chosen.weight(table.outermost(block));
            // The minibatch names plates of the table and rows that they have.
            let outer = table.outer_places(block, &minibatch).ok().flatten().unwrap_or_default();
            let followed = || table.rows_evaluated(block, &minibatch).ok().flatten();
            match &mut chosen.blocks[block] {
                Some(own) => own.outer = outer,
                own @ None => *own = followed().map(|rows| ChosenRows { rows, outer, weight }),
            }
        }
        chosen
    }

    /// All rows at once.
    pub(crate) fn whole(&self) -> Chosen {
        Chosen { share: 1.0, part: 0, blocks: self.blocks.iter().map(|_| None).collect() }
    }

    /// Some rows of an outermost block, with the rows of plates inside them.
    pub(crate) fn some(&self, block: usize, rows: &[usize]) -> Chosen {
        let weight = self.blocks[block].rows as f64 / rows.len() as f64;
        let mut chosen = Chosen { share: 1.0 / weight, ..self.whole() };
        chosen.blocks[block] = Some(ChosenRows { rows: rows.to_vec(), outer: Vec::new(), weight });
        self.follow(chosen)
    }

    /// All rows, in parts of the size of a minibatch where an encoder serves them, so that memory stays bounded.
    ///
    /// A share of a part, multiplied by [`Chosen::share`] and summed over the parts, is the share of all rows.
    pub(crate) fn all(&self) -> Vec<Chosen> {
        let large = self.blocks.iter().position(|block| block.is_encoded && block.minibatches.is_some());
        let Some(large) = large else { return vec![self.whole()] };
        let total = self.blocks[large].rows as f64;
        let part = |(rows, part): (Vec<usize>, u32)| {
            let share = rows.len() as f64 / total;
            let mut chosen = Chosen { share, part, ..self.whole() };
            chosen.blocks[large] = Some(ChosenRows { rows, outer: Vec::new(), weight: 1.0 / share });
            self.follow(chosen)
        };
        self.parts(large).into_iter().zip(0..).map(part).collect()
    }

    /// The rows of a block in parts of the size of its minibatches.
    pub(crate) fn parts(&self, block: usize) -> Vec<Vec<usize>> {
        let Choice { rows, minibatches, .. } = &self.blocks[block];
        let size = minibatches.as_ref().map_or(*rows, Minibatches::batch_size);
        (0..*rows).collect::<Vec<_>>().chunks(size.max(1)).map(<[usize]>::to_vec).collect()
    }

    /// The outermost blocks, each with the rows of it that are evaluated; `None` for all.
    fn outermost<'c>(&'c self, chosen: &'c Chosen) -> impl Iterator<Item = (&'c Choice, Option<&'c [usize]>)> {
        let blocks = self.blocks.iter().enumerate().filter(|(index, _)| self.table.outermost(*index) == *index);
        blocks.map(|(index, block)| (block, chosen.rows(index)))
    }

    /// The rows as a log density wants them.
    pub(crate) fn minibatch(&self, chosen: &Chosen) -> Vec<Minibatch> {
        let batch =
            |(block, rows): (&Choice, Option<&[usize]>)| Some(Minibatch::new(block.plate.as_ref()?, rows?.to_vec()));
        self.outermost(chosen).filter_map(batch).collect()
    }

    /// The rows of all outermost plates, once for each of some draws of the globals.
    pub(crate) fn minibatch_for_draws(&self, chosen: &Chosen, draws: usize) -> Vec<Minibatch> {
        let batch = |(block, rows): (&Choice, Option<&[usize]>)| {
            let rows = rows.map_or_else(|| (0..block.rows).collect(), <[usize]>::to_vec);
            Some(Minibatch::for_draws(block.plate.as_ref()?, &rows, draws))
        };
        self.outermost(chosen).filter_map(batch).collect()
    }

    /// The number of rows evaluated of all outermost plates.
    pub(crate) fn evaluated(&self, chosen: &Chosen) -> usize {
        self.outermost(chosen).map(|(block, rows)| rows.map_or(block.rows, <[usize]>::len)).sum()
    }

    /// The key of the noise of one block in one part of its rows.
    pub(crate) fn key(&self, key: Key, block: usize, chosen: &Chosen) -> Key {
        let block = u32::try_from(block).unwrap_or(u32::MAX);
        let blocks = u32::try_from(self.blocks.len()).unwrap_or(u32::MAX);
        key.block(block + chosen.part * blocks)
    }

    /// The noise of the rows of each block.
    pub(crate) fn noise(&self, chosen: &Chosen, noise: &Noise, key: Key) -> Vec<Vec<f64>> {
        let one = |(index, block): (usize, &Choice)| {
            let rows = chosen.rows(index).map_or(block.rows, <[usize]>::len);
            let mut values = vec![0.0; rows * block.width];
            noise.normal(self.key(key, index, chosen), &mut values);
            values
        };
        self.blocks.iter().enumerate().map(one).collect()
    }
}

/// Whether a plate stands in no other.
fn is_outermost(table: &SiteTable, plate: &str) -> bool {
    let block = table.blocks().iter().position(|block| block.plate.as_deref() == Some(plate));
    block.is_none_or(|block| table.outermost(block) == block)
}
