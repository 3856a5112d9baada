//! Holds private rounds of local steps to plain ones without noise, to noise that is what is accounted, and to audits.

use std::sync::{Arc, Mutex};

use fixtures::message::{with_global, with_word};
use fixtures::private::{Recorded, around_one, labelled, spends_within_its_budget};
use partita::inference::{
    Algorithm, AlgorithmChoice, AveragingSilo, Error, FedOpt, FedOptOptions, Fitted, Mechanism, Message, Privacy,
    PrivateParty, PrivateSteps, Program, PviOptions, PviSilo, Result, RoundOptions, RowSum, Schedule, Settings,
    SfviAvg, Silo, SiloProgram, fit,
};
use partita::models::{BinaryRows, LogisticRegression, MixedLogistic, RepeatedBinary, six_cities};
use partita::privacy::{Accountant, Audit, Conversion, Cost, Entropy, Grid, SeededBits};
use partita::private::{NoisedSums, PrivateMethod, PrivateOptions, simulate};
use partita::{Device, FitOptions};

const STEPS: u64 = 4;

/// Two rounds of four steps; a clip that shortens no row of these tests.
fn steps() -> PrivateSteps {
    PrivateSteps { epsilon: 1.0, delta: 1e-5, noise: 1.0, clip: 1e3, rate: 1.0, sums: 2 * STEPS, whole_silo: false }
}

fn averages() -> RoundOptions {
    RoundOptions { private: Some(steps()), ..RoundOptions::paper(STEPS) }
}

fn points() -> FedOptOptions {
    FedOptOptions { private: Some(steps()), ..FedOptOptions::fed_prox(STEPS, 0.1) }
}

fn settings() -> Settings {
    let schedule = Schedule::Constant { rate: 0.05 };
    Settings { particles: 3, threads: Some(2), schedule, steps: 2 * STEPS, ..Settings::default() }
}

fn regression(settings: &Settings) -> Silo {
    Silo::new("north", 0, &LogisticRegression::new(2), &labelled(), &Device::flex(), settings).unwrap()
}

/// Sixty children with latents of their own, the eleventh of whom may be another.
fn children(other: bool) -> Silo {
    let mut children = six_cities()[..60].to_vec();
    if other {
        (children[10].wheeze, children[10].smoke) = ([true; 4], !children[10].smoke);
    }
    let data = RepeatedBinary::six_cities(&children, &Device::flex()).unwrap();
    Silo::new("north", 0, &MixedLogistic::new(4), &data, &Device::flex(), &settings()).unwrap()
}

fn first_request(algorithm: &mut dyn Algorithm) -> Message {
    algorithm.outgoing().unwrap().remove(0).message
}

fn averaging(private: RoundOptions) -> SfviAvg {
    let (model, names) = (MixedLogistic::new(4), ["north".to_owned()]);
    SfviAvg::new(&model, &Device::flex(), &settings(), &names, vec![60], private).unwrap()
}

fn averaging_regression(how: RoundOptions) -> Result<SfviAvg> {
    let (model, names) = (LogisticRegression::new(2), ["north".to_owned()]);
    SfviAvg::new(&model, &Device::flex(), &settings(), &names, vec![40], how)
}

fn pointing(how: &FedOptOptions) -> FedOpt {
    let (model, names) = (LogisticRegression::new(2), ["north".to_owned()]);
    FedOpt::new(&model, &Device::flex(), &how.settings(settings()), &names, vec![40], how.clone()).unwrap()
}

