//! Judges the claims of the papers by the measurements, with tolerances fixed here; runs are found by their names.

use super::plan::{DAMPED, Part, Size};
use super::study::{Curve, Point};
use crate::harness::{Claim, real};

/// PVI is as good as global inference if their test errors differ by at most this, in percentage points.
const CLOSE: f64 = 0.5;
/// A method gets worse if its test log likelihood falls by more than this, in nats.
const WORSE: f64 = 0.005;
/// Early-stopped global inference has found the best test log likelihood if it ends within this of it, in nats.
const NEAR: f64 = 0.005;
/// One method has far fewer messages than another if the other has this many times as many.
const FEWER: f64 = 10.0;
/// From this damping factor on, products of identical silos are improper, and the posterior diverges.
const BREAKS_FROM: f64 = 0.25;

const GLOBAL: &str = "global";
const SEQUENTIAL: &str = "sequential";
const SYNCHRONOUS: &str = "synchronous_0.2";

/// A run, the same with early stopping, and their name in claims.
const STOPPED: [[&str; 3]; 3] = [
    [SEQUENTIAL, "sequential_stopped", "sequential"],
    [SYNCHRONOUS, "synchronous_stopped", "synchronous"],
    ["streaming", "streaming_stopped", "streaming"],
];

/// Whether a claim is met and its numbers, or why it cannot be judged.
type Finding = Result<(bool, String), String>;

/// All curves, and the claims judged by them.
struct Judge<'a> {
    curves: Vec<&'a Curve>,
    claims: Vec<Claim>,
}

impl<'a> Judge<'a> {
    /// The curves with these names of files; `None` unless all are present.
    fn of<const N: usize>(&self, slugs: [&str; N]) -> Option<[&'a Curve; N]> {
        let find = |slug: &str| self.curves.iter().copied().find(|curve| curve.run["slug"] == slug);
        slugs.into_iter().map(find).collect::<Option<Vec<_>>>()?.try_into().ok()
    }

    /// Judges a claim by the curves of these names, if all are present. The claim is not met if one was refused, and
    /// cannot be judged if one is unfinished.
    fn hold<const N: usize>(&mut self, name: &str, slugs: [&str; N], finding: impl FnOnce([&Curve; N]) -> Finding) {
        let Some(curves) = self.of(slugs) else { return };
        let refusals = curves.iter().filter_map(|curve| Some((&curve.label, curve.refused.as_ref()?)));
        let refusals: Vec<String> = refusals.map(|(label, why)| format!("{label} was refused: {why}")).collect();
        let (met, found) = if !refusals.is_empty() {
            (Some(false), refusals.join("; "))
        } else if let Some(curve) = curves.iter().find(|curve| !curve.over) {
            (None, format!("{} is not over", curve.label))
        } else {
            finding(curves).map_or_else(|why| (None, why), |(met, found)| (Some(met), found))
        };
        self.claims.push(Claim { claim: name.to_owned(), place: String::new(), met, found });
    }
}

/// Judges the claims of the papers; a claim is left out unless all its runs are present.
pub(crate) fn judge(sections: &[(Part, Vec<Curve>)], size: &Size) -> Vec<Claim> {
    let curves = sections.iter().flat_map(|(_, curves)| curves).collect();
    let mut judge = Judge { curves, claims: Vec::new() };
    alike(&mut judge, size);
    others(&mut judge, size);
    stopping(&mut judge);
    digits(&mut judge, size);
    damping(&mut judge, size);
    thesis(&mut judge);
    judge.claims
}

/// The last test log likelihood.
fn end(curve: &Curve) -> f64 {
    curve.last().map_or(f64::NAN, |point| point.log_likelihood)
}

/// The point of the best test log likelihood.
fn best(curve: &Curve) -> Option<&Point> {
    curve.points.iter().max_by(|one, other| one.log_likelihood.total_cmp(&other.log_likelihood))
}

/// The first point from which the test error stays within half a point above `target`, in per cent.
fn close_from(curve: &Curve, target: f64) -> Option<&Point> {
    let far = curve.points.iter().rposition(|point| 100.0 * point.error > target + CLOSE);
    curve.points.get(far.map_or(0, |place| place + 1))
}

/// The last point with at most this number of messages.
fn after(curve: &Curve, messages: u64) -> Option<&Point> {
    curve.points.iter().take_while(|point| point.messages <= messages).last()
}

