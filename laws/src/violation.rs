//! Says whose law is broken, whichever law it is.

/// A law that does not hold, and of what.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{subject}: {law}")]
pub struct Violation<L> {
    /// What breaks the law, by name.
    pub subject: String,
    /// The law, with the numbers that show it.
    pub law: L,
}

impl<L> Violation<L> {
    /// The error that `subject` breaks `law`.
    ///
    /// # Errors
    /// Always this one.
    pub fn of<T>(subject: impl Into<String>, law: L) -> Result<T, Self> {
        Err(Self { subject: subject.into(), law })
    }
}
