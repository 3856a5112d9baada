//! Compares importance-weighted steps of silos with pooled ones written from the formulas, and resumes them.

use fixtures::message::with_floats;

use super::*;

/// The source of the noise of the globals, and the weighting of a silo in its local steps.
#[derive(Clone, Copy)]
struct Part {
    global_key: Key,
    first_silo: u32,
    weight: f64,
    entropy_weight: f64,
}

/// One step at rate 1 in one process, written from the formulas: groups of `sizes` share the noise of a silo each.
fn by_hand(
    groups: &[Vec<f64>],
    sizes: &[usize],
    point: &Point,
    part: Part,
    (gradient, particles): (ImportanceGradient, u32),
) -> (f64, Point) {
    let (device, model, noise) = (Device::flex(), conjugate(), Noise::new(1));
    let data = ConjugateGaussian::data(groups, &device).unwrap();
    let table = SiteTable::of(&model, &device, &data).unwrap();
    let global_family = FullRankGaussian::new(1);
    let options = RowOptions { given_globals: vec![true], ..RowOptions::independent(1) };
    let rows = RowGaussian::new(groups.len(), 1, 1, options);
    let parameters = layout(&point.rows);
    let inner = if gradient == ImportanceGradient::Total { Estimator::Total } else { Estimator::StickingTheLanding };
    let mut draws: Vec<(f64, Vec<f64>, Vec<f64>)> = Vec::new();
    for particle in 0..particles {
        let mut own = vec![0.0];
        noise.stream(part.global_key.particle(particle)).normal(&mut own);
        let global = global_family.draw(&point.global, &own);
        let mut by_row = Vec::new();
        for (size, silo) in sizes.iter().zip(part.first_silo..) {
            let mut values = vec![0.0; *size];
            let key = Key::new(Purpose::Fit, part.global_key.step).silo(silo).particle(particle);
            noise.stream(key).normal(&mut values);
            by_row.extend(values);
        }
        let density = LogDensity::new(&model, &device, &table).weight(part.weight);
        let weight = part.entropy_weight;
        let block = BlockDraw { family: &rows, parameters: &parameters, noise: &by_row, weight, outer: None };
        let mut by_local = vec![vec![0.0; parameters.len()]];
        let share = inner.local_elbo_term(&density, &data, &global, &[block], &mut by_local).unwrap();
        let prior = LogDensity::new(&model, &device, &table).global(&global.latent).unwrap();
        let own_elbo_term: ElboTerm = inner.global_elbo_term(prior, &global_family, &point.global, &global);
        let sum = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a + b).collect::<Vec<f64>>();
        let mut by_global = vec![0.0; 2];
        let (location, deviation) =
            (sum(&own_elbo_term.grad_mean, &share.grad_mean), sum(&own_elbo_term.grad_offset, &share.grad_offset));
        global_family.vjp(&point.global, &own, &location, &deviation, &mut by_global);
        if inner == Estimator::Total {
            global_family.add_entropy_gradient(&point.global, &mut by_global);
        }
        draws.push((own_elbo_term.elbo + share.elbo, by_global, by_local.remove(0)));
    }
    let largest = draws.iter().map(|draw| draw.0).fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = draws.iter().map(|draw| (draw.0 - largest).exp()).sum();
    let (mut global, mut locals) = (point.global.clone(), parameters);
    for (bound, by_global, by_local) in &draws {
        let weight = (bound - largest).exp() / total;
        let factor = if gradient == ImportanceGradient::DoublyReparameterised { weight * weight } else { weight };
        global.iter_mut().zip(by_global).for_each(|(slot, g)| *slot += factor * g);
        locals.iter_mut().zip(by_local).for_each(|(slot, g)| *slot += factor * g);
    }
    let count = groups.len();
    let rows = (0..count).map(|row| std::array::from_fn(|slot| locals[slot * count + row])).collect();
    (largest + (total / f64::from(particles)).ln(), Point { global, rows })
}

#[test]
fn federated_steps_equal_pooled_ones_to_1e_12_local_parameters_too() {
    let groups = groups(7, 2);
    let (start, _) = wrong(&groups);
    for gradient in GRADIENTS {
        for silos in [1, 2, 3] {
            let sizes: Vec<usize> = split(&groups, silos).iter().map(Vec::len).collect();
            let mut parties = parties(&groups, silos, &start, &settings(Estimator::ImportanceWeighted { gradient }, 5));
            let mut point = start.clone();
            for number in 0..3 {
                let bound = step(&mut parties);
                let part = Part {
                    global_key: Key::new(Purpose::Fit, number),
                    first_silo: 0,
                    weight: 1.0,
                    entropy_weight: 1.0,
                };
                let (expected, next) = by_hand(&groups, &sizes, &point, part, (gradient, 5));
                assert!((bound - expected).abs() < 1e-12 * expected.abs(), "{bound} against {expected}");
                // Each step begins at the same point, so that plain descent at rate 1 cannot amplify rounding.
                let found = largest_difference(&reached(&mut parties), &next);
                let size = flat(&next).iter().zip(flat(&point)).map(|(a, b)| (a - b).abs()).fold(1.0, f64::max);
                assert!(found < 1e-12 * size, "{gradient:?}, J = {silos}, step {number}: {found:e}");
                point.rows.iter_mut().for_each(|row| row[0] += 0.01);
                place(&mut parties, &point);
            }
        }
    }
}

