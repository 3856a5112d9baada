//! Finds topics of 20 Newsgroups over three silos that do not share documents (SFVI paper, section 4.2, Figures 4 and 5).
//!
//! ```sh
//! cargo run --release --example topics
//! ```

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Parser;
use partita::inference::{
    Algorithm, AveragingSilo, Barycentre, InProcess, Rounds, RunOptions, Sfvi, SfviAvg, Silent, Silo, SiloProgram,
    assess, run, write_atomically,
};
use partita::models::{KnownTopics, TopicLink, TopicModel};
use partita::{
    AlgorithmChoice, Array, Device, FamilyPlan, FitOptions, Gaussian, Model, Noise, Schedule, Settings, SiteTable,
    SparseRows, fit, partition_equally,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Failure = Box<dyn std::error::Error>;

#[derive(Parser, Debug, Clone)]
struct Options {
    #[arg(long, default_value_t = 1000)]
    steps: u64,
    #[arg(long, default_value_t = 128)]
    batch: usize,
    #[arg(long, default_value_t = 0.05)]
    rate: f64,
    #[arg(long, default_value_t = 1000)]
    local_steps: u64,
    #[arg(long, default_value_t = 21)]
    topics: usize,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[arg(long, default_value = "sfvi")]
    methods: String,
    #[arg(long)]
    printed: bool,
    #[arg(long, default_value_t = 0.0)]
    alpha: f64,
    #[arg(long, default_value_t = 0.1)]
    beta: f64,
    #[arg(long, default_value_t = 0.1)]
    scale: f64,
    #[arg(long, default_value_t = 4)]
    stages: u64,
    #[arg(long, default_value_t = 654)]
    held_out: usize,
}

fn newsgroups() -> (SparseRows, Vec<String>) {
    let out = std::process::Command::new("zcat").arg("/work/shared/data/newsgroups20/docs.txt.gz").output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let rows: Vec<Vec<(u32, f64)>> = text
        .lines()
        .map(|line| {
            line.split(' ')
                .skip(3)
                .map(|p| {
                    let (w, c) = p.split_once(':').unwrap();
                    (w.parse().unwrap(), c.parse().unwrap())
                })
                .collect()
        })
        .collect();
    let words = std::fs::read_to_string("/work/shared/data/newsgroups20/vocab.txt").unwrap();
    (SparseRows::new(&rows, 2000).unwrap(), words.lines().map(str::to_owned).collect())
}

fn tokens(rows: &SparseRows) -> f64 {
    (0..rows.rows()).map(|row| rows.row(row).1.iter().sum::<f64>()).sum()
}

fn main() -> Result<(), Failure> {
    let options = Options::parse();
    let device = Device::flex();
    let (docs, vocabulary) = newsgroups();
    let noise = Noise::new(options.seed);
    let order = partition_equally(docs.rows(), 1, &noise)?.remove(0);
    let held_out = docs.select(&order[..options.held_out])?;
    let rest = docs.select(&order[options.held_out..])?;
    let parts = partition_equally(rest.rows(), 3, &noise)?;
    let silos: Vec<(String, SparseRows)> =
        parts.iter().enumerate().map(|(i, p)| (format!("silo-{}", i + 1), rest.select(p).unwrap())).collect();
    println!("docs {} held {} tokens {}", rest.rows(), held_out.rows(), tokens(&rest));
    let link = if options.printed { TopicLink::Printed } else { TopicLink::Experts };
    let alpha = if options.alpha > 0.0 { options.alpha } else { 1.0 / options.topics as f64 };
    let model = TopicModel::new(options.topics, 2000, &device).link(link).starting(alpha, options.beta, &device);
    for method in options.methods.split(',') {
        let (silos, algorithm): (&[(String, SparseRows)], &str) = match method {
            "alone1" => (&silos[..1], "sfvi"),
            "alone2" => (&silos[1..2], "sfvi"),
            "alone3" => (&silos[2..], "sfvi"),
            m => (&silos, m),
        };
        one(&model, silos, &device, &options, method, algorithm, &held_out, &vocabulary, link)?;
    }
    Ok(())
}

fn one(
    model: &TopicModel,
    silos: &[(String, SparseRows)],
    device: &Device,
    options: &Options,
    method: &str,
    algorithm: &str,
    held_out: &SparseRows,
    vocabulary: &[String],
    link: TopicLink,
) -> Result<(), Failure> {
    let settings = Settings {
        steps: options.steps,
        seed: options.seed,
        family: FamilyPlan::new().global(Gaussian::diagonal()).local(Gaussian::diagonal()).initial_scale(options.scale),
        schedule: Schedule::Cosine { initial: options.rate, last: 0.0 },
        minibatch: [("document".to_owned(), options.batch)].into(),
        ..Settings::default()
    };
    let names: Vec<String> = silos.iter().map(|(n, _)| n.clone()).collect();
    let mut programs: Vec<Box<dyn SiloProgram>> = Vec::new();
    for ((name, data), index) in silos.iter().zip(0_u32..) {
        let silo = Silo::new(name, index, model, data, device, &settings)?;
        if algorithm == "sfvi" {
            programs.push(Box::new(silo));
        } else {
            programs.push(Box::new(AveragingSilo::new(silo, index)));
        }
    }
    let mut algo: Box<dyn Algorithm> = match algorithm {
        "sfvi" => Box::new(Sfvi::new(model, device, &settings, &names)?),
        m => {
            let rounds = Rounds {
                local_steps: options.local_steps,
                averaging: Box::new(Barycentre),
                sizes: silos.iter().map(|s| s.1.rows()).collect(),
                by_size: false,
                keep_optimiser: false,
                most: None,
                scale_entropy: m == "avg-scaled",
            };
            Box::new(SfviAvg::new(model, device, &settings, &names, rounds)?)
        }
    };
    let mut exchange = InProcess::new(programs, 2)?;
    let count: f64 = silos.iter().map(|s| tokens(&s.1)).sum();
    let start = Instant::now();
    for stage in 1..=options.stages {
        let mut record = run(
            &mut *algo,
            &mut exchange,
            &RunOptions { steps: options.steps * stage / options.stages, ..RunOptions::default() },
            &mut Silent,
        )?;
        let bound = assess(&*algo, &mut exchange, 2, &mut record.counters)?;
        let theta = algo.posterior().theta;
        println!(
            "{method} step {} {:.1}s elbo {:.0} +- {:.0} per token {:.4} alpha {:.4} beta {:.5}",
            record.counters.gradient_steps,
            start.elapsed().as_secs_f64(),
            bound.elbo,
            bound.standard_error,
            bound.elbo / count,
            theta[0],
            theta[1].exp()
        );
    }
    let posterior = algo.posterior();
    let mean = posterior.family.mean(posterior.parameters);
    let table = SiteTable::globals(model, device)?;
    let topics: Array = table.natural_globals(model, device, &mean)?.remove(0).1;
    for k in 0..options.topics {
        let row = &topics.values[k * 2000..(k + 1) * 2000];
        let mut order: Vec<usize> = (0..2000).collect();
        order.sort_by(|a, b| row[*b].total_cmp(&row[*a]));
        println!(
            "{k:>2} {:.4} {}",
            row[order[0]],
            order[..10].iter().map(|w| vocabulary[*w].as_str()).collect::<Vec<_>>().join(" ")
        );
    }
    let t = Instant::now();
    let known = KnownTopics::new(topics, posterior.theta[0], link)?;
    let own = FitOptions {
        algorithm: AlgorithmChoice::Central,
        settings: Settings {
            steps: 300,
            seed: 1,
            family: FamilyPlan::new().local(Gaussian::diagonal()),
            schedule: Schedule::Cosine { initial: 0.1, last: 0.0 },
            ..Settings::default()
        },
        elbo_draws: 10,
        summary_draws: 2,
        ..FitOptions::default()
    };
    let held = fit(&known, &[("held".into(), held_out.clone())], device, &own, None)?;
    println!(
        "{method} held-out per token {:.4} ({:.1}s)",
        held.report.elbo / tokens(held_out),
        t.elapsed().as_secs_f64()
    );
    for line in std::fs::read_to_string("/proc/self/status")?.lines().filter(|l| l.starts_with("VmHWM")) {
        println!("{line}");
    }
    let _ = (write_atomically, Path::new("a"), PathBuf::new());
    Ok(())
}
