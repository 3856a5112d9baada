//! Times few rounds from data to report: six cities, toenail, and a logistic mixed model of many rows.
//!
//! `cargo bench -p partita-benches --bench few_rounds -- --lines` prints `partita-bench CASE MICROSECONDS` for
//! `benches/peers/compare --case few_rounds` and `--case few_rounds_r`. `-- --rows N` times the second model with N rows
//! alone, and prints its memory; a million rows need 2 GB. `-- --silos N` deals 100,000 rows to N silos, and
//! `-- --six-cities` leaves the second model out. `-- --terms` times ten million terms of its log likelihood, value and
//! gradient, through the model and by a hand-written loop. Six cities is sampled in the same run by our own sampler, 8,000
//! draws in two chains as in `nuts.rs`. Toenail needs `PARTITA_DATA`, the folder of staged data.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench prints, and a failure in it is to be loud")]

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use partita::models::{MixedLogistic, RepeatedBinary, six_cities};
use partita::{Design, Device, Fit, FitOptions, Groups, Nuts, Table, fit};
use partita_core::kernel::{add_scaled, bernoulli_logit, dot};
use partita_core::{Key, LogDensity, Noise, NoiseStream, Purpose, SiteTable};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Visits a group, and columns, of the second model; the first column is the intercept.
const VISITS: usize = 10;
const COLUMNS: usize = 20;

type Silos = Vec<(String, RepeatedBinary)>;

fn two_hospitals(device: &Device) -> Silos {
    fixtures::six_cities_halves(["hospital-0", "hospital-1"], device)
}

/// Patients with onycholysis in two silos, dealt in turn: intercept, treatment, time and their product. `None` where the
/// data are not staged.
fn toenail(device: &Device) -> Option<Silos> {
    let path = Path::new(&std::env::var_os("PARTITA_DATA")?).join("mixed_models/toenail.csv");
    if !path.is_file() {
        return None;
    }
    let table = Table::from_path(path).unwrap();
    let [time] = table.numbers(["time"]).unwrap();
    let [patients, outcomes, treatments] = ["patientID", "outcome", "treatment"].map(|name| table.text(name).unwrap());
    let all = Groups::by_key(&patients).unwrap();
    let is = |found: &str, expected: &str| f64::from(u8::from(found == expected));
    let silo = |index: usize| {
        let rows: Vec<usize> = (0..all.rows()).filter(|row| all.of_row(*row) % 2 == index).collect();
        let design = rows.iter().flat_map(|row| {
            let (treated, time) = (is(treatments[*row], "terbinafine"), time[*row]);
            [1.0, treated, time, treated * time]
        });
        let visits: Vec<&str> = rows.iter().map(|row| patients[*row]).collect();
        let design = Design::new(design.collect(), [rows.len(), 4]).unwrap();
        let answers = rows.iter().map(|row| is(outcomes[*row], "moderate or severe")).collect();
        let data = RepeatedBinary::new(Groups::by_key(&visits).unwrap(), design, answers, device).unwrap();
        (format!("clinic-{index}"), data)
    };
    Some((0..2).map(silo).collect())
}

/// Samples six cities by our own sampler; its seconds.
fn sampled(device: &Device) -> f64 {
    let pooled = [("all".to_owned(), RepeatedBinary::six_cities(&six_cities(), device).unwrap())];
    let nuts = Nuts { warmup: 1_500, draws: 4_000, chains: 2, seed: 1, threads: 2, ..Nuts::default() };
    let began = Instant::now();
    let found = nuts.sample(&MixedLogistic::new(4), &pooled, device).unwrap();
    let seconds = began.elapsed().as_secs_f64();
    println!("partita-bench six_cities_sampler {:.0}", seconds * 1e6);
    let omega = found.sites.iter().find(|site| site.label == "omega").unwrap();
    println!("# six_cities_sampler: 8,000 draws, omega {:.4} / {:.4}", omega.mean, omega.sd);
    seconds
}

/// Designs and outcomes of groups: coefficients .3 sin(1.7 k), intercepts of deviation one.
/// `benches/peers/few_rounds_r.py` draws the same model.
fn drawn(groups: usize, stream: &mut NoiseStream) -> (Vec<f64>, Vec<f64>) {
    let coefficients: Vec<f64> = (0..COLUMNS).map(|k| 0.3 * (1.7 * k as f64).sin()).collect();
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
    (design, answers)
}

fn data((design, answers): (Vec<f64>, Vec<f64>), device: &Device) -> RepeatedBinary {
    let visits = Groups::of_sizes(&vec![VISITS; answers.len() / VISITS]).unwrap();
    let design = Design::new(design, [answers.len(), COLUMNS]).unwrap();
    RepeatedBinary::new(visits, design, answers, device).unwrap()
}

/// So many silos of so many rows together.
fn many(rows: usize, silos: usize, device: &Device) -> Silos {
    let mut stream = Noise::new(1).stream(Key::new(Purpose::Check, 0));
    let silo = |index: usize| (format!("silo-{index}"), data(drawn(rows / VISITS / silos, &mut stream), device));
    (0..silos).map(silo).collect()
}

/// The terms of 64 draws at 15 nodes of 10,000 rows: value and gradient by the globals.
const DRAWS: usize = 64;
const NODES: usize = 15;
const GROUPS: usize = 1_000;

