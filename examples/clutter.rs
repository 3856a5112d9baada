//! Finds a signal in clutter over forty silos of one number each, and shows what robust losses do when the model is wrong.
//!
//! ```sh
//! cargo run --release --example clutter
//! ```
//!
//! What you should see: four tables, and below each what was claimed in advance and whether it was met. In the first,
//! partitioned inference over forty silos agrees with pooled variational inference, expectation propagation and the exact
//! posterior. In the second, one more number moves a posterior of the log likelihood the more the further off it lies, and
//! one of the β loss hardly at all. In the third, a normal model that knows of no clutter is fitted to numbers of which half
//! are clutter. In the fourth, to numbers of which a tenth or a fifth are: β and γ loss keep the mean. `--quick` takes fewer
//! steps and data sets, to see that it runs. Numbers and times: `docs/src/explanation-losses.md`.
//!
//! Mildner (2024), *Federated learning under misspecification*, sections 3.7.1, 3.7.2, 4.5.1 and 4.5.2.

#![allow(clippy::print_stdout, reason = "an example prints")]

#[path = "clutter/claim.rs"]
mod claim;
#[path = "clutter/method.rs"]
mod method;

use std::path::PathBuf;

use clap::Parser;
use partita::inference::metrics::fisher_rao_distance;
use partita::inference::plot::{Density, Panel, lines, marginals};
use partita::inference::write_atomically;
use partita::models::{Clutter, ClutterPosterior, ClutterSettings};
use partita::{Array, DivergenceChoice, Key, Loss, Noise, NoiseStream, Purpose, StudentT};
use serde_json::{Value, json};

use claim::Claims;
use method::{Method, Posterior, RENYI, counters, counters_head};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A signal in clutter, with known and with unknown clutter.
#[derive(Parser, Debug, Clone)]
struct Options {
    /// Data sets of the last table.
    #[arg(long, default_value_t = 5)]
    sets: u64,
    /// Rounds over all silos.
    #[arg(long, default_value_t = 30)]
    rounds: u64,
    /// Local steps of a visit.
    #[arg(long, default_value_t = 10)]
    local_steps: u64,
    /// What part of a silo's answer is taken.
    #[arg(long, default_value_t = 1.0)]
    damping: f64,
    /// The learning rate at the start; it falls to zero along a cosine.
    #[arg(long, default_value_t = 0.05)]
    rate: f64,
    /// Draws of a step, an Owen-scrambled Sobol set.
    #[arg(long, default_value_t = 8)]
    particles: usize,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The folder for result.json and the pictures.
    #[arg(long, default_value = "output/clutter")]
    output: PathBuf,
    /// Fewer steps and data sets: to see that it runs.
    #[arg(long)]
    quick: bool,
}

fn main() -> Result<(), Failure> {
    let mut options = Options::parse();
    if options.quick {
        (options.sets, options.rounds, options.local_steps) = (1, 6, 4);
    }
    std::fs::create_dir_all(&options.output)?;
    let mut claims = Claims::default();
    let (mut panels, mut result) = (Vec::new(), serde_json::Map::new());
    result.insert("agreement".into(), agreement(&options, &mut claims, &mut panels)?);
    result.insert("influence".into(), influence(&options, &mut claims)?);
    result.insert("half_clutter".into(), half_clutter(&options, &mut claims, &mut panels)?);
    result.insert("contamination".into(), contamination(&options, &mut claims, &mut panels)?);
    println!("\nGradient steps are those of all silos together.");
    result.insert("claims".into(), claims.json());
    result.insert("seed".into(), options.seed.into());
    write_atomically(&options.output.join("result.json"), &serde_json::to_vec_pretty(&result)?)?;
    marginals(&options.output.join("posteriors.svg"), &panels)?;
    println!("\nWrote result.json, influence.svg and posteriors.svg to {}", options.output.display());
    Ok(())
}

/// Known clutter, forty silos of one number: the thesis' two settings.
const WORLDS: [(&str, f64); 2] = [("one peak", 2.0), ("two peaks", 4.0)];

