//! Compares every family, estimator and model on every GPU device of this build with the CPU in double precision.
//!
//! `.ci/gpu` runs it on Mesa's software Vulkan. If a build has no GPU device or the machine no adapter, each test
//! prints why it is skipped.
#![allow(clippy::print_stdout, reason = "a test that is skipped says so")]

mod fused;
mod rows;

use fixtures::regression::{Regression, silos};
use fixtures::worlds::{Visit, every_world};
use fixtures::{six_cities_data, six_cities_family, six_cities_model};
use partita::core::{
    Density, ExponentialMap, IdentityMap, IntervalMap, Key, Latents, LogDensity, Noise, Purpose, SimplexMap, host_reads,
};
use partita::gpu::device;
use partita::inference::{
    Algorithm, Central, Exchange, FewRoundsOptions, InProcess, OnDeviceSilo, PointMass, StartFrom,
};
use partita::models::{Activation, BayesianNetwork, Head, LabelledRows, Mlp};
use partita::{
    AlgorithmChoice, Bernoulli, Beta, Binomial, Categorical, Cauchy, Device, Dirichlet, Estimator, Exponential,
    FamilyPlan, FedOptOptions, FitOptions, Gamma, Gaussian, HalfCauchy, HalfNormal, InverseGamma, Laplace, LogNormal,
    Model, Multinomial, NegativeBinomial, Normal, Poisson, PviOptions, RoundOptions, Schedule, Settings, SiteTable,
    StudentT, Uniform, fit,
};
use partita_laws::{DensityCase, bijector_on_device, density_on_device};

/// Runs `test` on every available GPU device; it is skipped where there is none.
fn on_every_gpu(test: impl Fn(&str, &Device)) {
    let mut missing = Vec::new();
    for name in ["wgpu", "vulkan", "cuda"] {
        match device(Some(name)) {
            Ok(device) => test(name, &device),
            Err(error) => missing.push(error.to_string()),
        }
    }
    if missing.len() == 3 {
        fixtures::skip("gpu", &missing.join("; "));
    }
}

/// The largest discrepancy of two lists, relative to the largest number of the second or one; NaN where either has one.
fn far(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let scale = expected.iter().fold(1.0_f64, |largest, value| largest.max(value.abs()));
    fixtures::largest(found.iter().zip(expected).map(|(a, b)| (a - b).abs() / scale))
}

#[test]
fn device_forms_of_densities_agree_with_the_host() {
    let case = DensityCase::new;
    let cases: [(&dyn Density, DensityCase); 19] = [
        (&Bernoulli, case(&[1.0], &[&[0.7]])),
        (&Beta, case(&[0.3], &[&[2.0], &[5.0]])),
        (&Binomial, case(&[3.0], &[&[10.0], &[-1.0]])),
        (&Categorical, case(&[2.0], &[&[0.1, -1.0, 2.0]])),
        (&Cauchy, case(&[0.3], &[&[1.0], &[2.0]])),
        (&Dirichlet, case(&[0.2, 0.3, 0.5], &[&[1.0, 2.0, 4.0]])),
        (&Exponential, case(&[0.3], &[&[2.0]])),
        (&Gamma, case(&[0.3], &[&[2.0], &[5.0]])),
        (&HalfCauchy, case(&[0.3], &[&[2.0]])),
        (&HalfNormal, case(&[0.3], &[&[2.0]])),
        (&InverseGamma, case(&[0.7], &[&[9.0], &[5.0]])),
        (&Laplace, case(&[0.3], &[&[1.0], &[2.0]])),
        (&LogNormal, case(&[0.3], &[&[-1.0], &[0.5]])),
        (&Multinomial, case(&[2.0, 0.0, 3.0], &[&[5.0], &[0.3, -1.0, 1.0]])),
        (&NegativeBinomial, case(&[3.0], &[&[5.0], &[0.2]])),
        (&Normal, case(&[0.3], &[&[1.0], &[2.0]])),
        (&Poisson, case(&[3.0], &[&[1.2]])),
        (&StudentT, case(&[0.3], &[&[9.0], &[1.0], &[2.0]])),
        (&Uniform, case(&[0.3], &[&[-1.0], &[2.0]])),
    ];
    on_every_gpu(|name, device| {
        for (density, case) in &cases {
            // Single precision has 6e-8; log-gamma adds a dozen numbers of size 10, and their gradients as many
            // quotients.
            let checked = density_on_device(*density, std::slice::from_ref(case), device, 2e-5);
            assert!(checked.is_ok(), "{name}: {}", checked.unwrap_err());
        }
    });
}

