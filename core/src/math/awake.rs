//! Keeps idle threads awake for a moment after parallel work, since waking one takes longer than many a step.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long a thread without work stays awake: longer than what a step does between two parallel parts.
const MOMENT: Duration = Duration::from_micros(500);

thread_local! {
    static IS_AT_WORK: Cell<bool> = const { Cell::new(false) };
    /// The threads that this one keeps awake.
    static KEPT: Arc<AtomicUsize> = Arc::new(AtomicUsize::new(0));
}

/// Says so of its thread until it is dropped, by a panic too.
struct AtWork(bool);

impl Drop for AtWork {
    fn drop(&mut self) {
        IS_AT_WORK.set(self.0);
    }
}

/// Does work in which this thread may wait for others: what it takes up meanwhile is to be over soon.
pub fn at_work<T>(work: impl FnOnce() -> T) -> T {
    let _own = AtWork(IS_AT_WORK.replace(true));
    work()
}

/// Keeps up to `threads` threads of the rayon pool around the caller awake for half a millisecond after the last work that
/// they find, so that the next parallel part of a step need not wake them.
///
/// It is for the end of a parallel part. A thread that waits for another inside [`at_work`], and the caller itself, are not
/// kept. Outside a pool nothing happens.
pub fn keep_awake(threads: usize) {
    let Some(caller) = rayon::current_thread_index() else { return };
    let kept = KEPT.with(Arc::clone);
    let threads = threads.min(rayon::current_num_threads() - 1);
    // Counted once: a thread inside [`at_work`] that takes a task gives it back at once.
    for _ in kept.load(Ordering::Relaxed)..threads {
        kept.fetch_add(1, Ordering::Relaxed);
        let kept = Arc::clone(&kept);
        rayon::spawn(move || {
            if rayon::current_thread_index() != Some(caller) && !IS_AT_WORK.get() {
                stay_awake();
            }
            kept.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

/// Takes what work there is until there has been none for a moment.
fn stay_awake() {
    let mut since = Instant::now();
    while since.elapsed() < MOMENT {
        match rayon::yield_now() {
            Some(rayon::Yield::Executed) => since = Instant::now(),
            _ => std::thread::yield_now(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    fn kept() -> usize {
        KEPT.with(|kept| kept.load(Ordering::Relaxed))
    }

    #[test]
    fn threads_are_kept_once_and_for_a_while() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        let most = pool.install(|| {
            (0..10).for_each(|_| keep_awake(2));
            let most = kept();
            let start = Instant::now();
            // The caller takes none of the tasks that keep others awake, except where no other thread is there.
            while kept() > 0 && start.elapsed() < Duration::from_secs(20) {
                std::thread::yield_now();
            }
            assert_eq!(kept(), 0);
            most
        });
        assert!(most <= 2, "{most} threads");
    }

    #[test]
    fn outside_a_pool_no_thread_is_kept() {
        keep_awake(2);
        assert_eq!(kept(), 0);
    }

    #[test]
    fn a_thread_is_at_work_until_its_work_ends_by_a_panic_too() {
        assert!(at_work(|| {
            at_work(|| ());
            IS_AT_WORK.get()
        }));
        assert!(!IS_AT_WORK.get());
        assert!(catch_unwind(|| at_work(|| panic!("in the work"))).is_err());
        assert!(!IS_AT_WORK.get());
    }
}
