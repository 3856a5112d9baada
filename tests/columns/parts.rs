//! Claims that every ready-made contribution and head keeps the laws of models, with the same derivatives at parties.

use fixtures::vertical_run::{Hand, normals};
use partita::core::{Key, Latents, LogDensity, Noise, Part, Purpose};
use partita::inference::{AuxiliaryFamily, Sgd, SiloProgram, VerticalOptions};
use partita::models::{Activation, Mlp};
use partita::vertical::{
    Augmentation, BernoulliHead, CategoricalHead, Counts, GaussianHead, Labels, LastLayer, LatentNetwork, Linear,
    Multilevel, Party, PointNetwork, PoissonHead, Pooled, WithIntercept, by_level, prior,
};
use partita::{Design, Device, Estimator, FamilyPlan, Gaussian, Normal, Schedule, Settings, SiteTable};
use partita_laws::model;

const ROWS: usize = 5;
const SEED: u64 = 9;

fn design(columns: usize, block: u32) -> Design {
    Design::new(normals(ROWS * columns, block), [ROWS, 1, columns]).unwrap()
}

/// A linear party and one of another kind, for a head of this many outputs.
fn pair(other: Party, outputs: usize) -> Vec<Party> {
    vec![Party::new("clinic", Linear::new(2).outputs(outputs), design(2, 0)), other]
}

fn multilevel(outer: Multilevel) -> Party {
    let covariates = by_level(&normals(ROWS * 2, 1), &[0, 1, 2, 1, 0], 3).unwrap();
    Party::new("registry", outer, covariates)
}

fn network(outputs: usize) -> Mlp {
    Mlp::new(&[2, 3, outputs], Activation::Tanh, 5, &Device::flex())
}

/// Every head, with parties of the same number of outputs.
fn worlds() -> Vec<(Vec<Party>, Labels)> {
    let device = Device::flex();
    let prior = || Normal::new(0.3, 0.8);
    let column = |values: &[f64]| device.tensor(values.to_vec(), [ROWS, 1]);
    let features = || device.tensor(normals(ROWS * 2, 3), [ROWS, 2]);
    let counts = Counts::new(vec![3.0, 0.0, 1.0, 7.0, 2.0], &[2.0, 0.5, 1.0, 4.0, 3.0], &device).unwrap();
    vec![
        (pair(multilevel(Multilevel::new(2, 3)), 1), Labels::new(WithIntercept::new(PoissonHead {}, prior()), counts)),
        (
            pair(multilevel(Multilevel::new(2, 3).scales_by_level().non_centred()), 1),
            Labels::new(WithIntercept::new(GaussianHead::new(None), prior()), column(&[0.4, -1.0, 2.0, 0.1, 0.9])),
        ),
        (
            pair(Party::new("lab", LastLayer::new(network(4), 4), features()), 1),
            Labels::new(BernoulliHead {}, column(&[1.0, 0.0, 0.0, 1.0, 1.0])),
        ),
        (
            pair(Party::new("lab", LatentNetwork::new(network(3), Normal::new(0.0, 0.7)), features()), 3),
            Labels::new(
                WithIntercept::new(CategoricalHead::new(3), prior()),
                device.tensor(vec![0.0, 2.0, 1.0, 1.0, 2.0], [ROWS]),
            ),
        ),
        (
            pair(Party::new("lab", LastLayer::new(network(4), 4).outputs(3), features()), 3),
            Labels::new(CategoricalHead::new(3), device.tensor(vec![0.0, 2.0, 1.0, 1.0, 2.0], [ROWS])),
        ),
    ]
}

const AUGMENTATIONS: [Augmentation; 3] =
    [Augmentation::None, Augmentation::Auxiliary { rho: 0.7 }, Augmentation::PowerLikelihood { rho: 0.7 }];

#[test]
fn every_contribution_and_head_keeps_the_laws_of_models_in_every_augmentation() {
    for (parties, labels) in worlds() {
        for augmentation in AUGMENTATIONS {
            let pooled = Pooled::new(parties.clone(), labels.clone(), augmentation).unwrap();
            model(&pooled, &Device::flex(), &()).unwrap();
            model(&pooled.non_centred(), &Device::flex(), &()).unwrap();
        }
    }
}

