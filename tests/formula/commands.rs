//! Runs the commands beside `fit` as a user does: check, simulate, calibrate, report, and models that are compiled in.

use std::process::Command;

use fixtures::visits::{FORMULA, visits};
use fixtures::{refused, said};
use partita::models::six_cities;

/// Sixty children in two silos.
fn children() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (place, name) in ["north.csv", "south.csv"].iter().enumerate() {
        let own: Vec<_> = six_cities().into_iter().skip(place).step_by(17).take(30).collect();
        std::fs::write(folder.path().join(name), visits(&own)).unwrap();
    }
    folder
}

const SILOS: [&str; 6] = ["--family", "bernoulli", "--silo", "north.csv", "--silo", "south.csv"];

#[test]
fn check_says_what_is_made_of_the_files_and_that_silos_give_what_pooled_rows_give() {
    let folder = children();
    let text = said(folder.path(), &[&["check", FORMULA], SILOS.as_slice()].concat());
    for words in [
        "prior: smoke ~ normal(0, ",
        "north: 120 rows, columns (Intercept), smoke, age, smoke:age, 30 groups of `child`",
        "gradient by globals: prior and 2 silos = joint density",
        "log density: 2 silos = pooled rows",
        "checks passed: the model can be fitted",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    // Columns stand below one another, however long a name is.
    let column = |word: &str| -> Vec<usize> { text.lines().filter_map(|line| line.find(word)).collect() };
    for word in ["(bound", "global   latent"] {
        let places = column(word);
        assert!(places.len() > 3 && places.iter().all(|own| *own == places[0]), "{word}: {text}");
    }
    // Every kind of groups, and numbers beside the outcome.
    let line = |row: usize| {
        let (s, g, d) = (["p", "q", "r"][row % 3], row / 4, row % 2);
        format!("{},{},{s},h{},g{g},{},{},{d}\n", row % 4, row % 5, g / 2, 4 + d, 0.1 * (row % 3) as f64)
    };
    let rows = "y,x,s,h,g,n,o,d\n".to_owned() + &(0..48).map(line).collect::<String>();
    for name in ["a.csv", "b.csv"] {
        std::fs::write(folder.path().join(name), &rows).unwrap();
    }
    for (formula, family, more) in [
        ("y ~ x + s + offset(o) + (1 + x | h/g)", "poisson", &[] as &[&str]),
        ("y | trials(n) ~ x + (1 | h) + (1 | s)", "beta_binomial", &["--across-silos", "s"]),
        ("y | weights(n) ~ x + (1 | g)", "gaussian", &["--parameter", "sigma ~ x"]),
        ("s ~ x", "categorical", &[]),
        ("surv(n, d) ~ x + (1 | g)", "weibull", &[]),
    ] {
        let arguments = [&["check", formula, "--family", family, "--silo", "a.csv", "--silo", "b.csv"], more].concat();
        let text = said(folder.path(), &arguments);
        assert!(text.contains("2 silos = pooled rows"), "{text}");
    }
    // One silo has no effects of silos: there is nothing to compare with.
    let text = said(
        folder.path(),
        &["check", "y ~ x + (1 | silo)", "--family", "gaussian", "--silo", "a.csv", "--silo", "b.csv"],
    );
    assert!(!text.contains("pooled rows") && text.contains("checks passed"), "{text}");
    assert!(said(folder.path(), &["check", "--model", "six-cities", "--silo", "example:1"]).contains("checks passed"));
}

#[test]
fn a_simulated_data_set_has_its_truth_and_a_fit_finds_it() {
    let folder = children();
    let at = ["--at", "smoke = 0.75", "--at", "age=-0.25", "--at", "sd((Intercept) | child) = 2", "--output", "drawn"];
    let simulate = |seed: &str, output: &str| {
        let at = [at.as_slice(), &["--seed", seed]].concat();
        let at: Vec<&str> = at.into_iter().map(|own| if own == "drawn" { output } else { own }).collect();
        said(folder.path(), &[&["simulate", FORMULA], SILOS.as_slice(), &at].concat())
    };
    let text = simulate("3", "drawn");
    assert!(text.contains("smoke = 0.750000\n") && text.contains("truth.csv, north.csv and south.csv"), "{text}");
    let file = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let truth = file("drawn/truth.csv").replace('"', "");
    let value = |name: &str| -> f64 {
        let line = truth.lines().find_map(|line| line.strip_prefix(&format!("{name},"))).unwrap();
        line.parse().unwrap()
    };
    for (name, expected) in [("smoke", 0.75), ("age", -0.25), ("sd((Intercept) | child)", 2.0)] {
        assert!((value(name) - expected).abs() < 1e-6, "{truth}");
    }
    // Covariates and groups are as they were; outcomes are zeros and ones, others by another seed.
    let columns = |text: &str, name: &str| -> Vec<String> {
        let place = text.lines().next().unwrap().split(',').position(|own| own == name).unwrap();
        text.lines().skip(1).map(|line| line.split(',').nth(place).unwrap().to_owned()).collect()
    };
    for name in ["child", "smoke", "age"] {
        assert_eq!(columns(&file("drawn/north.csv"), name), columns(&file("north.csv"), name));
    }
    let drawn = columns(&file("drawn/north.csv"), "wheeze");
    assert!(drawn.iter().all(|own| own == "0" || own == "1") && drawn != columns(&file("north.csv"), "wheeze"));
    simulate("4", "again");
    assert_ne!(drawn, columns(&file("again/north.csv"), "wheeze"));
    simulate("3", "same");
    assert_eq!(file("drawn/south.csv"), file("same/south.csv"));

    // Of many rows a fit finds what they were drawn at.
    let row = |row: usize| format!("{},{},{}\n", row % 2, row % 7, ["a", "b"][row / 7 % 2]);
    std::fs::write(folder.path().join("many.csv"), "y,x,s\n".to_owned() + &(0..600).map(row).collect::<String>())
        .unwrap();
    let model = ["y ~ x + s", "--family", "gaussian", "--silo"];
    let at = ["--at", "x = 2", "--at", "sigma = 0.5", "--at", "(Intercept) = -1", "--output", "drawn"];
    said(folder.path(), &[&["simulate"], model.as_slice(), &["many.csv"], &at].concat());
    let text = said(folder.path(), &[&["fit"], model.as_slice(), &["drawn/many.csv"]].concat());
    let line = |name: &str| -> Vec<f64> {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{text}"));
        line.split_whitespace().skip(1).map(|own| own.parse().unwrap()).collect()
    };
    for (name, expected) in [("x  ", 2.0), ("(Intercept)", -1.0), ("sigma", 0.5)] {
        let (mean, sd) = (line(name)[0], line(name)[1]);
        assert!((mean - expected).abs() < 4.0 * sd && sd < 0.1, "{name}: {text}");
    }
}

#[test]
fn simulated_levels_have_their_names_and_what_cannot_be_drawn_is_refused() {
    let folder = children();
    let line = |row: usize| format!("{},{},{}\n", ["low", "mid, dle", "high"][row % 3], row % 5, 1 + row % 4);
    let rows: String = (0..60).map(line).map(|line| line.replace("mid, dle", "\"mid, dle\"")).collect();
    std::fs::write(folder.path().join("grades.csv"), format!("grade,x,t\n{rows}")).unwrap();
    let formula = "factor(grade, levels = c(\"low\", \"mid, dle\", \"high\")) ~ x";
    let of = |formula: &'static str, family: &'static str, more: &[&'static str]| {
        [&["simulate", formula, "--family", family, "--silo", "grades.csv", "--output", "out"], more].concat()
    };
    said(folder.path(), &of(formula, "cumulative", &[]));
    let text = std::fs::read_to_string(folder.path().join("out/grades.csv")).unwrap();
    let known = |line: &str| ["low,", "\"mid, dle\",", "high,"].iter().any(|level| line.starts_with(level));
    assert!(text.starts_with("grade,x\n") && text.lines().skip(1).all(known), "{text}");
    for (formula, family, more, words) in [
        ("log(t) ~ x", "gaussian", &[] as &[&str], "an outcome that is a column"),
        ("t ~ x", "gaussian", &["--at", "z = 1"], "one of (Intercept), b, sigma, x"),
        ("t ~ x", "gaussian", &["--at", "sigma = -1"], "numbers above 0"),
        ("t ~ x", "gaussian", &["--at", "x is 1"], "`NAME = NUMBER`"),
    ] {
        let wrong = refused(folder.path(), &of(formula, family, more));
        assert!(wrong.contains(words), "{words}: {wrong}");
    }
}

/// The numbers of a column of a file.
fn numbers(text: &str, name: &str) -> Vec<f64> {
    let place = text.lines().next().unwrap().split(',').position(|own| own == name).unwrap();
    text.lines().skip(1).map(|line| line.split(',').nth(place).unwrap().parse().unwrap()).collect()
}

#[test]
fn simulated_times_end_where_they_were_censored_and_a_fit_finds_what_they_were_drawn_at() {
    let folder = tempfile::tempdir().unwrap();
    // A third of the rows leave at a time of their own; R's survival codes an event as 2 and a censored time as 1.
    let row = |row: usize| match row % 3 {
        0 => format!("{},1,{}\n", 0.25 + 0.5 * (row % 7) as f64, row % 2),
        _ => format!("1.5,2,{}\n", row % 2),
    };
    let rows: String = (0..900).map(row).collect();
    std::fs::write(folder.path().join("times.csv"), "time,status,x\n".to_owned() + &rows).unwrap();
    let before = std::fs::read_to_string(folder.path().join("times.csv")).unwrap();
    for (family, formula, shape) in [
        ("weibull", "surv(time, status - 1) ~ x", &["--at", "shape = 1.5"] as &[&str]),
        ("piecewise_exponential", "surv(time, status - 1, cuts = c(0.5, 1, 2)) ~ x", &[]),
    ] {
        let model = [formula, "--family", family, "--silo"];
        let at = ["--at", "x = 0.7", "--output", "drawn", "--seed", "5"];
        said(folder.path(), &[&["simulate"], model.as_slice(), &["times.csv"], &at, shape].concat());
        let after = std::fs::read_to_string(folder.path().join("drawn/times.csv")).unwrap();
        assert_eq!(numbers(&after, "x"), numbers(&before, "x"));
        let all = [&before, &after].map(|text| numbers(text, "time").into_iter().zip(numbers(text, "status")));
        let [before, after] = all.map(Iterator::collect::<Vec<_>>);
        let (mut censored, mut earlier) = (0, 0);
        for ((end, was), (time, is)) in before.iter().zip(&after) {
            // Who had an event has one; who left stays until then, or has an event before.
            let is_event = (is - 2.0).abs() < 1e-9;
            assert!(*was < 1.5 || is_event, "{end} {was} {time} {is}");
            assert!(if is_event { *was > 1.5 || time < end } else { (time - end).abs() < 1e-9 }, "{end} {time} {is}");
            censored += usize::from(!is_event);
            earlier += usize::from(is_event && *was < 1.5);
        }
        assert!(censored > 20 && earlier > 20, "{family}: {censored} censored, {earlier} events before their end");
        let text = said(folder.path(), &[&["fit"], model.as_slice(), &["drawn/times.csv"]].concat());
        let line = text.lines().find(|line| line.starts_with("x  ")).unwrap_or_else(|| panic!("{text}"));
        let own: Vec<f64> = line.split_whitespace().skip(1).take(2).map(|own| own.parse().unwrap()).collect();
        assert!((own[0] - 0.7).abs() < 4.0 * own[1] && own[1] < 0.15, "{family}: {text}");
    }
    let two = ["simulate", "surv(time, status - x) ~ 1", "--family", "weibull", "--silo", "two.csv", "--output", "out"];
    std::fs::write(folder.path().join("two.csv"), "time,status,x\n1,1,0\n2,1,1\n3,1,0\n").unwrap();
    assert!(refused(folder.path(), &two).contains("a status of one column"));
}

#[test]
fn a_calibration_is_kept_goes_on_and_gives_its_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let row = |row: usize| format!("{},{}\n", row % 3, row % 5);
    std::fs::write(folder.path().join("all.csv"), "y,x\n".to_owned() + &(0..30).map(row).collect::<String>()).unwrap();
    let model = ["calibrate", "y ~ x", "--family", "poisson", "--silo", "all.csv", "--folder", "kept"];
    let priors = ["--prior", "(Intercept) ~ normal(0, 0.5)", "--prior", "b ~ normal(0, 0.2)"];
    let run = |fits: &str| said(folder.path(), &[model.as_slice(), &priors, &["--fits", fits]].concat());
    let text = run("10");
    assert!(text.contains("prior: x ~ normal(0, 0.2)") && text.contains("calibration: calibrated"), "{text}");
    let at = |number: u32| std::fs::metadata(folder.path().join(format!("kept/fit-{number:06}.json"))).unwrap();
    let first = at(3).modified().unwrap();
    let text = run("20");
    assert!(text.contains("20 fits of data drawn from the prior"), "{text}");
    assert_eq!(at(3).modified().unwrap(), first, "a fit that was kept was done again");
    assert!(at(19).len() > 0 && folder.path().join("kept/calibration.json").is_file());
    let other = refused(folder.path(), &[model.as_slice(), &["--fits", "10"]].concat());
    assert!(other.contains("other settings, another model or other data"), "{other}");
    let few = refused(folder.path(), &[&model[..6], &["--fits", "3"]].concat());
    assert!(few.contains("at least 10"), "{few}");
}

