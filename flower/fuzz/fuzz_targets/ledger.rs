//! Gives arbitrary bytes to a silo as the file of its ledger.

#![no_main]

use partita::privacy::{Budget, Ledger};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let path = std::env::temp_dir().join(format!("partita-fuzz-{}.ledger", std::process::id()));
    if std::fs::write(&path, bytes).is_ok() {
        let budget = Budget { epsilon: 1.0, delta: 1e-5, unit: "row".into() };
        let _ = Ledger::open(&path, budget).and_then(|own| own.spent());
    }
});
