//! Checks the laws of server rules: they rest where no silo moved, and a saved state goes on with the same bits.

use partita_inference::ServerRule;

use crate::Violation;

/// Numbers of a point, from small to large.
const BEFORE: [f64; 3] = [0.1, -7.3, 1e9];
/// Where two silos take it.
const MEMBERS: [[f64; 3]; 2] = [[0.5, -7.0, 2e9], [0.3, -8.0, 3e9]];
/// Rounds before a state is saved, and after.
const ROUNDS: usize = 3;

/// A law of [`ServerRule`].
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ServerRuleLaw {
    /// A number moved where no silo moved it.
    #[error("number {index} went from {before} to {found} although no silo moved it")]
    Rest {
        /// The number.
        index: usize,
        /// Where it was.
        before: f64,
        /// Where the rule put it.
        found: f64,
    },
    /// A rule refused a state of its own kind.
    #[error("it refused the state that it had saved after {rounds} rounds")]
    Refused {
        /// The rounds.
        rounds: usize,
    },
    /// A rule took a state of another kind.
    #[error("it took a state that is none of its own")]
    Accepted,
    /// A saved vector has another length than a point.
    #[error("the saved `{name}` has {found} numbers, a point has {expected}")]
    Length {
        /// The vector.
        name: String,
        /// Its length.
        found: usize,
        /// That of a point.
        expected: usize,
    },
    /// After `load(save())` a round gives other bits.
    #[error("number {index} is {found} after a restore, {expected} without")]
    Resumed {
        /// The number.
        index: usize,
        /// That of the restored rule.
        found: f64,
        /// That of the rule that went on.
        expected: f64,
    },
}

/// Checks that a rule gives the point back, bit for bit, where no silo moved and no earlier round did, that it goes on
/// after `load(save())` with the same bits, and that it refuses what is no state of its own.
///
/// # Errors
/// The first [`ServerRuleLaw`] that does not hold.
///
/// # Example
/// ```
/// use partita_inference::{FedAdam, ServerOptimiser};
/// use partita_laws as laws;
/// let server = FedAdam { rate: 0.1, decay: [0.9, 0.99], adaptivity: 1e-3 };
/// laws::server_rule("FedAdam", || server.start())?;
/// # Ok::<(), laws::Violation<laws::ServerRuleLaw>>(())
/// ```
pub fn server_rule(name: &str, start: impl Fn() -> Box<dyn ServerRule>) -> Result<(), Violation<ServerRuleLaw>> {
    let broken = |law| Violation::of(name, law);
    let members = MEMBERS.map(|member| member.to_vec());
    let rested = start().apply(&BEFORE, &[BEFORE.to_vec(), BEFORE.to_vec()], &[0.3, 0.7]);
    if let Some(index) = different(&rested, &BEFORE) {
        return broken(ServerRuleLaw::Rest { index, before: BEFORE[index], found: rested[index] });
    }
    if start().load(vec![("no such state".to_owned(), vec![0.0; BEFORE.len()])]) {
        return broken(ServerRuleLaw::Accepted);
    }
    for rounds in [0, ROUNDS] {
        let (mut going_on, mut restored) = (start(), start());
        let mut point = BEFORE.to_vec();
        for _ in 0..rounds {
            point = going_on.apply(&point, &members, &[0.3, 0.7]);
        }
        let state = going_on.save();
        if let Some((name, vector)) = state.iter().find(|(_, vector)| vector.len() != BEFORE.len()) {
            let (found, expected) = (vector.len(), BEFORE.len());
            return broken(ServerRuleLaw::Length { name: name.clone(), found, expected });
        }
        if !restored.load(state) {
            return broken(ServerRuleLaw::Refused { rounds });
        }
        let mut own = point.clone();
        for _ in 0..ROUNDS {
            point = going_on.apply(&point, &members, &[0.5, 0.5]);
            own = restored.apply(&own, &members, &[0.5, 0.5]);
            if let Some(index) = different(&own, &point) {
                return broken(ServerRuleLaw::Resumed { index, found: own[index], expected: point[index] });
            }
        }
    }
    Ok(())
}

/// The first number whose bits differ.
fn different(found: &[f64], expected: &[f64]) -> Option<usize> {
    found.iter().zip(expected).position(|(a, b)| a.to_bits() != b.to_bits())
}
