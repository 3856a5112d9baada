//! Reads the head of a vertical model with its labels: log prior, log likelihood of predictors, and their gradients.

use burn::tensor::Tensor;

use super::party::{at, chosen};
use crate::array::Array;
use crate::declare::rows::Rows;
use crate::declare::scope::{Density, LocalPart, Minibatch, Origin, Reading, Scope, Source, Terms};
use crate::declare::site::SiteTable;
use crate::declare::vertical::{Columns, Head};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::handle::Handle;
use crate::noise::DrawNoise;
use crate::read::gradient::{ValueAndGradient, gradients_of};

/// The plate that all rows stand in.
pub(super) const PLATE: &str = "row";

/// A head with the labels of all rows: what the label holder has, whatever the types.
#[derive(Debug)]
pub struct Labels {
    held: Box<dyn Held>,
}

impl Clone for Labels {
    fn clone(&self) -> Self {
        Self { held: self.held.copy() }
    }
}

/// A log likelihood (nats) with its gradients.
#[derive(Debug, Clone, PartialEq)]
pub struct LikelihoodShare {
    /// $`w \sum_i \log p(y_i \mid \eta_i, \gamma)`$.
    pub value: f64,
    /// Its gradient by the unconstrained unknowns $`\gamma`$.
    pub latents: Vec<f64>,
    /// Its gradient by the predictors, `[rows, outputs]`.
    pub eta: Vec<f64>,
}

/// What a log likelihood is evaluated at.
///
/// # Shapes
/// `eta`: `[rows, outputs]`, row by row.
#[derive(Debug, Clone, Copy)]
pub struct LikelihoodAt<'a> {
    /// The unconstrained unknowns of the head.
    pub latents: &'a [f64],
    /// The predictors.
    pub eta: &'a [f64],
    /// The rows evaluated, whose log likelihood is multiplied by $`N/B`$; all for `None`.
    pub rows: Option<&'a [usize]>,
    /// What the log likelihood is multiplied by in addition.
    pub weight: f64,
}

/// A head and its data, whatever their types.
trait Held: Send + std::fmt::Debug {
    fn copy(&self) -> Box<dyn Held>;
    fn rows(&self) -> usize;
    fn outputs(&self) -> usize;
    fn declare(&self, scope: &mut Scope<'_>) -> Result<Box<dyn Stated>>;
}

/// A head at one value of its unknowns.
pub(super) trait Stated: Send {
    fn observe(&self, scope: &mut Scope<'_>, eta: Tensor<2>, rows: &Rows<'_>) -> Result<()>;
    fn mean(&self, eta: Tensor<2>, rows: &Rows<'_>) -> Result<Tensor<2>>;
}

struct Pair<H: Head> {
    head: H,
    data: H::Data,
}

impl<H: Head> std::fmt::Debug for Pair<H> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Pair").field("head", &self.head).finish_non_exhaustive()
    }
}

struct Known<H: Head> {
    pair: Pair<H>,
    latents: H::Latents,
}

impl<H: Head> Held for Pair<H> {
    fn copy(&self) -> Box<dyn Held> {
        Box::new(Self { head: self.head.clone(), data: self.data.clone() })
    }

    fn rows(&self) -> usize {
        self.data.rows()
    }

    fn outputs(&self) -> usize {
        self.head.outputs()
    }

    fn declare(&self, scope: &mut Scope<'_>) -> Result<Box<dyn Stated>> {
        let latents = self.head.prior(scope)?;
        let pair = Self { head: self.head.clone(), data: self.data.clone() };
        Ok(Box::new(Known { pair, latents }))
    }
}

impl<H: Head> Stated for Known<H> {
    fn observe(&self, scope: &mut Scope<'_>, eta: Tensor<2>, rows: &Rows<'_>) -> Result<()> {
        self.pair.head.observe(scope, &self.latents, eta, rows, &self.pair.data)
    }

    fn mean(&self, eta: Tensor<2>, rows: &Rows<'_>) -> Result<Tensor<2>> {
        self.pair.head.mean(&self.latents, eta, rows, &self.pair.data)
    }
}

impl Labels {
    /// A head with its labels.
    #[must_use]
    pub fn new<H: Head>(head: H, data: H::Data) -> Self {
        Self { held: Box::new(Pair { head, data }) }
    }

