//! Judges whether the chains of a sampler may be believed: R-hat, effective sample sizes, divergences, warnings.

use crate::engine::family::real;
use crate::engine::metrics::{bulk_effective_sample_size, r_hat, tail_effective_sample_size};
use crate::engine::report::{Severity, Warning};
use crate::engine::trust::chains::{ChainDiagnostics, Convergence, pick};

/// The largest R-hat of chains that agree, and of chains whose draws still say something.
const LARGEST_R_HAT: [f64; 2] = [1.01, 1.05];
/// The least effective sample size for each chain, and that below which draws say nothing.
const LEAST_A_CHAIN: [f64; 2] = [100.0, 25.0];
/// The part of trajectories that may diverge before a part of the posterior is missing.
const MOST_DIVERGENCES: f64 = 0.01;

const VEHTARI: &str = "Vehtari, Gelman, Simpson, Carpenter and Burkner (2021)";
const BETANCOURT: &str = "Betancourt (2017)";

impl Convergence {
    /// The worst of both in every respect; a number that never moves is the worst.
    pub(super) fn worse(self, other: Self) -> Self {
        let r_hat = pick(self.r_hat, other.r_hat, f64::max);
        let bulk = pick(self.bulk, other.bulk, f64::min);
        let tail = pick(self.tail, other.tail, f64::min);
        let overflowed = self.overflowed.max(other.overflowed);
        Self { r_hat, bulk, tail, overflowed, ..self }
    }
}

impl ChainDiagnostics {
    /// Complains of numbers and of chains; `centred` is a local site that could be declared non-centred.
    pub(super) fn complain(&mut self, centred: Option<&str>) {
        let of_numbers = self.convergence.iter().flat_map(|one| one.complaints(self.chains.len(), centred));
        let draws = real(self.draws * self.chains.len());
        let (diverged, cut): (_, usize) =
            (real(self.divergences()), self.chains.iter().map(|chain| chain.at_max_depth).sum());
        let of_divergences = (diverged > 0.0).then(|| {
            let severity = if diverged > MOST_DIVERGENCES * draws { Severity::Doubt } else { Severity::Limit };
            let problem = "trajectories diverged, so that a part of the posterior may be missing: a share of";
            let remedy = format!("Raise `target_accept` (of a command `--target-accept`){}.", reparameterise(centred));
            Warning::new(severity, problem, remedy).measured(diverged / draws).beyond(0.0, BETANCOURT)
        });
        let of_depth = (cut > 0).then(|| {
            let problem =
                "trajectories were cut at the largest depth, so that draws are dependent for longer: a share of";
            Warning::new(Severity::Limit, problem, "Raise `max_depth` (of a command `--max-depth`).")
                .measured(real(cut) / draws)
                .beyond(0.0, BETANCOURT)
        });
        let all: Vec<Warning> = of_numbers.chain(of_divergences).chain(of_depth).collect();
        self.warnings.extend(all);
    }
}

impl Convergence {
    /// What is wrong with this number over so many chains.
    fn complaints(&self, chains: usize, centred: Option<&str>) -> Vec<Warning> {
        let at = |warning: Warning| warning.at(&self.label).of_silo(self.silo.as_ref());
        if self.overflowed > 0 {
            let problem =
                "a number is infinite, or no number, in draws, so that nothing is known of it: it overflowed in";
            let remedy = "Give it a prior that holds it where numbers are finite, or declare it in other units.";
            return vec![at(Warning::new(Severity::Doubt, problem, remedy).measured(real(self.overflowed)))];
        }
        if self.r_hat.is_nan() {
            let problem = "a number is the same in every draw: it has not been sampled";
            return vec![at(Warning::new(Severity::Doubt, problem, "Look for what holds it where it is."))];
        }
        let mut all = Vec::new();
        let [largest, worst] = LARGEST_R_HAT;
        if self.r_hat > largest {
            let severity = if self.r_hat > worst { Severity::Doubt } else { Severity::Limit };
            let remedy = format!("Draw more (of a command `--draws`){}.", reparameterise(centred));
            let warning = Warning::new(severity, "the chains do not agree: R-hat", remedy);
            all.push(at(warning.measured(self.r_hat).beyond(largest, VEHTARI)));
        }
        let [least, useless] = LEAST_A_CHAIN.map(|each| each * real(chains));
        let sizes = [
            (self.bulk, "in the bulk", "Draw more (of a command `--draws`)."),
            (self.tail, "in the tails", "Draw more (of a command `--draws`), or do not report outer quantiles."),
        ];
        // A sample size that cannot be computed is not enough.
        for (found, place, remedy) in sizes.into_iter().filter(|(found, ..)| found.is_nan() || *found < least) {
            let severity = if found >= useless { Severity::Limit } else { Severity::Doubt };
            let warning = Warning::new(severity, format!("the effective sample size {place} is small"), remedy);
            all.push(at(warning.measured(found).beyond(least, VEHTARI)));
        }
        all
    }
}