#[test]
fn without_noise_a_private_round_is_a_plain_one_and_tells_no_bound() {
    let average = || AveragingSilo::new(regression(&settings()), 0);
    let point = || AveragingSilo::of_points(regression(&points().settings(settings())), 0).unwrap();
    for (request, plain, hidden) in [
        (first_request(&mut averaging_regression(averages()).unwrap()), average(), average()),
        (first_request(&mut pointing(&points())), point(), point()),
    ] {
        let mut hidden = hidden.private(Some(steps()), Box::new(Recorded::default())).unwrap();
        let (manifest, mut plain) = (hidden.manifest(), plain);
        let expected = plain.answer(&request).unwrap();
        let found = hidden.answer(&request).unwrap();
        let [expected_global, global] = [&expected, &found].map(|own| own.get_floats("global").unwrap());
        assert!(
            expected_global
                .iter()
                .zip(request.get_floats("global").unwrap())
                .all(|(end, from)| end.total_cmp(&from).is_ne())
        );
        for (expected, found) in expected_global.iter().zip(&global) {
            assert!((expected - found).abs() < 1e-9 * expected.abs().max(1.0), "{expected} {found}");
        }
        let tells = |answer: &Message, field: &str| answer.numbers.iter().any(|(name, _)| name == field);
        assert!(tells(&expected, "elbo") && !tells(&expected, "clipped_rows"));
        assert!(!tells(&found, "elbo") && tells(&found, "clipped_rows"));
        // What a plain silo answers is held back, a private silo's answer is not.
        let refused = PrivateParty::new(Box::new(plain), manifest.clone()).answer(&request).unwrap_err();
        assert!(matches!(&refused, Error::Manifest { field, .. } if field == "elbo"), "{refused}");
    }
}

#[test]
fn rows_with_latents_lead_to_the_same_posterior_with_hardly_any_noise() {
    let children: Vec<_> = six_cities().into_iter().step_by(6).collect();
    let device = Device::flex();
    let silos = [0, 1].map(|place| {
        let own: Vec<_> = children.iter().skip(place).step_by(2).copied().collect();
        (format!("silo-{place}"), RepeatedBinary::six_cities(&own, &device).unwrap())
    });
    let how = RoundOptions { keep_optimiser: true, scale_entropy: true, ..RoundOptions::paper(20) };
    let settings = Settings { steps: 800, schedule: Schedule::Constant { rate: 0.02 }, ..Settings::default() };
    let algorithm = AlgorithmChoice::SfviAvg(how.clone());
    let options = FitOptions { algorithm, settings, threads: 2, trust_draws: Some(0), ..FitOptions::default() };
    let plain = fit(&MixedLogistic::new(4), &silos, &device, &options, None).unwrap();
    let method = PrivateMethod::SfviAvg { options: how, rate: 1.0, clip: 10.0 };
    let promise = PrivateOptions { method, rounds: 40, ..PrivateOptions::new(1e6, 1e-5) };
    let mut bits = |silo: usize| Box::new(SeededBits::new(silo as u64)) as Box<_>;
    let found = simulate(&MixedLogistic::new(4), &silos, &device, &options, &promise, &mut bits).unwrap();
    for (site, expected) in found.report.sites.iter().zip(&plain.report.sites) {
        eprintln!("{}: {:.3} / {:.3}, found {:.3} / {:.3}", site.label, expected.mean, expected.sd, site.mean, site.sd);
        assert!((site.mean - expected.mean).abs() < 0.4 * expected.sd, "{site:?} {expected:?}");
        assert!((0.8..1.25).contains(&(site.sd / expected.sd)), "{site:?} {expected:?}");
    }
}

