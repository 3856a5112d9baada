//! Puts a silo behind masks where the run and its owner ask for them, with the keys of the files that the owner names.

use partita_flower::{Error, PartyKey, PartyPublicKey, Result};
use partita_inference::SiloProgram;
use partita_privacy::{Peers, SiloKey};

use super::SiloFile;
use crate::private::secure::{Departures, MaskedSilo, Masking};

pub(super) fn unwelcome<T>(what: &'static str, found: String, expected: String, remedy: &'static str) -> Result<T> {
    Err(Error::Unwelcome { what, found, expected, remedy })
}

/// With whom a silo masks its sums.
///
/// # Errors
/// [`Error::Unwelcome`] where run and owner do not ask for the same, and without a key of every other silo.
pub(super) fn masking(
    silos: &[String],
    file: &SiloFile,
    secure_sums: bool,
    departures: Departures,
) -> Result<Option<Masking>> {
    let what = "secure sums";
    let secure = match (secure_sums, &file.secure) {
        (false, None) => return Ok(None),
        (false, Some(_)) => {
            let expected = "`secure_sums = true`: this silo's file has `[secure]`".into();
            let remedy = "Ask for masks, in a study under `[privacy]`, or take `[secure]` out: then the coordinator reads this silo's own sums.";
            return unwelcome(what, "a run without masks".into(), expected, remedy);
        }
        (true, None) => {
            let expected = "`[secure]`, with `fewest` and the public keys of the other silos".into();
            let remedy =
                "Get `NAME-signs.pub` of every other silo from its owner, and name the files under `[secure.peers]`.";
            return unwelcome(what, "no `[secure]` in the silo's file".into(), expected, remedy);
        }
        (true, Some(secure)) => secure,
    };
    if secure.fewest < 2 {
        let remedy =
            "Write 2 or more as `fewest` under `[secure]` in the silo's file; with 2 each silo learns the other's sum.";
        return unwelcome(
            "`fewest` of this silo's file",
            secure.fewest.to_string(),
            "at least 2: the sum over one silo hides nothing".into(),
            remedy,
        );
    }
    let Some(signs) = &file.signs else {
        let expected = "the file of the silo's private key".into();
        return unwelcome(what, "no `signs` in the silo's file".into(), expected, "Make it by `partita keys silo`.");
    };
    let key = SiloKey::from_bytes(&PartyKey::read(signs)?.secret_bytes());
    let mut peers = Peers::from([(file.name.clone(), key.public())]);
    for name in silos.iter().filter(|name| **name != file.name) {
        let Some(path) = secure.peers.get(name) else {
            let expected = "a key of every silo of the run".into();
            let remedy = "Get `NAME-signs.pub` from its owner, and name the file under `[secure.peers]`.";
            return unwelcome(what, format!("no key of silo `{name}`"), expected, remedy);
        };
        peers.insert(name.clone(), PartyPublicKey::read(path)?.bytes());
    }
    if peers.len() < secure.fewest {
        let expected = format!("at least {}, as this silo's file says", secure.fewest);
        return unwelcome("the silos of a secure sum", peers.len().to_string(), expected, "Wait for more silos.");
    }
    Ok(Some(Masking { key, peers, fewest: secure.fewest, departures }))
}

/// The silo, behind masks where it has them.
pub(super) fn behind(own: Box<dyn SiloProgram>, masking: Option<&Masking>) -> Box<dyn SiloProgram> {
    match masking {
        None => own,
        Some(masking) => Box::new(MaskedSilo::new(own, masking.clone())),
    }
}
