//! Claims that SOUL finds the modes and the too narrow posteriors that theory predicts for a linear-Gaussian model.

use fixtures::vertical::LinearWorld;
use partita::core::NoiseKind;
use partita::inference::{
    Algorithm, Error, Exchange, InProcess, Message, Outcome, RunOptions, Silent, SiloProgram, run,
};
use partita::vertical::Augmentation;
use partita::{Clip, Device, Estimator, FamilyPlan, Gaussian, Loss, Schedule, Settings};
use partita_studies::{Soul, SoulCoordinator};

const RHO: f64 = 1.0;
const HOW: Soul = Soul { rho: RHO, draws: 20, langevin_step: 0.04, burn_in: 1_500 };

fn settings(steps: u64) -> Settings {
    Settings { steps, schedule: Schedule::Cosine { initial: 0.05, last: 0.0 }, ..Settings::default() }
}

fn start(world: &LinearWorld, how: Soul, steps: u64) -> (SoulCoordinator, InProcess) {
    let (parties, labels) = (world.parties.clone(), world.labels.clone());
    how.parties(parties, labels, &Device::flex(), &settings(steps), 1).unwrap()
}

fn go(coordinator: &mut SoulCoordinator, exchange: &mut InProcess, steps: u64) {
    run(coordinator, exchange, &RunOptions { steps, ..RunOptions::default() }, &mut Silent).unwrap();
}

/// The auxiliary variables that a party would send at its present state.
fn auxiliary(coordinator: &SoulCoordinator, exchange: &mut InProcess) -> Vec<Vec<f64>> {
    let outcomes = exchange.exchange(coordinator.elbo_requests(1, 0), coordinator.manifest(), None).unwrap();
    let sent = |outcome| match outcome {
        Outcome::Reply(reply) => reply.get_floats("auxiliary").unwrap(),
        other => panic!("{other:?}"),
    };
    outcomes.into_iter().map(sent).collect()
}

#[test]
fn soul_ends_at_the_posterior_mode_of_z_and_draws_from_the_posterior_given_it() {
    let (parties, steps) = (2, 3_000);
    let world = LinearWorld::new(12, parties, 1);
    // For a Gaussian the mode is the mean: that of all latents together is that of z after integrating the others out.
    let joint = world.joint(Augmentation::Auxiliary { rho: RHO });
    let (mut coordinator, mut exchange) = start(&world, HOW, steps);
    go(&mut coordinator, &mut exchange, steps);
    // Latents: the coefficients, the intercept, then z row by row and party by party.
    let z = auxiliary(&coordinator, &mut exchange);
    let draws = ((steps - HOW.burn_in) * HOW.draws) as f64;
    for (party, own) in z.iter().enumerate() {
        for (row, found) in own.iter().enumerate() {
            let expected = joint.mean[parties + 1 + row * parties + party];
            // The last half of the steps have a rate below 0.025; noise of gradients leaves less than this.
            assert!((found - expected).abs() < 0.02, "z[{row}] of party {party}: {found} and {expected}");
        }
    }
    assert!((coordinator.head()[0] - joint.mean[parties]).abs() < 0.02);
    for party in 0..parties {
        let x = || world.inputs.chunks(parties).map(|row| row[party]);
        let (precision, h) = (x().map(|x| x * x).sum::<f64>() / RHO.powi(2) + 1.0, HOW.langevin_step);
        // Given z the chain is autoregressive with this coefficient, and its variance is known with the bias of h.
        let (memory, variance) = (1.0 - h * precision, 1.0 / (precision * (1.0 - 0.5 * h * precision)));
        let (mean, sd) = exchange.programs()[party].local_moments().unwrap().remove(0);
        let independent = draws * (1.0 - memory) / (1.0 + memory);
        // 5 standard errors, plus the shift due to a z that is off by 0.02 in every row.
        let shift = 0.02 * x().map(f64::abs).sum::<f64>() / (precision * RHO.powi(2));
        let error = (mean[0] - joint.mean[party]).abs();
        assert!(error < 5.0 * (variance / independent).sqrt() + shift, "{error}");
        let independent = draws * (1.0 - memory * memory) / (1.0 + memory * memory);
        let error = (sd[0].powi(2) / variance - 1.0).abs();
        // The moving z of the third quarter adds a little.
        assert!(error < 5.0 * (2.0 / independent).sqrt() + 0.02, "{error}");
        // The posterior with z integrated out is wider, as the documentation warns.
        let size = joint.size();
        assert!(joint.covariance[party * size + party] > 1.3 * variance);
    }
}

