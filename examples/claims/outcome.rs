//! Tells errors that a study is there to find out about from those that end it.

use partita::inference::Error;

/// Whether an error is something to be found out, in a silo too: a product or a local solution that is no density, or a
/// posterior outside the domain of its divergence.
pub(crate) fn is_outcome(error: &Error) -> bool {
    match error {
        Error::ImproperProduct { .. } | Error::DivergenceDomain { .. } | Error::Improper { .. } => true,
        Error::InSilo { source, .. } => is_outcome(source),
        _ => false,
    }
}
