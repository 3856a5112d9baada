//! Tests PVI's priors: hyperparameters that climb the evidence, and priors that are not normal.

use fixtures::counts::Counts;
use fixtures::partitioned::Run;
use fixtures::regression::{Rows, pooled, silos};
use partita::burn::module::{Module, Param};
use partita::burn::tensor::Tensor;
use partita::core::NoiseKind;
use partita::inference::{
    Algorithm, Conjugate, CovarianceMatrix, Error, ExponentialFamily, NormalFamily, Outcome, Pvi, PviSilo, Renyi, Sgd,
    Silo, SiloProgram,
};
use partita::{
    AlgorithmChoice, Design, Device, FamilyPlan, FitOptions, Gaussian, Model, Normal, PviOptions, Result, Schedule,
    Scope, Settings, SiloSchedule, burn, fit,
};

/// Linear regression whose coefficients have the standard deviation e^θ, with θ a point parameter.
#[derive(Module, Debug)]
struct Ridge {
    log_scale: Param<Tensor<1>>,
}

fn ridge(log_scale: f64, device: &Device) -> Ridge {
    Ridge { log_scale: Param::from_tensor(device.tensor(vec![log_scale], [1])) }
}

/// Normal outcomes around a linear predictor.
fn outcomes(scope: &mut Scope<'_>, beta: Tensor<1>, rows: &Rows) -> Result<()> {
    let columns = rows.design.len() / rows.outcomes.len();
    let design = Design::new(rows.design.clone(), [rows.outcomes.len(), 1, columns])?;
    let device = Device::flex();
    let data: Tensor<2> = device.tensor(rows.outcomes.clone(), [rows.outcomes.len(), 1]);
    scope.plate("row", rows.outcomes.len(), |scope, here| {
        let predictor = design.take(here)?.predictor(beta, None)?;
        scope.observe("y", Normal::new(predictor, 1.0), here.take(&data)?)
    })
}

impl Model for Ridge {
    type Globals = Tensor<1>;
    type Data = Rows;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
        scope.sample("beta", Normal::new(0.0, self.log_scale.val().exp()).iid([3]))
    }

    fn local(&self, scope: &mut Scope<'_>, beta: &Tensor<1>, rows: &Rows) -> Result<()> {
        outcomes(scope, beta.clone(), rows)
    }
}

/// The same with θ a latent too, so that the prior of all latents together is not normal.
#[derive(Module, Debug)]
struct FullRidge {}

impl Model for FullRidge {
    type Globals = Tensor<1>;
    type Data = Rows;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
        let log_scale = scope.sample("log_scale", Normal::new(0.0, 0.5))?;
        scope.sample("beta", Normal::new(0.0, log_scale.exp()).iid([3]))
    }

    fn local(&self, scope: &mut Scope<'_>, beta: &Tensor<1>, rows: &Rows) -> Result<()> {
        outcomes(scope, beta.clone(), rows)
    }
}

/// The log evidence of the ridge, up to terms without θ: log Z of prior times likelihood less that of the prior.
fn log_evidence(log_scale: f64, data: &[(String, Rows)]) -> f64 {
    let family = NormalFamily::full(3);
    let prior = family.natural_of_moments(&[0.0; 3], &CovarianceMatrix::Diagonal(vec![log_scale.exp(); 3])).unwrap();
    let mut joint = prior.clone();
    for (_, rows) in data {
        for (x, y) in rows.design.chunks_exact(3).zip(&rows.outcomes) {
            let pairs = (0..3).flat_map(|i| (0..=i).map(move |j| (i, j)));
            let second = pairs.map(|(i, j)| if i == j { -0.5 } else { -1.0 } * x[i] * x[j]);
            let own = x.iter().map(|x| x * y).chain(second);
            joint.iter_mut().zip(own).for_each(|(all, own)| *all += own);
        }
    }
    family.log_partition(&joint) - family.log_partition(&prior)
}

fn data(device: &Device) -> Vec<(String, Rows)> {
    silos(&[5, 12, 7, 20], 3, false, device)
}

