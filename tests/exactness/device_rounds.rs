//! Compares rounds whose local steps stay on the device with those on the host, step for step, and counts their reads.

use fixtures::far;
use fixtures::worlds::{Visit, every_world};
use partita::core::host_reads;
use partita::inference::{
    Algorithm, AveragingSilo, DeviceAveragingSilo, Exchange, InProcess, Outcome, ParameterMean, SfviAvg, Silo,
    SiloProgram, StartFrom,
};
use partita::{AlgorithmChoice, Clip, Device, FitOptions, Model, RoundOptions, Schedule, Settings};

use super::on_device::{conjugate_fit, flat, goes_on_to_the_same_bits, same_course, same_ends, twins};

/// Local steps of a round, and rounds.
const STEPS: u64 = 12;
const ROUNDS: u64 = 3;

fn rounds(on_device: bool) -> RoundOptions {
    // A barycentre wants covariances, which point masses have not.
    RoundOptions { scale_entropy: true, averaging: ParameterMean.into(), on_device, ..RoundOptions::paper(STEPS) }
}

struct SameRounds;

impl Visit for SameRounds {
    fn world<M: Model>(&mut self, name: &str, model: &M, data: &M::Data, settings: &Settings) {
        for (schedule, keep_optimiser) in
            [(Schedule::cosine(), false), (Schedule::cosine(), true), (Schedule::adaptive(), false)]
        {
            // After a start at a mode the host has coordinates of the covariance, and the device units.
            let (steps, start) = (STEPS * ROUNDS, StartFrom::Declared);
            let settings = Settings { steps, start, schedule, ..settings.clone() };
            let run = |on_device| {
                let how = RoundOptions { keep_optimiser, ..rounds(on_device) };
                twins((model, data), &Device::flex(), AlgorithmChoice::SfviAvg(how), &settings).unwrap()
            };
            let (mut host, mut device) = (run(false), run(true));
            let at = format!("{name}, {schedule:?}, {keep_optimiser}");
            same_course(&at, ["parameters", "rounds"], &device, &host);
            same_ends(&at, &mut device, &mut host);
        }
    }
}

#[test]
fn rounds_on_the_device_take_the_steps_of_rounds_on_the_host_for_every_model() {
    every_world(&Device::flex(), &mut SameRounds);
}

/// A coordinator of two silos, and the exchange with them.
fn parties<M: Model>(model: &M, data: &M::Data, settings: &Settings) -> (SfviAvg, InProcess) {
    let (device, names) = (Device::flex(), ["north", "south"].map(str::to_owned));
    let settings = Settings { steps: STEPS * ROUNDS, ..settings.clone() };
    let algorithm = SfviAvg::new(model, &device, &settings, &names, vec![1, 1], rounds(true)).unwrap();
    let silo = |(name, index): (&String, u32)| {
        let silo = Silo::new(name, index, model, data, &device, &settings).unwrap();
        Box::new(DeviceAveragingSilo::new(silo, index).unwrap()) as _
    };
    (algorithm, InProcess::new(names.iter().zip(0..).map(silo).collect(), 1).unwrap())
}

/// Counts the reads of rounds of two silos.
pub(super) fn rounds_are_one_read_of_each_silo(
    name: &str,
    rounds: u64,
    algorithm: &mut impl Algorithm,
    exchange: &mut InProcess,
) {
    for round in 1..=rounds {
        let before = host_reads();
        let outcomes = exchange.exchange(algorithm.outgoing().unwrap(), algorithm.manifest(), None).unwrap();
        assert_eq!(host_reads() - before, 2, "{name}: one read of each silo in round {round}");
        algorithm.incoming(outcomes).unwrap();
    }
}

struct CountReads;

impl Visit for CountReads {
    fn world<M: Model>(&mut self, name: &str, model: &M, data: &M::Data, settings: &Settings) {
        let (mut algorithm, mut exchange) = parties(model, data, settings);
        rounds_are_one_read_of_each_silo(name, ROUNDS, &mut algorithm, &mut exchange);
    }
}

