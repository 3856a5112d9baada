//! Holds the round of trust against long chains, fits without a silo, exact evidence, and posteriors that are wrong.

use fixtures::latent_rows::LatentRows;
use partita::burn::{module::Module, tensor::Tensor};
use partita::inference::{Trust, Verdict, Warning};
use partita::models::{Child, MixedLogistic, RepeatedBinary, six_cities_reference, six_cities_silos};
use partita::{
    AlgorithmChoice, Device, FamilyPlan, Fit, FitOptions, Gaussian, Model, Normal, PviOptions, RoundOptions, Schedule,
    Scope, Settings, fit,
};

use super::options;

/// The sites of six cities as the reference names them.
const LABELS: [&str; 5] = ["beta[0]", "beta[1]", "beta[2]", "beta[3]", "omega"];

fn six_cities(parts: &[Vec<Child>], options: &FitOptions) -> Fit {
    let device = Device::flex();
    let silos: Vec<_> = parts
        .iter()
        .zip(["north", "south"])
        .map(|(children, name)| (name.to_owned(), RepeatedBinary::six_cities(children, &device).unwrap()))
        .collect();
    fit(&MixedLogistic::new(4), &silos, &device, options, None).unwrap()
}

#[test]
fn corrected_numbers_are_those_of_long_chains() {
    let report = six_cities(&six_cities_silos(), &options()).report;
    let (reference, correction) = (six_cities_reference().unwrap(), report.trust.correction().unwrap());
    assert!(report.verdict == Verdict::Trust && report.warnings.is_empty(), "{report}");
    assert!(report.to_string().starts_with("verdict: trust these numbers\n"), "{report}");
    assert!(correction.pareto_k < 0.5 && correction.effective_sample_size > 1_200.0, "{report}");
    assert!((correction.log_evidence + 819.37).abs() < 0.03, "{report}");
    for (index, label) in LABELS.into_iter().enumerate() {
        let (found, pooled) = (report.answer()[index], reference.pooled());
        let (off, ratio) = ((found.mean - pooled.mean[index]) / pooled.sd[index], found.sd / pooled.sd[index]);
        assert!(off.abs() < 0.05 && (ratio - 1.0).abs() < 0.03, "{label}: {off} {ratio}\n{report}");
        for quantile in &pooled.quantiles {
            let own = &found.quantiles;
            let value = match quantile.probability {
                p if p < 0.03 => own.p2_5,
                p if p < 0.06 => own.p5,
                p if (p - 0.5).abs() < 0.01 => own.p50,
                p if (p - 0.95).abs() < 0.01 => own.p95,
                p if p > 0.96 => own.p97_5,
                _ => continue,
            };
            // A quantile at 2.5 % of 1,500 draws has an error of 0.07 standard deviations.
            let off = (value - quantile.values[index]) / pooled.sd[index];
            assert!(off.abs() < 0.2, "{label}, {}: {off}", quantile.probability);
        }
    }
}

#[test]
fn a_silo_left_out_is_a_fit_without_it() {
    let report = six_cities(&six_cities_silos(), &options()).report;
    let reference = six_cities_reference().unwrap();
    let left_out = &report.trust.correction().unwrap().left_out;
    assert_eq!(
        left_out.iter().map(|own| own.silo.as_deref()).collect::<Vec<_>>(),
        [Some("north"), Some("south"), None]
    );
    // Without the first silo the second is alone, and the other way round.
    for (own, alone) in left_out.iter().zip([1, 0]) {
        let alone = reference.silos()[alone];
        assert!(own.is_trusted(), "{own:?}");
        // The error of a mean of so many effective draws, in its standard deviations, times three.
        let error = 3.0 / own.effective_sample_size.sqrt();
        for (index, found) in own.sites.iter().enumerate().take(LABELS.len()) {
            let off = (found.mean - alone.mean[index]) / alone.sd[index];
            assert!(off.abs() < error.min(0.25), "{:?}, {}: {off} {error}", own.silo, LABELS[index]);
            assert!((found.sd / alone.sd[index] - 1.0).abs() < 0.25, "{:?}, {}: {}", own.silo, LABELS[index], found.sd);
        }
    }
}

