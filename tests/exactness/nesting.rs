//! Holds plates inside plates to sums written by hand: density, gradients, minibatches, rows, predictions, empty levels.

use std::f64::consts::PI;

use partita::burn::module::Module;
use partita::burn::tensor::Tensor;
use partita::core::{
    Array, DrawNoise, Groups, Latents, LogDensity, Minibatch, Noise, Predictive, pointwise_log_likelihood,
    predictive_draw, prior_draw,
};
use partita::inference::{FewRoundsOptions, silo_program};
use partita::{
    AlgorithmChoice, Design, Device, FamilyPlan, FitOptions, Gaussian, HalfNormal, LogNormal, Model, Normal, Result,
    Scope, Settings, SiteTable, fit,
};
use partita_laws::model as law;

/// Visits of patients of clinics.
#[derive(Debug, Clone)]
struct Clinics {
    patients: Groups,
    visits: Groups,
    /// One number a patient.
    age: Vec<f64>,
    /// Two covariates a visit.
    covariates: Vec<[f64; 2]>,
    y: Vec<f64>,
}

impl Clinics {
    /// Three clinics of one, three and one patients in mixed order; patients of one to four visits in mixed order.
    fn ragged() -> Self {
        let patients = Groups::new(vec![1, 0, 1, 2, 1], 3).unwrap();
        let visits = Groups::new(vec![4, 0, 1, 1, 3, 0, 2, 0, 0, 4], 5).unwrap();
        let covariates = (0..10).map(|row| [f64::from(row % 3) - 0.7, 0.1 * f64::from(row * row % 7)]).collect();
        let y = (0..10).map(|row| (f64::from(row) * 1.7).sin()).collect();
        Self { patients, visits, age: vec![0.3, -0.6, 1.1, 0.0, -0.2], covariates, y }
    }
}

/// A level of the silo, of each clinic and of each patient, with a spread of each patient's own.
#[derive(Module, Debug)]
struct Levels {}

impl Model for Levels {
    type Globals = (Tensor<1>, Tensor<1>);
    type Data = Clinics;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Self::Globals> {
        Ok((scope.sample("beta", Normal::new(0.0, 1.0).iid([2]))?, scope.sample("sd", HalfNormal::new(1.0))?))
    }

    fn local(&self, scope: &mut Scope<'_>, (beta, sd): &Self::Globals, data: &Clinics) -> Result<()> {
        let device = scope.device().clone();
        let vector = |numbers: &[f64]| device.tensor(numbers.to_vec(), [numbers.len()]);
        let cells: Vec<f64> = data.covariates.iter().flatten().copied().collect();
        let design = Design::new(cells, [data.y.len(), 2])?;
        let silo = scope.sample("silo", Normal::new(0.0, 2.0))?;
        scope.plate("clinic", data.patients.groups(), |scope, clinics| {
            let clinic = scope.sample("clinic", Normal::new(clinics.expand(&silo)?, sd.clone()))?;
            scope.plate("patient", &data.patients, |scope, patients| {
                let mean = patients.expand(&clinic)? + patients.take(&vector(&data.age))?;
                let patient = scope.sample("patient", Normal::new(mean, 0.8).non_centred())?;
                let spread = scope.sample("spread", LogNormal::new(0.0, 0.5))?;
                scope.plate("visit", &data.visits, |scope, visits| {
                    let level = visits.expand(&patient)?;
                    let eta = design.take(visits)?.predictor_by_group(beta.clone(), patient.clone())?;
                    scope.factor("soft", level.powi_scalar(2) * -0.1)?;
                    let spread = visits.expand(&spread)?;
                    scope.observe("y", Normal::new(eta, spread), visits.take(&vector(&data.y))?)
                })
            })
        })
    }
}

/// Unconstrained numbers: globals, the silo, clinics, patients (each its standardised level and its log spread).
#[derive(Debug, Clone)]
struct Point {
    globals: [f64; 3],
    locals: Vec<Vec<f64>>,
}

