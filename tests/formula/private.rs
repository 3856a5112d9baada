//! Claims that a private study refuses, with a sentence, what it cannot promise, and that owners' budgets are heard first.
#![allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]

use std::path::Path;

use fixtures::refused;
use fixtures::visits::{FORMULA, visits};
use partita::executables::StudyFile;
use partita::models::six_cities;
use serde_json::Value;

const COLUMNS: &str = "[privacy.columns]\nwheeze = [0, 1]\nsmoke = [0, 1]\nage = [-2, 1]\n";

fn study(top: &str, epsilon: f64) -> String {
    format!(
        "formula = \"{FORMULA}\"\nfamily = \"bernoulli\"\nsilos = [\"north\"]\n{top}\n[privacy]\nunit = \"row\"\nepsilon = \
         {epsilon:?}\ndelta = 1e-5\n{COLUMNS}"
    )
}

#[test]
fn a_private_study_asks_for_nothing_that_has_no_noise() {
    for (top, words) in [
        ("checks = [\"zeros of y\"]", "the 1 `checks`"),
        ("leave_one_out_draws = 1000", "`leave_one_out_draws`"),
        ("missing = \"drop\"", "missing = \"drop\""),
        ("contrasts = [\"smoke: 1 - 0 averaged\"]", "`smoke: 1 - 0 averaged`"),
        ("[run]\nsteps = 100", "`steps` in the table `run`"),
        ("[run]\n[run.pvi]\nprivate = {}", "`private` in the table `pvi`"),
        ("[run]\nheld_out_draws = 100", "`held_out_draws` in the table `run`"),
    ] {
        let found = StudyFile::parse(&study(top, 3.0)).unwrap_err().to_string();
        assert!(found.contains(words) && found.contains("without noise"), "{words}: {found}");
    }
    let found = StudyFile::parse(&study("", 3.0).replace("age = [-2, 1]\n", "")).unwrap_err().to_string();
    assert!(found.contains("the column `age`, of which the study declares nothing"), "{found}");
    let found = StudyFile::parse(&study("", -1.0)).unwrap_err().to_string();
    assert!(found.contains("epsilon is -1 for 24 releases"), "{found}");
    let found = StudyFile::parse(&study("", 3.0).replace("\"row\"", "\"person\"")).unwrap_err().to_string();
    assert!(found.contains("`person`"), "{found}");
    let own = StudyFile::parse(&study("contrasts = [\"smoke: 1 - 0 at age = 0\"]", 3.0)).unwrap();
    assert_eq!(own.asks().unwrap(), ["formula", "private"]);
    for (run, more, words) in [
        ("algorithm = \"pvi\"", "", "no `clip`, with a method of local steps"),
        ("algorithm = \"few-rounds\"", "rate = 0.5", "`rate` with few rounds"),
        ("algorithm = \"sfvi\"", "rate = 1.5", "above 0 and at most 1"),
        ("algorithm = \"pvi\"\nschedule = { subset = 1 }", "clip = 1.0", "Sequential or Synchronous"),
        (
            "algorithm = \"pvi\"\n[run.pvi]\nsolver = { PowerExpectation = { alpha = 0.5 } }",
            "clip = 1.0",
            "without early stopping",
        ),
        ("algorithm = \"vertical\"", "", "vertical"),
        ("algorithm = \"fed-opt\"", "clip = 1.0", "effects of `child`, which each silo has for itself"),
        ("algorithm = \"pvi\"", "clip = 1.0\nsecure_sums = true", "`secure_sums` with a method of local steps"),
        ("algorithm = \"few-rounds\"", "colluders = 0", "`colluders = 0` without `secure_sums = true`"),
        ("algorithm = \"sfvi\"", "secure_sums = true\ncolluders = 1", "1 of 1 silos"),
    ] {
        let text =
            study(&format!("[run]\n{run}"), 3.0).replace("[privacy.columns]", &format!("{more}\n[privacy.columns]"));
        let found = StudyFile::parse(&text).unwrap_err().to_string();
        assert!(found.contains(words), "{words}: {found}");
    }
    let whole = |run: &str| {
        let text = study(&format!("[run]\n{run}"), 3.0).replace("\"row\"", "\"silo\"");
        StudyFile::parse(&text.replace("[privacy.columns]", "clip = 1.0\n[privacy.columns]"))
    };
    assert!(whole("algorithm = \"pvi\"").unwrap_err().to_string().contains("whose noise is for rows"));
    assert_eq!(whole("algorithm = \"sfvi-avg\"\nlocal_steps = 5").unwrap().most_rounds().unwrap(), 120);
    // Without a promise silos say sums of their columns one by one.
    let open = study("[run]\nalgorithm = \"sfvi\"\nsecure_sums = true", 3.0);
    let open = format!(
        "{}[run]{}",
        open.split("[privacy]").next().unwrap().split("[run]").next().unwrap(),
        "\nalgorithm = \"sfvi\"\nsecure_sums = true"
    );
    assert!(StudyFile::parse(&open).unwrap_err().to_string().contains("one by one"));
    // What a method of local steps asks of a silo: its rounds, and no bound.
    let text = study("[run]\nalgorithm = \"sfvi-avg\"\nlocal_steps = 5", 3.0)
        .replace("[privacy.columns]", "clip = 1.0\n[privacy.columns]");
    let own = StudyFile::parse(&text).unwrap();
    assert_eq!((own.asks().unwrap(), own.most_rounds().unwrap()), (vec!["formula", "avg"], 120));
}

