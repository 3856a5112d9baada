//! Holds private rounds to the answer without noise, to rows that decide on nothing but their own part, and to budgets.

use std::sync::{Arc, Mutex};

use partita::inference::{
    Error, Exchange, InProcess, Manifest, Mechanism, Message, Outcome, PrivateParty, PrivateRounds,
    PrivateRoundsOptions, PrivateRoundsSilo, PviOptions, Refusal, Release, Request, Result, RowSum, RunOptions,
    Settings, Silent, SiloProgram, run,
};
use partita::models::{
    BinaryRows, Child, GaussianMean, LogisticRegression, MixedLogistic, RepeatedBinary, six_cities, six_cities_silos,
};
use partita::privacy::{Budget, Ledger, SeededBits};
use partita::private::{NoisedSums, PrivateMethod, PrivateOptions, simulate};
use partita::{Device, FitOptions};

/// The posterior without noise, as `six_cities.rs` has it.
const EXPECTED: [[f64; 2]; 5] = [[-3.156, 0.223], [0.462, 0.287], [-0.218, 0.087], [0.106, 0.139], [-0.785, 0.085]];

/// Sums rows without noise, and keeps what each contributed.
#[derive(Debug, Default, Clone)]
struct Recorded(Arc<Mutex<Vec<Vec<Vec<f64>>>>>);

impl Mechanism for Recorded {
    fn release(&mut self, _: &[u8], sum: RowSum<'_>) -> Result<Vec<f64>> {
        let rows = (sum.rows)(&(0..sum.count).collect::<Vec<_>>())?;
        let mut total = vec![0.0; sum.length];
        for row in &rows {
            let norm = row.iter().map(|value| value * value).sum::<f64>().sqrt();
            let shorten = (sum.clip / norm).min(1.0);
            total.iter_mut().zip(row).for_each(|(slot, value)| *slot += shorten * value);
        }
        self.0.lock().unwrap().push(rows);
        Ok(total)
    }
}

fn settings() -> Settings {
    Settings { threads: Some(2), ..Settings::default() }
}

/// Options with more rounds than by default, so that the last ones change nothing but for noise.
fn promise(noise: f64) -> PrivateRoundsOptions {
    PrivateRoundsOptions { rounds: 20, ..PrivateRoundsOptions::new(1.0, 1e-5, noise) }
}

fn silo(children: &[Child], noise: f64, mechanism: Recorded) -> PrivateRoundsSilo {
    let device = Device::flex();
    let data = RepeatedBinary::six_cities(children, &device).unwrap();
    let options = promise(noise);
    let model = MixedLogistic::new(4);
    PrivateRoundsSilo::new("north", &model, &data, &device, &settings(), &options, Box::new(mechanism)).unwrap()
}

fn coordinator(rows: usize, noise: f64) -> PrivateRounds {
    let (options, names) = (promise(noise), ["north".to_owned()]);
    PrivateRounds::new(&MixedLogistic::new(4), &Device::flex(), &settings(), &names, &[rows], &options).unwrap()
}

#[test]
fn with_hardly_any_noise_the_answer_is_that_of_few_rounds() {
    let (children, noise) = (six_cities(), 1e-4);
    let mut coordinator = coordinator(children.len(), noise);
    let silo: Box<dyn SiloProgram> = Box::new(silo(&children, noise, Recorded::default()));
    let mut exchange = InProcess::new(vec![silo], 1).unwrap();
    let options = RunOptions { steps: 100, ..RunOptions::default() };
    let record = run(&mut coordinator, &mut exchange, &options, &mut Silent).unwrap();
    assert_eq!(record.counters.rounds, 20);
    let (means, sds) = fixtures::moments(partita::inference::Algorithm::posterior(&coordinator));
    for (index, [mean, sd]) in EXPECTED.into_iter().enumerate() {
        // A clip at three root mean squares leaves a few of the longest rows shorter.
        assert!((means[index] - mean).abs() < 0.06 * sd, "mean {index}: {}", means[index]);
        assert!((sds[index] / sd - 1.0).abs() < 0.03, "sd {index}: {}", sds[index]);
    }
}

