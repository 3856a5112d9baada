//! Compares point estimation whose local steps stay on the device with that on the host, step for step, and counts its reads.

use fixtures::far;
use fixtures::worlds::{Visit, every_world};
use partita::inference::{Adam, DeviceAveragingSilo, FedOpt, InProcess, RmsProp, Sgd, Silo};
use partita::{AlgorithmChoice, Device, FedOptOptions, FitOptions, Model, Precision, Schedule, Settings, SiteTable};

use super::device_rounds::rounds_are_one_read_of_each_silo;
use super::on_device::{conjugate_fit, same_course, twins};

/// Local steps of a round, and rounds.
const STEPS: u64 = 12;
const ROUNDS: u64 = 3;

/// Whether a model has latents of rows, which point estimation refuses.
pub(super) fn has_latent_rows<M: Model>(model: &M, data: &M::Data, device: &Device) -> bool {
    SiteTable::of(model, device, data).unwrap().has_local_latents()
}

fn settings(settings: &Settings) -> Settings {
    Settings { steps: STEPS * ROUNDS, schedule: Schedule::Constant { rate: 0.02 }, ..settings.clone() }
}

/// Averaging by plain gradients, a proximal term with momentum and without a prior, and Adam in silos and server.
fn methods() -> [FedOptOptions; 3] {
    let proximal = FedOptOptions::fed_prox(STEPS, 0.3);
    let adaptive = FedOptOptions { silos_a_round: Some(1), ..FedOptOptions::fed_adam(STEPS, 0.05) };
    [
        FedOptOptions::fed_avg(STEPS),
        FedOptOptions { prior: false, optimiser: Sgd { momentum: 0.5 }.into(), ..proximal },
        FedOptOptions { optimiser: Adam::default().into(), ..adaptive },
    ]
}

struct SamePoints {
    compared: usize,
}

impl Visit for SamePoints {
    fn world<M: Model>(&mut self, name: &str, model: &M, data: &M::Data, own: &Settings) {
        let device = Device::flex();
        if has_latent_rows(model, data, &device) {
            return;
        }
        for how in methods() {
            let run = |on_device| {
                let how = FedOptOptions { on_device, ..how.clone() };
                twins((model, data), &device, AlgorithmChoice::FedOpt(how), &settings(own)).unwrap()
            };
            let (host, resident) = (run(false), run(true));
            same_course(&format!("{name}, {how:?}"), ["points", "rounds"], &resident, &host);
            self.compared += 1;
        }
    }
}

#[test]
fn points_on_the_device_take_the_steps_of_points_on_the_host_for_every_model_without_latents_of_rows() {
    let mut same = SamePoints { compared: 0 };
    every_world(&Device::flex(), &mut same);
    assert!(same.compared >= 15, "{} fits were compared", same.compared);
}

/// Where averaging by plain gradients leads in each world.
struct Points {
    device: Device,
    on_device: bool,
    found: Vec<(String, Vec<f64>)>,
}

impl Visit for Points {
    fn world<M: Model>(&mut self, name: &str, model: &M, data: &M::Data, own: &Settings) {
        if has_latent_rows(model, data, &self.device) {
            return;
        }
        let how = FedOptOptions { on_device: self.on_device, ..FedOptOptions::fed_avg(STEPS) };
        let fit = twins((model, data), &self.device, AlgorithmChoice::FedOpt(how), &settings(own)).unwrap();
        let posterior = fit.posterior();
        self.found.push((name.to_owned(), [posterior.parameters, posterior.theta].concat()));
    }
}

#[test]
fn points_in_single_precision_are_those_of_the_host_in_double_to_its_rounding() {
    let on = |device: Device, on_device| {
        let mut points = Points { device: device.clone(), on_device, found: Vec::new() };
        every_world(&device, &mut points);
        points.found
    };
    let single = on(Device::flex().with_precision(Precision::Single), true);
    for ((world, found), (_, expected)) in single.iter().zip(on(Device::flex(), false)) {
        // A step is 0.02 of a mean of some ten gradients: 36 of them sum up a few roundings of 6e-8 each.
        let far = far(found, &expected);
        assert!(far < 1e-5, "{world}: {far:e}");
    }
}

struct CountReads {
    counted: usize,
}

impl Visit for CountReads {
    fn world<M: Model>(&mut self, name: &str, model: &M, data: &M::Data, own: &Settings) {
        let (device, names) = (Device::flex(), ["north", "south"].map(str::to_owned));
        if has_latent_rows(model, data, &device) {
            return;
        }
        let how = FedOptOptions { on_device: true, ..FedOptOptions::fed_prox(STEPS, 0.1) };
        let settings = how.settings(settings(own));
        // A sum over rows is divided by their number: undivided, steps of this rate diverge in a network, on the host too.
        let mut algorithm = FedOpt::new(model, &device, &settings, &names, vec![40, 40], how).unwrap();
        let silo = |(name, index): (&String, u32)| {
            let silo = Silo::new(name, index, model, data, &device, &settings).unwrap();
            Box::new(DeviceAveragingSilo::of_points(silo, index).unwrap()) as _
        };
        let mut exchange = InProcess::new(names.iter().zip(0..).map(silo).collect(), 1).unwrap();
        rounds_are_one_read_of_each_silo(name, ROUNDS, &mut algorithm, &mut exchange);
        self.counted += 1;
    }
}

#[test]
fn a_round_of_points_is_one_read_of_each_silo() {
    let mut reads = CountReads { counted: 0 };
    every_world(&Device::flex(), &mut reads);
    assert!(reads.counted >= 5, "{} models were counted", reads.counted);
}

#[test]
fn what_has_no_device_form_is_refused_in_words() {
    let on_device = FedOptOptions { on_device: true, ..FedOptOptions::fed_avg(STEPS) };
    let algorithm = AlgorithmChoice::FedOpt(on_device.clone());
    let found = conjugate_fit(&FitOptions { algorithm, ..FitOptions::default() }).unwrap_err().to_string();
    assert!(found.contains("FedOpt for a model whose site"), "{found}");
    let device = Device::flex();
    let rows = fixtures::regression::silos(&[5], 2, false, &device).remove(0).1;
    let regression = fixtures::regression::Regression { columns: 2, binary: false };
    let how = FedOptOptions { optimiser: RmsProp { momentum: 0.0 }.into(), ..on_device };
    let found = twins((&regression, &rows), &device, AlgorithmChoice::FedOpt(how), &Settings::default());
    let found = found.unwrap_err().to_string();
    assert!(found.contains("RmsProp") && found.contains("Sgd"), "{found}");
}
