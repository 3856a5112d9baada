//! Writes a report as text: the verdict, what is wrong, the numbers, and what they took.

use std::fmt::{Display, Formatter, Result};

use super::{Report, StartBound, algorithm_name};
use crate::engine::algorithm::Ending;
use crate::engine::trust::chains::ChainDiagnostics;
use crate::engine::trust::correction::Correction;

/// The most entries of θ that are listed for people: more are the weights of a network.
const SHOWN_THETA: usize = 32;
/// The most silos that are listed for people: those that move the answer most.
const SHOWN_SILOS: usize = 10;

impl Display for Report {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> Result {
        writeln!(formatter, "verdict: {}", self.verdict)?;
        for warning in &self.warnings {
            writeln!(formatter, "{warning}")?;
        }
        if let Some(privacy) = &self.privacy {
            writeln!(formatter, "privacy: {}", privacy.promise())?;
        }
        self.write_sites(formatter)?;
        if let Some(correction) = self.trust.correction() {
            self.write_correction(correction, formatter)?;
        }
        self.write_judged(formatter)?;
        self.write_theta(formatter)?;
        for family in &self.families {
            writeln!(formatter, "{family}")?;
        }
        self.write_bound(formatter)?;
        self.write_cost(formatter)
    }
}

/// A number with so many decimals; in scientific notation where it is so large that these say nothing.
pub(super) fn digits(number: f64, decimals: usize) -> String {
    if number.abs() >= LARGE { format!("{number:.2e}") } else { format!("{number:.decimals$}") }
}

/// Nats for people.
pub(super) fn nats(number: f64) -> String {
    digits(number, 2)
}

/// The size from which numbers are in scientific notation.
pub(super) const LARGE: f64 = 1e9;

