//! Compares the rows that a silo declares in its hello with those that it says of the model of a study.

use partita_flower::{Error, Result};

/// How many rows a silo says it has, in the three places where it says so.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowsSaid<'a> {
    /// Its name.
    pub(super) silo: &'a str,
    /// In its hello; 0 of a silo that has not appeared yet.
    pub(super) hello: u64,
    /// Before the model is known, unless its owner refuses.
    pub(super) profile: Option<u64>,
    /// Of the model that it fits: groups where rows are in groups.
    pub(super) seated: u64,
}

impl RowsSaid<'_> {
    /// Refuses a silo of which these are not the same. Where the model counts groups, of which each has a row at least, and the
    /// hello counts rows, there are at most as many of them.
    ///
    /// # Errors
    /// [`Error::Unwelcome`], with the silo's name.
    pub(super) fn check(self, counts_groups: bool) -> Result<()> {
        let Self { silo, hello, profile, seated } = self;
        if hello == 0 {
            return Ok(());
        }
        let differs = |found: String, expected: String| {
            Err(Error::Unwelcome {
                what: "the number of rows of a silo",
                found: format!("{found} at silo `{silo}`"),
                expected,
                remedy: "Ask the silo's owner which rows it was started with.",
            })
        };
        if let Some(rows) = profile.filter(|rows| *rows != hello) {
            return differs(format!("{rows} before the fit"), format!("{hello}, as its hello said"));
        }
        match counts_groups {
            true if !(1..=hello).contains(&seated) => {
                differs(format!("{seated} groups in the model"), format!("1 to {hello}, the rows that its hello said"))
            }
            false if seated != hello => {
                differs(format!("{seated} in the model"), format!("{hello}, as its hello said"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silo_that_fits_other_rows_than_it_declared_is_refused_by_its_name() {
        let said = |hello, profile, seated| RowsSaid { silo: "north", hello, profile, seated };
        for (own, counts_groups) in [
            (said(60, Some(60), 60), false),
            (said(60, None, 60), false),
            (said(60, Some(60), 15), true),
            (said(60, Some(60), 60), true),
            // One that has not appeared yet.
            (said(0, None, 60), false),
        ] {
            own.check(counts_groups).unwrap();
        }
        for (own, counts_groups, words) in [
            (said(60, Some(60), 61), false, "found 61 in the model at silo `north`, expected 60, as its hello said"),
            (said(60, Some(600), 60), false, "found 600 before the fit at silo `north`"),
            (said(60, Some(61), 15), true, "found 61 before the fit at silo `north`"),
            (said(60, None, 61), true, "found 61 groups in the model at silo `north`, expected 1 to 60"),
            (said(60, None, 0), true, "found 0 groups"),
        ] {
            let found = own.check(counts_groups).unwrap_err().to_string();
            assert!(found.contains(words), "{found}");
        }
    }
}
