//! Holds predictive checks and leave-one-out in silos: exact p-values, sums as in one place, words where there are none.

use std::sync::{Arc, Mutex};

use burn::module::Module;
use burn::tensor::Tensor;
use partita::core::Array;
use partita::core::special::normal_cumulative;
use partita::inference::{
    AlgorithmChoice, Arrival, Error, Exchange, HtmlOptions, InProcess, LeftOutUnit, Manifest, Message, Outcome,
    PredictiveCheck, Replicated, Request, Settings, Statistic, Verdict, fit_parties, parties,
};
use partita::models::{MixedLogistic, RepeatedBinary, six_cities_silos};
use partita::{
    Device, FedOptOptions, Fit, FitOptions, Model, Normal, Poisson, PviOptions, Result, RoundOptions, Scope, burn, fit,
};

use super::options;

fn checks(texts: &[&str]) -> Vec<PredictiveCheck> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// Rows with a level of their own, observed with noise.
#[derive(Module, Debug)]
struct Levels {}

impl Model for Levels {
    type Globals = Tensor<1>;
    type Data = Tensor<1>;

    fn global(&self, scope: &mut Scope) -> Result<Tensor<1>> {
        scope.sample("mean", Normal::new(0.0, 10.0))
    }

    fn local(&self, scope: &mut Scope, mean: &Tensor<1>, data: &Tensor<1>) -> Result<()> {
        scope.plate("row", data.dims()[0], |s, rows| {
            let level = s.sample("level", Normal::new(mean.clone(), 1.0).over(rows))?;
            s.observe("y", Normal::new(level, 1.0), rows.take(data)?)
        })
    }
}

/// Counts of one rate.
#[derive(Module, Debug)]
struct Counts {}

impl Model for Counts {
    type Globals = Tensor<1>;
    type Data = Tensor<1>;

    fn global(&self, scope: &mut Scope) -> Result<Tensor<1>> {
        scope.sample("log_rate", Normal::new(0.0, 2.0))
    }

    fn local(&self, scope: &mut Scope, log_rate: &Tensor<1>, data: &Tensor<1>) -> Result<()> {
        scope.plate("row", data.dims()[0], |s, rows| {
            s.observe("visits", Poisson::log_rate(log_rate.clone()).over(rows), rows.take(data)?)
        })
    }
}

fn tensors(silos: &[(&str, Vec<f64>)]) -> Vec<(String, Tensor<1>)> {
    let tensor = |(name, own): &(&str, Vec<f64>)| ((*name).to_owned(), Device::flex().tensor(own.clone(), [own.len()]));
    silos.iter().map(tensor).collect()
}

#[test]
fn statistics_are_what_their_names_say() {
    let data = Array::new(vec![0.0, 1.0, 2.0, 0.0, 5.0, 4.0], vec![3, 2]).unwrap();
    let of = |text: &str| text.parse::<PredictiveCheck>().unwrap().statistic.of(&data, None);
    let exact = [
        ("mean of y", 2.0),
        ("sd of y", (22.0_f64 / 6.0).sqrt()),
        ("smallest of y", 0.0),
        ("largest of y", 5.0),
        ("zeros of y", 1.0 / 3.0),
        // Means of rows are .5, 1 and 4.5.
        ("sd of rows of y", ((1.5_f64.powi(2) + 1.0 + 2.5_f64.powi(2)) / 3.0).sqrt()),
        ("quantile 0 of y", 0.0),
        ("quantile 0.5 of y", 1.0),
        ("quantile 0.51 of y", 2.0),
        ("quantile 1 of y", 5.0),
    ];
    for (text, expected) in exact {
        assert!((of(text) - expected).abs() < 1e-12, "{text}: {}", of(text));
        assert_eq!(text.parse::<PredictiveCheck>().unwrap().to_string(), text);
    }
    // The first two rows are visits of one patient: .75 and 4.5.
    let by_patient = Statistic::DeviationOfRows.of(&data, Some(&[0, 0, 1]));
    assert!((by_patient - 1.875).abs() < 1e-12, "{by_patient}");
    let nested: PredictiveCheck = "mean of sd of rows".parse().unwrap();
    assert_eq!((nested.statistic, nested.site.as_str()), (Statistic::Mean, "sd of rows"));
    for wrong in ["", "mean", "mean of ", "mode of y", "quantile 2 of y", "quantile of y", "Mean of y", "mean of a\nb"]
    {
        let error = wrong.parse::<PredictiveCheck>().unwrap_err().to_string();
        assert!(error.contains("quantile 0.9 of y"), "{wrong}: {error}");
    }
}

