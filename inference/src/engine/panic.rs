//! Turns a panic inside a model into an error that names the party in which it happened.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::engine::error::{Error, Result};

/// What the party without data is called in errors.
pub(crate) const COORDINATOR: &str = "the coordinator";

/// What `work` gives, or [`Error::Panicked`] naming `who`.
///
/// After a panic no party is used again without an error having been reported, so that a half-made step is never seen.
pub(crate) fn caught<T>(who: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<String>().cloned();
        let reason = words.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned())).unwrap_or_default();
        Err(Error::Panicked { silo: who.to_owned(), reason })
    })
}
