//! Claims about what commands say: to a reader who leaves, of a mistake before anything is fitted, and of one file.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::command::folder;
use fixtures::visits::FORMULA;
use partita::executables::StudyFile;

/// What a command says on standard output and on standard error, and whether it ends well.
#[track_caller]
fn said(folder: &Path, arguments: &[&str]) -> (bool, String) {
    let done = fixtures::command(folder, arguments);
    let [out, wrong] = [&done.stdout, &done.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(!wrong.contains("panicked"), "{arguments:?}: {wrong}");
    (done.status.success(), out + &wrong)
}

/// A file with numbers, text and missing cells.
fn small() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let line =
        |row: usize| format!("{},{},{},{}\n", row % 7, row % 5, ["a", "b", "c"][row % 3], ["dead", "alive"][row % 2]);
    let rows: String = (0..40).map(line).collect();
    std::fs::write(folder.path().join("all.csv"), format!("y,x,s,status\n{rows}")).unwrap();
    folder
}

#[test]
fn a_command_whose_reader_has_left_goes_on_and_writes_its_files() {
    let folder = folder();
    let fit: &[&str] = &["fit", "wheeze ~ smoke", "--family", "bernoulli", "--silo", "north.csv", "--output", "out"];
    for arguments in [fit, &["completions", "bash"], &["describe", "north.csv"], &["fit", "--model", "list"]] {
        let mut command = Command::new(fixtures::executable("partita"));
        command.current_dir(folder.path()).args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = command.spawn().unwrap();
        // The reader is gone before the first word.
        drop(running.stdout.take());
        let mut wrong = String::new();
        running.stderr.take().unwrap().read_to_string(&mut wrong).unwrap();
        assert!(running.wait().unwrap().success() && wrong.is_empty(), "{arguments:?}: {wrong}");
    }
    assert!(folder.path().join("out/posterior.csv").is_file());
    #[cfg(target_os = "linux")]
    {
        // A full disk is no reader who has left.
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let mut command = Command::new(fixtures::executable("partita"));
        let done = command.args(["completions", "bash"]).stdout(full).stderr(Stdio::piped()).output().unwrap();
        let wrong = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(!done.status.success() && wrong.contains("No space left") && !wrong.contains("panicked"), "{wrong}");
    }
}

