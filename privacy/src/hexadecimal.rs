//! Writes bytes as hexadecimal text and reads them back, for the lines of the ledger and for what names a masked sum.

/// Two digits a byte.
///
/// # Example
/// ```
/// use partita_privacy::hexadecimal;
/// assert_eq!(hexadecimal::write(&[0, 171]), "00ab");
/// ```
#[must_use]
pub fn write(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of `text`; none for text of odd length or with another digit.
#[must_use]
pub fn read(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok();
    rest.is_empty().then(|| pairs.iter().map(byte).collect()).flatten()
}

#[cfg(test)]
mod tests {
    #[test]
    fn bytes_are_read_as_written_and_other_text_is_refused() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(super::read(&super::write(&bytes)), Some(bytes));
        assert_eq!([super::read("abc"), super::read("zz"), super::read("é")], [None, None, None]);
    }
}
