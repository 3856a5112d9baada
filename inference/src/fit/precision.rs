//! Compares the bound of a fit in single precision with the same bound in double precision, at the same draws.

use partita_core::{Device, Precision};

use super::{FitOptions, bounds_of, pool};
use crate::engine::algorithm::Algorithm;
use crate::engine::error::Result;
use crate::engine::exchange::InProcess;
use crate::engine::moments::mean_and_variance;
use crate::engine::panic::{COORDINATOR, caught};
use crate::engine::report::{Report, Severity, Warning};
use crate::engine::run::Counters;
use crate::engine::trust::estimate::estimate_elbo_within;

/// Sampled bounds that are compared, or fewer where fewer are reported: the noise of a draw is the same on both sides.
const BOUNDS: usize = 20;

/// The nats that single precision may change a bound by.
const LIMIT: f64 = 1.0;
/// Why not more.
const SOURCE: &str =
    "Kass and Raftery (1995): log evidences that differ by less are not worth more than a bare mention";

/// Lets a report of a fit in single precision say what that changes of its bound; one in double precision, or on a device that
/// has no other precision, stays as it is. `elbos` are the sampled bounds of the report: where they are fewer than are compared,
/// bounds are evaluated here in single precision too.
///
/// Both sides have the rows of the fit, as rows take them. Other tensors of a model but its trained parameters stay in single
/// precision: a model that multiplies them by latents cannot be compared, and the report says so.
///
/// # Errors
/// [`crate::Error::Setting`] for options that no fit takes, and what evaluating in single precision reports.
pub(super) fn compare(
    options: &FitOptions,
    device: &Device,
    algorithm: &mut dyn Algorithm,
    exchange: &mut InProcess,
    elbos: &[f64],
    report: &mut Report,
) -> Result<()> {
    if device.precision() == Precision::Double || !device.is_in_process() || report.privacy.is_some() {
        return Ok(());
    }
    let (count, pool) = (bounds_of(options)?.min(BOUNDS), pool(options.threads)?);
    let double = match compute_in(Precision::Double, algorithm, exchange) {
        Ok(true) => Some(pool.install(|| bound(count, algorithm, exchange))),
        Ok(false) => None,
        Err(error) => Some(Err(error)),
    };
    compute_in(Precision::Single, algorithm, exchange)?;
    match double {
        None => {}
        Some(Ok(double)) => {
            let single = match elbos.get(..count) {
                Some(elbos) => mean_and_variance(elbos).0,
                None => pool.install(|| bound(count, algorithm, exchange))?,
            };
            tell(report, single, double, count);
        }
        Some(Err(error)) => {
            let reason = format!("Single precision was not compared with double, in which the model gives: {error}");
            report.single_precision = Some(reason);
        }
    }
    Ok(())
}

/// The mean of so many sampled bounds.
fn bound(count: usize, algorithm: &mut dyn Algorithm, exchange: &mut InProcess) -> Result<f64> {
    let mut counters = Counters::default();
    caught(COORDINATOR, || Ok(estimate_elbo_within(algorithm, exchange, count, None, &mut counters)?.bound.elbo))
}

/// Lets all parties compute in a precision; whether each can.
fn compute_in(precision: Precision, algorithm: &mut dyn Algorithm, exchange: &mut InProcess) -> Result<bool> {
    let mut can = algorithm.compute_in(precision)?;
    for silo in exchange.programs() {
        can &= silo.compute_in(precision)?;
    }
    Ok(can)
}

