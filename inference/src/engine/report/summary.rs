//! Summarises draws of the global posterior on the natural scale of each site.

use partita_core::{AnyModel, Array, Device, DrawNoise, Key, Noise, SiteTable};
use serde::{Deserialize, Serialize};

use crate::engine::algorithm::Posterior;
use crate::engine::error::Result;
use crate::engine::moments::mean_and_variance;
use crate::engine::report::text::interval_in_places;
use crate::engine::report::{Scale, number};

/// The posterior of one number of a site, on its natural scale.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SiteSummary {
    /// The site.
    pub site: String,
    /// The site with the number's index, as in `beta[2]` or, of a matrix, `theta[0,1]`; the bare name where the site is
    /// one number.
    pub label: String,
    /// The posterior mean.
    #[serde(with = "number")]
    pub mean: f64,
    /// The posterior standard deviation.
    #[serde(with = "number")]
    pub sd: f64,
    /// Posterior quantiles.
    pub quantiles: Quantiles,
}

/// Quantiles by per cent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// 2.5 %.
    #[serde(with = "number")]
    pub p2_5: f64,
    /// 5 %.
    #[serde(with = "number")]
    pub p5: f64,
    /// 25 %.
    #[serde(with = "number")]
    pub p25: f64,
    /// The median.
    #[serde(with = "number")]
    pub p50: f64,
    /// 75 %.
    #[serde(with = "number")]
    pub p75: f64,
    /// 95 %.
    #[serde(with = "number")]
    pub p95: f64,
    /// 97.5 %.
    #[serde(with = "number")]
    pub p97_5: f64,
}

/// Draws of every global number on its natural scale: `(site, label, draws)`.
pub(crate) type NaturalDraws = Vec<(String, String, Vec<f64>)>;

/// Draws `count` times from a posterior, one particle of `key` a draw, and maps each draw by `natural`.
pub(crate) fn natural_draws_of(
    posterior: Posterior<'_>,
    noise: Noise,
    key: Key,
    count: u32,
    natural: impl Fn(&[f64]) -> Result<Vec<(String, Array)>>,
) -> Result<NaturalDraws> {
    let mut all: NaturalDraws = Vec::new();
    for particle in 0..count {
        append(natural(&latent_draw(posterior, noise, key, particle))?, &mut all);
    }
    Ok(all)
}

/// The draw of this particle of `key` from a posterior, on the unconstrained scale.
pub(crate) fn latent_draw(posterior: Posterior<'_>, noise: Noise, key: Key, particle: u32) -> Vec<f64> {
    let mut numbers = vec![0.0; posterior.family.noise_len()];
    noise.stream(key.particle(particle)).normal(&mut numbers);
    posterior.family.draw(posterior.parameters, &numbers).latent
}

/// Draws of the prior: enough for a density.
const PRIOR_DRAWS: u64 = 2_000;

/// Draws of the globals from their prior.
pub(crate) fn prior_draws(model: &AnyModel, device: &Device, table: &SiteTable, seed: u64) -> Result<NaturalDraws> {
    prior_draws_of(seed, |noise| Ok(table.prior_globals(model, device, noise)?))
}

/// The same of whatever `draw` draws.
pub(crate) fn prior_draws_of(
    seed: u64,
    draw: impl Fn(DrawNoise) -> Result<Vec<(String, Array)>>,
) -> Result<NaturalDraws> {
    let noise = Noise::new(seed);
    let mut all = NaturalDraws::new();
    (0..PRIOR_DRAWS).try_for_each(|index| draw(DrawNoise { noise, index }).map(|values| append(values, &mut all)))?;
    Ok(all)
}

/// Adds the values of one draw, site by site, to the draws of each number.
pub(crate) fn append(values: Vec<(String, Array)>, all: &mut NaturalDraws) {
    let first = all.is_empty();
    let mut column = 0;
    for (site, value) in values {
        for (index, number) in value.values.iter().enumerate() {
            if first {
                all.push((site.clone(), label(&site, &value.shape, index), Vec::new()));
            }
            all[column].2.push(*number);
            column += 1;
        }
    }
}

