//! Holds private SFVI to the answer without noise, to rows that decide on nothing but their own part, and to budgets.

use std::sync::{Arc, Mutex};

use fixtures::message::{with_global, with_word};
use fixtures::private::{around_one, spends_within_its_budget, tenths_beyond_the_clip};
use partita::inference::{
    Adam, Algorithm, AlgorithmChoice, Error, Estimator, FamilyPlan, FewRoundsOptions, Fitted, InProcess, Mechanism,
    Message, PrivateSfvi, PrivateSfviOptions, PrivateSfviSilo, Result, RowSum, RunOptions, Settings, Sgd, Silent, Silo,
    SiloProgram, fit, run,
};
use partita::models::{Child, MixedLogistic, RepeatedBinary, six_cities};
use partita::privacy::{Accountant, Conversion, Cost, Entropy, Grid, Ledger};
use partita::private::{NoisedSums, PrivateMethod, PrivateOptions};
use partita::{Device, FitOptions};

/// Sums rows on the grid without noise, and keeps what each contributed.
#[derive(Debug, Default, Clone)]
struct Recorded(Arc<Mutex<Vec<Vec<Vec<f64>>>>>);

impl Mechanism for Recorded {
    fn release(&mut self, _: &[u8], sum: RowSum<'_>) -> Result<Vec<f64>> {
        let rows = (sum.rows)(&(0..sum.count).collect::<Vec<_>>())?;
        let grid = Grid::new(sum.clip, Grid::STEPS).unwrap();
        let total = grid.sum(sum.length, &rows).unwrap().exact().to_floats();
        self.0.lock().unwrap().push(rows);
        Ok(total)
    }
}

fn settings() -> Settings {
    let estimator = Estimator::LocallyEnhanced { inner: 16 };
    Settings { threads: Some(2), estimator, ..Settings::default() }
}

/// Options with a clip that shortens no row.
fn promise(noise: f64) -> PrivateSfviOptions {
    PrivateSfviOptions { rounds: 20, clip: 100.0, ..PrivateSfviOptions::new(1.0, 1e-5, noise) }
}

/// Children are integrated, or have posteriors of their own that take ten steps before a sum.
const WAYS: [Option<u64>; 2] = [None, Some(10)];

fn silo_of(children: &[Child], options: &PrivateSfviOptions, mechanism: impl Mechanism + 'static) -> PrivateSfviSilo {
    let device = Device::flex();
    let data = RepeatedBinary::six_cities(children, &device).unwrap();
    let settings = Settings { steps: PrivateSfviOptions::releases(options.rounds, 5), ..settings() };
    let silo = Silo::new("north", 0, &MixedLogistic::new(4), &data, &device, &settings).unwrap();
    PrivateSfviSilo::new(silo, 0, options, Box::new(mechanism)).unwrap()
}

fn silo(children: &[Child], noise: f64, mechanism: impl Mechanism + 'static) -> PrivateSfviSilo {
    silo_of(children, &promise(noise), mechanism)
}

fn coordinator_of(rows: usize, options: &PrivateSfviOptions) -> PrivateSfvi {
    let names = ["north".to_owned()];
    PrivateSfvi::new(&MixedLogistic::new(4), &Device::flex(), &settings(), &names, &[rows], options).unwrap()
}

fn coordinator(rows: usize, noise: f64) -> PrivateSfvi {
    coordinator_of(rows, &promise(noise))
}