/// What every row contributes to the first round.
fn contributions(children: &[Child]) -> Vec<Vec<f64>> {
    let recorded = Recorded::default();
    let mut silo = silo(children, 1.0, recorded.clone());
    let request = partita::inference::Algorithm::outgoing(&mut coordinator(537, 1.0)).unwrap().remove(0);
    silo.answer(&request.message).unwrap();
    recorded.0.lock().unwrap().remove(0)
}

#[test]
fn what_a_row_contributes_depends_on_no_other_row() {
    let children = six_cities();
    let before = contributions(&children);
    let mut changed = children.clone();
    // A row whose rule has a longer way to go than most.
    changed[100].wheeze = [true; 4];
    changed[100].smoke = !changed[100].smoke;
    let after = contributions(&changed);
    assert_ne!(before[100], after[100]);
    let fewer = contributions(&children[..300]);
    for row in (0..children.len()).filter(|row| *row != 100) {
        assert_eq!(before[row], after[row], "row {row} moved with another");
        if row < 300 {
            assert_eq!(before[row], fewer[row], "row {row} moved with others that left");
        }
    }
}

/// A request whose belief has this mean of one of its globals.
fn at_mean(request: &Message, place: usize, mean: f64) -> Message {
    let mut other = request.clone();
    for record in other.records.iter_mut().filter(|record| record.name == "global") {
        let mut bytes = record.bytes.to_vec();
        bytes[8 * place..8 * place + 8].copy_from_slice(&mean.to_le_bytes());
        record.bytes = bytes.into();
    }
    assert_ne!(&other, request);
    other
}

#[test]
fn a_row_at_which_the_model_is_not_defined_is_no_part_of_the_sum_and_does_not_decide_whether_there_is_one() {
    // The product of smoke and age is -2 for children of smokers at their first visit, whose logit is then infinite.
    let children = &six_cities()[330..370];
    let ask = |children: &[Child]| {
        let recorded = Recorded::default();
        let request = partita::inference::Algorithm::outgoing(&mut coordinator(537, 1.0)).unwrap().remove(0).message;
        silo(children, 1.0, recorded.clone()).answer(&at_mean(&request, 3, 1.2e308)).unwrap();
        recorded.0.lock().unwrap().remove(0)
    };
    let (rows, smokers) = (ask(children), children.iter().filter(|child| child.smoke).count());
    assert!(smokers > 2 && smokers < children.len() - 2, "{smokers}");
    let others: Vec<Child> = children.iter().filter(|child| !child.smoke).cloned().collect();
    let mut alone = ask(&others).into_iter();
    for (row, child) in rows.iter().zip(children) {
        match child.smoke {
            true => assert!(row.iter().any(|value| value.is_nan()), "{row:?}"),
            false => assert_eq!(row, &alone.next().unwrap()),
        }
    }

    // Rows without latents.
    let (device, recorded) = (Device::flex(), Recorded::default());
    let inputs = [0.5, 0.0, -0.2, -2.0, 0.1, 0.0, 0.7, -2.0, 0.3, 0.0];
    let data = BinaryRows::new(&inputs, 2, &[true, false, true, true, false], &device).unwrap();
    let (model, mechanism) = (LogisticRegression::new(2), Box::new(recorded.clone()));
    let (options, names) = (promise(1.0), ["north".to_owned()]);
    let mut own = PrivateRoundsSilo::new("north", &model, &data, &device, &settings(), &options, mechanism).unwrap();
    let mut method = PrivateRounds::new(&model, &device, &settings(), &names, &[5], &options).unwrap();
    let request = partita::inference::Algorithm::outgoing(&mut method).unwrap().remove(0).message;
    own.answer(&at_mean(&request, own.table().global_len() - 1, 1.2e308)).unwrap();
    let rows = recorded.0.lock().unwrap().remove(0);
    let finite: Vec<bool> = rows.iter().map(|row| row.iter().all(|value| value.is_finite())).collect();
    assert_eq!(finite, [true, false, true, false, true]);
}