#[test]
fn replicates_that_equal_the_data_count_by_half() {
    let check = "mean of y".parse().unwrap();
    let own = Replicated { check, observed: 1.0, replicates: vec![0.0, 1.0, 1.0, 2.0, 3.0] };
    assert!((own.p_value() - 0.6).abs() < 1e-12, "{}", own.p_value());
}

#[test]
fn the_p_value_of_a_mean_is_the_exact_one_of_rows_with_new_levels() {
    let (north, south) = (vec![1.0, 2.5, 0.5, 2.0, 1.5], vec![-0.5, 0.0, -1.0]);
    let silos = tensors(&[("north", north.clone()), ("south", south.clone())]);
    let options = FitOptions { checks: checks(&["mean of y"]), check_draws: Some(20_000), ..options() };
    let fit = fit(&Levels {}, &silos, &Device::flex(), &options, None).unwrap();
    let found = fit.report.checks.as_ref().unwrap();
    assert_eq!(found.draws, 20_000);
    // A row is N(mean, 2); the prior is N(0, 100).
    let precision = 1.0 / 100.0 + 8.0 / 2.0;
    let mean = (north.iter().sum::<f64>() + south.iter().sum::<f64>()) / 2.0 / precision;
    for (own, data) in found.silos.iter().zip([&north, &south]) {
        let count = data.len() as f64;
        let deviation = (1.0 / precision + 2.0 / count).sqrt();
        let exact = normal_cumulative((mean - data.iter().sum::<f64>() / count) / deviation);
        let error = (exact * (1.0 - exact) / 20_000.0).sqrt();
        assert!((own.p_values[0] - exact).abs() < 4.0 * error, "{}: {} {exact}", own.silo, own.p_values[0]);
    }
}

#[test]
fn counts_that_a_model_does_not_expect_are_named_with_their_silo_and_others_are_not() {
    // Twice as many zeros and as large a tail as a rate of 2 gives, in one silo.
    let (even, odd) =
        ([1.0, 2.0, 3.0, 2.0, 0.0, 4.0, 1.0, 3.0].repeat(5), [0.0, 0.0, 0.0, 0.0, 0.0, 9.0, 7.0, 0.0].repeat(5));
    let silos = tensors(&[("even", even), ("odd", odd)]);
    let options = FitOptions { checks: checks(&["mean of visits", "zeros of visits", "sd of visits"]), ..options() };
    let fit = fit(&Counts {}, &silos, &Device::flex(), &options, None).unwrap();
    let report = &fit.report;
    let found = report.checks.as_ref().unwrap();
    assert_eq!(found.draws, 1_000);
    let failed: Vec<(String, &str)> = found.failed().map(|(check, silo, _)| (check.to_string(), silo)).collect();
    assert_eq!(failed, [("zeros of visits".to_owned(), "odd"), ("sd of visits".to_owned(), "odd")], "{found:?}");
    assert_eq!(report.verdict, Verdict::TrustWithLimits, "{report}");
    let text = report.to_string();
    assert!(text.contains("the zeros of visits is larger than the model expects"), "{text}");
    assert!(text.contains("(silo `odd`)") && !text.contains("(silo `even`)"), "{text}");
    assert!(text.contains("check: zeros of visits, p-values of 2 silos from 0.000"), "{text}");
    // The owner's numbers are those of the report, and its page shows the data.
    let own = fit.predictive_checks(&Counts {}, &silos[1], &Device::flex(), &options.checks).unwrap();
    let p_values: Vec<f64> = own.checks.iter().map(|own| own.p_value()).collect();
    assert_eq!(p_values, found.silos[1].p_values);
    assert!((own.checks[1].observed - 0.75).abs() < 1e-12);
    let folder = tempfile::tempdir().unwrap();
    own.write_html(&folder.path().join("own.html")).unwrap();
    let page = std::fs::read_to_string(folder.path().join("own.html")).unwrap();
    assert!(page.contains("Predictive checks of odd") && page.matches("<svg").count() == 3, "{page}");
    fit.write_html(&folder.path().join("report.html"), &HtmlOptions::default()).unwrap();
    let page = std::fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert!(page.contains("These fail: zeros of visits in odd; sd of visits in odd."));
    assert!(page.contains("p_values") && !page.contains("effective_parameters"));
    // A silo that there is not, and a site.
    let error =
        fit.predictive_checks(&Counts {}, &("west".into(), silos[0].1.clone()), &Device::flex(), &options.checks);
    assert!(error.unwrap_err().to_string().contains("even, odd"));
    let error = fit.predictive_checks(&Counts {}, &silos[0], &Device::flex(), &checks(&["mean of y"])).unwrap_err();
    assert!(error.to_string().contains("the model observes visits"), "{error}");
}