fn nothing_measured() -> String {
    "a run ended before it was measured".to_owned()
}

/// Identical silos beside global inference: Figures 6 and 12.
fn alike(judge: &mut Judge<'_>, size: &Size) {
    let runs = [GLOBAL, SEQUENTIAL, SYNCHRONOUS];
    judge.hold("F6.1: PVI within 0.5 points of global VI", runs, |[global, pvi @ ..]| {
        let gaps = pvi.map(|curve| curve.error() - global.error());
        let found = format!(
            "test error {:.2} % global, {:+.2} points sequential, {:+.2} synchronous (thesis: 2.0 and +0.1)",
            global.error(),
            gaps[0],
            gaps[1]
        );
        Ok((gaps.iter().all(|gap| *gap <= CLOSE), found))
    });
    let name = "F6.1: PVI comes within 0.5 points with ten times fewer messages than global VI over the silos";
    judge.hold(name, runs, |[global, pvi @ ..]| {
        // Over silos, global inference exchanges a request and an answer with each at every step.
        let pooled = close_from(global, global.error()).ok_or_else(nothing_measured)?;
        let all = 2 * size.silos[0] as u64 * pooled.steps;
        let needed = pvi.map(|curve| close_from(curve, global.error()).map(|point| point.messages));
        let met = needed.iter().all(|needed| needed.is_some_and(|own| FEWER * real(own) <= real(all)));
        let [one, other] = needed.map(|needed| needed.map_or("never".to_owned(), |own| own.to_string()));
        Ok((met, format!("messages until there: {one} sequential, {other} synchronous, {all} global")))
    });
    let name = "F6.5: after the best log likelihood more weights are pruned while it falls";
    judge.hold(name, runs, |curves| {
        let (mut met, mut found) = (true, Vec::new());
        for curve in curves {
            let (Some(best), Some(last)) = (best(curve), curve.last()) else { return Err(nothing_measured()) };
            met &= last.pruned > best.pruned && last.log_likelihood < best.log_likelihood - WORSE;
            found.push(format!(
                "{} {} to {} pruned, log likelihood {:.4} to {:.4}",
                curve.label, best.pruned, last.pruned, best.log_likelihood, last.log_likelihood
            ));
        }
        Ok((met, found.join("; ")))
    });
    judge.hold("F12: after as many steps one after another sequential PVI is behind", runs, |curves| {
        let [global, sequential, synchronous] = curves;
        let at = |curve: &Curve, steps: u64| {
            curve.points.iter().find(|point| point.parallel_steps == steps).map(|point| point.log_likelihood)
        };
        // The most steps after which all three were measured.
        let common = global.points.iter().rev().find_map(|point| {
            let steps = point.parallel_steps;
            Some((steps, point.log_likelihood, at(sequential, steps)?, at(synchronous, steps)?))
        });
        let (steps, pooled, one, all) =
            common.ok_or("the runs were never measured after equally many steps that pass one after another")?;
        let found = format!(
            "log likelihood {one:.4} sequential, {all:.4} synchronous, {pooled:.4} global after {steps} such steps"
        );
        Ok((one < pooled && one < all, found))
    });
}

/// The methods compared with PVI: Figures 6 and 13.
fn others(judge: &mut Judge<'_>, size: &Size) {
    let name = "F6.2: both committees end more than 0.5 points above PVI";
    judge.hold(name, [SEQUENTIAL, "committee_same", "committee_split"], |[sequential, committees @ ..]| {
        let (end, errors) = (sequential.error(), committees.map(Curve::error));
        let found = format!("{:.2} and {:.2} %, sequential PVI {end:.2} %", errors[0], errors[1]);
        Ok((errors.iter().all(|error| *error > end + CLOSE), found))
    });
    let name = "F6.3: revisits beat continual learning, the first sweep of streaming";
    judge.hold(name, [SEQUENTIAL, "streaming"], |[sequential, streaming]| {
        let sweep = streaming.points.iter().find(|point| point.rounds == size.silos[0] as u64);
        let continual = 100.0 * sweep.ok_or("streaming was not measured after its first sweep")?.error;
        let end = sequential.error();
        Ok((continual > end, format!("{continual:.2} %, sequential PVI {end:.2} %")))
    });
    judge.hold("F6.4: streaming gets worse with sweeps", ["streaming"], |[streaming]| {
        let (last, best) = (end(streaming), best(streaming).ok_or_else(nothing_measured)?.log_likelihood);
        Ok((last < best - WORSE, format!("log likelihood {last:.4} at the end, {best:.4} at best")))
    });
    let name = "F13: of sequential damping 0.25, 0.5 and 1 a larger one is faster";
    judge.hold(name, ["sequential_0.25", "sequential_0.5", SEQUENTIAL], |curves| {
        let messages = curves[0].last().ok_or_else(nothing_measured)?.messages;
        let [Some(quarter), Some(half), Some(whole)] = curves.map(|curve| after(curve, messages)) else {
            return Err(nothing_measured());
        };
        let [quarter, half, whole] = [quarter, half, whole].map(|point| point.log_likelihood);
        let found = format!("log likelihood {quarter:.4}, {half:.4} and {whole:.4} after {messages} messages");
        Ok((quarter < half && half < whole, found))
    });
}

