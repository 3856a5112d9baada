//! Fits visits of patients in clinics in hospitals: a silo is a hospital.

use fixtures::cookbook::{Bounds, Columns, holds};
use partita::Device;

// ANCHOR: model
use partita::burn::{self, module::Module, tensor::Tensor};
use partita::{Groups, HalfNormal, Model, Normal, Result, Scope};

#[derive(Module, Debug)]
struct Levels {}

#[derive(Clone)]
struct Hospital {
    patients: Groups, // the clinic of each patient
    visits: Groups,   // the patient of each visit
    y: Tensor<1>,     // [visits]
}

impl Model for Levels {
    type Globals = [Tensor<1>; 5];
    type Data = Hospital;

    fn global(&self, scope: &mut Scope) -> Result<Self::Globals> {
        let level = scope.sample("level", Normal::new(0.0, 5.0))?;
        let mut sd = |name: &str| scope.sample(name, HalfNormal::new(2.0));
        Ok([level, sd("sd_hospital")?, sd("sd_clinic")?, sd("sd_patient")?, sd("sd_visit")?])
    }

    fn local(&self, scope: &mut Scope, globals: &Self::Globals, data: &Hospital) -> Result<()> {
        let [level, sd_hospital, sd_clinic, sd_patient, sd_visit] = globals.clone();
        let hospital = scope.sample("hospital", Normal::new(level, sd_hospital))?; // one a silo
        scope.plate("clinic", data.patients.groups(), |scope, clinics| {
            let mean = clinics.expand(&hospital)?;
            let clinic = scope.sample("clinic", Normal::new(mean, sd_clinic))?;
            scope.plate("patient", &data.patients, |scope, patients| {
                let mean = patients.expand(&clinic)?;
                let patient = scope.sample("patient", Normal::new(mean, sd_patient))?;
                scope.plate("visit", &data.visits, |scope, visits| {
                    scope.observe("y", Normal::new(visits.expand(&patient)?, sd_visit), visits.take(&data.y)?)
                })
            })
        })
    }
}
// ANCHOR_END: model

fn data(columns: &Columns, device: &Device) -> Hospital {
    let [clinic, patient, y] = ["clinic_of_patient", "patient", "y"].map(|name| columns.numbers(name));
    // ANCHOR: data
    let (patients, visits) = (Groups::by_key(&clinic).unwrap(), Groups::by_key(&patient).unwrap());
    let rows = y.len();
    Hospital { patients, visits, y: device.tensor(y, [rows]) }
    // ANCHOR_END: data
}

#[test]
fn levels_agree_with_numpyro() {
    // Three hospitals say little of their standard deviation: its tail is long, and few draws of the round reach it.
    holds("levels", &Levels {}, data, &Bounds { mean: 0.1, sd: 0.25, ..Bounds::default() });
}
