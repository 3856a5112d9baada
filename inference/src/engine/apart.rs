//! Evaluates rows together, and in halves where the model refuses the place of one, so that no row decides for another.

use crate::engine::error::Result;

/// Gives all `rows` to `evaluate` at once and, where that finds a row outside of what the model is defined for, in
/// halves.
///
/// A row that is outside by itself is left out: what it contributes to a private sum is none, and whether there is a
/// sum says nothing of it. How long that takes does.
///
/// # Errors
/// What `evaluate` reports and no row decides: any error but [`crate::Error::is_outside`].
pub(crate) fn in_halves(rows: &[usize], evaluate: &mut dyn FnMut(&[usize]) -> Result<()>) -> Result<()> {
    match evaluate(rows) {
        Err(error) if error.is_outside() => {
            let (first, second) = rows.split_at(rows.len() / 2);
            if first.is_empty() {
                return Ok(());
            }
            in_halves(first, evaluate)?;
            in_halves(second, evaluate)
        }
        found => found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::error::Error;

    #[test]
    fn rows_outside_are_left_out_and_other_errors_are_reported() {
        let outside = || Error::NotFinite { who: "a row".into(), step: 0, quantity: "x".into(), found: f64::NAN };
        let mut found = Vec::new();
        let mut evaluate = |rows: &[usize]| match rows.iter().any(|row| [3, 9].contains(row)) {
            true => Err(outside()),
            false => {
                found.extend_from_slice(rows);
                Ok(())
            }
        };
        in_halves(&(0..11).collect::<Vec<_>>(), &mut evaluate).unwrap();
        assert_eq!(found, [0, 1, 2, 4, 5, 6, 7, 8, 10]);
        let mut evaluate = |_: &[usize]| Err(Error::Declined { problem: "no device".into() });
        assert!(in_halves(&[0, 1], &mut evaluate).is_err());
    }
}
