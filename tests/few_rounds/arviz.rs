//! Holds files for ArviZ: what ArviZ itself makes of them is what the fit says.

use fixtures::arviz::{opened, python};
use partita::Device;
use partita::inference::{ArvizOptions, ArvizRows, AxisLabels, Error, Nuts};
use partita::models::{MixedLogistic, RepeatedBinary};
use serde_json::Value;

type Silos = Vec<(String, RepeatedBinary)>;

const MODEL: fn() -> MixedLogistic = || MixedLogistic::new(4);

fn silos() -> Silos {
    fixtures::six_cities_halves(["north", "south"], &Device::flex())
}

/// Names of the coefficients of six cities.
fn labels() -> Vec<AxisLabels> {
    let labels = ["intercept", "smoking", "age", "smoking x age"].map(str::to_owned).to_vec();
    vec![AxisLabels { site: "beta".into(), axis: 0, name: "covariate".into(), labels }]
}

fn options(silos: &Silos) -> ArvizOptions<'_, RepeatedBinary> {
    ArvizOptions { rows: ArvizRows::Of(silos), labels: labels(), ..ArvizOptions::default() }
}

#[test]
fn arviz_opens_a_fit_and_finds_what_the_report_says() {
    let Some(python) = python() else { return };
    let (folder, silos) = (tempfile::tempdir().unwrap(), silos());
    let path = folder.path().join("fit.zarr");
    let fit = super::fitted(&MODEL(), &silos);
    fit.write_arviz(&path, &MODEL(), &Device::flex(), &options(&silos)).unwrap();
    let found = &opened(&python, std::slice::from_ref(&path))[path.to_str().unwrap()];
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("no number: {found:#}"));
    let correction = fit.report.trust.correction().unwrap();
    // The same formula of the same ratios: rounding alone.
    assert!((number(&found["pareto_k_of_tail"]) - correction.pareto_k).abs() < 1e-6, "{found:#}");
    // `psislw` has one draw less in its tail of 136: far less than the error of k, sqrt(1 / 136) = 0.09.
    assert!((number(&found["pareto_k"]) - correction.pareto_k).abs() < 0.09, "{found:#}");
    assert_eq!(found["groups"]["/posterior"]["beta"]["shape"][0].as_u64(), Some(4), "{found:#}");
    let draws = 4.0 * number(&found["groups"]["/posterior"]["beta"]["shape"][1]);
    for (place, label) in labels()[0].labels.iter().enumerate() {
        let own = &correction.sites.iter().find(|own| own.summary.label == format!("beta[{place}]")).unwrap().summary;
        let [mean, sd] = [0, 1].map(|at| number(&found["summary"][format!("beta[{label}]")][at]));
        // Five standard errors of a mean of so many draws, resampled from draws that are worth as many; the relative
        // one of a standard deviation is that of a mean times sqrt(1/2), where tails are normal.
        let error = (2.0 / draws).sqrt();
        assert!((mean - own.mean).abs() < 5.0 * own.sd * error, "{label}: {mean} of {own:?}");
        assert!((sd / own.sd - 1.0).abs() < 5.0 * error, "{label}: {sd} of {own:?}");
    }
    // Log likelihoods and prior make the log joint that the file holds, on average over the answer: two silos were each
    // integrated twice, to 0.01 nats.
    assert!(number(&found["apart"]) < 0.04, "{found:#}");
    for picture in ["forest", "rank"] {
        assert!(number(&found[picture]) > 1_000.0, "{found:#}");
    }
    // A path that is taken is refused.
    let again = fit.write_arviz(&path, &MODEL(), &Device::flex(), &options(&silos)).unwrap_err();
    assert!(matches!(again, Error::Setting { setting: "path", .. }), "{again}");
}

#[test]
fn arviz_opens_chains_and_finds_what_the_sampler_says() {
    let Some(python) = python() else { return };
    let (folder, silos) = (tempfile::tempdir().unwrap(), silos());
    let path = folder.path().join("nuts.zarr");
    let nuts = Nuts { warmup: 300, draws: 500, chains: 2, threads: 2, ..Nuts::default() };
    let fit = nuts.sample(&MODEL(), &silos, &Device::flex()).unwrap();
    fit.write_arviz(&path, &MODEL(), &Device::flex(), &options(&silos), fit.verdict).unwrap();
    let found = &opened(&python, std::slice::from_ref(&path))[path.to_str().unwrap()];
    for (label, name) in [("beta[0]", "beta[intercept]"), ("omega", "omega")] {
        let (own, theirs) = (fit.site(label).unwrap(), &found["summary"][name]);
        assert!((theirs[0].as_f64().unwrap() - own.mean).abs() < 1e-6, "{found:#}");
    }
}
