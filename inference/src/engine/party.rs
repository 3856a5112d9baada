//! Makes a silo of a method's program: transactions, the seed check, saved state and panics, written once.

use std::path::Path;

use partita_core::Precision;

use crate::engine::checkpoint::{self, NamedVectors};
use crate::engine::error::{Error, Result};
use crate::engine::exchange::SiloProgram;
use crate::engine::panic::caught;
use crate::engine::wire::message::Message;

/// Who a party is, and where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing<'a> {
    /// The silo's name.
    pub name: &'a str,
    /// The seed of the run it was set up for; requests whose word `seed` is another are refused.
    pub seed: u64,
    /// The steps it has done.
    pub step: u64,
}

/// What an answer that fails may have changed by then.
#[derive(Debug, Clone, PartialEq)]
pub enum Commit {
    /// Anything: the state is kept before the answer, and taken back after a failure.
    AsItGoes,
    /// What is in these vectors and nothing else: [`Program::load`] takes them back after a failure.
    Part(NamedVectors),
    /// Nothing: the program changes its state after all that can fail.
    AtItsEnd,
}

/// The silo's side of a method: [`Program::reply`] alone, with a state that can be written down.
///
/// Every program is a [`SiloProgram`]: what it need not do itself is done here. An answer that fails, by an error or a
/// panic, leaves nothing behind; a request of a run with another seed is refused; `silo.save` and `silo.restore` write
/// and read the state in the folder of a checkpoint.
///
/// # Laws
/// After `load(step, save())` the program answers with the same bits. A program that says [`Commit::AtItsEnd`] has the
/// same state after an error as before (`tests/failure`).
pub trait Program: Send {
    /// Who the party is.
    fn standing(&self) -> Standing<'_>;

    /// Answers a request of the method.
    ///
    /// # Errors
    /// [`Error::Message`] for a request it does not understand; otherwise what the model reports.
    fn reply(&mut self, request: &Message) -> Result<Message>;

    /// The whole state as named vectors, besides the step.
    ///
    /// # Errors
    /// What reading it from a device reports.
    fn save(&self) -> Result<NamedVectors>;

    /// Takes it back; false if it is of another model, family or optimiser.
    ///
    /// # Errors
    /// What the model reports of its parameters.
    fn load(&mut self, step: u64, state: &[(String, Vec<f64>)]) -> Result<bool>;

    /// What the answer to such a request may have changed where it fails.
    fn commit(&self, _request: &Message) -> Commit {
        Commit::AsItGoes
    }

    /// As for [`SiloProgram::compute_in`].
    ///
    /// # Errors
    /// What the model refuses.
    fn set_precision(&mut self, _precision: Precision) -> Result<bool> {
        Ok(false)
    }

    /// As for [`SiloProgram::local_moments`].
    ///
    /// # Errors
    /// What the model's encoder refuses.
    fn moments(&self) -> Result<Vec<(Vec<f64>, Vec<f64>)>> {
        Ok(Vec::new())
    }

    /// As for [`SiloProgram::private_theta`].
    fn kept_theta(&self) -> Vec<f64> {
        Vec::new()
    }
}

/// What silos are asked for a checkpoint.
pub(crate) const SAVE: &str = "silo.save";
/// What silos are asked to go on from one.
pub(crate) const RESTORE: &str = "silo.restore";

impl<P: Program> SiloProgram for P {
    fn name(&self) -> &str {
        self.standing().name
    }

    fn local_moments(&self) -> Result<Vec<(Vec<f64>, Vec<f64>)>> {
        self.moments()
    }

    fn private_theta(&self) -> Vec<f64> {
        self.kept_theta()
    }

    fn compute_in(&mut self, precision: Precision) -> Result<bool> {
        self.set_precision(precision)
    }

    fn answer(&mut self, request: &Message) -> Result<Message> {
        match request.kind.as_str() {
            SAVE => save(self, request.get_setting("folder")?.as_ref()),
            RESTORE => restore(self, request.get_setting("folder")?.as_ref()),
            _ => transaction(self, request),
        }
    }
}

/// Answers, or leaves the program as it was.
fn transaction<P: Program>(program: &mut P, request: &Message) -> Result<Message> {
    same_seed(request, program.standing())?;
    let before = match program.commit(request) {
        Commit::AsItGoes => Some((program.standing().step, program.save()?)),
        Commit::Part(state) => Some((program.standing().step, state)),
        Commit::AtItsEnd => None,
    };
    let name = program.standing().name.to_owned();
    let answer = caught(&name, || program.reply(request));
    if answer.is_err()
        && let Some((step, state)) = before
        && !program.load(step, &state)?
    {
        unreachable!("invariant: a silo takes back its own state");
    }
    answer
}

/// Refuses a request of another run.
fn same_seed(request: &Message, Standing { name, seed, .. }: Standing<'_>) -> Result<()> {
    if !request.has("seed") {
        return Ok(());
    }
    let found = request.get_word("seed")?;
    let problem = format_args!("its seed is {found}, silo `{name}` was set up with {seed}");
    Error::well_formed(found == seed, &request.kind, problem)
}

fn save<P: Program>(program: &P, folder: &Path) -> Result<Message> {
    let Standing { name, step, .. } = program.standing();
    checkpoint::save_silo(folder, name, step, program.save()?)?;
    Ok(Message::new("silo.saved"))
}

fn restore<P: Program>(program: &mut P, folder: &Path) -> Result<Message> {
    let name = program.standing().name.to_owned();
    let (step, state) = checkpoint::load_silo(folder, &name)?;
    let before = (program.standing().step, program.save()?);
    if program.load(step, &state)? {
        return Ok(Message::new("silo.restored"));
    }
    program.load(before.0, &before.1)?;
    Err(checkpoint::other_model(folder, &name))
}