impl Point {
    fn of(data: &Clinics) -> Self {
        let numbers = |count: usize, start: f64| (0..count).map(|k| (k as f64 * 0.9 + start).sin()).collect::<Vec<_>>();
        let (clinics, patients) = (data.patients.groups(), data.patients.rows());
        let locals = vec![vec![0.4], numbers(clinics, 1.0), numbers(2 * patients, 2.0), Vec::new()];
        Self { globals: [0.3, -0.5, 0.2], locals }
    }

    fn latents(&self) -> Latents<'_> {
        Latents { globals: &self.globals, locals: &self.locals }
    }

    /// The latents of chosen clinics, in their order, with those of the patients that follow.
    fn chosen(&self, data: &Clinics, clinics: &[usize]) -> Vec<Vec<f64>> {
        let patients = clinics.iter().flat_map(|clinic| data.patients.rows_of(*clinic));
        let own = patients.flat_map(|patient| &self.locals[2][2 * patient..2 * patient + 2]).copied().collect();
        vec![self.locals[0].clone(), clinics.iter().map(|clinic| self.locals[1][*clinic]).collect(), own, Vec::new()]
    }

    /// The density of the silo's own latents, by hand.
    fn silo(&self) -> f64 {
        normal(self.locals[0][0], 0.0, 2.0)
    }

    /// The density of one clinic with its patients and their visits, by hand.
    fn clinic(&self, data: &Clinics, clinic: usize) -> f64 {
        let ([b0, b1, log_sd], level) = (self.globals, self.locals[1][clinic]);
        let mut sum = normal(level, self.locals[0][0], log_sd.exp());
        for &patient in data.patients.rows_of(clinic) {
            let [standard, log_spread] = [self.locals[2][2 * patient], self.locals[2][2 * patient + 1]];
            // The density of the logarithm of a log-normal number.
            sum += normal(standard, 0.0, 1.0) + normal(log_spread, 0.0, 0.5);
            let own = level + data.age[patient] + 0.8 * standard;
            for &visit in data.visits.rows_of(patient) {
                let [x0, x1] = data.covariates[visit];
                sum += normal(data.y[visit], own + b0 * x0 + b1 * x1, log_spread.exp()) - 0.1 * own * own;
            }
        }
        sum
    }
}

fn normal(x: f64, mean: f64, sd: f64) -> f64 {
    -0.5 * ((x - mean) / sd).powi(2) - sd.ln() - 0.5 * (2.0 * PI).ln()
}

fn near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-12 * (1.0 + expected.abs()), "{found} against {expected}");
}

fn near_all(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    found.iter().zip(expected).for_each(|(found, expected)| near(*found, *expected));
}

fn table(data: &Clinics) -> SiteTable {
    SiteTable::of(&Levels {}, &Device::flex(), data).unwrap()
}

#[test]
fn a_ragged_nested_density_is_the_sum_written_by_hand() {
    let (device, data) = (Device::flex(), Clinics::ragged());
    let (table, point) = (table(&data), Point::of(&data));
    let found = LogDensity::new(&Levels {}, &device, &table).local(point.latents(), &data).unwrap();
    near(found.value, point.silo() + (0..3).map(|clinic| point.clinic(&data, clinic)).sum::<f64>());
    law(&Levels {}, &device, &data).unwrap();
    assert!(partita::check(&Levels {}, &[("one".into(), data)], &device).unwrap().passed());
}

