//! Holds rows inside and around rows that an encoder serves to the exact posterior, and fits both with minibatches.

use fixtures::Parties;
use partita::burn::module::{Module, Param};
use partita::burn::tensor::Tensor;
use partita::core::Groups;
use partita::inference::{Algorithm, Exchange, SiloProgram};
use partita::{
    Amortised, Device, Encoder, Encoding, FitOptions, Model, Normal, Result, Rows, Schedule, Scope, Settings, check,
    fit,
};

/// Standard deviations of visits around their patient, and of observations around their visit.
const SDS: [f64; 2] = [0.7, 0.5];
/// The visits of four patients, two each.
const Y: [f64; 8] = [0.4, 1.1, -0.3, 0.8, -1.2, -0.4, 0.1, 2.0];

/// $`p \sim N(0, 1)`$, $`v \sim N(p, \cdot)`$, $`y \sim N(v, \cdot)`$.
#[derive(Module, Debug)]
struct Visits {}

#[derive(Debug, Clone)]
struct Seen {
    visits: Groups,
    y: Tensor<1>,
    /// The mean over the visits of each patient.
    means: Tensor<1>,
}

fn seen(device: &Device) -> Seen {
    let means = Y.chunks(2).map(|own| 0.5 * (own[0] + own[1])).collect();
    Seen {
        visits: Groups::of_sizes(&[2; 4]).unwrap(),
        y: device.tensor(Y.to_vec(), [8]),
        means: device.tensor(means, [4]),
    }
}

impl Model for Visits {
    type Globals = ();
    type Data = Seen;

    fn global(&self, _: &mut Scope<'_>) -> Result<()> {
        Ok(())
    }

    fn local(&self, scope: &mut Scope<'_>, (): &(), data: &Seen) -> Result<()> {
        scope.plate("patient", data.visits.groups(), |scope, rows| {
            let p = scope.sample("p", Normal::new(0.0, 1.0).over(rows))?;
            scope.plate("visit", &data.visits, |scope, rows| {
                let v = scope.sample("v", Normal::new(rows.expand(&p)?, SDS[0]))?;
                scope.observe("y", Normal::new(v, SDS[1]), rows.take(&data.y)?)
            })
        })
    }
}

/// A mean linear in one number of the row, and one scale.
#[derive(Module, Debug)]
struct Linear {
    slope: Param<Tensor<1>>,
    log_scale: Param<Tensor<1>>,
    #[module(skip)]
    of_visits: bool,
}

impl Linear {
    fn new(slope: f64, sd: f64, of_visits: bool, device: &Device) -> Self {
        let [slope, log_scale] = [slope, sd.ln()].map(|own| Param::from_tensor(device.tensor(vec![own], [1])));
        Self { slope, log_scale, of_visits }
    }
}

impl Encoder<Seen> for Linear {
    fn encode(&self, data: &Seen, rows: &Rows<'_>) -> Result<Encoding> {
        let x = rows.take(if self.of_visits { &data.y } else { &data.means })?;
        let mean = (x.clone() * self.slope.val()).reshape([rows.len(), 1]);
        Ok(Encoding { mean, log_scale: self.log_scale.val().expand([rows.len()]).reshape([rows.len(), 1]) })
    }
}

/// The encoder of patients that gives their exact posterior, and the exact slope by the patient, mean and sd of visits.
fn exact(device: &Device) -> (Amortised<Visits, Linear>, Vec<f64>) {
    let noise = SDS[0] * SDS[0] + SDS[1] * SDS[1];
    let precision = 1.0 + 2.0 / noise;
    let encoder = Linear::new(2.0 / noise / precision, precision.sqrt().recip(), false, device);
    let own = SDS[0].powi(-2) + SDS[1].powi(-2);
    let slope = SDS[0].powi(-2) / own;
    let mean = |(visit, y): (usize, &f64)| {
        let patient = 0.5 * (Y[visit / 2 * 2] + Y[visit / 2 * 2 + 1]) * 2.0 / noise / precision;
        slope * patient + (1.0 - slope) * y
    };
    let means = Y.iter().enumerate().map(mean).collect();
    (Amortised::new(Visits {}, "patient", encoder), [means, vec![-0.5 * own.ln(); 8], vec![slope; 8]].concat())
}

