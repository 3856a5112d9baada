//! Saves the coordinator of PVI and restores it to the same bits.

use crate::engine::algorithm::same_run;
use crate::engine::checkpoint::{prefixed, with_prefix};
use crate::engine::clipped::ClippedCount;
use crate::engine::error::{Error, Result};
use crate::engine::wire::message::Message;
use crate::methods::pvi::schedule::Work;
use crate::methods::pvi::{Counts, Pvi};

const STATE: &str = "pvi.coordinator";
const RULE: &str = "pvi.theta_rule.";
const SOLVER: &str = "pvi.prior_solver.";

impl Pvi {
    /// The coordinator's whole state.
    pub(super) fn state(&self) -> Message {
        let not_before: Vec<f64> = self.turn.not_before.iter().map(|turn| f64::from_bits(*turn)).collect();
        let state = self.coordinator.save(STATE);
        let state = state
            .floats("pvi.natural", &self.natural)
            .floats("pvi.prior", &self.prior)
            .word("pvi.version", self.version)
            .word("pvi.turn", self.turn.turn)
            .word("pvi.theta_done", u64::from(self.theta_done))
            .floats("pvi.residuals", &self.turn.residuals)
            .floats("pvi.not_before", &not_before)
            .number("pvi.clock", self.clock);
        let state = self.clipped_rows.write(state, "pvi.clipped_rows");
        let state = match &self.dampings {
            Some(dampings) => state.floats("pvi.dampings", dampings),
            None => state,
        };
        let solver = self.prior_solver.iter().flat_map(|solver| prefixed(SOLVER, solver.save()));
        let vectors = prefixed(RULE, self.theta_descent.save()).chain(solver);
        let state = vectors.fold(state, |state, (name, values)| state.floats(&name, &values));
        let state = self.work.iter().enumerate().fold(state, |state, (silo, work)| match work {
            Some(work) => state
                .number(&format!("pvi.work.{silo}.until"), work.until)
                .word(&format!("pvi.work.{silo}.version"), work.version)
                .floats(&format!("pvi.work.{silo}.natural"), &work.natural)
                .floats(&format!("pvi.work.{silo}.prior"), &work.prior),
            None => state,
        });
        self.ledger.save(self.counts.save(state))
    }

    /// Restores a saved state.
    pub(super) fn restore(&mut self, state: &Message) -> Result<()> {
        let globals = crate::engine::terms::silo::global_signature(&self.coordinator.table);
        same_run(state, STATE, &globals, self.coordinator.settings.seed)?;
        let (ledger, counts) = (self.ledger.load(state)?, Counts::load(state)?);
        let natural = state.expect_floats("pvi.natural", self.natural.len())?;
        let prior = state.expect_floats("pvi.prior", self.prior.len())?;
        let residuals = state.expect_floats("pvi.residuals", self.sizes.len())?;
        let not_before = state.expect_floats("pvi.not_before", self.sizes.len())?;
        let clipped_rows = ClippedCount::read(state, "pvi.clipped_rows")?;
        let dampings = match state.has("pvi.dampings") {
            true => Some(state.expect_floats("pvi.dampings", self.sizes.len())?),
            false => None,
        };
        let vectors = state.named_floats();
        let (rule, solver) = (with_prefix(&vectors, RULE), with_prefix(&vectors, SOLVER));
        let mut work = Vec::new();
        for silo in 0..self.sizes.len() {
            let natural = format!("pvi.work.{silo}.natural");
            work.push(match state.has(&natural) {
                true => Some(Work {
                    until: state.get_number(&format!("pvi.work.{silo}.until"))?,
                    version: state.get_word(&format!("pvi.work.{silo}.version"))?,
                    natural: state.expect_floats(&natural, self.natural.len())?,
                    prior: state.expect_floats(&format!("pvi.work.{silo}.prior"), self.prior.len())?,
                }),
                false => None,
            });
        }
        let solver_fits = self.prior_solver.as_mut().is_none_or(|own| own.load(solver));
        let is_ours = self.theta_descent.load(rule) && solver_fits;
        Error::well_formed(is_ours, &state.kind, "its state of an optimiser or local solver is of another one")?;
        self.coordinator.load(state, STATE)?;
        (self.natural, self.prior, self.turn.residuals, self.work, self.ledger) =
            (natural, prior, residuals, work, ledger);
        (self.dampings, self.counts) = (dampings, counts);
        self.turn.not_before = not_before.iter().map(|turn| turn.to_bits()).collect();
        self.version = state.get_word("pvi.version")?;
        self.turn.turn = state.get_word("pvi.turn")?;
        self.theta_done = state.get_word("pvi.theta_done")? == 1;
        self.clock = state.get_number("pvi.clock")?;
        self.clipped_rows = clipped_rows;
        self.asked.clear();
        self.publish()
    }
}