#[test]
fn a_report_is_printed_and_its_page_written_from_the_folder_alone() {
    let folder = children();
    let fit = said(folder.path(), &[&["fit", FORMULA], SILOS.as_slice(), &["--output", "out"]].concat());
    let text = said(folder.path(), &["report", "out", "--html", "again.html", "--title", "Wheeze & smoke"]);
    let table = |text: &str| -> String {
        let from = text.find("verdict: ").unwrap();
        text[from..].split("\nreport.html, ").next().unwrap().split("\nthe page is ").next().unwrap().to_owned()
    };
    assert_eq!(table(&text), table(&fit));
    let page = std::fs::read_to_string(folder.path().join("again.html")).unwrap();
    assert!(page.contains("Wheeze &amp; smoke") && page.contains("Forest plot: odds ratio"), "{page}");
    assert_eq!(table(&said(folder.path(), &["report", "out/result.json"])), table(&fit));
    said(folder.path(), &["report", "out", "--html", "same.html"]);
    let file = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert!(file("same.html") == file("out/report.html") && file("same.html").contains("Trace of the bound"));
    std::fs::write(folder.path().join("other.json"), "{\"verdict\": 1}").unwrap();
    assert!(refused(folder.path(), &["report", "other.json"]).contains("no report of this version"));
    let nowhere = refused(folder.path(), &["report", "nowhere"]);
    assert!(nowhere.contains("Check the path") && !nowhere.contains("writable"), "{nowhere}");
}

