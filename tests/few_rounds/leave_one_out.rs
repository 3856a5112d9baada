//! Compares rows left out by weights with fits without them, and says which models have no rows to leave out.

use partita::models::{MixedLogistic, RepeatedBinary, six_cities_silos};
use partita::{Device, Fit, fit};

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
    let found = whole.leave_one_out(&MixedLogistic::new(4), &all[0].1, &device, DRAWS).unwrap();
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
fn no_draws_are_refused_with_what_to_try() {
    let device = Device::flex();
    let children = &six_cities_silos()[0];
    let silos = [("north".to_owned(), RepeatedBinary::six_cities(children, &device).unwrap())];
    let error = fitted(&silos).leave_one_out(&MixedLogistic::new(4), &silos[0].1, &device, 0).unwrap_err();
    assert!(error.to_string().contains("at least 1"), "{error}");
}