#[test]
fn a_local_step_of_averaging_weighs_the_scaled_bound() {
    let groups = groups(6, 2);
    let (start, _) = wrong(&groups);
    let (device, model) = (Device::flex(), conjugate());
    for gradient in GRADIENTS {
        for scale_entropy in [false, true] {
            let settings = settings(Estimator::ImportanceWeighted { gradient }, 4);
            let mut parties = parties(&groups, 2, &start, &settings);
            let rounds = RoundOptions { scale_entropy, ..RoundOptions::paper(1) };
            let names = ["silo-0".to_owned(), "silo-1".to_owned()];
            let mut coordinator = SfviAvg::new(&model, &device, &settings, &names, vec![3, 3], rounds).unwrap();
            let request = with_floats(&coordinator.outgoing().unwrap().remove(1).message, "global", &start.global);
            let mut silo = AveragingSilo::new(parties.silos.remove(1), 1);
            let reply = silo.answer(&request).unwrap();
            let part = Part {
                global_key: Key::new(Purpose::Fit, 0).silo(1).block(u32::MAX),
                first_silo: 1,
                weight: 2.0,
                entropy_weight: if scale_entropy { 2.0 } else { 1.0 },
            };
            let own = Point { global: start.global.clone(), rows: start.rows[3..].to_vec() };
            let (bound, next) = by_hand(&groups[3..], &[3], &own, part, (gradient, 4));
            assert!((reply.get_number("elbo").unwrap() - bound).abs() < ROUNDING);
            let found = reply.get_floats("global").unwrap();
            assert!(found.iter().zip(&next.global).all(|(a, b)| (a - b).abs() < ROUNDING), "{found:?}");
            let (means, scales) = silo.local_moments().unwrap().remove(0);
            for ((mean, scale), row) in means.iter().zip(scales).zip(&next.rows) {
                // Over the globals that the request brought.
                let expected = row[1].exp().hypot(row[2] * start.global[1].exp());
                assert!((mean - row[0]).abs() < ROUNDING && (scale / expected - 1.0).abs() < ROUNDING);
            }
        }
    }
}

#[test]
fn a_resumed_run_ends_with_the_same_bits_though_the_last_step_waited() {
    let groups = groups(5, 2);
    let (start, _) = wrong(&groups);
    let estimator = Estimator::ImportanceWeighted { gradient: ImportanceGradient::DoublyReparameterised };
    let settings = Settings {
        optimiser: Adam::default().into(),
        schedule: Schedule::Cosine { initial: 0.05, last: 0.0 },
        ..settings(estimator, 6)
    };
    let bits =
        |parties: &mut Parties| -> Vec<u64> { flat(&reached(parties)).iter().map(|value| value.to_bits()).collect() };
    let mut whole = parties(&groups, 2, &start, &settings);
    let folder = tempfile::tempdir().unwrap();
    let asked = |verb: &str| Message::new(verb).setting("folder", &folder.path().to_string_lossy());
    (0..3).for_each(|_| drop(step(&mut whole).to_string()));
    let state = whole.algorithm.save();
    for silo in &mut whole.silos {
        silo.answer(&asked("silo.save")).unwrap();
    }
    // Killed here; new parties, with other parameters, resume from the files.
    let mut resumed = parties(&groups, 2, &exact(&groups).0, &settings);
    step(&mut resumed);
    resumed.algorithm.load(&state).unwrap();
    for silo in &mut resumed.silos {
        silo.answer(&asked("silo.restore")).unwrap();
    }
    for run in [&mut whole, &mut resumed] {
        (0..3).for_each(|_| drop(step(run).to_string()));
    }
    assert_eq!(bits(&mut whole), bits(&mut resumed));
}

#[test]
fn point_masses_are_refused_where_weights_are_squared_by_coordinators_and_silos() {
    let (device, groups) = (Device::flex(), groups(4, 2));
    let data = ConjugateGaussian::data(&groups, &device).unwrap();
    let of = |gradient, family: FamilyPlan| {
        let settings = Settings { family, ..settings(Estimator::ImportanceWeighted { gradient }, 4) };
        let silo = Silo::new("a", 0, &conjugate(), &data, &device, &settings).map(drop);
        (silo, Sfvi::new(&conjugate(), &device, &settings, &["a".to_owned()]).map(drop))
    };
    let refuses = |made: Result<(), Error>| matches!(made, Err(Error::Setting { setting: "estimator", .. }));
    let normal = || FamilyPlan::new().global(Gaussian::diagonal()).local(Gaussian::diagonal());
    let points = [normal().global(PointMass), normal().local(PointMass)];
    for (family, expected) in std::iter::once(normal()).chain(points).zip([[false, false], [true, true], [true, false]])
    {
        let (silo, coordinator) = of(ImportanceGradient::DoublyReparameterised, family.clone());
        assert_eq!([refuses(silo), refuses(coordinator)], expected, "{family:?}");
        let (silo, coordinator) = of(ImportanceGradient::Total, family);
        assert!(silo.is_ok() && coordinator.is_ok());
    }
}

#[test]
fn weights_of_another_step_are_refused() {
    let groups = groups(4, 2);
    let (start, _) = wrong(&groups);
    let estimator = Estimator::ImportanceWeighted { gradient: ImportanceGradient::Total };
    let mut parties = parties(&groups, 1, &start, &settings(estimator, 3));
    let first = parties.algorithm.outgoing().unwrap().remove(0).message;
    parties.silos[0].answer(&first).unwrap();
    // The coordinator asks again, without the weights of the pending step.
    let refused = parties.silos[0].answer(&first).unwrap_err();
    assert!(matches!(&refused, Error::Message { problem, .. } if problem.contains("weights")), "{refused}");
}