#[test]
fn a_silo_that_is_stopped_before_its_report_does_not_claim_it() {
    let folder = folder();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("study.toml", &format!("formula = \"{FORMULA}\"\nfamily = \"bernoulli\"\nsilos = [\"north\"]\n"));
    // An engine that refuses everything.
    let engine = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = engine.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in engine.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream
                .write_all(b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    write(
        "north.toml",
        &format!("name = \"north\"\ndata = \"north.csv\"\nstate = \"state\"\n[engine]\naddress = \"{address}\"\n"),
    );
    let mut command = Command::new(fixtures::executable("partita"));
    command.current_dir(folder.path()).args(["silo", "--silo", "north.toml", "--once"]).stderr(Stdio::piped());
    let running = command.spawn().unwrap();
    std::thread::sleep(Duration::from_secs(3));
    let stopped = Command::new("kill").args(["-TERM", &running.id().to_string()]).status().unwrap();
    let done = running.wait_with_output().unwrap();
    let wrong = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(stopped.success() && !done.status.success(), "{wrong}");
    assert!(wrong.contains("a stop before the report") && !wrong.contains("the report of the study is in"), "{wrong}");
}

#[test]
fn a_study_is_fitted_in_one_process_by_the_method_that_it_names() {
    let folder = small();
    let study = "formula = \"y ~ x\"\nfamily = \"gaussian\"\nsilos = [\"all\"]\n";
    let of = |run: &str| {
        std::fs::write(folder.path().join("study.toml"), study.to_owned() + run).unwrap();
        let (is_done, said) =
            said(folder.path(), &["fit", "--study", "study.toml", "--silo", "all.csv", "--output", "out"]);
        assert!(is_done, "{said}");
        std::fs::read_to_string(folder.path().join("out/result.json")).unwrap()
    };
    assert!(of("").contains("\"FewRounds\": {"), "{}", of(""));
    let named = of("[run]\nalgorithm = \"sfvi\"\n");
    // Without steps it finds its end by itself.
    assert!(named.contains("\"algorithm\": \"Sfvi\"") && named.contains("\"Adaptive\""), "{named}");
    assert!(of("[run]\nalgorithm = \"sfvi\"\nsteps = 7\n").contains("\"steps\": 7"));
    std::fs::write(folder.path().join("study.toml"), study.to_owned() + "[run]\nalgorithm = \"nuts\"\n").unwrap();
    let (is_done, text) = said(folder.path(), &["fit", "--study", "study.toml", "--silo", "all.csv"]);
    assert!(!is_done && text.contains("take `partita fit --study FILE --method nuts`"), "{text}");
    std::fs::write(folder.path().join("study.toml"), study.to_owned() + "[priors]\nx = \"normal(0, 3)\"\n").unwrap();
    let sampled = ["fit", "--study", "study.toml", "--silo", "all.csv", "--output", "out", "--method"];
    let (is_done, text) = said(folder.path(), &[&sampled[..], &["nuts", "--draws", "500"]].concat());
    let result = std::fs::read_to_string(folder.path().join("out/result.json")).unwrap();
    assert!(
        is_done && text.contains("4 chains of 500 draws") && result.contains("\"prior\": \"normal(0, 3)\""),
        "{text}"
    );
    let (is_done, text) = said(folder.path(), &[&sampled[..], &["sfvi"]].concat());
    assert!(!is_done && text.contains("the study names its method"), "{text}");
    let fit = ["fit", "y ~ x", "--family", "gaussian", "--silo", "all.csv", "--output", "out", "--method", "sfvi"];
    let (is_done, text) = said(folder.path(), &fit);
    assert!(is_done, "{text}");
    assert!(
        std::fs::read_to_string(folder.path().join("out/result.json")).unwrap().contains("\"algorithm\": \"Sfvi\"")
    );
}

#[test]
fn files_of_a_study_are_those_of_its_silos() {
    let folder = small();
    std::fs::copy(folder.path().join("all.csv"), folder.path().join("north.csv")).unwrap();
    let study = "formula = \"y ~ x\"\nfamily = \"gaussian\"\nsilos = [\"north\", \"south\"]\n";
    std::fs::write(folder.path().join("study.toml"), study).unwrap();
    for task in ["check", "fit"] {
        let of = |silo: &[&str]| said(folder.path(), &[&[task, "--study", "study.toml"], silo].concat());
        let (is_done, text) = of(&["--silo", "all.csv"]);
        let words = "--silo all.csv: the study has no silo `all`, expected some of north, south";
        assert!(!is_done && text.contains(words) && text.contains("--silo NAME=all.csv"), "{text}");
        let (is_done, text) = of(&["--silo", "north.csv"]);
        assert!(is_done && text.contains("no --silo for south of the study"), "{text}");
        // Sums are in the order of the study, whatever the order of the files.
        let (is_done, text) = of(&["--silo", "south=all.csv", "--silo", "north.csv"]);
        assert!(is_done && !text.contains("no --silo for"), "{text}");
        let [north, south] = ["north", "south"].map(|name| text.find(&format!("{name}: ")).unwrap_or_default());
        assert!(task == "fit" || north < south, "{text}");
    }
}

#[test]
fn a_check_of_what_the_model_does_not_observe_is_refused_before_the_fit() {
    let folder = small();
    let fit = ["fit", "y ~ x", "--family", "gaussian", "--silo", "all.csv", "--check-rows", "mean of x"];
    let (is_done, text) = said(folder.path(), &fit);
    assert!(!is_done && text.contains("the check `mean of x`") && text.contains("as in `mean of y`"), "{text}");
    assert!(!text.contains("verdict"), "it fitted: {text}");
    let fit = ["fit", "--model", "six-cities", "--silo", "example:1", "--check-rows", "zeros of nothing"];
    let (is_done, text) = said(folder.path(), &fit);
    assert!(!is_done && text.contains("--check-rows 'zeros of nothing': the model observes"), "{text}");
    assert!(!text.contains("verdict"), "it fitted: {text}");
    let study = "formula = \"y ~ x\"\nfamily = \"gaussian\"\nsilos = [\"all\"]\nchecks = [\"mean of x\"]\n";
    assert!(StudyFile::parse(study).unwrap_err().to_string().contains("as in `mean of y`"));
}

#[test]
fn rows_to_predict_without_the_column_of_their_groups_are_told_what_to_write() {
    let folder = small();
    std::fs::write(folder.path().join("new.csv"), "x\n1\n").unwrap();
    let fit = ["fit", "y ~ x + (1 | s)", "--family", "gaussian", "--silo", "all.csv", "--output", "out", "--predict"];
    let (is_done, text) = said(folder.path(), &[&fit[..], &["new.csv"]].concat());
    assert!(!is_done && text.contains("no column `s` in") && text.contains("stands for a new group"), "{text}");
    assert!(!text.contains("verdict"), "it fitted: {text}");
}

#[test]
fn simulate_offers_no_model_that_is_compiled_in() {
    let folder = small();
    let (is_done, text) = said(folder.path(), &["simulate", "--help"]);
    assert!(is_done && text.contains("--family") && !text.contains("--model"), "{text}");
    let simulate = ["simulate", "--model", "six-cities", "--silo", "example:1", "--output", "drawn"];
    let (is_done, text) = said(folder.path(), &simulate);
    assert!(!is_done && text.contains("--model six-cities: this command takes formulas and studies alone"), "{text}");
}

#[test]
fn a_contrast_of_one_coefficient_has_the_numbers_of_the_table() {
    let folder = folder();
    let fit = ["fit", FORMULA, "--family", "bernoulli", "--silo", "north.csv", "--silo", "south.csv"];
    let (is_done, text) = said(folder.path(), &[fit.as_slice(), &["--contrast", "smoke: 1 - 0 at age = 0"]].concat());
    assert!(is_done, "{text}");
    let line = text.lines().find(|line| line.starts_with("smoke  ")).unwrap();
    let own: Vec<&str> = line.split_whitespace().collect();
    let expected = format!("at age = 0: {}, sd {}, 95 % from {} to {},", own[1], own[2], own[3], own[5]);
    assert!(text.contains(&expected), "{expected}: {text}");
}

#[test]
fn what_one_file_holds_is_said_column_by_column() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("a.csv"),
        "id,age,seen,ward,when\n1,7.5,TRUE,b,2020-01-03\n2,NA,FALSE,a,2020-02-01\n3,9,TRUE,,2019-05-05\n",
    )
    .unwrap();
    let (is_done, text) = said(folder.path(), &["describe", "a.csv", "--formula", "age ~ ward"]);
    for words in [
        "3 rows, 5 columns",
        "age   numbers from 7.5 to 9, 1 missing\n",
        "seen  TRUE and FALSE\n",
        "ward  text, 2 levels: a, b, 1 missing\n",
        "when  dates from 2019-05-05 to 2020-02-01\n",
        "rows that the formula uses: 1; with missing cells: 2\n",
        "--drop-missing",
    ] {
        assert!(is_done && text.contains(words), "{words}: {text}");
    }
}

