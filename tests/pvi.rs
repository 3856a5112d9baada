//! Holds partitioned variational inference to what must be exact: conjugate posteriors, invariants, special cases.
#![allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]

mod fixtures;

use fixtures::regression::{Regression, Rows, silos};
use partita::inference::{Algorithm, Delays, Order, Pvi, PviSilo, Silo, SiloProgram};
use partita::{Device, FamilyPlan, Gaussian, Model, PviOptions, Settings, SolverChoice, VisitSchedule};

/// Differences and sums of natural parameters of size up to 1e3 in double precision.
const ROUNDING: f64 = 1e-12;

const LINEAR: Regression = Regression { columns: 3, binary: false };

fn close(found: &[f64], expected: &[f64], bound: f64) {
    assert_eq!(found.len(), expected.len());
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() <= bound * (1.0 + b.abs()), "{found:?} against {expected:?}");
    }
}

/// The exact posterior of a linear regression with standard normal prior and unit noise, in natural parameters.
fn exact(data: &[(String, Rows)], columns: usize) -> Vec<f64> {
    let (mut linear, mut precision) = (vec![0.0; columns], vec![0.0; columns * columns]);
    (0..columns).for_each(|column| precision[column * columns + column] = 1.0);
    for (_, rows) in data {
        for (x, y) in rows.design.chunks_exact(columns).zip(&rows.outcomes) {
            for i in 0..columns {
                linear[i] += x[i] * y;
                (0..columns).for_each(|j| precision[i * columns + j] += x[i] * x[j]);
            }
        }
    }
    let pairs = (0..columns).flat_map(|i| (0..=i).map(move |j| (i, j)));
    let second = pairs.map(|(i, j)| if i == j { -0.5 } else { -1.0 } * precision[i * columns + j]);
    linear.into_iter().chain(second).collect()
}

/// Parties of a run that tests advance exchange by exchange.
struct Run<M: Model> {
    pvi: Pvi<M>,
    silos: Vec<PviSilo<M>>,
}

impl<M: Model + 'static> Run<M> {
    fn new(model: &M, data: &[(String, M::Data)], settings: &Settings, options: PviOptions) -> Self {
        let device = Device::flex();
        let names: Vec<String> = data.iter().map(|(name, _)| name.clone()).collect();
        let silo = |((name, data), index): (&(String, M::Data), u32)| {
            let silo = Silo::new(name, index, model, data, &device, settings).unwrap();
            PviSilo::new(silo, index, options).unwrap()
        };
        let silos = data.iter().zip(0..).map(silo).collect();
        let sizes = vec![1; names.len()];
        Self { pvi: Pvi::new(model, &device, settings, (&names, sizes), options).unwrap(), silos }
    }

    fn step(&mut self) {
        let requests = self.pvi.outgoing().unwrap();
        let answer = |request: partita::inference::Request| {
            partita::inference::Outcome::Reply(self.silos[request.silo].answer(&request.message).unwrap())
        };
        let outcomes = requests.into_iter().map(answer).collect();
        self.pvi.incoming(outcomes).unwrap();
    }
}

fn settings(steps: u64) -> Settings {
    Settings { steps, family: FamilyPlan::new().global(Gaussian::full_rank()), ..Settings::default() }
}

fn conjugate_options(schedule: VisitSchedule) -> PviOptions {
    PviOptions { schedule, solver: SolverChoice::Conjugate, ..PviOptions::new(1) }
}

#[test]
fn one_undamped_sweep_or_round_recovers_a_conjugate_posterior_for_every_schedule() {
    let device = Device::flex();
    let data = silos(&[5, 12, 7, 20], 3, false, &device);
    let expected = exact(&data, 3);
    let delays = Delays { longest: 3.0, ..Delays::default() };
    for (schedule, exchanges) in [
        (VisitSchedule::Sequential(Order::Fixed), 4),
        (VisitSchedule::Sequential(Order::Random), 4),
        (VisitSchedule::Sequential(Order::Residual), 4),
        (VisitSchedule::Synchronous, 1),
        (VisitSchedule::Subset(2), 16),
        (VisitSchedule::Asynchronous(delays), 40),
    ] {
        let options = PviOptions { damping: Some(1.0), ..conjugate_options(schedule) };
        let mut run = Run::new(&LINEAR, &data, &settings(100), options);
        (0..exchanges).for_each(|_| run.step());
        close(run.pvi.natural(), &expected, ROUNDING);
        assert!(run.pvi.discrepancy() < ROUNDING);
    }
}
