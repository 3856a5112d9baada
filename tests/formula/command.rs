//! Runs the command line as a user does: the table of a fit, the files that it writes, and words for mistakes.

use std::path::Path;
use std::process::Command;

use fixtures::visits::{FORMULA, visits};
use fixtures::{refused, said};
use partita::models::{six_cities_reference, six_cities_silos};

pub(super) fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, children) in ["north.csv", "south.csv"].iter().zip(six_cities_silos()) {
        std::fs::write(folder.path().join(name), visits(&children)).unwrap();
    }
    folder
}

#[test]
fn a_formula_and_two_files_give_a_verdict_a_table_odds_ratios_and_files() {
    let folder = folder();
    let silos = ["--silo", "north.csv", "--silo", "south.csv"];
    let arguments = [&["fit", FORMULA, "--family", "bernoulli", "--output", "out"], silos.as_slice()].concat();
    let text = said(folder.path(), &arguments);
    fixtures::says(
        &text,
        &["prior: smoke ~ normal(0, ", "verdict: trust these numbers\n", "odds ratio", "silo north moves"],
    );
    // The study's posterior has wider priors: its mean of `smoke` is .45, its deviation .29.
    let line = text.lines().find(|line| line.starts_with("smoke  ")).unwrap();
    let numbers: Vec<f64> = line.split_whitespace().skip(1).map(|own| own.parse().unwrap()).collect();
    assert!((numbers[0] - 0.45).abs() < 0.03 && (numbers[1] - 0.29).abs() < 0.01, "{line}");
    for (name, words) in
        [("report.html", "Forest plot: odds ratio"), ("result.json", "\"verdict\""), ("posterior.csv", "smoke:age")]
    {
        let text = std::fs::read_to_string(folder.path().join("out").join(name)).unwrap();
        assert!(text.contains(words), "{name}");
    }
}

/// The numbers after a label in the first line of a table that begins with it, each with half a unit of its last digit.
fn numbers_of(text: &str, label: &str) -> Vec<(f64, f64)> {
    let line = text.lines().find_map(|line| line.strip_prefix(label)?.strip_prefix(' '));
    let line = line.unwrap_or_else(|| panic!("no `{label}` in {text}"));
    let number = |own: &str| {
        let digits = own.split_once('.').map_or(0, |(_, digits)| digits.len());
        (own.parse().unwrap(), 0.5 * 0.1_f64.powi(i32::try_from(digits).unwrap()))
    };
    line.split_whitespace().take(5).map(number).collect()
}

#[test]
fn with_the_priors_of_the_first_example_the_command_gives_the_table_of_the_readme() {
    let folder = folder();
    let fit =
        ["fit", FORMULA, "--family", "bernoulli", "--silo", "north.csv", "--silo", "south.csv", "--output", "out"];
    // The standard deviation of children is exp(-omega), and omega is normal(0, 10).
    let priors = ["(Intercept) ~ normal(0, 10)", "b ~ normal(0, 10)", "sd ~ lognormal(0, 10)"];
    let priors: Vec<&str> = priors.into_iter().flat_map(|own| ["--prior", own]).collect();
    let text = said(folder.path(), &[fit.as_slice(), &priors].concat());
    assert!(text.contains("verdict: trust these numbers\n"), "{text}");
    let reference = six_cities_reference().unwrap();
    let pooled = reference.pooled();
    let quantile = |probability: f64| {
        let near = pooled.quantiles.iter().find(|own| (own.probability - probability).abs() < 1e-9);
        near.unwrap().values
    };
    let quantiles = [0.025, 0.5, 0.975].map(quantile);
    for (index, label) in ["(Intercept)", "smoke", "age", "smoke:age"].into_iter().enumerate() {
        let found = numbers_of(&text, label);
        let (mean, sd) = (pooled.mean[index], pooled.sd[index]);
        let expected = [mean, sd, quantiles[0][index], quantiles[1][index], quantiles[2][index]];
        // As of the model in Rust: quantiles of 1,500 draws have errors of 0.07 standard deviations at the ends.
        let bounds = [0.05, 0.03, 0.2, 0.2, 0.2];
        for (((found, half), expected), bound) in found.iter().zip(expected).zip(bounds) {
            assert!((found - expected).abs() < bound * sd + half, "{label}: {found}, {expected}, {bound}\n{text}");
        }
    }
    // Quantiles of the standard deviation are those of omega from the other end.
    let found = numbers_of(&text, "sd((Intercept) | child)");
    let (sd, expected) = (found[1].0, [2, 1, 0].map(|place: usize| (-quantiles[place][4]).exp()));
    for ((found, half), expected) in found.iter().skip(2).zip(expected) {
        assert!((found - expected).abs() < 0.2 * sd + half, "{found}, {expected}\n{text}");
    }
    let omega = draws_of_omega(&folder.path().join("out/posterior.csv"));
    let count = omega.len() as f64;
    let mean = omega.iter().sum::<f64>() / count;
    let sd = (omega.iter().map(|own| (own - mean).powi(2)).sum::<f64>() / count).sqrt();
    let off = (mean - pooled.mean[4]) / pooled.sd[4];
    assert!(count >= 500.0 && off.abs() < 0.15, "{off} of {count} draws");
    assert!((sd / pooled.sd[4] - 1.0).abs() < 0.1, "{sd}");
}