#[test]
fn questions_that_need_rows_without_noise_are_refused_by_their_names_in_one_process() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    std::fs::write(folder.join("north.csv"), visits(&six_cities()[..40])).unwrap();
    std::fs::write(folder.join("study.toml"), study("", 3.0)).unwrap();
    let fit = ["fit", "--study", "study.toml", "--silo", "north=north.csv", "--output", "out"];
    for (more, words) in [
        (&["--fitted"][..], "--fitted in a private study"),
        (&["--check-rows", "zeros of y"], "--check-rows in a private study"),
        (&["--contrast", "smoke: 1 - 0 averaged"], "an averaged --contrast in a private study"),
        (&["--predict", "north=north.csv"], "effects of known groups follow from their rows without noise"),
        (&["--prior-predictive", "20"], "--prior-predictive in a private study"),
    ] {
        let said = refused(folder, &[&fit[..], more].concat());
        assert!(said.contains(words), "{words}: {said}");
    }
    // What else one does with a study before its fit is about the same model.
    let priors = |task: &str| {
        let arguments = [task, "--study", "study.toml", "--silo", "north=north.csv"];
        let done = fixtures::command(folder, &arguments);
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        said.lines().filter(|line| line.starts_with("prior: ")).map(str::to_owned).collect::<Vec<_>>()
    };
    let (checked, fitted) = (priors("check"), priors("fit"));
    assert!(checked.len() == 5 && checked == fitted, "{checked:?} {fitted:?}");
    assert!(checked[1].starts_with("prior: smoke ~ normal(0, 4.99"), "{checked:?}");
    let calibrate = ["calibrate", "--study", "study.toml", "--silo", "north=north.csv"];
    assert!(refused(folder, &calibrate).contains("calibration of a private study"));
    // Beyond its sums a study is refused, and nothing is charged for it.
    let ledgers = ["--ledgers", "ledgers"];
    fixtures::said(folder, &[&fit[..], &ledgers].concat());
    let before = std::fs::read_to_string(folder.join("ledgers/north.ledger")).unwrap();
    let said = refused(folder, &[&fit[..], &ledgers, &["--seed", "2"]].concat());
    assert!(said.contains("the sums of the study"), "{said}");
    assert_eq!(before, std::fs::read_to_string(folder.join("ledgers/north.ledger")).unwrap());
    std::fs::write(folder.join("study.toml"), study("", 3.0).split("[privacy]").next().unwrap()).unwrap();
    assert!(refused(folder, &[&fit[..], &ledgers].concat()).contains("without `[privacy]`: nothing is spent"));
}