fn settings() -> Settings {
    Settings {
        steps: 10,
        seed: SEED,
        estimator: Estimator::Total,
        family: FamilyPlan::new().global(Gaussian::diagonal()),
        optimiser: Sgd { momentum: 0.0 }.into(),
        schedule: Schedule::Constant { rate: 1.0 },
        ..Settings::default()
    }
}

fn options(augmentation: Augmentation) -> VerticalOptions {
    VerticalOptions { augmentation, ..VerticalOptions::augmented(1.0).mean_field() }
}

/// A diagonal draw: $`\mu + \sigma\varepsilon`$, $`\sigma\varepsilon`$ and $`-\log q`$.
fn drawn(parameters: &[f64], key: Key) -> (Vec<f64>, Vec<f64>, f64) {
    let (mean, log_scale) = parameters.split_at(parameters.len() / 2);
    let noise = fixtures::standard_normals(&mut Noise::new(SEED).stream(key), mean.len());
    let path: Vec<f64> = log_scale.iter().zip(&noise).map(|(s, e)| s.exp() * e).collect();
    let terms = log_scale.iter().zip(&noise).map(|(s, e)| s + 0.5 * e * e + 0.5 * std::f64::consts::TAU.ln());
    (mean.iter().zip(&path).map(|(m, p)| m + p).collect(), path, terms.sum())
}

/// The gradient by mean and log scale of the sampled bound: of the path and of the entropy.
fn pulled(gradient: &[f64], path: &[f64]) -> Vec<f64> {
    gradient.iter().copied().chain(gradient.iter().zip(path).map(|(g, p)| g * p + 1.0)).collect()
}

fn close(found: &[f64], expected: &[f64], what: &str) {
    assert_eq!(found.len(), expected.len());
    let scale = expected.iter().fold(1.0_f64, |most, value| most.max(value.abs()));
    for (a, b) in found.iter().zip(expected) {
        // 1e-12 in double precision.
        assert!((a - b).abs() < 1e-12 * scale, "{what}: {a} and {b}");
    }
}

#[test]
fn parties_of_every_kind_have_the_gradient_of_the_pooled_model() {
    let device = Device::flex();
    for (index, (parties, labels)) in worlds().into_iter().enumerate() {
        for augmentation in AUGMENTATIONS {
            let mut hand = Hand::new(&parties, &labels, &settings(), &options(augmentation));
            hand.scatter();
            let head = hand.algorithm.posterior().parameters.to_vec();
            let before: Vec<(Vec<f64>, Vec<f64>)> =
                hand.parties.iter().map(|p| (p.parameters().to_vec(), p.auxiliary_parameters().to_vec())).collect();
            let info = hand.step();

            let key = |party: u32| Key::new(Purpose::Fit, 0).silo(party);
            let latents: Vec<_> = before.iter().zip(0..).map(|((own, _), j)| drawn(own, key(j))).collect();
            let auxiliary: Vec<_> = before.iter().zip(0..).map(|((_, own), j)| drawn(own, key(j).block(1))).collect();
            let unknowns = drawn(&head, Key::new(Purpose::Fit, 0));
            let pooled = Pooled::new(parties.clone(), labels.clone(), augmentation).unwrap();
            let table = SiteTable::of(&pooled, &device, &()).unwrap();
            let globals: Vec<f64> = latents.iter().flat_map(|own| own.0.clone()).chain(unknowns.0).collect();
            let outputs = labels.outputs();
            let locals: Vec<f64> = (0..ROWS)
                .flat_map(|row| {
                    auxiliary
                        .iter()
                        .flat_map(move |own| own.0.get(row * outputs..(row + 1) * outputs).unwrap_or(&[]).to_vec())
                })
                .collect();
            let locals = vec![locals; table.blocks().len()];
            let density = LogDensity::new(&pooled, &device, &table);
            let joint = density.joint(Latents { globals: &globals, locals: &locals }, &()).unwrap();
            let entropies = latents.iter().chain(&auxiliary).map(|own| own.2).sum::<f64>() + unknowns.2;
            close(&[info.elbo], &[joint.value + entropies], &format!("bound of world {index}, {augmentation:?}"));

            let change =
                |after: &[f64], before: &[f64]| -> Vec<f64> { after.iter().zip(before).map(|(a, b)| a - b).collect() };
            let mut start = 0;
            for (j, (party, (own, z))) in hand.parties.iter().zip(&before).enumerate() {
                let what = format!("party {j} of world {index}, {augmentation:?}");
                let end = start + own.len() / 2;
                close(&change(party.parameters(), own), &pulled(&joint.globals[start..end], &latents[j].1), &what);
                start = end;
                if !z.is_empty() {
                    let width = outputs * before.len();
                    let rows = joint.locals[0].chunks(width).flat_map(|row| &row[j * outputs..(j + 1) * outputs]);
                    let gradient: Vec<f64> = rows.copied().collect();
                    close(&change(party.auxiliary_parameters(), z), &pulled(&gradient, &auxiliary[j].1), &what);
                }
            }
            let gradient = pulled(&joint.globals[start..], &unknowns.1);
            close(&change(hand.algorithm.posterior().parameters, &head), &gradient, &format!("head of world {index}"));
        }
    }
}

