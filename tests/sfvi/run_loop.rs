//! Holds the run loop to its contract: stopping, interruption, clipping, minibatches, optimisers, reproducibility.

use std::collections::BTreeMap;
use std::path::PathBuf;

use fixtures::cut::cut_and_resumed;
use fixtures::{conjugate, conjugate_silos, groups, latest_step, steps_shown, structured};
use partita::burn::tensor::Tensor;
use partita::inference::{
    Adam, AdamW, Algorithm, Counters, ElboSamples, Ending, Judging, Manifest, Message, Optimiser, Outcome, Plug,
    Posterior, Progress, Request, Result, RmsProp, RunRecord, Sfvi, Sgd, StepInfo, fit_parties, parties, start,
};
use partita::{
    AlgorithmChoice, Clip, Device, FamilyPlan, Fit, FitOptions, Gaussian, Metrics, RoundOptions, Schedule, Settings,
    fit,
};

fn silos() -> Vec<(String, Tensor<2>)> {
    conjugate_silos(&groups(20, 3), 2)
}

fn fitted(settings: Settings, change: impl FnOnce(&mut FitOptions)) -> Fit {
    let device = Device::flex();
    let mut options = FitOptions { settings: Settings { family: structured(), ..settings }, ..FitOptions::default() };
    change(&mut options);
    fit(&conjugate(), &silos(), &device, &options, None).unwrap()
}

#[test]
fn a_run_with_an_adaptive_rate_ends_at_the_posterior_before_its_limit() {
    let settings = Settings { steps: 30_000, schedule: Schedule::adaptive(), ..Settings::default() };
    let fit = fitted(settings, |_| {});
    assert_eq!(fit.report.ending, Ending::Converged);
    assert!(fit.report.gradient_steps < 30_000, "{} steps", fit.report.gradient_steps);
    let exact = conjugate().posterior(&groups(20, 3));
    assert!((fit.report.elbo - exact.log_evidence).abs() < 0.01, "stopped at {}", fit.report.elbo);
    let [mean, log_sd] = fit.posterior().parameters else { panic!("two parameters") };
    assert!((mean - exact.mean).abs() < 0.05 * exact.sd, "mean {mean}, exact {}", exact.mean);
    assert!((log_sd.exp() / exact.sd - 1.0).abs() < 0.05, "sd {}, exact {}", log_sd.exp(), exact.sd);
    assert!(fit.report.warnings.is_empty(), "{:?}", fit.report.warnings);
}

#[test]
fn a_run_that_reaches_its_limit_first_is_annealed_and_warns() {
    let fit = fitted(Settings { steps: 600, schedule: Schedule::adaptive(), ..Settings::default() }, |_| {});
    assert_eq!((fit.report.ending, fit.report.gradient_steps), (Ending::Completed, 600));
    assert!(fit.report.to_string().contains("limit of 600 steps"), "{}", fit.report);
    let exact = conjugate().posterior(&groups(20, 3));
    let mean = fit.posterior().parameters[0];
    assert!((mean - exact.mean).abs() < 0.1 * exact.sd, "mean {mean}, exact {}", exact.mean);
}

#[test]
fn an_interrupted_run_ends_cleanly_with_what_was_reached_and_resumes() {
    let device = Device::flex();
    let settings = Settings { steps: 300, family: structured(), ..Settings::default() };
    let options = FitOptions { settings, ..FitOptions::default() };
    let run = |options: &FitOptions, progress: Option<&mut dyn Progress>| {
        fit(&conjugate(), &silos(), &device, options, progress).unwrap()
    };
    let ([cut, resumed], whole) = (cut_and_resumed(&options, [137, 100], run), run(&options, None));
    assert_eq!((cut.report.ending, cut.report.gradient_steps), (Ending::Interrupted, 137));
    assert!(cut.report.to_string().contains("interrupted"));
    assert_eq!(resumed.posterior().parameters, whole.posterior().parameters);
    assert_eq!(resumed.record.counters, whole.record.counters);
}

/// The files of a run of several steps an exchange after each exchange.
struct Written {
    metrics: Metrics,
    checkpoints: PathBuf,
    /// The step of each exchange, and that of the latest checkpoint before it.
    seen: Vec<(u64, Option<u64>)>,
    ends: usize,
    judging: Vec<Judging>,
    found: Vec<(u64, f64)>,
}