/// A normal quantile, near enough: what is left of twelve evenly spread numbers.
fn normal(k: u32) -> f64 {
    (1..=12_u32).map(|root| ((f64::from(k) + 0.5) * f64::from(root * root + 1).sqrt()).fract()).sum::<f64>() - 6.0
}

/// Writes `north.csv` in a folder: the names of its columns, and so many rows.
fn write_rows(folder: &Path, names: &str, count: u32, row: impl Fn(u32) -> String) {
    let text = (0..count).map(row).fold(format!("{names}\n"), |text, row| text + &row + "\n");
    std::fs::write(folder.join("north.csv"), text).unwrap();
}

/// What a fit of a study of `north.csv` says, and its result.
fn fitted(folder: &Path, study: &str) -> (String, Value) {
    std::fs::write(folder.join("study.toml"), study).unwrap();
    let arguments = ["fit", "--study", "study.toml", "--silo", "north=north.csv", "--output", "out"];
    (fixtures::said(folder, &arguments), result(folder))
}

/// The result of the latest fit.
fn result(folder: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(folder.join("out/result.json")).unwrap()).unwrap()
}

#[test]
fn answers_in_the_units_of_the_columns_are_near_those_without_noise() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    let cases = [
        // The textbook's regression.
        (
            "gaussian",
            "y = [-5.0, 6.0]\nx = [-1.0, 1.0]",
            (|k: u32| {
                let x = f64::from(k * 7 % 401) / 200.0 - 1.0;
                format!("{:.3},{x}", 0.3 + 0.5 * x + normal(k))
            }) as fn(u32) -> String,
        ),
        // A blood pressure by years.
        ("gaussian", "y = [60.0, 220.0]\nx = [18, 90]", |k| {
            let age = 18 + k * 29 % 73;
            format!("{:.1},{age}", 90.0 + 0.6 * f64::from(age) + 12.0 * normal(k))
        }),
        ("poisson", "y = [0, 20]\nx = [18, 90]", |k| {
            let age = 18 + k * 29 % 73;
            let expected = (0.2 + 0.02 * f64::from(age)).exp();
            format!("{},{age}", (expected + expected.sqrt() * normal(k)).round().max(0.0))
        }),
    ];
    for (family, columns, row) in cases {
        write_rows(folder, "y,x", 3_000, row);
        let found = |privacy: &str| {
            let study = format!("formula = \"y ~ x\"\nfamily = \"{family}\"\nsilos = [\"north\"]\n{privacy}");
            fitted(folder, &study).1
        };
        let plain = found("");
        for epsilon in ["3.0", "10.0"] {
            let promise =
                format!("[privacy]\nunit = \"row\"\nepsilon = {epsilon}\ndelta = 1e-5\n[privacy.columns]\n{columns}\n");
            let private = found(&promise);
            for (own, expected) in private["sites"].as_array().unwrap().iter().zip(plain["sites"].as_array().unwrap()) {
                let number = |site: &Value, name: &str| site[name].as_f64().unwrap_or(f64::NAN);
                let apart = (number(own, "mean") - number(expected, "mean")) / number(own, "sd");
                let wider = number(own, "sd") / number(expected, "sd");
                assert!(apart.abs() < 5.0 && (0.7..2.5).contains(&wider), "{columns}, {epsilon}: {own} of {expected}");
            }
        }
    }
}

