//! Counts the steps SFVI needs to converge, from scratch and after a few rounds of SFVI-Avg (Figure 3 of the paper).

use partita::inference::{
    Algorithm, AveragingSilo, Barycentre, Counters, Exchange, InProcess, Rounds, Sfvi, SfviAvg, Silo, SiloProgram,
    assess, plot,
};
use partita::models::{ClassifiedRows, MultinomialRegression};
use partita::{Schedule, Settings};
use serde_json::{Value, json};

use super::study::{self, SHAPE, WARM_ROUNDS};
use super::{Failure, World};

/// Draws behind each measured bound, the same at every step of every run: differences have little noise.
const DRAWS: usize = 16;
/// The share of the final gain that counts as converged.
const SHARE: f64 = 0.999;

/// The bound after some steps of a run: local steps of rounds, then steps of SFVI.
struct Run {
    points: Vec<(u64, f64)>,
}

/// Measures both runs on every case chosen, draws the last, and counts.
pub(crate) fn run(world: &World) -> Result<Value, Failure> {
    let mut results = Vec::new();
    for case in world.options.cases() {
        let silos = world.silos(case, world.options.seed)?;
        let steps = world.options.steps;
        let cold = measure(world, &silos, 0)?;
        let warm = measure(world, &silos, WARM_ROUNDS)?;
        let rounds_end = WARM_ROUNDS * world.options.local_steps;
        let (start, end) = (cold.points[0].1, cold.points[cold.points.len() - 1].1);
        let target = start + SHARE * (end - start);
        let reached = |run: &Run, from: u64| {
            run.points.iter().find(|(step, elbo)| *step >= from && *elbo >= target).map(|(step, _)| step - from)
        };
        let (without, with) = (reached(&cold, 0), reached(&warm, rounds_end));
        let show = |count: Option<u64>| count.map_or(format!("more than {steps}"), |count| count.to_string());
        println!(
            "{} silos of {}: ELBO {start:.0} at the start, {end:.0} after {steps} steps; 99.9 % of the gain is {target:.0}",
            case.silos, case.rows
        );
        println!("  from scratch: {} steps; after {WARM_ROUNDS} rounds: {} steps", show(without), show(with));
        let name = format!("figure3_{}.svg", case.name);
        let curve = |label: &str, run: &Run, from: u64| {
            let after = run.points.iter().filter(|(step, _)| *step >= from);
            #[expect(clippy::cast_precision_loss, reason = "steps are far below 2^52")]
            let points: Vec<(f64, f64)> = after.map(|(step, elbo)| ((step - from) as f64, *elbo)).collect();
            (label.to_owned(), points)
        };
        let curves = [
            curve("SFVI from scratch", &cold, 0),
            curve(
                &format!("SFVI after {WARM_ROUNDS} rounds of SFVI-Avg({})", world.options.local_steps),
                &warm,
                rounds_end,
            ),
        ];
        let title = format!("ELBO of SFVI on MNIST, {} silos of {} images", case.silos, case.rows);
        plot::curves(&world.options.output.join(&name), &curves, &title, Some(target))?;
        let points = |run: &Run| json!(run.points);
        results.push(json!({
            "case": case.name,
            "elbo_at_start": start,
            "elbo_at_end": end,
            "target": target,
            "steps_from_scratch": without,
            "steps_after_rounds": with,
            "rounds": WARM_ROUNDS,
            "local_steps": world.options.local_steps,
            "elbo_after_rounds": warm.points.iter().find(|(step, _)| *step >= rounds_end).map(|(_, elbo)| *elbo),
            "elbo_at_end_after_rounds": warm.points.last().map(|(_, elbo)| *elbo),
            "from_scratch": points(&cold),
            "after_rounds": points(&warm),
        }));
    }
    Ok(json!({ "figure3": results, "options": format!("{:?}", world.options) }))
}

/// Runs SFVI, after so many rounds of SFVI-Avg, at a constant rate, and measures the bound now and then.
fn measure(world: &World, silos: &[(String, ClassifiedRows)], rounds: u64) -> Result<Run, Failure> {
    let options = &world.options;
    let local_steps = options.local_steps;
    let total = rounds * local_steps + options.steps;
    // A falling rate would decide by itself when a run converges.
    let settings = Settings {
        schedule: Schedule::Constant { rate: options.rate },
        ..study::settings(options, total, options.seed)
    };
    let model = MultinomialRegression::new(SHAPE, &world.device);
    let names: Vec<String> = silos.iter().map(|(name, _)| name.clone()).collect();
    let mut programs: Vec<Box<dyn SiloProgram>> = Vec::new();
    for ((name, data), index) in silos.iter().zip(0..) {
        let silo = Silo::new(name, index, &model, data, &world.device, &settings)?;
        programs.push(if rounds == 0 { Box::new(silo) } else { Box::new(AveragingSilo::new(silo, index)) });
    }
    let mut exchange = InProcess::new(programs, options.threads)?;
    let mut algorithm: Box<dyn Algorithm> = if rounds == 0 {
        Box::new(Sfvi::new(&model, &world.device, &settings, &names)?)
    } else {
        let how = Rounds {
            local_steps,
            averaging: Box::new(Barycentre),
            sizes: silos.iter().map(|(_, data)| data.covariates().rows()).collect(),
            by_size: false,
            keep_optimiser: false,
            most: Some(rounds),
            scale_entropy: false,
        };
        Box::new(SfviAvg::new(&model, &world.device, &settings, &names, how)?)
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(options.threads).build()?;
    let every = (options.steps / 100).max(1);
    pool.install(|| {
        let mut counters = Counters::default();
        let mut bound = |algorithm: &dyn Algorithm, exchange: &mut InProcess| {
            assess(algorithm, exchange, DRAWS, &mut counters).map(|estimate| estimate.elbo)
        };
        let mut points = vec![(0, bound(&*algorithm, &mut exchange)?)];
        let mut step = 0;
        while step < total {
            let requests = algorithm.outgoing()?;
            let outcomes = exchange.exchange(requests, algorithm.manifest(), None)?;
            step = algorithm.incoming(outcomes)?.step;
            if step <= rounds * local_steps || (step - rounds * local_steps).is_multiple_of(every) || step == total {
                points.push((step, bound(&*algorithm, &mut exchange)?));
                world.check()?;
            }
        }
        Ok(Run { points })
    })
}
