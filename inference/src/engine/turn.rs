//! Draws which silos take part in an exchange, where not all do.

use partita_core::{Key, Noise, Purpose};

/// A random subset of so many silos for the `turn`-th exchange, in their order.
pub(crate) fn subset(mut silos: Vec<usize>, size: usize, noise: Noise, turn: u64) -> Vec<usize> {
    noise.stream(Key::new(Purpose::Schedule, turn)).shuffle(&mut silos);
    silos.truncate(size);
    silos.sort_unstable();
    silos
}
