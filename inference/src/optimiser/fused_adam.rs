//! Runs Adam as one vectorised loop over parameters, gradient and moments.

use partita_core::kernel::{AdamUpdate, adam};

use super::UpdateRule;

/// Adam's state: running means of gradients and of their squares.
#[derive(Debug, Default)]
pub(super) struct FusedAdam {
    decay: [f64; 2],
    epsilon: f64,
    time: u64,
    first: Vec<f64>,
    second: Vec<f64>,
}

impl FusedAdam {
    pub(super) fn new(decay: [f64; 2], epsilon: f64) -> Self {
        Self { decay, epsilon, ..Self::default() }
    }
}

impl UpdateRule for FusedAdam {
    fn step(&mut self, rate: f64, parameters: &mut [f64], gradient: &[f64]) {
        self.first.resize(parameters.len(), 0.0);
        self.second.resize(parameters.len(), 0.0);
        self.time += 1;
        let update = AdamUpdate::at(self.time, rate, self.decay, self.epsilon);
        adam(parameters, gradient, &mut self.first, &mut self.second, &update);
    }

    #[expect(clippy::cast_precision_loss, reason = "a run has far fewer than 2^52 steps")]
    fn save(&self) -> Vec<(String, Vec<f64>)> {
        vec![
            ("time".into(), vec![self.time as f64]),
            ("first".into(), self.first.clone()),
            ("second".into(), self.second.clone()),
        ]
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the time was saved from a u64")]
    fn load(&mut self, state: Vec<(String, Vec<f64>)>) -> bool {
        let mut found = [false; 3];
        for (name, values) in state {
            match (name.as_str(), values.as_slice()) {
                ("time", [time]) => (self.time, found[0]) = (*time as u64, true),
                ("first", _) => (self.first, found[1]) = (values, true),
                ("second", _) => (self.second, found[2]) = (values, true),
                _ => return false,
            }
        }
        found == [true; 3] && self.first.len() == self.second.len()
    }
}
