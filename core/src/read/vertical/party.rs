//! Reads one party of a vertical model: its sites, its log prior, its contribution, and their gradient by an adjoint.

use std::borrow::Cow;

use burn::tensor::{Gradients, Tensor};

use crate::array::Array;
use crate::declare::rows::Rows;
use crate::declare::scope::{Density, Outcome, Reading, Scope, Source, Terms};
use crate::declare::site::SiteTable;
use crate::declare::theta;
use crate::declare::vertical::{Columns, Contribution};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::handle::Handle;
use crate::math::operation;
use crate::read::gradient::{ValueAndGradient, gradients_of};

/// A party by name: what it declares, and the columns it holds. Parties of one model may declare different things.
///
/// # Example
/// ```
/// # use partita_core::vertical::Contribution;
/// # use partita_core::{Normal, Result, Rows, Scope, burn};
/// # use burn::module::Module;
/// use partita_core::{Design, Device, vertical::Party};
/// # use burn::tensor::Tensor;
/// # #[derive(Module, Debug)]
/// # struct Slopes { #[module(skip)] columns: usize }
/// # impl Contribution for Slopes {
/// #     type Latents = Tensor<1>;
/// #     type Data = Design;
/// #     fn prior(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
/// #         scope.sample("beta", Normal::new(0.0, 1.0).iid([self.columns]))
/// #     }
/// #     fn contribute(&self, beta: &Tensor<1>, rows: &Rows<'_>, data: &Design) -> Result<Tensor<2>> {
/// #         data.take(rows)?.predictor(beta.clone(), None)
/// #     }
/// # }
/// let columns = Design::new(vec![1.0, 2.0, 3.0, 4.0], [2, 1, 2])?;
/// let party = Party::new("clinic", Slopes { columns: 2 }, columns);
/// let device = Device::flex();
/// let table = party.table(&device)?;
/// let share = party.contribute(&device, &table, &[10.0, 1.0], None)?;
/// assert_eq!(share.outputs().values, [12.0, 34.0]);
/// // Of -|beta|^2/2 + g_1 + 2 g_2.
/// assert_eq!(share.vjp(&[1.0, 2.0])?.globals, [7.0 - 10.0, 10.0 - 1.0]);
/// # Ok::<(), partita_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Party {
    name: String,
    declared: Box<dyn Declared>,
}

impl Clone for Party {
    fn clone(&self) -> Self {
        Self { name: self.name.clone(), declared: self.declared.copy() }
    }
}

/// The contribution of some rows as a function of nothing but the rows: latents and columns are inside.
pub(super) type ElboTerm = Box<dyn Fn(&Rows<'_>) -> Result<Tensor<2>> + Send>;

/// A contribution with its columns, whatever its types.
trait Declared: Send + std::fmt::Debug {
    fn copy(&self) -> Box<dyn Declared>;
    fn rows(&self) -> usize;
    fn declare(&self, scope: &mut Scope<'_>) -> Result<ElboTerm>;
    fn theta(&self) -> Result<Vec<f64>>;
    fn set_theta(&mut self, values: &[f64], device: &Device) -> Result<()>;
    fn theta_gradient(&self, gradients: Option<&Gradients>) -> Result<Vec<f64>>;
    fn weight_prior(&self) -> Option<f64>;
}

#[derive(Clone)]
struct Held<C: Contribution> {
    contribution: C,
    data: C::Data,
}

impl<C: Contribution> std::fmt::Debug for Held<C> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Held").field("contribution", &self.contribution).finish_non_exhaustive()
    }
}

impl<C: Contribution> Declared for Held<C> {
    fn copy(&self) -> Box<dyn Declared> {
        Box::new(Self { contribution: self.contribution.clone(), data: self.data.clone() })
    }

    fn rows(&self) -> usize {
        self.data.rows()
    }

    fn declare(&self, scope: &mut Scope<'_>) -> Result<ElboTerm> {
        let latents = self.contribution.prior(scope)?;
        let (contribution, data) = (self.contribution.clone(), self.data.clone());
        Ok(Box::new(move |rows| contribution.contribute(&latents, rows, &data)))
    }

