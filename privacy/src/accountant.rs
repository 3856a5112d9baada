//! Says what releases cost together, in epsilon at a given delta, and how much noise a given epsilon needs.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::renyi::divergence;

/// What a number of equal releases costs.
///
/// # Example
/// ```
/// use partita_privacy::Cost;
/// // Twenty sums with noise of ten times the clip: rho is 20 / (2 · 10²).
/// assert_eq!(Cost::new(10.0, 20)?.rho(), Some(0.1));
/// # Ok::<(), partita_privacy::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    noise: f64,
    rate: f64,
    releases: u64,
}

impl Cost {
    /// `releases` sums over all rows with Gaussian noise of scale `noise` times the clip.
    ///
    /// # Errors
    /// [`Error::Setting`] for noise that is not a positive number.
    pub fn new(noise: f64, releases: u64) -> Result<Self> {
        Self::sampled(noise, 1.0, releases)
    }

    /// `releases` sums over Poisson samples of the rows: each row is in each sample with probability `rate`, chosen
    /// anew from the operating system's random bits. Minibatches of a shuffled order cost more than this says.
    ///
    /// # Errors
    /// [`Error::Setting`] for noise that is not a positive number, or a rate outside (0, 1].
    ///
    /// # Example
    /// ```
    /// use partita_privacy::{Accountant, Conversion, Cost};
    /// // 15 epochs of minibatches of 256 rows of 60,000.
    /// let cost = Cost::sampled(1.3, 256.0 / 60_000.0, 3515)?;
    /// let epsilon = Accountant::of([cost]).epsilon(1e-5, Conversion::Improved)?;
    /// assert!((epsilon - 0.954).abs() < 5e-4);
    /// # Ok::<(), partita_privacy::Error>(())
    /// ```
    pub fn sampled(noise: f64, rate: f64, releases: u64) -> Result<Self> {
        let wrong = |what, found: f64, expected| {
            let remedy = "Give the noise in units of the clip, and the rate as rows expected in a sample over all.";
            Err(Error::Setting { operation: "the cost of releases", what, found: found.to_string(), expected, remedy })
        };
        // Below one thousandth a release protects nothing, and the quadrature would take hours.
        if !(noise.is_finite() && noise >= 1e-3) {
            return wrong("the noise over the clip", noise, "a number of at least 0.001");
        }
        if !(rate > 0.0 && rate <= 1.0) {
            return wrong("the rate of sampling", rate, "a number above 0 and at most 1");
        }
        Ok(Self { noise, rate, releases })
    }

    /// Another number of the same releases.
    #[must_use]
    pub fn with_releases(self, releases: u64) -> Self {
        Self { releases, ..self }
    }

    /// The same cost, once its constants are seen to be in range: one that was read from a file may have others.
    pub(crate) fn checked(self) -> Result<Self> {
        Self::sampled(self.noise, self.rate, self.releases)
    }

    /// How many releases it is the cost of.
    #[must_use]
    pub fn releases(self) -> u64 {
        self.releases
    }

    /// ρ of zero-concentrated differential privacy, releases / 2σ²; none for samples, which have no finite one of use.
    #[must_use]
    pub fn rho(self) -> Option<f64> {
        (self.rate >= 1.0).then(|| self.releases as f64 / (2.0 * self.noise * self.noise))
    }
}

/// How a Rényi divergence $R(\alpha)$ becomes $\varepsilon$ at $\delta$; every order $\alpha > 1$ gives a bound, and
/// the least is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conversion {
    /// $R(\alpha) + \log(1/\delta) / (\alpha - 1)$ (Mironov 2017). For Gaussian noise it is $\rho + 2\sqrt{\rho \log(1/\delta)}$.
    Classic,
    /// $R(\alpha) + \log(1/\alpha\delta) / (\alpha - 1) + \log(1 - 1/\alpha)$ (Canonne, Kamath and Steinke 2020, proposition 12).
    Improved,
}

/// The costs of several releases of one silo, composed.
///
/// Rényi divergences of the same order add up, whatever each release was chosen by; ε follows from their sum.
///
/// # Example
/// ```
/// use partita_privacy::{Accountant, Conversion, Cost};
/// let spent = Accountant::of([Cost::new(10.0, 20)?]);
/// assert!((spent.epsilon(1e-5, Conversion::Improved)? - 1.914).abs() < 5e-4);
/// # Ok::<(), partita_privacy::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Accountant {
    costs: Vec<Cost>,
}

/// The largest order tried for samples: beyond it the quadrature is slow, and any order gives a valid bound.
const LARGEST_SAMPLED_ORDER: f64 = 1024.0;

impl Accountant {
    /// Composes `costs`.
    #[must_use]
    pub fn of(costs: impl IntoIterator<Item = Cost>) -> Self {
        let mut all = Self::default();
        costs.into_iter().for_each(|cost| all.add(cost));
        all
    }

    /// Adds a cost.
    pub fn add(&mut self, cost: Cost) {
        let same = |known: &&mut Cost| {
            known.noise.to_bits() == cost.noise.to_bits() && known.rate.to_bits() == cost.rate.to_bits()
        };
        match self.costs.iter_mut().find(same) {
            Some(known) => known.releases = known.releases.saturating_add(cost.releases),
            None => self.costs.push(cost),
        }
    }

