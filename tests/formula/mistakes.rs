//! Runs the command on files and formulas as people write them: each fits, or fits once what the message says is done.

/// What a user gives: the file, the formula, the family, and more arguments.
#[derive(Debug, Clone, Copy)]
struct Given<'a> {
    file: &'a [u8],
    formula: &'a str,
    family: &'a str,
    more: &'a [&'a str],
}

/// What is said of it: how the command ends, and what it says.
fn run(given: Given<'_>) -> (bool, String) {
    run_as("fit", given)
}

fn run_as(task: &str, given: Given<'_>) -> (bool, String) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("clinic.csv"), given.file).unwrap();
    std::fs::write(folder.path().join("other.csv"), "y,x,s\n1,2,a\n3,1,d\n2,2,a\n").unwrap();
    let fixed = [task, given.formula, "--family", given.family, "--silo", "clinic.csv"];
    let done = fixtures::command(folder.path(), &[fixed.as_slice(), given.more].concat());
    let [out, wrong] = [&done.stdout, &done.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(!wrong.contains("panicked"), "{wrong}");
    (done.status.success(), out + &wrong)
}

/// Whether a run ended with a verdict and a table of numbers: of so few rows the verdict may be not to trust them.
fn is_fitted((is_done, said): &(bool, String)) -> bool {
    let lines = || said.lines().skip_while(|line| !line.starts_with("verdict: "));
    let first = lines().skip_while(|line| !line.starts_with("site ")).nth(1);
    *is_done && first.is_some_and(|line| !line.contains("NaN"))
}

const PLAIN: Given<'static> =
    Given { file: b"y,x,s\n1,2,a\n2,3,b\n4,1,a\n3,5,b\n", formula: "y ~ x", family: "gaussian", more: &[] };

#[test]
fn what_spreadsheets_write_is_read_as_it_is() {
    let latin = Given { file: b"y,stra\xdfe\n1,a\n2,b\n4,a\n", formula: "y ~ stra\u{df}e", ..PLAIN };
    let cases = [
        (
            "a byte order mark and Windows line ends",
            Given { file: b"\xef\xbb\xbfy,x\r\n1,2\r\n2,3\r\n4,1\r\n3,5\r\n", ..PLAIN },
        ),
        ("semicolons and decimal commas", Given { file: b"y;x\n1,5;2,5\n2,5;3,1\n4;5,2\n", ..PLAIN }),
        (
            "the same, said",
            Given { file: b"y;x\n1;2,5\n2;3,1\n4;5\n", more: &["--delimiter", ";", "--decimal", "comma"], ..PLAIN },
        ),
        ("tabs", Given { file: b"y\tx\n1\t2.5\n2\t3.1\n4\t5\n", more: &["--delimiter", "tab"], ..PLAIN }),
        ("quotes", Given { file: b"\"y\",\"x\"\n\"1\",\"2\"\n\"2\",\"3\"\n\"4\",\"5\"\n\"3\",\"1\"\n", ..PLAIN }),
        ("Latin-1", Given { more: &["--encoding", "latin1"], ..latin }),
        ("a level that one silo has alone", Given { formula: "y ~ s", more: &["--silo", "other.csv"], ..PLAIN }),
        (
            "a name with spaces",
            Given { file: b"y,body mass\n1,2\n2,3\n4,5\n3,1\n", formula: "y ~ `body mass`", ..PLAIN },
        ),
        ("keys with spaces", SPACED),
        ("one group a row, of counts", Given { family: "poisson", ..ALONE }),
    ];
    for (what, given) in cases {
        let found = run(given);
        assert!(is_fitted(&found), "{what}: {}", found.1);
        assert!(!found.1.contains("has one row"), "{what}: {}", found.1);
    }
}

/// Groups whose keys have spaces.
const SPACED: Given<'static> = Given {
    file: b"y,x,g\n1,2,a 1\n2,3,a 2\n4,1,b 1\n3,5,b 2\n2,2,a 1\n1,4,a 2\n5,2,b 1\n3,3,b 2\n",
    formula: "y ~ x + (1 | g)",
    ..PLAIN
};

/// Groups of one row each.
const ALONE: Given<'static> =
    Given { file: b"y,x,g\n0,2,a\n1,3,b\n2,5,c\n1,1,d\n3,4,e\n", formula: "y ~ x + (1 | g)", ..PLAIN };

#[test]
fn keys_with_spaces_are_as_many_groups_as_they_are_keys() {
    let (is_done, said) = run_as("check", SPACED);
    assert!(is_done && said.contains("8 rows, columns (Intercept), x, 4 groups of `g`"), "{said}");
}

