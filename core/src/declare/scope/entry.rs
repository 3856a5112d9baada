//! Enters the sites of a model in the table being written, or checks them against the known table.

use std::borrow::Cow;
use std::sync::Arc;

use super::{Scope, Table};
use crate::bijector;
use crate::data::Groups;
use crate::declare::nesting::Nesting;
use crate::declare::site::{LocalBlock, Parent, Part, Role, Site};
use crate::distribution::Law;
use crate::error::{Error, Result};
use crate::math::operation::named_on_host;

impl Scope<'_> {
    /// Enters a site in the table being written, or finds it in the known one; its place in either.
    pub(super) fn enter(&mut self, name: &str, role: Role, law: Option<&Law>) -> Result<usize> {
        let full = self.full(name);
        let name = &*full;
        if self.stays_on_device() {
            self.outcome.on_host.extend(named_on_host().into_iter().map(|operation| (name.to_owned(), operation)));
        }
        let plate = self.place.plate.as_ref().map(|plate| plate.name.as_str());
        let shape = law.map(Law::shape).unwrap_or_default();
        let distribution = law.map_or(Cow::Borrowed(""), |law| law.density.name());
        let non_centred = law.is_some_and(|law| law.non_centred);
        match &mut self.table {
            Table::Known(table) => {
                let index = self.place.next;
                self.place.next += 1;
                let same = |site: &&Site| {
                    site.name == name
                        && site.role == role
                        && site.plate.as_deref() == plate
                        && site.distribution == distribution
                        && site.non_centred == non_centred
                        && same_shape(site, &shape)
                };
                let known = table.sites.get(index);
                if known.filter(same).is_some() {
                    return Ok(index);
                }
                Err(Error::ChangingStructure {
                    found: describe(name, &distribution, &shape),
                    expected: known.map_or_else(|| NO_SITE.to_owned(), describe_site),
                })
            }
            Table::Building(table) => {
                if table.site(name).is_some() {
                    return Err(Error::DuplicateSite { site: name.into(), table: table.names() });
                }
                table.sites.push(Site {
                    name: name.to_owned(),
                    role,
                    part: self.place.part,
                    plate: plate.map(str::to_owned),
                    distribution,
                    support: None,
                    shape,
                    non_centred,
                    improper: law.is_some_and(|law| law.density.is_improper()),
                    censored: law.is_some_and(|law| law.density.censoring().is_some()),
                    event: law.map_or(0, Law::mapped_len),
                    block: self.place.plate.as_ref().map_or(0, |plate| plate.block),
                    offset: 0,
                    width: 0,
                    bijector: None,
                    start: Vec::new(),
                    lifted: false,
                    start_scale: None,
                    layer: false,
                });
                Ok(table.sites.len() - 1)
            }
        }
    }

    /// Writes support, bijector and place of the latent just entered at `index` into the table being written.
    pub(super) fn register(&mut self, index: usize, law: &Law) -> Result<()> {
        let arrays = law.arrays()?;
        let view = law.view(&arrays);
        let numbers = law.shape().iter().product::<usize>();
        view.check_parameters(numbers)?;
        let support = law.mapped_support(&view)?;
        let events = numbers / law.mapped_len().max(1);
        let bijector = bijector::for_support(&support)?;
        let one = bijector.unconstrained_len(law.mapped_len())?;
        let local = self.place.part == Part::Local;
        let (rows, block) = match &self.place.plate {
            Some(plate) => (plate.rows.total(), plate.block),
            None if local => (1, self.block(Opened { plate: None, rows: 1, within: None })?),
            None => (1, 0),
        };
        let Table::Building(table) = &mut self.table else {
            unreachable!("invariant: a site is registered only while the table is built")
        };
        let width = events / rows * one;
        let end = if local { &mut table.blocks[block].width } else { &mut table.global_len };
        let offset = *end;
        *end += width;
        let site = &mut table.sites[index];
        (site.support, site.block, site.offset, site.width) = (Some(support), block, offset, width);
        site.bijector = Some(bijector.into());
        Ok(())
    }

    /// Writes the place of the latent just entered at `index` into the table being written: it has no rows.
    pub(super) fn register_no_rows(&mut self, index: usize) {
        let block = self.place.plate.as_ref().map_or(0, |plate| plate.block);
        if let Table::Building(table) = &mut self.table {
            table.sites[index].block = block;
        }
    }

    /// Refuses a model that ended before the last site of the table: the omitted sites would be missing silently.
    pub(crate) fn ended(&self) -> Result<()> {
        let Table::Known(table) = &self.table else { return Ok(()) };
        let left = table.sites.iter().skip(self.place.next).find(|site| site.part == self.place.part);
        match left {
            None => Ok(()),
            Some(site) => Err(Error::ChangingStructure { found: NO_SITE.to_owned(), expected: describe_site(site) }),
        }
    }

    /// The local block of a plate (or of no plate), made while the table is built.
    pub(super) fn block(&mut self, opened: Opened<'_>) -> Result<usize> {
        let Opened { plate, rows, within } = opened;
        let known = self.table().blocks.iter().position(|block| block.plate.as_deref() == plate);
        let problem = |problem| Err(Error::Plate { plate: plate.unwrap_or_default().into(), problem });
        match (known, &mut self.table) {
            (Some(block), _) => {
                let own = &self.table().blocks[block];
                if own.rows != rows {
                    return problem(format!(
                        "it has {rows} rows here and {} elsewhere. Use one plate name for one set of rows.",
                        own.rows
                    ));
                }
                if !opened.stands_as(own) {
                    return problem(
                        "its rows belong to other rows here than elsewhere. Use one plate name for one set of rows, with one `Groups` that stays the same at every evaluation.".into(),
                    );
                }
                Ok(block)
            }
            (None, Table::Building(table)) => {
                let silo = || table.blocks.iter().position(|block| block.plate.is_none() && block.width > 0);
                let parent = match within {
                    Some((block, groups)) => Some(Parent { block, rows: Arc::clone(groups.shared()) }),
                    None => plate.and(silo()).map(|block| Parent { block, rows: vec![0; rows].into() }),
                };
                let nesting = within.map(|(_, groups)| Nesting::of(groups));
                table.blocks.push(LocalBlock { plate: plate.map(str::to_owned), rows, width: 0, parent, nesting });
                Ok(table.blocks.len() - 1)
            }
            (None, Table::Known(table)) => Err(Error::ChangingStructure {
                found: format!("plate {}", plate.unwrap_or_default()),
                expected: format!("the plates of the site table ({})", table.names()),
            }),
        }
    }
}

