//! Claims that parties exchanging messages compute the same gradient of the bound as one process.

use fixtures::vertical_run::{BinaryWorld, Hand};
use partita::burn::tensor::{DType, FloatDType, Tensor, TensorCreationOptions, TensorData};
use partita::core::{Handle, Key, Noise, Purpose};
use partita::inference::{AuxiliaryFamily, Message, Outcome, Sgd, SiloProgram, VerticalOptions};
use partita::vertical::Augmentation;
use partita::{Clip, Device, Estimator, FamilyPlan, Gaussian, Schedule, Settings};

const RHO: f64 = 0.8;
const HIDDEN: usize = 3;
const COLUMNS: usize = 2;
const ROWS: usize = 12;
const SEED: u64 = 4;

/// A leaf of Burn's tape.
fn leaf<const D: usize>(values: &[f64], shape: [usize; D]) -> Tensor<D> {
    let options =
        TensorCreationOptions::new(Device::flex().autodiff().clone()).with_dtype(DType::from(FloatDType::F64));
    Tensor::from_data(TensorData::new(values.to_vec(), shape), options).require_grad()
}

fn constant<const D: usize>(values: &[f64], shape: [usize; D]) -> Tensor<D> {
    let options =
        TensorCreationOptions::new(Device::flex().autodiff().clone()).with_dtype(DType::from(FloatDType::F64));
    Tensor::from_data(TensorData::new(values.to_vec(), shape), options)
}

fn noise(key: Key, count: usize) -> Vec<f64> {
    fixtures::standard_normals(&mut Noise::new(SEED).stream(key), count)
}

/// Log density of a normal, summed.
fn normal<const D: usize>(x: Tensor<D>, mean: Tensor<D>, log_scale: Tensor<D>) -> Tensor<1> {
    let z = (x - mean) / log_scale.clone().exp();
    let half_log_two_pi = 0.5 * std::f64::consts::TAU.ln();
    (z.clone() * z * -0.5 - log_scale - half_log_two_pi).sum()
}

/// The term of q of one latent: minus its log density at the draw or its entropy, as the estimator chooses.
fn entropy<const D: usize>(estimator: Estimator, x: Tensor<D>, mean: Tensor<D>, log_scale: Tensor<D>) -> Tensor<1> {
    match estimator {
        Estimator::StickingTheLanding => -normal(x, mean.detach(), log_scale.detach()),
        Estimator::Total => -normal(x, mean, log_scale),
        _ => (log_scale + 0.5 * (1.0 + std::f64::consts::TAU.ln())).sum(),
    }
}

/// The parameters of one party as leaves: means, log scales, and those of its auxiliary variables.
struct Leaves {
    mean: Tensor<1>,
    log_scale: Tensor<1>,
    auxiliary: Tensor<1>,
}

/// One case of the comparison.
#[derive(Debug, Clone, Copy)]
struct Case {
    power: bool,
    auxiliary: AuxiliaryFamily,
    estimator: Estimator,
    parties: usize,
    batch: Option<usize>,
}

impl Case {
    fn options(self) -> VerticalOptions {
        let augmentation =
            if self.power { Augmentation::PowerLikelihood { rho: RHO } } else { Augmentation::Auxiliary { rho: RHO } };
        VerticalOptions { augmentation, auxiliary: self.auxiliary, local_steps: 1 }
    }

    fn settings(self) -> Settings {
        Settings {
            steps: 10,
            seed: SEED,
            estimator: self.estimator,
            family: FamilyPlan::new().global(Gaussian::diagonal()),
            // A step of plain descent at rate 1 is the gradient.
            optimiser: Sgd { momentum: 0.0 }.into(),
            schedule: Schedule::Constant { rate: 1.0 },
            minibatch: self.batch.map(|size| ("row".to_owned(), size)).into_iter().collect(),
            ..Settings::default()
        }
    }
}

/// The whole bound of all parties in one process on Burn's tape, written from the formulas of the model alone.
struct Pooled<'w> {
    world: &'w BinaryWorld,
    case: Case,
    rows: Vec<usize>,
}