#[test]
fn a_clip_that_is_too_short_for_rare_outcomes_is_not_trusted_and_one_that_noise_allows_is_right() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    // One outcome of forty is an event.
    let row = |k: u32| {
        let a = f64::from(k * 7 % 401) / 200.0 - 1.0;
        let chance = 1.0 / (1.0 + (3.8 - 0.9 * a).exp());
        format!("{},{a}", u8::from(((f64::from(k) + 0.5) * 2.0_f64.sqrt()).fract() < chance))
    };
    write_rows(folder, "y,a", 6_000, row);
    let found = |privacy: &str| {
        let study = format!("formula = \"y ~ a\"\nfamily = \"bernoulli\"\nsilos = [\"north\"]\n{privacy}");
        let (said, result) = fitted(folder, &study);
        let [mean, sd] = ["mean", "sd"].map(|name| result["sites"][0][name].as_f64().unwrap());
        (mean, sd, said)
    };
    let private = |clip: &str| {
        found(&format!(
            "[privacy]\nunit = \"row\"\nepsilon = 8.0\ndelta = 1e-5\n{clip}\n[privacy.columns]\ny = [0, 1]\na = [-1.0, 1.0]\n"
        ))
    };
    let (expected, _, _) = found("");
    let (mean, sd, said) = private("clip = 3.0");
    assert!((mean - expected).abs() > 3.0 * sd, "{mean} {sd}: {expected}");
    assert!(said.contains("verdict: do not trust") && said.contains("the clip is too short"), "{said}");
    let (mean, sd, said) = private("");
    assert!((mean - expected).abs() < 4.0 * sd, "{mean} {sd}: {expected}");
    assert!(said.contains("verdict: trust these numbers") && !said.contains("the clip is too short"), "{said}");
    let (mean, sd, said) = private("clip = 15.0");
    assert!((mean - expected).abs() < 4.0 * sd && !said.contains("the clip is too short"), "{mean} {sd}: {said}");
}

#[test]
fn counts_with_longer_tails_than_a_poisson_distribution_are_not_trusted_and_others_are() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    // Counts around the same numbers, with factors of a lognormal distribution of this deviation.
    let said = |family: &str, deviation: f64| {
        let row = |k: u32| {
            let x = f64::from(k * 7 % 401) / 200.0 - 1.0;
            let expected = (0.8 + 0.5 * x + deviation * normal(k + 5_000) - 0.5 * deviation * deviation).exp();
            format!("{},{x}", (expected + expected.sqrt() * normal(k)).round().max(0.0))
        };
        write_rows(folder, "y,x", 3_000, row);
        let study = format!(
            "formula = \"y ~ x\"\nfamily = \"{family}\"\nsilos = [\"north\"]\n[privacy]\nunit = \"row\"\nepsilon = 3.0\ndelta = \
             1e-5\n[privacy.columns]\ny = [0, 60]\nx = [-1, 1]\n"
        );
        let (said, result) = fitted(folder, &study);
        assert!(result["privacy"]["clipped"]["deviation"].as_f64().is_some_and(|own| (0.001..0.01).contains(&own)));
        said
    };
    let words = "longer tails than the family";
    let found = said("poisson", 1.5);
    assert!(found.contains("verdict: do not trust") && found.contains(words), "{found}");
    // The noise of a study is its own, and says so by chance in one of a thousand.
    for (family, deviation) in [("poisson", 0.0), ("negbinomial", 1.5)] {
        let found = said(family, deviation);
        assert!(!found.contains(&format!("outcomes have {words}")), "{family}: {found}");
    }
}

