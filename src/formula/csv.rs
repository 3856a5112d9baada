//! Writes fields and numbers of comma-separated values, as R and Python read them.

/// A field, in quotation marks where it needs them.
pub(crate) fn quoted(field: &str) -> String {
    // Files with other separators are read too: a field that holds one of them is no sign of it.
    if field.contains([',', ';', '\t', '|', '"', '\n', '\r']) || field.trim() != field {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

/// A number; `NA` where it is none, and `Inf` or `-Inf` where it is infinite.
pub(crate) fn cell(number: f64) -> String {
    match number {
        own if own.is_nan() => "NA".to_owned(),
        own if own.is_finite() => own.to_string(),
        own if own > 0.0 => "Inf".to_owned(),
        _ => "-Inf".to_owned(),
    }
}

/// Numbers with commas between them.
pub(crate) fn cells(numbers: impl IntoIterator<Item = f64>) -> String {
    numbers.into_iter().map(cell).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_they_have_to_be() {
        let written = ["smoke:age", "a, b", "6\"", "two\rlines", " a", "(1 | child)", ""].map(quoted);
        let expected = ["smoke:age", "\"a, b\"", "\"6\"\"\"", "\"two\rlines\"", "\" a\"", "\"(1 | child)\"", ""];
        assert_eq!(written, expected);
    }

    #[test]
    fn numbers_that_are_none_are_written_as_r_reads_them() {
        assert_eq!(cells([1.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -3.0]), "1.5,NA,Inf,-Inf,-3");
    }
}