impl Pooled<'_> {
    fn weight(&self) -> f64 {
        ROWS as f64 / self.rows.len() as f64
    }

    fn labels(&self) -> Tensor<1> {
        let y: Vec<f64> = self.rows.iter().map(|&row| f64::from(u8::from(self.world.yes[row]))).collect();
        constant(&y, [self.rows.len()])
    }

    /// Labels with mean 0 and variance 1 over all rows.
    fn features(&self) -> Tensor<2> {
        let share = self.world.yes.iter().filter(|yes| **yes).count() as f64 / ROWS as f64;
        let scale = (share * (1.0 - share)).sqrt();
        ((self.labels() - share) / scale).reshape([self.rows.len(), 1])
    }

    /// Mean and log scale of a party's auxiliary variables.
    fn auxiliary(&self, parameters: &Tensor<1>, g: &Tensor<1>) -> (Tensor<1>, Tensor<1>) {
        let count = self.rows.len();
        let take = |start: usize, length: usize| parameters.clone().narrow(0, start, length);
        if self.case.auxiliary == AuxiliaryFamily::MeanField {
            let indices: Vec<i64> = self.rows.iter().map(|&row| row as i64).collect();
            let device = parameters.device();
            let rows = || Tensor::from_data(TensorData::new(indices.clone(), [count]), &device);
            return (take(0, ROWS).select(0, rows()), take(ROWS, ROWS).select(0, rows()));
        }
        let column = g.clone().reshape([count, 1]);
        let means = matches!(self.case.auxiliary, AuxiliaryFamily::Amortised { .. });
        let u = if self.case.power && means { Tensor::cat(vec![column, self.features()], 1) } else { column };
        let inputs = u.dims()[1];
        let mut next = 0;
        let mut matrix = |rows: usize, columns: usize| {
            next += rows * columns;
            take(next - rows * columns, rows * columns).reshape([rows, columns])
        };
        let (w1, b1) = (matrix(HIDDEN, inputs), matrix(1, HIDDEN));
        let heads = if means { 2 } else { 1 };
        let (w2, a, b2) = (matrix(heads, HIDDEN), matrix(heads, inputs), matrix(1, heads));
        let hidden = (u.clone().matmul(w1.transpose()) + b1).tanh();
        let out = hidden.matmul(w2.transpose()) + u.matmul(a.transpose()) + b2;
        let column = |index: usize| out.clone().narrow(1, index, 1).reshape([count]);
        let mean = if means { g.clone() + column(0) } else { g.clone() };
        (mean, column(heads - 1) + RHO.ln())
    }

    fn log_likelihood(&self, eta: Tensor<1>) -> Tensor<1> {
        (self.labels() * eta.clone() - (eta.exp() + 1.0).log()).sum() * self.weight()
    }

    /// The sampled bound.
    fn bound(&self, parties: &[Leaves], head: &(Tensor<1>, Tensor<1>)) -> Tensor<1> {
        let estimator = self.case.estimator;
        let count = self.rows.len();
        let b = head.0.clone() + head.1.clone().exp() * constant(&noise(Key::new(Purpose::Fit, 0), 1), [1]);
        let zero = |length: usize| constant(&vec![0.0; length], [length]);
        let mut total =
            normal(b.clone(), zero(1), zero(1)) + entropy(estimator, b.clone(), head.0.clone(), head.1.clone());
        let (mut contributions, mut auxiliaries) = (Vec::new(), Vec::new());
        for (index, leaves) in parties.iter().enumerate() {
            let key = Key::new(Purpose::Fit, 0).silo(index as u32);
            let draw = leaves.mean.clone() + leaves.log_scale.clone().exp() * constant(&noise(key, COLUMNS), [COLUMNS]);
            let x: Vec<f64> = self
                .rows
                .iter()
                .flat_map(|row| &self.world.inputs[index][row * COLUMNS..(row + 1) * COLUMNS])
                .copied()
                .collect();
            let g = constant(&x, [count, COLUMNS]).matmul(draw.clone().reshape([COLUMNS, 1])).reshape([count]);
            let (mean, log_scale) = self.auxiliary(&leaves.auxiliary, &g);
            let z = mean.clone() + log_scale.clone().exp() * constant(&noise(key.block(1), count), [count]);
            let log_rho = zero(count) + RHO.ln();
            let around = if estimator == Estimator::ClosedFormEntropy {
                // Minus the Kullback-Leibler divergence of N(mean, scale^2) from N(g, rho^2).
                let square = (mean.clone() - g.clone()).powf_scalar(2.0) + (log_scale.clone() * 2.0).exp();
                (log_scale.clone() - RHO.ln() + 0.5 - square * (0.5 / RHO / RHO)).sum()
            } else {
                normal(z.clone(), g.clone(), log_rho) + entropy(estimator, z.clone(), mean, log_scale)
            };
            total = total + around * self.weight();
            total = total + normal(draw.clone(), zero(COLUMNS), zero(COLUMNS));
            total = total + entropy(estimator, draw, leaves.mean.clone(), leaves.log_scale.clone());
            contributions.push(g);
            auxiliaries.push(z);
        }
        let sum = auxiliaries.iter().cloned().reduce(|a, b| a + b).unwrap();
        if !self.case.power {
            return total + self.log_likelihood(sum + b);
        }
        let share = 1.0 / parties.len() as f64;
        for (g, z) in contributions.into_iter().zip(auxiliaries) {
            total = total + self.log_likelihood(sum.clone() - z + g + b.clone()) * share;
        }
        total
    }
}

