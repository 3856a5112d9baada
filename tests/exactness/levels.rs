//! Holds rows inside rows to exact answers: posterior, gradients, silos, minibatches, marginals and resumed runs.

use fixtures::Parties;
use fixtures::levels::{Hospitals, WardData, WardPosterior, Wards, hospitals};
use partita::core::{Key, LogDensity, Minibatch, Noise, Purpose, SiteTable};
use partita::inference::{
    Algorithm, BlockDraw, CentralSilo, ElboTerm, Exchange, Family, FullRankGaussian, OnDeviceSilo, OuterRows,
    RowGaussian, Sfvi, Sgd, Silo, SiloProgram,
};
use partita::{AlgorithmChoice, Device, Estimator, FamilyPlan, FitOptions, Gaussian, Schedule, Settings, fit};

use super::federation::discrepancy;

/// Rounding of an exact posterior found by elimination, and of sums of some hundred terms.
const ROUNDING: f64 = 1e-9;
/// Relative rounding where nothing but the order of sums differs.
const ORDER: f64 = 1e-12;

/// How hospitals are split over silos: a silo of one, of two in a plate, and the one without patients.
fn split(hospitals: Hospitals) -> Vec<std::ops::Range<usize>> {
    match hospitals {
        Hospitals::Silo => vec![0..1, 1..2, 2..3],
        Hospitals::Plate => vec![0..2, 2..3],
    }
}

fn at_the_posterior(hospitals: Hospitals, settings: &Settings) -> (Parties, WardPosterior) {
    let (device, all) = (Device::flex(), fixtures::levels::hospitals());
    let exact = WardPosterior::of(&all);
    let data: Vec<WardData> = split(hospitals).into_iter().map(|own| WardData::new(&all[own], &device)).collect();
    let mut parties = Parties::new(&Wards { hospitals }, &data, &device, settings);
    parties.algorithm.set_parameters(exact.global()).unwrap();
    for (silo, own) in parties.silos.iter_mut().zip(split(hospitals)) {
        silo.set_local_parameters(exact.locals(own)).unwrap();
    }
    (parties, exact)
}

#[test]
fn the_default_family_holds_the_posterior_of_three_levels() {
    for hospitals in [Hospitals::Silo, Hospitals::Plate] {
        for estimator in [Estimator::StickingTheLanding, Estimator::Total] {
            let (parties, exact) = at_the_posterior(hospitals, &Settings { estimator, ..Settings::default() });
            let (algorithm, mut exchange) = parties.in_process(1);
            let outcomes = exchange.exchange(algorithm.elbo_requests(50, 0), algorithm.manifest(), None).unwrap();
            let found = algorithm.elbo_samples(outcomes, 50, 0).unwrap();
            for elbo in &found.elbos {
                let expected = exact.log_evidence;
                assert!((elbo - expected).abs() < ROUNDING, "{hospitals:?}: {elbo} against {expected}");
            }
            let largest = fixtures::largest(found.gradients.iter().flatten().map(|g| g.abs()));
            match estimator {
                Estimator::StickingTheLanding => assert!(largest < ROUNDING, "{hospitals:?}: gradient {largest:e}"),
                _ => assert!(largest > 1e-3, "{hospitals:?}: {largest:e}"),
            }
        }
    }
}

#[test]
fn no_local_parameter_of_any_level_moves_at_the_posterior() {
    // Plain descent at rate 1 moves each parameter by its gradient.
    for hospitals in [Hospitals::Silo, Hospitals::Plate] {
        for seed in 0..20 {
            let settings = Settings {
                seed,
                optimiser: Sgd { momentum: 0.0 }.into(),
                schedule: Schedule::Constant { rate: 1.0 },
                ..Settings::default()
            };
            let (mut parties, exact) = at_the_posterior(hospitals, &settings);
            let requests = parties.algorithm.outgoing().unwrap();
            for ((silo, own), request) in parties.silos.iter_mut().zip(split(hospitals)).zip(requests) {
                silo.answer(&request.message).unwrap();
                let (before, after) = (exact.locals(own).concat(), silo.local_parameters().concat());
                assert_eq!(before.len(), after.len());
                for (before, after) in before.iter().zip(after) {
                    assert!((before - after).abs() < ROUNDING, "{hospitals:?}, seed {seed}: {before} -> {after}");
                }
            }
        }
    }
}

