//! Judges the paper's claims of section 5.1, with tolerances that were fixed before the first full run.

use super::study::{Algorithm, Found, Statement};
use crate::harness::Claim;

/// The file of the tolerances.
pub(crate) const FILE: &str = file!();

/// A bound is higher if it exceeds the other by more than this many nats and this many standard errors of the
/// difference.
const NATS: f64 = 0.5;
const ERRORS: f64 = 3.0;

/// A mean distance of marginals is smaller if it is below this fraction of the other.
const SHARE: f64 = 0.95;

/// The largest ρ for which the paper finds the amortised family ahead.
const LOW_RHO: f64 = 1.0;

/// The largest R-hat of a sampler used as a reference.
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

const FAMILIES: [(Algorithm, &str); 2] = [(Algorithm::MeanField, "mean-field"), (Algorithm::Amortised, "amortised")];

/// A number of parties and a ρ.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Setting {
    parties: usize,
    rho: f64,
}

impl Setting {
    /// The settings of the fits, each once.
    fn all(found: &[Found]) -> Vec<Self> {
        let mut settings: Vec<Self> = Vec::new();
        for one in found {
            let setting = one.statement.rho().map(|rho| Self { parties: one.parties, rho });
            settings.extend(setting.filter(|setting| !settings.contains(setting)));
        }
        settings
    }

    fn statements(self) -> [Statement; 2] {
        [Statement::Augmented { rho: self.rho }, Statement::PowerLikelihood { rho: self.rho }]
    }
}

/// All claims in all settings that were fitted.
pub(crate) fn judge(found: &[Found]) -> Vec<Claim> {
    let (fits, settings) = (Fits(found), Setting::all(found));
    let mut claims = Vec::new();
    for setting in &settings {
        claims.extend(fits.models(*setting));
        claims.extend(setting.statements().iter().flat_map(|statement| fits.families(*setting, *statement)));
    }
    claims.extend(fits.parties(&settings));
    claims
}

impl Fits<'_> {
    /// V1: the power-likelihood model has the higher bound.
    fn models(&self, setting: Setting) -> Vec<Claim> {
        let one = |(algorithm, family): (Algorithm, &str)| {
            let [augmented, power] =
                setting.statements().map(|statement| self.get(statement, algorithm, setting.parties));
            let gap = self.gap(power, augmented)?;
            let place = format!("J = {}, rho {}, {family}", setting.parties, setting.rho);
            Some(Claim::new("V1", is_above(gap)).at(place).by(words(gap)))
        };
        FAMILIES.into_iter().filter_map(one).collect()
    }

    /// V3 and V4: the family with the higher bound, at low and at high ρ. V5 and V6: the family with marginals nearer
    /// to those of the sampler on the same model.
    fn families(&self, setting: Setting, statement: Statement) -> Vec<Claim> {
        let Setting { parties, rho } = setting;
        let place = format!("J = {parties}, rho {rho}, {}", statement.kind());
        let [field, amortised] = FAMILIES.map(|(algorithm, _)| self.get(statement, algorithm, parties));
        let low = rho <= LOW_RHO;
        let (ahead, behind) = if low { (amortised, field) } else { (field, amortised) };
        let which = if low { "amortised less mean-field" } else { "mean-field less amortised" };
        let mut claims = Vec::new();
        if let Some(gap) = self.gap(ahead, behind) {
            let claim = Claim::new(if low { "V3" } else { "V4" }, is_above(gap));
            claims.push(claim.at(place.clone()).by(format!("{which} {}", words(gap))));
        }
        let sampler = self.get(statement, Algorithm::Sampler, parties);
        if let (Some(sampler), Some(ahead), Some(behind)) = (sampler, ahead, behind) {
            let (own, other) = (ahead.distance(sampler), behind.distance(sampler));
            let trusted = sampler.quality.is_some_and(|(r_hat, _, _)| r_hat < TRUSTED);
            let doubt = if trusted { "" } else { " (the chains do not agree)" };
            let claim = Claim::new(if low { "V5" } else { "V6" }, trusted && own < SHARE * other);
            claims.push(claim.at(place).by(format!("distances from NUTS {own:.3} and {other:.3}{doubt}")));
        }
        claims
    }

    /// V2: the lead of the power likelihood is smaller with more parties.
    fn parties(&self, settings: &[Setting]) -> Vec<Claim> {
        let few = settings.iter().map(|setting| setting.parties).min().unwrap_or(0);
        let many = settings.iter().map(|setting| setting.parties).max().unwrap_or(0);
        let mut claims = Vec::new();
        for setting in settings.iter().filter(|setting| setting.parties == few && few < many) {
            for (algorithm, family) in FAMILIES {
                let gap = |parties| {
                    let [augmented, power] =
                        setting.statements().map(|statement| self.get(statement, algorithm, parties));
                    self.gap(power, augmented)
                };
                if let (Some(few_gap), Some(many_gap)) = (gap(few), gap(many)) {
                    let narrowing = (few_gap.0 - many_gap.0, few_gap.1.hypot(many_gap.1));
                    let found = format!("{} with {few}, {} with {many}", words(few_gap), words(many_gap));
                    let place = format!("rho {}, {family}", setting.rho);
                    claims.push(Claim::new("V2", is_above(narrowing)).at(place).by(found));
                }
            }
        }
        claims
    }
}