#[test]
fn what_the_label_holder_does_not_know_is_drawn_from_its_prior() {
    let device = Device::flex();
    let head = WithIntercept::new(GaussianHead::new(None), Normal::new(1.0, 2.0));
    let labels = Labels::new(head, device.tensor(vec![0.4, -1.0], [2, 1]));
    let found = prior(&labels, &device, SEED).unwrap();
    // Means and deviations of N(1, 2) and of a half-normal distribution of scale 1.
    let half = (2.0 / std::f64::consts::PI).sqrt();
    let exact = [("intercept", 1.0, 2.0), ("noise_scale", half, (1.0 - half * half).sqrt())];
    assert_eq!(found.len(), exact.len());
    for ((_, label, draws), (name, mean, sd)) in found.iter().zip(exact) {
        let count = draws.len() as f64;
        let own = draws.iter().sum::<f64>() / count;
        let spread = (draws.iter().map(|draw| (draw - own).powi(2)).sum::<f64>() / count).sqrt();
        // Four standard errors; that of a deviation is at most sd / sqrt(n) for both, whose kurtosis is below 5.
        let error = 4.0 * sd / count.sqrt();
        assert!(label == name && (own - mean).abs() < error && (spread - sd).abs() < error, "{label}: {own} {spread}");
    }
}

#[test]
fn point_weights_move_by_the_gradient_of_the_sampled_bound() {
    let device = Device::flex();
    let features = device.tensor(normals(ROWS * 2, 3), [ROWS, 2]);
    let labels = Labels::new(
        WithIntercept::new(BernoulliHead {}, Normal::new(0.0, 1.0)),
        device.tensor(vec![1.0, 0.0, 0.0, 1.0, 1.0], [ROWS, 1]),
    );
    let split = Party::new("lab", PointNetwork::new(network(1)), features.clone());
    let last = Party::new("lab", LastLayer::new(network(4), 4), features);
    for (party, how) in [
        (&split, VerticalOptions::direct()),
        (&last, VerticalOptions::augmented(1.0).mean_field()),
        (&last, VerticalOptions::augmented(1.0)),
        (&last, VerticalOptions::power_likelihood(1.0)),
    ] {
        let at = |theta: &[f64]| {
            let mut moved = party.clone();
            moved.set_theta(theta, &device).unwrap();
            let mut hand = Hand::new(&pair(moved, 1), &labels, &settings(), &how);
            (hand.step().elbo, hand)
        };
        let theta = party.theta().unwrap();
        let (_, hand) = at(&theta);
        for (index, (after, before)) in hand.parties[1].private_theta().iter().zip(&theta).enumerate() {
            let shifted = |step: f64| {
                let mut moved = theta.clone();
                moved[index] += step;
                at(&moved).0
            };
            // Central differences with a step of 1e-5: an error of 1e-10 times the third derivative, and rounding.
            let expected = (shifted(1e-5) - shifted(-1e-5)) / 2e-5;
            assert!((after - before - expected).abs() < 1e-6 * (1.0 + expected.abs()), "{how:?} {index}: {expected}");
        }
    }
}

#[test]
fn the_pooled_model_names_the_sites_of_every_party() {
    let (parties, labels) = worlds().swap_remove(0);
    let pooled = Pooled::new(parties, labels, Augmentation::Auxiliary { rho: 1.0 }).unwrap();
    let table = SiteTable::of(&pooled, &Device::flex(), &()).unwrap();
    let names = |part| table.latents(part).map(|site| site.name.as_str()).collect::<Vec<_>>();
    assert_eq!(names(Part::Global), ["clinic.beta", "registry.mu", "registry.sigma", "registry.beta", "intercept"]);
    assert_eq!(names(Part::Local), ["clinic.z", "registry.z"]);
}