#[test]
fn device_forms_of_maps_agree_with_the_host() {
    on_every_gpu(|_, device| {
        bijector_on_device(&IdentityMap, 3, device, 2e-6).unwrap();
        // The exponential of u has the relative rounding of u itself: 2e-5 at the u of 15 that these laws reach.
        bijector_on_device(&ExponentialMap, 3, device, 2e-5).unwrap();
        bijector_on_device(&IntervalMap::new(-2.0, 0.5).unwrap(), 3, device, 2e-5).unwrap();
        bijector_on_device(&SimplexMap, 5, device, 2e-5).unwrap();
    });
}

/// Value and gradients of the log density of each world at one point.
struct Densities {
    device: Device,
    found: Vec<(String, f64, Vec<f64>)>,
}

impl Visit for Densities {
    fn world<M: Model>(&mut self, name: &str, model: &M, data: &M::Data, _: &Settings) {
        let model = partita::core::with_theta(model, &partita::core::theta(model).unwrap(), &self.device).unwrap();
        let table = SiteTable::of(&model, &self.device, data).unwrap();
        let noise = Noise::new(5);
        let normal = |length: usize, block: u32| {
            let mut values = vec![0.0; length];
            noise.stream(Key::new(Purpose::Check, 9).block(block)).normal(&mut values);
            values
        };
        let globals = normal(table.global_len(), 0);
        let blocks = table.blocks().iter().zip(1..);
        let locals: Vec<Vec<f64>> = blocks.map(|(block, index)| normal(block.rows * block.width, index)).collect();
        let latents = Latents { globals: &globals, locals: &locals };
        let joint = LogDensity::new(&model, &self.device, &table).joint(latents, data).unwrap();
        let gradient = [joint.globals, joint.locals.concat(), joint.theta].concat();
        self.found.push((name.to_owned(), joint.value, gradient));
    }
}

#[test]
fn log_density_and_gradient_of_every_model_agree_with_the_host() {
    let on = |device: &Device| {
        let mut densities = Densities { device: device.clone(), found: Vec::new() };
        every_world(device, &mut densities);
        densities.found
    };
    on_every_gpu(|name, device| {
        for ((world, value, gradient), (_, expected, by_host)) in on(device).iter().zip(on(&Device::flex())) {
            // Single precision has 6e-8, and sums of some hundred terms lose a digit: relative to the largest number.
            let (value, gradient) = (far(&[*value], &[expected]), far(gradient, &by_host));
            println!("{name}, {world}: value {value:.1e}, gradient {gradient:.1e}");
            assert!(value < 2e-6 && gradient < 2e-6, "{name}, {world}: value {value:e}, gradient {gradient:e}");
        }
    });
}

/// Parameters, θ and bound of each world after some steps.
struct Runs {
    device: Device,
    algorithm: AlgorithmChoice,
    estimators: &'static [Estimator],
    found: Vec<(String, Vec<f64>, f64)>,
}

const STEPS: u64 = 10;

impl Visit for Runs {
    fn world<M: Model>(&mut self, name: &str, model: &M, data: &M::Data, settings: &Settings) {
        for estimator in self.estimators.iter().copied() {
            // Fits on the device start as declared and know no phases, and there is no climb to a mode in single precision.
            let (schedule, start) = (Schedule::cosine(), StartFrom::Declared);
            let settings = Settings { steps: STEPS, estimator, schedule, start, ..settings.clone() };
            let algorithm = self.algorithm.clone();
            let options = FitOptions { algorithm, settings, elbo_draws: 2, summary_draws: 2, ..FitOptions::default() };
            let fit = fit(model, &[("all".to_owned(), data.clone())], &self.device, &options, None).unwrap();
            let posterior = fit.posterior();
            let reached = [posterior.parameters, posterior.theta].concat();
            self.found.push((format!("{name}, {estimator:?}"), reached, fit.report.elbo));
        }
    }
}