#[test]
fn what_a_row_contributes_depends_on_no_other_row_and_moves_a_sum_by_no_more_than_the_clip() {
    // What is released says nothing of the rows: then all that a row could learn of another is in the silo.
    let contributions = |other| {
        let told = Recorded { tells_nothing: true, ..Recorded::default() };
        let mut silo = AveragingSilo::new(children(other), 0).private(Some(steps()), Box::new(told.clone())).unwrap();
        silo.answer(&first_request(&mut averaging(averages()))).unwrap();
        let (rows, clip) = (told.rows.lock().unwrap().clone(), *told.clip.lock().unwrap());
        // Three draws of the globals a step, and the mark of half a clip.
        assert!((clip - 1e3 * 3.75_f64.sqrt()).abs() < 1e-9, "{clip}");
        rows
    };
    let (before, after) = (contributions(false), contributions(true));
    assert_eq!(before.len() as u64, STEPS);
    for (step, (before, after)) in before.iter().zip(&after).enumerate() {
        for row in 0..60 {
            assert_eq!(before[row] == after[row], row != 10, "step {step}, row {row}");
        }
        // Norms that most rows exceed, and few.
        for clip in [1e-3, 1.0, 3.0] {
            let grid = Grid::new(clip, Grid::STEPS).unwrap();
            let whole = |rows: &[Vec<f64>]| grid.sum(rows[0].len(), rows).unwrap().exact().values;
            for row in 0..60 {
                let mut without = before.clone();
                without[row].fill(0.0);
                let moved = whole(before).iter().zip(whole(&without)).map(|(a, b)| (a - b).pow(2)).sum::<i128>();
                assert!(moved > 0 && moved <= i128::from(Grid::STEPS).pow(2), "{moved}");
            }
        }
    }
}

/// Lets a mechanism sum and hide rows, and keeps what it added in units of what it was to add.
#[derive(Debug)]
struct Compared {
    sums: NoisedSums,
    added: Arc<Mutex<Vec<f64>>>,
    asked: Arc<Mutex<Vec<[f64; 2]>>>,
}

impl Mechanism for Compared {
    fn release(&mut self, request: &[u8], sum: RowSum<'_>) -> Result<Vec<f64>> {
        let RowSum { length, clip, noise, count, rate, sums, rows } = sum;
        let grid = Grid::new(clip, Grid::STEPS).unwrap();
        let exact = grid.sum(length, rows(&(0..count).collect::<Vec<_>>())?).unwrap().exact().to_floats();
        let released = self.sums.release(request, RowSum { length, clip, noise, count, rate, sums, rows })?;
        let added = released.iter().zip(exact).map(|(own, exact)| (own - exact) / (noise * clip));
        self.added.lock().unwrap().extend(added);
        self.asked.lock().unwrap().push([noise, rate]);
        Ok(released)
    }
}

#[test]
fn the_noise_of_a_round_is_what_is_accounted() {
    let (epsilon, delta) = (1.0, 1e-5);
    let noise = Accountant::noise_for_samples(epsilon, delta, 1.0, 2 * STEPS).unwrap();
    let how = PrivateSteps { noise, clip: 0.5, ..steps() };
    let (added, asked) = (Arc::<Mutex<Vec<f64>>>::default(), Arc::<Mutex<Vec<[f64; 2]>>>::default());
    for seed in 0..12 {
        let sums = NoisedSums::new(None, Box::new(SeededBits::new(seed)));
        let mechanism = Compared { sums, added: added.clone(), asked: asked.clone() };
        let mut silo = AveragingSilo::new(children(false), 0).private(Some(how), Box::new(mechanism)).unwrap();
        silo.answer(&first_request(&mut averaging(averages()))).unwrap();
    }
    // Squares of n standard normal numbers have a mean of 1 and a standard deviation of √(2/n): five of them.
    let added = added.lock().unwrap();
    let (count, squares) = (added.len() as f64, added.iter().map(|value| value * value).sum::<f64>());
    assert_eq!(added.len() as u64, 12 * STEPS * (3 * 5 + 1));
    assert!((squares / count - 1.0).abs() < 5.0 * (2.0 / count).sqrt(), "{}", squares / count);
    assert!(added.iter().sum::<f64>().abs() < 5.0 * count.sqrt());
    // All sums of a run together cost what was promised, and hardly less.
    let asked = asked.lock().unwrap();
    assert_eq!(asked.len() as u64, 12 * STEPS);
    let costs = asked[..2 * STEPS as usize].iter().map(|[noise, rate]| Cost::sampled(*noise, *rate, 1).unwrap());
    let found = Accountant::of(costs).epsilon(delta, Conversion::Improved).unwrap();
    assert!(found <= epsilon && found > 0.999 * epsilon, "{found}");
}

