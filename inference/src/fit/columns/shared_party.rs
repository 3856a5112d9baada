//! Lets a party answer messages while its owner in the same process may still ask it about itself.

use std::sync::{Arc, Mutex};

use partita_core::Precision;

use super::{VerticalParty, lock};
use crate::engine::error::Result;
use crate::engine::exchange::SiloProgram;
use crate::engine::wire::message::Message;

/// A party that its exchange and its owner both hold.
pub(super) struct SharedParty {
    name: String,
    party: Arc<Mutex<VerticalParty>>,
}

impl SharedParty {
    pub(super) fn new(name: &str, party: Arc<Mutex<VerticalParty>>) -> Self {
        Self { name: name.to_owned(), party }
    }
}

impl SiloProgram for SharedParty {
    fn name(&self) -> &str {
        &self.name
    }

    fn local_moments(&self) -> Result<Vec<(Vec<f64>, Vec<f64>)>> {
        lock(&self.party).local_moments()
    }

    fn private_theta(&self) -> Vec<f64> {
        lock(&self.party).private_theta()
    }

    fn compute_in(&mut self, precision: Precision) -> Result<bool> {
        lock(&self.party).compute_in(precision)
    }

    fn answer(&mut self, request: &Message) -> Result<Message> {
        lock(&self.party).answer(request)
    }
}
