//! Says where a prior that was chosen for the user decides a part of a number.

use super::Report;
use super::warning::{Severity, Warning};

/// A normal prior of one number that nobody stated.
#[derive(Debug, Clone, PartialEq)]
pub struct UsualPrior {
    /// The label of the number in a report.
    pub label: String,
    /// The mean of the prior.
    pub mean: f64,
    /// Its standard deviation.
    pub sd: f64,
}

/// The standard deviations that such a prior may move a mean.
const MOVES: f64 = 0.5;
/// The share of the precision of a number that may be that of such a prior.
const SHARE: f64 = 0.5;

impl Report {
    /// Says which numbers usual priors decide a part of, as a limit each.
    ///
    /// With the mean $`m`$ and the variance $`s^2`$ of the posterior of a number, and those of its prior, $`m_0`$ and
    /// $`s_0^2`$, the prior has the share $`r = s^2 / s_0^2`$ of the precision, and moves the mean by
    ///
    /// ```math
    /// \frac{r}{1 - r} \frac{|m - m_0|}{s}
    /// ```
    /// standard deviations, where numbers are normal and apart from each other.
    pub fn tell_usual_priors(&mut self, priors: &[UsualPrior]) {
        let of = |prior: &UsualPrior| {
            let found = self.answer().into_iter().find(|own| own.label == prior.label)?;
            of_prior(prior, found.mean, found.sd)
        };
        let warnings = priors.iter().filter_map(of).collect();
        self.warn(warnings);
    }
}

fn of_prior(prior: &UsualPrior, mean: f64, sd: f64) -> Option<Warning> {
    let UsualPrior { label, mean: prior_mean, sd: prior_sd } = prior;
    let share = (sd / prior_sd).powi(2);
    let remedy = format!(
        "Say what is known of it, such as `--prior '{label} ~ normal({prior_mean}, {})'` where nothing is (in a study `[priors]`); data that say more of it need no prior.",
        three_digits(4.0 * prior_sd)
    );
    let about = format!("the usual prior, normal({prior_mean}, {prior_sd}), which nobody stated, decides a part of it");
    let warn = |problem: String| Warning::new(Severity::Limit, problem, remedy.clone()).at(label);
    if share > SHARE {
        let problem = format!("{about}: of its precision the share of the prior is");
        return Some(warn(problem).measured(share).beyond(SHARE, "half"));
    }
    let moves = share / (1.0 - share) * (mean - prior_mean).abs() / sd;
    let problem = format!("{about}: it moves the mean, in standard deviations, by about");
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
            let prior = UsualPrior { label: "x".into(), mean: 0.0, sd: prior_sd };
            of_prior(&prior, 1.0 / precision, precision.sqrt().recip()).and_then(|own| own.number)
        };
        assert_eq!(told(2.0), None);
        // What the prior does to the mean, which is 1 without it.
        let precision = 1.0 + 1.2_f64.powi(-2);
        assert!((told(1.2).unwrap() - (1.0 - 1.0 / precision) * precision.sqrt()).abs() < 1e-12);
        let far = UsualPrior { label: "x".into(), mean: 0.0, sd: 1.0 };
        assert!(of_prior(&far, 0.1, 0.8).unwrap().problem.contains("the share of the prior"));
        assert!(of_prior(&far, 0.1, 0.6).is_none());
    }
}