#[test]
fn soul_has_the_same_bits_for_any_number_of_threads_and_after_a_resume() {
    let world = LinearWorld::new(6, 3, 2);
    let how = Soul { burn_in: 4, ..HOW };
    let (mut coordinator, mut exchange) = start(&world, how, 20);
    go(&mut coordinator, &mut exchange, 20);
    let expected = (coordinator.save(), auxiliary(&coordinator, &mut exchange));
    let moments = |exchange: &mut InProcess| {
        exchange.programs().iter().map(|party| party.local_moments().unwrap()).collect::<Vec<_>>()
    };
    let (parties, labels) = (world.parties.clone(), world.labels.clone());
    let (mut one, mut threads) = how.parties(parties, labels, &Device::flex(), &settings(20), 4).unwrap();
    go(&mut one, &mut threads, 20);
    assert_eq!((one.save(), auxiliary(&one, &mut threads)), expected);
    // Stopped in the middle and resumed with fresh parties.
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = Some((folder.path().to_owned(), 7));
    let options = |steps, resume| RunOptions { steps, resume, checkpoint: checkpoint.clone(), ..RunOptions::default() };
    let (mut before, mut parties) = start(&world, how, 20);
    run(&mut before, &mut parties, &options(14, false), &mut Silent).unwrap();
    let (mut after, mut resumed) = start(&world, how, 20);
    run(&mut after, &mut resumed, &options(20, true), &mut Silent).unwrap();
    assert_eq!((after.save(), auxiliary(&after, &mut resumed)), expected);
    assert_eq!(moments(&mut resumed), moments(&mut exchange));
}

#[test]
fn a_round_of_soul_sends_one_number_a_row_each_way_whatever_the_number_of_parties() {
    let bytes = |rows, parties| {
        let world = LinearWorld::new(rows, parties, 1);
        let (mut coordinator, mut exchange) = start(&world, HOW, 3);
        let record =
            run(&mut coordinator, &mut exchange, &RunOptions { steps: 3, ..RunOptions::default() }, &mut Silent);
        let counters = record.unwrap().counters;
        [counters.bytes_to_silos, counters.bytes_from_silos].map(|bytes| bytes / parties as u64)
    };
    let (few, many, more) = (bytes(10, 2), bytes(20, 2), bytes(10, 5));
    // Ten more rows are 80 more bytes: in three answers, and in the two requests that have a gradient.
    assert_eq!([many[0] - few[0], many[1] - few[1]], [160, 240]);
    assert_eq!(few, more);
}

