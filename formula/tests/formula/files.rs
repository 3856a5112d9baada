//! Reads files as people make them, and holds the messages of bad ones to file, line, column and remedy.

use partita_formula::{
    ColumnKind, Columns, Decimal, Encoding, Formula, Frame, FrameError, FrameProblem, MissingCells, ReadOptions,
};
use proptest::prelude::*;

/// The columns of `bytes` that `formula` uses.
fn columns(bytes: &[u8], formula: &str) -> Result<Columns, FrameError> {
    columns_with(bytes, formula, ReadOptions::default(), MissingCells::Refuse)
}

fn columns_with(
    bytes: &[u8],
    formula: &str,
    options: ReadOptions,
    missing: MissingCells,
) -> Result<Columns, FrameError> {
    let formula = Formula::parse(formula).unwrap();
    Frame::from_bytes("north.csv", bytes, options)?.columns("north", &[&formula], missing)
}

fn kinds(bytes: &[u8], formula: &str, names: &[&str]) -> Vec<ColumnKind> {
    let columns = columns(bytes, formula).unwrap();
    names.iter().map(|name| columns.kind(name).unwrap()).collect()
}

use ColumnKind::{Logical, Number, Text};

#[test]
fn a_file_is_read_alike_however_a_spreadsheet_wrote_it() {
    let plain = "y,x,f\n1.5,2,a\n2.5,3,b\n";
    let expected = columns(plain.as_bytes(), "y ~ x + f").unwrap();
    let mut utf16 = vec![0xff, 0xfe];
    utf16.extend(plain.encode_utf16().flat_map(u16::to_le_bytes));
    let mut big_endian = vec![0xfe, 0xff];
    big_endian.extend(plain.encode_utf16().flat_map(u16::to_be_bytes));
    let written: [&[u8]; 9] = [
        "\u{feff}y,x,f\n1.5,2,a\n2.5,3,b\n".as_bytes(),
        b"y;x;f\r\n1,5;2;a\r\n2,5;3;b\r\n",
        b"y;x;f\n1.5;2;a\n2.5;3;b\n",
        b"y\tx\tf\n1.5\t2\ta\n2.5\t3\tb\n",
        b"\"y\",\"x\",\"f\"\n\"1.5\",\"2\",\"a\"\n\"2,5\",\"3\",\"b\"\n".as_slice(),
        b"y, x, f\n 1.5 ,2, a\n2.5,3,b",
        b"y|x|f\n1.5|2|a\n2.5|3|b\n",
        &utf16,
        &big_endian,
    ];
    for (index, bytes) in written.into_iter().enumerate() {
        if index == 4 {
            // One cell with a point and one with a comma have no one reading.
            let found = columns(bytes, "y ~ x + f");
            assert!(matches!(found, Err(FrameError::File { problem: FrameProblem::Mixed { .. }, .. })));
            continue;
        }
        let found = columns(bytes, "y ~ x + f").unwrap();
        assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{}", String::from_utf8_lossy(bytes));
    }
    assert!(columns("\u{feff}\"y,\",x\n1.5,2\n".as_bytes(), "`y,` ~ x").is_ok());
    assert_eq!(columns(b"y,x,f\r1.5,2,a\r2.5,3,b\r", "y ~ x + f").unwrap().rows(), 2);
}

#[test]
fn columns_have_the_types_that_their_cells_show() {
    let text = b"y,x,flag,sex,id,grade\n1,1e3,TRUE,F,007,1\n-2,.5,false,F,7,2+\n3,+1,true,F,8,low\n";
    let formula = "y ~ x + flag + sex + (1 | id) + grade";
    assert_eq!(
        kinds(text, formula, &["y", "x", "flag", "sex", "id", "grade"]),
        [Number, Number, Logical, Text, Number, Text]
    );
    let latin = ReadOptions { encoding: Encoding::Latin1, ..ReadOptions::default() };
    let columns = columns_with(b"y,city\n1,Z\xfcrich\n2,Bern\n", "y ~ city", latin, MissingCells::Refuse).unwrap();
    assert_eq!(columns.kind("city"), Some(Text));
}

#[test]
fn missing_cells_are_refused_with_counts_or_dropped_when_asked() {
    let text = b"y,x,f,unused\n1,NA,a,\n2,3,,NA\n3,4,b,NA\n,5,b,\nNaN,?,b,1\n";
    let expected = "reading north.csv: 4 of 5 rows have missing cells: column `y` 2 (first in line 5), column `x` 2 (first in line 2), column `f` 1 (first in line 3). Fill them in, or say `missing = \"drop\"` (of a command `--drop-missing`) to leave these rows out.";
    assert_eq!(columns(text, "y ~ x + f").unwrap_err().to_string(), expected);
    let dropped = columns_with(text, "y ~ x + f", ReadOptions::default(), MissingCells::Drop).unwrap();
    assert_eq!((dropped.rows(), dropped.dropped()), (1, 4));
    let none = columns_with(b"y,x\n1,NA\nNA,2\n", "y ~ x", ReadOptions::default(), MissingCells::Drop).unwrap_err();
    assert!(none.to_string().contains("each of the 2 rows has a missing cell"), "{none}");
    let words = ReadOptions { missing: vec!["-9".into(), ".".into()], ..ReadOptions::default() };
    assert_eq!(columns_with(b"y,x\n1,.\n-9,2\n3,4\n", "y ~ x", words, MissingCells::Drop).unwrap().rows(), 1);
}