#[test]
fn a_private_silo_refuses_more_sums_than_were_promised_and_what_has_no_noise() {
    let private = |settings: &Settings| {
        AveragingSilo::new(regression(settings), 0).private(Some(steps()), Box::new(Recorded::default()))
    };
    let model = LogisticRegression::new(2);
    let request = first_request(&mut averaging_regression(averages()).unwrap());
    let mut own = private(&settings()).unwrap();
    own.answer(&request).unwrap();
    // What a silo has given is saved with it: one that is put back has given no less.
    let state = Program::save(&own).unwrap();
    own.answer(&request).unwrap();
    let refused = own.answer(&request).unwrap_err().to_string();
    assert!(refused.contains("8 sums are given"), "{refused}");
    let mut back = private(&settings()).unwrap();
    assert!(Program::load(&mut back, STEPS, &state).unwrap());
    back.answer(&request).unwrap();
    assert!(back.answer(&request).unwrap_err().to_string().contains("8 sums are given"));
    for kind in ["sfvi.step", "sfvi.estimate", "trust.values"] {
        let refused = own.answer(&Message { kind: kind.into(), ..request.clone() }).unwrap_err().to_string();
        assert!(refused.contains("answers rounds alone"), "{kind}: {refused}");
    }
    let refused = |settings: Settings| private(&settings).unwrap_err().to_string();
    assert!(refused(Settings { schedule: Schedule::Adaptive { initial: 0.1 }, ..settings() }).contains("Adaptive"));
    assert!(refused(Settings { minibatch: [("row".to_owned(), 10)].into(), ..settings() }).contains("a minibatch"));
    let most = RoundOptions { most: Some(1), ..averages() };
    assert!(averaging_regression(most).unwrap_err().to_string().contains("steps of plain SFVI have no noise"));
    let clip = RoundOptions { private: Some(PrivateSteps { clip: 0.0, ..steps() }), ..averages() };
    assert!(averaging_regression(clip).unwrap_err().to_string().contains("clip"));
    // Silos without a mechanism.
    for algorithm in [AlgorithmChoice::SfviAvg(averages()), AlgorithmChoice::FedOpt(points())] {
        let options = FitOptions { algorithm, settings: settings(), ..FitOptions::default() };
        let refused = fit(&model, &[("north".to_owned(), labelled())], &Device::flex(), &options, None).unwrap_err();
        assert!(refused.to_string().contains("no mechanism"), "{refused}");
    }
}

/// A fit of six hundred numbers in two silos under a promise: five rounds of twenty steps.
fn fitted(method: PrivateMethod, promise: PrivateOptions, seed: u64) -> Result<Fitted> {
    let settings = Settings { seed, schedule: Schedule::Constant { rate: 0.05 }, ..Settings::default() };
    around_one(settings, &PrivateOptions { method, rounds: 5, ..promise })
}

fn by_averages(rate: f64, clip: f64) -> PrivateMethod {
    let options = RoundOptions { keep_optimiser: true, ..RoundOptions::paper(20) };
    PrivateMethod::SfviAvg { options, rate, clip }
}

fn by_points(rate: f64, clip: f64) -> PrivateMethod {
    PrivateMethod::FedOpt { options: FedOptOptions::fed_avg(20), rate, clip }
}

#[test]
fn a_private_fit_finds_the_mean_counts_clipped_rows_and_says_that_its_noise_is_in_no_interval() {
    for method in [by_averages, by_points] {
        for seed in 1..=3 {
            let fit = fitted(method(0.2, 2.0), PrivateOptions::new(4.0, 1e-5), seed).unwrap();
            let (site, privacy) = (&fit.report.sites[0], fit.report.privacy.as_ref().unwrap());
            assert!((site.mean - 1.0).abs() < 0.4, "{}", site.mean);
            assert!(privacy.releases == 100 && privacy.widened.is_empty());
            assert!(fit.report.warnings.iter().any(|own| own.problem.contains("is not in it")));
            assert!(privacy.clipped.unwrap().share.abs() < 5.0 * privacy.clipped.unwrap().deviation);
        }
        // With a clip of one, rows farther than that from the mean are longer: seven of 21 in the middle of each silo are
        // not, and others by where the mean is. Little noise counts them.
        let fit = fitted(method(1.0, 1.0), PrivateOptions::new(1e6, 1e-5), 1).unwrap();
        let found = fit.report.privacy.as_ref().unwrap().clipped.unwrap();
        let mean = fit.report.sites[0].mean;
        let row = |k: i32| [0.8, 1.2].map(|silo| silo + f64::from(k % 21 - 10) / 6.06 - mean);
        let long = (0..300).flat_map(row).filter(|own| own.abs() > 1.0).count();
        let share = long as f64 / 600.0;
        assert!((found.share - share).abs() < 5.0 * found.deviation + 0.06, "{found:?} of {share}");
    }
}

