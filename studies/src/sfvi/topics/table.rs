//! Prints the bounds, their costs, the claims of the paper and the words of topics.

use super::Way;
use super::fit::Fitted;
use crate::harness::{Claim, Table, real};

/// The relative difference up to which a bound is about the same as that of SFVI.
const ABOUT: f64 = 0.01;

/// Judges the claims of the paper by the fits.
pub(super) fn judge(fits: &[Fitted]) -> Vec<Claim> {
    let of = |way: Way| fits.iter().find(|fit| fit.way == way);
    let mut claims = Vec::new();
    for (way, claim) in [
        (Way::Avg, "SFVI-Avg reaches about the bound of SFVI at equal gradient evaluations"),
        (Way::AvgScaled, "SFVI-Avg with scaled entropy reaches about the bound of SFVI at equal gradient evaluations"),
    ] {
        if let (Some(sfvi), Some(own)) = (of(Way::Sfvi), of(way)) {
            let (a, b) = (own.elbo_per_token, sfvi.elbo_per_token);
            let rounds = (own.last().rounds, sfvi.last().rounds);
            let found = format!("{a:.4} against {b:.4} nats a token in {} against {} rounds", rounds.0, rounds.1);
            claims.push(Claim::new(claim, a >= b - ABOUT * b.abs()).by(found));
        }
    }
    let alone: Vec<f64> = fits.iter().filter(|fit| fit.way.alone().is_some()).map(|fit| fit.mean_coherence).collect();
    let federated: Vec<f64> =
        fits.iter().filter(|fit| fit.way.alone().is_none()).map(|fit| fit.mean_coherence).collect();
    if !alone.is_empty() && !federated.is_empty() {
        let (best, worst) =
            (alone.iter().copied().fold(f64::MIN, f64::max), federated.iter().copied().fold(f64::MAX, f64::min));
        let claim = Claim::new("the mean coherence of every federated fit beats every silo alone", worst > best);
        claims.push(claim.by(format!("worst federated {worst:.3}, best alone {best:.3}")));
    }
    if let (Some(sfvi), Some(avg)) = (of(Way::Sfvi), of(Way::Avg)) {
        let (a, b) = (avg.mean_coherence, sfvi.mean_coherence);
        let claim = "SFVI-Avg has the better coherence although SFVI has the better bound";
        let met = a > b && avg.elbo_per_token < sfvi.elbo_per_token;
        claims.push(Claim::new(claim, met).by(format!("coherence {a:.3} against {b:.3}")));
    }
    claims
}

/// Prints the trace of the bound of each fit, its results and costs, and the topics of the first.
pub(super) fn print(fits: &[Fitted]) {
    println!("\nThe bound in nats a token on all documents of a fit, against gradient evaluations");
    for fit in fits {
        let stages = fit.stages.iter().map(|stage| format!("{:>6}: {:.4}", stage.steps, stage.elbo / fit.tokens));
        println!("{:<26} {}", fit.name, stages.collect::<Vec<_>>().join(" "));
    }
    let mut table = Table::new([
        "",
        "ELBO",
        "rounds",
        "MB sent",
        "per token",
        "held out",
        "(encoder)",
        "coherence",
        "worst",
        "best",
        "CPU s",
        "MB",
        "beta",
    ]);
    fits.iter().for_each(|fit| table.row(fit.cells()));
    println!("\n{table}");
    if let Some(fit) = fits.first() {
        println!("Topics of {}:", fit.name);
        for (words, coherence) in fit.topics.iter().zip(&fit.coherence) {
            println!("{coherence:>7.2}  {}", words.join(" "));
        }
    }
    println!("\nPeak memory of the whole run (VmHWM): {:.0} MB", peak_megabytes(fits));
}

/// The largest memory of all fits.
pub(super) fn peak_megabytes(fits: &[Fitted]) -> f64 {
    fits.iter().map(|fit| fit.peak_megabytes).fold(0.0, f64::max)
}

impl Fitted {
    fn cells(&self) -> [String; 13] {
        let last = self.last();
        let extreme =
            |start: f64, of: fn(f64, f64) -> f64| format!("{:.2}", self.coherence.iter().copied().fold(start, of));
        [
            self.name.to_owned(),
            format!("{:.0}", last.elbo),
            last.rounds.to_string(),
            format!("{:.0}", real(last.bytes) / 1e6),
            format!("{:.4}", self.elbo_per_token),
            format!("{:.4}", self.held_out_per_token),
            self.encoder_held_out_per_token.map_or_else(|| "-".into(), |bound| format!("{bound:.4}")),
            format!("{:.3}", self.mean_coherence),
            extreme(f64::MAX, f64::min),
            extreme(f64::MIN, f64::max),
            format!("{:.1}", last.cpu_seconds),
            format!("{:.0}", self.peak_megabytes),
            format!("{:.3}", self.beta),
        ]
    }
}
