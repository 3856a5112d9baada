//! Reads the NumPy format inside an npz archive: a header that is a Python dictionary, then one byte a cell.
//!
//! The crate `npyz` would bring 25 more, a parser generator among them, for one type of array.

use crate::dataset::{DatasetError, zip};

const MAGIC: &[u8] = b"\x93NUMPY";

/// The entry of an npz archive that holds an array saved without a name.
const ENTRY: &str = "arr_0.npy";

/// The lengths of the axes and the cells of the array of unsigned bytes in an npz archive; `file` is its name in
/// errors.
pub(super) fn read_npz<const AXES: usize>(file: &str, bytes: &[u8]) -> Result<([usize; AXES], Vec<u8>), DatasetError> {
    let array = zip::entry(file, bytes, ENTRY)?;
    let wrong = |found: String, expected: &str| DatasetError::format(format!("{file}, {ENTRY}"), found, expected);
    let short = || wrong(format!("{} bytes", array.len()), "a whole array in the NumPy format");
    // Version 1 has a header length of two bytes, versions 2 and 3 of four.
    let version = *array.get(MAGIC.len()).filter(|_| array.starts_with(MAGIC)).ok_or_else(short)?;
    let digits = if version == 1 { 2 } else { 4 };
    let at = MAGIC.len() + 2;
    let length = array.get(at..at + digits).ok_or_else(short)?;
    let length = length.iter().rev().fold(0, |number: usize, digit| number << 8 | usize::from(*digit));
    let header = array.get(at + digits..).and_then(|rest| rest.get(..length)).ok_or_else(short)?;
    let header = String::from_utf8_lossy(header);
    if value(&header, "descr") != Some("'|u1'") || value(&header, "fortran_order") != Some("False") {
        return Err(wrong(header.trim().into(), "unsigned bytes ('|u1') in C order"));
    }
    let sizes: Option<Vec<usize>> = value(&header, "shape").and_then(|shape| {
        let inner = shape.strip_prefix('(')?.strip_suffix(')')?;
        inner.split(',').map(str::trim).filter(|size| !size.is_empty()).map(|size| size.parse().ok()).collect()
    });
    let sizes: [usize; AXES] = sizes
        .and_then(|sizes| sizes.try_into().ok())
        .ok_or_else(|| wrong(header.trim().into(), &format!("a shape of {AXES} axes")))?;
    let cells = array[at + digits + length..].to_vec();
    if sizes.iter().try_fold(1_usize, |product, size| product.checked_mul(*size)) != Some(cells.len()) {
        return Err(wrong(format!("{} bytes after the header", cells.len()), &format!("the product of {sizes:?}")));
    }
    Ok((sizes, cells))
}

/// The text of `key` in a flat Python dictionary: up to the comma outside parentheses that ends it.
fn value<'a>(header: &'a str, key: &str) -> Option<&'a str> {
    let rest = header.split_once(&format!("'{key}':"))?.1.trim_start();
    let end = if rest.starts_with('(') { rest.find(')')? + 1 } else { rest.find([',', '}'])? };
    Some(rest[..end].trim())
}