#[test]
fn groups_of_one_row_are_told_of_where_rows_vary_as_their_groups_do() {
    let words = "every group of `g` has one row: sd((Intercept) | g) and sigma cannot be told apart";
    let found = run(ALONE);
    assert!(is_fitted(&found) && found.1.contains(words) && found.1.contains("Take `(1 | g)` out"), "{}", found.1);
    let told = |given: Given<'_>| {
        let (is_done, said) = run_as("check", given);
        assert!(is_done, "{given:?}: {said}");
        said.contains("has one row")
    };
    let positive = b"y,x,g\n2,2,a\n1,3,b\n2,5,c\n1,1,d\n3,4,e\n";
    assert!(told(ALONE) && told(Given { file: positive, family: "lognormal", ..ALONE }));
    // What the message says: the term is out, or groups have rows.
    let done = Given { formula: "y ~ x", ..ALONE };
    assert!(is_fitted(&run(done)) && !told(done) && !told(SPACED));
    // Rows that vary otherwise than groups do.
    let varied = Given { more: &["--parameter", "sigma ~ x"], ..ALONE };
    let weighted = Given { formula: "y | weights(x) ~ 1 + (1 | g)", ..ALONE };
    assert!(!told(Given { family: "poisson", ..ALONE }) && !told(varied) && !told(weighted));
}

/// What is wrong, the words of the message that say where and what to do, and the same with that done.
struct Mistake<'a> {
    given: Given<'a>,
    words: &'a [&'a str],
    done: Given<'a>,
}