#[test]
fn without_the_rows_that_are_dropped_a_file_is_the_one_without_these_rows() {
    let (text, kept) = ("y,x,f\n1,2,a\nNA,3,b\n3,4,c\n4,5,\n5,6,c\n", "y,x,f\n1,2,a\n3,4,c\n5,6,c\n");
    let dropped = columns_with(text.as_bytes(), "y ~ x + f", ReadOptions::default(), MissingCells::Drop).unwrap();
    let expected = columns(kept.as_bytes(), "y ~ x + f").unwrap();
    // Lines and places are those in the file that there is.
    let rows = |columns: &Columns| {
        format!("{columns:?}").replace("[2, 4, 6]", "[2, 3, 4]").replace("numbers: [1, 3, 5]", "numbers: [1, 2, 3]")
    };
    assert_eq!(rows(&dropped).split("dropped").next(), rows(&expected).split("dropped").next());
}

#[test]
fn twenty_bad_files_say_where_and_what_to_do() {
    let cases: [(&[u8], &str, &str); 32] = [
        (b"", "y ~ x", "found nothing, expected a line of column names"),
        (b"y,x\n", "y ~ x", "found column names but no rows"),
        (b"sep=;\r\ny;x\r\n1;2\r\n", "y ~ x", "line 1: found \"sep=;\", expected names of columns. Take this line out"),
        (b"y,x,x\n1,2,3\n", "y ~ x", "column name `x` occurs twice, as columns 2 and 3"),
        (
            b"y,x\n1,2\n3,4,5\n6,7\n",
            "y ~ x",
            "reading north.csv: line 3 has 3 cells, expected 2 as in the first line. Put a cell",
        ),
        (
            b"Wheeze by age; all clinics\n\ny,x\n1,2\n3,4\n",
            "y ~ x",
            "line 1: found \"Wheeze by age; all clinics\", expected names of columns, which are below it: \"y,x\". Take out what is above",
        ),
        (
            b"Wheeze,,\ny,x,z\n1,2,a\n3,4,b\n",
            "y ~ x",
            "line 1: found \"Wheeze,,\", expected names of columns, which are below it: \"y,x,z\"",
        ),
        (
            b"y,x\n1;5,2\n2;6\n",
            "y ~ x",
            "line 1: found ',' between the names of columns, expected ';' as in the lines below it, such as \"1;5,2\". Write the first line as `y;x`; if it is right, say `delimiter = \",\"` (of a command `--delimiter ','`).",
        ),
        (b"y;x\n1,5\n2,6\n", "y ~ x", "line 1: found ';' between the names of columns, expected ','"),
        (
            b"y,x\nann,1,5\nbea,2,6\n",
            "y ~ x",
            "line 1: found 2 names of columns, expected 3: each line below has one cell more. Write the first line as `row,y,x`",
        ),
        (b"y,x,,\n1,2,3,4\n", "y ~ x", "line 1: found no name for the columns 3, 4, expected one for each"),
        (b"y,x\n1,2\n3\n4,5,6\n", "y ~ x", "line 3 has 1 cell; line 4 has 3 cells, expected 2 as in the first line"),
        (b"1,2\n3,4\n", "y ~ x", "line 1: found [\"1\", \"2\"], expected names of columns. Add a first line"),
        (
            b"y,smoke\n1,2\n",
            "y ~ smok",
            "no column `smok`. Did you mean `smoke`? The file has: y, smoke.\n  y ~ smok\n      ^^^^",
        ),
        (b"y,Smoke\n1,2\n", "y ~ smoke", "Did you mean `Smoke`?"),
        (b"y,x\n1,2\n", "y ~ temperature", "no column `temperature`. The file has: y, x."),
        (
            b"y,x\n1,2\n2,three\n3,4\n",
            "y ~ x",
            "column `x` has 2 numbers and 1 other cell, expected numbers alone: line 3: \"three\". Correct these cells, write NA where there is no value or name their word in `missing` (of a command `--missing-cells`), or write `factor(x)`",
        ),
        (b"y,x\n1,2\n2,inf\n3,4\n", "y ~ x", "line 3: \"inf\""),
        (b"y,x\n1,2\n2,N/A\n3,4\n", "y ~ x", "line 3: \"N/A\""),
        (
            b"y,city\n1,Bern\n",
            "y ~ log(city)",
            "column `city`, line 2: \"Bern\": found text, expected a number. Make a column of numbers in the file, such as 1 for what happened and 0 for what did not.\n  y ~ log(city)\n          ^^^^",
        ),
        (
            b"y,born\n1,2001-05-31\n2,2002-01-01\n",
            "y ~ born",
            "column `born`, line 2: \"2001-05-31\": found a date, expected a number or a level. Make a column of days",
        ),
        (b"y,born\n1,31.05.2001\n2,1.1.2002\n", "y ~ born", "found a date"),
        (b"y,seen\n1,5/31/01 12:00\n2,1/1/02 9:30\n", "y ~ seen", "found a date"),
        (
            b"y;x\n1;1,500\n2;2,250\n",
            "y ~ x",
            "column `x`, line 2: \"1,500\": the comma may be that of decimals or of thousands. Say `decimal = \"comma\"`",
        ),
        (b"y;x\n1;1.234,5\n2;2\n3;4\n", "y ~ x", "line 2: \"1.234,5\""),
        (
            b"y;x\n1;1.234,5\n2;2.100,0\n3;850,5\n",
            "y ~ x",
            "column `x` has 0 numbers and 3 other cells, expected numbers alone: line 2: \"1.234,5\"",
        ),
        (
            b"y;x\n12,5;1.234\n13,1;950\n",
            "y ~ x",
            "column `x`, line 2: \"1.234\": the point may be that of decimals or of thousands. Say `decimal = \"point\"` (of a command `--decimal point`), or take the points out",
        ),
        (
            b"y,city\n1,Bern\n2,Z\xfcrich\n",
            "y ~ city",
            "line 3, character 4, column `city`: found the byte 0xfc after \"Z\", expected UTF-8. Save the file as UTF-8, or say `encoding = \"latin1\"`",
        ),
        (b"y,gr\xf6sse\n1,2\n", "y ~ x", "line 1, character 5, column `2`"),
        (b"a,b;c,d\n1,2;3,4\n", "a ~ b", "line 1: found ',' and ';', expected one of them"),
        (b"y,x\n1,\"2\n3,4\n", "y ~ x", "line 2: a quote opens a cell that goes on"),
        (b"y,x\n1,\"2\n3,4\"\n5,6\n", "y ~ x", "line 2: a quote opens a cell that goes on"),
    ];
    for (bytes, formula, expected) in cases {
        let message = columns(bytes, formula).map(|_| String::new()).unwrap_or_else(|error| error.to_string());
        assert!(message.contains(expected), "{}: {message}", String::from_utf8_lossy(bytes));
        assert!(message.contains("north.csv"), "{message}");
    }
    let missing = Frame::from_path("nowhere.csv", ReadOptions::default()).unwrap_err().to_string();
    assert!(missing.contains("nowhere.csv"), "{missing}");
}

