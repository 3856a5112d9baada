//! Plants faults in models: each line that `check` prints fails for the fault that it is for, and for no right model.

use std::sync::atomic::{AtomicU32, Ordering};

use partita::burn::{module::Module, tensor::Tensor};
use partita::inference::{CheckReport, Error, check_pooled};
use partita::{Device, Model, Normal, Result, Scope, check};

/// What is wrong with the model.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// A density of the globals in `local`: there once a silo.
    GlobalFactor,
    /// Divides by the silo's own rows.
    OwnMean,
    /// Reads all rows, whatever rows are asked for.
    AllRows,
    /// A latent of the silo itself.
    OwnLatent,
    /// Another density at every reading.
    Restless,
}

static READINGS: AtomicU32 = AtomicU32::new(0);

#[derive(Module, Debug)]
struct Faulty {
    #[module(skip)]
    fault: Fault,
}

impl Model for Faulty {
    type Globals = Tensor<1>;
    type Data = Tensor<1>;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
        scope.sample("mean", Normal::new(0.0, 1.0))
    }

    fn local(&self, scope: &mut Scope<'_>, mean: &Tensor<1>, data: &Tensor<1>) -> Result<()> {
        match self.fault {
            Fault::GlobalFactor => scope.factor("shrinkage", mean.clone().powi_scalar(2) * -3.0)?,
            Fault::OwnMean => scope.factor("own mean", (data.clone().mean() - mean.clone()).powi_scalar(2) * -1.0)?,
            Fault::OwnLatent => drop(scope.sample("shift", Normal::new(0.0, 1.0))?),
            Fault::Restless => {
                let count = f64::from(READINGS.fetch_add(1, Ordering::Relaxed));
                scope.factor("restless", mean.clone() * count)?;
            }
            Fault::None | Fault::AllRows => {}
        }
        scope.plate("row", data.dims()[0], |scope, rows| {
            let effect = scope.sample("effect", Normal::new(mean.clone(), 0.7))?;
            if self.fault == Fault::AllRows {
                scope.factor("all", (data.clone() - mean.clone()).powi_scalar(2).sum() * -0.1)?;
            }
            scope.observe("y", Normal::new(effect, 1.0), rows.take(data)?)
        })
    }
}

fn checked(fault: Fault) -> std::result::Result<CheckReport, Error> {
    let device = Device::flex();
    let rows = |values: &[f64]| device.tensor(values.to_vec(), [values.len()]);
    let silos = [("a".to_owned(), rows(&[1.0, 2.0, 0.5])), ("b".to_owned(), rows(&[3.0, -1.0]))];
    check_pooled(&Faulty { fault }, &silos, &rows(&[1.0, 2.0, 0.5, 3.0, -1.0]), &device)
}

/// The lines that fail, without the names of silos.
fn failing(report: &CheckReport) -> Vec<&str> {
    let failed = report.checks.iter().filter(|(_, found, bound)| found.is_nan() || found > bound);
    failed.map(|(name, ..)| name.split_once("`: ").map_or(name.as_str(), |(_, check)| check)).collect()
}

#[test]
fn a_right_model_passes_every_line() {
    let report = checked(Fault::None).unwrap();
    assert!(report.passed() && report.checks.len() == 6, "{report}");
}

#[test]
fn what_is_counted_once_a_silo_is_found_beside_pooled_rows_alone() {
    for fault in [Fault::GlobalFactor, Fault::OwnMean] {
        let report = checked(fault).unwrap();
        let beside = ["log density: 2 silos = pooled rows", "gradient by globals: 2 silos = pooled rows"];
        assert_eq!(failing(&report), beside, "{report}");
    }
}

#[test]
fn rows_that_are_not_taken_are_found_by_minibatches() {
    let report = checked(Fault::AllRows).unwrap();
    assert!(failing(&report).contains(&"full batch = mean of minibatches of `row`"), "{report}");
}

#[test]
fn a_density_that_changes_from_reading_to_reading_is_found_by_the_joint_density() {
    let report = checked(Fault::Restless).unwrap();
    for line in ["bound: prior and 2 silos = joint density", "gradient by globals: prior and 2 silos = joint density"] {
        assert!(failing(&report).contains(&line), "{report}");
    }
}

#[test]
fn pooled_rows_of_other_plates_are_refused() {
    let device = Device::flex();
    let silos = [("a".to_owned(), device.tensor(vec![1.0, 2.0], [2]))];
    let few =
        check_pooled(&Faulty { fault: Fault::None }, &silos, &device.tensor(vec![1.0], [1]), &device).unwrap_err();
    assert!(few.to_string().contains("1 rows of `row`, where all silos have 2"), "{few}");
    let own = checked(Fault::OwnLatent).unwrap_err();
    assert!(own.to_string().contains("a latent of the silo itself"), "{own}");
    assert!(check(&Faulty { fault: Fault::OwnLatent }, &silos, &device).unwrap().passed());
}