#[test]
fn every_mistake_is_mended_by_what_its_message_says() {
    let text = b"y,x\n1,2\n2,three\n3,3\n5,4\n";
    let absent = b"y,x\n1,2\n2,NA\n3,4\n4,.\n5,1\n7,5\n";
    let collinear = Given { file: b"y,x,z\n0,2,4\n1,3,6\n2,5,10\n1,1,2\n", formula: "y ~ x + z", ..PLAIN };
    let dates = b"y,d\n1,2020-01-03\n2,2020-02-03\n3,2020-01-03\n5,2020-02-03\n2,2020-02-03\n";
    let dates = Given { file: dates, formula: "y ~ d", ..PLAIN };
    let latin = Given { file: b"y,s\n1,Z\xfcrich\n2,b\n4,b\n3,Z\xfcrich\n", formula: "y ~ s", ..PLAIN };
    let survival = Given { formula: "surv(y, s) ~ x", family: "weibull", ..PLAIN };
    let spaces = Given { file: b"y,body mass\n1,2\n2,3\n4,5\n3,1\n", formula: "y ~ body mass", ..PLAIN };
    let counts = Given { file: b"y,x\n0,2\n1,3\n2,3\n1,5\n", family: "bernoulli", ..PLAIN };
    let mistakes = [
        Mistake {
            given: Given { formula: "y ~ xx", ..PLAIN },
            words: &["clinic.csv: no column `xx`. Did you mean `x`?", "y ~ xx\n      ^^"],
            done: PLAIN,
        },
        Mistake {
            given: Given { file: text, ..PLAIN },
            words: &["line 3: \"three\"", "Correct these cells"],
            done: Given { file: b"y,x\n1,2\n2,3\n3,3\n5,4\n", ..PLAIN },
        },
        Mistake {
            given: Given { file: b"y,x,x\n1,2,3\n2,3,3\n3,3,1\n", ..PLAIN },
            words: &["column name `x` occurs twice, as columns 2 and 3", "Rename one of them in the first line"],
            done: Given { file: b"y,x,x2\n1,2,3\n2,3,3\n3,3,1\n", ..PLAIN },
        },
        Mistake {
            given: Given { file: b"Wheeze by age; all clinics\ny,x\n1,2\n2,3\n5,4\n", ..PLAIN },
            words: &[
                "found \"Wheeze by age; all clinics\", expected names of columns",
                "\"y,x\". Take out what is above the names",
            ],
            done: Given { file: b"y,x\n1,2\n2,3\n5,4\n", ..PLAIN },
        },
        Mistake {
            given: Given { file: b"y,x\n1;5,2\n2;3,1\n5;4,0\n", ..PLAIN },
            words: &["found ',' between the names of columns, expected ';'", "Write the first line as `y;x`"],
            done: Given { file: b"y;x\n1;5,2\n2;3,1\n5;4,0\n", ..PLAIN },
        },
        Mistake {
            given: Given { file: b"y,x\na,1,2\nb,2,3\nc,5,4\n", ..PLAIN },
            words: &["found 2 names of columns, expected 3", "Write the first line as `row,y,x`"],
            done: Given { file: b"row,y,x\na,1,2\nb,2,3\nc,5,4\n", ..PLAIN },
        },
        Mistake {
            given: Given { formula: "y ~ x + (1 | s", ..PLAIN },
            words: &["expected an operator or `)`", "y ~ x + (1 | s\n                ^"],
            done: Given { formula: "y ~ x + (1 | s)", ..PLAIN },
        },
        Mistake { given: Given { file: b"", ..PLAIN }, words: &["found nothing", "Check the export"], done: PLAIN },
        Mistake { given: Given { file: b"y,x\n", ..PLAIN }, words: &["column names but no rows"], done: PLAIN },
        Mistake {
            given: counts,
            words: &["found 2 in line 4 in `y` of clinic, expected 0 or 1", "take a family that has such outcomes"],
            done: Given { family: "poisson", ..counts },
        },
        Mistake {
            given: collinear,
            words: &["`z` is 2 times `x`", "Take one of them out of the formula", "y ~ x + z\n          ^"],
            done: Given { formula: "y ~ x", ..collinear },
        },
        Mistake {
            given: Given { file: b"y,s,x\n0,1,1\n2,1,0\n3,0,1\n", ..survival },
            words: &[
                "`y` is 0 in line 2, expected a time above zero",
                "count from an earlier day",
                "surv(y, s) ~ x\n       ^",
            ],
            done: Given { file: b"y,s,x\n1,1,1\n3,1,0\n4,0,1\n", ..survival },
        },
        Mistake {
            given: latin,
            words: &["line 2, character 4, column `s`", "of a command `--encoding latin1`"],
            done: Given { more: &["--encoding", "latin1"], ..latin },
        },
        Mistake {
            given: dates,
            words: &["column `d`, line 2: \"2020-01-03\": found a date", "write `factor(d)`"],
            done: Given { formula: "y ~ factor(d)", ..dates },
        },
        Mistake {
            given: Given { file: absent, ..PLAIN },
            words: &["line 5: \".\"", "of a command `--missing-cells`"],
            done: Given { file: absent, more: &["--missing-cells", "NA,.", "--drop-missing"], ..PLAIN },
        },
        Mistake {
            given: Given { file: b"y,x\n1,2\n2,NA\n3,4\n9,1\n", ..PLAIN },
            words: &["1 of 4 rows have missing cells: column `x` 1 (first in line 3)", "of a command `--drop-missing`"],
            done: Given { file: b"y,x\n1,2\n2,NA\n3,4\n9,1\n", more: &["--drop-missing"], ..PLAIN },
        },
        Mistake {
            given: spaces,
            words: &["found `mass`", "a name with spaces stands in backquotes", "y ~ body mass\n           ^^^^"],
            done: Given { formula: "y ~ `body mass`", ..spaces },
        },
        Mistake {
            given: Given { file: b"y,x\n1,1.5\n2,2.5\n3,1,5\n", ..PLAIN },
            words: &["line 4 has 3", "in quotes"],
            done: Given { file: b"y,x\n1,1.5\n2,2.5\n3,1.5\n", ..PLAIN },
        },
        Mistake {
            given: Given { more: &["--prior", "xx ~ normal(0, 1)"], ..PLAIN },
            words: &["a prior of `xx`", "Did you mean `x`?"],
            done: Given { more: &["--prior", "x ~ normal(0, 1)"], ..PLAIN },
        },
        Mistake {
            given: Given { more: &["--across-silos", "g"], formula: "y ~ x + (1 | s)", ..PLAIN },
            words: &["`g`", "s, x"],
            done: Given { more: &["--across-silos", "s"], formula: "y ~ x + (1 | s)", ..PLAIN },
        },
        Mistake {
            given: Given { more: &["--delimiter", ";;"], ..PLAIN },
            words: &["expected one character, such as ';', or tab"],
            done: Given { more: &["--delimiter", ","], ..PLAIN },
        },
    ];
    for Mistake { given, words, done } in mistakes {
        let (is_done, said) = run(given);
        assert!(!is_done, "{given:?} ran");
        fixtures::says(&said, words);
        let found = run(done);
        assert!(is_fitted(&found), "{done:?}: {}", found.1);
    }
}

#[test]
fn one_bad_cell_in_a_million_rows_is_named_by_its_line_in_seconds() {
    let mut file = "y,x\n".to_owned();
    for row in 0..1_000_000_u32 {
        file += match row {
            765_432 => "1,1O\n",
            _ if row % 2 == 0 => "1,10\n",
            _ => "2,12\n",
        };
    }
    let begun = std::time::Instant::now();
    let (is_done, said) = run(Given { file: file.as_bytes(), formula: "y ~ x", family: "gaussian", more: &[] });
    // The first line has the names, and rows count from 0.
    assert!(
        !is_done && said.contains("has 999999 numbers and 1 other cell,") && said.contains("line 765434: \"1O\""),
        "{said}"
    );
    assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
}