#[test]
fn a_study_names_columns_with_units_and_describe_lists_all_that_leaves() {
    let folder = small();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let study = |unit: &str| {
        write(
            "study.toml",
            &format!("formula = \"y ~ x + (1 | s)\"\nfamily = \"poisson\"\nsilos = [\"all\"]\n[columns]\n{unit}\n"),
        );
        StudyFile::read(&folder.path().join("study.toml")).unwrap()
    };
    let described = |study: &[&str]| said(folder.path(), &[&["describe", "all.csv"], study].concat());
    study("x = \"years\"");
    let (is_done, text) = described(&["--study", "study.toml"]);
    for words in [
        "numbers from 0 to 4, in years\n",
        "  rows: 40 rows",
        "  columns: ",
        "  products: ",
        "  outcome: ",
        "  groups: ",
    ] {
        assert!(is_done && text.contains(words), "{words}: {text}");
    }
    let (is_done, text) = said(folder.path(), &["fit", "--study", "study.toml", "--silo", "all.csv"]);
    assert!(is_done && text.contains("\nx (years) "), "{text}");
    study("dose = \"mg\"");
    let (is_done, text) = said(folder.path(), &["fit", "--study", "study.toml", "--silo", "all.csv"]);
    assert!(!is_done && text.contains("no column `dose` in all.csv") && text.contains("in mg"), "{text}");
    // A silo that lacks a file of its connection says which, and does not claim to wait.
    study("x = \"years\"");
    let own = "name = \"all\"\ndata = \"all.csv\"\nstate = \"state\"\n";
    let engine = "[engine]\naddress = \"127.0.0.1:1\"\ncertificate_authority = \"ca.pem\"\n";
    write("all.toml", &format!("{own}{engine}"));
    let (is_done, text) = said(folder.path(), &["silo", "--silo", "all.toml"]);
    let words = "It is `certificate_authority` of `[engine]`: put the file there";
    assert!(!is_done && text.contains(words) && !text.contains("waiting at"), "{text}");
    // No silo sees the groups of another over an engine: each hears of what is taken for granted.
    assert!(text.contains("groups of `s` are of one silo each"), "{text}");
    // One that refuses what the study needs does not start.
    write(
        "all.toml",
        "name = \"all\"\ndata = \"all.csv\"\nstate = \"state\"\nrefuse = [\"rows\"]\n[engine]\naddress = \"127.0.0.1:1\"\n",
    );
    let (is_done, text) = said(folder.path(), &["silo", "--silo", "all.toml"]);
    assert!(!is_done && text.contains("found `rows`") && text.contains("do not take part"), "{text}");
}