/// Advice to declare a site in other terms, where that is left to do.
fn reparameterise(centred: Option<&str>) -> String {
    centred.map_or_else(String::new, |site| format!(", or declare `{site}` non-centred (`.non_centred()`)"))
}

/// How well chains agree on one number; NaN for a number that never moves, and for one that overflows.
pub(super) fn converged(label: &str, silo: Option<&str>, chains: &[&[f64]]) -> Convergence {
    let or_nan = |found: Result<f64, crate::engine::metrics::MetricError>| found.unwrap_or(f64::NAN);
    Convergence {
        label: label.to_owned(),
        silo: silo.map(str::to_owned),
        r_hat: or_nan(r_hat(chains)),
        bulk: or_nan(bulk_effective_sample_size(chains)),
        tail: or_nan(tail_effective_sample_size(chains)),
        overflowed: chains.iter().flat_map(|chain| chain.iter()).filter(|draw| !draw.is_finite()).count(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::trust::chains::ChainSummary;

    fn complained(one: Convergence, chain: ChainSummary, centred: Option<&str>) -> Vec<Warning> {
        let mut found = ChainDiagnostics {
            convergence: vec![one],
            chains: vec![chain; 2],
            draws: 100,
            warmup: 100,
            warnings: Vec::new(),
        };
        found.complain(centred);
        found.warnings
    }

    #[test]
    fn a_sample_size_that_cannot_be_computed_is_complained_of() {
        let (bulk, tail) = (f64::NAN, f64::NAN);
        let one = Convergence { label: "beta".into(), silo: None, r_hat: 1.0, bulk, tail, overflowed: 0 };
        let found = complained(one, ChainSummary::default(), None);
        assert!(found.len() == 2 && found.iter().all(|own| own.severity == Severity::Doubt), "{found:?}");
    }

    #[test]
    fn a_number_that_overflows_is_told_apart_from_one_that_never_moves() {
        let told = |chain: &[f64]| complained(converged("beta", None, &[chain, chain]), ChainSummary::default(), None);
        let problem = |found: Vec<Warning>| found.first().map(|own| own.problem.clone()).unwrap_or_default();
        assert!(problem(told(&[1.0; 8])).contains("the same in every draw"));
        let found = told(&[1.0, 2.0, f64::INFINITY, 3.0, 4.0, 5.0]);
        assert!(found.len() == 1 && found[0].number == Some(2.0), "{found:?}");
        assert!(problem(found).contains("overflowed"));
        let both = converged("beta", None, &[&[1.0; 4]]).worse(converged("beta", None, &[&[f64::NAN; 4]]));
        assert_eq!(both.overflowed, 4);
    }

    #[test]
    fn severities_follow_the_numbers_and_advice_names_a_centred_site_alone() {
        let one = |r_hat, bulk| {
            let (label, silo) = ("beta".to_owned(), None);
            Convergence { label, silo, r_hat, bulk, tail: 400.0, overflowed: 0 }
        };
        let severities = |found: Vec<Warning>| found.iter().map(|own| own.severity).collect::<Vec<_>>();
        assert!(complained(one(1.009, 201.0), ChainSummary::default(), None).is_empty());
        assert_eq!(severities(complained(one(1.02, 199.0), ChainSummary::default(), None)), [Severity::Limit; 2]);
        assert_eq!(severities(complained(one(1.06, 49.0), ChainSummary::default(), None)), [Severity::Doubt; 2]);
        let diverged = |divergences| ChainSummary { divergences, ..ChainSummary::default() };
        assert_eq!(severities(complained(one(1.0, 400.0), diverged(1), None)), [Severity::Limit]);
        let found = complained(one(1.0, 400.0), diverged(2), Some("theta"));
        assert!(found[0].severity == Severity::Doubt && found[0].remedy.contains("`theta` non-centred"), "{found:?}");
        assert!(!complained(one(1.0, 400.0), diverged(2), None)[0].remedy.contains("non-centred"));
    }
}