/// The largest difference between gradients, relative to the largest gradient.
fn worst(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let scale = expected.iter().fold(1.0_f64, |most, value| most.max(value.abs()));
    fixtures::largest(found.iter().zip(expected).map(|(a, b)| (a - b).abs())) / scale
}

fn gradient_of(leaf: &Tensor<1>, gradients: &partita::burn::tensor::Gradients) -> Vec<f64> {
    leaf.grad(gradients).map_or(vec![0.0; leaf.dims()[0]], |gradient| Handle::from(gradient).read().unwrap().values)
}

fn compare(case: Case) {
    let world = BinaryWorld::new(ROWS, case.parties, COLUMNS);
    let mut hand = Hand::new(&world.parties, &world.labels, &case.settings(), &case.options());
    hand.scatter();
    let head = hand.algorithm.posterior().parameters.to_vec();
    let before: Vec<(Vec<f64>, Vec<f64>)> =
        hand.parties.iter().map(|p| (p.parameters().to_vec(), p.auxiliary_parameters().to_vec())).collect();
    // The rows are read from the request, as a party does.
    let first = hand.algorithm.outgoing().unwrap().swap_remove(0).message;
    let rows: Vec<usize> = match first.has("rows") {
        true => first.get_floats("rows").unwrap().iter().map(|row| *row as usize).collect(),
        false => (0..ROWS).collect(),
    };
    assert_eq!(rows.len(), case.batch.unwrap_or(ROWS));
    let info = hand.step();

    let leaves: Vec<Leaves> = before
        .iter()
        .map(|(latents, auxiliary)| Leaves {
            mean: leaf(&latents[..COLUMNS], [COLUMNS]),
            log_scale: leaf(&latents[COLUMNS..], [COLUMNS]),
            auxiliary: leaf(auxiliary, [auxiliary.len()]),
        })
        .collect();
    let at = (leaf(&head[..1], [1]), leaf(&head[1..], [1]));
    let pooled = Pooled { world: &world, case, rows };
    let bound = pooled.bound(&leaves, &at);
    let value = Handle::from(bound.clone()).read().unwrap().values[0];
    assert!((info.elbo - value).abs() < 1e-12 * value.abs().max(1.0), "{case:?}: bound {} and {value}", info.elbo);
    let gradients = bound.backward();
    let change = |after: &[f64], before: &[f64]| -> Vec<f64> { after.iter().zip(before).map(|(a, b)| a - b).collect() };
    // 1e-12 in double precision: sums of some hundred terms.
    const EXACT: f64 = 1e-12;
    for ((party, leaves), (latents, auxiliary)) in hand.parties.iter().zip(&leaves).zip(&before) {
        let expected = [gradient_of(&leaves.mean, &gradients), gradient_of(&leaves.log_scale, &gradients)].concat();
        let error = worst(&change(party.parameters(), latents), &expected);
        assert!(error < EXACT, "{case:?}: latents differ by {error}");
        let error =
            worst(&change(party.auxiliary_parameters(), auxiliary), &gradient_of(&leaves.auxiliary, &gradients));
        assert!(error < EXACT, "{case:?}: auxiliary variables differ by {error}");
    }
    let expected = [gradient_of(&at.0, &gradients), gradient_of(&at.1, &gradients)].concat();
    let error = worst(&change(hand.algorithm.posterior().parameters, &head), &expected);
    assert!(error < EXACT, "{case:?}: the head differs by {error}");
}

fn every_case(power: bool) {
    for estimator in [Estimator::StickingTheLanding, Estimator::Total, Estimator::ClosedFormEntropy] {
        let network = AuxiliaryFamily::Amortised { hidden: HIDDEN, labels: power };
        let scales = AuxiliaryFamily::AmortisedScale { hidden: HIDDEN, start: 1.0 };
        for auxiliary in [AuxiliaryFamily::MeanField, network, scales] {
            for parties in [2, 3, 10] {
                for batch in [None, Some(5)] {
                    compare(Case { power, auxiliary, estimator, parties, batch });
                }
            }
        }
    }
}

#[test]
fn the_gradient_of_parties_in_the_augmented_model_is_that_of_one_process() {
    every_case(false);
}