#[test]
fn with_hardly_any_noise_the_answer_is_that_of_few_rounds() {
    // The first of them never wheeze.
    let children: Vec<Child> = six_cities().into_iter().step_by(3).collect();
    let children = &children;
    let device = Device::flex();
    let data = [("all".to_owned(), RepeatedBinary::six_cities(children, &device).unwrap())];
    let algorithm = AlgorithmChoice::FewRounds(FewRoundsOptions::default());
    let few = FitOptions { algorithm, threads: 2, trust_draws: Some(0), ..FitOptions::default() };
    let mut exact = fit(&MixedLogistic::new(4), &data, &device, &few, None).unwrap();
    let moments = |exchange: &mut InProcess| -> Vec<(f64, f64)> {
        let own = exchange.programs()[0].local_moments().unwrap();
        own.into_iter().flat_map(|(means, sds)| means.into_iter().zip(sds)).collect()
    };
    let of_children = moments(&mut exact.exchange);
    for (local_steps, rounds) in WAYS.into_iter().zip([10, 20]) {
        let promise = PrivateSfviOptions { local_steps, rounds, ..promise(1e-6) };
        let mut coordinator = coordinator_of(children.len(), &promise);
        let silo: Box<dyn SiloProgram> = Box::new(silo_of(children, &promise, Recorded::default()));
        let mut exchange = InProcess::new(vec![silo], 1).unwrap();
        let options = RunOptions { steps: 1_000, ..RunOptions::default() };
        let record = run(&mut coordinator, &mut exchange, &options, &mut Silent).unwrap();
        assert_eq!(record.counters.rounds, rounds * 16);
        let (means, sds) = fixtures::moments(coordinator.posterior());
        // A Gaussian for a child's effect, though mended by draws, makes the posterior narrower than integrals do. With these, ten
        // rounds by a program in Python are within 0.03 deviations of 4,096 draws a round, and deviations within 3 %.
        let (near, widths) = if local_steps.is_none() { (0.1, 0.93..1.07) } else { (0.2, 0.75..1.1) };
        for (index, site) in exact.report.sites.iter().enumerate() {
            let found = format!("{}: {} / {} of {} / {}", site.label, means[index], sds[index], site.mean, site.sd);
            assert!((means[index] - site.mean).abs() < near * site.sd, "{local_steps:?}, {found}");
            assert!(widths.contains(&(sds[index] / site.sd)), "{local_steps:?}, {found}");
        }
        if local_steps.is_none() {
            let own = moments(&mut exchange);
            assert_eq!(own.len(), children.len());
            for (own, exact) in own.iter().zip(&of_children) {
                assert!((own.0 - exact.0).abs() < 0.1 && (own.1 - exact.1).abs() < 0.1, "{own:?} {exact:?}");
            }
        }
    }
}

#[test]
fn a_report_says_whether_effects_of_children_were_integrated_out() {
    let device = Device::flex();
    let children: Vec<Child> = six_cities().into_iter().step_by(9).collect();
    let data = [("all".to_owned(), RepeatedBinary::six_cities(&children, &device).unwrap())];
    let options = FitOptions { settings: settings(), ..FitOptions::default() };
    for local_steps in WAYS {
        let method = PrivateMethod::Sfvi { rate: 1.0 };
        let promise = PrivateOptions { method, rounds: 1, local_steps, ..PrivateOptions::new(100.0, 1e-5) };
        let promise = PrivateOptions { unit: "child".into(), ..promise };
        let fit = partita::private::fit(&MixedLogistic::new(4), &data, &device, &options, &promise).unwrap();
        let text = fit.report.to_string();
        let words = if local_steps.is_none() { "were integrated out" } else { "were approximated, not integrated out" };
        assert!(text.contains(&format!("the effects of each child {words}\n")), "{text}");
        assert_eq!(text.contains("95 % intervals are too narrow"), local_steps.is_some(), "{text}");
    }
}

#[test]
fn draws_of_children_in_their_bounds_come_to_the_integrals_as_their_number_grows() {
    let (children, device) = (&six_cities()[330..370], Device::flex());
    let near = PrivateSfviOptions { start: 0.2, ..promise(1.0) };
    let request = coordinator_of(children.len(), &near).outgoing().unwrap().remove(0).message;
    let vectors = |inner: usize, local_steps: Option<u64>| -> Vec<f64> {
        let data = RepeatedBinary::six_cities(children, &device).unwrap();
        let (estimator, family) = (Estimator::LocallyEnhanced { inner }, FamilyPlan::new().initial_scale(0.9));
        let settings = Settings { steps: 1_000, estimator, family, ..settings() };
        let silo = Silo::new("north", 0, &MixedLogistic::new(4), &data, &device, &settings).unwrap();
        let (recorded, options) = (Recorded::default(), PrivateSfviOptions { local_steps, ..near.clone() });
        let mut silo = PrivateSfviSilo::new(silo, 0, &options, Box::new(recorded.clone())).unwrap();
        silo.answer(&request).unwrap();
        recorded.0.lock().unwrap().concat().concat()
    };
    let size = |values: &[f64]| values.iter().map(|value| value * value).sum::<f64>().sqrt();
    let integrated = vectors(16, None);
    let off = |inner: usize| {
        let drawn = vectors(inner, Some(50));
        size(&drawn.iter().zip(&integrated).map(|(a, b)| a - b).collect::<Vec<_>>()) / size(&integrated)
    };
    // Averages of 64 times as many draws are eight times as near, and those of the fewer err by more than that.
    let (few, many) = (off(16), off(1_024));
    assert!(many < few / 4.0 && many < 0.1, "{few} {many}");
}

