//! Checks the laws of server rules: they rest where no silo moved, and a saved state goes on with the same bits.

use partita_inference::ServerRule;

/// Numbers of a point, from small to large.
const BEFORE: [f64; 3] = [0.1, -7.3, 1e9];
/// Where two silos take it.
const MEMBERS: [[f64; 3]; 2] = [[0.5, -7.0, 2e9], [0.3, -8.0, 3e9]];
/// Rounds before a state is saved, and after.
const ROUNDS: usize = 3;

/// A law of [`ServerRule`] that does not hold.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ServerRuleViolation {
    /// A number moved where no silo moved it.
    #[error("{rule}: number {index} went from {before} to {found} although no silo moved it")]
    Rest {
        /// The rule.
        rule: String,
        /// The number.
        index: usize,
        /// Where it was.
        before: f64,
        /// Where the rule put it.
        found: f64,
    },
    /// A rule refused a state of its own kind.
    #[error("{rule}: it refused the state that it had saved after {rounds} rounds")]
    Refused {
        /// The rule.
        rule: String,
        /// The rounds.
        rounds: usize,
    },
    /// A rule took a state of another kind.
    #[error("{rule}: it took a state that is none of its own")]
    Accepted {
        /// The rule.
        rule: String,
    },
    /// A saved vector has another length than a point.
    #[error("{rule}: the saved `{name}` has {found} numbers, a point has {expected}")]
    Length {
        /// The rule.
        rule: String,
        /// The vector.
        name: String,
        /// Its length.
        found: usize,
        /// That of a point.
        expected: usize,
    },
    /// After `load(save())` a round gives other bits.
    #[error("{rule}: number {index} is {found} after a restore, {expected} without")]
    Resumed {
        /// The rule.
        rule: String,
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
/// The first [`ServerRuleViolation`] found.
///
/// # Example
/// ```
/// use partita_inference::{FedAdam, ServerOptimiser};
/// use partita_laws as laws;
/// let server = FedAdam { rate: 0.1, decay: [0.9, 0.99], adaptivity: 1e-3 };
/// laws::server_rule("FedAdam", || server.start())?;
/// # Ok::<(), laws::ServerRuleViolation>(())
/// ```
pub fn server_rule(name: &str, start: impl Fn() -> Box<dyn ServerRule>) -> Result<(), ServerRuleViolation> {
    let rule = || name.to_owned();
    let members = MEMBERS.map(|member| member.to_vec());
    let rested = start().apply(&BEFORE, &[BEFORE.to_vec(), BEFORE.to_vec()], &[0.3, 0.7]);
    if let Some(index) = different(&rested, &BEFORE) {
        return Err(ServerRuleViolation::Rest { rule: rule(), index, before: BEFORE[index], found: rested[index] });
    }
    if start().load(vec![("no such state".to_owned(), vec![0.0; BEFORE.len()])]) {
        return Err(ServerRuleViolation::Accepted { rule: rule() });
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
            return Err(ServerRuleViolation::Length { rule: rule(), name: name.clone(), found, expected });
        }
        if !restored.load(state) {
            return Err(ServerRuleViolation::Refused { rule: rule(), rounds });
        }
        let mut own = point.clone();
        for _ in 0..ROUNDS {
            point = going_on.apply(&point, &members, &[0.5, 0.5]);
            own = restored.apply(&own, &members, &[0.5, 0.5]);
            if let Some(index) = different(&own, &point) {
                let (found, expected) = (own[index], point[index]);
                return Err(ServerRuleViolation::Resumed { rule: rule(), index, found, expected });
            }
        }
    }
    Ok(())
}

/// The first number whose bits differ.
fn different(found: &[f64], expected: &[f64]) -> Option<usize> {
    found.iter().zip(expected).position(|(a, b)| a.to_bits() != b.to_bits())
}
