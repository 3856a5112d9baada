//! Fits an event that never happened under a prior so wide that the posterior is far from normal: the report says so.

use partita::burn::module::Module;
use partita::burn::tensor::Tensor;
use partita::inference::{Ending, StartFrom, Verdict};
use partita::{
    AlgorithmChoice, Bernoulli, Device, FamilyPlan, FitOptions, Model, Normal, Result, Schedule, Scope, Settings, fit,
};

/// The log odds of an event, $`\alpha \sim N(0, s^2)`$.
#[derive(Module, Debug)]
struct Event {
    #[module(skip)]
    width: f64,
}

impl Model for Event {
    type Globals = Tensor<1>;
    type Data = Tensor<1>;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
        scope.sample("alpha", Normal::new(0.0, self.width))
    }

    fn local(&self, scope: &mut Scope<'_>, alpha: &Tensor<1>, data: &Tensor<1>) -> Result<()> {
        scope.plate("row", data.dims()[0], |scope, rows| {
            scope.observe("y", Bernoulli::logits(alpha.clone()).over(rows), rows.take(data)?)
        })
    }
}

fn fitted(width: f64) -> partita::Fit {
    let device = Device::flex();
    let silos = ["north", "south"].map(|name| (name.to_owned(), device.tensor(vec![0.0; 30], [30])));
    fit(&Event { width }, &silos, &device, &super::options(), None).unwrap()
}

#[test]
fn a_run_that_gives_up_is_not_reported_as_converged() {
    // After the most rounds; and where no part of a step raises the bound.
    for width in [1e4, 1e6] {
        let fit = fitted(width);
        let (ending, rounds) = (fit.report.ending, fit.report.rounds);
        assert_eq!(ending, Ending::NotConverged, "prior of sd {width}: {rounds} rounds");
        let text = fit.report.to_string();
        fixtures::says(&text, &["stopped: it did not converge", "its answer is not to be trusted", "`Nuts`"]);
        assert!(!text.contains("corrected numbers hold") && !text.contains("Read these numbers"), "{text}");
    }
}

#[test]
fn a_few_steps_from_a_narrow_start_are_not_trusted_where_no_round_of_trust_was_held() {
    let device = Device::flex();
    let silos = [("a".to_owned(), device.tensor([vec![1.0; 19], vec![0.0; 11]].concat(), [30]))];
    // The mean has come near the mode, half a standard deviation away, and the deviation is still that of the start.
    let fitted = |steps: u64| {
        let schedule = Schedule::Constant { rate: 0.02 };
        let family = FamilyPlan::new().initial_scale(0.05);
        let settings = Settings { steps, schedule, family, start: StartFrom::Declared, ..Settings::default() };
        let algorithm = AlgorithmChoice::Sfvi;
        let options = FitOptions { algorithm, settings, trust_draws: Some(0), ..FitOptions::default() };
        fit(&Event { width: 2.0 }, &silos, &device, &options, None).unwrap().report
    };
    let report = fitted(40);
    let text = report.to_string();
    assert_eq!(report.verdict, Verdict::DoNotTrust, "{text}");
    assert!(text.contains("the deviations have not settled"), "{text}");
    assert_eq!(report.settled, Some(false));
    let report = fitted(3_000);
    assert!(!report.to_string().contains("the deviations have not settled"), "{report}");
}

#[test]
fn a_run_with_a_prior_that_informs_converges_and_does_not_warn() {
    let report = fitted(2.0).report;
    assert_eq!(report.ending, Ending::Converged);
    assert!(report.warnings.is_empty() && report.to_string().contains("it had converged"), "{report}");
}