#[test]
fn the_gradient_by_a_hyperparameter_is_that_of_the_evidence_at_the_optimal_posterior() {
    let device = Device::flex();
    let data = data(&device);
    let at = 0.3;
    let difference = (log_evidence(at + 1e-5, &data) - log_evidence(at - 1e-5, &data)) / 2e-5;
    let particles = 400;
    let full_rank = FamilyPlan::new().global(Gaussian::full_rank());
    // A plain step of θ with this rate equals its gradient times the rate, sign included.
    let rate = 1e-3;
    let (optimiser, schedule) = (Sgd { momentum: 0.0 }.into(), Schedule::Constant { rate });
    let settings = Settings { steps: 10, particles, family: full_rank, optimiser, schedule, ..Settings::default() };
    let options = PviOptions {
        schedule: SiloSchedule::Synchronous,
        damping: Some(1.0),
        solver: Conjugate.into(),
        ..PviOptions::new(1)
    };
    let model = ridge(at, &device);
    let names: Vec<String> = data.iter().map(|(name, _)| name.clone()).collect();
    let mut parties: Vec<_> = data
        .iter()
        .zip(0..)
        .map(|((name, rows), index)| {
            PviSilo::new(Silo::new(name, index, &model, rows, &device, &settings).unwrap(), index, options.clone())
                .unwrap()
        })
        .collect();
    let mut pvi = Pvi::new(&model, &device, &settings, &names, vec![1; 4], options).unwrap();
    let mut exchange = |pvi: &mut Pvi| {
        let requests = pvi.outgoing().unwrap();
        let kind = requests[0].message.kind.clone();
        let answers = requests.iter().map(|r| Outcome::Reply(parties[r.silo].answer(&r.message).unwrap())).collect();
        (kind, pvi.incoming(answers).unwrap())
    };
    assert_eq!(exchange(&mut pvi).0, "pvi.solve");
    let posterior = pvi.natural_family().moments(pvi.natural());
    let (kind, info) = exchange(&mut pvi);
    assert_eq!(kind, "sfvi.step");
    let moved = pvi.outgoing().unwrap()[0].message.get_floats("theta").unwrap()[0];
    let found = (moved - at) / rate;
    let norm = info.gradient_norm.unwrap();
    assert!((found.abs() / norm - 1.0).abs() < 1e-9, "{found} has the norm {norm}");
    // A draw's derivative of log p(β | θ) is Σ β²/s² - 3: its variance under the posterior, from the moments of a
    // normal.
    let scale = (2.0 * at).exp();
    let covariance = posterior.1.dense();
    let mut variance = 0.0;
    for i in 0..3 {
        for j in 0..3 {
            let c = covariance[3 * i + j];
            variance += (2.0 * c * c + 4.0 * c * posterior.0[i] * posterior.0[j]) / (scale * scale);
        }
    }
    let standard_error = (variance / particles as f64).sqrt();
    assert!((found - difference).abs() < 4.0 * standard_error, "{found} against {difference} ± {standard_error}");
    // The prior has moved in the posterior as well: η_q changed by the same amount as η_0.
    assert!(pvi.discrepancy() < 1e-12);
    assert_ne!(pvi.natural_family().moments(pvi.natural()), posterior);
}

#[test]
fn a_step_of_a_hyperparameter_and_the_visits_around_it_share_no_noise() {
    let device = Device::flex();
    let options = PviOptions { schedule: SiloSchedule::Synchronous, damping: Some(1.0), ..PviOptions::new(3) };
    let settings =
        Settings { steps: 30, family: FamilyPlan::new().global(Gaussian::full_rank()), ..Settings::default() };
    let mut run = Run::new(&ridge(0.3, &device), &data(&device), &settings, options);
    // Noise and minibatches are keyed by the step of the run: a visit takes three, a step of θ one.
    let mut kinds = Vec::new();
    let mut next = 0;
    for _ in 0..6 {
        let request = run.pvi.outgoing().unwrap()[0].message.clone();
        let first = request.get_word("step").unwrap();
        assert!(first >= next, "{} begins at {first}, and {next} steps are taken: {kinds:?}", request.kind);
        next = first + if request.kind == "sfvi.step" { 1 } else { 3 };
        kinds.push(request.kind);
        run.step();
    }
    assert_eq!(kinds, ["pvi.solve", "sfvi.step"].repeat(3));
}