/// Releases a number more than the sum has.
#[derive(Debug)]
struct OneTooMany;

impl Mechanism for OneTooMany {
    fn release(&mut self, _: &[u8], sum: RowSum<'_>) -> Result<Vec<f64>> {
        Ok(vec![0.0; sum.length + 1])
    }
}

#[test]
fn a_mechanism_that_releases_a_number_more_than_the_sum_has_gives_no_answer() {
    let mut silo = silo(&six_cities()[..60], 1.0, OneTooMany);
    let request = coordinator(537, 1.0).outgoing().unwrap().remove(0).message;
    let found = silo.answer(&request).unwrap_err().to_string();
    assert!(found.contains("a mechanism released 7 numbers of 6"), "{found}");
}

/// What every row contributes to the first exchanges, in which rows follow the globals.
fn contributions(children: &[Child], local_steps: Option<u64>) -> Vec<Vec<Vec<f64>>> {
    let recorded = Recorded::default();
    let mut silo = silo_of(children, &PrivateSfviOptions { local_steps, ..promise(1.0) }, recorded.clone());
    let request = coordinator(537, 1.0).outgoing().unwrap().remove(0).message;
    (0..3).for_each(|step| drop(silo.answer(&with_word(&request, "step", step)).unwrap()));
    recorded.0.lock().unwrap().clone()
}

#[test]
fn what_a_row_contributes_depends_on_no_other_row_and_moves_a_sum_by_no_more_than_the_clip() {
    let children = &six_cities()[..60];
    let mut changed = children.to_vec();
    changed[20].wheeze = [true; 4];
    changed[20].smoke = !changed[20].smoke;
    for local_steps in WAYS {
        let before = contributions(children, local_steps);
        let after = contributions(&changed, local_steps);
        for (exchange, (before, after)) in before.iter().zip(&after).enumerate() {
            for row in 0..children.len() {
                assert_eq!(before[row] == after[row], row != 20, "exchange {exchange}, row {row}");
            }
            // The longest norm that most rows exceed, and one that few do.
            for clip in [1e-3, 1.0] {
                let grid = Grid::new(clip, Grid::STEPS).unwrap();
                let whole = |rows: &[Vec<f64>]| grid.sum(6, rows).unwrap().exact().values;
                let (of_all, mut without) = (whole(before), before.clone());
                without[20].fill(0.0);
                let moved = of_all.iter().zip(whole(&without)).map(|(a, b)| (a - b).pow(2)).sum::<i128>();
                assert!(moved > 0 && moved <= i128::from(Grid::STEPS).pow(2), "{moved}");
            }
        }
    }
}

