//! Prints and draws what was measured, and holds it to the claims of the papers.

use std::fmt;
use std::path::Path;

use partita::inference::plot;
use serde_json::{Value, json};

use super::Failure;
use super::plan::{Part, Size};
use super::study::{Curve, Point};

/// PVI is as good as global inference if their test errors differ by at most this, in percentage points.
const CLOSE: f64 = 0.5;
/// A method gets worse if its test log likelihood falls by more than this, in nats.
const WORSE: f64 = 0.005;

/// What became of a claim.
pub(crate) struct Claim {
    name: &'static str,
    met: bool,
    found: String,
}

impl fmt::Display for Claim {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}: {}", if self.met { "met    " } else { "NOT met" }, self.name, self.found)
    }
}

impl Claim {
    pub(crate) fn json(&self) -> Value {
        json!({ "claim": self.name, "met": self.met, "found": self.found })
    }
}

/// The errors and costs of the runs of a part.
pub(crate) fn print(part: Part, curves: &[Curve]) {
    println!("\n{}", part.title());
    println!(
        "{:<44} {:>7} {:>14} {:>8} {:>7} {:>9} {:>9} {:>9} {:>8}",
        "", "error", "log likelihood", "pruned", "rounds", "messages", "steps", "parallel", "seconds"
    );
    for curve in curves {
        match curve.last() {
            Some(point) => println!(
                "{:<44} {:>5.2} % {:>14.4} {:>8} {:>7} {:>9} {:>9} {:>9} {:>8.0}",
                curve.label,
                100.0 * point.error,
                point.log_likelihood,
                point.pruned,
                point.rounds,
                point.messages,
                point.steps,
                point.parallel_steps,
                curve.seconds
            ),
            None => println!("{:<44} ended before it was measured", curve.label),
        }
        if let Some(refused) = &curve.refused {
            println!("    then refused: {refused}");
        }
    }
    println!();
}

/// Draws the accuracy of the runs of a part against the gradient steps of all silos.
pub(crate) fn draw(folder: &Path, part: Part, curves: &[Curve]) -> Result<(), Failure> {
    let points = |of: fn(&Point) -> f64| -> Vec<(String, Vec<(f64, f64)>)> {
        let line = |curve: &Curve| {
            let points = curve.points.iter().map(|point| (real(point.steps), of(point)));
            (curve.label.clone(), points.collect::<Vec<_>>())
        };
        curves.iter().map(line).filter(|(_, points)| points.len() > 1).collect()
    };
    let file = |what: &str| folder.join(format!("{}_{what}.svg", format!("{part:?}").to_lowercase()));
    let accuracy = points(|point| 100.0 * (1.0 - point.error));
    if accuracy.is_empty() {
        return Ok(());
    }
    let along = "gradient steps of all silos";
    plot::lines(&file("accuracy"), &accuracy, part.title(), [along, "test accuracy, per cent"])?;
    let pruned = points(|point| real(point.pruned as u64));
    plot::lines(&file("pruned"), &pruned, part.title(), [along, "pruned weights"])?;
    Ok(())
}

/// Holds what was measured to what the papers say; parts that were not run are left out.
pub(crate) fn claims(sections: &[(Part, Vec<Curve>)], size: &Size) -> Vec<Claim> {
    let of =
        |part: Part| sections.iter().find(|(own, _)| *own == part).map_or(&[][..], |(_, curves)| curves.as_slice());
    let mut claims = Vec::new();
    if let [global, sequential, synchronous, ..] = of(Part::Alike) {
        let gaps = [sequential, synchronous].map(|curve| curve.error() - global.error());
        let found = format!(
            "test error {:.2} % global, {:+.2} points sequential, {:+.2} synchronous (thesis: 2.0 and +0.1)",
            global.error(),
            gaps[0],
            gaps[1]
        );
        let met = gaps.iter().all(|gap| *gap <= CLOSE);
        claims.push(Claim { name: "PVI within 0.5 points of global VI", met, found });
    }
    if let [sequential, same, split, streaming, more, less] = of(Part::Others) {
        claims.extend(others(sequential, [same, split], streaming, [more, less]));
    }
    let sweep = of(Part::Damping);
    if !sweep.is_empty() {
        let refused = |curve: &&Curve| curve.refused.is_some();
        let names = |curves: Vec<&Curve>| {
            let names = curves.iter().map(|curve| curve.label.rsplit(' ').next().unwrap_or_default());
            names.collect::<Vec<_>>().join(", ")
        };
        let (bad, good): (Vec<&Curve>, Vec<&Curve>) = sweep.iter().partition(refused);
        let factor = |curve: &&Curve| curve.label.rsplit(' ').next().and_then(|word| word.parse::<f64>().ok());
        let threshold = |factor: f64| factor >= 0.25;
        let met = bad.iter().filter_map(factor).all(threshold) && !good.iter().filter_map(factor).any(threshold);
        let found = format!("improper with rho {}; proper with {}", names(bad), names(good));
        claims.push(Claim { name: "F14: products are improper from rho = 0.25 on", met, found });
    }
    if let ([_, sequential, synchronous, ..], [_, stopped, stopped_synchronous, ..]) =
        (of(Part::Alike), of(Part::Stopping))
    {
        let pairs = [(sequential, stopped), (synchronous, stopped_synchronous)];
        let ends = |curve: &Curve| curve.last().map_or(f64::NAN, |point| point.log_likelihood);
        let found = pairs.map(|(plain, stopped)| format!("{:.4} instead of {:.4}", ends(stopped), ends(plain)));
        let met = pairs.iter().all(|(plain, stopped)| ends(stopped) > ends(plain));
        let found = format!("test log likelihood {} sequential, {} synchronous", found[0], found[1]);
        claims.push(Claim { name: "F7.2: early stopping has the better likelihood", met, found });
        let pruned = |curve: &Curve| curve.last().map_or(0, |point| point.pruned);
        let found = format!("{} instead of {}", pruned(stopped), pruned(sequential));
        let met = pruned(stopped) < pruned(sequential);
        claims.push(Claim { name: "early stopping prunes fewer weights", met, found });
    }
    if let [sequential, synchronous, global, stochastic] = of(Part::Digits) {
        claims.extend(digits([sequential, synchronous], global, stochastic, size));
    }
    let named = |curves: &[Curve], slug: &str| curves.iter().find(|curve| curve.run["slug"] == slug).map(Curve::error);
    let divergences = of(Part::Divergence);
    if let (Some(wide), Some(narrow)) = (named(divergences, "renyi_0.5"), named(divergences, "renyi_5")) {
        let found = format!("{narrow:.2} % with 5, {wide:.2} % with 0.5 (thesis: 1.9 and 2.5)");
        claims.push(Claim { name: "F5.4: Rényi 5 has the smaller error than 0.5", met: narrow < wide, found });
    }
    let flipped = of(Part::Flipped);
    if let [Some(average), Some(plain), Some(both)] =
        ["flipped_fedavg", "flipped_pvi", "flipped_both"].map(|slug| named(flipped, slug))
    {
        let found = format!("{both:.2} %, PVI {plain:.2} %, FedAvg {average:.2} %");
        let name = "wrong labels: cross-entropy with Rényi 2.5 beats PVI and FedAvg";
        claims.push(Claim { name, met: both < plain && both < average, found });
    }
    claims
}

