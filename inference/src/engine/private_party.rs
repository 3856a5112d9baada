//! Holds back every answer of a silo that has a field which depends on its data without noise.

use crate::engine::error::{Error, Result};
use crate::engine::exchange::SiloProgram;
use crate::engine::wire::manifest::{Manifest, Release};
use crate::engine::wire::message::Message;

/// A silo whose answers hold public and noised fields alone, whatever its program says and whoever asks.
///
/// # Example
/// ```
/// use partita_inference::{Error, Field, Manifest, Message, PrivateParty, Release, SiloProgram};
///
/// struct Telltale;
/// impl SiloProgram for Telltale {
///     fn name(&self) -> &str { "north" }
///     fn answer(&mut self, _: &Message) -> Result<Message, Error> { Ok(Message::new("told").floats("sum", &[1.0])) }
/// }
/// let field = |release| Field { name: "sum", meaning: "a sum over rows", limit: 1, release };
/// let silo = |release| PrivateParty::new(Box::new(Telltale), Manifest { fields: vec![field(release)] });
/// assert!(silo(Release::Noised).answer(&Message::new("tell")).is_ok());
/// let refused = silo(Release::Forbidden).answer(&Message::new("tell")).unwrap_err();
/// assert!(matches!(refused, Error::Manifest { .. }), "{refused}");
/// ```
pub struct PrivateParty {
    program: Box<dyn SiloProgram>,
    manifest: Manifest,
}

impl std::fmt::Debug for PrivateParty {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("PrivateParty").field("name", &self.program.name()).finish_non_exhaustive()
    }
}

impl PrivateParty {
    /// The silo of a program whose answers this manifest describes.
    #[must_use]
    pub fn new(program: Box<dyn SiloProgram>, manifest: Manifest) -> Self {
        Self { program, manifest }
    }
}

impl SiloProgram for PrivateParty {
    fn name(&self) -> &str {
        self.program.name()
    }

    fn within(&self) -> Option<&dyn SiloProgram> {
        Some(&*self.program)
    }

    fn answer(&mut self, request: &Message) -> Result<Message> {
        let answer = self.program.answer(request)?;
        self.manifest.check(self.program.name(), &answer)?;
        let names = answer.records.iter().map(|record| record.name.as_str());
        let names = names.chain(answer.numbers.iter().map(|(name, _)| name.as_str()));
        let mut names = names.chain(answer.settings.iter().map(|(name, _)| name.as_str()));
        let is_forbidden = |name: &&str| {
            let of = self.manifest.fields.iter().find(|field| field.name == *name);
            of.is_none_or(|field| field.release == Release::Forbidden)
        };
        match names.find(is_forbidden) {
            None => Ok(answer),
            Some(field) => Err(Error::Manifest {
                silo: self.program.name().to_owned(),
                field: field.to_owned(),
                problem: "depends on the rows without noise, and this silo is private".into(),
            }),
        }
    }
}
