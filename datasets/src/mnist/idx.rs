//! Reads the IDX format: a magic number, the length of each axis, then one byte a cell.

use crate::dataset::DatasetError;

/// The type code of unsigned bytes, the only type supported.
const UNSIGNED_BYTE: u32 = 0x08;

/// The lengths of the axes and the cells of an IDX file of bytes with `AXES` axes.
///
/// Errors name the file `file`, its cells `content` and its axes `axes`.
pub(super) fn read<'a, const AXES: usize>(
    file: &str,
    bytes: &'a [u8],
    content: &str,
    axes: [&str; AXES],
) -> Result<([usize; AXES], &'a [u8]), DatasetError> {
    let wrong = |found: String, expected: String| DatasetError::format(file, found, expected);
    let word = |index: usize| {
        let chunk = bytes.get(4 * index..4 * index + 4).and_then(|chunk| chunk.try_into().ok());
        chunk.map(u32::from_be_bytes).ok_or_else(|| {
            let header = format!("an IDX header of {} bytes: magic number, {}", 4 * (AXES + 1), axes.join(", "));
            wrong(format!("{} bytes", bytes.len()), header)
        })
    };
    let magic = word(0)?;
    let expected = UNSIGNED_BYTE << 8 | u32::try_from(AXES).unwrap_or(u32::MAX);
    if magic != expected {
        let hint = if bytes.starts_with(&[0x1f, 0x8b]) { ", which begins a gzip file" } else { "" };
        return Err(wrong(
            format!("the magic number {magic}{hint}"),
            format!("{expected}, which begins an uncompressed IDX file of {content}"),
        ));
    }
    let mut sizes = [0; AXES];
    for (index, size) in sizes.iter_mut().enumerate() {
        *size = word(index + 1)? as usize;
    }
    let cells = &bytes[4 * (AXES + 1)..];
    if sizes.iter().try_fold(1_usize, |product, size| product.checked_mul(*size)) != Some(cells.len()) {
        let lengths: Vec<String> = sizes.iter().map(usize::to_string).collect();
        return Err(wrong(
            format!("{} bytes after the header", cells.len()),
            format!("{} ({}), as the header announces", lengths.join(" x "), axes.join(" x ")),
        ));
    }
    Ok((sizes, cells))
}