impl Progress for Written {
    fn step(&mut self, info: &StepInfo, counters: &Counters) {
        self.metrics.step(info, counters);
        self.seen.push((info.step, latest_step(&self.checkpoints)));
    }
    fn end(&mut self, record: &RunRecord) {
        self.metrics.end(record);
        self.ends += 1;
    }
    fn judging(&mut self, stage: Judging) {
        self.metrics.judging(stage);
        assert_eq!(self.ends, 1, "before the end of the run");
        self.judging.push(stage);
    }
    fn found(&mut self, steps: u64, bound: f64) {
        self.metrics.found(steps, bound);
        assert_eq!(self.judging.last(), Some(&Judging::Over), "before the verdict");
        self.found.push((steps, bound));
    }
}

#[test]
fn exchanges_of_three_steps_write_checkpoints_and_metrics_whenever_they_pass_a_multiple_of_four() {
    let folder = tempfile::tempdir().unwrap();
    let (lines, checkpoints) = (folder.path().join("metrics.jsonl"), folder.path().join("checkpoints"));
    let device = Device::flex();
    let options = FitOptions {
        algorithm: AlgorithmChoice::SfviAvg(RoundOptions::paper(3)),
        settings: Settings { steps: 27, family: structured(), ..Settings::default() },
        checkpoint: Some((checkpoints.clone(), 4)),
        ..FitOptions::default()
    };
    let metrics = Metrics::new(27, Some(&lines), 4).unwrap();
    let (seen, judging, found) = (Vec::new(), Vec::new(), Vec::new());
    let mut written = Written { metrics, checkpoints: checkpoints.clone(), seen, ends: 0, judging, found };
    let report = fit(&conjugate(), &silos(), &device, &options, Some(&mut written)).unwrap().report;
    // What is told last is what the report says, and not a smoothed number of the last steps.
    assert_eq!(written.found, [(report.gradient_steps, report.elbo)]);
    assert!(report.gradient_steps == 27 && report.elbo.is_finite(), "{report}");
    // 4, 8, 12, 16, 20 and 24 are passed at 6, 9, 12, 18, 21 and 24; the end always has a checkpoint.
    let before = [None, None, Some(6), Some(9), Some(12), Some(12), Some(18), Some(21), Some(24)];
    let expected: Vec<_> = (1..=9).map(|exchange| 3 * exchange).zip(before).collect();
    assert_eq!((written.seen, written.ends), (expected, 1));
    let (over, looks) = written.judging.split_last().unwrap();
    let in_turn: Vec<Judging> = (1..=looks.len() as u64).map(Judging::Look).collect();
    assert_eq!((*over, looks, looks.is_empty()), (Judging::Over, &*in_turn, false));
    assert_eq!(latest_step(&checkpoints), Some(27));
    assert_eq!(steps_shown(&lines), [6, 9, 12, 18, 21, 24]);
}

#[test]
fn clipping_is_counted_and_reported_when_it_acts_and_only_then() {
    let steps = |norm| {
        let settings = Settings { steps: 50, clip: Some(Clip { norm }), ..Settings::default() };
        let report = fitted(settings, |_| {}).report;
        (report.clipped_steps, report.to_string().contains("clipped"))
    };
    assert_eq!(steps(1e9), (0, false));
    let (clipped, said) = steps(1e-3);
    assert!(clipped > 0 && said);
    // Of rounds of local steps every step counts, not every round.
    let settings = Settings { steps: 50, clip: Some(Clip { norm: 1e-3 }), ..Settings::default() };
    let algorithm = AlgorithmChoice::SfviAvg(RoundOptions::paper(10));
    let report = fitted(settings, |options| options.algorithm = algorithm).report;
    assert!(report.clipped_steps > 10 * 4, "{report}");
}