/// What a silo says of a file of its own before it has reached any engine.
#[track_caller]
fn silo_says(folder: &Path, formula: &str, family: &str, rows: &str) -> String {
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    write("study.toml", &format!("formula = '{formula}'\nfamily = \"{family}\"\nsilos = [\"own\", \"other\"]\n"));
    write("own.csv", rows);
    write("own.toml", "name = \"own\"\ndata = \"own.csv\"\nstate = \"state\"\n[engine]\naddress = \"127.0.0.1:1\"\n");
    let mut command = Command::new(fixtures::executable("partita"));
    command.current_dir(folder).args(["silo", "--silo", "own.toml"]).stderr(Stdio::piped());
    let mut running = command.spawn().unwrap();
    let ends = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        running.try_wait().unwrap().is_some()
    });
    if !ends {
        running.kill().unwrap();
    }
    let done = running.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(ends && !said.contains("waiting at") && !done.status.success(), "{formula}: {said}");
    said
}

#[test]
fn an_owner_hears_at_once_what_is_wrong_in_the_file_alone() {
    let folder = tempfile::tempdir().unwrap();
    let numbers = |last: &str| format!("y,x,g\n1,4,a\n0,5,b\n1,2,a\n{last}\n");
    let cases = [
        ("y ~ x", "bernoulli", numbers("2,1,b"), "found 2 in line 5 in `y` of own, expected 0 or 1"),
        ("y ~ x", "poisson", numbers("1.5,1,b"), "found 1.5 in line 5"),
        ("y ~ log(x)", "bernoulli", numbers("0,0,b"), "`log(x)` is -inf in line 5"),
        ("y ~ 1 + offset(sqrt(x))", "bernoulli", numbers("0,-1,b"), "`offset(sqrt(x))` is NaN in line 5"),
        ("y ~ x", "bernoulli", numbers("0,,b"), "1 of 4 rows have missing cells"),
        ("y ~ x", "bernoulli", numbers("0,n/a,b"), "line 5"),
        ("y ~ dose", "bernoulli", numbers("0,1,b"), "no column `dose`"),
        ("y ~ factor(g, levels = c(\"a\", \"b\"))", "bernoulli", numbers("0,1,c"), "the level \"c\" in line 5"),
        ("surv(x, y) ~ g", "weibull", numbers("1,0,b"), "`x` is 0 in line 5, expected a time above zero"),
        (
            "y | trials(x) ~ g",
            "binomial",
            numbers("3,2,b"),
            "`y` is 3 in line 5, expected at most the number of trials",
        ),
        ("g ~ x", "bernoulli", numbers("0,1,c"), "the levels a, b, c in `g`"),
        ("g ~ x", "gaussian", numbers("0,1,b"), "the levels a, b in `g`"),
    ];
    for (formula, family, rows, words) in cases {
        let said = silo_says(folder.path(), formula, family, &rows);
        assert!(said.contains(words), "{formula}, {family}: {words}: {said}");
    }
}