/// Linear regression whose coefficients have the prior mean θ, a point parameter.
#[derive(Module, Debug)]
struct Located {
    mean: Param<Tensor<1>>,
}

impl Model for Located {
    type Globals = Tensor<1>;
    type Data = Rows;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
        scope.sample("beta", Normal::new(self.mean.val(), 0.8).iid([3]))
    }

    fn local(&self, scope: &mut Scope<'_>, beta: &Tensor<1>, rows: &Rows) -> Result<()> {
        outcomes(scope, beta.clone(), rows)
    }
}

#[test]
fn the_gradient_by_a_prior_s_mean_is_that_of_the_collapsed_bound_to_nine_digits() {
    // It is linear in a draw, so that two opposite draws have no noise.
    let (device, at, rate) = (Device::flex(), 0.3, 1.0);
    let data = data(&device);
    let settings = Settings {
        steps: 10,
        particles: 2,
        noise: NoiseKind::Antithetic,
        family: FamilyPlan::new().global(Gaussian::full_rank()),
        optimiser: Sgd { momentum: 0.0 }.into(),
        schedule: Schedule::Constant { rate },
        ..Settings::default()
    };
    let options = PviOptions {
        schedule: SiloSchedule::Synchronous,
        damping: Some(1.0),
        solver: Conjugate.into(),
        ..PviOptions::new(1)
    };
    let model = Located { mean: Param::from_tensor(device.tensor(vec![at], [1])) };
    let mut run = Run::new(&model, &data, &settings, options);
    let prior = run.pvi.natural().to_vec();
    run.step();
    let (family, posterior) = (run.pvi.natural_family().clone(), run.pvi.natural().to_vec());
    run.step();
    let moved = run.pvi.outgoing().unwrap()[0].message.get_floats("theta").unwrap()[0];
    let found = (moved - at) / rate;
    // (μ_q - μ_0)ᵀ dη_0/dε, where of η_0 the three first numbers move, by 1/s² each.
    let (own, of_prior) = (family.mean_parameters(&posterior), family.mean_parameters(&prior));
    let formula: f64 = own.iter().zip(&of_prior).take(3).map(|(own, prior)| (own - prior) / 0.64).sum();
    // The bound with the best posterior for each ε is log Z_q with the silos' factors as they are: a quadratic in ε.
    let bound = |mean: f64| {
        let start = family.natural_of_moments(&[mean; 3], &CovarianceMatrix::Diagonal(vec![0.8; 3])).unwrap();
        let all: Vec<f64> = posterior.iter().zip(&prior).zip(&start).map(|((q, old), new)| q - old + new).collect();
        family.log_partition(&all) - family.log_partition(&start)
    };
    let difference = (bound(at + 0.01) - bound(at - 0.01)) / 0.02;
    for expected in [formula, difference] {
        assert!((found - expected).abs() < 1e-9 * expected.abs(), "{found} against {expected}");
    }
}

#[test]
fn interleaved_steps_of_a_hyperparameter_reach_the_maximum_of_the_evidence() {
    let device = Device::flex();
    let data = data(&device);
    let grid = (0..4_000).map(|place| -2.0 + f64::from(place) * 1e-3);
    let best = grid.max_by(|a, b| log_evidence(*a, &data).total_cmp(&log_evidence(*b, &data))).unwrap();
    for schedule in [
        SiloSchedule::Synchronous,
        SiloSchedule::Sequential(partita::inference::Order::Fixed),
        SiloSchedule::Subset(2),
        SiloSchedule::Asynchronous(partita::inference::Delays::default()),
    ] {
        let how = PviOptions { schedule, solver: Conjugate.into(), ..PviOptions::new(1) };
        let settings = Settings {
            steps: 600,
            particles: 4,
            family: FamilyPlan::new().global(Gaussian::full_rank()),
            schedule: Schedule::Cosine { initial: 0.05, last: 0.0 },
            ..Settings::default()
        };
        let options = FitOptions { algorithm: AlgorithmChoice::Pvi(how), settings, ..FitOptions::default() };
        let fit = fit(&ridge(1.0, &device), &data, &device, &options, None).unwrap();
        let found = fit.report.theta[0];
        // The evidence is flat there: 0.05 in θ is a thousandth of a nat.
        assert!((found - best).abs() < 0.05, "{schedule:?}: {found} against {best}");
    }
}

