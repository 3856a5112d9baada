//! Judges the claims of Figures 4 and 5 by the curves, with tolerances that were fixed before the first full run.

use serde_json::{Value, json};

use super::study::{Curve, Method, Point};
use super::{Panel, Split};
use crate::harness::{Claim, Table, real, sample_sd};

/// The file of the tolerances.
pub(crate) const FILE: &str = file!();

/// Two losses are close if their means over seeds differ by at most this, in nats a test row.
const CLOSE: f64 = 0.01;

/// PVI has "far fewer" messages than global VI in the paper: at least this many times fewer.
const FEWER: f64 = 10.0;

/// The paper's "few" rounds or sweeps.
const FEW: u64 = 10;

/// A loss is worse if its mean over seeds is higher by more than this, in nats a test row.
const WORSE: f64 = 0.001;

/// A curve is rougher if its roughness is more than this times the other's.
const ROUGHER: f64 = 1.5;

/// Rounds whose decrease does not count as roughness.
const SETTLING: usize = 2;

impl Panel {
    /// Its name in tables.
    pub(crate) fn place(&self) -> String {
        match self.split {
            Some(split) => format!("{} {split:?}", self.table),
            None => format!("{} stand-in", self.table),
        }
    }

    /// Its name in files.
    pub(crate) fn slug(&self) -> String {
        self.place().replace([' ', '-'], "_").to_lowercase()
    }

    /// The curves of a method, one a seed.
    pub(crate) fn of(&self, method: Method) -> impl Iterator<Item = &Curve> {
        let place = Method::ALL.iter().position(|own| *own == method);
        self.seeds.iter().filter_map(move |curves| curves.get(place?))
    }

    /// The method's points averaged over seeds: counts are the same for all.
    fn mean(&self, method: Method) -> Vec<Point> {
        let curves: Vec<&Curve> = self.of(method).collect();
        let count = curves.iter().map(|curve| curve.points.len()).min().unwrap_or(0);
        let average = |place: usize, of: fn(&Point) -> f64| {
            curves.iter().map(|curve| of(&curve.points[place])).sum::<f64>() / real(curves.len() as u64)
        };
        let point = |place| Point {
            loss: average(place, |point| point.loss),
            error: average(place, |point| point.error),
            improper: curves.iter().map(|curve| curve.points[place].improper).sum(),
            ..curves[0].points[place]
        };
        (0..count).map(point).collect()
    }