#[test]
fn models_that_are_compiled_in_are_named_and_fitted() {
    let folder = tempfile::tempdir().unwrap();
    let list = said(folder.path(), &["fit", "--model", "list"]);
    assert!(list.contains("six-cities: a table smoke, age_7") && list.contains("logistic-regression: "), "{list}");
    let wrong = refused(folder.path(), &["fit", "--model", "six-citys", "--silo", "example:1"]);
    assert!(wrong.contains("one of six-cities, logistic-regression") && wrong.contains("Did you mean `six-cities`?"));
    let silos = ["--silo", "one=example:1", "--silo", "two=example:2"];
    let text = said(folder.path(), &[&["fit", "--model", "six-cities", "--output", "out"], silos.as_slice()].concat());
    assert!(text.contains("verdict: trust these numbers") && text.contains("beta[1]"), "{text}");
    for name in ["report.html", "result.json", "posterior.csv"] {
        assert!(folder.path().join("out").join(name).is_file(), "{name}");
    }
    let both = refused(folder.path(), &["fit", "y ~ x", "--model", "six-cities"]);
    assert!(both.contains("cannot be used with"), "{both}");
    assert!(refused(folder.path(), &["fit", "--model", "six-cities"]).contains("no --silo"));
    assert!(refused(folder.path(), &["fit", "y ~ x", "--family", "gaussian"]).contains("--silo"));
}