#[test]
fn a_study_has_as_many_sums_as_it_promised_whatever_the_coordinator_calls_their_rounds() {
    let folder = tempfile::tempdir().unwrap();
    let budget = Budget { epsilon: 1e3, delta: 1e-5, unit: "row".into() };
    let ledger = Ledger::open(&folder.path().join("ledger"), budget).unwrap();
    let (device, options) = (Device::flex(), PrivateRoundsOptions { rounds: 3, ..promise(9.0) });
    let data = RepeatedBinary::six_cities(&six_cities()[..20], &device).unwrap();
    let (model, names) = (MixedLogistic::new(4), ["north".to_owned()]);
    let silo = || {
        let mechanism = Box::new(NoisedSums::new(Some(ledger.clone()), Box::new(SeededBits::new(1))));
        PrivateRoundsSilo::new("north", &model, &data, &device, &settings(), &options, mechanism).unwrap()
    };
    let mut method = PrivateRounds::new(&model, &device, &settings(), &names, &[20], &options).unwrap();
    let request = partita::inference::Algorithm::outgoing(&mut method).unwrap().remove(0).message;
    // The first round again and again, with another belief, of a silo that is started anew each time.
    let ask = |mean: f64| silo().answer(&at_mean(&request, 0, mean));
    for mean in [0.1, 0.2, 0.3] {
        ask(mean).unwrap();
    }
    let refused = ask(0.4).unwrap_err();
    assert_eq!(refused.refusal(), Some(Refusal::Sums));
    assert!(refused.to_string().contains("3 are given, and 3 are promised in all"), "{refused}");
    ask(0.2).unwrap();
    assert_eq!(ledger.spent().unwrap().releases, 3);
}

#[test]
fn a_private_silo_refuses_what_is_no_noised_sum() {
    let request = partita::inference::Algorithm::outgoing(&mut coordinator(537, 2.0)).unwrap().remove(0).message;
    let refusal = |change: &dyn Fn(&mut Message)| {
        let mut other = request.clone();
        change(&mut other);
        super::private::silo(&six_cities(), 2.0, Recorded::default()).answer(&other).unwrap_err().to_string()
    };
    let set = |name: &'static str, value: f64| {
        move |message: &mut Message| {
            message.numbers.iter_mut().filter(|(own, _)| own == name).for_each(|(_, slot)| *slot = value);
        }
    };
    assert!(refusal(&set("noise", 1.0)).contains("noise of 1"), "{}", refusal(&set("noise", 1.0)));
    assert!(refusal(&set("noise", f64::NAN)).contains("noise of NaN"));
    assert!(refusal(&set("clip", 0.0)).contains("its clip is 0"));
    // After as many rounds as were promised.
    let mut silo = silo(&six_cities(), 2.0, Recorded::default());
    let mut more = request.clone();
    for record in more.records.iter_mut().filter(|record| record.name == "step") {
        record.bytes = 20_u64.to_le_bytes().to_vec().into();
    }
    assert!(silo.answer(&more).unwrap_err().to_string().contains("a run of 20"));
    for kind in ["few.start", "few.round", "trust.values", "leave_one_out.rows", "predictive.checks"] {
        let found = refusal(&|message: &mut Message| message.kind = kind.into());
        assert!(found.contains("noised sums alone"), "{kind}: {found}");
    }
}

#[test]
fn a_delta_that_promises_nothing_and_rounds_without_end_are_refused() {
    let device = Device::flex();
    let silos = [("north".to_owned(), device.tensor(vec![0.5; 300], [300]))];
    let refusal = |privacy: &PrivateOptions| {
        let mut bits = |_: usize| Box::new(SeededBits::new(1)) as Box<_>;
        simulate(&GaussianMean {}, &silos, &device, &FitOptions::default(), privacy, &mut bits).unwrap_err().to_string()
    };
    let pvi = PrivateMethod::Pvi { options: PviOptions::new(2), rate: 0.5, clip: 1.0 };
    for method in [PrivateMethod::FewRounds, PrivateMethod::Sfvi { rate: 0.5 }, pvi] {
        let found = refusal(&PrivateOptions { method, rounds: 4, ..PrivateOptions::new(1.0, 1.0 / 300.0) });
        assert!(found.contains("delta") && found.contains("a silo of 300 rows"), "{found}");
    }
    let found = refusal(&PrivateOptions { rounds: 1_001, ..PrivateOptions::new(1.0, 1e-5) });
    assert!(found.contains("rounds") && found.contains("at most 1000"), "{found}");
    assert!(PrivateOptions { rounds: 1_000, ..PrivateOptions::new(1.0, 1e-5) }.rounds().is_ok());
}

