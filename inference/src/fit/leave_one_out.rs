//! Leaves the rows of a silo out one at a time, from one fit to all of them and in the silo itself.

use partita_core::{Device, Latents, Loss, Model, Noise, Part, Precision, Role, SiteTable, pointwise_log_likelihood};

use super::Fit;
use crate::engine::error::{Error, Result};
use crate::engine::integral::{AtDraws, RowIntegral};
use crate::engine::metrics::LeaveOneOut;
use crate::engine::terms::particles::Worker;
use crate::engine::trust::round::around;
use crate::engine::trust::values::{MOST_COMBINATIONS, UNTIL};
use crate::engine::whitened::Draws;

impl Fit {
    /// How well the posterior expects each row of `data`, a silo's own, that it was fitted to, had that row been left out.
    ///
    /// ```math
    /// \log \hat p(y_i \mid y_{-i}), \qquad p(y_i \mid z) = \int p(y_i \mid u_i, z)\, p(u_i \mid z)\, \mathrm{d}u_i
    /// ```
    /// with the globals $`z`$ drawn from the posterior as it is, not corrected, `draws` times, and the latents $`u_i`$ of
    /// the row and of all that stands in it integrated out. A row is an outermost one, such as a patient
    /// with all visits; in a model without local latents it is each observation, site after site. Of trained parameters
    /// those that silos share are used.
    ///
    /// It needs the rows: call it where they are. Its vectors are for the owner of the rows, and no message carries them;
    /// sums over silos add.
    ///
    /// # Errors
    /// [`Error::Setting`] for no draws, a posterior that is a point, or another loss than the negative log likelihood, or rows that are not
    /// integrated; whatever
    /// the model refuses of the data.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Device, Model, Normal, Result, Scope, burn};
    /// use partita_inference::{FitOptions, fit};
    /// use burn::{module::Module, tensor::Tensor};
    ///
    /// #[derive(Module, Debug)]
    /// struct Patients {}
    /// impl Model for Patients {
    ///     type Globals = Tensor<1>;
    ///     type Data = Tensor<1>;
    ///     fn global(&self, scope: &mut Scope) -> Result<Tensor<1>> { scope.sample("mean", Normal::new(0.0, 1.0)) }
    ///     fn local(&self, scope: &mut Scope, mean: &Tensor<1>, data: &Tensor<1>) -> Result<()> {
    ///         scope.plate("patient", data.dims()[0], |s, rows| {
    ///             let level = s.sample("level", Normal::new(mean.clone(), 1.0).over(rows))?;
    ///             s.observe("y", Normal::new(level, 1.0), rows.take(data)?)
    ///         })
    ///     }
    /// }
    ///
    /// let device = Device::flex();
    /// let silos = [("north".to_owned(), device.tensor(vec![1.0, -1.0, 0.5, 0.0], [4]))];
    /// let fit = fit(&Patients {}, &silos, &device, &FitOptions::default(), None)?;
    /// let found = fit.leave_one_out(&Patients {}, &silos[0].1, &device, 4_000)?;
    /// // Without y = 1 the mean is N(-0.1, 0.4); y is N(mean, 2), since its level has the variance 1, and so has y given it.
    /// let exact = -0.5 * (1.1_f64.powi(2) / 2.4 + (2.0 * std::f64::consts::PI * 2.4).ln());
    /// assert!((found.log_densities[0] - exact).abs() < 0.02);
    /// # Ok::<(), partita_inference::Error>(())
    /// ```
    pub fn leave_one_out<M: Model>(
        &self,
        model: &M,
        data: &M::Data,
        device: &Device,
        draws: usize,
    ) -> Result<LeaveOneOut> {
        if draws == 0 {
            return Err(Error::Setting {
                setting: "draws",
                found: "0".into(),
                expected: "at least 1; 1,000 or more serve",
            });
        }
        let (model, posterior, noise) = (self.model(model, device)?, self.posterior(), Noise::new(self.report.seed));
        let table = SiteTable::of(&model, device, data)?;
        let mut local = table.sites().iter().filter(|site| site.part == Part::Local);
        if let Some(site) = local.find(|site| site.role == Role::Factor) {
            return Err(unserved(format!("the factor `{}`", site.name), "outcomes that are observed, each by itself"));
        }
        let globals = |index: usize| posterior.draw(&noise, index as u64);
        if self.report.options.loss != Loss::NegativeLogLikelihood {
            return Err(unserved("another loss".into(), "the negative log likelihood; judge by `evaluate` instead"));
        }
        if draws > 1 && globals(0) == globals(1) {
            return Err(unserved("a point".into(), "a posterior with uncertainty; judge by `evaluate` instead"));
        }
        let by_draw: Vec<Vec<f64>> = if table.blocks().iter().all(|block| block.width == 0) {
            let locals = vec![Vec::new(); table.blocks().len()];
            let at = |index| {
                let globals = globals(index);
                let latents = Latents { globals: &globals, locals: &locals };
                let found = pointwise_log_likelihood(&model, device, &table, data, latents)?;
                Ok(found.into_iter().flat_map(|(_, array)| array.values).collect())
            };
            (0..draws).map(at).collect::<Result<_>>()?
        } else {
            check_rows("leave_one_out", &table, device)?;
            let normal = around(&posterior).map_err(|reason| unserved(reason, "a posterior with uncertainty"))?;
            let whitened = Draws::enough(self.report.seed, table.global_len())?;
            let threads = self.report.options.silo_threads();
            let rows = AtDraws::new(Worker { model, data: data.clone() }, threads, device, table, whitened)?;
            let mut rows = rows.ready_around(&normal, UNTIL)?;
            let drawn: Vec<Vec<f64>> = (0..draws).map(globals).collect();
            let found = rows.by_row(&normal, draws, |index| drawn[index].clone())?;
            let expected = "a posterior at whose draws the model has a density";
            let every = found.into_iter().collect::<Option<_>>();
            every.ok_or_else(|| unserved("a draw at which the log density is no number".into(), expected))?
        };
        let count = by_draw.first().map_or(0, Vec::len);
        LeaveOneOut::of(&by_draw.concat(), count).map_err(|error| unserved(error.to_string(), "a silo with rows"))
    }
}