/// Early stopping: Figure 7.
fn stopping(judge: &mut Judge<'_>) {
    let name = "F7.1: stopped global VI ends within 0.005 nats of the best log likelihood of the one not stopped";
    judge.hold(name, [GLOBAL, "global_stopped"], |[global, stopped]| {
        let (best, end) = (best(global).ok_or_else(nothing_measured)?.log_likelihood, end(stopped));
        Ok(((best - end).abs() <= NEAR, format!("{end:.4}, at best {best:.4}")))
    });
    for [plain, stopped, who] in STOPPED {
        let name = format!("F7.2, {who}: early stopping has the better log likelihood");
        judge.hold(&name, [plain, stopped], |[plain, stopped]| {
            Ok((end(stopped) > end(plain), format!("{:.4} instead of {:.4}", end(stopped), end(plain))))
        });
    }
    let name = "F7.3: stopped sequential PVI and stopped streaming end better than global VI, stopped or not";
    let runs = [GLOBAL, "global_stopped", "sequential_stopped", "streaming_stopped"];
    judge.hold(name, runs, |curves| {
        let [global, stopped, sequential, streaming] = curves.map(end);
        let found = format!(
            "log likelihood {sequential:.4} sequential, {streaming:.4} streaming, {stopped:.4} global stopped, \
             {global:.4} not stopped"
        );
        Ok((sequential.min(streaming) > global.max(stopped), found))
    });
    for [plain, stopped, who] in STOPPED {
        let name = format!("F7.4, {who}: early stopping fits training digits better and test digits no worse");
        judge.hold(&name, [plain, stopped], |[plain, stopped]| {
            let training = |curve: &Curve| {
                let found = curve.last().and_then(|point| point.train_log_likelihood);
                found.ok_or_else(|| format!("the training log likelihood of {} was not measured", curve.label))
            };
            let (before, after) = (training(plain)?, training(stopped)?);
            let found = format!(
                "training {after:.4} instead of {before:.4}, test {:.4} instead of {:.4}",
                end(stopped),
                end(plain)
            );
            Ok((after > before && end(stopped) >= end(plain) - WORSE, found))
        });
    }
    let name = "early stopping prunes fewer weights";
    judge.hold(name, [SEQUENTIAL, "sequential_stopped"], |curves| {
        let [Some(plain), Some(stopped)] = curves.map(|curve| curve.last().map(|point| point.pruned)) else {
            return Err(nothing_measured());
        };
        Ok((stopped < plain, format!("{stopped} instead of {plain}")))
    });
}