#[test]
fn a_private_party_holds_back_what_another_method_answers() {
    let (device, options) = (Device::flex(), partita::inference::FewRoundsOptions::default());
    let data = RepeatedBinary::six_cities(&six_cities(), &device).unwrap();
    let model = MixedLogistic::new(4);
    let names = ["north".to_owned()];
    let open = partita::inference::FewRoundsSilo::new("north", &model, &data, &device, &settings(), &options).unwrap();
    let mut few = partita::inference::FewRounds::new(&model, &device, &settings(), &names, &options).unwrap();
    let manifest: Manifest = partita::inference::Algorithm::manifest(&few).clone();
    assert!(manifest.fields.iter().any(|field| field.release == Release::Forbidden));
    let mut exchange = InProcess::new(vec![Box::new(PrivateParty::new(Box::new(open), manifest.clone()))], 1).unwrap();
    let requests: Vec<Request> = partita::inference::Algorithm::outgoing(&mut few).unwrap();
    let outcome = exchange.exchange(requests, &manifest, None).unwrap().remove(0);
    let Outcome::Failed(error) = outcome else { panic!("it answered") };
    assert!(error.to_string().contains("without noise, and this silo is private"), "{error}");
}

/// A fit of three hundred children in two silos under a promise, with seeded bits.
fn fitted(epsilon: f64, seed: u64, ledgers: Option<(std::path::PathBuf, f64)>) -> Result<partita::inference::Fitted> {
    let device = Device::flex();
    let rows = |mean: f64| (0..300).map(|k| mean + f64::from(k % 21 - 10) / 6.06).collect::<Vec<f64>>();
    let silos = [0.8, 1.2].map(|mean| (format!("at-{mean}"), device.tensor(rows(mean), [300])));
    let options = FitOptions { settings: Settings { seed, ..Settings::default() }, ..FitOptions::default() };
    // Another seed is another study.
    let privacy = PrivateOptions { ledgers, study: seed.to_string(), ..PrivateOptions::new(epsilon, 1e-5) };
    let mut bits = |silo: usize| Box::new(SeededBits::new(seed * 100 + silo as u64)) as Box<_>;
    simulate(&GaussianMean {}, &silos, &device, &options, &privacy, &mut bits)
}

#[test]
fn posteriors_are_widened_by_the_noise_that_moves_them() {
    let (mut squares, mut of_widths) = (0.0, 0.0);
    let seeds = 1..=20;
    for seed in seeds.clone() {
        let fit = fitted(1.0, seed, None).unwrap();
        let (site, privacy) = (&fit.report.sites[0], fit.report.privacy.as_ref().unwrap());
        // The posterior without noise has a deviation of 1/√600.
        let plain = 1.0 / 600_f64.sqrt();
        // Noise on the precision of a round is 0.63 of it (19.9 clips of 3 root mean squares, a factor of 1.12 for the count of
        // clipped rows, two silos, over a quarter of √600). The recursion of `Belief::hear` for one number with such noise, written
        // again in Python and run 400,000 times, leaves a deviation of 0.082 on the width after 24 rounds; 0.36 is exceeded in 9 of
        // 100,000 runs, by one of twenty with probability 0.002. It would be 0.006 for 0.32.
        let width = site.sd / plain / privacy.widened[0] - 1.0;
        assert!(privacy.widened[0] > 1.2 && width.abs() < 0.36, "{}", site.sd);
        of_widths += width.powi(2) / 20.0;
        assert!(fit.report.warnings.iter().any(|warning| warning.problem.contains("noise for differential privacy")));
        let unchecked = fit.report.warnings.iter().find(|warning| warning.problem.contains("round of trust")).unwrap();
        assert!(unchecked.problem.contains("a private fit holds no round of trust"), "{unchecked}");
        // No private fit takes these.
        assert!(!["nuts", "held_out", "checks"].iter().any(|word| unchecked.remedy.contains(word)), "{unchecked}");
        squares += ((site.mean - 1.0) / site.sd).powi(2);
    }
    // The mean square of twenty standard normal numbers is above 2.6 with probability below 1e-4, and ours have less.
    assert!(of_widths < 2.6 * 0.082_f64.powi(2), "{}", of_widths.sqrt());
    assert!(squares / 20.0 < 2.6 && squares / 20.0 > 0.05, "{}", squares / 20.0);
}

