//! Keeps encoders in their silos: nothing of them in a message, each with a state of its own.

use fixtures::cut::cut_and_resumed;
use fixtures::offset::Offset;
use partita::SiteTable;
use partita::core::{Encoded, shared_theta};
use partita::inference::{Exchange, ImportanceGradient, InProcess, Progress, Request};

use super::*;

const STEPS: u64 = 12;

fn model(device: &Device) -> Amortised<Mixed, Rule> {
    mixed(device).private()
}

fn settings() -> Settings {
    Settings { steps: STEPS, particles: 2, minibatch: minibatch(4), ..Settings::default() }
}

/// An encoder of one latent.
fn rule(device: &Device) -> Rule {
    Rule::new([&[0.4], &[0.1], &[0.05], &[-0.5]], false, device)
}

fn contains(message: &Message, values: &[f64]) -> bool {
    let bytes = message.encode();
    values.iter().any(|value| bytes.windows(8).any(|window| window == value.to_le_bytes()))
}

#[test]
fn no_message_holds_a_private_parameter_or_its_gradient() {
    let device = Device::flex();
    let data = named(&split(&observations(20, 8), 2), &device);
    let names: Vec<String> = data.iter().map(|(name, _)| name.clone()).collect();
    // Requests hold the learning rate, which by default begins at a private starting value.
    let settings = Settings { schedule: Schedule::Adaptive { initial: 0.04 }, ..settings() };
    let mut coordinator = Sfvi::new(&model(&device), &device, &settings, &names).unwrap();
    let silos = data.iter().zip(0..).map(|((name, data), index)| {
        Box::new(Silo::new(name, index, &model(&device), data, &device, &settings).unwrap()) as Box<dyn SiloProgram>
    });
    let mut exchange = InProcess::new(silos.collect(), 1).unwrap();
    let mut watched = theta(&model(&device)).unwrap().split_off(1);
    for _ in 0..STEPS {
        let requests: Vec<Request> = coordinator.outgoing().unwrap();
        for request in &requests {
            assert_eq!(request.message.get_floats("theta").unwrap().len(), 1);
            assert!(!contains(&request.message, &watched));
        }
        let outcomes = exchange.exchange(requests, coordinator.manifest(), None).unwrap();
        for silo in exchange.programs() {
            let own = silo.private_theta();
            assert_eq!(own.len(), 8);
            watched.extend(own);
        }
        for outcome in &outcomes {
            let partita::inference::Outcome::Reply(reply) = outcome else { panic!("{outcome:?}") };
            assert_eq!(reply.get_floats("theta_gradient").unwrap().len(), 1);
            assert!(!contains(reply, &watched));
        }
        coordinator.incoming(outcomes).unwrap();
    }
    assert!(!contains(&coordinator.save(), &watched));
    let field = coordinator.manifest().fields.iter().find(|field| field.name == "theta_gradient").unwrap();
    assert_eq!(field.limit, 1);
}

fn run(options: &FitOptions, progress: Option<&mut dyn Progress>) -> Fit {
    let device = Device::flex();
    let silos = if options.algorithm == AlgorithmChoice::Central { 1 } else { 2 };
    let data = named(&split(&observations(20, 8), silos), &device);
    fit(&model(&device), &data, &device, options, progress).unwrap()
}

/// All trained parameters, bit for bit: the globals, shared θ, and each silo's own.
fn bits(fit: &mut Fit) -> Vec<u64> {
    let mut all = [fit.posterior().parameters, fit.posterior().theta].concat();
    fit.exchange.programs().iter().for_each(|silo| all.extend(silo.private_theta()));
    all.push(fit.report.elbo);
    all.into_iter().map(f64::to_bits).collect()
}

