//! Holds the free energies that a silo samples to the tilted evidence less the divergence from the tilted density.

use std::sync::{Arc, Mutex};

use fixtures::message::with_floats;
use partita::inference::{
    Algorithm, ExponentialFamily, LocalProblem, LocalSolver, LocalUpdate, NormalFamily, Pvi, PviSilo, Result, Silo,
    SiloProgram, Solved, SolverState,
};
use partita::models::GaussianMean;
use partita::{Device, Estimator, FamilyPlan, Gaussian, PviOptions, Settings};

const OUTCOMES: [f64; 3] = [0.4, -1.1, 2.3];

/// Samples its problem at a mean and a standard deviation so many times, and keeps the free energies.
#[derive(Debug, Clone)]
struct Probe {
    standard: [f64; 2],
    steps: u64,
    found: Arc<Mutex<Vec<f64>>>,
}

impl LocalSolver for Probe {
    fn start(&self, _: &Settings, _: &Device) -> Box<dyn SolverState> {
        Box::new(self.clone())
    }
}

impl SolverState for Probe {
    fn solve(&mut self, problem: &mut dyn LocalProblem, update: &LocalUpdate) -> Result<Solved> {
        let parameters = [self.standard[0], self.standard[1].ln()];
        for step in 0..self.steps {
            self.found.lock().unwrap().push(problem.sample(&parameters, step, 0.0)?.free_energy);
        }
        let natural = vec![0.0, -0.5];
        Ok(Solved { natural, log_likelihood: 0.0, steps: update.steps, clipped: 0, shortened: 0 })
    }
}

/// Free energies of a density at so many steps, before a cavity of natural parameters.
fn free_energies(estimator: Estimator, cavity: &[f64], standard: [f64; 2], steps: u64) -> Vec<f64> {
    let (device, names) = (Device::flex(), ["a".to_owned()]);
    let family = FamilyPlan::new().global(Gaussian::diagonal());
    let settings = Settings { estimator, family, ..Settings::default() };
    let probe = Probe { standard, steps, found: Arc::default() };
    let options = PviOptions { solver: probe.clone().into(), ..PviOptions::new(1) };
    let outcomes = device.tensor(OUTCOMES.to_vec(), [OUTCOMES.len()]);
    let silo = Silo::new("a", 0, &GaussianMean {}, &outcomes, &device, &settings).unwrap();
    let mut silo = PviSilo::new(silo, 0, options.clone()).unwrap();
    let mut pvi = Pvi::new(&GaussianMean {}, &device, &settings, &names, vec![OUTCOMES.len()], options).unwrap();
    // The silo's factor is 1: what it is sent is its cavity.
    let request = pvi.outgoing().unwrap().remove(0).message;
    silo.answer(&with_floats(&request, "natural", cavity)).unwrap();
    probe.found.lock().unwrap().clone()
}

#[test]
fn a_sampled_free_energy_is_the_tilted_evidence_less_the_divergence_from_the_tilted_density() {
    let family = NormalFamily::diagonal(1);
    let size = OUTCOMES.len() as f64;
    let constant: f64 = OUTCOMES.iter().map(|y| -0.5 * std::f64::consts::TAU.ln() - 0.5 * y * y).sum();
    // A density as cavity, and a factor of negative precision.
    for cavity in [[0.3, -0.4], [-0.2, 0.5]] {
        let tilted = [cavity[0] + OUTCOMES.iter().sum::<f64>(), cavity[1] - 0.5 * size];
        let evidence = constant + family.log_partition(&tilted);
        let (mean, spread) = family.moments(&tilted);
        // Of the tilted density itself every draw says the same.
        let exact = [mean[0], spread.deviations()[0]];
        for found in free_energies(Estimator::StickingTheLanding, &cavity, exact, 20) {
            assert!((found - evidence).abs() < 1e-12 * evidence.abs(), "{found} against {evidence}");
        }
        for standard in [[0.0, 1.0], [1.2, 0.4], [-0.8, 0.9]] {
            let q = family.natural_of_standard(&standard).unwrap();
            let expected = evidence - family.kl_divergence(&q, &tilted);
            for estimator in [Estimator::StickingTheLanding, Estimator::ClosedFormEntropy] {
                // In closed form a density as cavity has its constant.
                let is_closed = estimator == Estimator::ClosedFormEntropy && cavity[1] < 0.0;
                let expected = expected - if is_closed { family.log_partition(&cavity) } else { 0.0 };
                let found = free_energies(estimator, &cavity, standard, 2_000);
                let mean = found.iter().sum::<f64>() / 2_000.0;
                let variance = found.iter().map(|own| (own - mean).powi(2)).sum::<f64>() / 1_999.0;
                let error = (variance / 2_000.0).sqrt();
                // A correct mean is farther off with probability 6e-7.
                assert!((mean - expected).abs() < 5.0 * error, "{mean} ± {error} against {expected}");
            }
        }
    }
}
