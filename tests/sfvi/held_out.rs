//! Holds the verdict on a posterior of many globals to rows held out: right predictions, surer ones, and less sure ones.

use partita::burn::{self, module::Module, tensor::Tensor};
use partita::core::{Key, Noise, Purpose};
use partita::inference::{Severity, Verdict};
use partita::{AlgorithmChoice, Device, Fit, FitOptions, Model, Normal, Result, Scope, Settings, fit};

/// More globals than importance weights judge.
const GLOBALS: usize = 210;

/// Rows of as many numbers as there are globals, each around its own.
#[derive(Module, Debug)]
struct Many {}

impl Model for Many {
    type Globals = Tensor<1>;
    type Data = Tensor<2>;

    fn global(&self, scope: &mut Scope) -> Result<Tensor<1>> {
        scope.sample("x", Normal::new(0.0, 1.0).iid([GLOBALS]))
    }

    fn local(&self, scope: &mut Scope, x: &Tensor<1>, data: &Tensor<2>) -> Result<()> {
        scope.plate("row", data.dims()[0], |s, rows| {
            let mean = x.clone().reshape([1, GLOBALS]).expand([rows.len(), GLOBALS]);
            s.observe("y", Normal::new(mean, 1.0), rows.take(data)?)
        })
    }
}

/// So many rows around the same globals, with errors of this standard deviation.
fn rows(count: usize, deviation: f64, number: u64, device: &Device) -> Vec<(String, Tensor<2>)> {
    let normal = |number: u64, count| {
        fixtures::standard_normals(&mut Noise::new(5).stream(Key::new(Purpose::Check, number)), count)
    };
    let (x, errors) = (normal(0, GLOBALS), normal(number, count * GLOBALS));
    let y = errors.iter().enumerate().map(|(at, error)| x[at % GLOBALS] + deviation * error).collect();
    vec![("all".to_owned(), device.tensor(y, [count, GLOBALS]))]
}

fn fitted(device: &Device) -> Fit {
    let settings = Settings { steps: 1_500, ..Settings::default() };
    let options = FitOptions {
        algorithm: AlgorithmChoice::Sfvi,
        settings,
        elbo_draws: 8,
        summary_draws: 50,
        ..FitOptions::default()
    };
    fit(&Many {}, &rows(20, 1.0, 1, device), device, &options, None).unwrap()
}

#[test]
fn the_verdict_on_many_globals_rests_on_convergence_held_out_rows_and_calibration() {
    let device = Device::flex();
    let mut fit = fitted(&device);
    let text = fit.report.to_string();
    assert!(text.contains("convergence alone") && text.contains("210 globals"), "{text}");
    // Of the same kind as those fitted; surer predictions than rows are right; and rows nearer than predicted.
    for (deviation, is_calibrated, verdict, words) in [
        (1.0, true, Verdict::TrustWithLimits, "single weights"),
        (1.3, false, Verdict::DoNotTrust, "surer than they should be"),
        (0.7, false, Verdict::TrustWithLimits, "less sure than they should be"),
    ] {
        let found = fit.judge_by_rows(&Many {}, &rows(10, deviation, 2, &device), &device, 60).unwrap();
        let (text, calibration) = (fit.report.to_string(), found.calibration().unwrap());
        assert_eq!(fit.report.verdict, verdict, "{deviation}: {text}");
        assert!(text.contains(words) && text.contains("10 held-out rows"), "{text}");
        assert!(!text.contains("convergence alone") && fit.report.evaluation.as_ref() == Some(&found), "{text}");
        assert_eq!(calibration.abs() < 3.0, is_calibrated, "{calibration}");
        // What was said of other rows is gone.
        let doubts = fit.report.warnings.iter().filter(|own| own.severity == Severity::Doubt).count();
        assert_eq!(doubts, usize::from(verdict == Verdict::DoNotTrust), "{text}");
    }
}

#[test]
fn rows_of_other_silos_are_refused() {
    let device = Device::flex();
    let refused = fitted(&device).judge_by_rows(&Many {}, &[], &device, 10).unwrap_err().to_string();
    assert!(refused.contains("0 silos of held-out rows for a fit of 1"), "{refused}");
}