/// A number for people: to the second digit of its standard deviation, or with four places where it has none.
///
/// Means and standard deviations from a few thousand draws have Monte Carlo errors of one or two hundredths of a standard
/// deviation, and a run stops where a step is as small. A unit of the second digit is between one and ten hundredths: what
/// comes after it is noise.
///
/// # Example
/// ```
/// use partita_inference::in_places;
/// assert_eq!([in_places(0.46512, 0.289), in_places(1.3312e-5, 2.3e-6)], ["0.47", "1.33e-5"]);
/// assert_eq!([in_places(1.000_013_3, 9e-6), in_places(2_345_678.9, 1_200.0)], ["1.0000133", "2345679"]);
/// assert_eq!([in_places(0.5, 0.0), in_places(-0.004, 0.28)], ["0.5000", "0.00"]);
/// ```
#[must_use]
pub fn in_places(value: f64, spread: f64) -> String {
    let (size, last) = (value.abs().log10().floor(), spread.abs().log10().floor() - 1.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 16")]
    let places = |own: f64| own.clamp(0.0, 16.0) as usize;
    let text = match value.abs() {
        own if own >= LARGE => format!("{value:.4e}"),
        _ if !last.is_finite() => format!("{value:.4}"),
        own if own < 1e-3 && last < -4.0 && size.is_finite() => format!("{value:.*e}", places(size - last)),
        _ => format!("{value:.*}", places(-last)),
    };
    let is_zero = value.is_finite() && !text.contains(|letter: char| ('1'..='9').contains(&letter));
    if is_zero { text.replace('-', "") } else { text }
}

/// Low end, middle and high end of a 95 % interval for people, which is four standard deviations wide; ends that are decades apart
/// have their own digits each.
pub(super) fn interval_in_places(interval: [f64; 3]) -> [String; 3] {
    let [low, _, high] = interval;
    let is_wide = low > 0.0 && high > 10.0 * low;
    interval.map(|own| in_places(own, if is_wide { 0.1 * own } else { 0.25 * (high - low) }))
}

/// Columns of the terminal for the names of numbers.
const NARROWEST: usize = 16;
const WIDEST: usize = 48;

impl Report {
    /// The numbers of sites, corrected where that is to be trusted; beside them those of the approximation, or how chains agree.
    fn write_sites(&self, formatter: &mut Formatter<'_>) -> Result {
        let chains = self.trust.chains();
        let locals: Vec<_> = chains.iter().flat_map(|own| own.locals()).collect();
        let names = self.sites.iter().map(|site| &site.label).chain(locals.iter().map(|(name, _)| name));
        let width = names.map(|own| own.chars().count()).max().unwrap_or_default().clamp(NARROWEST, WIDEST);
        let cells = |[r_hat, bulk, tail]: [&str; 3]| format!(" {r_hat:>7} {bulk:>7} {tail:>7}");
        write!(formatter, "{:<width$} {:>9} {:>9} {:>9} {:>9} {:>9}", "site", "mean", "sd", "2.5 %", "50 %", "97.5 %")?;
        let is_corrected = self.trust.correction().is_some_and(Correction::is_trusted);
        writeln!(
            formatter,
            "{}",
            match chains {
                Some(_) => cells(ChainDiagnostics::COLUMNS),
                None if is_corrected => "   uncorrected mean, sd".to_owned(),
                None => String::new(),
            }
        )?;
        for (site, before) in self.answer().into_iter().zip(&self.sites) {
            let q = &site.quantiles;
            write!(formatter, "{:<width$}", site.label)?;
            for number in [site.mean, site.sd, q.p2_5, q.p50, q.p97_5] {
                write!(formatter, " {:>9}", in_places(number, site.sd))?;
            }
            if is_corrected {
                let [mean, sd] = [before.mean, before.sd].map(|number| in_places(number, site.sd));
                write!(formatter, "   {mean:>9} {sd:>9}")?;
            }
            if let Some(own) = chains {
                write!(formatter, "{}", cells(own.beside(&site.label).each_ref().map(String::as_str)))?;
            }
            writeln!(formatter)?;
        }
        for (name, own) in locals {
            let worst = "worst of its numbers";
            writeln!(formatter, "{name:<width$} {worst:>49}{}", cells(own.each_ref().map(String::as_str)))?;
        }
        Ok(())
    }

    fn write_correction(&self, correction: &Correction, formatter: &mut Formatter<'_>) -> Result {
        let verb = if correction.is_trusted() { "corrected" } else { "cannot be corrected" };
        writeln!(
            formatter,
            "{verb} from {} draws around the posterior, worth {:.0}: Pareto k {:.2} (to be trusted below {:.2})",
            correction.draws, correction.effective_sample_size, correction.pareto_k, correction.threshold
        )?;
        if !correction.is_trusted() {
            return Ok(());
        }
        writeln!(
            formatter,
            "log evidence {:.2} nats (Monte Carlo standard error {:.2})",
            correction.log_evidence, correction.log_evidence_se
        )?;
        if self.sites.is_empty() {
            return Ok(());
        }
        let silos = correction.by_influence().into_iter().filter_map(|own| Some((own.silo.as_deref()?, own)));
        let silos: Vec<_> = silos.collect();
        let count = silos.len();
        for (name, own) in silos.into_iter().take(SHOWN_SILOS) {
            match own.farthest() {
                Some((place, moves)) if own.is_trusted() => writeln!(
                    formatter,
                    "silo {name} moves {} most, by {moves:.2} standard deviations",
                    self.sites[place].label
                )?,
                _ => writeln!(
                    formatter,
                    "silo {name}: the answer without it is too far to be known from this one (Pareto k {:.2})",
                    own.pareto_k
                )?,
            }
        }
        if count > SHOWN_SILOS {
            writeln!(formatter, "{} further silos move the answer less", count - SHOWN_SILOS)?;
        }
        Ok(())
    }

    /// How well the model expects the rows of silos, where that was asked.
    fn write_judged(&self, formatter: &mut Formatter<'_>) -> Result {
        if let Some(found) = &self.leave_one_out {
            writeln!(formatter, "{}", found.line("rows"))?;
            if let Some(own) = found.by_observation() {
                writeln!(formatter, "{}", own.line("observations"))?;
            }
        }
        if let Some(found) = &self.evaluation {
            writeln!(formatter, "{}", found.line())?;
        }
        let Some(found) = &self.checks else { return Ok(()) };
        for (place, check) in found.checks.iter().enumerate() {
            let p_values = || found.silos.iter().filter_map(|own| own.p_values.get(place).copied());
            // One that is no number is at an end, and so is told.
            let (least, most) = (p_values().min_by(f64::total_cmp), p_values().max_by(f64::total_cmp));
            let (least, most) = (least.unwrap_or(1.0), most.unwrap_or(0.0));
            let failed = found.failed().filter(|(own, _, _)| *own == check).count();
            writeln!(
                formatter,
                "check: {check}, p-values of {} silos from {least:.3} to {most:.3}, {failed} fail",
                found.silos.len()
            )?;
        }
        Ok(())
    }

    fn write_theta(&self, formatter: &mut Formatter<'_>) -> Result {
        if self.theta.len() > SHOWN_THETA {
            return writeln!(formatter, "theta: {} point estimates, too many to list", self.theta.len());
        }
        for (index, value) in self.theta.iter().enumerate() {
            writeln!(formatter, "{:<NARROWEST$} {value:>9.4} (point estimate)", format!("theta[{index}]"))?;
        }
        Ok(())
    }

    fn write_bound(&self, formatter: &mut Formatter<'_>) -> Result {
        if !self.tells_bound() {
            return Ok(());
        }
        writeln!(
            formatter,
            "{} {} nats (Monte Carlo standard error {}, {} draws)",
            self.objective,
            nats(self.elbo),
            nats(self.elbo_se),
            self.elbo_draws
        )?;
        if let Some(line) = &self.single_precision {
            writeln!(formatter, "{line}")?;
        }
        if !self.starts.is_empty() {
            writeln!(formatter, "{}", StartBound::line(&self.starts))?;
        }
        if let Some(variance) = self.gradient_variance {
            writeln!(
                formatter,
                "variance of a one-draw gradient, summed over global parameters: {}",
                digits(variance, 4)
            )?;
        }
        Ok(())
    }

    fn write_cost(&self, formatter: &mut Formatter<'_>) -> Result {
        if let Some(reason) = &self.choice {
            let name = algorithm_name(&self.algorithm).unwrap_or("unknown");
            writeln!(formatter, "algorithm: {name}, chosen because {reason}")?;
        }
        if let Some(chains) = self.trust.chains() {
            return writeln!(formatter, "{}, {:.1} s on {}", chains.line(), self.seconds, self.device);
        }
        let ending = match self.ending {
            Ending::Completed => "all steps done",
            Ending::Converged => "stopped: it had converged",
            Ending::NotConverged => "stopped: it did not converge",
            Ending::Interrupted => "interrupted: this is what was reached",
        };
        writeln!(
            formatter,
            "{} steps in {:.1} s on {} ({ending}); {}, {} rounds, {} messages, {} bytes ({} of them left silos)",
            self.gradient_steps,
            self.seconds,
            self.device,
            if self.silos.len() == 1 { "1 silo".into() } else { format!("{} silos", self.silos.len()) },
            self.rounds,
            self.messages,
            self.bytes,
            self.bytes_from_silos
        )?;
        if self.clipped_steps > 0 {
            writeln!(formatter, "gradients were clipped in {} of {} steps", self.clipped_steps, self.gradient_steps)?;
        }
        if let Some(method) = &self.method {
            write!(formatter, "{method}")?;
        }
        Ok(())
    }
}