/// Holds what PVI is compared with to Figures 6 and 13.
fn others(sequential: &Curve, committees: [&Curve; 2], streaming: &Curve, [more, less]: [&Curve; 2]) -> Vec<Claim> {
    let end = sequential.error();
    let errors = committees.map(Curve::error);
    let found = format!("{:.2} and {:.2} %, sequential PVI {end:.2} %", errors[0], errors[1]);
    let met = errors.iter().all(|error| *error > end + CLOSE);
    let mut claims = vec![Claim { name: "F6.2: both committees end more than 0.5 points above PVI", met, found }];
    // Curves are measured every half sweep.
    if let Some(continual) = streaming.points.get(1) {
        let found = format!("{:.2} %, sequential PVI {end:.2} %", 100.0 * continual.error);
        let met = 100.0 * continual.error > end;
        claims.push(Claim { name: "F6.3: revisits beat continual learning, the first sweep of streaming", met, found });
    }
    let best = streaming.points.iter().map(|point| point.log_likelihood).fold(f64::NEG_INFINITY, f64::max);
    let last = streaming.last().map_or(f64::NAN, |point| point.log_likelihood);
    let found = format!("log likelihood {last:.4} at the end, {best:.4} at best");
    claims.push(Claim { name: "F6.4: streaming gets worse with sweeps", met: last < best - WORSE, found });
    let last = more.points.len().saturating_sub(1);
    let after = |curve: &Curve| curve.points.get(last).map(|point| point.log_likelihood);
    if let [Some(quarter), Some(half), Some(whole)] = [more, less, sequential].map(after) {
        let found = format!("log likelihood {quarter:.4}, {half:.4} and {whole:.4} after as many messages");
        let name = "F13: of sequential damping 0.25, 0.5 and 1 a larger one is faster";
        claims.push(Claim { name, met: quarter < half && half < whole, found });
    }
    claims
}

/// Holds silos of two digits to Figures 8 and 11.
fn digits([sequential, synchronous]: [&Curve; 2], global: &Curve, stochastic: &Curve, size: &Size) -> Vec<Claim> {
    let ends = [sequential, synchronous].map(Curve::error);
    let found = format!("{:.2} % sequential, {:.2} % synchronous, in the {} setting", ends[0], ends[1], size.name);
    let met = ends.iter().all(|error| (error - 3.0).abs() <= CLOSE);
    let mut claims = vec![Claim { name: "F8.2: two digits a silo end at about 3 %", met, found }];
    // After no more messages than these, in nats.
    let after = |curve: &Curve, messages: u64| {
        let so_far = curve.points.iter().take_while(|point| point.messages <= messages);
        so_far.last().map(|point| point.log_likelihood)
    };
    if let Some(messages) = global.points.first().map(|point| point.messages)
        && let [Some(one), Some(all), Some(pooled)] =
            [sequential, synchronous, global].map(|curve| after(curve, messages))
    {
        let found = format!(
            "log likelihood {one:.3} sequential, {all:.3} synchronous, {pooled:.3} global after {messages} messages"
        );
        let name = "F8.1: early on both schedules are ahead of global VI after as many messages";
        claims.push(Claim { name, met: one > pooled && all > pooled, found });
    }
    if let Some(messages) = sequential.points.first().map(|point| point.messages)
        && let [Some(one), Some(biased)] = [sequential, stochastic].map(|curve| after(curve, messages))
    {
        let found = format!("log likelihood {biased:.3} instead of {one:.3} after {messages} messages");
        let name = "F11: global VI that steps on one silo at a time is ahead of sequential PVI at first";
        claims.push(Claim { name, met: biased > one, found });
    }
    claims
}

#[expect(clippy::cast_precision_loss, reason = "counts of steps are far below 2^52")]
fn real(count: u64) -> f64 {
    count as f64
}