/// Refuses rows whose log likelihoods are no integrals over latents of their own.
pub(super) fn check_rows(setting: &'static str, table: &SiteTable, device: &Device) -> Result<()> {
    let refuse = |found: String, expected| Err(Error::Setting { setting, found, expected });
    if device.precision() == Precision::Single {
        return refuse("a device of single precision".into(), "one of double precision, such as `Device::flex`");
    }
    if RowIntegral::check(table).is_err() || RowIntegral::combinations(table) > MOST_COMBINATIONS {
        let expected = "at most eight latents a row, in few levels; judge by `evaluate` on held-out rows instead";
        return refuse("rows with more latents than are integrated".into(), expected);
    }
    let blocks = table.blocks();
    let has_latents = |block: usize| blocks[block].plate.is_some() && blocks[block].width > 0;
    let silo = blocks.iter().any(|block| block.plate.is_none() && block.width > 0);
    let in_rows = |block: usize| block < blocks.len() && has_latents(table.outermost(block));
    let observed = table.sites().iter().filter(|site| site.role == Role::Observed);
    let outside = observed.into_iter().find(|site| site.plate.is_none() || !in_rows(site.block()));
    let rootless = (0..blocks.len()).any(|block| blocks[block].width > 0 && !has_latents(table.outermost(block)));
    let found = match outside {
        Some(site) => format!("`{}`, which is in no row with latents", site.name),
        None if silo => "latents of the silo, which tie its rows together".into(),
        None if rootless => "rows with latents inside rows without".into(),
        None => return Ok(()),
    };
    refuse(found, "outcomes in outermost rows with latents, or no local latents; judge by `evaluate` instead")
}

fn unserved(found: String, expected: &'static str) -> Error {
    Error::Setting { setting: "leave_one_out", found, expected }
}
