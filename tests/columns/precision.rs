//! Claims that a fit in single precision is that in double precision up to rounding, and says what it changes.

use fixtures::vertical_run::BinaryWorld;
use partita::inference::vertical::VerticalFit;
use partita::inference::{AuxiliaryFamily, Sgd, VerticalOptions};
use partita::vertical::{BernoulliHead, Labels, WithIntercept, binary_labels, fit};
use partita::{AlgorithmChoice, Device, FamilyPlan, FitOptions, Gaussian, Normal, Precision, Schedule, Settings};

/// Steps of plain descent, which move by what a gradient errs and not by its sign.
fn options(how: VerticalOptions, steps: u64) -> FitOptions {
    let settings = Settings {
        steps,
        family: FamilyPlan::new().global(Gaussian::diagonal()),
        optimiser: Sgd { momentum: 0.0 }.into(),
        schedule: Schedule::Constant { rate: 1e-5 },
        ..Settings::default()
    };
    let algorithm = AlgorithmChoice::Vertical(how);
    FitOptions { algorithm, settings, elbo_draws: 4, summary_draws: 0, ..FitOptions::default() }
}

fn run(precision: Precision, rows: usize, options: &FitOptions) -> VerticalFit {
    let (world, device) = (BinaryWorld::new(rows, 2, 3), Device::flex().with_precision(precision));
    let head = WithIntercept::new(BernoulliHead {}, Normal::new(0.0, 1.0));
    let labels = Labels::new(head, binary_labels(&world.yes, &device));
    fit(&world.parties, &labels, &device, options, None).unwrap()
}

/// Everything that the coordinator and both parties have moved.
fn parameters(fit: &VerticalFit) -> Vec<f64> {
    let of = |name: &str| fit.with(name, |own| [own.parameters(), own.auxiliary_parameters()].concat()).unwrap();
    [fit.posterior().parameters.to_vec(), of("p0"), of("p1")].concat()
}

fn farthest(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    fixtures::largest(a.iter().zip(b).map(|(a, b)| (a - b).abs()))
}

/// Rows of more than one tile of a product and of the network.
const ROWS: usize = 2_500;

#[test]
fn single_precision_takes_the_steps_of_double_precision_up_to_rounding() {
    let sees_labels = VerticalOptions {
        auxiliary: AuxiliaryFamily::Amortised { hidden: 5, labels: true },
        ..VerticalOptions::augmented(1.0)
    };
    let some_rows = |how: VerticalOptions| {
        let mut options = options(how, 30);
        options.settings.minibatch.insert("row".into(), 700);
        options
    };
    let cases = [
        options(VerticalOptions::augmented(1.0), 30),
        options(VerticalOptions::augmented(1.0).mean_field(), 30),
        options(VerticalOptions::power_likelihood(1.0), 30),
        options(VerticalOptions::direct(), 30),
        options(sees_labels, 30),
        some_rows(VerticalOptions::augmented(1.0)),
    ];
    for options in cases {
        let [double, single] = [Precision::Double, Precision::Single].map(|own| run(own, ROWS, &options));
        let first = run(
            Precision::Double,
            ROWS,
            &FitOptions { settings: Settings { steps: 1, ..options.settings.clone() }, ..options.clone() },
        );
        let (found, expected, what) = (parameters(&single), parameters(&double), &options.algorithm);
        // A row's gradient errs by 5e-6 at most (predictors of some units, rounded to 6e-8 of themselves a few times), the sum
        // over rows by 0.0125, a step by 1.3e-7, and thirty steps, of which each makes what was wrong before 5 % larger, by 9e-6.
        let error = farthest(&found, &expected);
        assert!(error < 1e-5, "{what:?}: {error}");
        assert!(error > 0.0 && farthest(&parameters(&first), &expected) > 0.01, "{what:?}: {error}");
        // 1e-5 a row for rounding, as much for the parameters, of which the bound's gradient is below 3,000.
        assert!((single.report.elbo - double.report.elbo).abs() < 0.1, "{what:?}");
        let line = single.report.single_precision.as_deref().unwrap();
        assert!(line.starts_with("Single precision changes the "), "{line}");
        assert_eq!(double.report.single_precision, None);
    }
}

#[test]
fn single_precision_has_the_same_bits_for_any_number_of_threads() {
    let found = [1, 3].map(|threads| {
        let options = FitOptions { threads, ..options(VerticalOptions::augmented(1.0), 3) };
        // Rows of several parts of noise and of sums.
        let fit = run(Precision::Single, 40_000, &options);
        let numbers = [parameters(&fit), vec![fit.report.elbo]].concat();
        numbers.into_iter().map(f64::to_bits).collect::<Vec<u64>>()
    });
    assert_eq!(found[0], found[1]);
}