#[test]
fn the_table_names_levels_and_their_outer_rows() {
    let data = Clinics::ragged();
    let table = table(&data);
    let parents: Vec<_> = table.blocks().iter().map(|block| block.parent.as_ref().map(|own| own.block)).collect();
    assert_eq!(parents, [None, Some(0), Some(1), Some(2)]);
    let rows = |block: usize| table.blocks()[block].parent.as_ref().unwrap().rows.to_vec();
    assert_eq!((rows(1), rows(2)), (vec![0; 3], vec![1, 0, 1, 2, 1]));
    assert_eq!((rows(3), table.outermost(3)), (data.visits.index().to_vec(), 1));
    let blocks = ["silo", "clinic", "spread", "soft", "y"].map(|site| table.site(site).unwrap().block());
    assert_eq!(blocks, [0, 1, 2, 3, 3]);
    assert_eq!(
        table.to_string(),
        "site                 part     role           plate             distribution       shape          support
beta                 global   latent         -                 Normal             [2]            the real numbers
sd                   global   latent         -                 HalfNormal         [1]            numbers > 0
silo                 local    latent         -                 Normal             [1]            the real numbers
clinic               local    latent         clinic            Normal             [3]            the real numbers
patient              local    latent (nc)    patient in clinic Normal             [5]            the real numbers
spread               local    latent         patient in clinic LogNormal          [5]            numbers > 0
soft                 local    factor         visit in patient  -                  []             -
y                    local    observed       visit in patient  Normal             [10]           -
global latents: 3 numbers; no plate: 1 rows of 1 latent number; clinic: 3 rows of 1 latent number; patient in clinic: 5 rows of 2 latent numbers; \
visit in patient: 10 rows without latents"
    );
}

/// Five regions without any outcome, and visits of three patients.
#[derive(Module, Debug)]
struct Regions {}

impl Model for Regions {
    type Globals = Tensor<1>;
    type Data = Groups;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
        scope.sample("mean", Normal::new(0.0, 1.0))
    }

    fn local(&self, scope: &mut Scope<'_>, mean: &Tensor<1>, visits: &Groups) -> Result<()> {
        scope.plate("region", 5, |scope, rows| {
            scope.sample("region", Normal::new(mean.clone(), 1.0).over(rows)).map(drop)
        })?;
        scope.plate("patient", visits.groups(), |scope, rows| {
            let patient = scope.sample("patient", Normal::new(mean.clone(), 1.0).over(rows))?;
            scope.plate("visit", visits, |scope, rows| {
                let zeros = scope.device().tensor(vec![0.0; rows.len()], [rows.len()]);
                scope.observe("y", Normal::new(rows.expand(&patient)?, 1.0), zeros)
            })
        })
    }
}

#[test]
fn silos_count_the_rows_that_have_data_wherever_their_plate_stands() {
    let (device, visits) = (Device::flex(), Groups::of_sizes(&[2, 1, 4]).unwrap());
    for algorithm in [AlgorithmChoice::Sfvi, AlgorithmChoice::FewRounds(FewRoundsOptions::default())] {
        let options = FitOptions { algorithm, ..FitOptions::default() };
        let (_, rows) = silo_program(&Regions {}, &["a".into()], 0, &visits, &device, &options).unwrap();
        assert_eq!(rows, 3);
    }
}

#[test]
fn minibatches_of_the_outermost_plate_add_up_to_all_rows_at_every_level() {
    let (device, data) = (Device::flex(), Clinics::ragged());
    let (table, point) = (table(&data), Point::of(&data));
    let density = || LogDensity::new(&Levels {}, &device, &table);
    let full = density().local(point.latents(), &data).unwrap();
    for parts in [vec![vec![1], vec![2, 0]], vec![vec![0], vec![1], vec![2]]] {
        let (mut value, mut globals, mut silo) = (0.0, vec![0.0; 3], 0.0);
        let (mut clinics, mut patients) = (vec![0.0; 3], vec![0.0; 10]);
        for part in parts {
            let (share, minibatch) = (part.len() as f64 / 3.0, [Minibatch::new("clinic", part.clone())]);
            let locals = point.chosen(&data, &part);
            let latents = Latents { globals: &point.globals, locals: &locals };
            let found = density().minibatch(&minibatch).local(latents, &data).unwrap();
            value += share * found.value;
            globals.iter_mut().zip(&found.globals).for_each(|(sum, own)| *sum += share * own);
            silo += share * found.locals[0][0];
            let rows = table.rows_evaluated(2, &minibatch).unwrap().unwrap();
            assert_eq!(rows, part.iter().flat_map(|own| data.patients.rows_of(*own)).copied().collect::<Vec<_>>());
            part.iter().zip(&found.locals[1]).for_each(|(row, own)| clinics[*row] = share * own);
            for (row, own) in rows.iter().zip(found.locals[2].chunks(2)) {
                patients[2 * row..2 * row + 2].copy_from_slice(&[share * own[0], share * own[1]]);
            }
        }
        near(value, full.value);
        near_all(&globals, &full.globals);
        near(silo, full.locals[0][0]);
        near_all(&clinics, &full.locals[1]);
        near_all(&patients, &full.locals[2]);
    }
}

