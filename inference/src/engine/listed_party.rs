//! Holds back every answer of a silo that has more than the manifest of what it is asked lists.

use crate::engine::error::Result;
use crate::engine::exchange::SiloProgram;
use crate::engine::trust::evaluate::judgement_fields;
use crate::engine::trust::left_out_rows::LeftOutRows;
use crate::engine::trust::predictive::Checked;
use crate::engine::trust::values::{MOST_VALUES, Values};
use crate::engine::wire::manifest::Manifest;
use crate::engine::wire::message::Message;

/// The most checks whose p-values one answer has.
const MOST_CHECKS: u64 = 4_096;

/// A silo whose answers are checked before they leave it, and not by their receiver alone.
///
/// Requests of the method are answered by the fields of its manifest; those of a report, by their first words, by the
/// fields of these.
///
/// # Example
/// ```
/// use partita_inference::{Error, Field, ListedParty, Manifest, Message, Release, SiloProgram};
///
/// struct Telltale;
/// impl SiloProgram for Telltale {
///     fn name(&self) -> &str { "north" }
///     fn answer(&mut self, _: &Message) -> Result<Message, Error> { Ok(Message::new("told").floats("rows", &[1.0, 2.0])) }
/// }
/// let field = |limit| Field { name: "rows", meaning: "a sum over rows", limit, release: Release::Forbidden };
/// let silo = |limit| ListedParty::new(Box::new(Telltale), Manifest { fields: vec![field(limit)] });
/// assert!(silo(2).answer(&Message::new("few.round")).is_ok());
/// assert!(matches!(silo(1).answer(&Message::new("few.round")), Err(Error::Manifest { .. })));
/// assert!(matches!(silo(2).answer(&Message::new("evaluate.rows")), Err(Error::Manifest { .. })));
/// ```
pub struct ListedParty {
    program: Box<dyn SiloProgram>,
    manifest: Manifest,
}

impl std::fmt::Debug for ListedParty {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ListedParty").field("name", &self.program.name()).finish_non_exhaustive()
    }
}

impl ListedParty {
    /// The silo of a program whose answers to its method this manifest describes.
    #[must_use]
    pub fn new(program: Box<dyn SiloProgram>, manifest: Manifest) -> Self {
        Self { program, manifest }
    }

    /// What may leave in answer to a request of this kind.
    fn of(&self, kind: &str) -> Manifest {
        let verb = kind.split_once('.').map_or(kind, |(verb, _)| verb);
        let fields = match verb {
            "trust" => Values::fields(&(MOST_VALUES as u64)),
            "leave_one_out" => LeftOutRows::fields(&()),
            "predictive" => Checked::fields(&MOST_CHECKS),
            "evaluate" => judgement_fields(),
            // What the party itself asks of its own files answers nothing.
            "silo" => Vec::new(),
            _ => self.manifest.fields.clone(),
        };
        Manifest { fields }
    }
}

impl SiloProgram for ListedParty {
    fn name(&self) -> &str {
        self.program.name()
    }

    fn within(&self) -> Option<&dyn SiloProgram> {
        Some(&*self.program)
    }

    fn answer(&mut self, request: &Message) -> Result<Message> {
        let answer = self.program.answer(request)?;
        self.of(&request.kind).check(self.program.name(), &answer)?;
        Ok(answer)
    }
}