/// Holds runs of every world on every GPU to the pooled run of the host.
fn runs_agree(algorithm: AlgorithmChoice, estimators: &'static [Estimator]) {
    let on = |device: &Device, algorithm| {
        let mut runs = Runs { device: device.clone(), algorithm, estimators, found: Vec::new() };
        every_world(device, &mut runs);
        runs.found
    };
    on_every_gpu(|name, device| {
        let host = on(&Device::flex(), AlgorithmChoice::Central);
        for ((run, reached, elbo), (_, expected, bound)) in on(device, algorithm.clone()).iter().zip(&host) {
            // Adam divides a gradient by its size, so that its relative rounding enters at the size of a step, ten
            // steps of 0.02. A gradient near zero would be all rounding; none of these is near zero.
            let (reached, elbo) = (far(reached, expected), far(&[*elbo], &[*bound]));
            println!("{name}, {algorithm:?}, {run}: parameters {reached:.1e}, bound {elbo:.1e}");
            assert!(reached < 1e-5 && elbo < 1e-5, "{name}, {run}: parameters {reached:e}, bound {elbo:e}");
        }
    });
}

const ALL: [Estimator; 3] = [Estimator::StickingTheLanding, Estimator::Total, Estimator::ClosedFormEntropy];

#[test]
fn a_fit_of_every_model_on_the_device_takes_the_steps_of_the_host() {
    runs_agree(AlgorithmChoice::OnDevice { interval: STEPS }, &ALL);
}

#[test]
fn the_host_path_of_every_model_takes_the_same_steps_on_a_gpu() {
    runs_agree(AlgorithmChoice::Central, &ALL[..1]);
}

#[test]
fn every_family_and_the_local_bound_take_the_same_steps_on_a_gpu() {
    let rows = Gaussian::diagonal().given_globals();
    let families = [
        FamilyPlan::new().global(Gaussian::diagonal()).local(Gaussian::diagonal()),
        FamilyPlan::new().global(Gaussian::low_rank(2)).local(rows),
        six_cities_family().site("omega", PointMass),
    ];
    let local = Estimator::LocallyEnhanced { inner: 4 };
    let plans = families.into_iter().map(|family| (family, Estimator::StickingTheLanding));
    let plans: Vec<(FamilyPlan, Estimator)> = plans.chain([(six_cities_family(), local)]).collect();
    let reached = |device: &Device, (family, estimator): &(FamilyPlan, Estimator)| {
        let data = six_cities_data(8, device).swap_remove(0);
        let settings = Settings { steps: STEPS, family: family.clone(), estimator: *estimator, ..Settings::default() };
        let options = FitOptions { settings, elbo_draws: 2, summary_draws: 2, ..FitOptions::default() };
        let fit = fit(&six_cities_model(), &[("one".to_owned(), data)], device, &options, None).unwrap();
        fit.posterior().parameters.to_vec()
    };
    on_every_gpu(|name, device| {
        for plan in &plans {
            let far = far(&reached(device, plan), &reached(&Device::flex(), plan));
            assert!(far < 1e-5, "{name}, {plan:?}: {far:e}");
        }
    });
}

/// Counts the reads of three intervals of ten steps.
struct CountReads {
    device: Device,
}

impl Visit for CountReads {
    fn world<M: Model>(&mut self, name: &str, model: &M, data: &M::Data, settings: &Settings) {
        let settings = Settings { steps: 30, ..settings.clone() };
        let mut algorithm = Central::new(model, &self.device, &settings, "all").unwrap().every(10).unwrap();
        let party = OnDeviceSilo::new("all", model, data, &self.device, &settings).unwrap();
        let mut exchange = InProcess::new(vec![Box::new(party)], 1).unwrap();
        let before = host_reads();
        for _ in 0..3 {
            let outcomes = exchange.exchange(algorithm.outgoing().unwrap(), algorithm.manifest(), None).unwrap();
            algorithm.incoming(outcomes).unwrap();
        }
        assert_eq!(host_reads() - before, 3, "{name}");
    }
}