fn world(index: usize, seed: u64) -> (Clutter, ClutterSettings, Vec<f64>) {
    let settings = if index == 0 { ClutterSettings::near() } else { ClutterSettings::far() };
    let clutter = Clutter::new(settings);
    let numbers = clutter.draw(WORLDS[index].1, 40, &mut stream(seed, index as u64));
    (clutter, settings, numbers)
}

fn stream(seed: u64, index: u64) -> NoiseStream {
    Noise::new(seed).stream(Key::new(Purpose::Prior, index))
}

fn one_each(numbers: &[f64]) -> Vec<Vec<f64>> {
    numbers.iter().map(|x| vec![*x]).collect()
}

fn agreement(options: &Options, claims: &mut Claims, panels: &mut Vec<Panel>) -> Result<Value, Failure> {
    println!("Known clutter, 40 silos of one number\n");
    println!(
        "{:<12} {:<28} {:>8} {:>9} {:>12} {:>12} {}",
        "mixture",
        "method",
        "mean",
        "variance",
        "mean, sd off",
        "var, % off",
        counters_head()
    );
    let mut rows = Vec::new();
    for (index, (name, _)) in WORLDS.iter().enumerate() {
        let (clutter, _, numbers) = world(index, options.seed);
        let exact = clutter.exact(&numbers);
        let missing = || format!("no fixed point for {name}");
        let fitted = |silos: &[Vec<f64>]| Method::pvi(options, Loss::NegativeLogLikelihood).fit(&clutter, silos);
        let (pooled, partitioned) = (fitted(std::slice::from_ref(&numbers))?, fitted(&one_each(&numbers))?);
        let known = |found: ClutterPosterior| Posterior { mean: found.mean, sd: found.variance.sqrt(), cost: None };
        let methods = [
            ("exact, on a grid", known(exact)),
            ("expectation propagation", known(clutter.expectation_propagation(&numbers).ok_or_else(missing)?)),
            ("variational, by quadrature", known(clutter.variational(&numbers).ok_or_else(missing)?)),
            ("variational, 1 silo", pooled),
            ("PVI, 40 silos", partitioned),
        ];
        for (method, found) in &methods {
            let mean = (found.mean - exact.mean).abs() / exact.variance.sqrt();
            let variance = 100.0 * (found.sd.powi(2) / exact.variance - 1.0).abs();
            println!(
                "{name:<12} {method:<28} {:>8.4} {:>9.5} {mean:>12.4} {variance:>12.2} {}",
                found.mean,
                found.sd.powi(2),
                counters(found.cost)
            );
            rows.push(json!({
                "mixture": name,
                "method": method,
                "mean": found.mean,
                "variance": found.sd.powi(2),
                "cost": found.cost,
            }));
            claims.judge(
                format!("{name}: {method} within 0.01 sd and 3 % of the exact posterior"),
                mean < 0.01 && variance < 3.0,
            );
        }
        panels.push(panel(&format!("known clutter, {name}"), &methods));
    }
    claims.print_new();
    Ok(rows.into())
}

fn panel(title: &str, methods: &[(&str, Posterior)]) -> Panel {
    let curve =
        |(name, found): &(&str, Posterior)| ((*name).to_owned(), Density::Normal { mean: found.mean, sd: found.sd });
    Panel { title: title.into(), unit: "mean of the signal".into(), curves: methods.iter().map(curve).collect() }
}