#[test]
fn rows_inside_encoded_rows_hold_the_posterior() {
    let device = Device::flex();
    let (model, visits) = exact(&device);
    let mut parties = Parties::new(&model, &[seen(&device)], &device, &Settings::default());
    parties.silos[0].set_local_parameters(vec![Vec::new(), visits]).unwrap();
    // Each patient's visits are normal with variance 1 + noise and covariance 1.
    let variance = 1.0 + SDS[0] * SDS[0] + SDS[1] * SDS[1];
    let determinant = variance * variance - 1.0;
    let evidence = |own: &[f64]| {
        let square = variance * (own[0] * own[0] + own[1] * own[1]) - 2.0 * own[0] * own[1];
        -0.5 * square / determinant - 0.5 * determinant.ln() - (2.0 * std::f64::consts::PI).ln()
    };
    let expected: f64 = Y.chunks(2).map(evidence).sum();
    let moments = parties.silos[0].local_moments().unwrap();
    let (algorithm, mut exchange) = parties.in_process(1);
    let outcomes = exchange.exchange(algorithm.elbo_requests(20, 0), algorithm.manifest(), None).unwrap();
    for elbo in algorithm.elbo_samples(outcomes, 20, 0).unwrap().elbos {
        assert!((elbo - expected).abs() < 1e-11, "{elbo} against {expected}");
    }
    // A visit given its patient's two observations: the precision of its own and of the patient's rest.
    let rest = 1.0 + (SDS[0] * SDS[0] + SDS[1] * SDS[1]).recip();
    let marginal = (SDS[1].powi(-2) + (SDS[0] * SDS[0] + rest.recip()).recip()).sqrt().recip();
    assert!(moments[1].1.iter().all(|sd| (sd / marginal - 1.0).abs() < 1e-12), "{moments:?}, {marginal}");
}

#[test]
fn sticking_the_landing_moves_neither_the_exact_encoder_nor_the_rows_inside() {
    let device = Device::flex();
    let (model, visits) = exact(&device);
    let settings = Settings {
        optimiser: partita::inference::Sgd { momentum: 0.0 }.into(),
        schedule: Schedule::Constant { rate: 1.0 },
        ..Settings::default()
    };
    let mut parties = Parties::new(&model, &[seen(&device)], &device, &settings);
    let silo = &mut parties.silos[0];
    silo.set_local_parameters(vec![Vec::new(), visits.clone()]).unwrap();
    let request = parties.algorithm.outgoing().unwrap().remove(0);
    let reply = silo.answer(&request.message).unwrap();
    let by_encoder = reply.get_floats("theta_gradient").unwrap();
    assert!(by_encoder.len() == 2 && by_encoder.iter().all(|g| g.abs() < 1e-11), "{by_encoder:?}");
    let moved = silo.local_parameters().remove(1);
    assert!(visits.iter().zip(&moved).all(|(before, after)| (before - after).abs() < 1e-11), "{visits:?}, {moved:?}");
}

#[test]
fn encoders_of_either_level_pass_the_check_and_fit_minibatches_of_patients() {
    let device = Device::flex();
    for (plate, of_visits) in [("patient", false), ("visit", true)] {
        let model = Amortised::new(Visits {}, plate, Linear::new(0.1, 0.5, of_visits, &device));
        let silos = [("all".to_owned(), seen(&device))];
        let report = check(&model, &silos, &device).unwrap();
        assert!(report.passed(), "{report}");
        let bound = |minibatch: usize| {
            let settings = Settings {
                steps: 4_000,
                minibatch: [("patient".to_owned(), minibatch)].into(),
                schedule: Schedule::Cosine { initial: 0.03, last: 0.0 },
                ..Settings::default()
            };
            let options = FitOptions { settings, elbo_draws: 2_000, ..FitOptions::default() };
            let report = fit(&model, &silos, &device, &options, None).unwrap().report;
            (report.elbo, report.elbo_se)
        };
        let ([all, all_error], [half, half_error]) = (<[f64; 2]>::from(bound(4)), <[f64; 2]>::from(bound(2)));
        assert!((all - half).abs() < 0.02 + 5.0 * all_error.hypot(half_error), "{plate}: {all} against {half}");
    }
}