#[test]
fn encoders_differ_between_silos_and_resume_with_the_same_bits() {
    let device = Device::flex();
    let rounds = AlgorithmChoice::SfviAvg(RoundOptions { keep_optimiser: true, ..RoundOptions::paper(3) });
    for algorithm in [AlgorithmChoice::Sfvi, rounds, AlgorithmChoice::Central] {
        let options =
            FitOptions { algorithm: algorithm.clone(), settings: settings(), elbo_draws: 4, ..FitOptions::default() };
        let mut whole = run(&options, None);
        let [cut, mut resumed] = cut_and_resumed(&options, [STEPS / 2, 1_000], run);
        assert_eq!(cut.report.gradient_steps, STEPS / 2);
        assert_eq!(bits(&mut resumed), bits(&mut whole), "{algorithm:?}");
        assert_eq!(whole.report.theta.len(), 1);
        let start = theta(&model(&device)).unwrap();
        let own: Vec<Vec<f64>> = whole.exchange.programs().iter().map(|silo| silo.private_theta()).collect();
        own.iter().for_each(|own| assert_ne!(own[..], start[1..]));
        if let [first, second] = &own[..] {
            assert_ne!(first, second);
        }
        let fitted = whole.model_in(own.len() - 1, &model(&device), &device).unwrap();
        assert_eq!(theta(&fitted).unwrap(), [whole.report.theta.as_slice(), &own[own.len() - 1]].concat());
        assert_eq!(theta(&whole.model(&model(&device), &device).unwrap()).unwrap()[1..], start[1..]);
        assert!(whole.model_in(2, &model(&device), &device).is_err());
    }
}

#[test]
fn a_private_encoder_of_one_silo_takes_the_steps_of_a_shared_one() {
    let device = Device::flex();
    let data = named(&[observations(20, 8)], &device);
    // In units of a tensor's growing values, private and shared tensors take steps of their own.
    let settings = Settings { schedule: Schedule::cosine(), ..settings() };
    for algorithm in [AlgorithmChoice::Sfvi, AlgorithmChoice::Central] {
        let options = FitOptions { algorithm, settings: settings.clone(), elbo_draws: 4, ..FitOptions::default() };
        let shared = fit(&mixed(&device), &data, &device, &options, None).unwrap();
        let mut private = fit(&model(&device), &data, &device, &options, None).unwrap();
        let own = private.exchange.programs()[0].private_theta();
        close(&[private.report.theta.as_slice(), &own].concat(), &shared.report.theta, 1e-10, "θ");
        assert!((private.report.elbo - shared.report.elbo).abs() < 1e-9);
    }
}

#[test]
fn importance_weights_weigh_private_parameters_as_shared_ones_or_are_refused() {
    let device = Device::flex();
    let data = [("one".to_owned(), device.tensor(vec![1.0, 2.5, 0.5], [3]))];
    let estimator = Estimator::ImportanceWeighted { gradient: ImportanceGradient::Total };
    let settings = Settings { estimator, steps: STEPS, particles: 4, ..Settings::default() };
    let fitted = |algorithm: AlgorithmChoice, private| {
        let settings = settings.clone();
        let options = FitOptions { algorithm, settings, elbo_draws: 4, ..FitOptions::default() };
        fit(&Offset::new(0.3, private), &data, &device, &options, None)
    };
    let rounds = AlgorithmChoice::SfviAvg(RoundOptions { keep_optimiser: true, ..RoundOptions::paper(3) });
    for algorithm in [AlgorithmChoice::Central, rounds] {
        let shared = fitted(algorithm.clone(), 0).unwrap();
        let own = fitted(algorithm.clone(), 1).unwrap().exchange.programs()[0].private_theta();
        close(&own, &shared.report.theta, 1e-10, "θ");
        assert!((own[0] - 0.3).abs() > 1e-3, "{algorithm:?} {own:?}");
    }
    let found = fitted(AlgorithmChoice::Sfvi, 1).map(|_| ()).unwrap_err();
    assert!(found.to_string().contains("private θ"), "{found}");
}

#[test]
fn parameters_that_an_inner_model_keeps_private_stay_private() {
    let device = Device::flex();
    let both = Amortised::new(Offset::new(0.3, 1), "row", rule(&device)).private();
    assert!(shared_theta(&both).unwrap().is_empty());
    // Private parameters come last: an encoder after them that parties share has no place.
    let wrong =
        check(&Amortised::new(Offset::new(0.3, 1), "row", rule(&device)), &named(&[vec![1.0]], &device), &device);
    let words = wrong.unwrap_err().to_string();
    assert!(words.contains("call `.private()`"), "{words}");
}

#[test]
fn an_encoder_of_a_plate_that_the_model_has_not_is_refused_with_those_that_it_has() {
    let device = Device::flex();
    let model = Amortised::new(Plain {}, "rows", rule(&device));
    let error = SiteTable::of(&model, &device, &device.tensor(vec![1.0, 2.0], [2])).unwrap_err().to_string();
    assert!(error.contains("`rows`") && error.contains("Name one of its plates: row"), "{error}");
}