#[test]
fn one_ledger_charges_another_formula_and_a_changed_file_and_gives_neither_the_numbers_of_the_first() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    let write = |flipped: bool| {
        let row = |k: u32| {
            let (a, b) = (f64::from(k * 7 % 41) / 20.0 - 1.0, f64::from(k * 11 % 37) / 18.0 - 1.0);
            let y = (f64::from(k * 29 % 97) / 97.0 < 1.0 / (1.0 + (-1.5 * a + 1.2 * b).exp())) != flipped;
            format!("{},{a},{b}", u8::from(y))
        };
        write_rows(folder, "y,a,b", 800, row);
    };
    write(false);
    let fit = |column: &str, more: &str| {
        let study = format!(
            "formula = \"y ~ {column}\"\nfamily = \"bernoulli\"\nsilos = [\"north\"]\n{more}[privacy]\nunit = \"row\"\nepsilon = \
             4.0\ndelta = 1e-5\nrounds = 6\n[privacy.columns]\ny = [0, 1]\n{column} = [-1.0, 1.0]\n"
        );
        std::fs::write(folder.join("study.toml"), study).unwrap();
        let arguments =
            ["fit", "--study", "study.toml", "--silo", "north=north.csv", "--output", "out", "--ledgers", "own"];
        let done = fixtures::command(folder, &arguments);
        let spent = std::fs::read_to_string(folder.join("own/north.ledger")).unwrap().matches("\"spent\"").count();
        (done.status.success(), String::from_utf8_lossy(&done.stderr).into_owned(), spent)
    };
    let sites = || result(folder)["sites"].clone();
    let (done, said, spent) = fit("a", "");
    assert!(done && spent == 6, "{said}");
    let first = sites();
    // The same study again costs nothing, and no more with a question to its posterior.
    let (done, said, spent) = fit("a", "contrasts = [\"a: 1 - 0\"]\n");
    assert!(done && spent == 6 && sites() == first, "{said}");
    // The owner's budget is the epsilon of one study: another one, and one of other rows, are refused by it.
    let refusal = "the owner's privacy budget";
    let (done, said, spent) = fit("b", "");
    assert!(!done && spent == 6 && said.contains(refusal), "{said}");
    write(true);
    let (done, said, spent) = fit("a", "");
    assert!(!done && spent == 6 && said.contains(refusal), "{said}");
}

#[test]
fn every_method_that_a_study_names_keeps_its_promise_and_is_refused_beyond_its_sums() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    let row = |k: u32| {
        let a = f64::from(k * 7 % 41) / 20.0 - 1.0;
        format!("{},{a}", u8::from(f64::from(k * 29 % 97) / 97.0 < 1.0 / (1.0 + (-1.5 * a).exp())))
    };
    write_rows(folder, "y,a", 400, row);
    // Two globals have sixteen draws a round of SFVI; other rounds have three sums each.
    for (method, more, run, sums) in [
        ("sfvi", "rate = 0.5", "", 48),
        ("sfvi-avg", "rate = 0.5\nclip = 2.0", "local_steps = 3", 9),
        ("fed-opt", "clip = 2.0", "local_steps = 3", 9),
        ("pvi", "rate = 0.5\nclip = 2.0", "local_steps = 3\nschedule = \"synchronous\"", 9),
    ] {
        let study = format!(
            "formula = \"y ~ a\"\nfamily = \"bernoulli\"\nsilos = [\"north\"]\n[privacy]\nunit = \"row\"\nepsilon = 2.0\n\
             delta = 1e-5\nrounds = 3\n{more}\n[privacy.columns]\ny = [0, 1]\na = [-1.0, 1.0]\n[run]\nalgorithm = \"{method}\"\n{run}\n"
        );
        std::fs::write(folder.join("study.toml"), study).unwrap();
        let fit =
            ["fit", "--study", "study.toml", "--silo", "north=north.csv", "--output", method, "--ledgers", method];
        let said = fixtures::said(folder, &fit);
        assert!(said.contains(&format!("private for one row: {sums} sums")), "{method}: {said}");
        assert!(
            said.contains("accounted for as epsilon 2.0") | said.contains("accounted for as epsilon 1.99"),
            "{method}: {said}"
        );
        assert!(said.contains("verdict: "), "{method}: {said}");
        let read = |name: &str| std::fs::read_to_string(folder.join(method).join(name)).unwrap();
        let own: Value = serde_json::from_str(&read("privacy.json")).unwrap();
        assert_eq!(
            (own["epsilon"].as_f64(), own["releases_of_each_silo"].as_u64()),
            (Some(2.0), Some(sums)),
            "{method}"
        );
        let spent = read("north.ledger");
        assert_eq!(spent.matches("\"spent\"").count() as u64, sums, "{method}");
        // The study has had its sums: another seed asks other questions of it, and nothing is drawn for them.
        let said = refused(folder, &[&fit[..], &["--seed", "2"]].concat());
        assert!(said.contains("the sums of the study"), "{method}: {said}");
        assert_eq!(read("north.ledger"), spent, "{method}");
        // Canaries refute the promise's noise no more than it says, over samples too.
        if method == "sfvi" {
            let said = fixtures::said(folder, &["audit", "--study", "study.toml", "--runs", "2"]);
            assert!(said.contains("in 48 sums over rows"), "{said}");
        }
    }
    // A fit without a promise leaves none beside its result.
    let fit = ["fit", "y ~ a", "--family", "bernoulli", "--silo", "north=north.csv", "--output", "sfvi"];
    fixtures::said(folder, &fit);
    assert!(folder.join("sfvi/result.json").is_file() && !folder.join("sfvi/privacy.json").exists());
}

