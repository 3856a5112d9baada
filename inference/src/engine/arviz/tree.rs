//! Arranges draws as groups of named variables with named axes.

use partita_core::{AnyModel, Device, Part, SiteTable};
use serde_json::{Map, Value, json};

use super::options::AxisLabels;
use crate::engine::error::Result;
use crate::engine::report::summary::{NaturalDraws, prior_draws};

/// A group with its variables, and the groups in it.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub(crate) name: &'static str,
    pub(crate) attributes: Map<String, Value>,
    pub(crate) variables: Vec<Variable>,
    pub(crate) groups: Vec<Group>,
}

/// An array with a name for each axis; one whose name is that of its only axis holds the labels along it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) axes: Vec<Axis>,
    pub(crate) elements: Elements,
}

/// An axis of a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Axis {
    pub(crate) name: String,
    pub(crate) length: usize,
    /// The names of places along it; their numbers where there are none.
    pub(crate) labels: Option<Vec<String>>,
}

/// The elements of a variable, the last axis fastest.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Elements {
    Numbers(Vec<f64>),
    Counts(Vec<i64>),
    #[cfg_attr(not(feature = "sampler"), expect(dead_code, reason = "samplers mark draws"))]
    Marks(Vec<bool>),
    Words(Vec<String>),
}

/// What is known of the axes of sites.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Labels<'a> {
    pub(crate) table: &'a SiteTable,
    pub(crate) labels: &'a [AxisLabels],
}

impl Axis {
    pub(crate) fn new(name: &str, length: usize) -> Self {
        Self { name: name.to_owned(), length, labels: None }
    }

    /// The variable that holds what places along this axis are called.
    fn coordinate(&self) -> Variable {
        let elements = match &self.labels {
            Some(labels) => Elements::Words(labels.clone()),
            #[expect(clippy::cast_possible_wrap, reason = "lengths are far below 2^63")]
            None => Elements::Counts((0..self.length).map(|place| place as i64).collect()),
        };
        Variable { name: self.name.clone(), axes: vec![self.clone()], elements }
    }
}

/// The axes of draws: `chain`, and `draw` in it.
pub(crate) fn sample_axes(chains: usize, draws: usize) -> Vec<Axis> {
    vec![Axis::new("chain", chains), Axis::new("draw", draws)]
}

impl Group {
    pub(crate) fn new(name: &'static str, attributes: Map<String, Value>, variables: Vec<Variable>) -> Self {
        Self { name, attributes, variables, groups: Vec::new() }
    }

    /// A group of draws.
    pub(crate) fn of_draws(name: &'static str, attributes: Map<String, Value>, variables: Vec<Variable>) -> Self {
        let mut own = Self::new(name, attributes, variables);
        own.attributes.insert("sample_dims".into(), json!(["chain", "draw"]));
        own
    }

    /// With what places along every axis are called.
    pub(crate) fn coordinates(&self) -> Vec<Variable> {
        let mut all: Vec<Variable> = Vec::new();
        for axis in self.variables.iter().flat_map(|variable| &variable.axes) {
            if all.iter().all(|own| own.name != axis.name) {
                all.push(axis.coordinate());
            }
        }
        all
    }
}

impl Labels<'_> {
    /// The axes of a site of this shape; none where it is one number.
    fn axes(&self, site: &str, numbers: usize) -> Vec<Axis> {
        let declared = self.table.site(site).map(|site| site.shape.clone());
        let shape = declared.filter(|shape| shape.iter().product::<usize>() == numbers).unwrap_or(vec![numbers]);
        if numbers == 1 && self.labels.iter().all(|own| own.site != site) {
            return Vec::new();
        }
        let axis = |(place, length): (usize, &usize)| {
            let labelled = self.labels.iter().find(|own| own.site == site && own.axis == place);
            let name = labelled.map_or_else(|| format!("{site}_dim_{place}"), |own| own.name.clone());
            Axis { name: plain(&name), length: *length, labels: labelled.map(|own| own.labels.clone()) }
        };
        shape.iter().enumerate().map(axis).collect()
    }

    /// Draws of the globals from their prior; `None` where that is improper.
    ///
    /// # Errors
    /// What the model refuses.
    pub(crate) fn prior(
        &self,
        model: &AnyModel,
        device: &Device,
        seed: u64,
        attributes: Map<String, Value>,
    ) -> Result<Option<Group>> {
        if self.table.latents(Part::Global).any(|site| site.improper) {
            return Ok(None);
        }
        let draws = prior_draws(model, device, self.table, seed)?;
        Ok(Some(Group::of_draws("prior", attributes, self.variables(&draws, 1))))
    }

    /// One variable a site of draws of its numbers, chain after chain.
    pub(crate) fn variables(&self, draws: &NaturalDraws, chains: usize) -> Vec<Variable> {
        let by_site = draws.chunk_by(|(one, ..), (other, ..)| one == other);
        let variable = |numbers: &[(String, String, Vec<f64>)]| {
            let (site, _, first) = &numbers[0];
            let mut axes = sample_axes(chains, first.len() / chains);
            axes.extend(self.axes(site, numbers.len()));
            let values = (0..first.len()).flat_map(|draw| numbers.iter().map(move |(_, _, own)| own[draw]));
            Variable { name: plain(site), axes, elements: Elements::Numbers(values.collect()) }
        };
        by_site.map(variable).collect()
    }
}

/// A number a draw, chain after chain.
pub(crate) fn statistic(name: &str, chains: usize, elements: Elements) -> Variable {
    Variable { name: name.to_owned(), axes: sample_axes(chains, elements.len() / chains), elements }
}

impl Elements {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Numbers(all) => all.len(),
            Self::Counts(all) => all.len(),
            Self::Marks(all) => all.len(),
            Self::Words(all) => all.len(),
        }
    }
}

/// A name without the character that separates groups.
pub(crate) fn plain(name: &str) -> String {
    name.replace('/', ".")
}
