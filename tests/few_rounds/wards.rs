//! Fits patients in clinics in hospitals, all normal: nested rules give the exact posterior at every level.

use fixtures::levels::{Hospitals, WardData, WardPosterior, Wards, hospitals};
use partita::{Device, Fit};

use super::{fitted_with_four_draws, moments};

/// Whether a report has a line with each of these words, and no other line on plates.
fn says<const N: usize>(fit: &Fit, expected: [&str; N]) {
    let text = fit.report.to_string();
    let is_of_plate = |line: &&str| line.starts_with("few rounds: ") && !line.contains("taken back");
    let lines: Vec<&str> = text.lines().filter(is_of_plate).collect();
    assert_eq!(lines.len(), N, "{text}");
    for (line, words) in lines.into_iter().zip(expected) {
        assert!(line.ends_with(words), "`{line}` does not end with `{words}`");
    }
}

#[test]
fn nested_rows_are_integrated_exactly() {
    let (all, device) = (hospitals(), Device::flex());
    let exact = WardPosterior::of(&all);
    let sizes = [0..1, 1..all.len()];
    let silos: Vec<_> =
        sizes.iter().map(|part| (format!("{part:?}"), WardData::new(&all[part.clone()], &device))).collect();
    let mut fit = fitted_with_four_draws(&Wards { hospitals: Hospitals::Plate }, &silos);
    let (means, sds) = moments(&fit);
    let global = exact.global();
    assert!((means[0] - global[0]).abs() < 1e-6 && (sds[0].ln() - global[1]).abs() < 1e-6);
    assert!((fit.report.elbo - exact.log_evidence).abs() < 1e-6, "{} {}", fit.report.elbo, exact.log_evidence);
    says(
        &fit,
        [
            "quadrature points for the latent of each row of hospital",
            "quadrature points along each of the 2 latents of each row of clinic in hospital",
            "quadrature points for the latent of each row of patient in clinic",
            "1 point for each row of visit in patient: nothing to integrate",
        ],
    );
    for (program, part) in fit.exchange.programs().iter().zip(sizes) {
        let found = program.local_moments().unwrap();
        for ((means, sds), (exact_means, exact_sds)) in found.iter().zip(exact.moments(part)) {
            assert!(means.iter().zip(&exact_means).all(|(a, b)| (a - b).abs() < 1e-5), "{means:?} {exact_means:?}");
            assert!(sds.iter().zip(&exact_sds).all(|(a, b)| (a / b - 1.0).abs() < 1e-5), "{sds:?} {exact_sds:?}");
        }
    }
}

#[test]
fn a_hospital_s_own_latent_is_an_outer_rule() {
    let (all, device) = (hospitals(), Device::flex());
    let exact = WardPosterior::of(&all);
    let silos: Vec<_> = (0..all.len())
        .map(|index| (format!("hospital-{index}"), WardData::new(&all[index..=index], &device)))
        .collect();
    let fit = fitted_with_four_draws(&Wards { hospitals: Hospitals::Silo }, &silos);
    let (means, sds) = moments(&fit);
    let global = exact.global();
    assert!((means[0] - global[0]).abs() < 1e-6 && (sds[0].ln() - global[1]).abs() < 1e-6, "{means:?} {sds:?}");
    assert!((fit.report.elbo - exact.log_evidence).abs() < 1e-6, "{} {}", fit.report.elbo, exact.log_evidence);
    says(
        &fit,
        [
            "quadrature points for the latent of the silo",
            "quadrature points along each of the 2 latents of each row of clinic in the silo",
            "quadrature points for the latent of each row of patient in clinic",
            "1 point for each row of visit in patient: nothing to integrate",
        ],
    );
}
