//! Claims about what commands say: to a reader who leaves, of a mistake before anything is fitted, and of one file.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::command::{folder, partita};
use fixtures::visits::FORMULA;
use partita::executables::StudyFile;

/// What a command says on standard output and on standard error, and whether it ends well.
#[track_caller]
fn said(folder: &Path, arguments: &[&str]) -> (bool, String) {
    let done = partita(folder, arguments);
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
    let fit = ["fit", "y ~ x", "--family", "gaussian", "--silo", "all.csv", "--output", "out", "--method", "sfvi"];
    let (is_done, text) = said(folder.path(), &fit);
    assert!(is_done, "{text}");
    assert!(
        std::fs::read_to_string(folder.path().join("out/result.json")).unwrap().contains("\"algorithm\": \"Sfvi\"")
    );
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
    let own = study("x = \"years\"");
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
    // Another unit is another study.
    let other = study("x = \"months\"");
    assert_ne!(own, other);
    study("dose = \"mg\"");
    let (is_done, text) = said(folder.path(), &["fit", "--study", "study.toml", "--silo", "all.csv"]);
    assert!(!is_done && text.contains("no column `dose` in all.csv") && text.contains("in mg"), "{text}");
    // A silo that refuses what the study needs does not start.
    study("x = \"years\"");
    write(
        "all.toml",
        "name = \"all\"\ndata = \"all.csv\"\nstate = \"state\"\nrefuse = [\"rows\"]\n[engine]\naddress = \"127.0.0.1:1\"\n",
    );
    let (is_done, text) = said(folder.path(), &["silo", "--silo", "all.toml"]);
    assert!(!is_done && text.contains("found `rows`") && text.contains("do not take part"), "{text}");
}

#[test]
fn mistakes_of_the_command_line_are_named_with_what_it_can_do() {
    let folder = small();
    let file = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
    file("constant.csv", b"y,x\n3,1\n3,2\n3,4\n3,3\n");
    file("thousands.csv", b"y;x\n1,500;2\n2,250;3\n4,125;5\n");
    file("book.csv", b"PK\x03\x04\x14\x00\x06\x00\xff\xfe");
    let fit = |formula: &'static str, family: &'static str, silo: &'static str, more: &[&'static str]| {
        [&["fit", formula, "--family", family, "--silo", silo], more].concat()
    };
    let gaussian = |formula, more: &[&'static str]| fit(formula, "gaussian", "all.csv", more);
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
        (fit("surv(y + 1, status) ~ x", "weibull", "all.csv", &[]), "1 for what happened and 0 for what did not"),
        (
            fit("y ~ x", "cumulative", "all.csv", &["--parameter", "disc ~ x"]),
            "expected none: cumulative has no parameter",
        ),
        (vec!["init", "study", "y ~ (", "--family", "gaussian", "--silo", "a"], "reading the formula"),
        (vec!["coordinator"], "`partita init coordinator --link ADDRESS` writes it"),
        (vec!["silo", "--silo", "a.toml"], "`partita init silo NAME"),
        (vec!["keys", "silo", "nor th"], "letters, digits"),
        (vec!["init", "silo", "north", "--data", "all.csv", "--link", "foo"], "an address with a port"),
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
fn contrasts_of_one_factor_are_chosen_in_the_formula() {
    let folder = small();
    let of = |formula: &str, column: &str| {
        let (is_done, text) = said(folder.path(), &["check", formula, "--family", "gaussian", "--silo", "all.csv"]);
        assert!(is_done && text.contains(&format!("columns {column}")), "{text}");
    };
    of("y ~ C(s, sum)", "(Intercept), C(s, sum)1, C(s, sum)2");
    of("y ~ C(s, contr.treatment)", "(Intercept), C(s, contr.treatment)b, C(s, contr.treatment)c");
}
