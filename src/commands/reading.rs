//! Says how CSV files are read where they do not show it.

use crate::formula::{Decimal, Delimiter, Encoding, ReadOptions};
use clap::{Args, ValueEnum};

/// How files are read.
#[derive(Args, Debug)]
pub(super) struct Reading {
    /// Leaves rows with missing cells out; without it they are refused.
    #[arg(long)]
    pub(super) drop_missing: bool,
    /// The words for a missing cell, with commas between them; an empty cell is one of them always.
    #[arg(long, value_delimiter = ',', value_name = "WORDS")]
    missing_cells: Option<Vec<String>>,
    /// The mark before decimals, where the cells of a column do not show it.
    #[arg(long)]
    decimal: Option<Mark>,
    /// The character between columns, where the first line does not show it; `tab` is one of them.
    #[arg(long, value_parser = delimiter)]
    delimiter: Option<Delimiter>,
    /// How characters are written as bytes.
    #[arg(long)]
    encoding: Option<Bytes>,
}

#[derive(ValueEnum, Debug, Clone, Copy)]
enum Mark {
    Point,
    Comma,
}

#[derive(ValueEnum, Debug, Clone, Copy)]
enum Bytes {
    Unicode,
    Latin1,
}

fn delimiter(text: &str) -> Result<Delimiter, String> {
    let mut characters = if text == "tab" { "\t".chars() } else { text.chars() };
    match (characters.next(), characters.next()) {
        (Some(one), None) => Delimiter::try_from(one).map_err(|error| error.to_string()),
        _ => Err("expected one character, such as ';', or tab".into()),
    }
}

impl Reading {
    pub(super) fn options(&self) -> ReadOptions {
        let usual = ReadOptions::default();
        let words = self.missing_cells.clone();
        ReadOptions {
            encoding: match self.encoding {
                Some(Bytes::Latin1) => Encoding::Latin1,
                Some(Bytes::Unicode) | None => Encoding::Unicode,
            },
            delimiter: self.delimiter.unwrap_or_default(),
            decimal: match self.decimal {
                Some(Mark::Point) => Decimal::Point,
                Some(Mark::Comma) => Decimal::Comma,
                None => Decimal::AsFound,
            },
            missing: words.map_or(usual.missing, |words| words.into_iter().chain([String::new()]).collect()),
        }
    }
}