#[test]
fn a_run_beyond_the_budget_of_a_silo_is_refused_before_it_starts_and_a_repeated_one_costs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let ledgers = |epsilon: f64| Some((folder.path().to_owned(), epsilon));
    let first = fitted(1.0, 1, ledgers(1.2)).unwrap();
    // The same run asks the same again: it is answered from the ledger, though what is left is not enough for another.
    let refused = fitted(1.0, 2, ledgers(1.2)).unwrap_err();
    assert!(matches!(&refused, Error::InSilo { .. }) && refused.to_string().contains("is left"), "{refused}");
    let ledger = std::fs::read_to_string(folder.path().join("at-0.8.ledger")).unwrap();
    assert_eq!(ledger.lines().filter(|line| line.contains("\"spent\"")).count(), 24);
    let again = fitted(1.0, 1, ledgers(2.0)).unwrap();
    assert_eq!(first.report.sites[0].mean.to_bits(), again.report.sites[0].mean.to_bits());
    assert_eq!(std::fs::read_to_string(folder.path().join("at-0.8.ledger")).unwrap(), ledger);
}

#[test]
fn silos_that_divide_the_noise_widen_the_posterior_less_and_say_against_whom_they_promise() {
    let (device, folder) = (Device::flex(), tempfile::tempdir().unwrap());
    let rows = |mean: f64| (0..120).map(|k| mean + f64::from(k % 21 - 10) / 6.06).collect::<Vec<f64>>();
    let silos = [0.8, 0.9, 1.0, 1.1, 1.2].map(|mean| (format!("at-{mean}"), device.tensor(rows(mean), [120])));
    let with = |privacy: PrivateOptions| {
        let mut bits = |silo: usize| Box::new(SeededBits::new(31 + silo as u64)) as Box<_>;
        simulate(&GaussianMean {}, &silos, &device, &FitOptions::default(), &privacy, &mut bits).map(|own| own.report)
    };
    let promise = |colluders| PrivateOptions { colluders, ..PrivateOptions::new(1.0, 1e-5) };
    let whole = with(promise(None)).unwrap();
    let ledgers = Some((folder.path().to_owned(), 1.1));
    let shared = with(PrivateOptions { ledgers, ..promise(Some(1)) }).unwrap();
    let [plain, own] = [&whole, &shared].map(|report| report.privacy.as_ref().unwrap());
    assert_eq!((own.colluders, plain.colluders), (Some(1), None));
    // The promise needs the same noise; of five times it one and a quarter is left.
    assert!((own.noise - plain.noise).abs() < 1e-12 && own.widened[0] > 1.0);
    let noise = |widened: f64| widened.powi(2) - 1.0;
    assert!(2.0 * noise(own.widened[0]) < noise(plain.widened[0]), "{:?} {:?}", own.widened, plain.widened);
    let said = shared.to_string();
    assert!(said.contains("for one row, against the coordinator and any one silo together: 24 sums"), "{said}");
    assert!(said.contains("the promise for one row rests on masks"), "{said}");
    assert!(!whole.to_string().contains("rests on masks") && !whole.to_string().contains("against the coordinator"));
    // A silo is charged as for all of the noise, and its ledger has for whom that is true.
    let budget = Budget { epsilon: 1.1, delta: 1e-5, unit: "row".into() };
    let spent = Ledger::open(&folder.path().join("at-1.ledger"), budget).unwrap().spent().unwrap();
    assert_eq!((spent.releases, spent.colluders), (24, Some(1)));
    assert!(spent.epsilon <= 1.0 && spent.epsilon > 0.999, "{}", spent.epsilon);
    // Where all others may collude every silo has all of the noise.
    let all = with(promise(Some(4))).unwrap();
    assert_eq!(all.sites[0].mean.to_bits(), whole.sites[0].mean.to_bits());
    assert_eq!(all.privacy.unwrap().colluders, None);
    // Over samples of the rows too.
    let method = PrivateMethod::Sfvi { rate: 0.5 };
    let sfvi = with(PrivateOptions { method, rounds: 1, ..promise(Some(0)) }).unwrap();
    assert!(sfvi.to_string().contains("against the coordinator alone") && sfvi.privacy.unwrap().colluders == Some(0));
    let refused = with(promise(Some(5))).unwrap_err().to_string();
    assert!(refused.contains("colluders") && refused.contains("5 of 5 silos"), "{refused}");
    let method = PrivateMethod::Pvi { options: PviOptions::new(2), rate: 0.5, clip: 1.0 };
    let refused = with(PrivateOptions { method, ..promise(Some(1)) }).unwrap_err().to_string();
    assert!(refused.contains("colluders") && refused.contains("a method of local steps"), "{refused}");
}

