//! Draws the rows, columns and labels of the study, and deals the columns to parties.

use partita::core::{Key, Noise, Purpose};
use partita::vertical::{BernoulliHead, Labels, Linear, Party, WithIntercept, binary_labels};
use partita::{Design, Device, Normal};

use crate::harness::Result;

/// Columns over all parties.
pub(crate) const COLUMNS: usize = 20;

/// All columns at one party, as the true model is stated.
pub(crate) const SINGLE: usize = 1;

/// Rows with standard normal columns and labels of a logistic model whose predictor has standard normal noise.
pub(crate) struct World {
    columns: Vec<f64>,
    labels: Vec<bool>,
    /// The coefficients the labels were drawn with, from their prior.
    pub(crate) beta: Vec<f64>,
    /// The intercept the labels were drawn with, from its prior.
    pub(crate) intercept: f64,
    device: Device,
}

impl World {
    pub(crate) fn new(rows: usize, seed: u64, device: Device) -> Result<Self> {
        let mut stream = Noise::new(seed).stream(Key::new(Purpose::Prior, 0));
        let (mut columns, mut beta) = (vec![0.0; rows * COLUMNS], vec![0.0; COLUMNS]);
        stream.normal(&mut beta);
        let intercept = stream.standard_normal();
        stream.normal(&mut columns);
        let label = |row: &[f64]| {
            let mean = intercept + row.iter().zip(&beta).map(|(x, b)| x * b).sum::<f64>();
            stream.uniform() < 1.0 / (1.0 + (-(mean + stream.standard_normal())).exp())
        };
        let labels = columns.chunks_exact(COLUMNS).map(label).collect();
        Ok(Self { columns, labels, beta, intercept, device })
    }

    /// Labels that are yes.
    pub(crate) fn yes(&self) -> usize {
        self.labels.iter().filter(|label| **label).count()
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// The labels with their head: Bernoulli with a standard normal intercept.
    pub(crate) fn labels(&self) -> Labels {
        Labels::new(
            WithIntercept::new(BernoulliHead {}, Normal::new(0.0, 1.0)),
            binary_labels(&self.labels, &self.device),
        )
    }

    /// `count` parties with equally many columns in their order, and standard normal coefficients.
    pub(crate) fn parties(&self, count: usize) -> Result<Vec<Party>> {
        let each = COLUMNS / count;
        let party = |place: usize| -> Result<Party> {
            let own = self.columns.chunks_exact(COLUMNS).flat_map(|row| &row[place * each..(place + 1) * each]);
            let design = Design::new(own.copied().collect(), [self.labels.len(), 1, each])?;
            Ok(Party::new(&name(place), Linear::new(each), design))
        };
        (0..count).map(party).collect()
    }
}

/// The name of a party by its index.
pub(crate) fn name(place: usize) -> String {
    format!("party-{place}")
}
