//! Keeps a task or a node alive from a thread of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// Sends heartbeats until it is dropped.
#[derive(Debug)]
pub(crate) struct Heart {
    over: Arc<AtomicBool>,
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Heart {
    /// Calls `beat` at this interval; once it says false, the heart has stopped.
    pub(crate) fn start(interval: Duration, beat: impl Fn() -> bool + Send + 'static) -> Result<Self> {
        let (over, stopped) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (is_over, set_stopped) = (Arc::clone(&over), Arc::clone(&stopped));
        let work = move || {
            let mut next = Instant::now() + interval;
            while !is_over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(50));
                if Instant::now() < next {
                    continue;
                }
                next = Instant::now() + interval;
                if !beat() {
                    set_stopped.store(true, Ordering::Relaxed);
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("heartbeat".into()).spawn(work);
        let thread = thread.map_err(|error| Error::malformed("a thread", error.to_string()))?;
        Ok(Self { over, stopped, thread: Some(thread) })
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

impl Drop for Heart {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A call in progress may last as long as the patience: it ends by itself.
            drop(thread);
        }
    }
}