#[test]
fn rows_follow_in_the_order_chosen_and_as_often() {
    let (device, data) = (Device::flex(), Clinics::ragged());
    let (table, point) = (table(&data), Point::of(&data));
    let (rows, minibatch) = ([2, 1, 1, 0], [Minibatch::new("clinic", vec![2, 1, 1, 0])]);
    let locals = point.chosen(&data, &rows);
    let density = LogDensity::new(&Levels {}, &device, &table).minibatch(&minibatch);
    let found = density.local(Latents { globals: &point.globals, locals: &locals }, &data).unwrap();
    let sum: f64 = rows.iter().map(|clinic| point.clinic(&data, *clinic)).sum();
    near(found.value, point.silo() + 0.75 * sum);
    assert_eq!(table.rows_evaluated(3, &minibatch).unwrap().unwrap()[..5], [4, 1, 5, 7, 8]);
    assert_eq!(table.rows_evaluated(0, &minibatch).unwrap(), None);
}

#[test]
fn a_locally_enhanced_bound_sums_inner_rows_into_the_rows_of_the_outermost_plate() {
    let (device, data) = (Device::flex(), Clinics::ragged());
    let (table, point) = (table(&data), Point::of(&data));
    let minibatch = [Minibatch::repeated("clinic", &[1, 0], 2)];
    let repeats = [1, 1, 0, 0];
    let mut own = point.chosen(&data, &repeats);
    own.iter_mut().skip(1).flatten().enumerate().for_each(|(cell, number)| *number += 0.05 * (cell as f64).cos());
    let log_q = [-3.0, -2.0, -4.0, -3.5];
    let at = |globals: [f64; 3], own: &[Vec<f64>]| {
        let density = LogDensity::new(&Levels {}, &device, &table).minibatch(&minibatch);
        density.locally_enhanced(Latents { globals: &globals, locals: own }, &data, &log_q).unwrap().evaluated
    };
    let found = at(point.globals, &own);
    // Each repeat is a point of its own: its clinic and patients have the numbers of the repeat.
    let (mut next, mut ratios) = (0, Vec::new());
    for (repeat, clinic) in repeats.into_iter().enumerate() {
        let mut moved = point.clone();
        moved.locals[1][clinic] = own[1][repeat];
        for &patient in data.patients.rows_of(clinic) {
            moved.locals[2][2 * patient..2 * patient + 2].copy_from_slice(&own[2][next..next + 2]);
            next += 2;
        }
        ratios.push(moved.clinic(&data, clinic) - log_q[repeat]);
    }
    let rows = ratios.chunks(2).map(|pair| (0.5 * (pair[0].exp() + pair[1].exp())).ln()).sum::<f64>();
    near(found.value, point.silo() + 1.5 * rows);
    let step = 1e-5;
    for cell in 0..3 {
        let moved = |by: f64| {
            let mut globals = point.globals;
            globals[cell] += by;
            at(globals, &own).value
        };
        let quotient = (moved(step) - moved(-step)) / (2.0 * step);
        assert!((found.globals[cell] - quotient).abs() < 1e-7, "global {cell}");
    }
    for (block, cells) in own.iter().enumerate() {
        for cell in 0..cells.len() {
            let moved = |by: f64| {
                let mut own = own.clone();
                own[block][cell] += by;
                at(point.globals, &own).value
            };
            let quotient = (moved(step) - moved(-step)) / (2.0 * step);
            assert!((found.locals[block][cell] - quotient).abs() < 1e-7, "block {block}, cell {cell}");
        }
    }
}