#[test]
fn every_method_s_answer_is_corrected_to_the_same_or_not_to_be_trusted() {
    let reference = six_cities_reference().unwrap();
    let settings = Settings { steps: 3_000, ..Settings::default() };
    let rounds = RoundOptions { scale_entropy: true, ..RoundOptions::paper(100) };
    let mut trusted = Vec::new();
    for algorithm in [
        AlgorithmChoice::Sfvi,
        AlgorithmChoice::SfviAvg(rounds),
        AlgorithmChoice::Pvi(PviOptions { local_steps: 1_000, ..PviOptions::new(2) }),
    ] {
        let steps = if algorithm == AlgorithmChoice::Sfvi { 3_000 } else { 6 };
        let settings = Settings { steps, ..settings.clone() };
        let options = FitOptions { algorithm, settings, threads: 2, elbo_draws: 8, ..FitOptions::default() };
        let report = six_cities(&six_cities_silos(), &options).report;
        let name = &report.algorithm;
        if report.verdict == Verdict::DoNotTrust {
            continue;
        }
        trusted.push(name.clone());
        for (index, label) in LABELS.into_iter().enumerate() {
            let (found, pooled) = (report.answer()[index], reference.pooled());
            let off = (found.mean - pooled.mean[index]) / pooled.sd[index];
            let ratio = found.sd / pooled.sd[index];
            assert!(off.abs() < 0.1 && (ratio - 1.0).abs() < 0.1, "{name}, {label}: {off} {ratio}\n{report}");
        }
    }
    // Averages of unlike silos, and six short visits of PVI, are not trusted.
    assert_eq!(trusted, ["Sfvi"]);
}

#[test]
fn rows_of_many_latents_are_integrated_by_draws() {
    // The sum of four standard normal latents and noise has variance 5; the global adds the same to all rows.
    let evidence = |latents: f64| {
        let (sum, squares) = (3.75_f64, 0.25 + 2.25 + 0.0625 + 4.0);
        let variance = latents + 1.0;
        let quadratic = squares / variance - sum * sum / (variance * (variance + 4.0));
        -0.5 * (quadratic + 3.0 * variance.ln() + (variance + 4.0).ln() + 4.0 * (2.0 * std::f64::consts::PI).ln())
    };
    let few = || FitOptions {
        algorithm: AlgorithmChoice::FewRounds(partita::inference::FewRoundsOptions::default()),
        ..twenty_steps()
    };
    for latents in [4, 7] {
        // Rows of a posterior that has seen twenty steps, and is as wide as it began.
        let rough = exact(latents, &twenty_steps()).report;
        let named = exact(latents, &few()).report;
        let variance = real(latents) + 1.0;
        let (mean, sd) = (3.75 / (variance + 4.0), (variance / (variance + 4.0)).sqrt());
        for report in [&rough, &named] {
            let correction = report.trust.correction().unwrap();
            let own = &correction.sites[0].summary;
            assert!((own.mean - mean).abs() < 0.03 * sd && (own.sd / sd - 1.0).abs() < 0.03, "{latents}: {report}");
            assert!((correction.log_evidence - evidence(real(latents))).abs() < 0.05, "{latents}: {report}");
        }
        assert!((named.sites[0].mean - mean).abs() < 0.02 * sd && named.verdict == Verdict::Trust, "{named}");
        assert_ne!(rough.verdict, Verdict::Trust, "{rough}");
    }
}

/// Twenty steps of SFVI.
fn twenty_steps() -> FitOptions {
    FitOptions {
        algorithm: AlgorithmChoice::Sfvi,
        settings: Settings { steps: 20, schedule: Schedule::cosine(), ..Settings::default() },
        ..FitOptions::default()
    }
}

#[expect(clippy::cast_precision_loss, reason = "latents are few")]
fn real(count: usize) -> f64 {
    count as f64
}

/// Neal's funnel: a log scale, and nine numbers of that scale.
#[derive(Module, Debug)]
struct Funnel {}

impl Model for Funnel {
    type Globals = Tensor<1>;
    type Data = Tensor<1>;

    fn global(&self, scope: &mut Scope) -> partita::Result<Tensor<1>> {
        let log_scale = scope.sample("log_scale", Normal::new(0.0, 3.0))?;
        scope.sample("x", Normal::new(0.0, (log_scale / 2.0).exp().expand([9])))
    }