#[test]
fn mistakes_of_the_command_line_are_named_with_what_it_can_do() {
    let folder = small();
    let file = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
    file("constant.csv", b"y,x\n3,1\n3,2\n3,4\n3,3\n");
    file("thousands.csv", b"y;x\n1,500;2\n2,250;3\n4,125;5\n");
    std::fs::copy(folder.path().join("all.csv"), folder.path().join("two.csv")).unwrap();
    file("silos.csv", b"y,x,silo\n1,1,a\n2,2,a\n2,4,b\n3,3,b\n");
    file("new.csv", b"x\n1\n");
    file("of_all.csv", b"x,silo\n1,all\n");
    file("book.csv", b"PK\x03\x04\x14\x00\x06\x00\xff\xfe");
    let fit = |formula: &'static str, family: &'static str, silo: &'static str, more: &[&'static str]| {
        [&["fit", formula, "--family", family, "--silo", silo], more].concat()
    };
    let gaussian = |formula, more: &[&'static str]| fit(formula, "gaussian", "all.csv", more);
    let predict = |formula, file| gaussian(formula, &["--silo", "two.csv", "--output", "out", "--predict", file]);
    let cases = [
        (fit("y ~ x", "gaussian", "constant.csv", &[]), "`y`, which is 3 in every row"),
        (fit("y ~ x", "gaussian", "thousands.csv", &[]), "of a command `--decimal comma`"),
        (fit("y ~ x", "gaussian", "book.csv", &[]), "a workbook of a spreadsheet program"),
        (gaussian("y ~ x", &["--prior", "x ~ normal(0,-1)"]), "`normal(0,-1)`, whose scale is -1 for `x`"),
        (gaussian("y ~ x", &["--output", "/proc/x"]), "--output /proc/x: "),
        (gaussian("y ~ C(s, helmert)", &[]), "expected `sum` or `treatment`"),
        (gaussian("y ~ s(x)", &[]), "Write `bs(x, df = 6)`"),
        (gaussian("cbind(y, x) ~ s", &[]), "Write `successes | trials(n)`"),
        (gaussian("y ~ x", &["--contrast", "x: 3 - 1 at status = dead"]), "`status`, which no fixed term"),
        (gaussian("y ~ x + (1 | s)", &["--contrast", "x: 3 - 1 at s = a"]), "`s`, which no fixed term"),
        (
            fit("y ~ x + (1 | s)", "poisson(identity)", "all.csv", &[]),
            "effects of groups on the mean of `poisson(identity)`",
        ),
        (fit("y + 1 ~ x + (1 | s)", "gamma(inverse)", "all.csv", &[]), "Take the link `log`"),
        (fit("y ~ x + (1 | silo)", "gaussian", "silos.csv", &[]), "`silo` is \"b\" in line 4, expected \"a\""),
        (gaussian("y ~ I(s == \"d\")", &[]), "whether what it compares is written as in the files"),
        (predict("y ~ x + silo", "new.csv"), "name the silo of the rows (of a command `--predict NAME=FILE`)"),
        (predict("y ~ x + (1 | silo)", "of_all.csv"), "Write `all=of_all.csv`"),
        (
            gaussian("y ~ x", &["--output", "out", "--arviz", "--arviz-rows", "nosuch"]),
            "no silo is called `nosuch`, expected some of all",
        ),
        (gaussian("y ~ x", &["--method", "sfvi", "--draws", "10"]), "--draws is of --method nuts"),
        (gaussian("y ~ x", &["--method", "nuts", "--draws", "1"]), "draws"),
        (fit("surv(y + 1, status) ~ x", "weibull", "all.csv", &[]), "1 for what happened and 0 for what did not"),
        (
            fit("y ~ x", "cumulative", "all.csv", &["--parameter", "disc ~ x"]),
            "expected none: cumulative has no parameter",
        ),
        (vec!["init", "study", "y ~ (", "--family", "gaussian", "--silo", "a"], "reading the formula"),
        (vec!["coordinator"], "`partita init coordinator --link ADDRESS` writes it"),
        (vec!["silo", "--silo", "a.toml"], "`partita init silo NAME"),
        (vec!["keys", "silo", "nor th"], "letters, digits"),
        (vec!["init", "silo", "north", "--data", "all.csv", "--link", "foo"], "expected `host:port`"),
    ];
    for (arguments, words) in cases {
        let (is_done, text) = said(folder.path(), &arguments);
        assert!(!is_done && text.contains(words), "{arguments:?}: {text}");
        for other in ["learning rate", "nothing of it was used", "Did you mean `I`", "verdict"] {
            assert!(!text.contains(other), "{arguments:?}: {text}");
        }
    }
}

#[test]
fn columns_far_from_zero_with_slopes_of_groups_are_told_of_with_what_to_write() {
    let folder = small();
    let line = |row: usize| format!("{},{},g{}\n", row * 7 % 11, 2010 + row % 5, row / 5);
    let rows: String = (0..40).map(line).collect();
    std::fs::write(folder.path().join("years.csv"), format!("y,year,g\n{rows}")).unwrap();
    let of = |formula: &str| {
        let (is_done, text) = said(folder.path(), &["check", formula, "--family", "gaussian", "--silo", "years.csv"]);
        assert!(is_done, "{text}");
        text.contains("of its standard deviations from 0") && text.contains("Write `I(year - 2012)` in place of `year`")
    };
    assert!(of("y ~ year + (1 + year | g)"));
    assert!(!of("y ~ year + (1 | g)") && !of("y ~ I(year - 2012) + (1 + I(year - 2012) | g)"));
}