/// A plate as it is opened, or the statements outside plates.
#[derive(Debug, Clone, Copy)]
pub(super) struct Opened<'o> {
    pub(super) plate: Option<&'o str>,
    pub(super) rows: usize,
    /// The block of the plate around it, and the groups.
    pub(super) within: Option<(usize, &'o Groups)>,
}

impl Opened<'_> {
    /// Whether the rows belong to the same rows as those of a block.
    fn stands_as(&self, block: &LocalBlock) -> bool {
        match (self.within, &block.nesting, &block.parent) {
            (None, None, _) => true,
            (Some((around, groups)), Some(own), Some(parent)) => parent.block == around && own.groups.agrees(groups),
            _ => false,
        }
    }
}

/// The word of an error for a site that only one of two readings has.
const NO_SITE: &str = "no further site";

fn describe_site(site: &Site) -> String {
    describe(&site.name, &site.distribution, &site.shape)
}

fn describe(name: &str, distribution: &str, shape: &[usize]) -> String {
    if distribution.is_empty() { name.to_owned() } else { format!("{name} {distribution} {shape:?}") }
}

/// Whether a site's shape is that of the table, up to the rows of a minibatch.
fn same_shape(site: &Site, shape: &[usize]) -> bool {
    match site.plate {
        Some(_) => site.shape.len() == shape.len() && site.shape.iter().skip(1).eq(shape.iter().skip(1)),
        None => site.shape == shape,
    }
}
