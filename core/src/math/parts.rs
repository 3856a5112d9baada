//! Fills a long vector in parts on the threads that are idle, while the caller takes no other work than its own.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::math::awake::keep_awake;

/// What the caller and its helpers share.
struct Shared<T, F> {
    state: Mutex<State<T, F>>,
}

struct State<T, F> {
    /// Parts that are not begun: the caller takes the first, helpers take the last.
    left: Range<usize>,
    /// Parts that helpers are at.
    helped: usize,
    /// What helpers have filled; nothing for a part at which `fill` panicked.
    done: Vec<(usize, Option<Vec<T>>)>,
    /// How a part is filled; nothing once all are, so that a helper that comes late keeps no matrix.
    fill: Option<Arc<F>>,
}

impl<T, F> Shared<T, F> {
    fn state(&self) -> MutexGuard<'_, State<T, F>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Fills `out`, `length` numbers at a time, by `fill`, which is told the number of the part.
///
/// Helpers are idle threads of the rayon pool around the caller. The caller works and waits for helpers, but never takes
/// another task of that pool meanwhile, as rayon's own loops do: Burn calls it while it holds the lock of its tape, and a
/// task that wants a tape of its own would wait for this lock forever. `fill` must not wait for anything.
pub(crate) fn fill_in_parts<T, F>(out: &mut [T], length: usize, fill: F)
where
    T: Copy + Default + Send + 'static,
    F: Fn(usize, &mut [T]) + Send + Sync + 'static,
{
    let (total, count) = (out.len(), out.len().div_ceil(length));
    let helpers = rayon::current_num_threads().min(count).saturating_sub(1);
    let mut parts: Vec<&mut [T]> = out.chunks_mut(length).collect();
    if helpers == 0 {
        parts.iter_mut().enumerate().for_each(|(part, out)| fill(part, out));
        return;
    }
    let fill = Arc::new(fill);
    let state = State { left: 0..count, helped: 0, done: Vec::new(), fill: Some(Arc::clone(&fill)) };
    let shared = Arc::new(Shared { state: Mutex::new(state) });
    for _ in 0..helpers {
        let shared = Arc::clone(&shared);
        rayon::spawn(move || help(&shared, total, length));
    }
    // In two steps: the lock is not held while a part is filled.
    loop {
        let Some(part) = shared.state().left.next() else { break };
        fill(part, parts[part]);
    }
    shared.state().fill = None;
    loop {
        let mut state = shared.state();
        if state.helped == 0 {
            let done = std::mem::take(&mut state.done);
            drop(state);
            keep_awake(helpers);
            for (part, numbers) in done {
                match numbers {
                    Some(numbers) => parts[part].copy_from_slice(&numbers),
                    None => fill(part, parts[part]),
                }
            }
            return;
        }
        drop(state);
        // A part takes a tenth of a millisecond: no longer than it takes to fall asleep and to be woken.
        std::thread::yield_now();
    }
}

/// Fills parts as long as there are any.
fn help<T, F>(shared: &Shared<T, F>, total: usize, length: usize)
where
    T: Copy + Default,
    F: Fn(usize, &mut [T]),
{
    loop {
        let (part, fill) = {
            let mut state = shared.state();
            let Some(fill) = state.fill.clone() else { return };
            let Some(part) = state.left.next_back() else { return };
            state.helped += 1;
            (part, fill)
        };
        let mut numbers = vec![T::default(); length.min(total - part * length)];
        // A panic in a task that is not waited for ends the process: the caller fills the part, and panics itself.
        let is_filled = catch_unwind(AssertUnwindSafe(|| fill(part, &mut numbers))).is_ok();
        let mut state = shared.state();
        state.done.push((part, is_filled.then_some(numbers)));
        state.helped -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

    use super::*;

    /// What stands in 47 slots that are filled with their numbers by helpers, who do `of_helper` last, and the caller.
    fn filled(of_helper: fn()) -> Vec<usize> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        let mut out = vec![0; 47];
        let helped = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&helped);
        pool.install(|| {
            let caller = std::thread::current().id();
            fill_in_parts(&mut out, 5, move |part, numbers| {
                numbers.iter_mut().enumerate().for_each(|(index, slot)| *slot = 5 * part + index);
                if std::thread::current().id() != caller {
                    count.fetch_add(1, Ordering::SeqCst);
                    of_helper();
                    return;
                }
                // The caller leaves time for a helper to come.
                let start = Instant::now();
                while count.load(Ordering::SeqCst) == 0 && start.elapsed() < Duration::from_secs(20) {
                    std::thread::yield_now();
                }
            });
        });
        assert!(helped.load(Ordering::SeqCst) > 0);
        out
    }

    #[test]
    fn parts_that_helpers_fill_stand_where_they_belong() {
        assert_eq!(filled(|| {}), (0..47).collect::<Vec<usize>>());
    }

    #[test]
    fn parts_at_which_a_helper_panics_are_filled_by_the_caller() {
        assert_eq!(filled(|| panic!("in a helper")), (0..47).collect::<Vec<usize>>());
    }
}
