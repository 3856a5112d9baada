//! Names the operations that compute on the host, for a reading on a device that asks which there are.

use std::cell::RefCell;

thread_local! {
    /// The operations named on this thread since the last site; `None` where they are not asked for.
    static NAMED: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Says that an operation computes on the host.
pub(crate) fn computes_on_host(name: &str) {
    NAMED.with_borrow_mut(|named| {
        if let Some(named) = named {
            named.push(name.to_owned());
        }
    });
}

/// The operations named so far, which are then forgotten; none where they are not asked for.
pub(crate) fn named_on_host() -> Vec<String> {
    NAMED.with_borrow_mut(|named| named.as_mut().map(std::mem::take)).unwrap_or_default()
}

/// What `body` gives, while operations are named on this thread.
pub(crate) fn naming<T>(body: impl FnOnce() -> T) -> T {
    NAMED.set(Some(Vec::new()));
    let result = body();
    NAMED.set(None);
    result
}