/// One more number at growing distance, in two silos of fifty numbers with tails that the model does not know.
fn influence(options: &Options, claims: &mut Claims) -> Result<Value, Failure> {
    const DISTANCES: [f64; 7] = [2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0];
    let assumed = Clutter::new(ClutterSettings {
        prior_mean: 1.0,
        prior_sd: 2.5_f64.sqrt(),
        noise_weight: 0.0,
        ..ClutterSettings::near()
    });
    // A Student t with four degrees of freedom has variance 2.
    let law = StudentT::new(4.0, 0.0, 0.5_f64.sqrt()).iid([100]);
    let Array { values: numbers, .. } = law.draw(&mut stream(options.seed, 9))?;
    println!("\nFisher-Rao distance that one number more moves the posterior, by its distance\n");
    print!("{:<44}", "loss and divergence");
    DISTANCES.iter().for_each(|distance| print!(" {distance:>7}"));
    println!(" {} of one fit", counters_head());
    let (mut rows, mut curves) = (Vec::new(), Vec::<(String, Vec<(f64, f64)>)>::new());
    let kl = DivergenceChoice::KullbackLeibler;
    let methods = [
        (Loss::NegativeLogLikelihood, kl),
        (Loss::NegativeLogLikelihood, RENYI),
        (Loss::Gamma(1.5), kl),
        (Loss::Beta(1.5), kl),
        (Loss::Beta(1.5), RENYI),
    ];
    for (loss, divergence) in methods {
        let method = Method::generalised(options, loss, divergence);
        let fitted = |outlier: Option<f64>| {
            let mut silos = [numbers[..50].to_vec(), numbers[50..].to_vec()];
            silos[1].extend(outlier);
            method.fit(&assumed, &silos)
        };
        let base = fitted(None)?;
        let curve = DISTANCES
            .iter()
            .map(|distance| {
                let own = fitted(Some(*distance))?;
                Ok(fisher_rao_distance((own.mean, own.sd), (base.mean, base.sd))?)
            })
            .collect::<Result<Vec<f64>, Failure>>()?;
        let name = format!("{loss}, {}", if divergence == kl { "KL" } else { "Rényi 0.75" });
        print!("{name:<44}");
        curve.iter().for_each(|moved| print!(" {moved:>7.4}"));
        println!(" {}", counters(base.cost));
        if loss == Loss::NegativeLogLikelihood {
            let grows = curve.windows(2).all(|pair| pair[0] < pair[1]);
            claims.judge(format!("influence grows with the distance under the {name}"), grows);
        } else {
            let fades = curve[1..].iter().all(|moved| *moved < 0.02);
            claims.judge(format!("influence is below 0.02 from distance 4 on under the {name}"), fades);
        }
        if (loss, divergence) == (Loss::NegativeLogLikelihood, RENYI) {
            // Its posterior is wider, so that the same shift of the mean is a shorter way.
            let less = curve.iter().zip(&curves[0].1).all(|(moved, (_, under_kl))| moved < under_kl);
            claims.judge("influence under the log likelihood is smaller with Rényi than with KL".into(), less);
        }
        rows.push(json!({"method": name, "distances": DISTANCES, "influence": curve, "cost": base.cost}));
        curves.push((name, DISTANCES.into_iter().zip(curve).collect()));
    }
    let axes = ["distance of the number", "Fisher-Rao distance of the posteriors"];
    lines(&options.output.join("influence.svg"), &curves, "Influence of one number more", axes)?;
    claims.print_new();
    Ok(rows.into())
}

/// A normal model for numbers of which half are clutter.
fn half_clutter(options: &Options, claims: &mut Claims, panels: &mut Vec<Panel>) -> Result<Value, Failure> {
    println!("\nUnknown clutter, half of the numbers, 40 silos of one number\n");
    println!("{:<12} {:<36} {:>8} {:>9} {}", "mixture", "method", "mean", "variance", counters_head());
    let mut rows = Vec::new();
    for (index, (name, _)) in WORLDS.iter().enumerate() {
        let (clutter, settings, numbers) = world(index, options.seed);
        let normal = Clutter::new(ClutterSettings { noise_weight: 0.0, ..settings });
        let silos = one_each(&numbers);
        let fitted = |model, loss| Method::pvi(options, loss).fit(model, &silos);
        // Undamped, the Rényi divergence soon meets a cavity that is no density.
        let generalised =
            |loss| method::settled(Method::generalised(options, loss, RENYI).damped(0.2).fit(&normal, &silos));
        let methods = [
            ("PVI that knows of the clutter", Some(fitted(&clutter, Loss::NegativeLogLikelihood)?)),
            ("normal model, log likelihood", Some(fitted(&normal, Loss::NegativeLogLikelihood)?)),
            ("the same, Rényi 0.75", generalised(Loss::NegativeLogLikelihood)?),
            ("normal model, β loss of index 1.5", Some(fitted(&normal, Loss::Beta(1.5))?)),
            ("the same, β loss and Rényi 0.75", generalised(Loss::Beta(1.5))?),
        ];
        for (method, found) in &methods {
            match found {
                Some(found) => println!(
                    "{name:<12} {method:<36} {:>8.4} {:>9.5} {}",
                    found.mean,
                    found.sd.powi(2),
                    counters(found.cost)
                ),
                None => println!("{name:<12} {method:<36} ended at a cavity that is no density"),
            }
            rows.push(json!({
                "mixture": name,
                "method": method,
                "mean": found.map(|found| found.mean),
                "variance": found.map(|found| found.sd.powi(2)),
                "cost": found.and_then(|found| found.cost),
            }));
        }
        let sd = |row: usize| methods[row].1.map(|found: Posterior| found.sd);
        let wider = sd(3) > sd(0);
        claims.judge(format!("{name}: the β loss is less certain than the model that knows of the clutter"), wider);
        // A fit that ended early says nothing of variances.
        if let Some(both) = sd(4) {
            let words =
                format!("{name}: with Rényi and the β loss less certain than the model that knows of the clutter");
            claims.judge(words, Some(both) > sd(0));
        }
        let found: Vec<(&str, Posterior)> =
            methods.iter().filter_map(|(method, found)| Some((*method, (*found)?))).collect();
        panels.push(panel(&format!("unknown clutter, {name}"), &found));
    }
    claims.print_new();
    Ok(rows.into())
}