#[test]
fn marginals_of_every_level_are_those_of_the_posterior() {
    for hospitals in [Hospitals::Silo, Hospitals::Plate] {
        let (mut parties, exact) = at_the_posterior(hospitals, &Settings::default());
        let compare = |parties: &Parties, is_known: bool| {
            for (silo, own) in parties.silos.iter().zip(split(hospitals)) {
                let found = silo.local_moments().unwrap();
                for ((found, expected), level) in found.iter().zip(exact.moments(own)).zip(0..) {
                    assert_eq!(found.1.len(), expected.1.len());
                    for ((mean, sd), (exact_mean, exact_sd)) in
                        found.0.iter().zip(&found.1).zip(expected.0.iter().zip(&expected.1))
                    {
                        assert!((mean - exact_mean).abs() < ROUNDING, "level {level}: {mean} against {exact_mean}");
                        let away = (sd / exact_sd - 1.0).abs();
                        assert!(away < ROUNDING || !is_known && away < 0.5, "level {level}: {sd} against {exact_sd}");
                    }
                }
            }
        };
        // Before a request says how wide the globals are, they stand at their mean.
        compare(&parties, false);
        let requests = parties.algorithm.elbo_requests(1, 0);
        for (silo, request) in parties.silos.iter_mut().zip(requests) {
            silo.answer(&request.message).unwrap();
        }
        compare(&parties, true);
    }
}

/// A point of global and local parameters of all hospitals, with the noise of a draw.
struct Point {
    model: Wards,
    device: Device,
    table: SiteTable,
    data: WardData,
    families: Vec<RowGaussian>,
    global: Vec<f64>,
    global_noise: f64,
    locals: Vec<Vec<f64>>,
    noise: Vec<Vec<f64>>,
}

/// What a share says: its bound, and the gradient by the global parameters and by those of each block.
struct Share {
    elbo: f64,
    by_global: Vec<f64>,
    by_local: Vec<Vec<f64>>,
}

impl Point {
    fn random(hospitals: Hospitals, seed: u64) -> Self {
        let device = Device::flex();
        let model = Wards { hospitals };
        let all = fixtures::levels::hospitals();
        // The silo's own latents belong to one hospital.
        let data = WardData::new(if hospitals == Hospitals::Silo { &all[1..2] } else { &all }, &device);
        let table = SiteTable::of(&model, &device, &data).unwrap();
        let plan = FamilyPlan::new();
        let family = |(index, block)| plan.row_family(&table, index, block).unwrap();
        let families: Vec<RowGaussian> = table.blocks().iter().enumerate().map(family).collect();
        let mut stream = Noise::new(seed).stream(Key::new(Purpose::Check, 0));
        let mut random = |start: Vec<f64>, scale: f64| -> Vec<f64> {
            start.iter().map(|start| start + scale * stream.standard_normal()).collect()
        };
        let global = random(vec![0.4, -0.3], 0.2);
        let locals = families.iter().map(|family| random(family.initial(0.6), 0.3)).collect();
        let noise = families.iter().map(|family| random(vec![0.0; family.rows() * family.width()], 1.0)).collect();
        Self { model, device, table, data, families, global, global_noise: -0.7, locals, noise }
    }

