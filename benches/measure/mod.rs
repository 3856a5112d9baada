//! Times a case in blocks of steps and prints the median, as `benches/peers/compare` reads it.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench prints, and a failure in it is to be loud")]

use std::time::Instant;

/// Prints `partita-bench NAME MEDIAN`, in microseconds a step over `blocks` blocks of `steps` steps, on a pool of
/// `threads` threads. Case names after `--lines` on the command line choose cases.
pub(crate) fn line<S: FnMut() + Send>(
    name: &str,
    threads: usize,
    [warm, blocks, steps]: [usize; 3],
    make: impl FnOnce() -> S + Send,
) {
    let chosen: Vec<String> = std::env::args().skip_while(|word| word != "--lines").skip(1).collect();
    if !chosen.iter().all(|word| word.starts_with('-')) && !chosen.iter().any(|word| word == name) {
        return;
    }
    let median = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(|| {
        let mut step = make();
        (0..warm).for_each(|_| step());
        let mut times: Vec<f64> = (0..blocks)
            .map(|_| {
                let start = Instant::now();
                (0..steps).for_each(|_| step());
                start.elapsed().as_secs_f64() * 1e6 / f64::from(u32::try_from(steps).unwrap())
            })
            .collect();
        times.sort_by(f64::total_cmp);
        times[blocks / 2]
    });
    println!("partita-bench {name} {median:.1}");
}