    fn theta(&self) -> Result<Vec<f64>> {
        theta::theta(&self.contribution)
    }

    fn set_theta(&mut self, values: &[f64], device: &Device) -> Result<()> {
        self.contribution = theta::with_theta(&self.contribution, values, device)?;
        Ok(())
    }

    fn theta_gradient(&self, gradients: Option<&Gradients>) -> Result<Vec<f64>> {
        theta::gradient(&self.contribution, gradients)
    }

    fn weight_prior(&self) -> Option<f64> {
        self.contribution.weight_prior()
    }
}

impl Party {
    /// A party that declares `contribution` and holds `data`.
    #[must_use]
    pub fn new<C: Contribution>(name: &str, contribution: C, data: C::Data) -> Self {
        Self { name: name.to_owned(), declared: Box::new(Held { contribution, data }) }
    }

    /// The party's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of rows it holds.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.declared.rows()
    }

    /// The sites of the party's prior.
    ///
    /// # Errors
    /// What the prior refuses.
    pub fn table(&self, device: &Device) -> Result<SiteTable> {
        let mut scope = Scope::of_site_table(device);
        drop(self.declared.declare(&mut scope)?);
        Ok(scope.into_table())
    }

    /// The point parameters that the party trains, in the order Burn visits them.
    ///
    /// # Errors
    /// [`Error::Device`] if a parameter cannot be read.
    pub fn theta(&self) -> Result<Vec<f64>> {
        self.declared.theta()
    }

    /// Replaces the point parameters, as leaves of the tape on `device`.
    ///
    /// # Errors
    /// [`Error::Length`] if there is not one number for each parameter.
    pub fn set_theta(&mut self, values: &[f64], device: &Device) -> Result<()> {
        self.declared.set_theta(values, device)
    }

    /// The party's latents and deterministic sites on their natural scale, for one unconstrained vector.
    ///
    /// # Errors
    /// [`Error::Length`] for a vector of the wrong length; otherwise what the prior refuses.
    pub fn natural(&self, device: &Device, table: &SiteTable, latents: &[f64]) -> Result<Vec<(String, Array)>> {
        let mut scope = at(device, table, latents, Reading::NaturalValues)?;
        drop(self.declared.declare(&mut scope)?);
        scope.ended()?;
        Ok(scope.outcome.values)
    }

    /// The log prior of unconstrained `latents` and the contribution of `rows` (all of them for `None`), with the tape
    /// kept for [`Contributed::vjp`].
    ///
    /// # Errors
    /// [`Error::Length`] for latents of the wrong length; [`Error::Shape`] for a contribution that has not one row of
    /// outputs for each row; otherwise what prior and contribution refuse.
    pub fn contribute(
        &self,
        device: &Device,
        table: &SiteTable,
        latents: &[f64],
        rows: Option<&[usize]>,
    ) -> Result<Contributed> {
        let mut scope = at(device, table, latents, Reading::Density(Density::of(Terms::Joint)))?;
        let share = self.declared.declare(&mut scope)?;
        scope.ended()?;
        let rows = Rows { precision: Some(device.precision()), ..chosen(&self.name, self.rows(), rows)? };
        let outputs = share(&rows)?;
        check_rows(&self.name, &outputs, rows.len())?;
        let values = Handle::from(outputs.clone()).read()?;
        scope.outcome.total += weight_prior(&*self.declared)?.0;
        Ok(Contributed {
            declared: self.declared.copy(),
            table: table.clone(),
            outputs,
            values,
            outcome: scope.outcome,
        })
    }

    /// Declares the prior in a pooled model.
    pub(super) fn declare(&self, scope: &mut Scope<'_>) -> Result<ElboTerm> {
        self.declared.declare(scope)
    }
}

