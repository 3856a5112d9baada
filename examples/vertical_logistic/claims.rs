//! Holds the fits to the claims of the paper's section 5.1, with tolerances that were fixed before the first full run.

use super::study::{Algorithm, Found, Statement};
use super::verdict::Verdict;

/// A bound is higher if it is so by more than this many nats and this many standard errors of the difference.
const NATS: f64 = 0.5;
const ERRORS: f64 = 3.0;

/// A mean distance of marginals is smaller if it is below this share of the other.
const SHARE: f64 = 0.95;

/// The largest ρ for which the paper finds the amortised family ahead.
const LOW_RHO: f64 = 1.0;

/// The largest R-hat of a sampler that others may be held to.
const TRUSTED: f64 = 1.05;

/// The fits by statement, algorithm and parties.
struct Fits<'a>(&'a [Found]);

impl<'a> Fits<'a> {
    fn get(&self, statement: Statement, algorithm: Algorithm, parties: usize) -> Option<&'a Found> {
        self.0.iter().find(|one| one.statement == statement && one.algorithm == algorithm && one.parties == parties)
    }

    /// The bound of one fit less that of another with the standard error of the difference.
    fn gap(&self, higher: Option<&Found>, lower: Option<&Found>) -> Option<(f64, f64)> {
        let ((high, one), (low, other)) = (higher?.elbo?, lower?.elbo?);
        Some((high - low, one.hypot(other)))
    }
}

fn is_above((gap, error): (f64, f64)) -> bool {
    gap > NATS && gap > ERRORS * error
}

fn words((gap, error): (f64, f64)) -> String {
    format!("{gap:+.2} ± {error:.2} nats")
}

/// All claims in all settings that were fitted.
pub(crate) fn judge(found: &[Found]) -> Vec<Verdict> {
    let fits = Fits(found);
    let mut settings: Vec<(usize, f64)> = Vec::new();
    for one in found {
        let known =
            |rho: f64| settings.iter().any(|(parties, own)| *parties == one.parties && own.to_bits() == rho.to_bits());
        if let Some(rho) = one.statement.rho()
            && !known(rho)
        {
            settings.push((one.parties, rho));
        }
    }
    let mut verdicts = Vec::new();
    let families = [(Algorithm::MeanField, "mean-field"), (Algorithm::Amortised, "amortised")];
    for &(parties, rho) in &settings {
        let statements = [Statement::Augmented { rho }, Statement::PowerLikelihood { rho }];
        for (algorithm, family) in families {
            let [augmented, power] = statements.map(|statement| fits.get(statement, algorithm, parties));
            // V1: the power-likelihood model has the higher bound.
            if let Some(gap) = fits.gap(power, augmented) {
                let place = format!("J = {parties}, rho {rho}, {family}");
                verdicts.push(Verdict { claim: "V1", place, met: is_above(gap), found: words(gap) });
            }
        }
        for statement in statements {
            let place = format!("J = {parties}, rho {rho}, {}", statement.kind());
            let [field, amortised] = families.map(|(algorithm, _)| fits.get(statement, algorithm, parties));
            let low = rho <= LOW_RHO;
            let (ahead, behind) = if low { (amortised, field) } else { (field, amortised) };
            let which = if low { "amortised less mean-field" } else { "mean-field less amortised" };
            // V3 and V4: which family has the higher bound, at low and at high rho.
            if let Some(gap) = fits.gap(ahead, behind) {
                let claim = if low { "V3" } else { "V4" };
                let found = format!("{which} {}", words(gap));
                verdicts.push(Verdict { claim, place: place.clone(), met: is_above(gap), found });
            }
            // V5 and V6: whose marginals are nearer to those of the sampler on the same model.
            let sampler = fits.get(statement, Algorithm::Sampler, parties);
            if let (Some(sampler), Some(ahead), Some(behind)) = (sampler, ahead, behind) {
                let (own, other) = (ahead.distance(sampler), behind.distance(sampler));
                let trusted = sampler.quality.is_some_and(|(r_hat, _, _)| r_hat < TRUSTED);
                let doubt = if trusted { "" } else { " (the chains do not agree)" };
                let found = format!("distances from NUTS {own:.3} and {other:.3}{doubt}");
                let claim = if low { "V5" } else { "V6" };
                verdicts.push(Verdict { claim, place, met: trusted && own < SHARE * other, found });
            }
        }
    }
    // V2: the power likelihood is less ahead with more parties.
    let (few, many) = (
        settings.iter().map(|(parties, _)| *parties).min().unwrap_or(0),
        settings.iter().map(|(parties, _)| *parties).max().unwrap_or(0),
    );
    for &(_, rho) in settings.iter().filter(|(parties, _)| *parties == few && few < many) {
        for (algorithm, family) in families {
            let gap = |parties| {
                let of = |statement| fits.get(statement, algorithm, parties);
                fits.gap(of(Statement::PowerLikelihood { rho }), of(Statement::Augmented { rho }))
            };
            if let (Some(few_gap), Some(many_gap)) = (gap(few), gap(many)) {
                let narrowing = (few_gap.0 - many_gap.0, few_gap.1.hypot(many_gap.1));
                let found = format!("{} with {few}, {} with {many}", words(few_gap), words(many_gap));
                let place = format!("rho {rho}, {family}");
                verdicts.push(Verdict { claim: "V2", place, met: is_above(narrowing), found });
            }
        }
    }
    verdicts
}