    /// The number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.held.rows()
    }

    /// Numbers in the predictor of one row.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.held.outputs()
    }

    /// The sites of the head: its unknowns, and the labels, which are checked against their support.
    ///
    /// # Errors
    /// What the head refuses of its labels.
    pub fn table(&self, device: &Device) -> Result<SiteTable> {
        let mut scope = Scope::of_site_table(device);
        let stated = self.held.declare(&mut scope)?;
        scope.begin_local(LocalPart::WHOLE);
        let eta = device.tensor(vec![0.0; self.rows() * self.outputs()], [self.rows(), self.outputs()]);
        scope.plate(PLATE, self.rows(), |scope, rows| stated.observe(scope, eta, rows))?;
        Ok(scope.into_table())
    }

    /// $`\log p(\gamma)`$ and its gradient by the unconstrained unknowns.
    ///
    /// # Errors
    /// [`Error::Length`] for latents of the wrong length; otherwise what the prior refuses.
    pub fn prior(&self, device: &Device, table: &SiteTable, latents: &[f64]) -> Result<ValueAndGradient> {
        let mut scope = at(device, table, latents, Reading::Density(Density::of(Terms::Joint)))?;
        self.held.declare(&mut scope)?;
        scope.ended()?;
        gradients_of(scope.outcome, table, |_| Ok(Vec::new()))
    }

    /// The log likelihood at predictors and unknowns, without the prior.
    ///
    /// # Errors
    /// [`Error::Length`] for latents or predictors of the wrong length; otherwise what the head refuses.
    pub fn likelihood(&self, device: &Device, table: &SiteTable, given: LikelihoodAt<'_>) -> Result<LikelihoodShare> {
        let LikelihoodAt { latents, eta, rows, weight } = given;
        let shape = self.shape(eta, rows)?;
        let batch: Vec<Minibatch> = rows.map(|rows| Minibatch::new(PLATE, rows.to_vec())).into_iter().collect();
        let mut scope = at(device, table, latents, Reading::Density(Density::of(Terms::Local)))?;
        let stated = self.held.declare(&mut scope)?;
        scope.begin_local(LocalPart { minibatch: &batch, weight });
        let leaf: Tensor<2> = device.leaf(eta, shape);
        scope.plate(PLATE, self.rows(), |scope, rows| stated.observe(scope, leaf.clone(), rows))?;
        scope.ended()?;
        let value = scope.outcome.total;
        let mut by_eta = None;
        let evaluated = gradients_of(scope.outcome, table, |gradients| {
            if let Some(gradient) = gradients.and_then(|gradients| leaf.grad(gradients)) {
                by_eta = Some(Handle::from(gradient).read()?.values);
            }
            Ok(Vec::new())
        })?;
        let eta = by_eta.unwrap_or_else(|| vec![0.0; eta.len()]);
        Ok(LikelihoodShare { value, latents: evaluated.globals, eta })
    }

    /// The log likelihood of every row at predictors `eta` of all rows, unscaled.
    ///
    /// # Errors
    /// As for [`Labels::likelihood`].
    pub fn pointwise(&self, device: &Device, table: &SiteTable, latents: &[f64], eta: &[f64]) -> Result<Vec<f64>> {
        let shape = self.shape(eta, None)?;
        let mut scope = at(device, table, latents, Reading::Pointwise)?;
        let stated = self.held.declare(&mut scope)?;
        scope.begin_local(LocalPart::WHOLE);
        let eta = device.tensor(eta.to_vec(), shape);
        scope.plate(PLATE, self.rows(), |scope, rows| stated.observe(scope, eta, rows))?;
        scope.ended()?;
        let mut sums = vec![0.0; self.rows()];
        for (_, terms) in &scope.outcome.observed {
            let each = (terms.values.len() / self.rows()).max(1);
            for (sum, own) in sums.iter_mut().zip(terms.values.chunks(each)) {
                *sum += own.iter().sum::<f64>();
            }
        }
        Ok(sums)
    }

    /// The mean of the label of every row at predictors `eta` of all rows.
    ///
    /// # Errors
    /// As for [`Labels::likelihood`].
    pub fn mean(&self, device: &Device, table: &SiteTable, latents: &[f64], eta: &[f64]) -> Result<Array> {
        let shape = self.shape(eta, None)?;
        let mut scope = at(device, table, latents, Reading::Values)?;
        let stated = self.held.declare(&mut scope)?;
        let eta = device.tensor(eta.to_vec(), shape);
        Handle::from(stated.mean(eta, &Rows::on_host(self.rows(), None))?).read()
    }

    /// The unknowns and deterministic sites on their natural scale, for one unconstrained vector.
    ///
    /// # Errors
    /// [`Error::Length`] for a vector of the wrong length; otherwise what the prior refuses.
    pub fn natural(&self, device: &Device, table: &SiteTable, latents: &[f64]) -> Result<Vec<(String, Array)>> {
        let mut scope = at(device, table, latents, Reading::NaturalValues)?;
        self.held.declare(&mut scope)?;
        Ok(scope.outcome.values)
    }

    /// The unknowns and deterministic sites on their natural scale, drawn from the prior.
    ///
    /// # Errors
    /// What the prior refuses, such as a draw from one that is no distribution.
    pub fn prior_draw(&self, device: &Device, table: &SiteTable, noise: DrawNoise) -> Result<Vec<(String, Array)>> {
        let source = Source { globals: Origin::Prior(noise), locals: Origin::Start };
        let mut scope = Scope::new(device, table, source, Reading::NaturalValues);
        self.held.declare(&mut scope)?;
        scope.ended()?;
        Ok(scope.outcome.values)
    }

    /// Declares the unknowns in a pooled model.
    pub(super) fn declare(&self, scope: &mut Scope<'_>) -> Result<Box<dyn Stated>> {
        self.held.declare(scope)
    }

    fn shape(&self, eta: &[f64], rows: Option<&[usize]>) -> Result<[usize; 2]> {
        let shape = [chosen("the label holder", self.rows(), rows)?.len(), self.outputs()];
        let [rows, outputs] = shape;
        let remedy =
            format_args!("Give {outputs} predictors for each of {rows} rows: contributions must have as many outputs.");
        Error::same_length("predictors of a head", eta.len(), rows * outputs, remedy)?;
        Ok(shape)
    }
}