/// Silos of two digits: Figures 8 and 11.
fn digits(judge: &mut Judge<'_>, size: &Size) {
    let pvi = ["shards_sequential", "shards_synchronous"];
    judge.hold("F8.2: two digits a silo end at about 3 %", pvi, |curves| {
        let ends = curves.map(Curve::error);
        let found = format!("{:.2} % sequential, {:.2} % synchronous, in the {} setting", ends[0], ends[1], size.name);
        Ok((ends.iter().all(|error| (error - 3.0).abs() <= CLOSE), found))
    });
    let name = "F8.1: early on both schedules are ahead of global VI after as many messages";
    judge.hold(name, [pvi[0], pvi[1], "shards_global"], |curves| {
        // The first number of messages by which all three had a measurement.
        let first: Option<Vec<u64>> = curves.iter().map(|curve| Some(curve.points.first()?.messages)).collect();
        let messages = first.and_then(|first| first.into_iter().max()).ok_or_else(nothing_measured)?;
        let [Some(one), Some(all), Some(pooled)] = curves.map(|curve| after(curve, messages)) else {
            return Err(nothing_measured());
        };
        let [one, all, pooled] = [one, all, pooled].map(|point| point.log_likelihood);
        let found = format!(
            "log likelihood {one:.3} sequential, {all:.3} synchronous, {pooled:.3} global after {messages} messages"
        );
        Ok((one > pooled && all > pooled, found))
    });
    let name = "F8.3: two digits a silo need ten times the messages of silos alike to come within 0.5 points";
    judge.hold(
        name,
        [GLOBAL, SEQUENTIAL, SYNCHRONOUS, pvi[0], pvi[1]],
        |[global, one, all, shards_one, shards_all]| {
            let (mut met, mut found) = (true, Vec::new());
            for (who, alike, shards) in [("sequential", one, shards_one), ("synchronous", all, shards_all)] {
                let few = close_from(alike, global.error());
                let few = few.ok_or_else(|| format!("silos alike never came close: {}", alike.label))?.messages;
                let last = shards.last().ok_or_else(nothing_measured)?.messages;
                let there = close_from(shards, global.error()).map(|point| point.messages);
                let many = there.unwrap_or(last);
                met &= real(many) >= FEWER * real(few);
                let ending = if there.is_some() { "" } else { " and not there yet" };
                found.push(format!("{who} {many}{ending} instead of {few}"));
            }
            Ok((met, format!("messages: {}", found.join(", "))))
        },
    );
    let name = "F11: global VI that steps on one silo at a time is ahead of sequential PVI at first";
    judge.hold(name, [pvi[0], "shards_stochastic"], |curves| {
        let messages = curves[0].points.first().ok_or_else(nothing_measured)?.messages;
        let [Some(one), Some(biased)] = curves.map(|curve| after(curve, messages)) else {
            return Err(format!("not all runs were measured by {messages} messages"));
        };
        let [one, biased] = [one, biased].map(|point| point.log_likelihood);
        Ok((biased > one, format!("log likelihood {biased:.3} instead of {one:.3} after {messages} messages")))
    });
}

/// The damping of synchronous updates: Figure 14. The claim expects an error: of a product that is not a density, or of
/// a posterior that has diverged.
fn damping(judge: &mut Judge<'_>, size: &Size) {
    let factor = |slug: &str| slug.strip_prefix(DAMPED)?.strip_prefix('_')?.parse::<f64>().ok();
    let mut sweep = Vec::new();
    for run in size.runs(Part::Damping) {
        let (Some(factor), Some([curve])) = (factor(&run.slug), judge.of([run.slug.as_str()])) else { return };
        sweep.push((factor, curve.refused.is_some()));
    }
    let (bad, good): (Vec<_>, Vec<_>) = sweep.into_iter().partition(|(_, refused)| *refused);
    let met =
        bad.iter().all(|(factor, _)| *factor >= BREAKS_FROM) && good.iter().all(|(factor, _)| *factor < BREAKS_FROM);
    let list =
        |sweep: &[(f64, bool)]| sweep.iter().map(|(factor, _)| factor.to_string()).collect::<Vec<_>>().join(", ");
    let found = format!("ended by an error with rho {}; not with {}", list(&bad), list(&good));
    let name = "F14: products are improper, or run away, from rho = 0.25 on";
    judge.claims.push(Claim::new(name, met).by(found));
}

/// The claims of the thesis about divergences and wrong labels.
fn thesis(judge: &mut Judge<'_>) {
    let name = "F5.4: Rényi 5 has the smaller error than 0.5";
    judge.hold(name, ["renyi_0.5", "renyi_5"], |curves| {
        let [wide, narrow] = curves.map(Curve::error);
        Ok((narrow < wide, format!("{narrow:.2} % with 5, {wide:.2} % with 0.5 (thesis: 1.9 and 2.5)")))
    });
    let name = "wrong labels: cross-entropy with Rényi 2.5 beats PVI and FedAvg";
    judge.hold(name, ["flipped_fedavg", "flipped_pvi", "flipped_both"], |curves| {
        let [average, plain, both] = curves.map(Curve::error);
        Ok((both < plain && both < average, format!("{both:.2} %, PVI {plain:.2} %, FedAvg {average:.2} %")))
    });
}