#[test]
fn predictions_and_log_likelihoods_are_per_observation_and_sum_by_group() {
    let (device, data) = (Device::flex(), Clinics::ragged());
    let (table, point) = (table(&data), Point::of(&data));
    let pointwise = pointwise_log_likelihood(&Levels {}, &device, &table, &data, point.latents()).unwrap();
    let (name, visits) = &pointwise[0];
    assert_eq!((name.as_str(), visits.shape.as_slice()), ("y", [10].as_slice()));
    let by_patient = data.visits.sums(visits).unwrap();
    let by_clinic = data.patients.sums(&by_patient).unwrap();
    assert_eq!((by_patient.shape, by_clinic.shape), (vec![5], vec![3]));
    near(by_clinic.values.iter().sum(), visits.values.iter().sum());
    near(by_patient.values[1], visits.values[2] + visits.values[3]);
    assert!(data.visits.sums(&Array::new(vec![0.0; 5], vec![5]).unwrap()).is_err());
    let noise = DrawNoise { noise: Noise::new(3), index: 0 };
    let at = |locals| Predictive { globals: &point.globals, locals, noise };
    for locals in [Some(point.locals.as_slice()), None] {
        let draw = predictive_draw(&Levels {}, &device, &table, &data, at(locals)).unwrap();
        let shapes = ["silo", "clinic", "patient", "spread", "y"].map(|name| draw.value(name).unwrap().shape[0]);
        assert_eq!(shapes, [1, 3, 5, 5, 10]);
    }
    assert_eq!(prior_draw(&Levels {}, &device, &table, &data, noise).unwrap().observed[0].1.shape, [10]);
}

#[test]
fn the_order_of_inner_rows_changes_nothing_where_their_groups_follow() {
    let (device, data) = (Device::flex(), Clinics::ragged());
    let point = Point::of(&data);
    let value = |data: &Clinics, point: &Point| {
        LogDensity::new(&Levels {}, &device, &table(data)).local(point.latents(), data).unwrap()
    };
    let expected = value(&data, &point);
    let order = [7, 2, 9, 0, 4, 1, 8, 3, 6, 5];
    let visits = Groups::new(order.iter().map(|row| data.visits.of_row(*row)).collect(), 5).unwrap();
    let covariates = order.iter().map(|row| data.covariates[*row]).collect();
    let moved = Clinics { visits, covariates, y: order.iter().map(|row| data.y[*row]).collect(), ..data.clone() };
    let found = value(&moved, &point);
    near(found.value, expected.value);
    near_all(&found.locals[2], &expected.locals[2]);
    // Patients in another order, with their visits renumbered and their latents moved along.
    let order = [3, 0, 4, 2, 1];
    let place = |patient: usize| order.iter().position(|own| *own == patient).unwrap();
    let moved = Clinics {
        patients: Groups::new(order.iter().map(|row| data.patients.of_row(*row)).collect(), 3).unwrap(),
        visits: Groups::new(data.visits.index().iter().map(|patient| place(*patient)).collect(), 5).unwrap(),
        age: order.iter().map(|row| data.age[*row]).collect(),
        ..data.clone()
    };
    let mut other = point.clone();
    other.locals[2] = order.iter().flat_map(|row| &point.locals[2][2 * row..2 * row + 2]).copied().collect();
    let found = value(&moved, &other);
    near(found.value, expected.value);
    near_all(&found.globals, &expected.globals);
}