/// Says what single precision changes, and warns where that is too much.
fn tell(report: &mut Report, single: f64, double: f64, count: usize) {
    let (difference, objective) = ((single - double).abs(), report.objective);
    let size = if difference < 0.001 { "less than 0.001".to_owned() } else { format!("{difference:.3}") };
    let bounds = if count == 1 { "at one draw".to_owned() } else { format!("at the same {count} draws") };
    report.single_precision =
        Some(format!("Single precision changes the {objective} by {size} nats (of {double:.1}, {bounds})."));
    // What is no number is beyond the limit too.
    if difference <= LIMIT {
        return;
    }
    let problem = format!("single precision changes the {objective}, in nats, by more than counts between models");
    let remedy = "Compare it with none of another model, or compute in double precision: \
        `Device::with_precision(Precision::Double)` in Rust, and data on that device.";
    report.warn(vec![Warning::new(Severity::Limit, problem, remedy).measured(difference).beyond(LIMIT, SOURCE)]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::settings::Settings;
    use crate::fit::{AlgorithmChoice, Fit, fit};
    use partita_core::burn::module::Module;
    use partita_core::burn::tensor::Tensor;
    use partita_core::{Model, Normal, Result as Declared, Scope};

    /// A normal mean whose rows go through a tensor operation with the latent.
    #[derive(Module, Debug)]
    struct Product {
        /// Whether the factor is a tensor of the model's own, in the precision of its device.
        #[module(skip)]
        own: Option<Tensor<1>>,
    }

    impl Model for Product {
        type Globals = Tensor<1>;
        type Data = [Tensor<1>; 2];
        fn global(&self, scope: &mut Scope<'_>) -> Declared<Tensor<1>> {
            scope.sample("slope", Normal::new(0.0, 1.0))
        }
        fn local(&self, scope: &mut Scope<'_>, slope: &Tensor<1>, [x, y]: &[Tensor<1>; 2]) -> Declared<()> {
            scope.plate("row", x.dims()[0], |scope, rows| {
                let x = rows.take(x)?;
                let line = slope.clone() * self.own.clone().unwrap_or(x);
                scope.observe("y", Normal::new(line, 0.5), rows.take(y)?)
            })
        }
    }

    /// A fit over so many silos with its options and its device.
    fn fitted(precision: Precision, own: bool, silos: usize) -> (Fit, FitOptions, Device) {
        let device = Device::flex().with_precision(precision);
        let model = Product { own: own.then(|| device.tensor(vec![0.1, 0.7, -0.3], [3])) };
        let data = [vec![0.1, 0.7, -0.3], vec![0.3, 1.1, 0.4]].map(|own| device.tensor(own, [3]));
        let silos: Vec<_> = (0..silos).map(|index| (format!("silo-{index}"), data.clone())).collect();
        let algorithm = if silos.len() == 1 { AlgorithmChoice::Central } else { AlgorithmChoice::Sfvi };
        let settings = Settings { steps: 20, ..Settings::default() };
        let options = FitOptions { algorithm, settings, elbo_draws: 8, ..FitOptions::default() };
        (fit(&model, &silos, &device, &options, None).unwrap(), options, device)
    }

    fn report(precision: Precision, own: bool, silos: usize) -> Report {
        fitted(precision, own, silos).0.report
    }

    #[test]
    fn a_report_in_single_precision_says_what_that_changes() {
        for silos in [1, 3] {
            let found = report(Precision::Single, false, silos);
            let line = found.single_precision.clone().unwrap();
            // Sums of three rows a silo: their roundings are some 1e-6.
            assert!(line.starts_with("Single precision changes the ELBO by less than 0.001 nats (of -"), "{line}");
            assert!(line.ends_with(", at the same 8 draws)."), "{line}");
            assert!(found.to_string().contains(&line) && found.warnings.iter().all(|own| own.threshold != Some(LIMIT)));
            assert_eq!(report(Precision::Double, false, silos).single_precision, None);
        }
    }

    #[test]
    fn bounds_that_the_report_has_are_not_evaluated_again() {
        let (Fit { mut report, mut algorithm, mut exchange, .. }, options, device) =
            fitted(Precision::Single, false, 3);
        let mut said = |elbos: &[f64]| {
            compare(&options, &device, &mut *algorithm, &mut exchange, elbos, &mut report).unwrap();
            report.single_precision.clone().unwrap()
        };
        let found = said(&[1e6; 9]);
        // The bounds of nine rows are some nats below zero.
        assert!(found.starts_with("Single precision changes the ELBO by 10000"), "{found}");
        // Too few are none.
        let found = said(&[1e6; 7]);
        assert!(found.starts_with("Single precision changes the ELBO by less than 0.001 nats"), "{found}");
    }

    #[test]
    fn the_first_bounds_of_many_are_those_of_few() {
        let (Fit { algorithm, mut exchange, .. }, ..) = fitted(Precision::Single, false, 3);
        let mut sampled = |count| {
            let mut counters = Counters::default();
            estimate_elbo_within(&*algorithm, &mut exchange, count, None, &mut counters).unwrap().elbos
        };
        let (many, few) = (sampled(3 * BOUNDS), sampled(BOUNDS));
        assert_eq!((many.len(), few.len()), (3 * BOUNDS, BOUNDS));
        for (own, other) in many.iter().zip(&few) {
            // Sums of nine rows in single precision: their roundings are some 1e-6.
            assert!((own - other).abs() < 1e-4, "{own} and {other}");
        }
    }

    #[test]
    fn a_model_with_tensors_of_its_own_is_not_compared_and_the_report_says_so() {
        let line = report(Precision::Single, true, 1).single_precision.unwrap();
        assert!(
            line.starts_with("Single precision was not compared with double, in which the model gives: "),
            "{line}"
        );
    }

    #[test]
    fn a_difference_that_counts_between_models_is_a_limit_of_the_verdict() {
        let mut found = report(Precision::Double, false, 1);
        let before = found.warnings.len();
        tell(&mut found, -100.0, -101.0, 20);
        assert_eq!(found.warnings.len(), before);
        tell(&mut found, -100.0, -101.25, 20);
        assert!(found.single_precision.clone().unwrap().contains("by 1.250 nats (of -101.2"), "{found}");
        let last = found.warnings.last().unwrap();
        assert_eq!((last.severity, last.number, last.threshold), (Severity::Limit, Some(1.25), Some(1.0)));
        tell(&mut found, f64::NAN, -101.0, 20);
        assert_eq!(found.warnings.len(), before + 2);
    }
}