#[test]
fn a_run_beyond_the_budget_spends_nothing_and_a_repeated_one_costs_nothing() {
    for method in [by_averages(0.5, 2.0), by_points(0.5, 2.0)] {
        spends_within_its_budget(100, |promise, seed| fitted(method.clone(), promise, seed));
    }
}

/// The promise for a whole silo over two rounds.
fn whole() -> PrivateSteps {
    PrivateSteps { whole_silo: true, sums: 2, ..steps() }
}

#[test]
fn what_a_whole_silo_changes_is_the_one_row_of_a_sum_and_nothing_else_is_told() {
    let average = || AveragingSilo::new(regression(&settings()), 0);
    let point = || AveragingSilo::of_points(regression(&points().settings(settings())), 0).unwrap();
    let of_averages = RoundOptions { private: Some(whole()), ..averages() };
    let of_points = FedOptOptions { private: Some(whole()), ..points() };
    for (request, mut plain, hidden, silent, late) in [
        (first_request(&mut averaging_regression(of_averages).unwrap()), average(), average(), average(), average()),
        (first_request(&mut pointing(&of_points)), point(), point(), point(), point()),
    ] {
        let recorded = Recorded::default();
        let private =
            |silo: AveragingSilo, told: &Recorded| silo.private(Some(whole()), Box::new(told.clone())).unwrap();
        let mut hidden = private(hidden, &recorded);
        let (expected, found) = (plain.answer(&request).unwrap(), hidden.answer(&request).unwrap());
        let [start, end, global] = [&request, &expected, &found].map(|own| own.get_floats("global").unwrap());
        let is_near = end.iter().zip(&global).all(|(expected, found)| (expected - found).abs() < 1e-12);
        assert!(is_near && end.len() == global.len(), "{end:?} {global:?}");
        // One row, which is the change, and whose clip is that of the promise.
        let rows = recorded.rows.lock().unwrap().clone();
        assert!(rows.len() == 1 && rows[0].len() == 1 && rows[0][0].len() == start.len(), "{rows:?}");
        assert!(rows[0][0].iter().any(|change| change.abs() > 1e-3));
        assert!((*recorded.clip.lock().unwrap() - 1e3).abs() < 1e-9);
        let tells = |answer: &Message, field: &str| answer.numbers.iter().any(|(name, _)| name == field);
        assert!(tells(&expected, "elbo") && !tells(&found, "elbo") && !tells(&found, "clipped_rows"));
        let other = Message { kind: "sfvi.step".into(), ..request.clone() };
        assert!(hidden.answer(&other).unwrap_err().to_string().contains("answers rounds alone"));
        // Where nothing is released nothing of the silo is in the answer.
        let nothing = Recorded { tells_nothing: true, ..Recorded::default() };
        let answer = private(silent, &nothing).answer(&request).unwrap();
        assert_eq!((answer.get_floats("global").unwrap(), answer.get_word("clipped").unwrap()), (start, 0));
        let more = with_word(&request, "round", 2);
        let refused = private(late, &nothing).answer(&more).unwrap_err().to_string();
        assert!(refused.contains("round 2 of a run of 2"), "{refused}");
    }
}

