//! Judges a fit by rows held out of it: how probable they are, and whether predictions are as sure as they should be.

use partita_core::{AnyData, AnyModel, Device, Model};

use super::Fit;
use crate::engine::error::{Error, Result};
use crate::engine::exchange::{InProcess, SiloProgram};
use crate::engine::run::Counters;
use crate::engine::trust::evaluate::{EvaluatingSilo, Evaluation, Replicating, evaluate_with_replicates};
use crate::engine::wire::message::Message;

/// The replicates by whose spread a calibration is judged.
const REPLICATES: u64 = 32;

/// A silo's name with what of θ is its own.
struct Holder {
    name: String,
    private: Vec<f64>,
}

impl SiloProgram for Holder {
    fn name(&self) -> &str {
        &self.name
    }

    fn private_theta(&self) -> Vec<f64> {
        self.private.clone()
    }

    fn answer(&mut self, request: &Message) -> Result<Message> {
        Err(Error::malformed(&request.kind, "this silo is asked for nothing but its held-out rows"))
    }
}

impl Fit {
    /// Judges the fit by rows that it has not seen, `held_out` of each silo in their order, with `draws` of the posterior: the
    /// report has the [`Evaluation`], and its verdict follows.
    ///
    /// Where a posterior has too many globals for importance weights, as the weights of a network, this is what its verdict
    /// rests on beside convergence: rows that are far less probable than rows drawn from the predictions say that these
    /// are surer than they should be ([`Evaluation::calibration`]), and the report is not to be trusted. It takes 33 times
    /// as many evaluations of the model as there are draws. Silos elsewhere are asked by [`crate::evaluate`].
    ///
    /// # Errors
    /// [`Error::Setting`] for another number of silos; as for [`crate::evaluate`].
    ///
    /// # Example
    /// ```
    /// use partita_core::{Device, Model, Normal, Result, Scope, burn};
    /// use partita_inference::{FitOptions, Verdict, fit};
    /// use burn::{module::Module, tensor::Tensor};
    ///
    #[doc = include_str!("../../doc/mean.md")]
    ///
    /// let device = Device::flex();
    /// let rows = |values: &[f64]| vec![("north".to_owned(), device.tensor(values.to_vec(), [values.len()]))];
    /// let mut fit = fit(&Mean {}, &rows(&[1.0, -1.0, 0.5, 0.0]), &device, &FitOptions::default(), None)?;
    /// // Five standard deviations away where one was predicted.
    /// let found = fit.judge_by_rows(&Mean {}, &rows(&[5.0, -5.0, 5.0, -5.0]), &device, 200)?;
    /// assert!(found.calibration().is_some_and(|own| own < -10.0));
    /// assert_eq!(fit.report.verdict, Verdict::DoNotTrust);
    /// # Ok::<(), partita_inference::Error>(())
    /// ```
    pub fn judge_by_rows<M: Model>(
        &mut self,
        model: &M,
        held_out: &[(String, M::Data)],
        device: &Device,
        draws: u64,
    ) -> Result<Evaluation> {
        let model = &AnyModel::new(model);
        let held_out = &AnyData::of_silos(held_out);
        let private: Vec<Vec<f64>> = self.exchange.programs().iter().map(|own| own.private_theta()).collect();
        let found = format_args!("{} silos of held-out rows for a fit of {}", held_out.len(), private.len());
        let expected = "rows of each silo, in their order";
        Error::unless(private.len() == held_out.len(), "held_out", found, expected)?;
        let mut programs: Vec<Box<dyn SiloProgram>> = Vec::new();
        for (((name, rows), private), index) in held_out.iter().zip(private).zip(0_u32..) {
            let holder = Box::new(Holder { name: name.clone(), private });
            let silo = EvaluatingSilo::new(holder, index, model, rows, device, &self.report.options)?;
            programs.push(Box::new(silo));
        }
        let mut exchange = InProcess::new(programs, self.report.options.silo_threads())?;
        let asked = Replicating { draws, replicates: REPLICATES };
        let (seed, mut counters) = (self.report.seed, Counters::default());
        let found = evaluate_with_replicates(&*self.algorithm, &mut exchange, asked, seed, None, &mut counters)?;
        self.report.judge(found.clone());
        Ok(found)
    }
}
