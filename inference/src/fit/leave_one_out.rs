//! Leaves the rows or observations of a silo out one at a time, from one fit to all of them and in the silo itself.

use partita_core::{AnyData, AnyModel, Device, Model, SiteTable};

use super::Fit;
use crate::engine::error::Result;
use crate::engine::metrics::LeaveOneOut;
use crate::engine::terms::particles::Worker;
use crate::engine::trust::judging::Fitted;
use crate::engine::trust::leave_out::LeftOutUnit;

impl Fit {
    /// How well the posterior expects each row of `data`, a silo's own, that it was fitted to, or each observation, had that
    /// `unit` been left out.
    ///
    /// ```math
    /// \log \hat p(y_i \mid y_{-i}), \qquad p(y_i \mid z) = \int p(y_i \mid u_i, z)\, p(u_i \mid z)\, \mathrm{d}u_i
    /// ```
    /// with the globals $`z`$ drawn from the posterior as it is, not corrected, `draws` times, and the latents $`u_i`$ of
    /// the row and of all that stands in it integrated out. A row is an outermost one, such as a patient
    /// with all visits; in a model without local latents it is each observation, site after site. Of trained parameters
    /// those that silos share are used.
    ///
    /// A single observation of a row is left out given the others of that row, which is how well a visit is expected of a
    /// patient who is known by other visits:
    /// ```math
    /// \log \hat p(y_{it} \mid y_{-it}), \qquad \frac{1}{p(y_{it} \mid y_{i,-t}, z)} = \mathrm{E}\Big[\frac{1}{p(y_{it} \mid u_i, z)} \,\Big|\, y_i, z\Big]
    /// ```
    /// by the nodes at which rows are integrated, so that weights are those of the globals alone. Where these nodes do not
    /// reach what the row would be without the observation, its $`\hat k`$ is infinite. Observations are in the order of
    /// sites, rows and numbers.
    ///
    /// It needs the rows: call it where they are. Its vectors are for the owner of the rows, and no message carries them;
    /// sums over silos add.
    ///
    /// # Errors
    /// [`crate::Error::Setting`] for no draws, a posterior that is a point, or another loss than the negative log likelihood, or rows that are not
    /// integrated; whatever
    /// the model refuses of the data.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Device, Model, Normal, Result, Scope, burn};
    /// use partita_inference::{FitOptions, LeftOutUnit, fit};
    /// use burn::{module::Module, tensor::Tensor};
    ///
    #[doc = include_str!("../../doc/patients.md")]
    ///
    /// let device = Device::flex();
    /// let silos = [("north".to_owned(), device.tensor(vec![1.0, -1.0, 0.5, 0.0], [4]))];
    /// let fit = fit(&Patients {}, &silos, &device, &FitOptions::default(), None)?;
    /// let found = fit.leave_one_out(&Patients {}, &silos[0].1, &device, 4_000, LeftOutUnit::Row)?;
    /// // Without y = 1 the mean is N(-0.1, 0.4); y is N(mean, 2), since its level has the variance 1, and so has y given it.
    /// let exact = -0.5 * (1.1_f64.powi(2) / 2.4 + (2.0 * std::f64::consts::PI * 2.4).ln());
    /// assert!((found.log_densities[0] - exact).abs() < 0.02);
    /// # Ok::<(), partita_inference::Error>(())
    /// ```
    ///
    /// # References
    /// Vehtari, Gelman and Gabry (2017), Statistics and Computing 27; Merkle, Furr and Rabe-Hesketh (2019), Bayesian
    /// comparison of latent variable models: conditional versus marginal likelihoods, Psychometrika 84.
    pub fn leave_one_out<M: Model>(
        &self,
        model: &M,
        data: &M::Data,
        device: &Device,
        draws: usize,
        unit: LeftOutUnit,
    ) -> Result<LeaveOneOut> {
        let model = &AnyModel::new(model);
        let data = &AnyData::new(data);
        let (model, posterior, seed) = (self.model(model, device)?, self.posterior(), self.report.seed);
        let table = SiteTable::of(&model, device, data)?;
        let (loss, threads) = (self.report.options.loss, self.report.options.silo_threads());
        let worker = Worker { model, data: data.clone() };
        let fitted = Fitted { worker, device, table: &table, loss, seed, threads };
        fitted.leave_one_out(&posterior, seed, draws, unit)
    }
}