#[test]
fn a_row_at_which_the_model_is_not_defined_neither_moves_nor_decides_whether_others_do() {
    // The product of smoke and age is -2 for children of smokers at their first visit, whose logit is then infinite.
    let children = &six_cities()[330..370];
    let ask = |children: &[Child], local_steps: Option<u64>| {
        let recorded = Recorded::default();
        let mut silo = silo_of(children, &PrivateSfviOptions { local_steps, ..promise(1.0) }, recorded.clone());
        let request = coordinator(537, 1.0).outgoing().unwrap().remove(0).message;
        silo.answer(&with_global(&request, 3, 1.2e308)).unwrap();
        silo.answer(&with_word(&request, "step", 1)).unwrap();
        recorded.0.lock().unwrap().clone()
    };
    let others: Vec<Child> = children.iter().filter(|child| !child.smoke).cloned().collect();
    let of_others = |rows: &Vec<Vec<f64>>| -> Vec<f64> {
        rows.iter().zip(children).filter(|(_, child)| !child.smoke).flat_map(|(row, _)| row.clone()).collect()
    };
    for local_steps in WAYS {
        let (all, alone) = (ask(children, local_steps), ask(&others, local_steps));
        for (row, child) in all[0].iter().zip(children) {
            assert_eq!(row.iter().all(|value| value.is_finite()), !child.smoke, "{row:?}");
        }
        // Their posteriors have followed as they do without the rows outside, to rounding, and those stay where they were.
        for (all, alone) in all.iter().zip(&alone) {
            let (all, alone) = (of_others(all), alone.concat());
            assert!(all.iter().zip(&alone).all(|(a, b)| (a - b).abs() < 1e-9 * b.abs().max(1.0)), "{all:?} {alone:?}");
        }
        assert!(all[1].iter().flatten().all(|value| value.is_finite()));
    }
}

#[test]
fn a_private_silo_of_sfvi_refuses_what_is_no_noised_sum() {
    let children = &six_cities()[..60];
    let request = coordinator(60, 2.0).outgoing().unwrap().remove(0).message;
    let refusal = |change: &dyn Fn(&mut Message)| {
        let mut other = request.clone();
        change(&mut other);
        silo(children, 2.0, Recorded::default()).answer(&other).unwrap_err().to_string()
    };
    let set = |name: &'static str, value: f64| {
        move |message: &mut Message| {
            message.numbers.iter_mut().filter(|(own, _)| own == name).for_each(|(_, slot)| *slot = value);
        }
    };
    assert!(refusal(&set("noise", 1.0)).contains("noise of 1"));
    assert!(refusal(&set("rate", 0.5)).contains("rate of 0.5"));
    assert!(refusal(&set("clip", f64::NAN)).contains("its clip is NaN"));
    assert!(refusal(&|message| *message = with_word(message, "step", 320)).contains("a run of 320"));
    for kind in ["sfvi.step", "sfvi.estimate", "trust.values", "evaluate.rows"] {
        let found = refusal(&|message: &mut Message| message.kind = kind.into());
        assert!(found.contains("noised sums alone"), "{kind}: {found}");
    }
    // An optimiser by which rows could see each other, and rows that the run's seed tells.
    let device = Device::flex();
    let data = RepeatedBinary::six_cities(children, &device).unwrap();
    let refused = |settings: &Settings| {
        let silo = Silo::new("north", 0, &MixedLogistic::new(4), &data, &device, settings).unwrap();
        PrivateSfviSilo::new(silo, 0, &promise(1.0), Box::new(Recorded::default())).unwrap_err().to_string()
    };
    assert!(
        refused(&Settings { optimiser: Sgd { momentum: 0.0 }.into(), ..settings() })
            .contains("for the latents of rows")
    );
    let minibatch = [("child".to_owned(), 10)].into();
    assert!(refused(&Settings { minibatch, optimiser: Adam::default().into(), ..settings() }).contains("a minibatch"));
    assert!(refused(&Settings { particles: 2, ..settings() }).contains("private SFVI"));
}

/// A fit of six hundred numbers in two silos under a promise.
fn fitted(promise: PrivateOptions, seed: u64, rate: f64) -> Result<Fitted> {
    let privacy = PrivateOptions { method: PrivateMethod::Sfvi { rate }, rounds: 6, ..promise };
    around_one(Settings { seed, ..Settings::default() }, &privacy)
}