/// Times them on one thread, the smallest of three times each.
fn terms(device: &Device) {
    let mut stream = Noise::new(1).stream(Key::new(Purpose::Check, 0));
    let (design, answers) = drawn(GROUPS, &mut stream);
    let (model, data) = (MixedLogistic::new(COLUMNS), data((design.clone(), answers.clone()), device));
    let table = SiteTable::of(&model, device, &data).unwrap();
    let globals: Vec<f64> = (0..=COLUMNS).map(|_| 0.1 * stream.standard_normal()).collect();
    let nodes: Vec<Vec<f64>> = (0..NODES).map(|_| (0..GROUPS).map(|_| stream.standard_normal()).collect()).collect();
    let weight = 1.0 / NODES as f64;
    let by_model = || {
        let density = LogDensity::new(&model, device, &table);
        let passes: Vec<_> = nodes.iter().map(|own| vec![own.clone(), Vec::new()]).collect();
        let levels = density.levels(&globals, &passes, &data).unwrap();
        let found = levels.gradient(|_, _| vec![weight; GROUPS]).unwrap();
        (found.value, found.globals)
    };
    let by_hand = || {
        let deviation = (-globals[COLUMNS]).exp();
        let product: Vec<f64> = design.chunks_exact(COLUMNS).map(|row| dot(row, &globals[..COLUMNS])).collect();
        let (mut value, mut gradient) = (0.0, vec![0.0; COLUMNS + 1]);
        let mut sums = vec![0.0; answers.len()];
        let (mut logits, mut residuals) = (product.clone(), vec![0.0; answers.len()]);
        for own in &nodes {
            for ((logits, product), u) in logits.chunks_exact_mut(VISITS).zip(product.chunks_exact(VISITS)).zip(own) {
                logits.iter_mut().zip(product).for_each(|(slot, product)| *slot = product + deviation * u);
            }
            value += weight * bernoulli_logit(&logits, &answers, weight, &mut residuals, &mut []);
            value -= weight * own.iter().map(|u| 0.5 * u * u + 0.5 * (2.0 * std::f64::consts::PI).ln()).sum::<f64>();
            let groups = residuals.chunks_exact(VISITS).zip(own);
            gradient[COLUMNS] -= deviation * groups.map(|(own, u)| u * own.iter().sum::<f64>()).sum::<f64>();
            add_scaled(&mut sums, 1.0, &residuals);
        }
        let rows = design.chunks_exact(COLUMNS).zip(&sums);
        rows.for_each(|(row, sum)| add_scaled(&mut gradient[..COLUMNS], *sum, row));
        (value, gradient)
    };
    let (own, hand) = (by_model(), by_hand());
    let apart = own.1.iter().zip(&hand.1).map(|(a, b)| (a - b).abs()).fold((own.0 - hand.0).abs(), f64::max);
    assert!(apart < 1e-6, "the two ways differ by {apart}");
    for (name, evaluate) in [("terms", &by_model as &dyn Fn() -> (f64, Vec<f64>)), ("terms_by_hand", &by_hand)] {
        let once = || {
            let began = Instant::now();
            (0..DRAWS).for_each(|_| drop(black_box(evaluate())));
            began.elapsed().as_secs_f64()
        };
        let least = (0..3).map(|_| once()).fold(f64::INFINITY, f64::min);
        println!("partita-bench {name} {:.0}", least * 1e6);
    }
}

/// A fit, with its seconds.
fn timed(name: &str, columns: usize, silos: &Silos, threads: usize) -> (Fit, f64) {
    let (device, options) = (Device::flex(), FitOptions { threads, ..FitOptions::default() });
    let began = Instant::now();
    let found = fit(&MixedLogistic::new(columns), silos, &device, &options, None).unwrap();
    let seconds = began.elapsed().as_secs_f64();
    println!("partita-bench {name} {:.0}", seconds * 1e6);
    let omega = found.report.site("omega").unwrap();
    println!(
        "# {name}: {} exchanges, bound {:.2}, omega {:.4} / {:.4}",
        found.report.rounds, found.report.elbo, omega.mean, omega.sd
    );
    (found, seconds)
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let device = Device::flex();
    if words.iter().any(|word| word == "--terms") {
        terms(&device);
        return;
    }
    if let Some(place) = words.iter().position(|word| word == "--rows") {
        let rows = words.get(place + 1).and_then(|rows| rows.parse().ok()).unwrap();
        let (found, _) = timed(&format!("rows_{rows}"), COLUMNS, &many(rows, 2, &device), 2);
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
    let (children, mut least) = (two_hospitals(&device), f64::INFINITY);
    for _ in 0..3 {
        least = least.min(timed("six_cities", 4, &children, 2).1);
        timed("six_cities_one_thread", 4, &children, 1);
    }
    println!("# six_cities: {:.3} of the time of our own sampler", least / sampled(&device));
    match toenail(&device) {
        Some(patients) => (0..3).for_each(|_| drop(timed("toenail", 4, &patients, 2))),
        None => println!("# toenail: PARTITA_DATA names no folder with mixed_models/toenail.csv"),
    }
    if !words.iter().any(|word| word == "--six-cities") {
        timed("rows_100000", COLUMNS, &many(100_000, 2, &device), 2);
    }
}
