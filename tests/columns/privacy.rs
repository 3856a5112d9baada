//! Claims that the messages of vertical fits reveal exactly what the book says, and hold nothing else.

use fixtures::vertical::{LinearWorld, NOISE_SD};
use fixtures::vertical_run::{BinaryWorld, Hand};
use partita::burn::module::Module;
use partita::burn::tensor::Tensor;
use partita::core::{Key, Noise, NoiseKind, Purpose};
use partita::inference::{Error, Message, SiloProgram, VerticalOptions};
use partita::vertical::{
    BernoulliHead, Contribution, Labels, Party, WithIntercept, binary_labels, coordinator, fit, party_program,
};
use partita::{
    AlgorithmChoice, Clip, Design, Device, FamilyPlan, FitOptions, Gaussian, Normal, Result, Rows, Schedule, Scope,
    Settings, burn,
};

const ROWS: usize = 12;

fn settings() -> Settings {
    Settings { steps: 10, family: FamilyPlan::new().global(Gaussian::diagonal()), ..Settings::default() }
}

fn names(message: &Message) -> Vec<&str> {
    message.records.iter().map(|record| record.name.as_str()).collect()
}

/// The contributions of a party at the draw of a step, which only the party itself can compute.
fn contributions(world: &BinaryWorld, hand: &Hand, party: usize, step: u64) -> Vec<f64> {
    let own = &hand.parties[party];
    let mut noise = vec![0.0; world.columns];
    Noise::new(settings().seed).stream(Key::new(Purpose::Fit, step).silo(party as u32)).normal(&mut noise);
    let beta = own.family().draw(own.parameters(), &noise).latent;
    world.inputs[party].chunks(world.columns).map(|x| x.iter().zip(&beta).map(|(x, b)| x * b).sum()).collect()
}

#[test]
fn a_step_sends_what_the_book_lists_and_no_more() {
    let world = BinaryWorld::new(ROWS, 2, 2);
    let mut how = settings();
    how.minibatch.insert("row".into(), 5);
    let mut hand = Hand::new(&world.parties, &world.labels, &how, &VerticalOptions::augmented(1.0));
    hand.exchange();
    let request = hand.algorithm.outgoing().unwrap().swap_remove(0).message;
    assert_eq!(names(&request), ["step", "seed", "rows_in_all", "rows", "answered", "gradient"]);
    assert_eq!(names(&hand.parties[0].answer(&request).unwrap()), ["step", "z", "elbo"]);
    assert_eq!(request.get_floats("gradient").unwrap().len(), 5);
    // A party reports how often it clipped gradients, and only if they are clipped.
    let clipped = Settings { clip: Some(Clip { norm: 1.0 }), ..settings() };
    let mut hand = Hand::new(&world.parties, &world.labels, &clipped, &VerticalOptions::augmented(1.0));
    assert_eq!(names(&hand.exchange().0[0]), ["step", "z", "elbo", "clipped"]);

    let mut hand = Hand::new(&world.parties, &world.labels, &settings(), &VerticalOptions::power_likelihood(1.0));
    let (replies, _) = hand.exchange();
    assert_eq!(names(&replies[0]), ["step", "z"]);
    let request = hand.algorithm.outgoing().unwrap().swap_remove(0).message;
    assert_eq!(names(&request), ["step", "seed", "rows_in_all", "parties", "sum", "head"]);
    assert_eq!(
        names(&hand.parties[0].answer(&request).unwrap()),
        ["step", "elbo", "head_gradient", "predictor_gradient"]
    );
}

#[test]
fn the_sign_of_the_gradient_of_a_bernoulli_head_is_the_label() {
    let world = BinaryWorld::new(ROWS, 3, 2);
    let mut hand = Hand::new(&world.parties, &world.labels, &settings(), &VerticalOptions::augmented(2.0));
    hand.exchange();
    let request = hand.algorithm.outgoing().unwrap().swap_remove(0).message;
    let gradient = request.get_floats("gradient").unwrap();
    assert!(gradient.iter().zip(&world.yes).all(|(g, yes)| (*g > 0.0) == *yes));
}

#[test]
fn the_gradient_of_a_power_likelihood_tells_the_contribution_whatever_rho() {
    let world = BinaryWorld::new(ROWS, 3, 2);
    for rho in [0.5, 5.0] {
        let mut hand = Hand::new(&world.parties, &world.labels, &settings(), &VerticalOptions::power_likelihood(rho));
        let g = contributions(&world, &hand, 1, 0);
        let z = hand.exchange().0[1].get_floats("z").unwrap();
        let request = hand.algorithm.outgoing().unwrap().swap_remove(1).message;
        let (sum, b) = (request.get_floats("sum").unwrap(), request.get_floats("head").unwrap()[0]);
        let share = hand.exchange().0[1].get_floats("predictor_gradient").unwrap();
        for row in 0..ROWS {
            // J h = y - p: the label gives the probability, and hence the predictor.
            let p = f64::from(u8::from(world.yes[row])) - 3.0 * share[row];
            let found = (p / (1.0 - p)).ln() - b - (sum[row] - z[row]);
            assert!((found - g[row]).abs() < 1e-6, "{found} and {}", g[row]);
        }
    }
}