#[test]
fn zeros_that_no_row_has_are_told_of_before_the_fit() {
    let folder = small();
    let of = |outcome: &str, family: &str| {
        let formula = format!("{outcome} ~ x");
        let (is_done, text) = said(folder.path(), &["check", &formula, "--family", family, "--silo", "all.csv"]);
        assert!(is_done, "{text}");
        text.contains("is zero in no row of any silo")
    };
    assert!(of("y + 1", "hurdle_poisson") && of("y + 1", "zero_inflated_poisson") && of("y + 1", "hurdle_gamma"));
    assert!(!of("y", "hurdle_poisson") && !of("y + 1", "poisson"));
}

#[test]
fn a_number_that_is_known_from_its_usual_prior_alone_is_told_of_and_the_page_has_all_priors() {
    let folder = small();
    let fit = ["fit", "y ~ x", "--family", "student", "--silo", "all.csv", "--output", "out"];
    let (is_done, text) = said(folder.path(), &fit);
    let words = "gamma(2, 0.1), which was not stated, is nearly all that is known of it";
    assert!(is_done && text.contains(words) && text.contains("prior: nu ~ gamma(2, 0.1)"), "{text}");
    let (is_done, text) = said(folder.path(), &[&fit[..], &["--prior", "nu ~ gamma(2, 0.2)"]].concat());
    assert!(is_done && !text.contains(words), "{text}");
    let page = std::fs::read_to_string(folder.path().join("out/report.html")).unwrap();
    assert!(page.contains("What was known before the data") && page.contains("gamma(2, 0.2)"));
    let result = std::fs::read_to_string(folder.path().join("out/result.json")).unwrap();
    let result: serde_json::Value = serde_json::from_str(&result).unwrap();
    let of = |name: &str| result["priors"].as_array().unwrap().iter().find(|own| own["name"] == name).unwrap();
    assert_eq!(*of("nu"), serde_json::json!({ "name": "nu", "prior": "gamma(2, 0.2)", "source": "stated" }));
    assert!(
        of("x")["source"] == "usual" && text.contains(&format!("prior: x ~ {}\n", of("x")["prior"].as_str().unwrap()))
    );
}

#[test]
fn a_formula_is_sampled_and_what_is_asked_of_a_fit_is_asked_of_the_draws() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    // Twelve groups of five rows, with means that are three apart.
    let line = |row: usize| {
        let (group, x) = (row / 5, row % 5);
        let noise = ((group * 31 + x * 17) % 11) as f64 / 5.0;
        format!("{},{x},g{group}\n", 3.0 * (group * 7 % 12) as f64 + 0.5 * x as f64 + noise)
    };
    write("all.csv", &("y,x,s\n".to_owned() + &(0..60).map(line).collect::<String>()));
    write("new.csv", "x,s\n2,g3\n2,unseen\n");
    let asked = ["--output", "out", "--predict", "new.csv", "--contrast", "x: 1 - 0", "--fitted"];
    let fit = ["fit", "y ~ x + (1 | s)", "--family", "gaussian", "--silo", "all.csv"];
    let numbers = |text: &str, label: &str| {
        let line = text.lines().find(|line| line.starts_with(label)).unwrap_or_else(|| panic!("{label}: {text}"));
        let numbers = line[label.len()..].split_whitespace().map(|own| own.parse::<f64>().unwrap());
        numbers.take(2).collect::<Vec<_>>()
    };
    let predicted = || {
        let text = std::fs::read_to_string(folder.path().join("out/predicted.csv")).unwrap();
        let line = |text: &str| {
            let cells: Vec<&str> = text.split(',').collect();
            (cells[2].to_owned(), [3, 4].map(|place: usize| cells[place].parse::<f64>().unwrap()))
        };
        text.lines().skip(1).map(line).collect::<Vec<_>>()
    };
    let (is_done, fitted) = said(folder.path(), &[&fit[..], &asked].concat());
    assert!(is_done, "{fitted}");
    let of_fit = predicted();
    let (is_done, sampled) = said(
        folder.path(),
        &[&fit[..], &asked, &["--check-rows", "mean of y", "--arviz", "--method", "nuts", "--target-accept", "0.9"]]
            .concat(),
    );
    assert!(is_done && !sampled.contains("do not trust") && sampled.contains("R-hat"), "{sampled}");
    for label in ["x  ", "sigma  "] {
        let ([one, other], sd) = ([numbers(&fitted, label), numbers(&sampled, label)], numbers(&fitted, label)[1]);
        // A thousand draws that are worth a quarter: a fifth of a standard deviation.
        assert!((one[0] - other[0]).abs() < 0.2 * sd && (other[1] / sd - 1.0).abs() < 0.2, "{label} {one:?} {other:?}");
    }
    for ((groups, one), (of_draws, other)) in of_fit.into_iter().zip(predicted()) {
        assert_eq!(groups, of_draws);
        assert!((one[0] - other[0]).abs() < 0.3 * one[1], "{groups}: {one:?} {other:?}");
    }
    let read = |name: &str| std::fs::read_to_string(folder.path().join("out").join(name)).unwrap();
    assert!(
        folder.path().join("out/draws.zarr/sample_stats/diverging").is_dir() && sampled.contains("check: mean of y")
    );
    for name in ["posterior.csv", "contrasts.csv", "fitted.csv"] {
        assert!(read(name).lines().count() > 1, "{name}");
    }
    let (page, result) = (read("report.html"), read("result.json"));
    for words in
        ["These numbers are of draws of the posterior itself", "How each chain went", "Posterior predictive p-values"]
    {
        assert!(page.contains(words), "{words}");
    }
    assert!(
        !page.contains("left each silo") && result.contains("\"Sampled\"") && result.contains("\"bulk\""),
        "{result}"
    );
    // The report is read back as it was printed.
    let (is_done, again) = said(folder.path(), &["report", "out", "--html", "again.html"]);
    assert!(is_done && sampled.contains(again.split("\nthe page is").next().unwrap()), "{sampled}\n{again}");
    assert_eq!(std::fs::read_to_string(folder.path().join("again.html")).unwrap(), page);
}

