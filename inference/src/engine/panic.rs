//! Turns a panic inside a model, or of what serves it, into an error that names the party in which it happened.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::engine::error::{Error, Result};

/// What the party without data is called in errors.
pub(crate) const COORDINATOR: &str = "the coordinator";

/// What `work` gives, or an error that names `who`, where a panic happened.
///
/// After a panic no party is used again without an error having been reported, so that a half-made step is never seen.
///
/// # Errors
/// [`Error::Panicked`] for a panic in `work` or in a function of its model; otherwise the error of `work`.
///
/// # Example
/// ```
/// use partita_inference::{Error, caught};
/// assert_eq!(caught("north", || Ok(7)).ok(), Some(7));
/// let panicked = caught("north", || -> partita_inference::Result<u8> { panic!("a model's own words") });
/// assert!(matches!(panicked, Err(Error::Panicked { silo, .. }) if silo == "north"));
/// ```
pub fn caught<T>(who: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let result = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<String>().cloned();
        let reason = words.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned())).unwrap_or_default();
        Err(Error::Panicked { silo: who.to_owned(), reason })
    });
    match result {
        Err(error) => Err(match of_model(&error) {
            Some(reason) => Error::Panicked { silo: who.to_owned(), reason },
            None => error,
        }),
        done => done,
    }
}

/// The words of a panic that happened in a function of the model.
fn of_model(error: &Error) -> Option<String> {
    match error {
        Error::Model(partita_core::Error::Panicked { place, reason }) => Some(format!("{place}: {reason}")),
        Error::InSilo { source, .. } => of_model(source),
        _ => None,
    }
}