#[test]
fn a_silo_ends_at_its_start_where_study_and_owner_do_not_ask_for_the_same() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    std::fs::write(folder.join("north.csv"), visits(&six_cities()[..40])).unwrap();
    let said = |study: &str, own: &str| {
        std::fs::write(folder.join("study.toml"), study).unwrap();
        let file = format!(
            "name = \"north\"\ndata = \"north.csv\"\nstate = \"north-state\"\n{own}\n[engine]\naddress = \"127.0.0.1:1\"\n\
             patience_seconds = 0\n"
        );
        std::fs::write(folder.join("north.toml"), file).unwrap();
        refused(folder, &["silo", "--study", "study.toml", "--silo", "north.toml"])
    };
    let (private, open) = (study("", 3.0), study("", 3.0).split("[privacy]").next().unwrap().to_owned());
    let allowed = |epsilon: f64| format!("[privacy]\nepsilon = {epsilon:?}\ndelta = 1e-5");
    for (study, own, words) in [
        (&private, String::new(), "the silo's file has no `[privacy]`"),
        (&open, allowed(3.0), "study.toml has no `[privacy]`"),
        (&private, allowed(2.9), "a study of epsilon 3.0000 at delta 1e-5, expected at most 2.9"),
        (&private, format!("fitted = \"f.csv\"\n{}", allowed(3.0)), "`fitted` in a private study"),
        (&private, format!("held_out = \"north.csv\"\n{}", allowed(3.0)), "`held_out` in a private study"),
        (&private, format!("{}\n[secure]\nfewest = 2\n[secure.peers]", allowed(3.0)), "a run without masks"),
        (
            &private.replace("[privacy]\n", "[privacy]\nsecure_sums = true\n"),
            format!("{}\n[secure]\nfewest = 1\n[secure.peers]", allowed(3.0)),
            "`fewest` of this silo's file: found 1, expected at least 2",
        ),
        (
            &private
                .replace("smoke = [0, 1]", "smoke = [\"no\", \"yes\"]")
                .replace("[privacy]\n", "[declared.levels]\nsmoke = [\"no\", \"yes\"]\n[privacy]\n"),
            allowed(3.0),
            "holds numbers",
        ),
    ] {
        let found = said(study, &own);
        assert!(found.contains(words), "{words}: {found}");
    }
    assert!(!folder.join("north-state.ledger").exists());
    // What is allowed serves, as far as the engine that is not there.
    let found = said(&private, &allowed(3.0));
    assert!(
        found.contains("epsilon 0.0000 of the owner's 3.0 at delta 1e-5 is spent") || found.contains("owner's 3 at"),
        "{found}"
    );
    assert!(folder.join("north-state.ledger").exists());
    // Every line of its log has a time, and its own noise a seed that stays; the seed of the run is for those who ask for it.
    let clock = |line: &&str| line.len() > 21 && line.as_bytes()[10] == b'T' && line.as_bytes()[19] == b'Z';
    assert!(found.lines().filter(clock).count() >= 4, "{found}");
    let seed = || std::fs::read_to_string(folder.join("north-state/seed")).unwrap_or_default();
    let before = seed();
    said(&private, &allowed(3.0));
    assert!(before.trim().len() == 16 && seed() == before, "{before}");
    std::fs::remove_dir_all(folder.join("north-state")).unwrap();
    said(&private, &format!("noise = \"run\"\n{}", allowed(3.0)));
    assert!(seed().is_empty() && folder.join("north-state").exists());
}

