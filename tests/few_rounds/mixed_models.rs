//! Fits published mixed models with default options over one, three and eight silos: the posterior of long chains.
#![allow(clippy::print_stderr, reason = "a test that is skipped says so, and the table of the book is printed")]

mod data;
mod model;

use std::time::Instant;

use data::{Deal, Study};
use model::Mixed;
use partita::inference::{CorrectedSite, Ending, Verdict};
use partita::{Device, Fit, check};
use serde_json::Value;

use super::moments;

const GOLDEN: &str = include_str!("../golden/mixed_models.json");
const STUDIES: [&str; 6] = ["epil", "bacteria", "cbpp", "respiratory", "toenail", "radon"];

/// The number of silos, and how groups are dealt to them.
const CASES: [(usize, Deal); 4] = [(1, Deal::InTurn), (3, Deal::InTurn), (8, Deal::InTurn), (8, Deal::Blocks)];

/// Exchanges with the start and the round of trust, and its second look where weights call for one.
const MOST_EXCHANGES: u64 = 9;

/// How far fits over other numbers of silos may be from each other. A run ends where 0.0001 nats are left to gain, which
/// is a mean to 0.014 sd, and precisions to 2 %, which is an sd to 1 %, before the last step comes nearer.
const SAME_MEAN: f64 = 0.014;
const SAME_SD: f64 = 0.01;

/// How far a mean may be from that of long chains, in their sds.
const MEAN: f64 = 0.1;

/// The most that an sd may be too large.
const WIDEST: f64 = 1.05;

/// The ratios of corrected sds to those of long chains.
const CORRECTED: std::ops::Range<f64> = 0.95..1.05;

/// The least ratios of sds to those of long chains, and how far the mean of `log_sd` may be from theirs.
///
/// The posterior of a standard deviation is skewed on either scale, and so is that of what depends on it. The normal
/// posterior is narrower than a skewed one, which no number of rounds mends. Bounds below 0.95 are a hundredth or two
/// below what was measured, and state that shortfall. The round of trust corrects it, within [`CORRECTED`].
struct Bounds {
    coefficient: f64,
    sd: f64,
    log_sd: f64,
    log_sd_mean: f64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { coefficient: 0.95, sd: 0.95, log_sd: 0.95, log_sd_mean: MEAN }
    }
}

/// Label, mean and sd of each global, with the logarithms of standard deviations, which are what is normal.
fn numbers(study: &Study, fit: &Fit) -> Vec<(String, f64, f64)> {
    let (means, sds) = moments(fit);
    let coefficients = (0..study.columns()).map(|k| format!("beta[{k}]"));
    let labels = coefficients.chain(["log_sd", "log_sigma"].map(String::from));
    let mut all: Vec<_> = labels.zip(means.into_iter().zip(sds)).map(|(label, (mean, sd))| (label, mean, sd)).collect();
    let sites = ["sd", "sigma"].iter().filter_map(|label| fit.report.uncorrected(label));
    all.extend(sites.map(|site| (site.label.clone(), site.mean, site.sd)));
    all
}

fn holds(name: &str, bounds: &Bounds) {
    let Some(study) = data::read(name) else { return };
    let golden: Value = serde_json::from_str(GOLDEN).unwrap();
    let device = Device::flex();
    let model = Mixed { outcome: study.outcome, columns: study.columns() };
    let (mut failures, mut first) = (Vec::new(), Vec::new());
    for (count, deal) in CASES {
        let started = Instant::now();
        let fit = super::fitted(&model, &study.silos(count, deal, &device));
        let (exchanges, seconds) = (fit.record.counters.rounds, started.elapsed().as_secs_f64());
        let rounds = fit.record.trace.len();
        eprintln!(
            "{name}, {count} silos {deal:?}: {exchanges} exchanges, {rounds} before looks, {:.2} nats, {seconds:.1} s",
            fit.report.elbo
        );
        if fit.record.ending != Ending::Converged || exchanges > MOST_EXCHANGES {
            failures.push(format!("{count} {deal:?}: {:?} after {exchanges} exchanges", fit.record.ending));
        }
        let found = numbers(&study, &fit);
        if first.is_empty() {
            first.clone_from(&found);
        }
        for ((label, mean, sd), (_, one_mean, one_sd)) in found.iter().zip(&first) {
            let of = |what: &str| golden[name]["reference"][label][what].as_f64().unwrap();
            let (off, ratio) = ((mean - of("mean")) / of("sd"), sd / of("sd"));
            eprintln!("   {label:9} {mean:8.4} ± {sd:.4}: {off:+.3} sd, {ratio:.3}");
            let (most, least) = match label.as_str() {
                "sd" => (MEAN, bounds.sd),
                "log_sd" => (bounds.log_sd_mean, bounds.log_sd),
                _ => (MEAN, bounds.coefficient),
            };
            let is_near = off.abs() <= most && (least..WIDEST).contains(&ratio);
            if !is_near {
                failures.push(format!("{count} {deal:?}, {label}: {off:+.3} sd, {ratio:.3}"));
            }
            let is_same = (mean - one_mean).abs() <= SAME_MEAN * one_sd && (sd / one_sd - 1.0).abs() <= SAME_SD;
            if !is_same {
                failures.push(format!("{count} {deal:?}, {label}: {mean} ± {sd}, one silo {one_mean} ± {one_sd}"));
            }
        }
        let correction = fit.report.trust.correction().unwrap();
        eprintln!("   k {:.2}, {:.0} draws", correction.pareto_k, correction.effective_sample_size);
        if fit.report.verdict == Verdict::DoNotTrust {
            failures.push(format!("{count} {deal:?}: {}", fit.report));
        }
        for CorrectedSite { summary, .. } in &correction.sites {
            let of = |what: &str| golden[name]["reference"][&summary.label][what].as_f64().unwrap();
            let (off, ratio) = ((summary.mean - of("mean")) / of("sd"), summary.sd / of("sd"));
            eprintln!(
                "   {:9} {:8.4} ± {:.4}: {off:+.3} sd, {ratio:.3} corrected",
                summary.label, summary.mean, summary.sd
            );
            let is_near = off.abs() <= MEAN && CORRECTED.contains(&ratio);
            if !is_near {
                failures.push(format!("{count} {deal:?}, {} corrected: {off:+.3} sd, {ratio:.3}", summary.label));
            }
        }
    }
    assert!(failures.is_empty(), "{name}: {failures:#?}");
}