#[test]
fn ten_steps_on_a_gpu_are_one_read() {
    on_every_gpu(|_, device| every_world(device, &mut CountReads { device: device.clone() }));
}

/// A network with two classes and a data set of so many rows that sums over them are taken in parts.
fn many_rows(device: &Device) -> (BayesianNetwork<Mlp>, LabelledRows) {
    let x: Vec<f64> = (0..8_192).map(|row| f64::from(row % 97) / 48.0 - 1.0).collect();
    let classes = x.iter().map(|x| f64::from(u8::from(*x > 0.2))).collect();
    let network = Mlp::new(&[1, 3, 2], Activation::Tanh, 1, device);
    let model = BayesianNetwork::new(network, Head::Categorical, Normal::new(0.0, 1.0));
    (model, LabelledRows::new(x, classes, 8_192, device).unwrap())
}

#[test]
fn networks_of_many_rows_take_the_steps_of_the_host_with_draws_one_by_one_and_together() {
    let reached = |device: &Device, algorithm, particles: usize| {
        let (model, data) = many_rows(device);
        let family = FamilyPlan::new().global(Gaussian::diagonal()).initial_scale(0.1);
        let (schedule, start) = (Schedule::Constant { rate: 0.02 }, StartFrom::Declared);
        let settings = Settings { steps: STEPS, particles, family, schedule, start, ..Settings::default() };
        let options = FitOptions { algorithm, settings, elbo_draws: 2, trust_draws: Some(0), ..FitOptions::default() };
        let fit = fit(&model, &[("one".to_owned(), data)], device, &options, None).unwrap();
        [fit.posterior().parameters.to_vec(), vec![fit.report.elbo]].concat()
    };
    on_every_gpu(|name, device| {
        for particles in [1, 3] {
            let host = reached(&Device::flex(), AlgorithmChoice::Central, particles);
            let run = || reached(device, AlgorithmChoice::OnDevice { interval: STEPS }, particles);
            let (found, again) = (run(), run());
            let far = far(&found, &host);
            println!("{name}, {particles} draws: {far:.1e}");
            assert!(far < 1e-5, "{name}, {particles} draws: {far:e}");
            assert_eq!(found, again, "{name}, {particles} draws: two runs differ");
        }
    });
}

#[test]
fn silos_that_compute_on_a_gpu_lead_where_those_of_the_host_lead() {
    let methods = |on_device| {
        [
            AlgorithmChoice::Pvi(PviOptions { on_device, ..PviOptions::new(STEPS) }),
            AlgorithmChoice::FedOpt(FedOptOptions { on_device, ..FedOptOptions::fed_avg(STEPS) }),
            AlgorithmChoice::SfviAvg(RoundOptions { on_device, ..RoundOptions::paper(STEPS) }),
            AlgorithmChoice::FewRounds(FewRoundsOptions { on_device, ..FewRoundsOptions::default() }),
        ]
    };
    let reached = |device: &Device, algorithm: &AlgorithmChoice| {
        let (schedule, start) = (Schedule::Constant { rate: 0.02 }, StartFrom::Declared);
        let settings = Settings { steps: 2 * STEPS, schedule, start, ..Settings::default() };
        let algorithm = algorithm.clone();
        let options = FitOptions { algorithm, settings, elbo_draws: 2, trust_draws: Some(0), ..FitOptions::default() };
        let data = silos(&[20, 30], 3, true, device);
        let fit = fit(&Regression { columns: 3, binary: true }, &data, device, &options, None).unwrap();
        fit.posterior().parameters.to_vec()
    };
    on_every_gpu(|name, device| {
        for (resident, host) in methods(true).iter().zip(&methods(false)) {
            let far = far(&reached(device, resident), &reached(&Device::flex(), host));
            println!("{name}, {resident:?}: {far:.1e}");
            // In single precision few rounds end where a thousandth of a nat is left to gain, wherever rounding puts that.
            assert!(far < 2e-3, "{name}, {resident:?}: {far:e}");
        }
    });
}