#[test]
fn the_pooled_model_refuses_other_rows_and_two_parties_of_one_name() {
    let (parties, labels) = worlds().swap_remove(0);
    let shorter = Party::new("ward", Linear::new(1), Design::new(vec![1.0; 4], [4, 1, 1]).unwrap());
    let refused = |parties: Vec<Party>, words: &str| {
        let error = Pooled::new(parties, labels.clone(), Augmentation::None).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    refused(vec![parties[0].clone(), shorter], "`ward`");
    refused(vec![parties[0].clone(), parties[0].clone()], "clinic");
    refused(Vec::new(), "at least one party");
}

/// More rows than pass through a network of auxiliary variables together, in two linear parties and a head.
fn many_rows(outputs: usize) -> (Vec<Party>, Labels) {
    const MANY: usize = 600;
    let (device, prior) = (Device::flex(), Normal::new(0.3, 0.8));
    let classes: Vec<f64> = (0..MANY).map(|row| f64::from(u8::from(row * 7 % 5 < 2))).collect();
    let labels = match outputs {
        1 => Labels::new(WithIntercept::new(BernoulliHead {}, prior), device.tensor(classes, [MANY, 1])),
        _ => Labels::new(WithIntercept::new(CategoricalHead::new(outputs), prior), device.tensor(classes, [MANY])),
    };
    let party = |name: &str, block: u32| {
        Party::new(name, Linear::new(2).outputs(outputs), Design::new(normals(MANY * 2, block), [MANY, 1, 2]).unwrap())
    };
    (vec![party("clinic", 0), party("registry", 1)], labels)
}

const NETWORKS: [AuxiliaryFamily; 3] = [
    AuxiliaryFamily::Amortised { hidden: 4, labels: false },
    AuxiliaryFamily::Amortised { hidden: 4, labels: true },
    AuxiliaryFamily::AmortisedScale { hidden: 4, start: 0.1 },
];

#[test]
fn networks_of_auxiliary_variables_move_by_the_gradient_of_the_sampled_bound() {
    for (outputs, auxiliary) in [1, 3].into_iter().flat_map(|outputs| NETWORKS.map(|network| (outputs, network))) {
        let (parties, labels) = many_rows(outputs);
        let how = VerticalOptions { auxiliary, ..VerticalOptions::augmented(0.7) };
        let scattered = || {
            let mut hand = Hand::new(&parties, &labels, &settings(), &how);
            hand.scatter();
            hand
        };
        let start = scattered().parties[1].auxiliary_parameters().to_vec();
        let at = |parameters: &[f64]| {
            let mut hand = scattered();
            let latents = hand.parties[1].parameters().to_vec();
            hand.parties[1].set_parameters(&latents, parameters).unwrap();
            (hand.step().elbo, hand)
        };
        let (_, hand) = at(&start);
        for (index, (after, before)) in hand.parties[1].auxiliary_parameters().iter().zip(&start).enumerate() {
            let shifted = |step: f64| {
                let mut moved = start.clone();
                moved[index] += step;
                at(&moved).0
            };
            let expected = (shifted(1e-5) - shifted(-1e-5)) / 2e-5;
            let found = after - before;
            assert!((found - expected).abs() < 1e-6 * (1.0 + expected.abs()), "{how:?} {index}: {found} {expected}");
        }
    }
}

#[test]
fn networks_of_auxiliary_variables_start_at_the_contributions_with_the_scale_asked_for() {
    let (parties, labels) = many_rows(1);
    let sent = |how: &VerticalOptions| {
        let replies = Hand::new(&parties, &labels, &settings(), how).exchange().0;
        replies[0].get_floats("z").unwrap()
    };
    let contributions = sent(&VerticalOptions::direct());
    let mut stream = Noise::new(SEED).stream(Key::new(Purpose::Fit, 0).silo(0).block(1));
    let noise = fixtures::standard_normals(&mut stream, contributions.len());
    for (auxiliary, share) in NETWORKS.into_iter().zip([1.0, 1.0, 0.1]) {
        let found = sent(&VerticalOptions { auxiliary, ..VerticalOptions::augmented(0.7) });
        for ((z, g), tau) in found.iter().zip(&contributions).zip(&noise) {
            assert!((z - g - share * 0.7 * tau).abs() < 1e-14, "{auxiliary:?}: {z} around {g}");
        }
    }
}
