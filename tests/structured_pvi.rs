//! Asks whether silos can keep local latents while their factors on the globals are partitioned: exactly, and on six cities.
#![allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]

mod fixtures;

use fixtures::{conjugate, groups, six_cities_data, six_cities_family, six_cities_model, split, structured};
use partita::inference::GradientDescent;
use partita::models::{ConjugateGaussian, MixedLogistic};
use partita::{
    AlgorithmChoice, Device, Fit, FitOptions, PviOptions, Schedule, Settings, SolverChoice, VisitSchedule, fit,
};

fn six_cities(how: PviOptions, steps: u64, initial: f64, particles: usize) -> Fit {
    let device = Device::flex();
    let data = six_cities_data(2, &device).into_iter().enumerate();
    let silos: Vec<_> = data.map(|(index, data)| (format!("silo-{index}"), data)).collect();
    let schedule = Schedule::Cosine { initial, last: 0.0 };
    let settings = Settings { steps, schedule, particles, family: six_cities_family(), ..Settings::default() };
    let options = FitOptions { algorithm: AlgorithmChoice::Pvi(how), settings, ..FitOptions::default() };
    fit(&six_cities_model(), &silos, &device, &options, None).unwrap()
}

#[test]
fn trial() {
    for (name, local, rounds, schedule, damping, particles, initial) in [
        ("seq p4", 1000, 12, VisitSchedule::Sequential(partita::inference::Order::Fixed), None, 4, 0.02),
        ("sync p4", 1000, 10, VisitSchedule::Synchronous, None, 4, 0.02),
        ("sync p10", 500, 10, VisitSchedule::Synchronous, None, 10, 0.05),
        ("sync p10 rho1", 500, 6, VisitSchedule::Synchronous, Some(1.0), 10, 0.05),
        ("sync p1 rho1 2000", 2000, 6, VisitSchedule::Synchronous, Some(1.0), 1, 0.02),
    ] {
        let how = PviOptions { schedule, damping, ..PviOptions::new(local) };
        let start = std::time::Instant::now();
        let fit = six_cities(how, local * rounds, initial, particles);
        println!("{name} {local} x {rounds}: {:.2?}\n{}", start.elapsed(), fit.report);
        for (step, bound) in fit.record.trace.iter().take(12) {
            print!("{step}:{bound:.2} ");
        }
        println!();
    }
}