#[test]
fn a_ledger_answers_no_request_about_other_rows_or_another_study() {
    let folder = tempfile::tempdir().unwrap();
    let (device, options) = (Device::flex(), FitOptions::default());
    let text = || std::fs::read_to_string(folder.path().join("north.ledger")).unwrap();
    let spent = || text().lines().filter(|line| line.contains("\"spent\"")).count();
    // All that is asked for in the first round is the same in all of these.
    let mean = |study: &str, last: f64| {
        let mut rows: Vec<f64> = (0..300).map(|k| 1.0 + f64::from(k % 21 - 10) / 6.06).collect();
        rows[299] = last;
        let silos = [("north".to_owned(), device.tensor(rows, [300]))];
        let ledgers = Some((folder.path().to_owned(), 20.0));
        let privacy = PrivateOptions { ledgers, rounds: 3, study: study.into(), ..PrivateOptions::new(1.0, 1e-5) };
        let mut bits = |silo: usize| Box::new(SeededBits::new(9 + silo as u64)) as Box<_>;
        let fit = simulate(&GaussianMean {}, &silos, &device, &options, &privacy, &mut bits).unwrap();
        fit.report.sites[0].mean
    };
    let first = mean("a", 1.0);
    assert_eq!((mean("a", 1.0).to_bits(), spent()), (first.to_bits(), 3));
    // The same bits draw the same noise: what differs is one row.
    assert_ne!(mean("a", 1.000_001).to_bits(), first.to_bits());
    assert_eq!(spent(), 6);
    mean("b", 1.0);
    assert_eq!(spent(), 9);
}

#[test]
fn six_cities_at_epsilon_ten_is_near_the_answer_without_noise() {
    let device = Device::flex();
    let silos: Vec<_> = six_cities_silos()
        .iter()
        .enumerate()
        .map(|(index, children)| (format!("city-{index}"), RepeatedBinary::six_cities(children, &device).unwrap()))
        .collect();
    let options = FitOptions { threads: 2, ..FitOptions::default() };
    let mut bits = |silo: usize| Box::new(SeededBits::new(7 + silo as u64)) as Box<_>;
    let promise = PrivateOptions::new(10.0, 1e-5);
    let fit = simulate(&MixedLogistic::new(4), &silos, &device, &options, &promise, &mut bits).unwrap();
    let widened = &fit.report.privacy.as_ref().unwrap().widened;
    for (index, [mean, sd]) in EXPECTED.into_iter().enumerate() {
        let site = &fit.report.sites[index];
        assert!((1.01..1.5).contains(&widened[index]), "{widened:?}");
        // Four deviations of the noise.
        let noise = sd * (widened[index].powi(2) - 1.0).sqrt();
        let found = site.mean;
        assert!((found - mean).abs() < 4.0 * noise + 0.05 * sd, "{}: {found} of {mean}, noise {noise}", site.label);
    }
}
