//! Turns a panic inside a model's function into words, with nothing printed on the terminal.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// Whether a function of a model runs on this thread.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    /// The place in the source of the last panic there.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Set once a process: the hook of before serves every panic outside models.
static HOOK: Once = Once::new();

/// What `work` gives, or the message of its panic with the place in the source.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    HOOK.call_once(|| {
        let outside = take_hook();
        set_hook(Box::new(move |panic| {
            if INSIDE.get() {
                PLACE.set(panic.location().map(ToString::to_string));
            } else {
                outside(panic);
            }
        }));
    });
    let before = INSIDE.replace(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    INSIDE.set(before);
    result.map_err(|panic| {
        let words = panic.downcast_ref::<String>().cloned();
        let words = words.or_else(|| panic.downcast_ref::<&str>().map(|words| (*words).to_owned()));
        let words = words.unwrap_or_else(|| "without a message".into());
        PLACE.take().map_or_else(|| words.clone(), |place| format!("{words} ({place})"))
    })
}