#[test]
fn the_gradient_of_parties_in_the_power_likelihood_is_that_of_one_process() {
    every_case(true);
}

#[test]
fn one_vector_a_party_says_all_that_the_printed_power_likelihood_algorithm_sends() {
    let (auxiliary, estimator) = (AuxiliaryFamily::MeanField, Estimator::Total);
    let case = Case { power: true, auxiliary, estimator, parties: 3, batch: None };
    let world = BinaryWorld::new(ROWS, case.parties, COLUMNS);
    let mut hand = Hand::new(&world.parties, &world.labels, &case.settings(), &case.options());
    hand.scatter();
    let head = hand.algorithm.posterior().parameters.to_vec();
    let b = head[0] + head[1].exp() * noise(Key::new(Purpose::Fit, 0), 1)[0];
    let z: Vec<Vec<f64>> = hand.exchange().0.iter().map(|reply| reply.get_floats("z").unwrap()).collect();
    let shares: Vec<Vec<f64>> =
        hand.exchange().0.iter().map(|reply| reply.get_floats("predictor_gradient").unwrap()).collect();
    let sent: Vec<Vec<f64>> = hand
        .algorithm
        .outgoing()
        .unwrap()
        .iter()
        .map(|request| request.message.get_floats("gradient").unwrap())
        .collect();
    let pooled = Pooled { world: &world, case, rows: (0..ROWS).collect() };
    // As printed: party j differentiates its likelihood by every other party's z_k, and the coordinator sums over j.
    let mut sums = vec![vec![0.0; ROWS]; 3];
    for (j, party) in hand.parties.iter().enumerate() {
        let key = Key::new(Purpose::Fit, 0).silo(j as u32);
        let parameters = party.parameters().chunks(COLUMNS).collect::<Vec<_>>();
        let draw = noise(key, COLUMNS);
        let beta = |column: usize| parameters[0][column] + parameters[1][column].exp() * draw[column];
        let g: Vec<f64> =
            world.inputs[j].chunks(COLUMNS).map(|x| x.iter().enumerate().map(|(c, x)| x * beta(c)).sum()).collect();
        let leaves: Vec<Tensor<1>> = z.iter().map(|own| leaf(own, [ROWS])).collect();
        let others = (0..3).filter(|k| *k != j).map(|k| leaves[k].clone());
        let eta = others.fold(constant(&g, [ROWS]), |sum, z| sum + z) + b;
        let gradients = (pooled.log_likelihood(eta) * (1.0 / 3.0)).backward();
        for k in (0..3).filter(|k| *k != j) {
            let printed = gradient_of(&leaves[k], &gradients);
            assert!(worst(&shares[j], &printed) < 1e-13);
            sums[k].iter_mut().zip(printed).for_each(|(sum, own)| *sum += own);
        }
    }
    for (found, printed) in sent.iter().zip(&sums) {
        assert!(worst(found, printed) < 1e-13);
    }
}

#[test]
fn pulling_a_gradient_back_with_fresh_noise_as_algorithm_1_prints_it_is_biased() {
    use fixtures::vertical::{LinearWorld, NOISE_SD};
    let world = LinearWorld::new(4, 2, 1);
    let options = VerticalOptions::augmented(RHO).mean_field();
    let (replicates, rows) = (400, world.rows());
    // The gradient by the log scale s_i of an auxiliary variable: with the noise that made z, and with fresh noise.
    let (mut kept, mut fresh) = (Vec::new(), Vec::new());
    for replicate in 0..replicates {
        let settings = Settings {
            seed: replicate,
            optimiser: Sgd { momentum: 0.0 }.into(),
            schedule: Schedule::Constant { rate: 1.0 },
            estimator: Estimator::Total,
            ..Settings::default()
        };
        let mut hand = Hand::new(&world.parties, &world.labels, &settings, &options);
        // The same party with its own noise, as in a redraw after the exchange.
        let mut redrawing = Hand::new(&world.parties, &world.labels, &settings, &options).parties.swap_remove(0);
        redrawing = redrawing.private_seed(1_000_000 + replicate);
        let request = hand.algorithm.outgoing().unwrap().swap_remove(0).message;
        partita::inference::SiloProgram::answer(&mut redrawing, &request).unwrap();
        hand.step();
        let request = hand.algorithm.elbo_requests(1, 0).swap_remove(0).message;
        drop(partita::inference::SiloProgram::answer(&mut redrawing, &request));
        let change = |party: &partita::inference::VerticalParty| -> f64 {
            let scales = &party.auxiliary_parameters()[rows..];
            scales.iter().map(|s| s - RHO.ln()).sum::<f64>() / rows as f64
        };
        kept.push(change(&hand.parties[0]));
        fresh.push(change(&redrawing));
    }
    // With s = rho at the start: of the likelihood -rho^2 / sigma^2, of prior and entropy 1 - rho^2 / rho^2 = 0.
    let expected = -(RHO / NOISE_SD).powi(2);
    let (count, mean) = (replicates as f64, |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64);
    let error = |values: &[f64]| {
        let centre = mean(values);
        (values.iter().map(|value| (value - centre).powi(2)).sum::<f64>() / (count - 1.0) / count).sqrt()
    };
    // Five standard errors.
    assert!((mean(&kept) - expected).abs() < 5.0 * error(&kept), "{} and {expected}", mean(&kept));
    assert!((mean(&fresh) - expected).abs() > 5.0 * error(&fresh), "{} and {expected}", mean(&fresh));
    assert!(mean(&fresh).abs() < 5.0 * error(&fresh), "{} and 0", mean(&fresh));
}