/// Minus the logarithms of the draws of the standard deviation of children.
fn draws_of_omega(path: &Path) -> Vec<f64> {
    let text = std::fs::read_to_string(path).unwrap();
    let (header, draws) = text.split_once('\n').unwrap();
    let place = header.split(',').position(|own| own == "\"sd((Intercept) | child)\"").unwrap();
    draws.lines().map(|draw| -draw.split(',').nth(place).unwrap().parse::<f64>().unwrap().ln()).collect()
}

#[test]
fn priors_predictions_and_contrasts_are_asked_for_by_flags() {
    let folder = folder();
    std::fs::write(folder.path().join("new.csv"), "child,smoke,age\nc1,1,0\nstranger,1,0\n").unwrap();
    let fit =
        ["fit", FORMULA, "--family", "bernoulli", "--silo", "north.csv", "--silo", "south.csv", "--output", "out"];
    let asked = ["--prior", "smoke ~ normal(0, 0.01)", "--contrast", "smoke: 1 - 0 at age = 0", "--contrast"];
    let asked = [asked.as_slice(), &["smoke: 1 - 0 averaged", "--predict", "north=new.csv", "--arviz"]].concat();
    let asked = [asked.as_slice(), &["--check-rows", "zeros of wheeze"]].concat();
    let text = said(folder.path(), &[fit.as_slice(), &asked].concat());
    for words in
        ["prior: smoke ~ normal(0, 0.01)\n", "contrast smoke: 1 - 0 at age = 0: ", "odds ratio 1.00", "zeros of y"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    let file = |name: &str| std::fs::read_to_string(folder.path().join("out").join(name)).unwrap();
    assert_eq!(file("contrasts.csv").lines().count(), 3);
    let page = file("report.html");
    let (_, contrasts) = page.split_once("<h2 id=\"contrasts-heading\">Contrasts").unwrap();
    for words in
        ["smoke: 1 - 0 at age = 0", "Forest plot: difference of expected outcomes", "Probability of each direction"]
    {
        assert!(contrasts.contains(words), "{words}");
    }
    let predicted = file("predicted.csv");
    let rows: Vec<&str> = predicted.lines().skip(1).collect();
    assert!(rows[0].starts_with("north=new.csv,1,child known,") && rows[1].starts_with("north=new.csv,2,child new,"));
    assert!(folder.path().join("out/draws.zarr/posterior").is_dir(), "{text}");

    let text = said(folder.path(), &[fit.as_slice(), &["--prior-predictive", "20"]].concat());
    assert!(text.contains("20 data sets from the prior: in 95 % of them the mean of `wheeze`"), "{text}");
    assert!(!text.contains("verdict"), "it fitted: {text}");
    assert_eq!(file("prior_predictive.csv").lines().count(), 1 + 20 * 2_148);
}

#[test]
fn mistakes_are_named_with_what_to_do() {
    let folder = folder();
    std::fs::write(folder.path().join("count.csv"), "child,wheeze,smoke,age\na,3,0,1\nb,0,1,2\nc,1,0,3\n").unwrap();
    std::fs::write(folder.path().join("twice.csv"), "child,wheeze,smoke,age\na,1,0,0\nb,0,1,2\nc,1,2,4\n").unwrap();
    let cases = [
        (FORMULA, "bernuli", "north.csv", "one of gaussian, student, bernoulli"),
        ("wheeze ~ smok + (1 | child)", "bernoulli", "north.csv", "Did you mean `smoke`?"),
        ("wheeze ~ smoke + (1 | child", "bernoulli", "north.csv", "expected an operator or `)`"),
        (FORMULA, "bernoulli", "west.csv", "west.csv"),
        ("wheeze ~ smoke", "bernoulli", "count.csv", "3 in line 2 in `wheeze` of count"),
        ("wheeze ~ smoke", "binomial", "count.csv", "successes | trials(n)"),
        ("wheeze | trials(age) ~ smoke", "bernoulli", "north.csv", "trials"),
        ("wheeze ~ smoke + age", "bernoulli", "twice.csv", "`age` is 2 times `smoke`"),
        ("wheeze ~ smoke", "bernoulli(log)", "north.csv", "expected one of logit, probit, cloglog"),
        ("I(age + 3) ~ smoke", "piecewise_exponential", "north.csv", "expected `surv(time, status)`"),
        ("surv(I(age + 3), wheeze, pieces = 3) ~ smoke", "weibull", "north.csv", "expected no cuts"),
        ("factor(smoke) ~ age + (1 | child)", "categorical", "north.csv", "fixed terms alone"),
        ("child ~ age", "cumulative", "twice.csv", "whose order is not stated"),
        ("wheeze ~ smoke", "ordinal", "north.csv", "Did you mean `cumulative`?"),
        ("wheeze ~ smoke", "logistic", "north.csv", "Did you mean `bernoulli`?"),
        ("wheeze ~ smoke", "survival", "north.csv", "Did you mean `weibull`?"),
        ("wheeze ~ smoke", "negbin", "north.csv", "Did you mean `negbinomial`?"),
    ];
    for (formula, family, silo, words) in cases {
        let said = refused(folder.path(), &["fit", formula, "--family", family, "--silo", silo]);
        assert!(said.contains(words), "{formula}, {family}: {said}");
    }
    let twice = ["fit", FORMULA, "--family", "bernoulli", "--silo", "north.csv", "--silo", "north.csv"];
    assert!(refused(folder.path(), &twice).contains("two silos are called `north`"));
}

#[test]
fn what_leaves_a_silo_before_a_fit_is_listed() {
    let folder = folder();
    let text = said(folder.path(), &["describe", "north.csv", "--formula", "wheeze ~ scale(age) + (1 | child)"]);
    assert!(text.contains("1200 rows, 4 columns") && text.contains("mean-sd:scale(age)"), "{text}");
    assert!(!text.contains("levels:child"), "{text}");
}

#[test]
fn what_is_piped_has_no_colours() {
    let folder = folder();
    let fit = |formula: &'static str| ["fit", formula, "--family", "bernoulli", "--silo", "north.csv"];
    let (fine, misspelt) = (fit("wheeze ~ smoke"), fit("wheeze ~ lgo(smoke)"));
    let cases: [(&[&str], bool); 5] = [
        (&["--help"], true),
        (&["fit", "--help"], true),
        (&fine, true),
        (&misspelt, false),
        (&["fit", "--no-such-option"], false),
    ];
    for (arguments, ends_well) in cases {
        let mut command = Command::new(fixtures::executable("partita"));
        // As where a terminal shows colours: the pipe alone says that there is none.
        command.current_dir(folder.path()).args(arguments).env("TERM", "xterm-256color").env("COLORTERM", "truecolor");
        let done = command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE").output().unwrap();
        let said = [done.stdout, done.stderr].concat();
        let text = String::from_utf8_lossy(&said);
        assert_eq!(done.status.success(), ends_well, "{arguments:?}: {text}");
        assert!(said.len() > 50 && !said.contains(&0x1b), "{arguments:?}: {text:?}");
    }
}
