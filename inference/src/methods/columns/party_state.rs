//! Saves and restores a party of a vertical fit, with the step that waits for its gradient.

use crate::engine::checkpoint::NamedVectors;
use crate::engine::error::Result;
use crate::engine::trainer::with_prefix;
use crate::methods::columns::party::{Pending, VerticalParty};
use crate::methods::columns::{as_numbers, as_rows};

impl VerticalParty {
    /// Everything as named vectors. Of a pending step its rows suffice: the same noise makes its draws again.
    pub(super) fn state(&self) -> NamedVectors {
        let mut state = vec![("family".to_owned(), self.parameters.clone()), ("theta".to_owned(), self.theta.clone())];
        state.extend(self.auxiliary.save());
        state.extend(self.descent.save().into_iter().map(|(name, values)| (format!("rule.{name}"), values)));
        if self.descent.clips() {
            #[expect(clippy::cast_precision_loss, reason = "local steps are far below 2^52")]
            state.push(("clipped".into(), vec![self.clipped as f64]));
        }
        if let Some(pending) = &self.pending {
            #[expect(clippy::cast_precision_loss, reason = "steps are far below 2^52")]
            state.push(("pending.step".into(), vec![pending.step as f64]));
            state.extend(pending.rows.iter().map(|rows| ("pending.rows".to_owned(), as_numbers(rows))));
            let share = |(index, share): (usize, &Vec<f64>)| (format!("pending.share.{index}"), share.clone());
            state.extend(pending.shares.iter().enumerate().map(share));
        }
        state
    }

    /// Restores what [`VerticalParty::state`] gave; false if it does not fit.
    pub(super) fn restore(&mut self, state: &[(String, Vec<f64>)]) -> Result<bool> {
        let find = |name: &str| state.iter().find(|(known, _)| known == name).map(|(_, values)| values);
        let (Some(family), Some(theta)) = (find("family"), find("theta")) else { return Ok(false) };
        if family.len() != self.parameters.len() || theta.len() != self.theta.len() || !self.auxiliary.load(state) {
            return Ok(false);
        }
        if !self.descent.load(with_prefix(state, "rule.")) {
            return Ok(false);
        }
        self.parameters.clone_from(family);
        self.theta.clone_from(theta);
        if !self.theta.is_empty() {
            self.party.set_theta(&self.theta, &self.device)?;
        }
        let clipped = find("clipped").and_then(|values| as_rows(values));
        self.clipped = clipped.and_then(|counts| counts.first().copied()).map_or(0, |count| count as u64);
        let shares = (0..).map_while(|index| find(&format!("pending.share.{index}")).cloned()).collect();
        self.pending = match find("pending.step").and_then(|values| as_rows(values)).as_deref() {
            Some([step]) => {
                let rows = find("pending.rows").and_then(|values| as_rows(values));
                Some(Pending { step: *step as u64, rows, shares, draws: Vec::new() })
            }
            _ => None,
        };
        Ok(true)
    }
}