#[test]
fn groups_of_one_name_in_two_files_are_told_of_with_what_to_write() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, prefix: &str| {
        let line = |row: usize| format!("{},{},{prefix}{}\n", row % 7, row % 5, row / 4);
        let rows: String = (0..40).map(line).collect();
        std::fs::write(folder.path().join(name), format!("y,x,ward\n{rows}")).unwrap();
    };
    let check = |more: &[&str]| {
        let files = ["--family", "gaussian", "--silo", "north.csv", "--silo", "south.csv"];
        let (is_done, text) = said(folder.path(), &[&["check", "y ~ x + (1 | ward)"], &files[..], more].concat());
        assert!(is_done, "{text}");
        text
    };
    write("north.csv", "w");
    write("south.csv", "w");
    let text = check(&[]);
    assert!(text.contains("`ward` has a group `w0` in silo `north` and in silo `south`"), "{text}");
    assert!(text.contains("`--across-silos ward`") && text.contains("groups_across_silos = [\"ward\"]"), "{text}");
    assert!(!check(&["--across-silos", "ward"]).contains("taken as different groups"));
    write("south.csv", "s");
    assert!(!check(&[]).contains("taken as different groups"));
}

#[test]
fn draws_of_a_sampler_have_the_verdict_of_their_report() {
    let folder = small();
    let fit = ["fit", "y ~ x", "--family", "gaussian", "--silo", "all.csv", "--output", "out", "--arviz"];
    // No normal outcome is zero, and some rows are.
    let sampled = ["--method", "nuts", "--draws", "500", "--check-rows", "zeros of y"];
    let (is_done, text) = said(folder.path(), &[&fit[..], &sampled].concat());
    assert!(is_done, "{text}");
    let verdict = text.lines().find_map(|line| line.strip_prefix("verdict: ")).unwrap();
    let draws = std::fs::read_to_string(folder.path().join("out/draws.zarr/zarr.json")).unwrap();
    assert!(verdict != "trust these numbers" && draws.contains(verdict), "{verdict}: {draws}");
}

#[test]
fn one_file_under_two_names_is_refused_and_a_copy_is_told_of() {
    let folder = small();
    std::fs::copy(folder.path().join("all.csv"), folder.path().join("copy.csv")).unwrap();
    let of = |other: &str| {
        let silos = ["--silo", "a=all.csv", "--silo", other];
        said(folder.path(), &[&["check", "y ~ x", "--family", "gaussian"], silos.as_slice()].concat())
    };
    let (is_done, text) = of("b=./all.csv");
    assert!(!is_done && text.contains("the file of the silo `a` and of the silo `b`"), "{text}");
    let (is_done, text) = of("b=copy.csv");
    assert!(is_done && text.contains("the silos `a` and `b` have the same bytes"), "{text}");
}

