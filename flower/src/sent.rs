//! Counts what a silo has sent in a run, and says so at its end, when it answers another run, or is stopped.

/// The answers of one run, and their bytes as they crossed the wire without the transport's own headers.
#[derive(Debug, Default)]
pub(crate) struct SentInRun {
    run: String,
    answers: u64,
    bytes: u64,
    /// How many of the answers have been said.
    said: u64,
}

impl SentInRun {
    /// Adds an answer; at one of another run it is said what was sent in the run before. `is_last` is of the answer after which
    /// nothing is asked any more.
    pub(crate) fn add(&mut self, run: &str, bytes: u64, is_last: bool, log: &mut dyn FnMut(&str)) {
        if self.run != run {
            self.finish(log);
            *self = Self { run: run.to_owned(), ..Self::default() };
        }
        self.answers += 1;
        self.bytes += bytes;
        if is_last {
            self.say("run finished", log);
        }
    }

    /// Says what was sent, if anything was that has not been said.
    pub(crate) fn finish(&mut self, log: &mut dyn FnMut(&str)) {
        if self.answers > self.said {
            self.say("run", log);
        }
    }

    fn say(&mut self, what: &str, log: &mut dyn FnMut(&str)) {
        let Self { run, answers, bytes, .. } = self;
        log(&format!("{what} `{}`: {bytes} bytes sent in {answers} answers", crate::error::shown(run)));
        self.said = self.answers;
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
            sent.add(run, bytes, false, &mut log);
        }
        sent.finish(&mut log);
        sent.finish(&mut log);
        let line = |run, bytes, answers| format!("run `{run}`: {bytes} bytes sent in {answers} answers");
        assert_eq!(said, [line("a", 120, 2), line("b", 7, 1)]);
    }

    #[test]
    fn the_end_of_a_run_is_said_at_once_and_again_where_its_last_answer_is_sent_again() {
        let (mut sent, mut said) = (SentInRun::default(), Vec::new());
        let mut log = |line: &str| said.push(line.to_owned());
        sent.add("a", 100, false, &mut log);
        sent.add("a", 20, true, &mut log);
        sent.finish(&mut log);
        sent.add("a", 20, true, &mut log);
        sent.add("b", 7, false, &mut log);
        let line = |bytes, answers| format!("run finished `a`: {bytes} bytes sent in {answers} answers");
        assert_eq!(said, [line(120, 2), line(140, 3)]);
    }
}
