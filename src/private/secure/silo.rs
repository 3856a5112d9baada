//! Answers with masked sums alone: a silo's own are for no one, and each roster and attempt has noise of its own.

use partita_inference::{Error, Message, Refusal, Result, SiloProgram};
use partita_privacy::{Departures, Masker, Peers, Place, RunKey, SiloKey, SystemEntropy};

use super::fixed_point::{Unit, numbers_of};
use super::messages::{KEY, MASKED, MaskedRequest, PLAIN, keyed, masked};
use crate::private::declined;

/// With whom a silo masks its sums.
#[derive(Debug, Clone)]
pub(crate) struct Masking {
    /// Its own lasting key.
    pub(crate) key: SiloKey,
    /// Those of the other silos, and its own.
    pub(crate) peers: Peers,
    /// The fewest silos of a sum.
    pub(crate) fewest: usize,
}

/// A private silo whose sums leave it behind masks.
pub(crate) struct MaskedSilo {
    own: Box<dyn SiloProgram>,
    masking: Masking,
    session: Session,
}

/// The keys of the present session; they are on no disk.
enum Session {
    None,
    /// The silo's key was told, those of the others are not known yet.
    Told(RunKey),
    Shared {
        name: String,
        masker: Masker,
    },
}

impl MaskedSilo {
    pub(crate) fn new(own: Box<dyn SiloProgram>, masking: Masking) -> Self {
        Self { own, masking, session: Session::None }
    }

    fn key(&mut self, request: &Message) -> Result<Message> {
        let Masking { key, .. } = &self.masking;
        let mut bits = SystemEntropy::default();
        let own = RunKey::new(request.get_setting("session")?, self.own.name(), key, &mut bits).map_err(declined)?;
        let told = keyed(&own.signed())?;
        self.session = Session::Told(own);
        Ok(told)
    }

    fn round(&mut self, message: &Message) -> Result<Message> {
        let MaskedRequest { session, attempt, roster, keys, plain } = MaskedRequest::read(message)?;
        if plain.kind != PLAIN {
            let problem = format!("it asks for `{}` behind masks, expected a noised sum", plain.kind);
            return Err(Error::Message { kind: message.kind.clone(), problem });
        }
        let (step, unit) = (plain.get_word("step")?, Unit::of(&plain)?);
        self.share(&session, &keys)?;
        let Session::Shared { masker, .. } = &mut self.session else { return Err(unknown(&session)) };
        let place = Place { round: step, attempt };
        // Before anything is spent: the roster is one that this silo accepts.
        masker.check(place, &roster).map_err(declined)?;
        // Masks cancel among silos that were asked the same alone: whoever asks one of them something else reads nothing.
        let asked = plain.ordered().encode();
        // Sums over other silos have other noise, whoever asks for them: the ledger knows each by what it was asked with.
        let plain = plain.setting("roster", &roster.join("\n")).word("attempt", attempt);
        let answer = self.own.answer(&plain)?;
        let numbers = numbers_of(&answer)?;
        let hidden = masker.mask(place, &roster, &asked, &unit.write(&numbers)?).map_err(declined)?;
        Ok(masked(&hidden.values, &hidden.roster))
    }

    /// Shares secrets with the other silos of a session, once.
    fn share(&mut self, session: &str, keys: &[partita_privacy::SignedKey]) -> Result<()> {
        match std::mem::replace(&mut self.session, Session::None) {
            Session::Told(own) if own.signed().run == session => {
                let Masking { peers, fewest, .. } = &self.masking;
                let masker = Masker::new(own, peers, keys, *fewest, Departures::FreshNoise).map_err(declined)?;
                self.session = Session::Shared { name: session.to_owned(), masker };
                Ok(())
            }
            Session::Shared { name, masker } if name == session => {
                self.session = Session::Shared { name, masker };
                Ok(())
            }
            other => {
                self.session = other;
                Err(unknown(session))
            }
        }
    }
}

fn unknown(session: &str) -> Error {
    let problem = format!("this silo has no key of session `{session}`. {}.", Refusal::Keys.remedy());
    Error::Refused { reason: Refusal::Keys, problem }
}

impl SiloProgram for MaskedSilo {
    fn name(&self) -> &str {
        self.own.name()
    }

    fn local_moments(&self) -> Result<Vec<(Vec<f64>, Vec<f64>)>> {
        self.own.local_moments()
    }

    fn within(&self) -> Option<&dyn SiloProgram> {
        Some(&*self.own)
    }

    fn answer(&mut self, request: &Message) -> Result<Message> {
        match request.kind.as_str() {
            KEY => self.key(request),
            MASKED => self.round(request),
            PLAIN => {
                let problem = "found a request for this silo's own sum, expected one for masked sums alone: its file has `[secure]`. Ask for masks by `secure_sums = true` under `[privacy]` in study.toml";
                Err(Error::Declined { problem: problem.into() })
            }
            _ => self.own.answer(request),
        }
    }
}