#[test]
fn minibatches_inside_silos_recover_the_exact_posterior() {
    let settings = Settings {
        steps: 12_000,
        minibatch: BTreeMap::from([("group".to_owned(), 4)]),
        schedule: Schedule::Cosine { initial: 0.03, last: 0.0 },
        ..Settings::default()
    };
    let fit = fitted(settings, |_| {});
    let exact = conjugate().posterior(&groups(20, 3));
    let [mean, log_sd] = fit.posterior().parameters else { panic!("two parameters") };
    // Subsampling noise does not vanish at the posterior; the cosine decay averages it out to this.
    assert!((mean - exact.mean).abs() < 0.1 * exact.sd, "mean {mean}, exact {}", exact.mean);
    assert!((log_sd.exp() / exact.sd - 1.0).abs() < 0.1, "sd {}, exact {}", log_sd.exp(), exact.sd);
}

#[test]
fn every_optimiser_recovers_the_posterior_mean() {
    let exact = conjugate().posterior(&groups(20, 3));
    let optimisers = [
        (Plug::<dyn Optimiser>::from(Adam::default()), 0.05),
        (AdamW { weight_decay: 1e-6 }.into(), 0.05),
        (RmsProp { momentum: 0.0 }.into(), 0.02),
        (Sgd { momentum: 0.9 }.into(), 0.0005),
    ];
    for (optimiser, rate) in optimisers {
        let schedule = Schedule::Cosine { initial: rate, last: 0.0 };
        let fit =
            fitted(Settings { steps: 4_000, optimiser: optimiser.clone(), schedule, ..Settings::default() }, |_| {});
        let mean = fit.posterior().parameters[0];
        assert!((mean - exact.mean).abs() < 0.1 * exact.sd, "{optimiser:?}: {mean} against {}", exact.mean);
    }
}

