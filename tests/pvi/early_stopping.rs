//! Holds early stopping of local problems to its rule, step by step, on objectives given in advance.

use partita::core::{Key, Noise, Purpose};
use partita::inference::{
    DiagonalGaussian, EarlyStop, Error, ExponentialFamily, Family, GradientDescent, LocalProblem, LocalSolver,
    LocalUpdate, Monitor, NormalFamily, Result, Sampled, Sgd, Solved, SolverState, Start,
};
use partita::{Device, PviOptions, Schedule, Settings};

/// The free energy and expected log likelihood of a local update at each step; the mean increases by one a step.
struct Scripted {
    family: DiagonalGaussian,
    natural: NormalFamily,
    script: Vec<[f64; 2]>,
    /// The points of the steps.
    seen: Vec<Vec<f64>>,
}

impl Scripted {
    fn new(script: &[[f64; 2]]) -> Self {
        let (family, natural) = (DiagonalGaussian::new(1), NormalFamily::diagonal(1));
        Self { family, natural, script: script.to_vec(), seen: Vec::new() }
    }

    /// A visit of so many steps from a mean and a standard deviation: what was found, and the mean of it.
    fn visit(&mut self, solver: &mut dyn SolverState, from: [f64; 2], steps: u64) -> (Solved, f64) {
        let received = self.natural.natural_of_standard(&from).unwrap();
        let solved =
            solver.solve(self, &LocalUpdate { received, is_prior: false, first: 0, steps, total: 1_000 }).unwrap();
        let mean = self.natural.moments(&solved.natural).0[0];
        (solved, mean)
    }
}

impl LocalProblem for Scripted {
    fn family(&self) -> &dyn Family {
        &self.family
    }

    fn natural_family(&self) -> &NormalFamily {
        &self.natural
    }

    fn initial(&self) -> Vec<f64> {
        self.family.initial(0.1)
    }

    fn cavity(&self) -> &[f64] {
        &[0.0, -0.5]
    }

    fn noise(&self, step: u64) -> (Noise, Key) {
        (Noise::new(1), Key::new(Purpose::Check, step))
    }

    fn sample(&mut self, parameters: &[f64], step: u64, _: f64) -> Result<Sampled> {
        self.seen.push(parameters.to_vec());
        let [free_energy, log_likelihood] = self.script[usize::try_from(step).unwrap()];
        Ok(Sampled { free_energy, log_likelihood, gradient: vec![-1.0, 0.0] })
    }

    fn log_likelihood(&mut self, _: &[f64], _: u64) -> Result<(f64, Vec<f64>)> {
        unreachable!("gradient descent samples")
    }
}

/// Windows of two steps with these means, whose single steps suggest the opposite.
fn windows(means: &[[f64; 2]]) -> Vec<[f64; 2]> {
    means.iter().flat_map(|[free, log]| [[free - 100.0, log + 100.0], [free + 100.0, log - 100.0]]).collect()
}

fn solver(start: Start, monitor: Monitor, patience: u64) -> Box<dyn SolverState> {
    let stop = Some(EarlyStop { monitor, window: 2, patience });
    let settings = Settings {
        optimiser: Sgd { momentum: 0.0 }.into(),
        schedule: Schedule::Constant { rate: 1.0 },
        ..Settings::default()
    };
    GradientDescent { start, stop, ..GradientDescent::default() }.start(&settings, &Device::flex())
}

/// Free energies are best in the third window. Log likelihoods are best in the first, except for the sixth, which is
/// too late for a short patience.
const MEANS: [[f64; 2]; 8] =
    [[1.0, 7.0], [2.0, 5.0], [9.0, 6.0], [8.0, 4.0], [9.0, 3.0], [7.0, 9.0], [6.0, 2.0], [5.0, 1.0]];

/// Sums of a few numbers of size 100.
const ROUNDING: f64 = 1e-12;

#[test]
fn a_visit_stops_after_so_many_windows_without_a_new_best_and_goes_back_to_the_best() {
    let script = windows(&MEANS);
    // (the quantity watched, patience) and (steps taken, the best window).
    for (monitor, patience, steps, best) in [
        (Monitor::FreeEnergy, 1, 8, 3),
        // A window as good as the best is not a new best.
        (Monitor::FreeEnergy, 2, 10, 3),
        (Monitor::FreeEnergy, 5, 16, 3),
        (Monitor::LogLikelihood, 1, 4, 1),
        (Monitor::LogLikelihood, 4, 10, 1),
        (Monitor::LogLikelihood, 5, 16, 6),
    ] {
        let mut problem = Scripted::new(&script);
        let (solved, mean) = problem.visit(&mut *solver(Start::Received, monitor, patience), [0.5, 0.7], 16);
        let case = format!("{monitor:?}, patience {patience}");
        assert_eq!((solved.steps, problem.seen.len()), (steps, steps as usize), "{case}");
        assert!((mean - (0.5 + 2.0 * f64::from(best))).abs() < ROUNDING, "{case}: {mean}");
        let expected = MEANS[best as usize - 1][1];
        assert!((solved.log_likelihood - expected).abs() < ROUNDING, "{case}: {}", solved.log_likelihood);
    }
}

#[test]
fn a_visit_that_runs_out_of_steps_gives_the_best_windows_parameters_with_their_own_log_likelihood() {
    let script = windows(&MEANS);
    // The last window of nine steps is incomplete, and does not count.
    for steps in [8, 9] {
        let mut problem = Scripted::new(&script);
        let (solved, mean) = problem.visit(&mut *solver(Start::Received, Monitor::FreeEnergy, 5), [0.0, 1.0], steps);
        assert_eq!(solved.steps, steps);
        assert!((mean - 6.0).abs() < ROUNDING && (solved.log_likelihood - 6.0).abs() < ROUNDING, "{mean}, {solved:?}");
    }
}

#[test]
fn every_visit_watches_anew_and_starts_tight_at_the_means_received() {
    let deviation = 0.03;
    let mut solver = solver(Start::Tight { deviation }, Monitor::FreeEnergy, 1);
    let mut problem = Scripted::new(&windows(&MEANS));
    let (first, mean) = problem.visit(&mut *solver, [0.5, 2.0], 16);
    assert_eq!(first.steps, 8);
    assert!((mean - 6.5).abs() < ROUNDING, "{mean}");
    // All of it is worse than in the first local update: each has its own best.
    problem.script = windows(&[[-5.0, 0.0], [-4.0, 0.0], [-6.0, 0.0], [0.0, 0.0]]);
    let (second, mean) = problem.visit(&mut *solver, [6.5, 1.5], 8);
    assert_eq!(second.steps, 6);
    assert!((mean - 10.5).abs() < ROUNDING, "{mean}");
    for (start, expected) in [(0, 0.5), (8, 6.5)] {
        let start = &problem.seen[start];
        assert!((start[0] - expected).abs() < ROUNDING && (start[1] - deviation.ln()).abs() < ROUNDING, "{start:?}");
    }
}

#[test]
fn a_window_longer_than_a_visit_is_refused() {
    let options = |window, local_steps| {
        let stop = Some(EarlyStop { monitor: Monitor::FreeEnergy, window, patience: 1 });
        let solver = GradientDescent { stop, ..GradientDescent::default() }.into();
        PviOptions { solver, ..PviOptions::new(local_steps) }
    };
    assert!(options(30, 30).check().is_ok());
    match options(31, 30).check() {
        Err(Error::Setting { setting: "early stop", found, .. }) => {
            assert!(found.contains("31") && found.contains("30"), "{found}");
        }
        other => panic!("{other:?}"),
    }
}
