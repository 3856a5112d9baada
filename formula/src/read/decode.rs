//! Turns the bytes of a file into text: UTF-8 with or without a mark, UTF-16 with one, Latin-1 where it is said.

use std::borrow::Cow;

use super::error::FrameProblem;
use super::frame::Encoding;

/// The text of `bytes`, the content of a file.
pub(super) fn decode(bytes: &[u8], encoding: Encoding) -> Result<Cow<'_, str>, FrameProblem> {
    let words = |order: fn([u8; 2]) -> u16| {
        let words: Vec<u16> = bytes.as_chunks().0.iter().skip(1).map(|pair| order(*pair)).collect();
        Cow::Owned(String::from_utf16_lossy(&words))
    };
    match (bytes, encoding) {
        // An archive as of xlsx and ods, or an older workbook.
        ([b'P', b'K', 3, 4, ..] | [0xd0, 0xcf, 0x11, 0xe0, ..], _) => Err(FrameProblem::Workbook),
        ([0xff, 0xfe, ..], _) => Ok(words(u16::from_le_bytes)),
        ([0xfe, 0xff, ..], _) => Ok(words(u16::from_be_bytes)),
        (_, Encoding::Latin1) => Ok(bytes.iter().map(|byte| char::from(*byte)).collect::<String>().into()),
        ([0xef, 0xbb, 0xbf, rest @ ..], _) => utf8(rest),
        _ => utf8(bytes),
    }
}

fn utf8(bytes: &[u8]) -> Result<Cow<'_, str>, FrameProblem> {
    let Err(error) = std::str::from_utf8(bytes) else { return Ok(String::from_utf8_lossy(bytes)) };
    let (before, rest) = bytes.split_at(error.valid_up_to());
    let before = String::from_utf8_lossy(before);
    let line = before.matches('\n').count() + 1;
    let in_line = before.rsplit('\n').next().unwrap_or_default();
    let delimiters = [',', ';', '\t'];
    let cell = in_line.rsplit(delimiters).next().unwrap_or_default();
    let number = in_line.matches(delimiters).count();
    let header = before.lines().next().filter(|_| line > 1).unwrap_or_default();
    let name = header.split(delimiters).nth(number).map(|name| name.trim_matches(['"', ' ']).to_owned());
    let name = name.filter(|name| !name.is_empty());
    Err(FrameProblem::Encoding {
        line,
        character: in_line.chars().count() + 1,
        column: name.unwrap_or_else(|| (number + 1).to_string()),
        byte: rest.first().copied().unwrap_or_default(),
        before: cell.trim_start_matches('"').into(),
    })
}