    /// Epsilon of all releases at `delta`; zero for none.
    ///
    /// # Errors
    /// [`Error::Setting`] for a delta outside (0, 1).
    pub fn epsilon(&self, delta: f64, conversion: Conversion) -> Result<f64> {
        if !(delta > 0.0 && delta < 1.0) {
            return Err(Error::Setting {
                operation: "epsilon of releases",
                what: "delta",
                found: delta.to_string(),
                expected: "a number above 0 and below 1",
                remedy: "Choose one well below 1 over the number of rows, such as 1e-5.",
            });
        }
        if self.costs.iter().all(|cost| cost.releases == 0) {
            return Ok(0.0);
        }
        let bound = |log_excess: f64| {
            let excess = log_excess.exp();
            let order = 1.0 + excess;
            let of = |cost: &Cost| cost.releases as f64 * divergence(order, cost.rate, cost.noise);
            let divergence: f64 = self.costs.iter().map(of).sum();
            match conversion {
                Conversion::Classic => divergence - delta.ln() / excess,
                Conversion::Improved => divergence - (order * delta).ln() / excess + (excess / order).ln(),
            }
        };
        let sampled = self.costs.iter().any(|cost| cost.rate < 1.0);
        let last = if sampled { LARGEST_SAMPLED_ORDER.ln() } else { 14.0 };
        Ok(least(bound, -7.0, last).max(0.0))
    }

    /// The least noise over the clip at which `releases` sums over all rows cost at most `epsilon` at `delta`.
    ///
    /// # Errors
    /// [`Error::Setting`] for an epsilon that is not a positive number or needs noise below 0.001, for no release, or
    /// for a delta outside (0, 1).
    ///
    /// # Example
    /// ```
    /// use partita_privacy::Accountant;
    /// assert!((Accountant::noise_for(1.0, 1e-5, 20)? - 18.1).abs() < 0.05);
    /// # Ok::<(), partita_privacy::Error>(())
    /// ```
    pub fn noise_for(epsilon: f64, delta: f64, releases: u64) -> Result<f64> {
        Self::noise_for_samples(epsilon, delta, 1.0, releases)
    }

    /// The same for sums over Poisson samples of the rows, each of which is in a sample with probability `rate`; to six
    /// digits, above, where the rate is below 1.
    ///
    /// # Errors
    /// As for [`noise_for`](Self::noise_for), with 0.3 as the least noise over samples; [`Error::Setting`] for a rate
    /// outside (0, 1].
    ///
    /// # Example
    /// ```
    /// use partita_privacy::{Accountant, Conversion, Cost};
    /// let noise = Accountant::noise_for_samples(1.0, 1e-5, 0.02, 500)?;
    /// let spent = Accountant::of([Cost::sampled(noise, 0.02, 500)?]).epsilon(1e-5, Conversion::Improved)?;
    /// assert!(spent <= 1.0 && spent > 0.9999);
    /// # Ok::<(), partita_privacy::Error>(())
    /// ```
    pub fn noise_for_samples(epsilon: f64, delta: f64, rate: f64, releases: u64) -> Result<f64> {
        let at = |noise: f64| Self::of([Cost::sampled(noise, rate, releases)?]).epsilon(delta, Conversion::Improved);
        // Divergences over samples are quadratures, of more points the less noise there is.
        let (mut low, mut high, digits) = if rate < 1.0 { (0.3, 1e6, 1e-6) } else { (1e-3, 1e9, 1e-12) };
        if !(epsilon.is_finite() && epsilon > 0.0 && releases > 0 && at(high)? <= epsilon && at(low)? > epsilon) {
            return Err(Error::Setting {
                operation: "the noise for a given epsilon",
                what: "epsilon",
                found: format!("{epsilon} for {releases} releases"),
                expected: "a positive number, and at least one release",
                remedy: "Usual values are between 0.1 and 10.",
            });
        }
        while high / low > 1.0 + digits {
            let middle = (low * high).sqrt();
            let slot = if at(middle)? <= epsilon { &mut high } else { &mut low };
            *slot = middle;
        }
        Ok(high)
    }
}

/// The least value of `function` that a scan of [`first`, `last`] finds, refined by the golden section.
fn least(function: impl Fn(f64) -> f64, first: f64, last: f64) -> f64 {
    const POINTS: usize = 60;
    const ROUNDS: usize = 40;
    let spacing = (last - first) / POINTS as f64;
    let values: Vec<f64> = (0..=POINTS).map(|at| function(first + at as f64 * spacing)).collect();
    let start = (0..=POINTS).min_by(|a, b| values[*a].total_cmp(&values[*b])).unwrap_or_default();
    let golden = (5.0_f64.sqrt() - 1.0) / 2.0;
    let (mut low, mut high) = (first + (start as f64 - 1.0) * spacing, first + (start as f64 + 1.0) * spacing);
    (low, high) = (low.max(first), high.min(last));
    let mut best = values[start];
    let mut left = high - golden * (high - low);
    let mut right = low + golden * (high - low);
    let (mut at_left, mut at_right) = (function(left), function(right));
    for _ in 0..ROUNDS {
        best = best.min(at_left).min(at_right);
        if at_left < at_right {
            (high, right, at_right) = (right, left, at_left);
            left = high - golden * (high - low);
            at_left = function(left);
        } else {
            (low, left, at_left) = (left, right, at_right);
            right = low + golden * (high - low);
            at_right = function(right);
        }
    }
    best
}