    fn local(&self, scope: &mut Scope, x: &Tensor<1>, data: &Tensor<1>) -> partita::Result<()> {
        scope.plate("row", data.dims()[0], |s, rows| {
            s.observe("y", Normal::new(x.clone().narrow(0, 0, 1), 10.0).over(rows), rows.take(data)?)
        })
    }
}

/// A fit of a model whose posterior is exactly normal, with rows that have latents of their own.
fn exact(latents: usize, options: &FitOptions) -> Fit {
    let device = Device::flex();
    let silos = [("a".to_owned(), device.tensor(vec![0.5, 1.5, -0.25, 2.0], [4]))];
    fit(&LatentRows { globals: 1, latents }, &silos, &device, options, None).unwrap()
}

#[test]
fn a_normal_posterior_needs_no_correction_and_has_its_evidence_exactly() {
    let report = exact(2, &options()).report;
    let correction = report.trust.correction().unwrap();
    // y is normal with mean zero, variance 3 on the diagonal and 1 more everywhere.
    let (sum, squares) = (3.75_f64, 0.25 + 2.25 + 0.0625 + 4.0);
    let quadratic = squares / 3.0 - sum * sum / (3.0 * 7.0);
    let log_det = 3.0 * 3.0_f64.ln() + 7.0_f64.ln();
    let evidence = -0.5 * (quadratic + log_det + 4.0 * (2.0 * std::f64::consts::PI).ln());
    assert!((report.elbo - evidence).abs() < 1e-9 && report.elbo_se < 1e-9, "{} {evidence}", report.elbo);
    assert!((correction.log_evidence - evidence).abs() < 0.01, "{} {evidence}", correction.log_evidence);
    // Weights under model and posterior are the same, and what corrects cancels.
    let (mean, before) = (&correction.sites[0], &report.sites[0]);
    assert!((mean.summary.mean - before.mean).abs() < 1e-9 && mean.moved.abs() < 1e-9, "{mean:?} {before:?}");
    assert!((mean.summary.mean - sum / 7.0).abs() < 0.02 && (mean.summary.sd - (3.0_f64 / 7.0).sqrt()).abs() < 0.02);
}

#[test]
fn a_posterior_that_is_far_from_its_approximation_is_not_to_be_trusted() {
    let device = Device::flex();
    let silos = [("a".to_owned(), device.tensor(vec![0.2], [1]))];
    let report = fit(&Funnel {}, &silos, &device, &options(), None).unwrap().report;
    assert_eq!(report.verdict, Verdict::DoNotTrust, "{report}");
    let doubts: Vec<&Warning> =
        report.warnings.iter().filter(|own| own.severity == partita::inference::Severity::Doubt).collect();
    assert!(doubts.iter().all(|own| !own.remedy.is_empty()), "{report}");
}

#[test]
fn a_mean_on_its_way_at_the_end_is_not_trusted_where_nothing_corrects_it() {
    let settings = |rate| Settings { steps: 20, schedule: Schedule::Constant { rate }, ..Settings::default() };
    let report = |rate| {
        let options =
            FitOptions { algorithm: AlgorithmChoice::Sfvi, settings: settings(rate), ..FitOptions::default() };
        exact(1, &FitOptions { trust_draws: Some(0), elbo_draws: 400, ..options }).report
    };
    let moves =
        |report: &partita::Report| report.warnings.iter().any(|own| own.problem.contains("over the last tenth"));
    let (far, near) = (report(1.0), report(1e-4));
    assert!(moves(&far) && far.verdict == Verdict::DoNotTrust, "{far}");
    assert!(!moves(&near), "{near}");
}