/// `Plain` in a silo that may have no rows.
#[derive(Module, Debug)]
struct Perhaps {}

impl Model for Perhaps {
    type Globals = ();
    type Data = Tensor<1>;

    fn global(&self, _: &mut Scope<'_>) -> Result<()> {
        Ok(())
    }

    fn local(&self, scope: &mut Scope<'_>, (): &(), data: &Tensor<1>) -> Result<()> {
        if data.dims()[0] > 0 { Plain {}.local(scope, &(), data) } else { Ok(()) }
    }
}

#[test]
fn an_encoder_of_a_silo_without_rows_has_no_plate_to_serve() {
    let device = Device::flex();
    let model = Amortised::new(Perhaps {}, "row", rule(&device));
    let blocks = |rows: Vec<f64>| {
        let shape = [rows.len()];
        let table = SiteTable::of(&model, &device, &device.tensor(rows, shape)).unwrap();
        table.blocks().iter().filter(|block| block.width > 0).count()
    };
    assert_eq!([blocks(vec![]), blocks(vec![1.0, 2.0])], [0, 1]);
}

#[test]
fn an_encoder_around_a_model_with_an_encoder_leaves_it_its_plate() {
    let device = Device::flex();
    let inner = Amortised::new(Plain {}, "row", rule(&device));
    let data = device.tensor(vec![1.0, 2.0], [2]);
    let table = SiteTable::of(&inner, &device, &data).unwrap();
    let alone = Encoded::of(&inner, &table, 0, &data, None).unwrap().unwrap();
    // The outer one serves a plate that is not there: what it hands on is what is read here.
    let outer = Amortised::new(inner, "other", rule(&device));
    let handed = Encoded::of(&outer, &table, 0, &data, None).unwrap().unwrap();
    assert_eq!(handed.parameters(), alone.parameters());
}

/// Partitioned inference in one silo, in visits of so many steps; θ that is shared rests.
fn visits(local_steps: u64, theta_every: u64, solver: Plug<dyn LocalSolver>) -> std::result::Result<Fit, Error> {
    let device = Device::flex();
    let options = PviOptions { solver, theta_every, ..PviOptions::new(local_steps) };
    let algorithm = AlgorithmChoice::Pvi(options);
    // An optimiser that goes on from visit to visit has no phases.
    let settings = Settings { schedule: Schedule::cosine(), ..settings() };
    let options = FitOptions { algorithm, settings, elbo_draws: 4, ..FitOptions::default() };
    let data = named(&[observations(20, 8)], &device);
    fit(&model(&device), &data, &device, &options, None)
}

#[test]
fn one_long_visit_trains_a_private_encoder_as_visits_of_one_step_do() {
    let kept = Plug::<dyn LocalSolver>::from(GradientDescent { keep_optimiser: true, ..GradientDescent::default() });
    let [mut long, mut short] = [STEPS, 1].map(|steps| visits(steps, 1_000, kept.clone()).unwrap());
    let [one, other] = [&mut long, &mut short].map(|fit| fit.exchange.programs()[0].private_theta());
    close(&one, &other, 1e-9, "private θ");
    close(long.posterior().parameters, short.posterior().parameters, 1e-9, "the posterior");
    let start = theta(&model(&Device::flex())).unwrap().split_off(1);
    assert!(one.iter().zip(&start).all(|(trained, start)| (trained - start).abs() > 1e-3), "{one:?}");
}

#[test]
fn a_private_encoder_rests_where_theta_does_and_is_refused_where_a_solver_would_not_train_it() {
    let gradient = GradientDescent::default().into();
    let mut rested = visits(3, 0, gradient).unwrap();
    let start = theta(&model(&Device::flex())).unwrap().split_off(1);
    assert_eq!(rested.exchange.programs()[0].private_theta(), start);
    let expectation = Expectation::MonteCarlo { draws: 6 };
    let natural = NaturalGradient { rate: 0.5, expectation }.into();
    let found = visits(1, 1, natural).map(|_| ()).unwrap_err();
    assert!(found.to_string().contains("8 parameters θ that stay in their silo"), "{found}");
}
