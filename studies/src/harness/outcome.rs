//! Tells errors that a study is there to find out about from those that end it.

use partita::inference::Error;

/// Whether an error is something to be found out, in a silo too: a product or a local solution that is no density, a
/// posterior outside the domain of its divergence, or one that has run away to what is no number.
#[must_use]
pub fn is_outcome(error: &Error) -> bool {
    match error {
        Error::ImproperProduct { .. }
        | Error::DivergenceDomain { .. }
        | Error::Improper { .. }
        | Error::NotFinite { .. } => true,
        Error::Model(source) => has_run_away(source),
        Error::InSilo { source, .. } => is_outcome(source),
        _ => false,
    }
}

/// Whether a model met with numbers that nobody had given it.
fn has_run_away(error: &partita::Error) -> bool {
    match error {
        partita::Error::NotFiniteMade { .. } => true,
        partita::Error::Parameter { found, .. } => !found.is_finite(),
        _ => false,
    }
}
