//! Reads a model and the data of all its silos as one log density of one unconstrained vector, with its gradient.

use partita_core::kernel::add_scaled;
use partita_core::{
    AnyData, AnyModel, Device, Error, Latents, LogDensity, Part, Result, Site, SiteTable, pointwise_log_likelihood,
};

use crate::engine::terms::coordinator::global_site;

/// Where the numbers of each party stand in the vector: the globals first, then silo by silo and block by block.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Layout {
    pub(super) globals: usize,
    /// The lengths of the local blocks of each silo.
    pub(super) blocks: Vec<Vec<usize>>,
}

impl Layout {
    pub(super) fn of(tables: &[SiteTable]) -> Self {
        let lengths = |table: &SiteTable| table.blocks().iter().map(|block| block.rows * block.width).collect();
        let globals = tables.first().map_or(0, SiteTable::global_len);
        Self { globals, blocks: tables.iter().map(lengths).collect() }
    }

    /// The length of the vector.
    pub(super) fn len(&self) -> usize {
        self.globals + self.blocks.iter().flatten().sum::<usize>()
    }

    /// The first number of a block of a silo.
    pub(super) fn start(&self, silo: usize, block: usize) -> usize {
        let before: usize = self.blocks[..silo].iter().flatten().sum();
        self.globals + before + self.blocks[silo][..block].iter().sum::<usize>()
    }

    /// The local blocks of a silo at a vector.
    pub(super) fn locals(&self, silo: usize, position: &[f64]) -> Vec<Vec<f64>> {
        let block = |block: usize| {
            let start = self.start(silo, block);
            position[start..start + self.blocks[silo][block]].to_vec()
        };
        (0..self.blocks[silo].len()).map(block).collect()
    }
}

/// A model, the data of all silos and memory, for one thread.
pub(super) struct Target<'a> {
    model: AnyModel,
    data: Vec<AnyData>,
    device: &'a Device,
    tables: &'a [SiteTable],
    layout: &'a Layout,
    /// The local latents of each silo at the vector last seen.
    locals: Vec<Vec<Vec<f64>>>,
}

impl<'a> Target<'a> {
    pub(super) fn new(
        model: AnyModel,
        data: Vec<AnyData>,
        device: &'a Device,
        tables: &'a [SiteTable],
        layout: &'a Layout,
    ) -> Self {
        let locals = layout.blocks.iter().map(|blocks| blocks.iter().map(|length| vec![0.0; *length]).collect());
        Self { model, data, device, tables, locals: locals.collect(), layout }
    }

    /// The log density in nats at `position`; writes its gradient.
    ///
    /// The first silo's share is read in one pass with the density of the globals, the others add theirs in their
    /// order.
    pub(super) fn value_and_gradient(&mut self, position: &[f64], gradient: &mut [f64]) -> Result<f64> {
        let (globals, mut rest) = position.split_at(self.layout.globals);
        let (by_globals, mut by_locals) = gradient.split_at_mut(self.layout.globals);
        by_globals.fill(0.0);
        let mut value = 0.0;
        for (silo, (locals, data)) in self.locals.iter_mut().zip(&self.data).enumerate() {
            for block in locals.iter_mut() {
                let (own, others) = rest.split_at(block.len());
                block.copy_from_slice(own);
                rest = others;
            }
            let density = LogDensity::new(&self.model, self.device, &self.tables[silo]);
            let latents = Latents { globals, locals };
            let share = if silo == 0 { density.joint(latents, data)? } else { density.local(latents, data)? };
            value += share.value;
            add_scaled(by_globals, 1.0, &share.globals);
            for block in &share.locals {
                let (own, others) = by_locals.split_at_mut(block.len());
                own.copy_from_slice(block);
                by_locals = others;
            }
        }
        Ok(value)
    }

    /// The site at which a log density that is not finite, or whose gradient is no direction, goes wrong, and how.
    pub(super) fn blame(
        &self,
        position: &[f64],
        found: std::result::Result<(f64, &[f64]), &Error>,
    ) -> (String, String) {
        match found {
            Err(error) => (self.named_in(&error.to_string()), error.to_string()),
            Ok((value, gradient)) => {
                let at = gradient.iter().position(|slope| !slope.is_finite() || *slope == 0.0);
                if value.is_finite() {
                    let at = at.unwrap_or(0);
                    return (self.site_at(at), format!("the gradient by the unconstrained value is {}", gradient[at]));
                }
                let site =
                    self.observed(position).unwrap_or_else(|| at.map_or_else(String::new, |at| self.site_at(at)));
                (site, format!("the log density is {value}"))
            }
        }
    }

    /// The site whose name in backticks occurs in the words of an error.
    fn named_in(&self, words: &str) -> String {
        let sites = self.tables.iter().flat_map(SiteTable::sites);
        let mut named = sites.filter(|site| words.contains(&format!("`{}`", site.name)));
        named.next().map_or_else(|| "unknown".to_owned(), |site| site.name.clone())
    }

    /// The latent site that owns a number of the vector.
    pub(super) fn site_at(&self, place: usize) -> String {
        let name = |site: Option<&Site>| site.map_or_else(String::new, |site| site.name.clone());
        if place < self.layout.globals {
            return name(self.tables.first().and_then(|table| global_site(table, place)));
        }
        for (silo, table) in self.tables.iter().enumerate() {
            for (block, shape) in table.blocks().iter().enumerate() {
                let start = self.layout.start(silo, block);
                if (start..start + shape.rows * shape.width).contains(&place) {
                    let column = (place - start) % shape.width;
                    let holds = |site: &&Site| (site.offset()..site.offset() + site.width()).contains(&column);
                    return name(table.latents(Part::Local).filter(|site| site.block() == block).find(holds));
                }
            }
        }
        String::new()
    }

    /// The first observed site with a log likelihood that is not finite.
    fn observed(&self, position: &[f64]) -> Option<String> {
        for (silo, data) in self.data.iter().enumerate() {
            let locals = self.layout.locals(silo, position);
            let latents = Latents { globals: &position[..self.layout.globals], locals: &locals };
            let sites = pointwise_log_likelihood(&self.model, self.device, &self.tables[silo], data, latents).ok()?;
            let bad = sites.into_iter().find(|(_, values)| values.values.iter().any(|value| !value.is_finite()));
            if let Some((site, _)) = bad {
                return Some(site);
            }
        }
        None
    }
}