/// A normal model for numbers of which a tenth or a fifth lie elsewhere, in ten silos.
fn contamination(options: &Options, claims: &mut Claims, panels: &mut Vec<Panel>) -> Result<Value, Failure> {
    const SIGNAL: f64 = 2.0;
    println!("\nA signal at {SIGNAL}, some numbers around 10, a normal model, 10 silos of 10 numbers\n");
    println!(
        "{:<6} {:<24} {:>10} {:>10} {:>25} {}",
        "wrong",
        "loss",
        "mean",
        "sd",
        "largest error of the mean",
        counters_head()
    );
    let mut rows = Vec::new();
    for share in [0.1, 0.2] {
        let settings =
            ClutterSettings { noise_mean: 10.0, noise_sd: 1.0, noise_weight: share, ..ClutterSettings::near() };
        let normal = Clutter::new(ClutterSettings { noise_weight: 0.0, ..settings });
        let mut methods = Vec::new();
        for loss in [Loss::NegativeLogLikelihood, Loss::Beta(1.5), Loss::Gamma(1.5)] {
            let (mut first, mut worst) = (None, 0.0_f64);
            for set in 0..options.sets {
                let numbers = Clutter::new(settings).draw(SIGNAL, 100, &mut stream(options.seed + set, 20));
                let silos: Vec<Vec<f64>> = numbers.chunks(10).map(<[f64]>::to_vec).collect();
                let found = Method::pvi(options, loss).fit(&normal, &silos)?;
                worst = worst.max((found.mean - SIGNAL).abs());
                first = first.or(Some(found));
                rows.push(json!({
                    "share": share,
                    "loss": loss.to_string(),
                    "set": set,
                    "mean": found.mean,
                    "sd": found.sd,
                    "cost": found.cost,
                }));
            }
            let Some(found) = first else { return Err("no data set".into()) };
            let name = loss.to_string();
            println!(
                "{:<6} {name:<24} {:>10.4} {:>10.4} {worst:>25.4} {}",
                format!("{:.0} %", 100.0 * share),
                found.mean,
                found.sd,
                counters(found.cost)
            );
            // The clean mean of 80 numbers is itself uncertain by 0.11; 0.4 is three and a half times that.
            let claim = if loss == Loss::NegativeLogLikelihood {
                (
                    format!("{:.0} % wrong: the log likelihood loses the mean (off by more than 0.5)", 100.0 * share),
                    worst > 0.5,
                )
            } else {
                (format!("{:.0} % wrong: the {name} keeps the mean (off by less than 0.4)", 100.0 * share), worst < 0.4)
            };
            claims.judge(claim.0, claim.1);
            methods.push((name, found));
        }
        let named: Vec<(&str, Posterior)> = methods.iter().map(|(name, found)| (name.as_str(), *found)).collect();
        panels.push(panel(&format!("{:.0} % wrong numbers", 100.0 * share), &named));
    }
    claims.print_new();
    Ok(rows.into())
}
