//! Compares rows left out by weights with fits without them, and says which models have no rows to leave out.

use partita::core::{Design, Groups, Loss};
use partita::inference::{AlgorithmChoice, LeftOutUnit, PointMass};
use partita::models::{AGES, Child, MixedLogistic, RepeatedBinary, six_cities_silos};
use partita::{Device, FamilyPlan, Fit, FitOptions, Settings, fit};

use super::options;

/// Draws of the globals.
const DRAWS: usize = 2_000;

fn fitted(silos: &[(String, RepeatedBinary)]) -> Fit {
    fit(&MixedLogistic::new(4), silos, &Device::flex(), &options(), None).unwrap()
}

#[test]
fn a_child_left_out_by_weights_is_as_probable_as_fits_with_and_without_it_say() {
    let device = Device::flex();
    let [north, south] = six_cities_silos();
    let data = |children: &[_]| RepeatedBinary::six_cities(children, &device).unwrap();
    let silos = |own: &[_]| [("north".to_owned(), data(own)), ("south".to_owned(), data(&south))];
    let all = silos(&north);
    let whole = fitted(&all);
    let found = whole.leave_one_out(&MixedLogistic::new(4), &all[0].1, &device, DRAWS, LeftOutUnit::Row).unwrap();
    assert_eq!(found.log_densities.len(), north.len());
    assert_eq!(found.above(0.7), 0);
    let evidence = |fit: &Fit| {
        let correction = fit.report.trust.correction().unwrap();
        (correction.log_evidence, correction.log_evidence_se)
    };
    let (with, with_error) = evidence(&whole);
    for child in [0, north.len() - 1] {
        let mut others = north.clone();
        others.remove(child);
        let (without, without_error) = evidence(&fitted(&silos(&others)));
        let apart = (found.log_densities[child] - (with - without)).abs();
        // 4 standard errors of two evidences, which share nothing but a seed; that of 2,000 draws of a child, whose
        // likelihood varies by less than a third, is below 0.3 / sqrt(2,000) = 0.007.
        let error = (with_error.powi(2) + without_error.powi(2) + 0.007_f64.powi(2)).sqrt();
        assert!(apart < 4.0 * error && error < 0.05, "{child}: {apart}, error {error}");
    }
}

#[test]
fn a_visit_left_out_by_weights_is_as_probable_as_fits_with_and_without_it_say() {
    let (device, model) = (Device::flex(), MixedLogistic::new(4));
    let [north, south] = six_cities_silos();
    let all = [&north, &south].map(|children| RepeatedBinary::six_cities(children, &device).unwrap());
    let silos = |own: RepeatedBinary| [("north".to_owned(), own), ("south".to_owned(), all[1].clone())];
    let whole = fitted(&silos(all[0].clone()));
    let found = whole.leave_one_out(&model, &all[0], &device, DRAWS, LeftOutUnit::Observation).unwrap();
    assert_eq!((found.log_densities.len(), found.above(0.7)), (4 * north.len(), 0));
    let evidence = |fit: &Fit| {
        let correction = fit.report.trust.correction().unwrap();
        (correction.log_evidence, correction.log_evidence_se)
    };
    let (with, with_error) = evidence(&whole);
    for visit in [1, 4 * (north.len() - 1) + 3] {
        let (without, without_error) = evidence(&fitted(&silos(but_one_visit(&north, visit, &device))));
        let apart = (found.log_densities[visit] - (with - without)).abs();
        // As for a child; a visit given three others varies no more with the globals than the child does.
        let error = (with_error.powi(2) + without_error.powi(2) + 0.007_f64.powi(2)).sqrt();
        assert!(apart < 4.0 * error && error < 0.05, "{visit}: {apart}, error {error}");
    }
}

/// The children with all visits but this one.
fn but_one_visit(children: &[Child], visit: usize, device: &Device) -> RepeatedBinary {
    let (mut index, mut design, mut outcomes) = (Vec::new(), Vec::new(), Vec::new());
    for (place, (child, own)) in children.iter().enumerate().flat_map(|own| [own; 4]).enumerate() {
        let (age, smoke) = (AGES[place % 4], f64::from(u8::from(own.smoke)));
        if place != visit {
            index.push(child);
            design.extend([1.0, smoke, age, smoke * age]);
            outcomes.push(f64::from(u8::from(own.wheeze[place % 4])));
        }
    }
    let rows = outcomes.len();
    let (visits, design) = (Groups::new(index, children.len()).unwrap(), Design::new(design, [rows, 4]).unwrap());
    RepeatedBinary::new(visits, design, outcomes, device).unwrap()
}

#[test]
fn no_draws_are_refused_with_what_to_try() {
    let device = Device::flex();
    let children = &six_cities_silos()[0];
    let silos = [("north".to_owned(), RepeatedBinary::six_cities(children, &device).unwrap())];
    let error =
        fitted(&silos).leave_one_out(&MixedLogistic::new(4), &silos[0].1, &device, 0, LeftOutUnit::Row).unwrap_err();
    assert!(error.to_string().contains("at least 1"), "{error}");
}

#[test]
fn points_and_other_losses_are_refused() {
    let device = Device::flex();
    let children = &six_cities_silos()[0];
    let silos = [("north".to_owned(), RepeatedBinary::six_cities(children, &device).unwrap())];
    let settings = Settings { steps: 10, ..Settings::default() };
    let point = Settings { family: FamilyPlan::new().global(PointMass), ..settings.clone() };
    let other = Settings { loss: Loss::Beta(1.2), ..settings };
    for (settings, expected) in [(point, "a point"), (other, "another loss")] {
        let options = FitOptions { algorithm: AlgorithmChoice::Sfvi, settings, ..options() };
        let fit = fit(&MixedLogistic::new(4), &silos, &device, &options, None).unwrap();
        for unit in [LeftOutUnit::Row, LeftOutUnit::Observation] {
            let error = fit.leave_one_out(&MixedLogistic::new(4), &silos[0].1, &device, 10, unit).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