#[test]
fn a_whole_silo_whose_rows_are_outside_of_the_model_has_changed_nothing_and_does_not_refuse() {
    let of_averages = RoundOptions { private: Some(whole()), ..averages() };
    let request = with_global(&first_request(&mut averaging_regression(of_averages).unwrap()), 0, 1e308);
    let (silo, recorded) = (|| AveragingSilo::new(regression(&settings()), 0), Recorded::default());
    assert!(silo().answer(&request).is_err());
    let answer = silo().private(Some(whole()), Box::new(recorded.clone())).unwrap().answer(&request).unwrap();
    assert_eq!(answer.get_floats("global").unwrap(), request.get_floats("global").unwrap());
    assert!(recorded.rows.lock().unwrap()[0][0].iter().all(|change| *change == 0.0));
}

#[test]
fn a_fit_that_protects_whole_silos_has_a_sum_a_round_and_a_ledger_of_its_own_unit() {
    let folder = tempfile::tempdir().unwrap();
    let ledgers = Some((folder.path().to_owned(), 2.1));
    let promise = PrivateOptions { unit: Privacy::WHOLE_SILO.into(), ..PrivateOptions::new(2.0, 1e-5) };
    let recorded = PrivateOptions { ledgers: ledgers.clone(), ..promise.clone() };
    for method in [by_averages(1.0, 0.01), by_points(1.0, 0.01)] {
        let report = fitted(method, PrivateOptions { ledgers: None, ..promise.clone() }, 1).unwrap().report;
        let own = report.privacy.as_ref().unwrap();
        assert!(own.releases == 5 && own.clipped.is_none() && own.unit == "whole silo", "{own:?}");
        assert!((own.noise - Accountant::noise_for(2.0, 1e-5, 5).unwrap()).abs() < 1e-9, "{own:?}");
        let words = "differentially private for one whole silo: 5 clipped changes by local steps, with noise";
        assert!(own.promise().contains(words), "{}", own.promise());
    }
    fitted(by_averages(1.0, 0.01), recorded.clone(), 1).unwrap();
    let text = std::fs::read_to_string(folder.path().join("at-0.8.ledger")).unwrap();
    assert!(text.matches("\"spent\"").count() == 5 && text.contains("whole silo"), "{text}");
    let rows = PrivateOptions { ledgers, ..PrivateOptions::new(0.05, 1e-5) };
    let refused = fitted(by_averages(1.0, 0.01), rows, 1).unwrap_err().to_string();
    assert!(refused.contains("it protects one whole silo, the budget is of one row"), "{refused}");
    for (method, words) in [(PrivateMethod::FewRounds, "noise is for rows"), (by_averages(0.5, 0.01), "rate")] {
        let refused = fitted(method, promise.clone(), 1).unwrap_err().to_string();
        assert!(refused.contains("whole silo") && refused.contains(words), "{refused}");
    }
    // And visits of PVI by options of one's own.
    let visits = PviOptions { private: Some(whole()), ..PviOptions::new(STEPS) };
    let refused = PviSilo::new(regression(&settings()), 0, visits)
        .and_then(|own| own.private(Box::new(Recorded::default())))
        .unwrap_err();
    assert!(refused.to_string().contains("a promise for a whole silo"), "{refused}");
}

/// As many columns as canaries, each with an axis of its own.
const CANARIES: usize = 480;