#[test]
fn an_outcome_that_never_happens_is_told_of() {
    let folder = tempfile::tempdir().unwrap();
    let of = |y: [u8; 2], formula: &str, family: &str| {
        for (name, y) in ["a", "b"].into_iter().zip(y) {
            let word = ["no", "yes"][usize::from(y)];
            let line = |k: u32| format!("{y},{},{},{word}\n", k * 3 % 7, k % 5 + 1 + u32::from(name == "b"));
            let rows: String = (0..12).map(line).collect();
            std::fs::write(folder.path().join(format!("{name}.csv")), format!("y,x,t,w\n{rows}")).unwrap();
        }
        let fixed = ["check", formula, "--family", family, "--silo", "a.csv", "--silo", "b.csv"];
        said(folder.path(), &fixed).1
    };
    let rule = "follows from the prior";
    for (y, formula, family, words) in [
        ([0, 0], "y ~ x", "bernoulli", "`y` is 0 in every row of all silos"),
        ([1, 1], "y ~ x", "bernoulli", "`y` is 1 in every row of all silos"),
        ([0, 0], "y ~ x", "poisson", "`y` is 0 in every row of all silos"),
        ([0, 0], "surv(t, y) ~ x", "weibull", "has no event in any silo"),
        ([0, 0], "factor(w, levels = c(\"no\", \"yes\")) ~ x", "bernoulli", "is \"no\" in every row of all silos"),
    ] {
        let text = of(y, formula, family);
        assert!(text.contains(words) && text.contains(rule), "{formula} {family}: {text}");
    }
    let text = of([0, 0], "surv(t, y) ~ x", "piecewise_exponential");
    assert!(text.contains("needs an event") && text.contains("No row of any silo has a status of 1"), "{text}");
    // One silo alone with no event is nothing to tell of.
    for (formula, family) in [("y ~ x", "bernoulli"), ("surv(t, y) ~ x", "weibull"), ("w ~ x", "bernoulli")] {
        let text = of([0, 1], formula, family);
        assert!(!text.contains(rule), "{formula} {family}: {text}");
    }
}

#[test]
fn keys_are_made_for_silos_of_the_study_alone() {
    let folder = tempfile::tempdir().unwrap();
    let study = "formula = \"y ~ x\"\nfamily = \"gaussian\"\nsilos = [\"north\", \"south\"]\n";
    std::fs::write(folder.path().join("study.toml"), study).unwrap();
    let silo = |name: &str| said(folder.path(), &["init", "silo", name, "--data", "own.csv", "--link", "l.example:1"]);
    let (is_done, text) = silo("west");
    assert!(!is_done && text.contains("expected one that study.toml lists, north, south"), "{text}");
    assert!(!folder.path().join("west.key").exists() && !folder.path().join("west.toml").exists());
    assert!(silo("north").0 && folder.path().join("north.key").exists());
}

#[test]
fn describe_names_codes_for_missing_cells() {
    let folder = tempfile::tempdir().unwrap();
    let rows = "40,1,0\n-999,2,99\n61,9999,98\n33,3,97\n47,2,60\n";
    std::fs::write(folder.path().join("all.csv"), format!("age,dose,score\n{rows}")).unwrap();
    let (is_done, text) = said(folder.path(), &["describe", "all.csv"]);
    for words in ["-999 is apart from all others", "--missing-cells NA,9999", "numbers from 0 to 99\n"] {
        assert!(is_done && text.contains(words), "{words}: {text}");
    }
}

#[test]
fn contrasts_of_one_factor_are_chosen_in_the_formula() {
    let folder = small();
    let of = |formula: &str, column: &str| {
        let (is_done, text) = said(folder.path(), &["check", formula, "--family", "gaussian", "--silo", "all.csv"]);
        assert!(is_done && text.contains(&format!("columns {column}")), "{text}");
    };
    of("y ~ C(s, sum)", "(Intercept), C(s, sum)1, C(s, sum)2");
    of("y ~ C(s, contr.treatment)", "(Intercept), C(s, contr.treatment)b, C(s, contr.treatment)c");
}

#[test]
fn units_and_codes_for_missing_cells_are_told_of_before_the_fit() {
    let folder = small();
    let told = |rows: &str| {
        std::fs::write(folder.path().join("doses.csv"), format!("y,dose,age\n{rows}")).unwrap();
        said(folder.path(), &["check", "y ~ dose + age", "--family", "gaussian", "--silo", "doses.csv"]).1
    };
    let found = told("1,2 mg,40\n0,4 mg,-999\n1,2 mg,61\n2,4 mg,33\n5,4 mg,47\n");
    fixtures::says(
        &found,
        &["`age` is -999 in 1 row (the first is line 3)", "`dose` has \"2 mg\"", "--missing-cells NA,-999"],
    );
    let fine = told("1,low,40\n0,1st,-9\n1,low,-61\n2,2nd,33\n5,1st,47\n");
    assert!(!fine.contains("`dose` has") && !fine.contains("`age` is"), "{fine}");
}
