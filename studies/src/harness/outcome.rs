//! Tells errors that are results of a study from errors that end it.

use partita::inference::Error;

/// Whether an error is a result, in a silo too: a product or a local solution that is not a density, a posterior
/// outside the domain of its divergence, or one that has diverged to NaN or infinity.
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

/// Whether a model made numbers that are not finite from finite ones.
fn has_run_away(error: &partita::Error) -> bool {
    match error {
        partita::Error::NotFiniteMade { .. } => true,
        partita::Error::Parameter { found, .. } => !found.is_finite(),
        _ => false,
    }
}
