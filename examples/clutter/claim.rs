//! Keeps what was claimed before a run, and says whether it was met.

use serde_json::{Value, json};

/// Claims with their verdicts, in the order of the tables.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    judged: Vec<(String, bool)>,
    printed: usize,
}

impl Claims {
    pub(crate) fn judge(&mut self, claim: String, met: bool) {
        self.judged.push((claim, met));
    }

    /// Prints the claims not printed yet.
    pub(crate) fn print_new(&mut self) {
        println!();
        for (claim, met) in &self.judged[self.printed..] {
            println!("{:<8} {claim}", if *met { "met" } else { "NOT MET" });
        }
        self.printed = self.judged.len();
    }

    pub(crate) fn json(&self) -> Value {
        self.judged.iter().map(|(claim, met)| json!({"claim": claim, "met": met})).collect()
    }
}
