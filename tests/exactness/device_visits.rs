//! Compares visits of partitioned inference that stay on the device with those on the host, step for step, and counts reads.

use fixtures::far;
use fixtures::regression::{Regression, silos};
use fixtures::worlds::{Visit, every_world};
use partita::core::{host_reads, theta};
use partita::inference::{
    Algorithm, EarlyStop, Error, Expectation, GradientDescent, Lbfgs, Monitor, Outcome, Pvi, PviSilo, Renyi, Sgd, Silo,
    SiloProgram, Start, StartFrom,
};
use partita::{
    AlgorithmChoice, Clip, Device, Estimator, FamilyPlan, Fit, FitOptions, Gaussian, Model, Precision, PviOptions,
    Schedule, Settings,
};

use super::device_points::has_latent_rows;
use super::on_device::{conjugate_fit, flat, goes_on_to_the_same_bits, same_course, same_ends, twins};

/// Local steps of a visit, and visits.
const STEPS: u64 = 12;
const VISITS: u64 = 4;

fn visits(on_device: bool, solver: GradientDescent) -> PviOptions {
    PviOptions { on_device, solver: solver.into(), ..PviOptions::new(STEPS) }
}

fn fitted<M: Model>(
    world: (&M, &M::Data),
    device: &Device,
    settings: &Settings,
    how: PviOptions,
) -> Result<Fit, Error> {
    let settings = Settings { steps: STEPS * VISITS, start: StartFrom::Declared, ..settings.clone() };
    twins(world, device, AlgorithmChoice::Pvi(how), &settings)
}

/// How many fits were compared.
struct SameVisits {
    compared: usize,
}

impl Visit for SameVisits {
    fn world<M: Model>(&mut self, name: &str, model: &M, data: &M::Data, settings: &Settings) {
        let device = Device::flex();
        let plain = GradientDescent::default();
        // A step of θ moves latents of rows on the host.
        let theta_every = u64::from(!has_latent_rows(model, data, &device));
        for (estimator, solver) in [
            (Estimator::StickingTheLanding, plain),
            (Estimator::Total, GradientDescent { keep_optimiser: true, start: Start::Previous, ..plain }),
            (Estimator::ClosedFormEntropy, GradientDescent { start: Start::Tight { deviation: 0.2 }, ..plain }),
        ] {
            let settings = Settings { estimator, schedule: Schedule::cosine(), ..settings.clone() };
            let run = |on_device| {
                fitted((model, data), &device, &settings, PviOptions { theta_every, ..visits(on_device, solver) })
            };
            let at = format!("{name}, {estimator:?}");
            let (mut host, mut resident) = match (run(false), run(true)) {
                (Ok(host), Ok(resident)) => (host, resident),
                // Point masses have no factors.
                (Err(_), Err(_)) => continue,
                (Ok(_), Err(error)) => panic!("{at}: on the device alone {error}"),
                (Err(error), Ok(_)) => panic!("{at}: on the host alone {error}"),
            };
            // Rounding does not grow where rows speak of every global: discrepancies are of some 1e-15 in every model. Of a gradient
            // that is zero but for rounding, Adam makes steps of any size up to the rate: then no bound would hold.
            same_course(&at, ["parameters", "visits"], &resident, &host);
            same_ends(&at, &mut resident, &mut host);
            self.compared += 1;
        }
    }
}

#[test]
fn visits_on_the_device_take_the_steps_of_visits_on_the_host_for_every_model() {
    let mut same = SameVisits { compared: 0 };
    every_world(&Device::flex(), &mut same);
    assert!(same.compared >= 30, "{} fits were compared", same.compared);
}

#[test]
fn visits_in_single_precision_are_those_of_the_host_in_double_to_its_rounding() {
    let reached = |device: &Device, family: Gaussian, on_device| {
        let data = silos(&[30], 3, true, device).remove(0).1;
        let model = Regression { columns: 3, binary: true };
        let settings = Settings {
            family: FamilyPlan::new().global(family),
            optimiser: Sgd { momentum: 0.5 }.into(),
            schedule: Schedule::Constant { rate: 2e-3 },
            particles: 2,
            ..Settings::default()
        };
        let how = visits(on_device, GradientDescent::default());
        fitted((&model, &data), device, &settings, how).unwrap().posterior().parameters.to_vec()
    };
    let single = Device::flex().with_precision(Precision::Single);
    for family in [Gaussian::diagonal(), Gaussian::full_rank()] {
        let found = reached(&single, family, true);
        // A gradient of some ten has a few roundings of 6e-8, and 48 steps have a sum of rates of 0.2 at their momentum.
        let far = far(&found, &reached(&Device::flex(), family, false));
        assert!(far < 1e-4, "{family:?}: {far:e}");
    }
}

struct CountReads {
    counted: usize,
}