    /// A share of the bound at other parameters, of the rows of a minibatch.
    fn share(&self, point: (&[f64], &[Vec<f64>]), minibatch: &[Minibatch], estimator: Estimator) -> Share {
        let global_family = FullRankGaussian::new(1);
        let draw = global_family.draw(point.0, &[self.global_noise]);
        let rows: Vec<Vec<usize>> = (0..self.families.len())
            .map(|block| {
                let chosen = self.table.rows_evaluated(block, minibatch).unwrap();
                chosen.unwrap_or_else(|| (0..self.families[block].rows()).collect())
            })
            .collect();
        let places: Vec<_> = (0..rows.len()).map(|block| self.table.outer_places(block, minibatch).unwrap()).collect();
        let parameters: Vec<_> =
            rows.iter().enumerate().map(|(block, rows)| self.families[block].gather(&point.1[block], rows)).collect();
        let noise: Vec<Vec<f64>> = rows
            .iter()
            .enumerate()
            .map(|(block, rows)| {
                let width = self.families[block].width();
                rows.iter().flat_map(|row| &self.noise[block][row * width..(row + 1) * width]).copied().collect()
            })
            .collect();
        let blocks: Vec<BlockDraw<'_>> = (0..rows.len())
            .map(|block| {
                let outermost = self.table.outermost(block);
                #[expect(clippy::cast_precision_loss, reason = "a few rows")]
                let weight = self.families[outermost].rows() as f64 / rows[outermost].len() as f64;
                let outer = self.table.blocks()[block].parent.as_ref().zip(places[block].as_ref());
                let outer = outer.map(|(parent, rows)| OuterRows { block: parent.block, rows });
                let family = &self.families[block];
                let outer = outer.filter(|_| family.depends_on_outer());
                BlockDraw { family, parameters: &parameters[block], noise: &noise[block], weight, outer }
            })
            .collect();
        let mut out: Vec<Vec<f64>> = parameters.iter().map(|own| vec![0.0; own.len()]).collect();
        let density = LogDensity::new(&self.model, &self.device, &self.table).minibatch(minibatch);
        let ElboTerm { elbo, grad_mean, grad_offset, .. } =
            estimator.local_elbo_term(&density, &self.data, &draw, &blocks, &mut out).unwrap();
        let mut by_global = vec![0.0; 2];
        global_family.vjp(point.0, &[self.global_noise], &grad_mean, &grad_offset, &mut by_global);
        let by_local =
            rows.iter().zip(&out).zip(&self.families).map(|((rows, own), family)| family.scatter(own, rows)).collect();
        Share { elbo, by_global, by_local }
    }

    fn whole(&self, estimator: Estimator) -> Share {
        self.share((&self.global, &self.locals), &[], estimator)
    }
}

#[test]
fn gradients_by_every_parameter_of_every_level_are_derivatives_of_the_bound() {
    for hospitals in [Hospitals::Silo, Hospitals::Plate] {
        for estimator in [Estimator::Total, Estimator::ClosedFormEntropy] {
            let point = Point::random(hospitals, 5);
            let found = point.whole(estimator);
            let slope = |bound: &dyn Fn(f64) -> f64| {
                let h = 1e-3;
                (8.0 * (bound(h) - bound(-h)) - (bound(2.0 * h) - bound(-2.0 * h))) / (12.0 * h)
            };
            for index in 0..2 {
                let expected = slope(&|away| {
                    let mut global = point.global.clone();
                    global[index] += away;
                    point.share((&global, &point.locals), &[], estimator).elbo
                });
                let found = found.by_global[index];
                assert!((found - expected).abs() < 1e-8 * (1.0 + expected.abs()), "global {index}: {found} {expected}");
            }
            for block in 0..point.locals.len() {
                for index in 0..point.locals[block].len() {
                    let expected = slope(&|away| {
                        let mut locals = point.locals.clone();
                        locals[block][index] += away;
                        point.share((&point.global, &locals), &[], estimator).elbo
                    });
                    let found = found.by_local[block][index];
                    let is_near = (found - expected).abs() < 1e-7 * (1.0 + expected.abs());
                    assert!(is_near, "{hospitals:?}, {estimator:?}, level {block}, {index}: {found} {expected}");
                }
            }
        }
    }
}