#[test]
fn a_model_of_a_users_own_is_fitted_and_checked_by_the_commands_of_its_program() {
    let folder = tempfile::tempdir().unwrap();
    let silos: [&[f64]; 2] = [&[1.5, 2.25, 0.75, 3.5, 1.0, 2.0], &[2.5, 1.25, -0.5]];
    for (name, own) in ["a.csv", "b.csv"].iter().zip(silos) {
        let rows: String = own.iter().map(|y| format!("{y}\n")).collect();
        std::fs::write(folder.path().join(name), format!("y\n{rows}")).unwrap();
    }
    let said = |arguments: &[&str]| {
        let mut command = Command::new(fixtures::example("own_model"));
        let done = command.current_dir(folder.path()).args(arguments).output().unwrap();
        let [out, wrong] = [&done.stdout, &done.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        assert!(done.status.success(), "{arguments:?}: {out}{wrong}");
        out
    };
    let list = said(&["fit", "--model", "list"]);
    assert!(list.contains("mean: a table with a column y\n") && list.contains("six-cities: "), "{list}");
    let silos_of = ["--model", "mean", "--silo", "a.csv", "--silo", "b.csv"];
    assert!(said(&[&["check"], silos_of.as_slice()].concat()).contains("checks passed"));
    said(&[&["fit"], silos_of.as_slice(), &["--output", "out"]].concat());
    let result = std::fs::read_to_string(folder.path().join("out/result.json")).unwrap();
    let result: serde_json::Value = serde_json::from_str(&result).unwrap();
    // Rows of unit variance around a mean that is normal(0, 10): its posterior and the evidence in closed form.
    let all = silos.concat();
    let (count, sum) = (all.len() as f64, all.iter().sum::<f64>());
    let squares: f64 = all.iter().map(|y| y * y).sum();
    let precision = count + 0.01;
    let (mean, sd) = (sum / precision, precision.sqrt().recip());
    let of = |entry: &str| result["answer"][0][entry].as_f64().unwrap();
    assert!(result["answer"][0]["label"] == "mean", "{result:#}");
    // Of 4,000 draws: three standard errors of a mean and of a standard deviation.
    assert!((of("mean") - mean).abs() < 0.047 * sd && (of("sd") / sd - 1.0).abs() < 0.034, "{result:#}");
    let rest = squares - sum * sum / precision + (1.0 + 100.0 * count).ln();
    let evidence = -0.5 * (count * std::f64::consts::TAU.ln() + rest);
    assert!((result["elbo"].as_f64().unwrap() - evidence).abs() < 1e-6, "{evidence}: {result:#}");
}