    /// Which of these methods were refused and with which seeds; `None` if none was.
    fn refusals(&self, methods: &[Method]) -> Option<String> {
        let refused = |method: &Method| {
            let label = method.label();
            let one = move |(curve, seed): (&Curve, u64)| {
                curve.refused.as_ref().map(|why| format!("{label} was refused with seed {seed}: {why}"))
            };
            self.of(*method).zip(self.first_seed..).filter_map(one).collect::<Vec<_>>()
        };
        let all: Vec<String> = methods.iter().flat_map(refused).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// The outcome of a claim about these methods here: not met if a refusal ended a curve.
    fn verdict(&self, claim: Claim, methods: &[Method]) -> Claim {
        unless(self.refusals(methods), claim.at(self.place()))
    }

    /// The mean over seeds of the last loss.
    pub(crate) fn end(&self, method: Method) -> f64 {
        self.mean(method).last().map_or(f64::NAN, |point| point.loss)
    }

    /// The standard deviation over seeds of the last loss less that of global VI with the same rows.
    fn spread(&self, method: Method) -> f64 {
        let last = |curve: &Curve| curve.points.last().map_or(f64::NAN, |point| point.loss);
        let global = self.of(Method::GlobalVi).map(last);
        let gaps: Vec<f64> = self.of(method).map(last).zip(global).map(|(own, global)| own - global).collect();
        if gaps.len() > 1 { sample_sd(&gaps) } else { 0.0 }
    }

    /// The root mean square over seeds of the second differences of the loss from round to round, without the first
    /// rounds: zero for a linear or converged curve.
    fn roughness(&self, method: Method) -> f64 {
        let bends = |curve: &Curve| {
            let losses: Vec<f64> = curve.points.iter().skip(SETTLING).map(|point| point.loss).collect();
            losses.windows(3).map(|loss| loss[2] - 2.0 * loss[1] + loss[0]).collect::<Vec<f64>>()
        };
        let all: Vec<f64> = self.of(method).flat_map(bends).collect();
        (all.iter().map(|bend| bend * bend).sum::<f64>() / real(all.len() as u64)).sqrt()
    }

    /// The first point from which the loss stays close to the last one of global VI.
    fn close_from(&self, method: Method) -> Option<Point> {
        let target = self.end(Method::GlobalVi);
        let points = self.mean(method);
        let far = points.iter().rposition(|point| (point.loss - target).abs() > CLOSE);
        points.get(far.map_or(0, |place| place + 1)).copied()
    }

    /// Whether both kinds of PVI come close with far fewer messages than global VI, and the numbers of messages.
    fn economy(&self) -> (bool, String) {
        let needed = |method| self.close_from(method).map(|point| point.messages);
        let (pvi, all) = (PVI.map(needed), needed(Method::GlobalVi));
        let fewer = |own: &Option<u64>| own.zip(all).is_some_and(|(own, all)| FEWER * real(own) <= real(all));
        let ([one, together], pooled) = (pvi.map(or_never), or_never(all));
        let words = format!("messages until close: {one} sequential, {together} synchronous, {pooled} global VI");
        (pvi.iter().all(fewer), words)
    }
}

/// A claim, not met if one of its runs was refused.
fn unless(refused: Option<String>, claim: Claim) -> Claim {
    match refused {
        Some(refused) => Claim { met: Some(false), found: refused, ..claim },
        None => claim,
    }
}

/// The two kinds of PVI.
const PVI: [Method; 2] = [Method::Sequential, Method::Synchronous];
const BESIDE: [Method; 3] = [Method::GlobalVi, Method::Sequential, Method::Synchronous];

/// Judges the claims F4.1 to F4.6 for every panel.
pub(crate) fn judge(panels: &[Panel]) -> Vec<Claim> {
    let mut verdicts = Vec::new();
    let first = |panel: &Panel, method| panel.mean(method).first().map_or(f64::NAN, |point| point.loss);
    for panel in panels {
        let global = panel.end(Method::GlobalVi);
        let gaps = PVI.map(|method| first(panel, method) - global);
        let close = gaps.map(|gap| gap.abs() <= CLOSE);
        let words =
            format!("after one round {:+.4} sequential, {:+.4} synchronous nats from global VI", gaps[0], gaps[1]);
        let from = PVI.map(|method| panel.close_from(method));
        let rounds = from.map(|from| from.map_or("never".to_owned(), |point| format!("after {}", point.round)));
        match panel.split {
            Some(Split::A) => verdicts.push(panel.verdict(Claim::new("F4.1", close == [true; 2]).by(words), &BESIDE)),
            None => {} // The stand-in has claims of its own.
            Some(Split::B) => {
                let later = from.iter().all(|from| from.is_some_and(|point| point.round <= FEW));
                let found = format!("{words}; close {} and {}", rounds[0], rounds[1]);
                verdicts.push(panel.verdict(Claim::new("F4.2", close == [false; 2] && later).by(found), &BESIDE));
            }
        }
        let (cheap, economy) = panel.economy();
        verdicts.push(panel.verdict(Claim::new("F4.3", cheap).by(economy), &BESIDE));
        if panel.split == Some(Split::B) {
            let others = [Method::CommitteeSame, Method::CommitteeSplit, Method::Continual];
            let best = PVI.map(|method| panel.end(method));
            let worse = others.map(|method| panel.end(method));
            let met = worse.iter().all(|worse| best.iter().all(|best| *worse > best + WORSE));
            let found = format!("PVI {}; BCM same, split and VCL {}", list(&best), list(&worse));
            verdicts.push(panel.verdict(Claim::new("F4.4", met).by(found), &[&PVI[..], &others].concat()));
            let spread = [Method::Continual, Method::Sequential, Method::Synchronous];
            let spreads = spread.map(|method| panel.spread(method));
            let met = spreads[0] > spreads[1] && spreads[0] > spreads[2];
            let found =
                format!("sd over seeds of the gap to global VI: VCL, sequential, synchronous {}", list(&spreads));
            verdicts
                .push(panel.verdict(Claim::new("F4.5", met).by(found), &[&spread[..], &[Method::GlobalVi]].concat()));
        }
        let (streaming, sequential) = (panel.end(Method::Streaming), panel.end(Method::Sequential));
        let best = panel.mean(Method::Streaming).iter().map(|point| point.loss).fold(f64::INFINITY, f64::min);
        let found = format!("streaming VB {streaming:.4} (best sweep {best:.4}), sequential PVI {sequential:.4}");
        let met = match panel.table.as_str() {
            "credit" => streaming > best + WORSE && streaming > sequential + WORSE,
            _ => (streaming - sequential).abs() <= CLOSE,
        };
        verdicts.push(panel.verdict(Claim::new("F4.6", met).by(found), &[Method::Streaming, Method::Sequential]));
    }
    verdicts.extend(rounds_by_split(panels));
    verdicts
}

/// A count, or "never".
fn or_never(count: Option<u64>) -> String {
    count.map_or("never".to_owned(), |count| count.to_string())
}

/// The second half of F4.2: PVI needs more rounds if silos differ.
fn rounds_by_split(panels: &[Panel]) -> Vec<Claim> {
    let mut verdicts = Vec::new();
    for pair in panels.chunks(2) {
        let [alike, different] = pair else { continue };
        if alike.table != different.table {
            continue;
        }
        let rounds = |panel: &Panel| PVI.map(|method| panel.close_from(method).map(|point| point.round));
        let (a, b) = (rounds(alike), rounds(different));
        let later = |(a, b): (&Option<u64>, &Option<u64>)| a.is_some_and(|a| b.is_none_or(|b| a < b));
        let met = a.iter().zip(&b).all(later);
        let [a, b] = [a.map(or_never), b.map(or_never)];
        let found =
            format!("rounds until close, A and B: sequential {} and {}, synchronous {} and {}", a[0], b[0], a[1], b[1]);
        let refusals: Vec<String> = pair.iter().filter_map(|panel| panel.refusals(&BESIDE)).collect();
        let refused = (!refusals.is_empty()).then(|| refusals.join("; "));
        verdicts.push(unless(refused, Claim::new("F4.2", met).at(format!("{} A<B", alike.table)).by(found)));
    }
    verdicts
}

/// Judges the claims F5.1, for each model, and F5.2, for the regression and the network in this order.
pub(crate) fn judge_stand_in(panels: &[Panel]) -> Vec<Claim> {
    let mut verdicts = Vec::new();
    for panel in panels {
        let gaps = PVI.map(|method| panel.end(method) - panel.end(Method::GlobalVi));
        let (cheap, words) = panel.economy();
        let met = cheap && gaps.iter().all(|gap| gap.abs() <= CLOSE);
        let [one, other] = gaps;
        let found = format!("ends {one:+.4} sequential, {other:+.4} synchronous nats from global VI; {words}");
        verdicts.push(panel.verdict(Claim::new("F5.1", met).by(found), &BESIDE));
    }
    if let [regression, network] = panels {
        for method in PVI {
            let [smooth, rough] = [regression, network].map(|panel| panel.roughness(method));
            let found = format!("roughness of {}: regression {smooth:.6}, network {rough:.6} nats", method.label());
            let refusals: Vec<String> = panels.iter().filter_map(|panel| panel.refusals(&[method])).collect();
            let refused = (!refusals.is_empty()).then(|| refusals.join("; "));
            let claim = Claim::new("F5.2", rough > ROUGHER * smooth).at("stand-in").by(found);
            verdicts.push(unless(refused, claim));
        }
    }
    verdicts
}

fn list(values: &[f64]) -> String {
    values.iter().map(|value| format!("{value:.4}")).collect::<Vec<_>>().join(", ")
}

/// Prints the losses of one panel: mean and standard deviation over seeds, and their costs.
pub(crate) fn print_table(panel: &Panel) {
    println!("\n{}: test loss in nats a row over {} seeds", panel.place(), panel.seeds.len());
    let head =
        ["", "loss", "gap", "sd", "error %", "rounds", "messages", "kilobytes", "silo steps", "parallel", "improper"];
    let mut table = Table::new(head);
    for method in Method::ALL {
        let Some(last) = panel.mean(method).last().copied() else { continue };
        let gap = last.loss - panel.end(Method::GlobalVi);
        table.row([
            method.label().to_owned(),
            format!("{:.4}", last.loss),
            format!("{gap:+.4}"),
            format!("{:.4}", panel.spread(method)),
            format!("{:.2}", 100.0 * last.error),
            last.round.to_string(),
            last.messages.to_string(),
            counted(last.bytes.map(|[to, from]| (to + from).div_ceil(1_000))),
            last.steps.to_string(),
            counted(last.parallel_steps),
            last.improper.to_string(),
        ]);
    }
    print!("{table}");
    if let Some(refusals) = panel.refusals(&Method::ALL) {
        println!("{refusals}");
    }
}

/// A count; a dash if it was not recorded.
fn counted(count: Option<u64>) -> String {
    count.map_or("-".to_owned(), |count| count.to_string())
}

/// Everything measured in one panel.
pub(crate) fn json_of(panel: &Panel) -> Value {
    let point = |point: &Point| {
        let Point { round, messages, steps, loss, error, improper, parallel_steps, bytes } = point;
        json!({
            "round": round,
            "messages": messages,
            "silo_steps": steps,
            "parallel_steps": parallel_steps,
            "bytes_to_silos": bytes.map(|[to, _]| to),
            "bytes_from_silos": bytes.map(|[_, from]| from),
            "loss": loss,
            "error": error,
            "improper_cavities": improper,
        })
    };
    let curve = |(method, curve): (&Method, &Curve)| {
        json!({
            "method": method.label(),
            "seconds": curve.seconds,
            "refused": curve.refused,
            "points": curve.points.iter().map(point).collect::<Vec<_>>(),
        })
    };
    let seeds = panel.seeds.iter().map(|curves| Method::ALL.iter().zip(curves).map(curve).collect::<Vec<_>>());
    json!({ "table": panel.table, "split": panel.split.map(|split| format!("{split:?}")), "seeds": seeds.collect::<Vec<_>>() })
}