impl Visit for CountReads {
    fn world<M: Model>(&mut self, name: &str, model: &M, data: &M::Data, settings: &Settings) {
        let (device, names) = (Device::flex(), ["north", "south"].map(str::to_owned));
        let settings = Settings { steps: STEPS * VISITS, ..settings.clone() };
        let how = PviOptions { theta_every: 0, ..visits(true, GradientDescent::default()) };
        let Ok(mut pvi) = Pvi::new(model, &device, &settings, &names, vec![1, 1], how.clone()) else { return };
        let silo = |(name, index): (&String, u32)| {
            let silo = Silo::new(name, index, model, data, &device, &settings).unwrap();
            PviSilo::new(silo, index, how.clone()).unwrap()
        };
        let mut silos: Vec<PviSilo> = names.iter().zip(0..).map(silo).collect();
        for visit in 1..=VISITS {
            let request = pvi.outgoing().unwrap().remove(0);
            let before = host_reads();
            let answer = silos[request.silo].answer(&request.message).unwrap();
            assert_eq!(host_reads() - before, 1, "{name}: one read in visit {visit}");
            pvi.incoming(vec![Outcome::Reply(answer)]).unwrap();
        }
        self.counted += 1;
    }
}

#[test]
fn a_visit_is_one_read() {
    let mut reads = CountReads { counted: 0 };
    every_world(&Device::flex(), &mut reads);
    assert!(reads.counted > 0, "no model has factors");
}

fn options(how: PviOptions) -> FitOptions {
    FitOptions {
        algorithm: AlgorithmChoice::Pvi(how),
        settings: Settings { steps: STEPS * VISITS, family: fixtures::structured(), ..Settings::default() },
        elbo_draws: 2,
        summary_draws: 2,
        ..FitOptions::default()
    }
}

#[test]
fn a_run_cut_between_visits_goes_on_to_the_same_bits() {
    let solver = GradientDescent { keep_optimiser: true, start: Start::Previous, ..GradientDescent::default() };
    goes_on_to_the_same_bits(&options(visits(true, solver)), STEPS);
}

#[test]
fn a_visit_that_fails_leaves_the_silo_where_it_was() {
    let (device, names) = (Device::flex(), ["north".to_owned()]);
    let data = fixtures::ConjugateGaussian::data(&fixtures::groups(6, 3), &device).unwrap();
    // A rate of this size overflows within the visit.
    let schedule = Schedule::Constant { rate: 1e200 };
    let settings = Settings { steps: STEPS, schedule, family: fixtures::structured(), ..Settings::default() };
    let (model, how) = (fixtures::conjugate(), visits(true, GradientDescent::default()));
    let mut pvi = Pvi::new(&model, &device, &settings, &names, vec![6], how.clone()).unwrap();
    let silo = Silo::new("north", 0, &model, &data, &device, &settings).unwrap();
    let mut silo = PviSilo::new(silo, 0, how).unwrap();
    let before = flat(silo.local_moments().unwrap());
    let error = silo.answer(&pvi.outgoing().unwrap()[0].message).unwrap_err().to_string();
    // The bound of a visit is a mean over its last tenth, rounded up to whole steps.
    assert!(error.contains("steps 11 to 12"), "{error}");
    assert_eq!(flat(silo.local_moments().unwrap()), before);
    assert!(silo.factor().iter().all(|number| *number == 0.0));
}

struct RefuseTheta {
    refused: usize,
}

impl Visit for RefuseTheta {
    fn world<M: Model>(&mut self, name: &str, model: &M, data: &M::Data, settings: &Settings) {
        let device = Device::flex();
        if theta(model).unwrap().is_empty() || !has_latent_rows(model, data, &device) {
            return;
        }
        let silo = Silo::new("north", 0, model, data, &device, settings).unwrap();
        let Err(error) = PviSilo::new(silo, 0, visits(true, GradientDescent::default())) else {
            panic!("{name}: steps of θ would move latents of rows on the host")
        };
        assert!(error.to_string().contains("theta_every"), "{name}: {error}");
        self.refused += 1;
    }
}

#[test]
fn what_has_no_device_form_is_refused_in_words() {
    let plain = GradientDescent::default();
    let stop = EarlyStop { monitor: Monitor::FreeEnergy, window: 3, patience: 1 };
    let lbfgs = Lbfgs::new(Expectation::GaussHermite { points: 2 });
    let refused = [
        (visits(true, GradientDescent { stop: Some(stop), ..plain }), "early stopping"),
        (PviOptions { solver: lbfgs.into(), ..visits(true, plain) }, "GradientDescent"),
        (PviOptions { divergence: Renyi { alpha: 0.5 }.into(), ..visits(true, plain) }, "KullbackLeibler"),
    ];
    for (how, words) in refused {
        let error = conjugate_fit(&options(how)).unwrap_err().to_string();
        assert!(error.contains("on_device") && error.contains(words), "{error}");
    }
    let mut clipped = options(visits(true, plain));
    clipped.settings.clip = Some(Clip { norm: 1.0 });
    let error = conjugate_fit(&clipped).unwrap_err().to_string();
    assert!(error.contains("clip") && error.contains("device"), "{error}");
    let mut isotropic = options(visits(true, plain));
    isotropic.settings.family = FamilyPlan::new().global(Gaussian::isotropic()).local(Gaussian::diagonal());
    let error = conjugate_fit(&isotropic).unwrap_err().to_string();
    assert!(error.contains("isotropic for `mu`"), "{error}");
    let mut theta = RefuseTheta { refused: 0 };
    every_world(&Device::flex(), &mut theta);
    assert!(theta.refused > 0);
}