#[test]
fn owners_limit_how_many_silos_may_collude_in_a_study_that_divides_the_noise() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    std::fs::write(folder.join("north.csv"), visits(&six_cities()[..40])).unwrap();
    for name in ["north", "south", "west"] {
        fixtures::said(folder, &["keys", "silo", name]);
    }
    let study = study("", 3.0).replace("[\"north\"]", "[\"north\", \"south\", \"west\"]");
    let study = study.replace("[privacy]\n", "[privacy]\nsecure_sums = true\ncolluders = 1\n");
    std::fs::write(folder.join("study.toml"), study).unwrap();
    let said = |limit: &str| {
        let file = format!(
            "name = \"north\"\ndata = \"north.csv\"\nstate = \"north-state\"\nsigns = \"north-signs.key\"\n[privacy]\nepsilon = \
             3.0\ndelta = 1e-5\n[secure]\nfewest = 3\n{limit}[secure.peers]\nsouth = \"south-signs.pub\"\nwest = \
             \"west-signs.pub\"\n[engine]\naddress = \"127.0.0.1:1\"\npatience_seconds = 0\n"
        );
        std::fs::write(folder.join("north.toml"), file).unwrap();
        refused(folder, &["silo", "--study", "study.toml", "--silo", "north.toml"])
    };
    // An owner who says nothing wants to be safe from all others together.
    for limit in ["", "colluders = 2\n", "colluders = 7\n"] {
        let found = said(limit);
        assert!(found.contains("found `colluders = 1` under `[privacy]`, expected at least 2"), "{limit}: {found}");
    }
    assert!(!folder.join("north-state.ledger").exists());
    let found = said("colluders = 1\n");
    for words in [
        "private for one child, against the coordinator and any one silo together: 24 sums",
        "of any 2 silos together, each of which draws a share of it",
        "masked with 2 silos, at least 3 in all. Its noise is one of 2 shares",
        "the promise holds against the coordinator and any one silo together, if the others follow the protocol",
    ] {
        assert!(found.contains(words), "{words}: {found}");
    }
}