#[test]
fn seizures_of_epilepsy_agree_with_long_chains() {
    holds("epil", &Bounds { sd: 0.91, log_sd: 0.935, ..Bounds::default() });
}

#[test]
fn bacteria_in_children_s_ears_agree_with_long_chains() {
    // The data hardly bound the standard deviation of children from below.
    holds("bacteria", &Bounds { coefficient: 0.91, sd: 0.88, log_sd: 0.81, ..Bounds::default() });
}

#[test]
fn pleuropneumonia_of_fifteen_herds_agrees_with_long_chains() {
    holds("cbpp", &Bounds { coefficient: 0.92, sd: 0.92, log_sd: 0.905, ..Bounds::default() });
}

#[test]
fn respiratory_status_agrees_with_long_chains() {
    holds("respiratory", &Bounds { sd: 0.895, log_sd: 0.905, ..Bounds::default() });
}

#[test]
fn onycholysis_of_toenails_agrees_with_long_chains() {
    holds("toenail", &Bounds::default());
}

#[test]
fn radon_in_85_counties_agrees_with_long_chains() {
    // Counties hardly differ: the chains' log_sd has a long tail to minus infinity, which takes its mean along.
    holds("radon", &Bounds { sd: 0.91, log_sd: 0.69, log_sd_mean: 0.12, ..Bounds::default() });
}

#[test]
fn the_data_are_those_of_the_chains_and_the_models_pass_their_check() {
    let golden: Value = serde_json::from_str(GOLDEN).unwrap();
    let device = Device::flex();
    for name in STUDIES {
        let Some(study) = data::read(name) else { return };
        let [rows, groups] = ["rows", "groups"].map(|what| golden[name][what].as_u64().unwrap());
        let silos = study.silos(3, Deal::Blocks, &device);
        let of = |count: fn(&partita::Groups) -> usize| silos.iter().map(|(_, own)| count(&own.groups) as u64).sum();
        let found: [u64; 2] = [of(partita::Groups::rows), of(partita::Groups::groups)];
        assert_eq!(found, [rows, groups], "{name}");
        let model = Mixed { outcome: study.outcome, columns: study.columns() };
        let report = check(&model, &silos, &device).unwrap();
        assert!(report.passed(), "{name}: {report}");
    }
}

#[test]
fn the_chains_are_long_enough_to_judge_a_fit() {
    let golden: Value = serde_json::from_str(GOLDEN).unwrap();
    for name in STUDIES {
        assert_eq!(golden[name]["divergences"], 0, "{name}");
        for (label, own) in golden[name]["reference"].as_object().unwrap() {
            let of = |what: &str| own[what].as_f64().unwrap();
            // Errors are in units of the sd. The heavy tail of radon's log_sd makes its own sd hard to find.
            let most = if (name, label.as_str()) == ("radon", "log_sd") { 0.03 } else { 0.02 };
            assert!(of("mean_error") < 0.02 && of("sd_error") < most, "{name}, {label}: {own}");
            assert!((0.999..1.01).contains(&of("r_hat")), "{name}, {label}: {own}");
        }
    }
}
