//! Holds options of PVI to be refused, by name, if they would fail later or have no effect.

use partita::inference::{Algorithm, Error, Factors, MissingSilo, Order, PriorShare, Pvi, coordinator};
use partita::models::GaussianMean;
use partita::{AlgorithmChoice, Device, FitOptions, PviOptions, Settings, SiloSchedule};

#[test]
fn factors_that_are_not_taken_out_cannot_hold_components() {
    let options = |factors| PviOptions { factors, hold_improper: true, ..PviOptions::new(1) };
    assert!(options(Factors::Own).check().is_ok());
    for factors in [Factors::Forgotten, Factors::Shared] {
        let found = options(factors).check().unwrap_err();
        assert!(matches!(found, Error::Setting { setting: "hold_improper", .. }), "{found}");
    }
}

#[test]
fn one_factor_for_all_cannot_go_on_without_some() {
    let options = |factors, missing_silo| PviOptions { factors, missing_silo, ..PviOptions::new(1) };
    assert!(options(Factors::Own, MissingSilo::GoOn).check().is_ok());
    assert!(options(Factors::Shared, MissingSilo::Fail).check().is_ok());
    for factors in [Factors::Shared, Factors::SharedBySize] {
        let found = options(factors, MissingSilo::GoOn).check().unwrap_err();
        assert!(matches!(found, Error::Setting { setting: "missing_silo", .. }), "{found}");
    }
}

#[test]
fn shares_by_rows_need_all_silos_when_a_run_begins() {
    let names = ["north", "south"].map(str::to_owned);
    let with = |rows: [usize; 2], options: PviOptions| {
        let options = FitOptions { algorithm: AlgorithmChoice::Pvi(options), ..FitOptions::default() };
        coordinator(&GaussianMean {}, &names, &rows, &Device::flex(), &options).map(drop)
    };
    let damped = PviOptions { damping_by_size: true, schedule: SiloSchedule::Synchronous, ..PviOptions::new(1) };
    let split = PviOptions { prior: PriorShare::BySize, ..PviOptions::new(1) };
    let shared = PviOptions { factors: Factors::SharedBySize, ..PviOptions::new(1) };
    for (options, entry) in [(damped, "damping_by_size"), (split, "prior"), (shared, "factors")] {
        match with([1_000, 0], options.clone()) {
            Err(Error::Setting { setting, found, .. }) => {
                assert!(setting == entry && found.contains("`south`"), "{found}")
            }
            other => panic!("{other:?}"),
        }
        // Without plates no silo has rows, and all count alike.
        for rows in [[1_000, 10], [0, 0]] {
            with(rows, options.clone()).unwrap();
        }
    }
    with([1_000, 0], PviOptions::new(1)).unwrap();
}

/// The coordinator of silos of these sizes, damped by their sizes.
fn by_size(sizes: &[usize], schedule: SiloSchedule, damping: Option<f64>) -> Result<Pvi, Error> {
    let names: Vec<String> = (0..sizes.len()).map(|silo| format!("silo-{silo}")).collect();
    let options = PviOptions { schedule, damping, damping_by_size: true, ..PviOptions::new(1) };
    Pvi::new(&GaussianMean {}, &Device::flex(), &Settings::default(), &names, sizes.to_vec(), options)
}

#[test]
fn damping_by_size_says_which_silo_it_would_not_damp() {
    let sequential = SiloSchedule::Sequential(Order::Fixed);
    // Undamped updates of unequal silos: 1 times 3 times a share of one half.
    let found = by_size(&[10, 30, 20], sequential, None).unwrap_err();
    let text = found.to_string();
    assert!(matches!(found, Error::Setting { setting: "damping_by_size", .. }), "{text}");
    fixtures::says(&text, &["1.5", "silo 1", "30 of 60 rows", "lower the damping"]);
    assert!(by_size(&[10, 30, 20], SiloSchedule::Synchronous, Some(0.7)).is_err());
    for (sizes, schedule, damping, expected) in [
        // Equal silos have the common damping; at two thirds the largest of these is undamped.
        (vec![7; 49], sequential, None, vec![1.0; 49]),
        (vec![10, 30, 20], sequential, Some(2.0 / 3.0), vec![1.0 / 3.0]),
        (vec![10, 30, 20], SiloSchedule::Synchronous, None, vec![1.0 / 6.0, 0.5, 1.0 / 3.0]),
    ] {
        let mut pvi = by_size(&sizes, schedule, damping).unwrap();
        let asked = pvi.outgoing().unwrap();
        for (request, expected) in asked.iter().zip(expected) {
            let found = request.message.get_number("damping").unwrap();
            assert!((found - expected).abs() < 1e-15, "{found} against {expected}");
        }
    }
}
