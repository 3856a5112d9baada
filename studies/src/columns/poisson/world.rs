//! Draws areas, their counts and their covariates from the multilevel model, and deals the covariates to parties.

use partita::core::{Key, Noise, Purpose};
use partita::vertical::{Counts, Labels, Multilevel, Party, PoissonHead, WithIntercept, by_level};
use partita::{Device, Normal};

use crate::harness::Result;

/// Parties.
pub(crate) const PARTIES: usize = 2;

/// Covariates of each party.
const EACH: usize = 2;

/// Levels of remoteness.
const LEVELS: usize = 5;

/// Means of coefficients over both parties.
pub(crate) const MEANS: usize = PARTIES * EACH;

/// The first and the last population of an area.
const POPULATION: [usize; 2] = [250, 350];

/// Areas with counts, and the latents they were drawn with.
pub(crate) struct World {
    /// Covariates by party, area by area.
    covariates: Vec<Vec<f64>>,
    remoteness: Vec<usize>,
    population: Vec<f64>,
    counts: Vec<f64>,
    /// Means of the coefficients, party by party.
    pub(crate) mu: Vec<f64>,
    /// Their standard deviations.
    pub(crate) sigma: Vec<f64>,
    /// Coefficients: party by party, level by level.
    pub(crate) beta: Vec<f64>,
    /// The intercept.
    pub(crate) intercept: f64,
    device: Device,
}

impl World {
    pub(crate) fn new(areas: usize, seed: u64, device: Device) -> Result<Self> {
        let mut stream = Noise::new(seed).stream(Key::new(Purpose::Prior, 0));
        let intercept = stream.standard_normal();
        let mut mu = vec![0.0; MEANS];
        stream.normal(&mut mu);
        let sigma: Vec<f64> = (0..MEANS).map(|_| stream.standard_normal().abs()).collect();
        let mut beta = Vec::with_capacity(LEVELS * MEANS);
        for party in 0..PARTIES {
            for _ in 0..LEVELS {
                let columns = party * EACH..(party + 1) * EACH;
                beta.extend(columns.map(|column| mu[column] + sigma[column] * stream.standard_normal()));
            }
        }
        let remoteness: Vec<usize> = (0..areas).map(|_| stream.index(LEVELS)).collect();
        let people = |_| POPULATION[0] + stream.index(POPULATION[1] - POPULATION[0] + 1);
        #[expect(clippy::cast_precision_loss, reason = "populations are small")]
        let population: Vec<f64> = (0..areas).map(people).map(|people| people as f64).collect();
        let mut covariates = vec![vec![0.0; areas * EACH]; PARTIES];
        covariates.iter_mut().for_each(|own| stream.normal(own));
        let mut counts = Vec::with_capacity(areas);
        for area in 0..areas {
            let share = |party: usize| -> f64 {
                let slopes = &beta[(party * LEVELS + remoteness[area]) * EACH..][..EACH];
                covariates[party][area * EACH..][..EACH].iter().zip(slopes).map(|(x, slope)| x * slope).sum()
            };
            let log_rate = intercept + population[area].ln() + (0..PARTIES).map(share).sum::<f64>();
            // A rate too small for the generator has no case.
            counts.push(if log_rate < -30.0 { 0.0 } else { stream.poisson(log_rate.exp()) });
        }
        Ok(Self { covariates, remoteness, population, counts, mu, sigma, beta, intercept, device })
    }

    /// Cases in all areas together.
    pub(crate) fn cases(&self) -> f64 {
        self.counts.iter().sum()
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// The counts with their head: Poisson with the population as exposure and a standard normal intercept.
    pub(crate) fn labels(&self) -> Result<Labels> {
        let counts = Counts::new(self.counts.clone(), &self.population, &self.device)?;
        Ok(Labels::new(WithIntercept::new(PoissonHead {}, Normal::new(0.0, 1.0)), counts))
    }

    /// The two parties: means and scales of each covariate shared by the levels.
    pub(crate) fn parties(&self) -> Result<Vec<Party>> {
        let party = |place: usize| -> Result<Party> {
            let design = by_level(&self.covariates[place], &self.remoteness, LEVELS)?;
            Ok(Party::new(&name(place), Multilevel::new(EACH, LEVELS), design))
        };
        (0..PARTIES).map(party).collect()
    }
}

/// The name of a party by its index.
pub(crate) fn name(place: usize) -> String {
    format!("party-{place}")
}