/// A party of this name that answers every request with these numbers.
struct Fixed(&'static str, Vec<f64>);

impl SiloProgram for Fixed {
    fn name(&self) -> &str {
        self.0
    }

    fn answer(&mut self, request: &Message) -> partita::inference::Result<Message> {
        let step = request.get_word("step")?;
        Ok(Message::new("soul.auxiliary").word("step", step).floats("auxiliary", &self.1))
    }
}

#[test]
fn a_party_that_answers_nonsense_is_named_and_the_coordinator_keeps_its_state() {
    let world = LinearWorld::new(4, 2, 1);
    for nonsense in [vec![0.0, f64::NAN, 0.0, 0.0], vec![0.0; 3]] {
        let (mut coordinator, mut exchange) = start(&world, HOW, 5);
        go(&mut coordinator, &mut exchange, 2);
        let before = coordinator.save();
        let parties: Vec<Box<dyn SiloProgram>> =
            vec![Box::new(Fixed("p0", vec![0.0; 4])), Box::new(Fixed("p1", nonsense))];
        let mut exchange = InProcess::new(parties, 1).unwrap();
        let options = RunOptions { steps: 3, ..RunOptions::default() };
        let error = run(&mut coordinator, &mut exchange, &options, &mut Silent).unwrap_err();
        assert!(error.to_string().contains("`p1`"), "{error}");
        assert!(matches!(error, Error::NotFinite { .. } | Error::InSilo { .. }), "{error:?}");
        assert_eq!(coordinator.save(), before);
    }
}

#[test]
fn a_gradient_that_is_no_number_is_refused_before_it_moves_anything() {
    let world = LinearWorld::new(4, 2, 1);
    for nonsense in [f64::NAN, f64::INFINITY] {
        let (mut coordinator, mut exchange) = start(&world, HOW, 5);
        go(&mut coordinator, &mut exchange, 2);
        let before = auxiliary(&coordinator, &mut exchange);
        let mut request = coordinator.outgoing().unwrap().remove(1).message;
        request.records.retain(|record| record.name != "gradient");
        let request = request.floats("gradient", &[0.0, 0.0, nonsense, 0.0]);
        let error = exchange.programs()[1].answer(&request).unwrap_err();
        let Error::NotFinite { who, quantity, .. } = &error else { panic!("{error:?}") };
        assert_eq!((who.as_str(), quantity.as_str()), ("silo `p1`", "the gradient by z[2]"));
        assert_eq!(auxiliary(&coordinator, &mut exchange), before);
    }
}

#[test]
fn options_out_of_their_domain_are_refused() {
    let world = LinearWorld::new(4, 2, 1);
    let refuse = |how: Soul, settings: Settings| {
        let (parties, labels) = (world.parties.clone(), world.labels.clone());
        how.parties(parties, labels, &Device::flex(), &settings, 1).map(drop).unwrap_err()
    };
    let named = |error: Error| match error {
        Error::Setting { setting, .. } => setting,
        other => panic!("{other}"),
    };
    assert_eq!(named(refuse(Soul { rho: 0.0, ..HOW }, settings(1))), "soul.rho");
    assert_eq!(named(refuse(Soul { langevin_step: f64::NAN, ..HOW }, settings(1))), "soul.langevin_step");
    assert_eq!(named(refuse(Soul { draws: 0, ..HOW }, settings(1))), "soul.draws");
    let minibatch = [("row".to_owned(), 2)].into();
    assert_eq!(named(refuse(HOW, Settings { minibatch, ..settings(1) })), "minibatch");
    // A setting without effect is refused, not ignored.
    let of = |change: fn(&mut Settings)| {
        let mut settings = settings(1);
        change(&mut settings);
        named(refuse(HOW, settings))
    };
    assert_eq!(of(|settings| settings.loss = Loss::Beta(1.5)), "loss");
    assert_eq!(of(|settings| settings.estimator = Estimator::Total), "estimator");
    assert_eq!(of(|settings| settings.particles = 2), "particles");
    assert_eq!(of(|settings| settings.noise = NoiseKind::Sobol), "noise");
    assert_eq!(of(|settings| settings.clip = Some(Clip { norm: 1.0 })), "clip");
    assert_eq!(of(|settings| settings.family = FamilyPlan::new().global(Gaussian::full_rank())), "family");
    // A step too long for the curvature is reported as such.
    let (mut coordinator, mut exchange) = start(&world, Soul { langevin_step: 50.0, draws: 300, ..HOW }, 5);
    let options = RunOptions { steps: 5, ..RunOptions::default() };
    let error = run(&mut coordinator, &mut exchange, &options, &mut Silent).unwrap_err();
    assert!(error.to_string().contains("Langevin step of 50"), "{error}");
    // Rows that were not aligned.
    let other = LinearWorld::new(5, 2, 1);
    let parties = vec![world.parties[0].clone(), other.parties[1].clone()];
    let error = HOW.parties(parties, world.labels.clone(), &Device::flex(), &settings(1), 1).map(drop).unwrap_err();
    assert!(matches!(&error, Error::InSilo { silo, .. } if silo == "p1"), "{error}");
}
