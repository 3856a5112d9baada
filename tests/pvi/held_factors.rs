//! Tests factors that hold improper components: every cavity is a density, whatever the noise of local solutions.

use partita::core::{Key, Noise, Purpose};
use partita::inference::Error;
use partita::models::{BinaryRows, LogisticRegression};
use partita::{AlgorithmChoice, Device, FamilyPlan, FitOptions, Gaussian, PviOptions, Report, Schedule, Settings, fit};

const COLUMNS: usize = 3;

/// Six silos of eight rows each, with labels that are nearly independent of the covariates.
fn silos() -> Vec<(String, BinaryRows)> {
    let mut noise = Noise::new(5).stream(Key::new(Purpose::Prior, 0));
    let silo = |index: usize| {
        let mut inputs = vec![0.0; 8 * COLUMNS];
        noise.normal(&mut inputs);
        let labels: Vec<bool> = (0..8).map(|_| noise.uniform() < 0.5).collect();
        (format!("silo-{index}"), BinaryRows::new(&inputs, COLUMNS, &labels, &Device::flex()).unwrap())
    };
    (0..6).map(silo).collect()
}

/// Ten sweeps of short, noisy local updates.
fn report(family: Gaussian, hold_improper: bool) -> Result<Report, Error> {
    let options = FitOptions {
        algorithm: AlgorithmChoice::Pvi(PviOptions { hold_improper, ..PviOptions::new(15) }),
        settings: Settings {
            steps: 10 * 6 * 15,
            family: FamilyPlan::new().global(family).initial_scale(1.0),
            schedule: Schedule::Constant { rate: 0.2 },
            ..Settings::default()
        },
        elbo_draws: 2,
        summary_draws: 0,
        ..FitOptions::default()
    };
    Ok(fit(&LogisticRegression::new(COLUMNS), &silos(), &Device::flex(), &options, None)?.report)
}

fn count(report: &Report, name: &str) -> u64 {
    report.method.as_ref().unwrap().of(name).unwrap()
}

#[test]
fn noise_makes_cavities_improper_and_held_factors_keep_them_densities() {
    match report(Gaussian::diagonal(), false) {
        Ok(report) => assert!(count(&report, "improper_cavities") > 0, "{report}"),
        // A local problem without a maximum, or a product that is no density.
        Err(error) => assert!(matches!(error, Error::ImproperProduct { .. } | Error::InSilo { .. }), "{error}"),
    }
    let held = report(Gaussian::diagonal(), true).unwrap();
    assert_eq!(count(&held, "improper_cavities"), 0, "{held}");
    assert!(count(&held, "held_components") > 0, "{held}");
    assert!(held.to_string().contains("components of factors were held"), "{held}");
}

#[test]
fn factors_with_correlations_cannot_be_held_component_by_component() {
    let found = report(Gaussian::full_rank(), true).unwrap_err();
    assert!(found.to_string().contains("hold_improper"), "{found}");
}
