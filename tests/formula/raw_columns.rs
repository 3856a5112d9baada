//! Claims that regressions on columns in their own units are right by default, in every family whose link makes them large.

use std::fmt::Write as _;

use partita::Fit;
use partita::inference::Verdict;

use super::{answer, fitted, silo};

/// Years and incomes of 80 rows, with outcomes of several kinds that follow both; and the standard deviations of the two.
fn table() -> (String, [f64; 2]) {
    let mut columns = [Vec::new(), Vec::new()];
    let mut text = "year,income,size,count,amount,seen,time,status\n".to_owned();
    for row in 0..80_u32 {
        let place = f64::from(row);
        let (year, income) = (1_950.0 + place, 30_000.0 + 25_000.0 * (place * 1.7).sin() * (place * 0.31).cos());
        columns.iter_mut().zip([year, income]).for_each(|(all, own)| all.push(own));
        // Numbers without a pattern between 0 and 1, and others that are about normal.
        let [u, v] = [12.9898, 78.233].map(|by| (place * by).sin().mul_add(43_758.545, 0.5).rem_euclid(1.0));
        let noise = (-2.0 * u.max(1e-9).ln()).sqrt() * (std::f64::consts::TAU * v).cos();
        let eta = 0.01 * (year - 1_990.0) + 2e-5 * (income - 30_000.0);
        let size = 4e8 * (1.0 + eta + 0.3 * noise);
        let count = (3.0 * (eta + 0.3 * noise).exp()).round();
        let seen = u32::from(v < 1.0 - (-(eta - 0.4).exp()).exp());
        let (amount, time) = (50.0 * (eta + 0.4 * noise).exp(), 30.0 * (-eta).exp() * -(1.0 - v).max(1e-9).ln());
        let (time, status) = if time > 60.0 { (60.0, 0) } else { (time + 0.01, 1) };
        writeln!(text, "{year},{income},{size},{count},{amount},{seen},{time},{status}").unwrap();
    }
    let sd = |all: Vec<f64>| {
        let mean = all.iter().sum::<f64>() / 80.0;
        (all.iter().map(|own| (own - mean).powi(2)).sum::<f64>() / 79.0).sqrt()
    };
    (text, columns.map(sd))
}

/// The mean and the standard deviation of a number of a trusted fit.
fn trusted(fit: &Fit, label: &str) -> [f64; 2] {
    assert_ne!(fit.report.verdict, Verdict::DoNotTrust, "{}", fit.report);
    answer(fit, label)
}

#[test]
fn coefficients_of_raw_columns_are_those_of_scaled_ones_in_their_units() {
    let folder = tempfile::tempdir().unwrap();
    let (text, sds) = table();
    let files = [silo(folder.path(), "all", &text).path];
    let cases = [
        ("size", "gaussian"),
        ("size", "student"),
        ("amount", "gaussian(log)"),
        ("amount", "gamma"),
        ("amount", "lognormal"),
        ("count", "poisson"),
        ("count", "negbinomial"),
        ("count", "hurdle_poisson"),
        ("count", "zero_inflated_poisson"),
        ("seen", "bernoulli"),
        ("seen", "bernoulli(cloglog)"),
        ("surv(time, status)", "weibull"),
        ("surv(time, status)", "piecewise_exponential"),
    ];
    for (outcome, family) in cases {
        let (_, raw) = fitted(&format!("{outcome} ~ year + income"), family, &files);
        let (_, scaled) = fitted(&format!("{outcome} ~ scale(year) + scale(income)"), family, &files);
        for (column, sd) in ["year", "income"].into_iter().zip(sds) {
            let [mean, spread] = trusted(&raw, column).map(|own| own * sd);
            let [scaled_mean, scaled_spread] = trusted(&scaled, &format!("scale({column})"));
            // Priors have four digits, and Monte Carlo errors of a few parts in a hundred.
            let apart =
                fixtures::largest([(mean - scaled_mean) / scaled_spread, spread / scaled_spread - 1.0].map(f64::abs));
            assert!(apart < 0.1, "{family}, {column}: {mean} ({spread}) and {scaled_mean} ({scaled_spread})");
        }
    }
}