fn six_cities() -> Vec<(String, RepeatedBinary)> {
    fixtures::six_cities_halves(["north", "south"], &Device::flex())
}

/// Options of an algorithm that asks for what is said of rows.
fn asking(algorithm: AlgorithmChoice) -> FitOptions {
    let settings = Settings { steps: 40, ..Settings::default() };
    let checks = checks(&["mean of y", "sd of rows of y"]);
    FitOptions { algorithm, settings, checks, leave_one_out_draws: 200, elbo_draws: 10, ..options() }
}

/// Six cities by some algorithm, with what is asked of rows.
fn asked(algorithm: AlgorithmChoice) -> Fit {
    fit(&MixedLogistic::new(4), &six_cities(), &Device::flex(), &asking(algorithm), None).unwrap()
}

#[test]
fn a_silo_that_starts_again_after_its_checks_still_has_them_for_its_owner() {
    let options = asking(AlgorithmChoice::Sfvi);
    let mut fit = asked(AlgorithmChoice::Sfvi);
    let (folder, silos) = (tempfile::tempdir().unwrap(), six_cities());
    let to_folder = |kind: &str| Message::new(kind).setting("folder", &folder.path().to_string_lossy());
    let names: Vec<String> = silos.iter().map(|(name, _)| name.clone()).collect();
    let again = || {
        partita::inference::silo_program(&MixedLogistic::new(4), &names, 1, &silos[1].1, &Device::flex(), &options)
            .unwrap()
            .0
    };
    let silo = &mut fit.exchange.programs()[1];
    silo.answer(&to_folder("silo.save")).unwrap();
    let own = silo.own_checks().unwrap();
    assert_eq!((own.silo.as_str(), own.checks.len()), ("south", 2));
    let mut restored = again();
    assert_eq!(restored.own_checks(), None);
    restored.answer(&to_folder("silo.restore")).unwrap();
    assert_eq!(restored.own_checks(), Some(own));
    // Of a state before any check there is none, whatever the silo had.
    std::fs::remove_file(folder.path().join("silo-south.checks.json")).unwrap();
    restored.answer(&to_folder("silo.restore")).unwrap();
    assert_eq!(restored.own_checks(), None);
}

#[test]
fn sums_of_silos_are_those_of_their_owners_and_their_error_that_of_one_place() {
    let few = options().algorithm;
    let all = [
        few,
        AlgorithmChoice::Sfvi,
        AlgorithmChoice::SfviAvg(RoundOptions::paper(2)),
        AlgorithmChoice::Pvi(PviOptions::new(20)),
    ];
    for algorithm in all {
        let fit = asked(algorithm);
        let (found, silos) = (fit.report.leave_one_out.as_ref().unwrap(), six_cities());
        let of = |silo: usize, unit: LeftOutUnit| {
            fit.leave_one_out(&MixedLogistic::new(4), &silos[silo].1, &Device::flex(), 200, unit).unwrap()
        };
        let visits = found.by_observation().unwrap();
        for (place, silo) in visits.silos.iter().enumerate() {
            let own = of(place, LeftOutUnit::Observation);
            assert_eq!(silo.rows, own.log_densities.len() as u64);
            assert!((silo.sum - own.sum()).abs() < 1e-9 && (silo.standard_error - own.standard_error()).abs() < 1e-9);
            assert!((silo.effective_parameters - own.effective_parameters()).abs() < 1e-9);
        }
        assert_eq!((visits.rows(), visits.unknown()), (2_148, 0));
        let own = |silo: usize| of(silo, LeftOutUnit::Row);
        let (north, south) = (own(0), own(1));
        for (silo, own) in found.silos.iter().zip([&north, &south]) {
            assert_eq!(
                (silo.rows, silo.unknown),
                (own.log_densities.len() as u64, own.above(1.0 - 1.0 / 200.0_f64.log10()) as u64)
            );
            assert!((silo.sum - own.sum()).abs() < 1e-9 && (silo.standard_error - own.standard_error()).abs() < 1e-9);
        }
        let every: Vec<f64> = north.log_densities.iter().chain(&south.log_densities).copied().collect();
        let (count, sum) = (every.len() as f64, every.iter().sum::<f64>());
        let error = every.iter().map(|own| (own - sum / count).powi(2)).sum::<f64>().sqrt();
        assert!((found.sum() - sum).abs() < 1e-9 && (found.standard_error() - error).abs() < 1e-9);
        assert!(
            (found.effective_parameters() - north.effective_parameters() - south.effective_parameters()).abs() < 1e-9
        );
        for words in ["leave-one-out over 537 rows", "leave-one-out over 2148 observations"] {
            assert!(fit.report.to_string().contains(words), "{}", fit.report);
        }
        assert_eq!(fit.report.checks.as_ref().unwrap().silos.len(), 2);
    }
}

