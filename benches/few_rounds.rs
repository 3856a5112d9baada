//! Times few rounds from data to report: six cities, and a logistic mixed model of many rows.
//!
//! `cargo bench -p partita-benches --bench few_rounds -- --lines` prints `partita-bench CASE MICROSECONDS` for
//! `benches/peers/compare --case few_rounds` and `--case few_rounds_r`. `-- --rows N` times the second model with N rows
//! alone, and prints its memory; a million rows need 2 GB. `-- --silos N` deals 100,000 rows to N silos.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench prints, and a failure in it is to be loud")]

use std::time::Instant;

use partita::models::{Child, MixedLogistic, RepeatedBinary, six_cities_silos};
use partita::{Design, Device, Fit, FitOptions, Groups, fit};
use partita_core::{Key, Noise, Purpose};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Visits a group, and columns, of the second model; the first column is the intercept.
const VISITS: usize = 10;
const COLUMNS: usize = 20;

type Silos = Vec<(String, RepeatedBinary)>;

fn six_cities(device: &Device) -> Silos {
    let own = |(index, children): (usize, &Vec<Child>)| {
        (format!("hospital-{index}"), RepeatedBinary::six_cities(children, device).unwrap())
    };
    six_cities_silos().iter().enumerate().map(own).collect()
}

/// So many silos of so many rows together: coefficients .3 sin(1.7 k), intercepts of deviation one.
/// `benches/peers/few_rounds_r.py` draws the same model.
fn many(rows: usize, silos: usize, device: &Device) -> Silos {
    let mut stream = Noise::new(1).stream(Key::new(Purpose::Check, 0));
    let coefficients: Vec<f64> = (0..COLUMNS).map(|k| 0.3 * (1.7 * k as f64).sin()).collect();
    let silo = |index: usize| {
        let groups = rows / VISITS / silos;
        let (mut design, mut answers) = (Vec::with_capacity(groups * VISITS * COLUMNS), Vec::new());
        for _ in 0..groups {
            let intercept = stream.standard_normal();
            for _ in 0..VISITS {
                let start = design.len();
                design.push(1.0);
                (1..COLUMNS).for_each(|_| design.push(stream.standard_normal()));
                let fixed: f64 = design[start..].iter().zip(&coefficients).map(|(x, b)| x * b).sum();
                let chance = 1.0 / (1.0 + (-(fixed + intercept)).exp());
                answers.push(f64::from(u8::from(stream.uniform() < chance)));
            }
        }
        let visits = Groups::of_sizes(&vec![VISITS; groups]).unwrap();
        let design = Design::new(design, [groups * VISITS, COLUMNS]).unwrap();
        (format!("silo-{index}"), RepeatedBinary::new(visits, design, answers, device).unwrap())
    };
    (0..silos).map(silo).collect()
}

fn timed(name: &str, columns: usize, silos: &Silos, threads: usize) -> Fit {
    let (device, options) = (Device::flex(), FitOptions { threads, ..FitOptions::default() });
    let began = Instant::now();
    let found = fit(&MixedLogistic::new(columns), silos, &device, &options, None).unwrap();
    println!("partita-bench {name} {:.0}", began.elapsed().as_secs_f64() * 1e6);
    let omega = found.report.site("omega").unwrap();
    println!(
        "# {name}: {} exchanges, bound {:.2}, omega {:.4} / {:.4}",
        found.report.rounds, found.report.elbo, omega.mean, omega.sd
    );
    found
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let device = Device::flex();
    if let Some(place) = words.iter().position(|word| word == "--rows") {
        let rows = words.get(place + 1).and_then(|rows| rows.parse().ok()).unwrap();
        let found = timed(&format!("rows_{rows}"), COLUMNS, &many(rows, 2, &device), 2);
        println!("{}", found.report);
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        println!("{}", status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("memory unknown"));
        return;
    }
    if let Some(place) = words.iter().position(|word| word == "--silos") {
        let silos = words.get(place + 1).and_then(|silos| silos.parse().ok()).unwrap();
        timed(&format!("silos_{silos}"), COLUMNS, &many(100_000, silos, &device), 2);
        return;
    }
    let children = six_cities(&device);
    for _ in 0..3 {
        timed("six_cities", 4, &children, 2);
        timed("six_cities_one_thread", 4, &children, 1);
    }
    timed("rows_100000", COLUMNS, &many(100_000, 2, &device), 2);
}
