//! Compares the coordinator of partitioned inference with variational inference on pooled data for mixture likelihoods.

use partita::core::{Key, Noise, Purpose};
use partita::inference::{Expectation, NaturalGradient, Order};
use partita::{AlgorithmChoice, Device, FamilyPlan, FitOptions, Gaussian, PviOptions, Settings, SiloSchedule, fit};
use partita_studies::{Clutter, ClutterSettings};

/// The accuracy that the thesis page requires of exact local solutions, in posterior standard deviations.
const BOUND: f64 = 1e-5;

const LOCAL_STEPS: u64 = 20;

/// The sweeps of PVI, and its damping.
#[derive(Clone, Copy)]
struct Plan {
    schedule: SiloSchedule,
    damping: Option<f64>,
    exchanges: u64,
}

fn in_turn(exchanges: u64) -> Plan {
    Plan { schedule: SiloSchedule::Sequential(Order::Fixed), damping: None, exchanges }
}

/// Mean and standard deviation that PVI finds over silos of one size, by natural gradients with a rule of 40 points.
fn partitioned(clutter: &Clutter, x: &[f64], silos: usize, plan: Plan) -> [f64; 2] {
    let device = Device::flex();
    let parts = x.chunks_exact(x.len() / silos).map(|own| device.tensor(own.to_vec(), [own.len()]));
    let parts = fixtures::named(parts);
    assert_eq!(parts.len(), silos);
    let expectation = Expectation::GaussHermite { points: 40 };
    let solver = NaturalGradient { rate: 0.5, expectation }.into();
    let Plan { schedule, damping, exchanges } = plan;
    let how = PviOptions { solver, schedule, damping, ..PviOptions::new(LOCAL_STEPS) };
    let settings = Settings {
        steps: exchanges * LOCAL_STEPS,
        family: FamilyPlan::new().global(Gaussian::diagonal()),
        ..Settings::default()
    };
    let algorithm = AlgorithmChoice::Pvi(how);
    let options = FitOptions { algorithm, settings, elbo_draws: 1, summary_draws: 0, ..FitOptions::default() };
    let fitted = fit(clutter, &parts, &device, &options, None).unwrap();
    let (means, sds) = fixtures::moments(fitted.posterior());
    [means[0], sds[0]]
}

fn assert_pooled(settings: ClutterSettings, signal: f64, silos: usize, plan: Plan) {
    let clutter = Clutter::new(settings);
    let x = clutter.draw(signal, 40, &mut Noise::new(1).stream(Key::new(Purpose::Check, 0)));
    let pooled = clutter.variational(&x).unwrap();
    let sd = pooled.variance.sqrt();
    let found = partitioned(&clutter, &x, silos, plan);
    let off = [(found[0] - pooled.mean) / sd, (found[1] - sd) / sd];
    assert!(off.iter().all(|off| off.abs() < BOUND), "{silos} silos: {found:?} is off {pooled:?} by {off:?} sd");
}

#[test]
fn visits_in_turn_to_silos_of_clutter_find_variational_inference_on_all_of_it() {
    for (settings, signal) in [(ClutterSettings::near(), 2.0), (ClutterSettings::far(), 4.0)] {
        assert_pooled(settings, signal, 8, in_turn(8 * 6));
    }
}

#[test]
fn a_silo_for_each_number_finds_it_too() {
    assert_pooled(ClutterSettings::near(), 2.0, 40, in_turn(40 * 4));
}

#[test]
fn damped_rounds_over_silos_of_clutter_find_it_as_well() {
    let plan = Plan { schedule: SiloSchedule::Synchronous, damping: Some(0.5), exchanges: 25 };
    assert_pooled(ClutterSettings::near(), 2.0, 4, plan);
}