#[test]
fn posteriors_are_widened_by_the_noise_and_by_the_samples_that_move_them() {
    for rate in [1.0, 0.3] {
        let (mut squares, seeds) = (0.0, 1..=12);
        for seed in seeds {
            let fit = fitted(PrivateOptions::new(2.0, 1e-5), seed, rate).unwrap();
            let (site, privacy) = (&fit.report.sites[0], fit.report.privacy.as_ref().unwrap());
            assert_eq!(privacy.releases, 6 * 16);
            assert!(privacy.widened[0] > 1.05, "{}", privacy.widened[0]);
            assert!(fit.report.warnings.iter().any(|own| own.problem.contains("noise for differential privacy")));
            squares += ((site.mean - 1.0) / site.sd).powi(2) / 12.0;
        }
        // The mean square of twelve standard normal numbers is above 3.3 with probability below 1e-4.
        assert!((0.02..3.3).contains(&squares), "{rate}: {squares}");
    }
}

#[test]
fn rows_longer_than_the_clip_are_counted_with_noise() {
    for (epsilon, rate) in [(100.0, 1.0), (100.0, 0.5), (3.0, 1.0)] {
        let method = PrivateMethod::Sfvi { rate };
        let promise = PrivateOptions { method, rounds: 6, ..PrivateOptions::new(epsilon, 1e-5) };
        let privacy = tenths_beyond_the_clip(Settings::default(), &promise).report.privacy.unwrap();
        let found = privacy.clipped.unwrap();
        // Two silos, 32 sums in the last two of six rounds; marks of half a clip; sixty rows that samples miss or have.
        let noise = 2.0 * (privacy.noise * 5_f64.sqrt() / rate).powi(2);
        let expected = ((noise + 60.0 * (1.0 - rate) / rate) / 32.0).sqrt() / 600.0;
        assert!((found.deviation / expected - 1.0).abs() < 0.1, "{found:?} of {expected}");
    }
}

/// Bits that are not there.
struct NoBits;

impl Entropy for NoBits {
    fn fill(&mut self, _: &mut [u8]) -> partita::privacy::Result<()> {
        Err(partita::privacy::Error::Entropy { problem: "none in this test".into() })
    }
}

#[test]
fn a_run_beyond_the_budget_spends_nothing_a_repeated_one_costs_nothing_and_the_ledger_comes_before_noise() {
    let (first, ledger) = spends_within_its_budget(96, |promise, seed| fitted(promise, seed, 0.5));
    // What is written there is the cost of samples, and as much as was promised.
    assert!(ledger.contains("\"rate\":0.5"), "{}", ledger.lines().nth(1).unwrap());
    let noise = first.report.privacy.unwrap().noise;
    let cost = Accountant::of([Cost::sampled(noise, 0.5, 96).unwrap()]);
    let epsilon = cost.epsilon(1e-5, Conversion::Improved).unwrap();
    assert!(epsilon <= 1.0 && epsilon > 0.999, "{epsilon}");

    // Without bits there is no noise: what it would have cost is charged before.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("no-bits.ledger");
    let budget = partita::privacy::Budget { epsilon: 1.0, delta: 1e-5, unit: "row".into() };
    let mut sums = NoisedSums::new(Some(Ledger::open(&path, budget.clone()).unwrap()), Box::new(NoBits));
    let mut rows = |chosen: &[usize]| Ok(vec![vec![0.5]; chosen.len()]);
    let sum = RowSum { length: 1, clip: 1.0, noise: 20.0, count: 3, rate: 0.5, sums: 1, rows: &mut rows };
    assert!(sums.release(b"request", sum).unwrap_err().to_string().contains("none in this test"));
    let spent = || std::fs::read_to_string(&path).unwrap().matches("\"spent\"").count();
    assert_eq!(spent(), 1);
    // All rows are summed before the ledger is asked: what stops there costs nothing.
    let mut failing = |_: &[usize]| Err(Error::Declined { problem: "a row that cannot be evaluated".into() });
    let sum = RowSum { length: 1, clip: 1.0, noise: 200.0, count: 3, rate: 1.0, sums: 1, rows: &mut failing };
    assert!(sums.release(b"another", sum).unwrap_err().to_string().contains("cannot be evaluated"));
    assert_eq!(spent(), 1);
    let owner = Ledger::open(&path, budget).unwrap();
    assert_eq!((owner.spent().unwrap().releases, owner.spent().unwrap().never_drawn), (1, 1));
}