#[test]
fn silos_of_hospitals_add_up_to_pooled_data() {
    let point = Point::random(Hospitals::Plate, 7);
    for estimator in [Estimator::StickingTheLanding, Estimator::Total, Estimator::ClosedFormEntropy] {
        let whole = point.whole(estimator);
        let (mut elbo, mut by_global) = (0.0, vec![0.0; 2]);
        let mut by_local: Vec<Vec<f64>> = point.locals.iter().map(|own| vec![0.0; own.len()]).collect();
        for silo in [0..1, 1..2, 2..3] {
            // The rows of the silo's hospitals, as a minibatch names them, are the rows of its own data.
            let rows = [Minibatch::new("hospital", silo.clone().collect())];
            let chosen = |block: usize| point.table.rows_evaluated(block, &rows).unwrap().unwrap();
            let own = Point::random(Hospitals::Plate, 7);
            let data = WardData::new(&hospitals()[silo], &own.device);
            let table = SiteTable::of(&own.model, &own.device, &data).unwrap();
            let plan = FamilyPlan::new();
            let family = |(index, block)| plan.row_family(&table, index, block).unwrap();
            let families: Vec<RowGaussian> = table.blocks().iter().enumerate().map(family).collect();
            let gathered = |block: usize| point.families[block].gather(&point.locals[block], &chosen(block));
            let noise = |block: usize| {
                let width = families[block].width();
                let cells = |row: &usize| point.noise[block][row * width..(row + 1) * width].to_vec();
                chosen(block).iter().flat_map(cells).collect()
            };
            let own = Point {
                locals: (0..4).map(gathered).collect(),
                noise: (0..4).map(noise).collect(),
                table,
                data,
                families,
                ..own
            };
            let share = own.whole(estimator);
            elbo += share.elbo;
            by_global.iter_mut().zip(&share.by_global).for_each(|(slot, own)| *slot += own);
            for (block, own) in share.by_local.iter().enumerate() {
                let own = point.families[block].scatter(own, &chosen(block));
                by_local[block].iter_mut().zip(own).for_each(|(slot, own)| *slot += own);
            }
        }
        assert!(discrepancy(&[elbo], &[whole.elbo]) < ORDER, "{estimator:?}");
        assert!(discrepancy(&by_global, &whole.by_global) < ORDER, "{estimator:?}");
        assert!(discrepancy(&by_local.concat(), &whole.by_local.concat()) < ORDER, "{estimator:?}");
    }
}

#[test]
fn the_mean_over_minibatches_of_outermost_rows_is_the_full_batch_at_every_level() {
    for (hospitals, plate) in [(Hospitals::Plate, "hospital"), (Hospitals::Silo, "clinic")] {
        let point = Point::random(hospitals, 11);
        for estimator in [Estimator::StickingTheLanding, Estimator::Total, Estimator::ClosedFormEntropy] {
            let whole = point.whole(estimator);
            let (mut elbo, mut by_global) = (0.0, vec![0.0; 2]);
            let mut by_local: Vec<Vec<f64>> = point.locals.iter().map(|own| vec![0.0; own.len()]).collect();
            // All pairs of three rows, each in the order that a minibatch may have.
            for rows in [[2, 0], [0, 1], [1, 2]] {
                let part = Minibatch::new(plate, rows.to_vec());
                let share = point.share((&point.global, &point.locals), &[part], estimator);
                elbo += share.elbo / 3.0;
                by_global.iter_mut().zip(&share.by_global).for_each(|(slot, own)| *slot += own / 3.0);
                for (sum, own) in by_local.iter_mut().zip(&share.by_local) {
                    sum.iter_mut().zip(own).for_each(|(slot, own)| *slot += own / 3.0);
                }
            }
            assert!(discrepancy(&[elbo], &[whole.elbo]) < ORDER, "{plate}, {estimator:?}");
            assert!(discrepancy(&by_global, &whole.by_global) < ORDER, "{plate}, {estimator:?}");
            assert!(discrepancy(&by_local.concat(), &whole.by_local.concat()) < ORDER, "{plate}, {estimator:?}");
        }
    }
}