/// The name of one number of a site: `mu` where it is the only one, `beta[2]` in a vector, `theta[0,1]` in a matrix.
pub(crate) fn label(site: &str, shape: &[usize], index: usize) -> String {
    if shape.iter().product::<usize>() == 1 {
        return site.to_owned();
    }
    let mut rest = index;
    let mut places: Vec<String> = Vec::with_capacity(shape.len());
    for length in shape.iter().rev() {
        places.push((rest % length.max(&1)).to_string());
        rest /= length.max(&1);
    }
    places.reverse();
    format!("{site}[{}]", places.join(","))
}

impl SiteSummary {
    /// The mean, the standard deviation and the quantiles of draws of one number.
    ///
    /// # Example
    /// ```
    /// use partita_inference::SiteSummary;
    /// let own = SiteSummary::of("mu".into(), "mu".into(), &[1.0, 4.0, 2.0, 3.0, 5.0]);
    /// assert_eq!((own.mean, own.quantiles.p50, own.quantiles.p25), (3.0, 3.0, 2.0));
    /// ```
    #[must_use]
    pub fn of(site: String, label: String, draws: &[f64]) -> Self {
        let (mean, variance) = mean_and_variance(draws);
        let mut sorted = draws.to_vec();
        sorted.sort_by(f64::total_cmp);
        let quantiles = Quantiles {
            p2_5: quantile(&sorted, 0.025),
            p5: quantile(&sorted, 0.05),
            p25: quantile(&sorted, 0.25),
            p50: quantile(&sorted, 0.5),
            p75: quantile(&sorted, 0.75),
            p95: quantile(&sorted, 0.95),
            p97_5: quantile(&sorted, 0.975),
        };
        Self { site, label, mean, sd: variance.sqrt(), quantiles }
    }

    /// The median and the ends of the 95 % interval on a scale, low and high, with the digits that they have for people.
    ///
    /// # Example
    /// ```
    /// use partita_inference::{Scale, SiteSummary};
    /// let own = SiteSummary::of("beta".into(), "beta".into(), &[-0.1, 0.1, 0.3]);
    /// assert_eq!(own.interval_on(Scale::Exponential), ["1.11", "0.91", "1.34"]);
    /// ```
    #[must_use]
    pub fn interval_on(&self, scale: Scale) -> [String; 3] {
        let q = &self.quantiles;
        let [low, middle, high] = interval_in_places(scale.interval([q.p2_5, q.p50, q.p97_5]));
        [middle, low, high]
    }
}

/// Means, standard deviations and quantiles of draws.
pub(crate) fn summarise(draws: &NaturalDraws) -> Vec<SiteSummary> {
    draws.iter().map(|(site, label, own)| SiteSummary::of(site.clone(), label.clone(), own)).collect()
}

/// The quantile of sorted numbers, linear between order statistics.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "positions in a list far shorter than 2^52"
)]
pub(crate) fn quantile(sorted: &[f64], probability: f64) -> f64 {
    let position = probability * (sorted.len().saturating_sub(1)) as f64;
    let low = sorted[position.floor() as usize];
    let high = sorted[position.ceil() as usize];
    low + (high - low) * position.fract()
}

#[cfg(test)]
mod tests {
    use super::{Scale, SiteSummary, label};

    #[test]
    fn ends_that_are_decades_apart_have_their_own_digits_each() {
        let mut own = SiteSummary::of("beta".into(), "beta".into(), &[0.0]);
        let q = &mut own.quantiles;
        (q.p2_5, q.p50, q.p97_5) = (0.01_f64.ln(), 1.22_f64.ln(), 150.0_f64.ln());
        assert_eq!(own.interval_on(Scale::Exponential), ["1.22", "0.0100", "150"]);
        (own.quantiles.p2_5, own.quantiles.p97_5) = (1.01_f64.ln(), 1.47_f64.ln());
        assert_eq!(own.interval_on(Scale::Exponential), ["1.22", "1.01", "1.47"]);
    }

    #[test]
    fn a_label_has_one_index_for_each_dimension() {
        assert_eq!(label("mu", &[1], 0), "mu");
        assert_eq!(label("weights", &[1, 1], 0), "weights");
        assert_eq!(label("beta", &[4], 2), "beta[2]");
        let all: Vec<String> = (0..6).map(|index| label("theta", &[2, 3], index)).collect();
        assert_eq!(all, ["theta[0,0]", "theta[0,1]", "theta[0,2]", "theta[1,0]", "theta[1,1]", "theta[1,2]"]);
    }
}
