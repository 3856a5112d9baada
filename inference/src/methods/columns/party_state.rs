//! Saves and restores a party of a vertical fit, with the step that waits for its gradient.

use crate::engine::checkpoint::NamedVectors;
use crate::engine::error::Result;
use crate::methods::columns::messages::{as_numbers, as_rows};
use crate::methods::columns::party::{Pending, VerticalParty};

impl VerticalParty {
    /// Everything as named vectors, with this of the auxiliary variables. Of a pending step its rows suffice: the same
    /// noise makes its draws again.
    pub(super) fn state(&self, auxiliary: NamedVectors) -> NamedVectors {
        let mut state = self.trainer.save();
        state.extend(auxiliary);
        #[expect(clippy::cast_precision_loss, reason = "steps, local ones too, are far below 2^52")]
        let count = |name: &str, count: u64| (name.to_owned(), vec![count as f64]);
        if self.trainer.descent.clips() {
            state.push(count("clipped", self.clipped));
        }
        if let Some(pending) = &self.pending {
            state.push(count("pending.step", pending.step));
            state.push(("pending.by_predictor".into(), pending.by_predictor.clone()));
            state.extend(pending.rows.iter().map(|rows| ("pending.rows".to_owned(), as_numbers(rows))));
        }
        state
    }

    /// Restores what [`VerticalParty::state`] gave; false if it does not fit.
    pub(super) fn restore(&mut self, state: &[(String, Vec<f64>)]) -> Result<bool> {
        let find = |name: &str| state.iter().find(|(known, _)| known == name).map(|(_, values)| values);
        let count = |name: &str| {
            let counts = find(name).and_then(|values| as_rows(values))?;
            counts.first().map(|count| *count as u64)
        };
        let rows = find("pending.rows").and_then(|values| as_rows(values));
        if !self.auxiliary.load(state, rows.as_deref()) || !self.trainer.load(state) {
            return Ok(false);
        }
        self.show_theta()?;
        self.clipped = count("clipped").unwrap_or(0);
        self.pending = count("pending.step").map(|step| Pending {
            step,
            rows,
            by_predictor: find("pending.by_predictor").cloned().unwrap_or_default(),
            draws: Vec::new(),
        });
        Ok(true)
    }
}
