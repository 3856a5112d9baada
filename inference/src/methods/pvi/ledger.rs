//! Keeps what the coordinator of PVI knows of every silo: its factor, and which of its answers was taken.

use crate::engine::error::Result;
use crate::engine::wire::message::Message;

/// One entry a silo.
#[derive(Debug, Clone)]
pub(super) struct Ledger {
    /// Natural parameters of each factor, as the answers taken add up to.
    pub(super) factors: Vec<Vec<f64>>,
    /// Who takes part.
    pub(super) present: Vec<bool>,
    /// The last expected log likelihood of each, in nats; infinite before the first.
    pub(super) log_likelihoods: Vec<f64>,
    /// Visits of an asynchronous schedule.
    pub(super) updates: Vec<u64>,
    /// Answers in a row that did not come; a run that goes on from a checkpoint counts anew.
    pub(super) silence: Vec<u64>,
    /// What each is to hear of its last answer.
    settled: Vec<Settled>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Settled {
    /// The answer, by the version it started from; 0 for none.
    version: u64,
    /// How much of it was taken.
    share: f64,
    /// Whether the silo has to be sent its factor, because it may not know what became of an answer.
    in_doubt: bool,
}

/// What a silo is told of its last answer: how much of it was taken, or its whole factor where it may not know.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Told {
    pub(super) factor: Option<Vec<f64>>,
    pub(super) settled: Option<u64>,
    pub(super) share: Option<f64>,
}

impl Ledger {
    pub(super) fn new(silos: usize, natural_len: usize) -> Self {
        Self {
            factors: vec![vec![0.0; natural_len]; silos],
            present: vec![true; silos],
            log_likelihoods: vec![f64::INFINITY; silos],
            updates: vec![0; silos],
            silence: vec![0; silos],
            settled: vec![Settled { version: 0, share: 0.0, in_doubt: false }; silos],
        }
    }

    /// Whether a silo's factor is 1: it has not answered yet, or was removed.
    pub(super) fn is_one(&self, silo: usize) -> bool {
        self.factors[silo].iter().all(|eta| *eta == 0.0)
    }

    /// Whether a silo's data are in the posterior, or will be: not those of one that was removed, or left before it
    /// answered.
    pub(super) fn counts(&self, silo: usize) -> bool {
        self.present[silo] || self.log_likelihoods[silo].is_finite()
    }

    /// Tells a silo what became of its last answer.
    pub(super) fn told(&self, silo: usize) -> Told {
        let Settled { version, share, in_doubt } = self.settled[silo];
        match in_doubt {
            true => Told { factor: Some(self.factors[silo].clone()), settled: None, share: None },
            false => Told { factor: None, settled: Some(version), share: Some(share) },
        }
    }

    /// Notes that a silo has answered, of which nothing is taken yet.
    pub(super) fn answered(&mut self, silo: usize, version: u64, log_likelihood: f64) {
        self.settled[silo] = Settled { version, share: 0.0, in_doubt: false };
        self.log_likelihoods[silo] = log_likelihood;
        self.silence[silo] = 0;
    }

    /// Notes that an answer did not come: the silo hears of its factor anew.
    pub(super) fn missed(&mut self, silo: usize) {
        self.in_doubt(silo);
        self.silence[silo] += 1;
    }

    /// Takes a share of a silo's last answer.
    pub(super) fn take(&mut self, silo: usize, change: &[f64], share: f64) {
        partita_core::kernel::add_scaled(&mut self.factors[silo], share, change);
        self.settled[silo].share = share;
    }

    /// Notes that a silo may not know what became of its answer.
    pub(super) fn in_doubt(&mut self, silo: usize) {
        self.settled[silo].in_doubt = true;
    }

    pub(super) fn set_present(&mut self, silo: usize, present: bool) {
        self.present[silo] = present;
        self.in_doubt(silo);
    }

    /// Makes a silo's factor 1 again.
    pub(super) fn clear(&mut self, silo: usize) {
        self.factors[silo].fill(0.0);
        self.log_likelihoods[silo] = f64::INFINITY;
    }

    /// The largest violation of $`\eta_q = \eta_0 + \sum_m \eta_m`$, relative to the largest entry.
    pub(super) fn discrepancy(&self, prior: &[f64], natural: &[f64]) -> f64 {
        let mut sum = prior.to_vec();
        self.factors.iter().for_each(|factor| crate::engine::estimator::add(&mut sum, factor));
        // Factors of any sign may cancel: the rounding of a sum is relative to its terms.
        let terms = sum.iter().chain(natural).chain(self.factors.iter().flatten());
        let size = terms.fold(f64::MIN_POSITIVE, |size, value| size.max(value.abs()));
        sum.iter().zip(natural).fold(0.0, |worst, (sum, own)| f64::max(worst, (sum - own).abs() / size))
    }

    pub(super) fn save(&self, state: Message) -> Message {
        let flag = |flag: bool| f64::from(u8::from(flag));
        let rows: Vec<f64> = (0..self.factors.len())
            .flat_map(|silo| {
                let Settled { version, share, in_doubt } = self.settled[silo];
                let words = [version, self.updates[silo]].map(f64::from_bits);
                [flag(self.present[silo]), self.log_likelihoods[silo], words[0], words[1], share, flag(in_doubt)]
            })
            .collect();
        let factors: Vec<f64> = self.factors.concat();
        state.floats("pvi.ledger", &rows).floats("pvi.factors", &factors)
    }

    #[expect(clippy::float_cmp, reason = "flags are saved as 0 and 1")]
    pub(super) fn load(&self, state: &Message) -> Result<Self> {
        let (silos, length) = (self.factors.len(), self.factors.first().map_or(0, Vec::len));
        let rows = state.expect_floats("pvi.ledger", 6 * silos)?;
        let factors = state.expect_floats("pvi.factors", silos * length)?;
        let mut ledger = Self::new(0, 0);
        for (silo, row) in rows.chunks_exact(6).enumerate() {
            ledger.factors.push(factors[silo * length..(silo + 1) * length].to_vec());
            ledger.present.push(row[0] == 1.0);
            ledger.log_likelihoods.push(row[1]);
            ledger.updates.push(row[3].to_bits());
            ledger.silence.push(0);
            ledger.settled.push(Settled { version: row[2].to_bits(), share: row[4], in_doubt: row[5] == 1.0 });
        }
        Ok(ledger)
    }
}
