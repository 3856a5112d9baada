//! Claims that effects of groups of which rows say little are as wide as they are, integrated or known to all silos.

use std::fmt::Write as _;

use partita::formula::{SiloTable, Study};
use partita::inference::Verdict;
use partita::{Device, Fit};

use super::{fit_from, silo};

/// The fit of intercepts that vary with `g` to events in groups, in files of so many parts.
fn fitted(events: &[(usize, u8)], parts: usize, across: bool, seed: u64) -> Fit {
    let folder = tempfile::tempdir().unwrap();
    let silos = (0..parts).map(|part| {
        let mut text = "g,y\n".to_owned();
        for (group, event) in events.iter().skip(part).step_by(parts) {
            writeln!(text, "g{group},{event}").unwrap();
        }
        silo(folder.path(), &format!("silo {part}"), &text)
    });
    let silos: Vec<SiloTable> = silos.collect();
    let mut study = Study::new("y ~ 1 + (1 | g)", "bernoulli".parse().unwrap()).unwrap();
    study.declared.groups_across_silos.extend(across.then(|| "g".to_owned()));
    let prepared = study.prepare(&silos, &Device::flex()).unwrap();
    let noted = prepared.notes.iter().any(|own| own.contains("taken as different groups"));
    assert_eq!(noted, parts > 1 && !across, "{:?}", prepared.notes);
    fit_from(&prepared, seed)
}

fn spread(fit: &Fit) -> [f64; 2] {
    super::answer(fit, "sd((Intercept) | g)")
}

/// Mean and standard deviation of $`\sigma`$ after so many events in groups of one row each, by sums over grids.
fn exact(events: i32, others: i32) -> [f64; 2] {
    let points = |count: i32, from: f64, to: f64| {
        (0..count).map(move |at| from + (to - from) * (f64::from(at) + 0.5) / f64::from(count))
    };
    let normal: Vec<(f64, f64)> = points(400, -6.0, 6.0).map(|z| (z, (-0.5 * z * z).exp())).collect();
    let total: f64 = normal.iter().map(|(_, weight)| weight).sum();
    let mut sums = [0.0; 3];
    for log_sigma in points(150, -6.0, 5.0) {
        let sigma = log_sigma.exp();
        for mean in points(100, -10.0, 10.0) {
            let p = normal.iter().map(|(z, weight)| weight / (1.0 + (-mean - sigma * z).exp())).sum::<f64>() / total;
            // Normal(0, 2.5), and Student's t of 3 degrees and scale 2.5 on the positive half, by the logarithm.
            let prior = (-0.5 * (mean / 2.5).powi(2)).exp() * (1.0 + (sigma / 2.5).powi(2) / 3.0).powi(-2) * sigma;
            let weight = prior * (f64::from(events) * p.ln() + f64::from(others) * (1.0 - p).ln() + 27.0).exp();
            [1.0, sigma, sigma * sigma].iter().zip(&mut sums).for_each(|(own, sum)| *sum += weight * own);
        }
    }
    let mean = sums[1] / sums[0];
    [mean, (sums[2] / sums[0] - mean * mean).sqrt()]
}

#[test]
fn the_spread_of_groups_of_one_event_each_is_that_of_sums_over_a_grid() {
    let [mean, sd] = exact(15, 25);
    let events: Vec<(usize, u8)> = (0..40).map(|group| (group, u8::from(group < 15))).collect();
    for seed in 1..=4 {
        let fit = fitted(&events, 1, false, seed);
        let [found, spread] = spread(&fit);
        assert_ne!(fit.report.verdict, Verdict::DoNotTrust, "{}", fit.report);
        assert!((found - mean).abs() < 0.1 * sd && (spread / sd - 1.0).abs() < 0.1, "{found} {spread}, {mean} {sd}");
    }
}

#[test]
fn groups_that_all_silos_know_have_the_spread_that_integrals_give_or_are_not_trusted() {
    // Ten groups of six rows, whose odds differ little: all effects may be near zero at once.
    let event = |row: usize| u8::from((row * row * row + 11 * row) % 17 < 8);
    let events: Vec<(usize, u8)> = (0..60).map(|row| (row * 7 % 10, event(row))).collect();
    let integrated = fitted(&events, 1, false, 1);
    assert_ne!(integrated.report.verdict, Verdict::DoNotTrust, "{}", integrated.report);
    let [mean, sd] = spread(&integrated);
    let mut trusted = 0;
    for seed in 1..=4 {
        let fit = fitted(&events, 3, true, seed);
        let [found, spread] = spread(&fit);
        if fit.report.verdict == Verdict::DoNotTrust {
            continue;
        }
        trusted += 1;
        assert!((found - mean).abs() < 0.2 * sd && (spread / sd - 1.0).abs() < 0.25, "{found} {spread}, {mean} {sd}");
    }
    assert!(trusted >= 2, "{trusted} of 4");
    // The same names in three files that were not said to be the same.
    fitted(&events, 3, false, 1);
}