#[test]
fn a_round_is_one_read_of_each_silo() {
    every_world(&Device::flex(), &mut CountReads);
}

fn options() -> FitOptions {
    FitOptions {
        algorithm: AlgorithmChoice::SfviAvg(rounds(true)),
        settings: Settings { steps: STEPS * ROUNDS, family: fixtures::structured(), ..Settings::default() },
        elbo_draws: 2,
        summary_draws: 2,
        private_seed: Some(7),
        ..FitOptions::default()
    }
}

#[test]
fn a_run_cut_between_rounds_goes_on_to_the_same_bits() {
    goes_on_to_the_same_bits(&options(), STEPS);
}

#[test]
fn a_seed_of_the_silo_s_own_is_that_of_its_noise_on_the_device_too() {
    let run = |on_device, private_seed| {
        let algorithm = AlgorithmChoice::SfviAvg(rounds(on_device));
        conjugate_fit(&FitOptions { algorithm, private_seed, ..options() }).unwrap().posterior().parameters.to_vec()
    };
    assert!(far(&run(true, Some(7)), &run(false, Some(7))) < 1e-9);
    assert!(far(&run(true, Some(7)), &run(true, Some(8))) > 1e-6);
}

#[test]
fn rules_forget_on_the_device_as_they_do_on_the_host_where_rounds_were_undone() {
    let (device, model, settings) = (Device::flex(), fixtures::conjugate(), options().settings);
    let data = fixtures::ConjugateGaussian::data(&fixtures::groups(6, 3), &device).unwrap();
    let (names, how) = (["north".to_owned()], RoundOptions { keep_optimiser: true, ..rounds(true) });
    let mut algorithm = SfviAvg::new(&model, &device, &settings, &names, vec![6], how).unwrap();
    let silo = || Silo::new("north", 0, &model, &data, &device, &settings).unwrap();
    let (mut host, mut own) = (AveragingSilo::new(silo(), 0), DeviceAveragingSilo::new(silo(), 0).unwrap());
    for round in 0..ROUNDS {
        let plain = algorithm.outgoing().unwrap().remove(0).message;
        let request = if round == 1 { plain.word("undone", 1) } else { plain };
        let answer = host.answer(&request).unwrap();
        let [found, expected] =
            [&own.answer(&request).unwrap(), &answer].map(|answer| answer.get_floats("global").unwrap());
        assert!(far(&found, &expected) < 1e-9, "round {round}: {found:?} {expected:?}");
        algorithm.incoming(vec![Outcome::Reply(answer)]).unwrap();
    }
    assert!(far(&flat(own.local_moments().unwrap()), &flat(host.local_moments().unwrap())) < 1e-9);
}

#[test]
fn what_has_no_device_form_is_refused_in_words() {
    let mut clipped = options();
    clipped.settings.clip = Some(Clip { norm: 1.0 });
    let error = conjugate_fit(&clipped).unwrap_err().to_string();
    assert!(error.contains("clip") && error.contains("device"), "{error}");
}

#[test]
fn a_plain_step_after_rounds_on_the_device_begins_at_its_local_posterior() {
    let run = |on_device| {
        let algorithm = AlgorithmChoice::SfviAvg(RoundOptions { most: Some(1), ..rounds(on_device) });
        let settings = Settings { steps: STEPS + 1, ..options().settings };
        let fit = conjugate_fit(&FitOptions { algorithm, settings, ..options() }).unwrap();
        fit.record.trace.iter().map(|(_, bound)| *bound).collect::<Vec<_>>()
    };
    let (device, host) = (run(true), run(false));
    assert_eq!(device.len(), 2, "a round and a step");
    // The bound of the step is of the posterior before it.
    assert!(far(&device, &host) < 1e-9, "{device:?} {host:?}");
}