#[test]
fn whoever_has_the_seed_of_the_noise_takes_it_off_and_a_private_seed_prevents_that() {
    let world = BinaryWorld::new(ROWS, 2, 2);
    let options = VerticalOptions::augmented(3.0);
    let mut tau = vec![0.0; ROWS];
    Noise::new(settings().seed).stream(Key::new(Purpose::Fit, 0).silo(0).block(1)).normal(&mut tau);
    let bare = |z: Vec<f64>| -> Vec<f64> { z.iter().zip(&tau).map(|(z, t)| z - 3.0 * t).collect() };
    let mut hand = Hand::new(&world.parties, &world.labels, &settings(), &options);
    let g = contributions(&world, &hand, 0, 0);
    let found = bare(hand.exchange().0[0].get_floats("z").unwrap());
    assert!(found.iter().zip(&g).all(|(a, b)| (a - b).abs() < 1e-12));

    let mut hand = Hand::new(&world.parties, &world.labels, &settings(), &options);
    hand.parties = hand.parties.into_iter().map(|party| party.private_seed(991)).collect();
    let found = bare(hand.exchange().0[0].get_floats("z").unwrap());
    // The rest is the difference of two draws of scale 3.
    let spread = found.iter().zip(&g).map(|(a, b)| (a - b).powi(2)).sum::<f64>() / ROWS as f64;
    assert!(spread > 3.0, "{spread}");
}

#[test]
fn after_a_fit_means_of_messages_tell_the_mean_contributions() {
    let (world, rho) = (LinearWorld::new(ROWS, 2, 2), 1.0);
    let settings = Settings {
        steps: 5_000,
        schedule: Schedule::Cosine { initial: 0.02, last: 0.0 },
        particles: 16,
        noise: NoiseKind::Antithetic,
        ..settings()
    };
    let algorithm = AlgorithmChoice::Vertical(VerticalOptions::augmented(rho).mean_field());
    let options = FitOptions { algorithm, settings, elbo_draws: 1, summary_draws: 0, ..FitOptions::default() };
    let fit = fit(&world.parties, &world.labels, &Device::flex(), &options, None).unwrap();
    let b = fit.posterior().family.mean(fit.posterior().parameters)[0];
    // Means over many steps of the content sent: z of each party, and the gradient (y - b - sum of z) / sigma^2.
    let mean_z = |party: &str| fit.with(party, |own| own.auxiliary_parameters()[..ROWS].to_vec()).unwrap();
    let (first, second) = (mean_z("p0"), mean_z("p1"));
    let beta = fit.with("p0", |own| own.family().mean(own.parameters())).unwrap();
    for row in 0..ROWS {
        let x = &world.inputs[row * 4..row * 4 + 2];
        let contribution: f64 = x.iter().zip(&beta).map(|(x, b)| x * b).sum();
        let gradient = (world.targets[row] - b - first[row] - second[row]) / NOISE_SD.powi(2);
        // The fit has converged to a few thousandths.
        assert!((first[row] - rho * rho * gradient - contribution).abs() < 0.02);
    }
}

/// Slopes with a fault: of more than one row they tell every number more often than a report has draws.
#[derive(Module, Debug)]
struct Telltale {}

impl Contribution for Telltale {
    type Latents = Tensor<1>;
    type Data = Design;

    fn prior(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
        scope.sample("beta", Normal::new(0.0, 1.0))
    }

    fn contribute(&self, beta: &Tensor<1>, rows: &Rows<'_>, data: &Design) -> Result<Tensor<2>> {
        let own = data.take(rows)?.predictor(beta.clone(), None)?;
        Ok(if own.dims()[0] == 1 { own } else { Tensor::cat(vec![own; 65], 1) })
    }
}

#[test]
fn an_answer_of_more_than_the_manifest_lists_does_not_leave_its_party() {
    let device = Device::flex();
    let algorithm = AlgorithmChoice::Vertical(VerticalOptions::direct());
    let options = FitOptions { algorithm, settings: settings(), ..FitOptions::default() };
    let labels = binary_labels(&[true, false, true, true], &device);
    let labels = Labels::new(WithIntercept::new(BernoulliHead {}, Normal::new(0.0, 1.0)), labels);
    let columns = Design::new(vec![1.0, -1.0, 0.5, 2.0], [4, 1, 1]).unwrap();
    let party = Party::new("north", Telltale {}, columns);
    let mut own = party_program(&party, 0, None, &device, &options).unwrap();
    let mut holder = coordinator(&labels, &["north".to_owned()], &device, &options).unwrap();
    let request = holder.outgoing().unwrap().remove(0).message;
    let found = own.answer(&request).unwrap_err();
    assert!(matches!(&found, Error::Manifest { silo, field, .. } if silo == "north" && field == "z"), "{found}");
}
