//! Tells the priors of a report, and says where one that was chosen for the user decides a part of a number.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::warning::{Severity, Warning};
use super::{Report, SiteSummary};

/// The prior of one number, or of all numbers of a site.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PriorLine {
    /// The number, by its label in the report, or the site.
    pub name: String,
    /// Its prior with its parameters, as people read it.
    pub prior: String,
    /// Whose it is.
    pub source: PriorSource,
    /// The mean and the standard deviation of a normal prior of one number.
    #[serde(skip)]
    pub normal: Option<[f64; 2]>,
    /// The numbers that it is of, by their labels, where their names are others: the correlations of several effects.
    #[serde(skip)]
    pub numbers: Vec<String>,
}

/// Whose a prior is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PriorSource {
    /// The usual one, which the user did not state.
    Usual,
    /// The user's, who stated it.
    Stated,
}

impl fmt::Display for PriorSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Usual => "usual",
            Self::Stated => "stated",
        })
    }
}

impl fmt::Display for PriorLine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ~ {}", self.name, self.prior)
    }
}

/// The standard deviations that such a prior may move a mean.
const MOVES: f64 = 0.5;
/// The share of the precision of a number that may be that of such a prior.
const SHARE: f64 = 0.5;
/// The share of the 95 % interval of any other prior that the interval of the posterior may have.
const WIDTH: f64 = 0.9;

impl Report {
    /// Takes the priors in, and says which numbers usual ones decide a part of, as a limit each.
    ///
    /// With the mean $`m`$ and the variance $`s^2`$ of the posterior of a number, and those of its prior, $`m_0`$ and
    /// $`s_0^2`$, the prior has the share $`r = s^2 / s_0^2`$ of the precision, and moves the mean by
    ///
    /// ```math
    /// \frac{r}{1 - r} \frac{|m - m_0|}{s}
    /// ```
    /// standard deviations, where numbers are normal and apart from each other. Of other priors it compares the 95 % intervals
    /// of posterior and prior, the latter from `draws` of the prior: site, label, draws ([`crate::Fit::prior`]). An interval in
    /// which less than half of these lie is the data's, however wide.
    pub fn tell_priors(&mut self, priors: &[PriorLine], draws: &[(String, String, Vec<f64>)]) {
        let answer = self.answer();
        let of = |line: &PriorLine| match line.normal {
            Some(moments) => {
                let found = answer.iter().find(|own| own.label == line.name);
                found.and_then(|own| of_normal(&line.name, moments, own.mean, own.sd)).into_iter().collect()
            }
            None => of_widths(line, &answer, draws),
        };
        let usual = priors.iter().filter(|own| own.source == PriorSource::Usual);
        let warnings = usual.flat_map(of).collect();
        self.priors = priors.to_vec();
        self.warn(warnings);
    }
}

/// The numbers of a site of which the data say next to nothing.
fn of_widths(line: &PriorLine, answer: &[&SiteSummary], draws: &[(String, String, Vec<f64>)]) -> Vec<Warning> {
    let PriorLine { name: site, prior, numbers, .. } = line;
    let width = |own: &SiteSummary| own.quantiles.p97_5 - own.quantiles.p2_5;
    let of = |own: &&SiteSummary| {
        let (.., draws) = draws.iter().find(|(_, label, _)| *label == own.label)?;
        let share = width(own) / width(&SiteSummary::of(site.clone(), own.label.clone(), draws));
        let interval = own.quantiles.p2_5..=own.quantiles.p97_5;
        let is_prior = 2 * draws.iter().filter(|draw| interval.contains(draw)).count() >= draws.len();
        let problem = format!(
            "the usual prior, {prior}, which was not stated, is nearly all that is known of it: its 95 % interval has, in \
             widths of that of the prior, the width"
        );
        let remedy = format!(
            "Draw no conclusion from it, or say what is known of it: `--prior '{site} ~ …'` (in a study `[priors]`)."
        );
        let warning = || Warning::new(Severity::Limit, problem, remedy).at(&own.label);
        (share.is_finite() && share > WIDTH && is_prior).then(|| warning().measured(share).beyond(WIDTH, "nearly all"))
    };
    let is_of = |own: &&&SiteSummary| own.site == *site || own.label == *site || numbers.contains(&own.label);
    answer.iter().filter(is_of).filter_map(of).collect()
}