/// The bits of posterior, marginals and bound after twelve steps, in one run or resumed after the eighth.
fn bits(algorithm: AlgorithmChoice, hospitals: Hospitals, is_interrupted: bool) -> Vec<u64> {
    let (device, all) = (Device::flex(), fixtures::levels::hospitals());
    let mut silos = fixtures::named(split(hospitals).into_iter().map(|own| WardData::new(&all[own], &device)));
    if matches!(algorithm, AlgorithmChoice::Central) {
        silos.truncate(1);
    }
    let plate = if hospitals == Hospitals::Plate { "hospital" } else { "clinic" };
    let folder = tempfile::tempdir().unwrap();
    let run = |steps, resume| {
        let settings = Settings {
            steps,
            minibatch: [(plate.to_owned(), 1)].into(),
            schedule: Schedule::Constant { rate: 0.01 },
            ..Settings::default()
        };
        let (algorithm, checkpoint) = (algorithm.clone(), Some((folder.path().to_owned(), 4)));
        let options = FitOptions {
            algorithm,
            settings,
            checkpoint,
            resume,
            elbo_draws: 3,
            summary_draws: 3,
            trust_draws: Some(0),
            ..FitOptions::default()
        };
        fit(&Wards { hospitals }, &silos, &device, &options, None).unwrap()
    };
    if is_interrupted {
        run(8, false);
    }
    let mut fit = run(12, is_interrupted);
    let moments = fit.exchange.programs().iter().flat_map(|silo| silo.local_moments().unwrap());
    let moments: Vec<f64> = moments.flat_map(|(means, sds)| [means, sds].concat()).collect();
    [fit.posterior().parameters, &moments, &[fit.report.elbo]].concat().iter().map(|number| number.to_bits()).collect()
}

#[test]
fn a_resumed_run_has_the_bits_of_one_that_was_not_interrupted() {
    for hospitals in [Hospitals::Silo, Hospitals::Plate] {
        for algorithm in [AlgorithmChoice::Sfvi, AlgorithmChoice::Central] {
            let [whole, resumed] = [false, true].map(|interrupted| bits(algorithm.clone(), hospitals, interrupted));
            assert_eq!(whole, resumed, "{hospitals:?}, {algorithm:?}");
        }
    }
}

#[test]
fn what_has_no_form_for_levels_is_refused_by_words() {
    let (device, all) = (Device::flex(), hospitals());
    let data = WardData::new(&all, &device);
    let model = Wards { hospitals: Hospitals::Plate };
    let settings = Settings { estimator: Estimator::LocallyEnhanced { inner: 2 }, ..Settings::default() };
    let mut silo = Silo::new("all", 0, &model, &data, &device, &settings).unwrap();
    let mut algorithm = Sfvi::new(&model, &device, &settings, &["all".to_owned()]).unwrap();
    let request = algorithm.outgoing().unwrap().remove(0);
    let refused = silo.answer(&request.message).unwrap_err().to_string();
    assert!(refused.contains("all stand in one plate") && refused.contains("StickingTheLanding"), "{refused}");
    let settings =
        Settings { family: FamilyPlan::new().local(Gaussian::diagonal().given_outer()), ..Settings::default() };
    let refused = OnDeviceSilo::new("all", &model, &data, &device, &settings).unwrap_err().to_string();
    assert!(refused.contains("without `given_outer`") && refused.contains("Central"), "{refused}");
    let plan = FamilyPlan::new().local(Gaussian::diagonal().given_globals());
    let settings = Settings { family: plan, ..Settings::default() };
    OnDeviceSilo::new("all", &model, &data, &device, &settings).unwrap();
    CentralSilo::new("all", &model, &data, &device, &settings).unwrap();
}