/// Mean and standard deviations of a fit, on the unconstrained scale.
fn moments<M: Model>(model: &M, silos: &[(String, M::Data)], algorithm: AlgorithmChoice) -> (Vec<f64>, Vec<f64>) {
    let settings = Settings {
        steps: 3_000,
        particles: 2,
        family: FamilyPlan::new().global(Gaussian::full_rank()),
        ..Settings::default()
    };
    let options = FitOptions { algorithm, settings, ..FitOptions::default() };
    let fit = fit(model, silos, &Device::flex(), &options, None).unwrap();
    fixtures::moments(fit.posterior())
}

fn assert_same((mean, sd): &(Vec<f64>, Vec<f64>), (expected, expected_sd): &(Vec<f64>, Vec<f64>)) {
    for (((mean, sd), expected), expected_sd) in mean.iter().zip(sd).zip(expected).zip(expected_sd) {
        assert!((mean - expected).abs() < 0.05 * expected_sd, "mean {mean} against {expected}");
        assert!((sd / expected_sd - 1.0).abs() < 0.05, "sd {sd} against {expected_sd}");
    }
}

#[test]
fn a_hyperparameter_may_be_latent_beside_what_it_governs() {
    let device = Device::flex();
    let data = data(&device);
    let pooled = moments(&FullRidge {}, &pooled(&data, &device), AlgorithmChoice::Central);
    for schedule in [SiloSchedule::Synchronous, SiloSchedule::Sequential(partita::inference::Order::Fixed)] {
        let how = PviOptions { schedule, ..PviOptions::new(200) };
        assert_same(&moments(&FullRidge {}, &data, AlgorithmChoice::Pvi(how)), &pooled);
    }
}

#[test]
fn a_prior_that_is_not_normal_has_a_factor_that_the_coordinator_refines() {
    let device = Device::flex();
    let counts = [vec![2.0, 1.0, 4.0], vec![0.0, 3.0], vec![5.0, 2.0, 2.0, 1.0]];
    let of = |counts: &Vec<f64>| device.tensor(counts.clone(), [counts.len()]);
    let silos = fixtures::named(counts.iter().map(of));
    let all = [("all".to_owned(), of(&counts.concat()))];
    let pooled = moments(&Counts {}, &all, AlgorithmChoice::Central);
    let how = PviOptions { schedule: SiloSchedule::Synchronous, ..PviOptions::new(200) };
    assert_same(&moments(&Counts {}, &silos, AlgorithmChoice::Pvi(how)), &pooled);
}

#[test]
fn another_divergence_is_refused_where_part_of_the_fit_would_be_by_kullback_and_leibler_s() {
    let device = Device::flex();
    let names = ["silo-0".to_owned()];
    let renyi = PviOptions { divergence: Renyi { alpha: 0.5 }.into(), ..PviOptions::new(20) };
    let settings = Settings { steps: 100, ..Settings::default() };
    let refused = |found: std::result::Result<(), Error>, words: &str| {
        let Err(Error::Setting { setting: "divergence", found, .. }) = found else { panic!("{found:?}") };
        assert!(found.contains(words), "{found}");
    };
    // A prior that a factor stands for.
    refused(Pvi::new(&Counts {}, &device, &settings, &names, vec![3], renyi.clone()).map(drop), "prior");
    // Steps of θ; without them the prior is as it is.
    let model = ridge(0.3, &device);
    refused(Pvi::new(&model, &device, &settings, &names, vec![3], renyi.clone()).map(drop), "θ");
    assert!(Pvi::new(&model, &device, &settings, &names, vec![3], PviOptions { theta_every: 0, ..renyi }).is_ok());
}
