//! Reads the largest memory that this process has held, and its processor time, from the system.

use std::path::Path;

/// Resets the kernel's record of the largest memory, if possible.
pub(super) fn reset_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// The largest resident memory since the last reset in megabytes; zero if the system does not report it.
pub(super) fn peak() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes: f64 = line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0.0);
    kibibytes * 1024.0 / 1e6
}

/// Processor time of this process in seconds; zero if the system does not report it.
pub(super) fn cpu_seconds() -> f64 {
    let path = Path::new("/proc/self/stat");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let after = text.rsplit(')').next().unwrap_or_default();
    // User and system time in hundredths of a second, the 14th and 15th field of the line.
    let ticks = after.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<f64>().ok());
    ticks.sum::<f64>() / 100.0
}
