//! Counts the steps SFVI needs to converge, from scratch and after a few rounds of SFVI-Avg (Figure 3 of the paper).

use partita::inference::{
    Algorithm, AveragingSilo, Counters, Exchange, InProcess, RoundOptions, Sfvi, SfviAvg, Silo, SiloProgram,
    estimate_elbo,
};
use partita::models::{ClassifiedRows, MultinomialRegression};
use partita::{Schedule, Settings};
use serde_json::{Value, json};

use super::World;
use super::study::{self, Case, SHAPE, WARM_ROUNDS};
use crate::harness::{Result, real};
use crate::pictures;

/// Draws for each measured bound, the same at every step of every run, so that differences have little noise.
const DRAWS: usize = 16;
/// The share of the final gain that counts as converged.
const SHARE: f64 = 0.999;

/// The bound at several steps of a run: local steps of rounds, then steps of SFVI.
struct Run {
    points: Vec<(u64, f64)>,
}

/// Measures both runs on every case chosen, draws the last, and counts.
pub(crate) fn run(world: &World) -> Result<Value> {
    let mut results = Vec::new();
    for case in world.options.cases() {
        let silos = world.silos(case, world.options.shared.seed)?;
        let (cold, warm) = (measure(world, &silos, 0)?, measure(world, &silos, WARM_ROUNDS)?);
        results.push(compare(world, case, &cold, &warm)?);
    }
    Ok(json!({ "figure3": results, "options": format!("{:?}", world.options) }))
}

/// Counts, prints and draws the steps from scratch and after the rounds.
fn compare(world: &World, case: &Case, cold: &Run, warm: &Run) -> Result<Value> {
    let (steps, local_steps) = (world.options.steps, world.options.local_steps);
    let rounds_end = WARM_ROUNDS * local_steps;
    let (start, end) = (cold.points[0].1, cold.points[cold.points.len() - 1].1);
    let target = start + SHARE * (end - start);
    let reached = |run: &Run, from: u64| {
        run.points.iter().find(|(step, elbo)| *step >= from && *elbo >= target).map(|(step, _)| step - from)
    };
    let (without, with) = (reached(cold, 0), reached(warm, rounds_end));
    let show = |count: Option<u64>| count.map_or(format!("more than {steps}"), |count| count.to_string());
    println!(
        "{} silos of {}: ELBO {start:.0} at the start, {end:.0} after {steps} steps; 99.9 % of the gain is {target:.0}",
        case.silos, case.rows
    );
    println!("  from scratch: {} steps; after {WARM_ROUNDS} rounds: {} steps", show(without), show(with));
    let curve = |label: &str, run: &Run, from: u64| {
        let after = run.points.iter().filter(|(step, _)| *step >= from);
        (label.to_owned(), after.map(|(step, elbo)| (real(step - from), *elbo)).collect())
    };
    let after_rounds = format!("SFVI after {WARM_ROUNDS} rounds of SFVI-Avg({local_steps})");
    let curves = [curve("SFVI from scratch", cold, 0), curve(&after_rounds, warm, rounds_end)];
    let title = format!("ELBO of SFVI on MNIST, {} silos of {} images", case.silos, case.rows);
    pictures::curves(
        &world.session.file(&format!("figure3_{}.svg", case.name)),
        &curves,
        [&title, "step", "ELBO, nats"],
        Some(target),
    )?;
    Ok(json!({
        "case": case.name,
        "elbo_at_start": start,
        "elbo_at_end": end,
        "target": target,
        "steps_from_scratch": without,
        "steps_after_rounds": with,
        "rounds": WARM_ROUNDS,
        "local_steps": local_steps,
        "elbo_after_rounds": warm.points.iter().find(|(step, _)| *step >= rounds_end).map(|(_, elbo)| *elbo),
        "elbo_at_end_after_rounds": warm.points.last().map(|(_, elbo)| *elbo),
        "from_scratch": cold.points,
        "after_rounds": warm.points,
    }))
}

/// Runs SFVI at a constant rate, after `rounds` rounds of SFVI-Avg, and measures the bound at intervals.
fn measure(world: &World, silos: &[(String, ClassifiedRows)], rounds: u64) -> Result<Run> {
    let options = &world.options;
    let local_steps = options.local_steps;
    let total = rounds * local_steps + options.steps;
    // A falling rate would itself determine when a run converges.
    let settings = Settings {
        schedule: Schedule::Constant { rate: options.rate },
        ..study::settings(options, total, options.shared.seed)
    };
    let model = MultinomialRegression::new(SHAPE, &world.device);
    let names: Vec<String> = silos.iter().map(|(name, _)| name.clone()).collect();
    let mut programs: Vec<Box<dyn SiloProgram>> = Vec::new();
    for ((name, data), index) in silos.iter().zip(0..) {
        let silo = Silo::new(name, index, &model, data, &world.device, &settings)?;
        programs.push(if rounds == 0 { Box::new(silo) } else { Box::new(AveragingSilo::new(silo, index)) });
    }
    let mut exchange = InProcess::new(programs, options.shared.threads)?;
    let mut algorithm: Box<dyn Algorithm> = if rounds == 0 {
        Box::new(Sfvi::new(&model, &world.device, &settings, &names)?)
    } else {
        let sizes = silos.iter().map(|(_, data)| data.covariates().rows()).collect();
        let how = RoundOptions { most: Some(rounds), ..RoundOptions::paper(local_steps) };
        Box::new(SfviAvg::new(&model, &world.device, &settings, &names, sizes, how)?)
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(options.shared.threads).build()?;
    let every = (options.steps / 100).max(1);
    pool.install(|| {
        let mut counters = Counters::default();
        let mut bound = |algorithm: &dyn Algorithm, exchange: &mut InProcess| {
            estimate_elbo(algorithm, exchange, DRAWS, &mut counters).map(|estimate| estimate.elbo)
        };
        let mut points = vec![(0, bound(&*algorithm, &mut exchange)?)];
        let mut step = 0;
        while step < total {
            let requests = algorithm.outgoing()?;
            let outcomes = exchange.exchange(requests, algorithm.manifest(), None)?;
            step = algorithm.incoming(outcomes)?.step;
            if step <= rounds * local_steps || (step - rounds * local_steps).is_multiple_of(every) || step == total {
                points.push((step, bound(&*algorithm, &mut exchange)?));
                world.session.check()?;
            }
        }
        Ok(Run { points })
    })
}