#[test]
fn means_of_outermost_rows_are_of_children_with_all_their_visits() {
    let fit = asked(options().algorithm);
    let own = fit
        .predictive_checks(&MixedLogistic::new(4), &six_cities()[0], &Device::flex(), &checks(&["sd of rows of y"]))
        .unwrap();
    let [north, _] = six_cities_silos();
    let means = north.iter().map(|own| own.wheeze.iter().filter(|own| **own).count() as f64 / 4.0);
    let (count, sum, square) =
        means.fold((0.0, 0.0, 0.0), |(n, sum, square), own| (n + 1.0, sum + own, square + own * own));
    let expected = (square / count - (sum / count) * (sum / count)).sqrt();
    assert!((own.checks[0].observed - expected).abs() < 1e-12, "{} {expected}", own.checks[0].observed);
}

#[test]
fn what_silos_cannot_answer_is_a_note_and_the_fit_is_kept() {
    let algorithm = AlgorithmChoice::FedOpt(FedOptOptions::fed_avg(2));
    let settings = Settings { steps: 20, ..Settings::default() };
    let checks_of_visits = checks(&["mean of visits"]);
    let point = FitOptions { algorithm, settings, checks: checks_of_visits, leave_one_out_draws: 50, ..options() };
    let silos = tensors(&[("a", vec![1.0, 2.0, 0.0])]);
    let report = fit(&Counts {}, &silos, &Device::flex(), &point, None).unwrap().report;
    assert!(report.leave_one_out.is_none() && report.checks.is_some());
    let text = report.to_string();
    assert!(text.contains("what was asked for, leave-one-out") && text.contains("a point"), "{text}");
    let options = FitOptions { checks: checks(&["mean of cough"]), ..options() };
    let report = fit(&MixedLogistic::new(4), &six_cities(), &Device::flex(), &options, None).unwrap().report;
    let text = report.to_string();
    assert!(report.checks.is_none() && text.contains("the model observes y") && text.contains("north"), "{text}");
    assert_eq!(report.verdict, Verdict::Trust, "{text}");
}

/// Silos of which the first gives other replies to requests of a kind.
struct Forged {
    silos: InProcess,
    kind: &'static str,
    reply: Message,
    heard: Arc<Mutex<Vec<Message>>>,
    forges: bool,
}

impl Exchange for Forged {
    fn silos(&self) -> &[String] {
        self.silos.silos()
    }

    fn send(
        &mut self,
        requests: Vec<Request>,
        deadline: Option<std::time::Duration>,
    ) -> partita::inference::Result<()> {
        self.forges = requests.iter().any(|own| own.message.kind == self.kind);
        self.silos.send(requests, deadline)
    }

    fn receive(
        &mut self,
        manifest: &Manifest,
        deadline: Option<std::time::Duration>,
    ) -> partita::inference::Result<Option<Arrival>> {
        let mut found = self.silos.receive(manifest, deadline)?;
        if let Some(Arrival { silo: 0, outcome: Outcome::Reply(reply) }) = &mut found
            && self.forges
        {
            self.heard.lock().unwrap().push(reply.clone());
            *reply = self.reply.clone();
            manifest.check("north", reply)?;
        }
        Ok(found)
    }
}