#[test]
fn where_there_is_no_round_of_trust_the_report_says_why() {
    let sfvi = |family: FamilyPlan| FitOptions {
        algorithm: AlgorithmChoice::Sfvi,
        settings: Settings { steps: 2_000, family, ..Settings::default() },
        elbo_draws: 400,
        ..FitOptions::default()
    };
    let normal = FamilyPlan::new();
    let points = FamilyPlan::new().site("means", partita::inference::PointMass);
    let off = FitOptions { trust_draws: Some(0), ..sfvi(normal.clone()) };
    let cut = |options: FitOptions| {
        let settings = Settings { steps: 20, ..options.settings };
        FitOptions { settings, elbo_draws: 4, ..options }
    };
    // A point is no posterior, whatever was compared; and what is not compared has to say in numbers that it rests.
    for (latents, options, reason, verdict) in [
        (9, cut(sfvi(normal.clone())), "nor does a gradient at its end say", Verdict::DoNotTrust),
        (9, sfvi(normal.clone()), "more than eight latents", Verdict::TrustWithLimits),
        (1, sfvi(points), "a point", Verdict::DoNotTrust),
        (1, off, "the options ask for no round of trust", Verdict::TrustWithLimits),
    ] {
        let report = exact(latents, &options).report;
        let Trust::NotChecked { reason: found, .. } = &report.trust else { panic!("{report}") };
        assert!(found.contains(reason), "{found}");
        assert_eq!(report.verdict, verdict, "{report}");
        assert!(report.to_string().contains(reason), "{report}");
    }
    // The wider family of a site does not matter to whether it is checked.
    let full = sfvi(FamilyPlan::new().site("means", Gaussian::full_rank()));
    assert!(exact(1, &full).report.trust.correction().is_some());
}

/// Ten globals of which the first is, for one part in thirty, on a shelf eight standard deviations away.
#[derive(Module, Debug)]
struct Shelf {}

/// The part of the posterior on the shelf, with its mean and standard deviation.
const SHELF: [f64; 3] = [0.03, -8.0, 3.0];

impl Model for Shelf {
    type Globals = Tensor<1>;
    type Data = Tensor<1>;

    fn global(&self, scope: &mut Scope) -> partita::Result<Tensor<1>> {
        let x = scope.sample("x", Normal::new(0.0, 1.0).iid([10]))?;
        // The density of the first is a mixture: what it has beyond the normal density that `sample` counts.
        let first = x.clone().narrow(0, 0, 1);
        let [share, mean, sd] = SHELF;
        let apart = (first.clone() - mean) / sd;
        let log_shelf = (first.powi_scalar(2) - apart.powi_scalar(2)) * 0.5 + (share / (1.0 - share) / sd).ln();
        // ln(1 + e^t) without overflow.
        let positive = log_shelf.clone().clamp_min(0.0);
        scope.factor(
            "shelf",
            (positive.clone() + ((log_shelf - positive.clone()).exp() + (-positive).exp()).log()).sum(),
        )?;
        Ok(x)
    }

    fn local(&self, scope: &mut Scope, x: &Tensor<1>, data: &Tensor<1>) -> partita::Result<()> {
        // Rows that say nothing of the globals.
        scope.plate("row", data.dims()[0], |s, rows| {
            let mean = x.clone().narrow(0, 0, 1).expand([rows.len()]) * 0.0;
            s.observe("y", Normal::new(mean, 1.0), rows.take(data)?)
        })
    }
}

#[test]
fn a_shelf_along_one_of_ten_globals_is_found_or_the_answer_not_to_be_trusted() {
    let device = Device::flex();
    let silos = [("a".to_owned(), device.tensor(vec![0.2], [1]))];
    let [share, mean, sd] = SHELF;
    let exact_mean = share * mean;
    let exact_sd = (1.0 - share + share * (sd * sd + mean * mean) - exact_mean * exact_mean).sqrt();
    let mut right = 0;
    for seed in 1..=4 {
        let options = FitOptions { settings: Settings { seed, ..Settings::default() }, ..options() };
        let report = fit(&Shelf {}, &silos, &device, &options, None).unwrap().report;
        let own = report.answer()[0];
        let is_right = ((own.mean - exact_mean) / exact_sd).abs() < 0.2 && (own.sd / exact_sd - 1.0).abs() < 0.25;
        println!("seed {seed}: {is_right}, {exact_mean} {exact_sd}\n{report}");
        right += usize::from(is_right);
        assert!(is_right || report.verdict == Verdict::DoNotTrust, "{exact_mean} {exact_sd}\n{report}");
        // The approximation sees nothing of it.
        assert!(report.sites[0].sd < 0.7 * exact_sd, "{report}");
    }
    assert!(right >= 3, "{right} of 4");
}
