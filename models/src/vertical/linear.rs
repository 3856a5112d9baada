//! Defines the linear contribution of a party: its columns times coefficients with one prior.

use burn::module::Module;
use burn::tensor::Tensor;
use partita_core::vertical::Contribution;
use partita_core::{Design, Distribution, Normal, Result, Rows, Scope};

/// A linear contribution.
///
/// ```math
/// g_{ik} = \sum_c x_{ic}\,\beta_{kc},\qquad \beta_{kc} \sim p
/// ```
/// with $`p`$ = [`Linear::prior`] ($`N(0, 1)`$ unless another is given) and one output $`k`$ for most heads.
///
/// # Shapes
/// Latent: `beta` `[outputs × columns]`, output by output. Data: a [`Design`] `[rows, 1, columns]`.
///
/// # Example
/// ```
/// use partita_core::{Design, Device, vertical::Party};
/// use partita_models::vertical::Linear;
/// let device = Device::flex();
/// let party = Party::new("clinic", Linear::new(2), Design::new(vec![1.0, 2.0, 3.0, 4.0], [2, 1, 2])?);
/// let share = party.contribute(&device, &party.table(&device)?, &[10.0, 1.0], None)?;
/// assert_eq!(share.outputs().values, [12.0, 34.0]);
/// # Ok::<(), partita_core::Error>(())
/// ```
#[derive(Module, Debug)]
pub struct Linear {
    #[module(skip)]
    columns: usize,
    #[module(skip)]
    outputs: usize,
    #[module(skip)]
    prior: Distribution<1>,
}

impl Linear {
    /// `columns` coefficients with standard normal priors, for a head of one output.
    #[must_use]
    pub fn new(columns: usize) -> Self {
        Self { columns, outputs: 1, prior: Normal::new(0.0, 1.0) }
    }

    /// The same with another prior, of one number, for every coefficient.
    #[must_use]
    pub fn prior(self, prior: Distribution<1>) -> Self {
        Self { prior, ..self }
    }

    /// The same for a head of several outputs, such as classes.
    #[must_use]
    pub fn outputs(self, outputs: usize) -> Self {
        Self { outputs, ..self }
    }
}

impl Contribution for Linear {
    type Latents = Tensor<1>;
    type Data = Design;

    fn prior(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
        scope.sample("beta", self.prior.clone().iid([self.outputs * self.columns]))
    }

    fn contribute(&self, beta: &Tensor<1>, rows: &Rows<'_>, data: &Design) -> Result<Tensor<2>> {
        let design = data.take(rows)?;
        if self.outputs == 1 {
            return design.predictor(beta.clone(), None);
        }
        let outputs = (0..self.outputs).map(|output| {
            let own = beta.clone().narrow(0, output * self.columns, self.columns);
            design.predictor(own, None)
        });
        Ok(Tensor::cat(outputs.collect::<Result<Vec<_>>>()?, 1))
    }
}