/// The change of the parties' parameters for a gradient of norm 1.
const RATE: f64 = 0.01;

/// Steps along gradients of at most this norm.
fn clipped_at(norm: f64) -> Settings {
    Settings {
        steps: 10,
        seed: SEED,
        clip: Some(Clip { norm }),
        optimiser: Sgd { momentum: 0.0 }.into(),
        schedule: Schedule::Constant { rate: RATE },
        family: FamilyPlan::new().global(Gaussian::diagonal()),
        ..Settings::default()
    }
}

fn clipping_options() -> [VerticalOptions; 2] {
    [VerticalOptions::augmented(RHO).mean_field().local_steps(3), VerticalOptions::power_likelihood(RHO)]
}

#[test]
fn every_step_of_a_party_is_clipped_and_the_party_says_how_often() {
    let world = BinaryWorld::new(ROWS, 2, COLUMNS);
    for options in clipping_options() {
        // A norm below that of every gradient, and a norm above.
        for (norm, expected) in [(1e-9, options.local_steps), (1e9, 0)] {
            let mut hand = Hand::new(&world.parties, &world.labels, &clipped_at(norm), &options);
            hand.scatter();
            let before: Vec<Vec<f64>> = hand.parties.iter().map(|party| party.parameters().to_vec()).collect();
            let (replies, _) = hand.exchange();
            assert!(replies.iter().all(|reply| reply.get_word("clipped").unwrap() == 0));
            (1..options.exchanges_a_step()).for_each(|_| drop(hand.exchange()));
            let (replies, _) = hand.exchange();
            for ((reply, party), before) in replies.iter().zip(&hand.parties).zip(&before) {
                assert_eq!(reply.get_word("clipped").unwrap(), expected, "{options:?}");
                let squares = party.parameters().iter().zip(before).map(|(now, then)| (now - then).powi(2));
                let moved = squares.sum::<f64>().sqrt();
                // Rounding of parameters of about 1 is far below the norm.
                assert!(
                    moved > 0.0 && moved <= RATE * norm * options.local_steps as f64 * 1.001,
                    "{options:?}: {moved}"
                );
            }
        }
    }
}

#[test]
fn a_step_that_one_party_clipped_is_counted_where_the_head_did_not() {
    let world = BinaryWorld::new(ROWS, 2, COLUMNS);
    for options in clipping_options() {
        for said in [0, 2] {
            let mut hand = Hand::new(&world.parties, &world.labels, &clipped_at(1e9), &options);
            let mut infos = Vec::new();
            for exchange in 0..options.exchanges_a_step() {
                let requests = hand.algorithm.outgoing().unwrap();
                let answer = |request: &Message, party: usize| {
                    let mut reply = hand.parties[party].answer(request).unwrap();
                    if party == 1 && exchange == 0 {
                        reply.records.retain(|record| record.name != "clipped");
                        reply = reply.word("clipped", said);
                    }
                    hand.algorithm.manifest().check("p", &reply).unwrap();
                    Outcome::Reply(reply)
                };
                let mut answer = answer;
                let outcomes = requests.iter().map(|request| answer(&request.message, request.silo)).collect();
                infos.push(hand.algorithm.incoming(outcomes).unwrap());
            }
            // Once a step, with its last exchange.
            let counted = infos.iter().filter(|info| info.clipped_steps > 0).count();
            assert_eq!(
                (counted, infos.last().unwrap().clipped_steps),
                (usize::from(said > 0), u64::from(said > 0)),
                "{options:?}"
            );
        }
    }
}