#[test]
fn owners_read_of_a_new_ledger_of_the_unit_and_of_cells_outside_of_what_is_declared() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    std::fs::write(folder.join("north.csv"), visits(&six_cities()[..40])).unwrap();
    let file = format!(
        "name = \"north\"\ndata = {:?}\nstate = \"north-state\"\n[privacy]\nepsilon = 3.0\ndelta = 1e-5\n[engine]\naddress = \
         \"127.0.0.1:1\"\npatience_seconds = 0\n",
        folder.join("north.csv")
    );
    std::fs::write(folder.join("north.toml"), file).unwrap();
    let path = |name: &str| folder.join(name).display().to_string();
    let said = |from: &Path, study: &str| {
        std::fs::write(folder.join("study.toml"), study).unwrap();
        refused(from, &["silo", "--study", &path("study.toml"), "--silo", &path("north.toml")])
    };
    let first = said(folder, &study("", 3.0));
    assert!(first.contains("a new ledger begins") && first.contains("private for one child: 24 sums"), "{first}");
    assert!(!first.contains("outside"), "{first}");
    let ledger = folder.join("north-state.ledger");
    #[cfg(unix)]
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&ledger.metadata().unwrap().permissions()) & 0o777, 0o600);
    // From another folder it is the same ledger.
    let elsewhere = tempfile::tempdir().unwrap();
    let again = said(elsewhere.path(), &study("", 3.0).replace("age = [-2, 1]", "age = [-1, 1]"));
    assert!(again.contains("is spent") && !again.contains("a new ledger begins"), "{again}");
    assert!(again.contains("40 of 160 cells of `age` are outside of [-1, 1]"), "{again}");
    // A study of lines is of another unit than one of children.
    let lines = study("", 3.0).replace(" + (1 | child)", "");
    assert!(said(folder, &lines).contains("it protects one child, the budget is of one row"));
    std::fs::remove_dir_all(folder.join("north-state")).unwrap();
    std::fs::rename(&ledger, folder.join("old.ledger")).unwrap();
    let begun = said(folder, &lines);
    assert!(begun.contains("old.ledger already") && begun.contains("private for one row: 24 sums"), "{begun}");

    // An owner who describes the file reads what leaves it: nothing but a number.
    std::fs::write(folder.join("study.toml"), study("", 3.0)).unwrap();
    let told = fixtures::said(folder, &["describe", "north.csv", "--study", "study.toml"]);
    assert!(told.contains("the study is private") && !told.contains("leave the silo:"), "{told}");
}

#[test]
fn levels_of_text_stand_beside_the_ranges_of_numbers() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    let row = |k: u32| format!("{},{}", u8::from(k * 7 % 5 < 2), if k.is_multiple_of(3) { "yes" } else { "no" });
    write_rows(folder, "y,x", 300, row);
    let study = "formula = \"y ~ x\"\nfamily = \"bernoulli\"\nsilos = [\"north\"]\n[privacy]\nunit = \"row\"\nepsilon = 5.0\ndelta = \
                 1e-5\n[privacy.columns]\ny = [0, 1]\nx = [\"no\", \"yes\"]\n";
    std::fs::write(folder.join("study.toml"), study).unwrap();
    let said = fixtures::said(folder, &["fit", "--study", "study.toml", "--silo", "north=north.csv"]);
    assert!(said.contains("xyes"), "{said}");
}

#[test]
fn an_audit_refutes_what_has_no_noise_and_not_what_is_accounted_for() {
    let scratch = tempfile::tempdir().unwrap();
    let said = fixtures::said(scratch.path(), &["audit", "--epsilon", "2", "--rounds", "2"]);
    assert!(said.contains("without noise: 1000 of 1000 guesses right, epsilon is at least 5.81"), "{said}");
    assert_eq!(said.matches("accounted for is 2.0000").count(), 5, "{said}");
}

#[test]
fn an_audit_of_a_whole_method_reads_all_coins_without_noise_and_names_its_sums() {
    let scratch = tempfile::tempdir().unwrap();
    let arguments = ["audit", "--method", "few-rounds", "--epsilon", "3", "--runs", "1"];
    let said = fixtures::said(scratch.path(), &arguments);
    assert!(said.contains("600 canaries") && said.contains("with 8 sums of each silo"), "{said}");
    // All right with 95 %: p to the power of 600 is 0.05.
    assert!(said.contains("without noise: 600 of 600 guesses right, epsilon is at least 5.30"), "{said}");
    assert_eq!(said.matches("accounted for is 3.0000").count(), 1, "{said}");
    let said = refused(scratch.path(), &["audit", "--method", "few-rounds", "--rounds", "3"]);
    assert!(said.contains("'--method <METHOD>' cannot be used with '--rounds <ROUNDS>'"), "{said}");
}