/// One run over canaries that coins put in, of whom the hundred surest are guessed from the answer, or all without noise: whoever
/// guesses knows all of them and sees the posterior.
fn audited(is_point: bool, noise: Option<f64>, seed: u64) -> Audit {
    let mut coins = vec![0; CANARIES];
    SeededBits::new(seed).fill(&mut coins).unwrap();
    let is_in: Vec<bool> = coins.iter().map(|coin| coin % 2 == 1).collect();
    let present: Vec<usize> = (0..CANARIES).filter(|at| is_in[*at]).collect();
    let inputs: Vec<f64> =
        present.iter().flat_map(|at| (0..CANARIES).map(move |own| if own == *at { 3.0 } else { 0.0 })).collect();
    let data = BinaryRows::new(&inputs, CANARIES, &vec![true; present.len()], &Device::flex()).unwrap();
    // All that has no rows in it, which whoever guesses can compute.
    let nothing: Box<dyn Mechanism> = Box::new(Recorded { tells_nothing: true, ..Recorded::default() });
    let (model, names) = (LogisticRegression::new(CANARIES), ["north".to_owned()]);
    // One step, so that every number of the answer follows from one number of the sum.
    let private = Some(PrivateSteps { noise: noise.unwrap_or(1.0), clip: 1.0, sums: 1, ..steps() });
    let points = FedOptOptions { private, ..FedOptOptions::fed_avg(1) };
    let schedule = Schedule::Constant { rate: 1.0 };
    let base =
        Settings { threads: Some(2), schedule, steps: 1, optimiser: points.optimiser.clone(), ..Settings::default() };
    let settings = if is_point { points.settings(base) } else { base };
    let mechanism: Box<dyn Mechanism> = match noise {
        Some(_) => Box::new(NoisedSums::new(None, Box::new(SeededBits::new(1_000 + seed)))),
        None => Box::new(Recorded::default()),
    };
    let answer = |mechanism, request: &Message| {
        let silo = Silo::new("north", 0, &model, &data, &Device::flex(), &settings).unwrap();
        let silo = if is_point { AveragingSilo::of_points(silo, 0).unwrap() } else { AveragingSilo::new(silo, 0) };
        let mut silo = silo.private(private, mechanism).unwrap();
        silo.answer(request).unwrap().get_floats("global").unwrap()
    };
    let (device, sizes) = (Device::flex(), vec![present.len()]);
    let mut algorithm: Box<dyn Algorithm> = match is_point {
        true => Box::new(FedOpt::new(&model, &device, &settings, &names, sizes, points).unwrap()),
        false => {
            let how = RoundOptions { private, ..RoundOptions::paper(1) };
            Box::new(SfviAvg::new(&model, &device, &settings, &names, sizes, how).unwrap())
        }
    };
    let request = first_request(&mut *algorithm);
    let (before, after) = (answer(nothing, &request), answer(mechanism, &request));
    // The first number is the intercept, which all canaries move.
    let moved: Vec<f64> = (1..=CANARIES).map(|at| after[at] - before[at]).collect();
    let mut sorted = moved.clone();
    sorted.sort_by(f64::total_cmp);
    let middle = 0.5 * (sorted[CANARIES / 20] + sorted[CANARIES - 1 - CANARIES / 20]);
    let mut order: Vec<usize> = (0..CANARIES).collect();
    order.sort_by(|a, b| (moved[*b] - middle).abs().total_cmp(&(moved[*a] - middle).abs()));
    order.truncate(if noise.is_some() { 100 } else { CANARIES });
    let right = order.iter().filter(|at| (moved[**at] > middle) == is_in[**at]).count() as u64;
    Audit { canaries: CANARIES as u64, guesses: order.len() as u64, right }
}

#[test]
fn an_audit_refutes_rounds_without_noise_and_no_more_than_is_accounted_with_it() {
    for is_point in [true, false] {
        let open = audited(is_point, None, 1);
        assert!(open.epsilon(0.0, 0.95).unwrap() > 5.0, "{open:?}");
        for epsilon in [1.0, 8.0] {
            let noise = Accountant::noise_for(epsilon, 1e-5, 1).unwrap();
            for seed in 2..7 {
                let found = audited(is_point, Some(noise), seed);
                assert!(found.epsilon(1e-5, 0.95).unwrap() <= epsilon, "{found:?} of {epsilon}");
            }
        }
        // A tenth of the noise that eight needs is found out.
        let little = audited(is_point, Some(Accountant::noise_for(8.0, 1e-5, 1).unwrap() / 10.0), 7);
        assert!(little.epsilon(1e-5, 0.95).unwrap() > 2.5, "{little:?}");
    }
}