#[test]
fn groups_without_rows_and_levels_without_rows_add_nothing() {
    let (device, full) = (Device::flex(), Clinics::ragged());
    // Clinic 1 loses its patients, and all lose their visits: every level below still has its sites.
    let lone = Clinics {
        patients: Groups::with_empty(vec![0, 2], 3).unwrap(),
        visits: Groups::with_empty(Vec::new(), 2).unwrap(),
        age: vec![-0.6, 0.0],
        covariates: Vec::new(),
        y: Vec::new(),
    };
    let empty = Clinics {
        patients: Groups::with_empty(Vec::new(), 3).unwrap(),
        visits: Groups::with_empty(Vec::new(), 0).unwrap(),
        age: Vec::new(),
        ..lone.clone()
    };
    let noise = DrawNoise { noise: Noise::new(3), index: 0 };
    for data in [&lone, &empty] {
        let (table, point) = (table(data), Point::of(data));
        let density = || LogDensity::new(&Levels {}, &device, &table);
        let whole = (0..3).map(|clinic| point.clinic(data, clinic)).sum::<f64>();
        near(
            density().joint(point.latents(), data).unwrap().value - density().global(&point.globals).unwrap().value,
            point.silo() + whole,
        );
        law(&Levels {}, &device, data).unwrap();
        // A minibatch whose only clinic has no patients.
        let minibatch = [Minibatch::new("clinic", vec![1])];
        let locals = point.chosen(data, &[1]);
        let latents = Latents { globals: &point.globals, locals: &locals };
        near(
            density().minibatch(&minibatch).local(latents, data).unwrap().value,
            point.silo() + 3.0 * point.clinic(data, 1),
        );
        let draw = prior_draw(&Levels {}, &device, &table, data, noise).unwrap();
        assert_eq!(draw.value("y").unwrap().shape, [0]);
        assert_eq!(draw.value("patient").unwrap().shape, [data.patients.rows()]);
        let pointwise = pointwise_log_likelihood(&Levels {}, &device, &table, data, point.latents()).unwrap();
        assert_eq!(data.visits.sums(&pointwise[0].1).unwrap().values, vec![0.0; data.patients.rows()]);
    }
    // Silos that have a level and silos that lack it are fitted together, with minibatches.
    let silos: Vec<_> =
        [("full", full), ("lone", lone), ("empty", empty)].map(|(name, data)| (name.into(), data)).into();
    assert!(partita::check(&Levels {}, &silos, &device).unwrap().passed());
    let family = FamilyPlan::new().global(Gaussian::diagonal()).local(Gaussian::diagonal());
    let mut settings = Settings { steps: 3, family, ..Settings::default() };
    settings.minibatch.insert("clinic".into(), 2);
    let options = FitOptions { algorithm: AlgorithmChoice::Sfvi, settings, elbo_draws: 2, ..FitOptions::default() };
    let fitted = fit(&Levels {}, &silos, &device, &options, None).unwrap();
    assert!(fitted.report.elbo.is_finite());
    let mut settings = options.settings.clone();
    settings.minibatch = [("patient".to_owned(), 1)].into();
    let refused = fit(&Levels {}, &silos, &device, &FitOptions { settings, ..options }, None).unwrap_err().to_string();
    assert!(refused.contains("`patient`, which stands inside another plate"), "{refused}");
}

#[test]
fn readings_on_the_device_are_those_of_the_host() {
    let (device, data) = (Device::flex(), Clinics::ragged());
    let (table, point) = (table(&data), Point::of(&data));
    for rows in [None, Some(vec![2, 1])] {
        let locals = rows.as_ref().map_or_else(|| point.locals.clone(), |rows| point.chosen(&data, rows));
        let minibatch: Vec<_> = rows.iter().map(|rows| Minibatch::new("clinic", rows.clone())).collect();
        let density = LogDensity::new(&Levels {}, &device, &table).minibatch(&minibatch);
        let host = density.joint(Latents { globals: &point.globals, locals: &locals }, &data).unwrap();
        let patients = locals[2].len() / 2;
        let column = |k: usize| locals[2].iter().skip(k).step_by(2).copied().collect::<Vec<_>>();
        let given = [
            (point.globals[..2].to_vec(), [1, 2]),
            (point.globals[2..].to_vec(), [1, 1]),
            (locals[0].clone(), [1, 1]),
            (locals[1].clone(), [locals[1].len(), 1]),
            (column(0), [patients, 1]),
            (column(1), [patients, 1]),
        ];
        let given = given.map(|(numbers, shape)| device.tensor::<2>(numbers, shape));
        let found = density.on_device(&given, &data).unwrap();
        near(found.value.into_scalar(), host.value);
        let gradient = |place: usize| found.latents[place].clone().into_data().try_into_vec::<f64>().unwrap();
        near_all(&gradient(3), &host.locals[1]);
        near_all(&gradient(5), &host.locals[2].iter().skip(1).step_by(2).copied().collect::<Vec<_>>());
    }
}
