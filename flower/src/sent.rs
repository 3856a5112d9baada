//! Counts what a silo has sent in a run, and says so when it answers another run or is stopped.

/// The answers of one run, and their bytes as they crossed the wire without the transport's own headers.
#[derive(Debug, Default)]
pub(crate) struct SentInRun {
    run: String,
    answers: u64,
    bytes: u64,
}

impl SentInRun {
    /// Adds an answer; at one of another run it is said what was sent in the run before.
    pub(crate) fn add(&mut self, run: &str, bytes: u64, log: &mut dyn FnMut(&str)) {
        if self.run != run {
            self.finish(log);
            run.clone_into(&mut self.run);
        }
        self.answers += 1;
        self.bytes += bytes;
    }

    /// Says what was sent, if anything was.
    pub(crate) fn finish(&mut self, log: &mut dyn FnMut(&str)) {
        let Self { run, answers, bytes } = std::mem::take(self);
        if answers > 0 {
            let run = crate::error::shown(&run);
            log(&format!("run `{run}`: {bytes} bytes sent in {answers} answers"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_is_said_once_a_run() {
        let (mut sent, mut said) = (SentInRun::default(), Vec::new());
        let mut log = |line: &str| said.push(line.to_owned());
        sent.finish(&mut log);
        for (run, bytes) in [("a", 100), ("a", 20), ("b", 7)] {
            sent.add(run, bytes, &mut log);
        }
        sent.finish(&mut log);
        sent.finish(&mut log);
        let line = |run, bytes, answers| format!("run `{run}`: {bytes} bytes sent in {answers} answers");
        assert_eq!(said, [line("a", 120, 2), line("b", 7, 1)]);
    }
}