#[test]
fn every_optimiser_resumes_to_the_same_bits() {
    let device = Device::flex();
    let optimisers = [
        Plug::<dyn Optimiser>::from(Adam::default()),
        AdamW { weight_decay: 0.01 }.into(),
        RmsProp { momentum: 0.5 }.into(),
        Sgd { momentum: 0.9 }.into(),
    ];
    let minibatches = [BTreeMap::new(), BTreeMap::from([("group".to_owned(), 4)])];
    let cases =
        optimisers.into_iter().flat_map(|optimiser| minibatches.iter().map(move |batch| (optimiser.clone(), batch)));
    for (optimiser, minibatch) in cases {
        let settings = Settings {
            steps: 60,
            optimiser: optimiser.clone(),
            schedule: Schedule::Constant { rate: 1e-3 },
            family: structured(),
            minibatch: minibatch.clone(),
            ..Settings::default()
        };
        let options = FitOptions { settings, elbo_draws: 2, summary_draws: 2, ..FitOptions::default() };
        let run = |options: &FitOptions, progress: Option<&mut dyn Progress>| {
            fit(&conjugate(), &silos(), &device, options, progress).unwrap()
        };
        let ([_, resumed], whole) = (cut_and_resumed(&options, [23, 1_000], run), run(&options, None));
        assert_eq!(resumed.posterior().parameters, whole.posterior().parameters, "{optimiser:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_bits_and_another_seed_others() {
    let bits = |seed| {
        let fit = fitted(Settings { steps: 40, seed, ..Settings::default() }, |_| {});
        fit.posterior().parameters.iter().map(|value| value.to_bits()).collect::<Vec<_>>()
    };
    assert_eq!(bits(5), bits(5));
    assert_ne!(bits(5), bits(6));
}

#[test]
fn counters_add_up_to_the_bytes_of_the_messages() {
    let fit = fitted(Settings { steps: 10, ..Settings::default() }, |options| {
        options.elbo_draws = 128;
        options.trust_draws = Some(0);
    });
    let Counters { rounds, messages, gradient_steps, bytes_to_silos, .. } = fit.record.counters;
    // Ten steps, and two requests of 64 draws for the reported bound; two silos, two ways.
    assert_eq!((rounds, messages, gradient_steps), (12, 48, 10));
    let mut algorithm = fit.algorithm;
    let size = |requests: Vec<partita::inference::Request>| requests[0].message.encode().len() as u64;
    let (step, evaluated) = (size(algorithm.outgoing().unwrap()), size(algorithm.elbo_requests(64, 0)));
    assert_eq!(bytes_to_silos, 2 * (10 * step + 2 * evaluated));
}

#[test]
fn threads_of_the_settings_are_kept_and_others_divided_among_silos() {
    let threads = |own: Option<usize>, all: usize| {
        let settings = Settings { threads: own, steps: 1, ..Settings::default() };
        fitted(settings, |options| options.threads = all).report.options.threads
    };
    assert_eq!(threads(Some(3), 1), Some(3));
    assert_eq!(threads(None, 8), Some(4));
    assert_eq!(threads(None, 1), Some(1));
    let settings = Settings { family: structured(), ..Settings::default() };
    let options = FitOptions { settings, threads: 0, ..FitOptions::default() };
    let device = Device::flex();
    assert!(fit(&conjugate(), &silos(), &device, &options, None).is_err());
}

#[test]
fn steps_taken_one_by_one_are_those_of_a_fit() {
    let device = Device::flex();
    let settings = Settings { steps: 20, family: structured(), ..Settings::default() };
    let options =
        FitOptions { settings, elbo_draws: 2, summary_draws: 0, trust_draws: Some(0), ..FitOptions::default() };
    let fitted = fit(&conjugate(), &silos(), &device, &options, None).unwrap();
    let mut run = start(&conjugate(), &silos(), &device, &options).unwrap();
    for number in 1..=20 {
        assert_eq!(run.step().unwrap().step, number);
    }
    assert_eq!(run.posterior().parameters, fitted.posterior().parameters);
    assert_eq!(run.elbo().unwrap().elbo.to_bits(), fitted.report.elbo.to_bits());
    assert_eq!(run.counters().bytes_from_silos, fitted.record.counters.bytes_from_silos);
}

/// A method of a user's own, which does as SFVI does.
struct Mine(Sfvi);

impl Algorithm for Mine {
    fn outgoing(&mut self) -> Result<Vec<Request>> {
        self.0.outgoing()
    }
    fn incoming(&mut self, outcomes: Vec<Outcome>) -> Result<StepInfo> {
        self.0.incoming(outcomes)
    }
    fn elbo_requests(&self, draws: usize, offset: u64) -> Vec<Request> {
        self.0.elbo_requests(draws, offset)
    }
    fn elbo_samples(&self, outcomes: Vec<Outcome>, draws: usize, offset: u64) -> Result<ElboSamples> {
        self.0.elbo_samples(outcomes, draws, offset)
    }
    fn manifest(&self) -> &Manifest {
        self.0.manifest()
    }
    fn posterior(&self) -> Posterior<'_> {
        self.0.posterior()
    }
    fn save(&self) -> Message {
        self.0.save()
    }
    fn load(&mut self, state: &Message) -> Result<()> {
        self.0.load(state)
    }
}

#[test]
fn the_report_of_a_method_of_ones_own_has_its_name_and_its_family() {
    let device = Device::flex();
    let names = ["silo-0", "silo-1"].map(str::to_owned);
    let settings = Settings { steps: 2, family: structured(), ..Settings::default() };
    let how = FitOptions { settings: settings.clone(), elbo_draws: 2, ..FitOptions::default() };
    let (mut sfvi, mut exchange) = parties(&conjugate(), &silos(), &device, &how).unwrap();
    let ours = fit_parties(&conjugate(), &device, &how, &mut *sfvi, &mut exchange, None).unwrap().report;
    assert_eq!(ours.algorithm, "Sfvi");

    let (_, mut exchange) = parties(&conjugate(), &silos(), &device, &how).unwrap();
    let mut mine = Mine(Sfvi::new(&conjugate(), &device, &settings, &names).unwrap());
    let report = fit_parties(&conjugate(), &device, &how, &mut mine, &mut exchange, None).unwrap().report;
    assert_eq!((report.algorithm, report.families), ("Mine".into(), ours.families));

    // Options that name another family than the method has.
    let family = FamilyPlan::new().global(Gaussian::isotropic());
    let other = FitOptions { settings: Settings { family, ..settings }, ..how.clone() };
    let (_, mut exchange) = parties(&conjugate(), &silos(), &device, &how).unwrap();
    let mut mine = Mine(Sfvi::new(&conjugate(), &device, &how.settings, &names).unwrap());
    let report = fit_parties(&conjugate(), &device, &other, &mut mine, &mut exchange, None).unwrap().report;
    assert_eq!(report.families[0].family, format!("{:?}", mine.posterior().family));
}
