//! Gives the statement for Bayesian linear layers, whose weights local reparameterisation integrates out.

use std::sync::{Arc, Mutex, PoisonError};

use burn::tensor::Tensor;

use super::{Layers, Leaf, Origin, Quantity, Reading, RowPlace, Scope, Score, Table};
use crate::declare::linear::{BayesianLinear, LocalNoise, Passes};
use crate::declare::site::Part;
use crate::distribution::{Distribution, Support};
use crate::error::{Error, Result};
use crate::handle::Handle;
use crate::number::Numbers;

impl<'a> Scope<'a> {
    /// Makes a linear layer Bayesian: weight and bias become latents with the prior `prior`.
    ///
    /// As [`Scope::module`], sites `name.0` (the weight) and `name.1` (the bias); in addition an estimator with local
    /// reparameterisation may pass rows through it without drawing its weights.
    ///
    /// # Errors
    /// As for [`Scope::module`].
    pub fn linear(&mut self, name: &str, layer: &BayesianLinear, prior: Distribution<1>) -> Result<BayesianLinear> {
        let first = self.next_site();
        let Some(moments) = self.layers().map(|layers| layers.moments) else {
            let lifted = self.module(name, layer, prior)?;
            self.mark_layer(name, first)?;
            return Ok(lifted.with_draws(self.draws()));
        };
        let drawn = std::mem::replace(&mut self.source.globals, Origin::Given(moments.means));
        let before = self.outcome.leaves.len();
        let lifted = self.module(name, layer, prior);
        self.source.globals = drawn;
        let layer = lifted?;
        self.outcome.leaves[before..].iter_mut().for_each(|leaf| leaf.quantity = Quantity::Mean);
        let weight = self.variance_leaf::<2>(first, moments.variances)?;
        let bias = self.variance_leaf::<1>(first + 1, moments.variances)?;
        // Above the blocks of local latents, with room for passes.
        let block = (u32::try_from(first).unwrap_or(u32::MAX).wrapping_add(1)) << 16;
        let passes = Arc::<Mutex<Passes>>::default();
        if let Some(layers) = self.layers() {
            layers.passes.push(Arc::clone(&passes));
        }
        Ok(layer.with_local(LocalNoise {
            weight,
            bias,
            device: self.device.clone(),
            noise: moments.noise,
            key: moments.key.block(block),
            passes,
        }))
    }

    /// Begins another evaluation of the local function on the same tape, with the noise of another particle.
    pub(crate) fn begin_particle(&mut self, first_site: usize, particle: u32) {
        self.place.next = first_site;
        for passes in self.layers().into_iter().flat_map(|layers| &layers.passes) {
            passes.lock().unwrap_or_else(PoisonError::into_inner).begin(particle);
        }
    }

    /// Begins another pass over the local function on the same tape, at other latents of rows.
    pub(crate) fn begin_pass(&mut self, first_site: usize, pass: usize, locals: &'a [Vec<f64>]) {
        (self.place.next, self.place.pass) = (first_site, pass);
        self.source.locals = Origin::Given(locals);
    }

    /// The index of the next site.
    pub(crate) fn next_site(&self) -> usize {
        if let Table::Building(table) = &self.table { table.sites.len() } else { self.place.next }
    }

    /// Linear layers evaluated with moments, if the reading evaluates them so.
    fn layers(&mut self) -> Option<&mut Layers<'a>> {
        match &mut self.reading {
            Reading::Density(density) => density.layers.as_mut(),
            _ => None,
        }
    }

    /// The number of draws of the globals that this reading evaluates together.
    pub(super) fn draws(&self) -> usize {
        if let Reading::OnDevice(latents) = &self.reading { latents.draws } else { 1 }
    }

    /// Marks the sites from `first` on as those of a layer.
    fn mark_layer(&mut self, name: &str, first: usize) -> Result<()> {
        let Table::Building(table) = &mut self.table else { return Ok(()) };
        for site in &mut table.sites[first..] {
            if site.support != Some(Support::Real) || site.non_centred || site.part != Part::Global {
                return Err(Error::Argument {
                    operation: format!("linear layer `{name}`"),
                    argument: "prior",
                    found: format!(
                        "{}{}, {:?}",
                        site.distribution,
                        if site.non_centred { " non-centred" } else { "" },
                        site.part
                    ),
                    expected: "a centred distribution on all real numbers, in the global function; use `scope.module` for others",
                });
            }
            site.layer = true;
        }
        Ok(())
    }

    /// The variances of a layer's site as a leaf of the tape.
    fn variance_leaf<const D: usize>(&mut self, index: usize, variances: Numbers<'_>) -> Result<Tensor<D>> {
        let site = &self.table().sites[index];
        let values = variances.part(site.offset..site.offset + site.width);
        let shape: [usize; D] = match site.shape.as_slice().try_into() {
            Ok(shape) => shape,
            Err(_) => unreachable!("invariant: a layer has a weight of rank 2 and a bias of rank 1"),
        };
        let value: Tensor<D> = self.device.leaf_of(values, shape);
        self.outcome.leaves.push(Leaf {
            site: index,
            quantity: Quantity::Variance,
            handle: Handle::from(value.clone()),
            unconstrained: Vec::new(),
            constrained: Vec::new(),
            host_gradient: Vec::new(),
            score: Score::Skip,
            place: RowPlace::default(),
        });
        Ok(value)
    }
}