#[test]
fn what_an_owner_says_decides_what_a_file_leaves_open() {
    let comma = ReadOptions { decimal: Decimal::Comma, ..ReadOptions::default() };
    assert!(columns_with(b"y;x\n1;1,500\n2;2,250\n", "y ~ x", comma, MissingCells::Refuse).is_ok());
    let point = ReadOptions { decimal: Decimal::Point, ..ReadOptions::default() };
    assert!(columns_with(b"y;x\n12;1.234\n13;1.5\n", "y ~ x", ReadOptions::default(), MissingCells::Refuse).is_ok());
    assert!(columns_with(b"y;x\n12;1.234\n13;950\n", "y ~ x", point.clone(), MissingCells::Refuse).is_ok());
    assert!(columns_with(b"y;x\n1;1,5\n2;2\n", "y ~ x", point, MissingCells::Refuse).is_err());
    let read = |text: &str| serde_json::from_str::<ReadOptions>(text).map_err(|error| error.to_string());
    assert!(read(r#"{"delimiter": "é"}"#).unwrap_err().contains("the delimiter is 'é', expected an ASCII character"));
    assert!(read(r#"{"separator": ";"}"#).unwrap_err().contains("unknown field `separator`"));
    let grade = b"y,grade\n1,1\n2,2\n3,3+\n";
    assert!(columns(grade, "y ~ grade").is_err());
    assert!(columns(grade, "y ~ factor(grade)").is_ok());
    assert!(columns(grade, "y ~ 1 + (1 | grade)").is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_panic(
        words in proptest::collection::vec(proptest::sample::select(vec![
            "y", "x", ",", ",", ";", "\t", "\n", "\n", "\r\n", "\r", "\"", " ", "1", "2.5", "1,5", "NA", "-", "a", "TRUE", "2020-01-01", "\u{feff}", "é",
        ]), 0..40),
        noise in proptest::collection::vec(any::<u8>(), 0..4),
    ) {
        let bytes: Vec<u8> = b"y,x\n1,2\n".iter().copied().chain(words.concat().into_bytes()).chain(noise).collect();
        for bytes in [&bytes[..], &bytes[8..]] {
            for missing in [MissingCells::Refuse, MissingCells::Drop] {
                let _ = columns_with(bytes, "y ~ x + factor(x)", ReadOptions::default(), missing);
                let _ = columns_with(bytes, "y ~ log(x)", ReadOptions { encoding: Encoding::Latin1, ..ReadOptions::default() }, missing);
            }
        }
    }
}