/// The log density of the point parameters under their prior, where there is one, and its gradient by them.
fn weight_prior(declared: &dyn Declared) -> Result<(f64, Vec<f64>)> {
    let Some(deviation) = declared.weight_prior() else { return Ok((0.0, Vec::new())) };
    if !(deviation > 0.0 && deviation.is_finite()) {
        return Err(Error::Argument {
            operation: "prior of the point parameters of a contribution".into(),
            argument: "standard deviation",
            found: deviation.to_string(),
            expected: "a finite number > 0",
        });
    }
    let theta = declared.theta()?;
    let constant = -(deviation * std::f64::consts::TAU.sqrt()).ln();
    let value = theta.iter().map(|weight| constant - 0.5 * (weight / deviation).powi(2)).sum();
    Ok((value, theta.iter().map(|weight| -weight / deviation.powi(2)).collect()))
}

/// A scope at known latents.
pub(super) fn at<'a>(
    device: &'a Device,
    table: &'a SiteTable,
    latents: &'a [f64],
    reading: Reading<'a>,
) -> Result<Scope<'a>> {
    let remedy = "Take the length from the party's site table.";
    Error::same_length("latents of a party", latents.len(), table.global_len(), remedy)?;
    Ok(Scope::new(device, table, Source::globals(latents), reading))
}

/// Rows by index; refuses an index that is no row.
pub(super) fn chosen<'a>(who: &str, total: usize, chosen: Option<&'a [usize]>) -> Result<Rows<'a>> {
    match chosen.and_then(|chosen| chosen.iter().find(|row| **row >= total)) {
        None => Ok(Rows::on_host(total, chosen)),
        Some(row) => Err(Error::Plate {
            plate: "row".into(),
            problem: format!(
                "row {row} was asked for, but `{who}` has {total} rows. Align the rows of all parties before anything else."
            ),
        }),
    }
}

fn check_rows(name: &str, outputs: &Tensor<2>, rows: usize) -> Result<()> {
    let [found, width] = outputs.dims();
    let remedy = "Return one row of outputs for each row asked for (`rows.len()`); take them with `rows.take(...)`.";
    Error::same_shape(format_args!("contribution of `{name}`"), &[found, width], &[rows, width.max(1)], remedy)
}

/// A party's contribution at one value of its latents, before anyone knows what gradient will reach it.
#[derive(Debug)]
pub struct Contributed {
    declared: Box<dyn Declared>,
    table: SiteTable,
    outputs: Tensor<2>,
    values: Array,
    outcome: Outcome,
}

impl Contributed {
    /// The contributions $`g_j`$, `[rows, outputs]`.
    #[must_use]
    pub fn outputs(&self) -> &Array {
        &self.values
    }

    /// The log prior of the unconstrained latents in nats, log-Jacobians included, and that of the point parameters
    /// where they have one.
    #[must_use]
    pub fn log_prior(&self) -> f64 {
        self.outcome.total
    }

    /// The gradient of $`\log p_j(\theta_j) + \sum_{ik} a_{ik} g_{j,ik}`$ by the unconstrained latents and by the point
    /// parameters, with $`a`$ = `adjoint`; its value is the log prior.
    ///
    /// # Errors
    /// [`Error::Length`] if the adjoint has not one number for each output.
    pub fn vjp<'a>(self, adjoint: impl Into<Cow<'a, [f64]>>) -> Result<ValueAndGradient> {
        let adjoint = adjoint.into();
        let (expected, remedy) = (self.values.values.len(), "Give one number for each output of each row.");
        Error::same_length("gradient by a contribution", adjoint.len(), expected, remedy)?;
        let Self { declared, table, outputs, mut outcome, .. } = self;
        let outputs = Handle::from(outputs);
        if outputs.is_tracked() {
            let term: Tensor<1> = operation::linear_form(outputs, adjoint.into_owned()).typed();
            outcome.add_tape(term);
        }
        gradients_of(outcome, &table, |gradients| {
            let mut gradient = declared.theta_gradient(gradients)?;
            let (_, prior) = weight_prior(&*declared)?;
            gradient.iter_mut().zip(prior).for_each(|(g, own)| *g += own);
            Ok(gradient)
        })
    }
}