#[test]
fn impossible_answers_of_a_silo_are_refused_with_its_name() {
    let of_rows = |sum: f64, error: f64, rows: u64, unknown: u64| {
        let numbers = Message::new("leave_one_out.answer").number("sum", sum).number("standard_error", error);
        numbers.number("effective_parameters", 1.0).word("rows", rows).word("unknown", unknown)
    };
    let and_observations = |rows: Message, error: f64, unknown: u64| {
        let numbers = rows.number("observation_sum", -1.0).number("observation_standard_error", error);
        let numbers = numbers.number("observation_effective_parameters", 1.0).word("observations", 9);
        numbers.word("unknown_observations", unknown)
    };
    let answer =
        |sum: f64, error: f64, rows: u64, unknown: u64| and_observations(of_rows(sum, error, rows, unknown), 1.0, 0);
    let checked = |values: &[f64]| Message::new("predictive.checked").floats("p_values", values);
    let (left_out, check) = ("leave_one_out.rows", "predictive.check");
    let all = [
        (left_out, answer(f64::NAN, 1.0, 3, 0), "NaN"),
        (left_out, answer(-1.0, -1.0, 3, 0), "standard error of -1"),
        (left_out, answer(-1.0, 1.0, 3, 4), "4 of them unknown"),
        (left_out, answer(-1.0, 1.0, 0, 0), "0 rows"),
        (left_out, of_rows(-1.0, 1.0, 3, 0), "observation_sum"),
        (left_out, and_observations(of_rows(-1.0, 1.0, 3, 0), -2.0, 0), "standard error of -2"),
        (left_out, and_observations(of_rows(-1.0, 1.0, 3, 0), 1.0, 10), "10 of them unknown"),
        (check, checked(&[0.5, 1.5]), "1.5"),
        (check, checked(&[0.5, f64::NAN]), "NaN"),
        (check, checked(&[0.5]), "p_values"),
        (check, Message::new("predictive.other").floats("p_values", &[0.5, 0.5]), "predictive.checked"),
    ];
    let device = Device::flex();
    let asked = checks(&["mean of y", "zeros of y"]);
    let options = FitOptions {
        checks: asked,
        leave_one_out_draws: 20,
        check_draws: Some(20),
        trust_draws: Some(64),
        ..options()
    };
    for (kind, reply, words) in all {
        let (mut algorithm, silos) = parties(&MixedLogistic::new(4), &six_cities(), &device, &options).unwrap();
        let heard = Arc::default();
        let mut exchange = Forged { silos, kind, reply, heard: Arc::clone(&heard), forges: false };
        let model = MixedLogistic::new(4);
        let report = fit_parties(&model, &device, &options, &mut *algorithm, &mut exchange, None).unwrap().report;
        let text = report.to_string();
        assert!(
            text.contains(words) && text.contains("north") && text.contains("what was asked for"),
            "{words}: {text}"
        );
        assert_eq!((report.leave_one_out.is_some(), report.checks.is_some()), (kind == check, kind == left_out));
        // The honest reply has numbers of the fields that the manifest names, and no text.
        let heard = heard.lock().unwrap();
        let [honest] = heard.as_slice() else { panic!("{heard:?}") };
        assert!(honest.settings.is_empty() && honest.size() < 600, "{honest:?}");
    }
}

#[test]
fn a_silo_refuses_requests_that_are_none() {
    let device = Device::flex();
    let (algorithm, mut silos) = parties(&MixedLogistic::new(4), &six_cities(), &device, &options()).unwrap();
    let global = algorithm.posterior().parameters.to_vec();
    let request = |draws: u64, checks: &str, global: &[f64]| {
        let message = Message::new("predictive.check").word("draws", draws).word("seed", 1).floats("global", global);
        message.setting("checks", checks)
    };
    let mut ask = |message: &Message| silos.programs()[0].answer(message);
    assert!(ask(&request(5, "mean of y", &global)).is_ok());
    for (wrong, words) in [
        (request(0, "mean of y", &global), "at least 1"),
        (request(1 << 21, "mean of y", &global), "draws"),
        (request(5, "mode of y", &global), "mode of y"),
        (request(5, "mean of nothing", &global), "observes y"),
        (request(5, &"mean of y\n".repeat(10_000), &global), "bytes"),
        (request(5, "mean of y", &global[1..]), "global"),
    ] {
        let error = ask(&wrong).unwrap_err();
        assert!(!matches!(error, Error::Panicked { .. }) && error.to_string().contains(words), "{words}: {error}");
    }
}