fn of_normal(label: &str, [prior_mean, prior_sd]: [f64; 2], mean: f64, sd: f64) -> Option<Warning> {
    let share = (sd / prior_sd).powi(2);
    let remedy = format!(
        "Say what is known of it, such as `--prior '{label} ~ normal({prior_mean}, {})'` where nothing is (in a study `[priors]`); data that say more of it need no prior.",
        three_digits(4.0 * prior_sd)
    );
    let about =
        format!("the usual prior, normal({prior_mean}, {prior_sd}), which was not stated, decides a part of it");
    let warn = |problem: String| Warning::new(Severity::Limit, problem, remedy.clone()).at(label);
    if share > SHARE {
        let problem = format!("{about}: the share of the prior of its precision");
        return Some(warn(problem).measured(share).beyond(SHARE, "half"));
    }
    let moves = share / (1.0 - share) * (mean - prior_mean).abs() / sd;
    let problem = format!("{about}: by about how far it moves the mean, in standard deviations");
    (moves > MOVES).then(|| warn(problem).measured(moves).beyond(MOVES, "standard deviations"))
}

/// A number with three digits, as one writes it.
fn three_digits(number: f64) -> f64 {
    format!("{number:.2e}").parse().unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prior_is_told_of_where_it_moves_a_mean_or_has_most_of_the_precision() {
        // A normal likelihood of mean 1 and deviation 1 under priors around 0.
        let told = |prior_sd: f64| {
            let precision = 1.0 + prior_sd.powi(-2);
            of_normal("x", [0.0, prior_sd], 1.0 / precision, precision.sqrt().recip()).and_then(|own| own.number)
        };
        assert_eq!(told(2.0), None);
        // What the prior does to the mean, which is 1 without it.
        let precision = 1.0 + 1.2_f64.powi(-2);
        assert!((told(1.2).unwrap() - (1.0 - 1.0 / precision) * precision.sqrt()).abs() < 1e-12);
        assert!(of_normal("x", [0.0, 1.0], 0.1, 0.8).unwrap().problem.contains("the share of the prior"));
        assert!(of_normal("x", [0.0, 1.0], 0.1, 0.6).is_none());
    }

    #[test]
    fn a_number_is_told_of_whose_interval_is_that_of_its_prior() {
        let draws = |scale: f64| (0..1_000).map(|place| scale * f64::from(place)).collect::<Vec<_>>();
        let told_of = |name: &str, scale: f64, away: f64| {
            let draws_there: Vec<f64> = draws(scale).iter().map(|draw| draw + away).collect();
            let posterior = SiteSummary::of("shape".into(), "shape".into(), &draws_there);
            let prior = [("shape".to_owned(), "shape".to_owned(), draws(1.0))];
            let line = PriorLine {
                name: name.into(),
                prior: "gamma(1, 1)".into(),
                source: PriorSource::Usual,
                normal: None,
                numbers: if name == "several" { vec!["other".into(), "shape".into()] } else { Vec::new() },
            };
            of_widths(&line, &[&posterior], &prior).first().and_then(|own| own.number)
        };
        let told = |scale: f64, away: f64| told_of("shape", scale, away);
        assert!((told(0.95, 0.0).unwrap() - 0.95).abs() < 1e-9);
        assert_eq!((told_of("several", 0.95, 0.0), told_of("another", 0.95, 0.0)), (told(0.95, 0.0), None));
        assert_eq!(told(0.85, 0.0), None);
        // As wide as the prior, and where it hardly is: the data have moved it.
        assert!(told(0.95, 400.0).is_some());
        assert_eq!(told(0.95, 600.0), None);
    }
}
