//! Turns the coordinator's file into the options of the exchange and of the algorithm: keys, and lost silos.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use partita_flower::{CoordinatorOptions, Error, LostSilo, NodeKey, PartyKey, PartyPublicKey, Result};
use partita_inference::{AlgorithmChoice, MissingSilo};

use super::CoordinatorFile;

fn unwelcome<T>(found: String, expected: &str, remedy: &'static str) -> Result<T> {
    Err(Error::Unwelcome { what: "the policy for a lost silo", found, expected: expected.into(), remedy })
}

impl CoordinatorFile {
    /// The options of the exchange: the addresses of silos, time limits, the quorum, its key, and what interrupts it.
    ///
    /// # Errors
    /// [`Error::Unwelcome`] for `go-on` without a quorum, and for a quorum without `go-on`.
    pub(super) fn options(&self, silos: &[String], interrupt: &Arc<AtomicBool>) -> Result<CoordinatorOptions> {
        let quorum = match (self.quorum, self.patience.lost_silo) {
            (Some(quorum), LostSilo::GoOn) => quorum,
            (None, LostSilo::Wait | LostSilo::Fail) => silos.len(),
            (None, LostSilo::GoOn) => {
                let remedy = "Add `quorum`, the fewest silos with which the run goes on.";
                return unwelcome("`go-on` without a quorum".into(), "a quorum", remedy);
            }
            (Some(quorum), policy) => {
                let remedy = "Take `quorum` away, or set `lost_silo = \"go-on\"`.";
                let policy = if policy == LostSilo::Fail { "fail" } else { "wait" };
                return unwelcome(format!("a quorum of {quorum} with `{policy}`"), "`go-on`", remedy);
            }
        };
        let keys: BTreeMap<_, _> = named(&self.keys, silos)?
            .map(|(name, path)| Ok((name.clone(), NodeKey::read(path)?)))
            .collect::<Result<_>>()?;
        let signatures: BTreeMap<_, _> = named(&self.signatures, silos)?
            .map(|(name, path)| Ok((name.clone(), PartyPublicKey::read(path)?)))
            .collect::<Result<_>>()?;
        each_its_own(&keys, "a key under `[keys]`")?;
        each_its_own(&signatures, "a key under `[signatures]`")?;
        Ok(CoordinatorOptions {
            engine: self.engine.clone(),
            silos: silos.to_vec(),
            patience: self.patience,
            quorum,
            keys,
            signatures,
            key: self.key.as_deref().map(PartyKey::read).transpose()?,
            interrupt: Arc::clone(interrupt),
            // Those of the file that all parties share: this is the coordinator's own.
            entries: Vec::new(),
            asks: None,
        })
    }

    /// The algorithm, with the permission to continue without a silo.
    ///
    /// # Errors
    /// [`Error::Unwelcome`] for `go-on` with an algorithm that needs every silo in every round.
    pub(super) fn algorithm(&self, algorithm: AlgorithmChoice) -> Result<AlgorithmChoice> {
        match algorithm {
            chosen if self.patience.lost_silo != LostSilo::GoOn => Ok(chosen),
            AlgorithmChoice::Pvi(how) => {
                Ok(AlgorithmChoice::Pvi(partita_inference::PviOptions { missing_silo: MissingSilo::GoOn, ..how }))
            }
            _ => {
                let remedy = "Run `pvi`, whose silos keep a factor, or set `lost_silo` to `wait` or `fail`.";
                unwelcome("`go-on` for another algorithm".into(), "`pvi`", remedy)
            }
        }
    }
}

/// Refuses one key for two silos: each could then be taken for the other.
fn each_its_own<K: PartialEq>(keys: &BTreeMap<String, K>, what: &'static str) -> Result<()> {
    for (place, (name, key)) in keys.iter().enumerate() {
        if let Some((other, _)) = keys.iter().take(place).find(|(_, other)| *other == key) {
            return Err(Error::Unwelcome {
                what,
                found: format!("the same for `{other}` and `{name}`"),
                expected: "a key of each silo's own".into(),
                remedy: "Get the public key of each silo from its owner, and correct the coordinator's file.",
            });
        }
    }
    Ok(())
}

/// The files of keys of silos; an error for a name that is not a silo's.
fn named<'a>(
    keys: &'a BTreeMap<String, PathBuf>,
    silos: &[String],
) -> Result<impl Iterator<Item = (&'a String, &'a PathBuf)>> {
    match keys.keys().find(|name| !silos.contains(name)) {
        None => Ok(keys.iter()),
        Some(name) => Err(Error::Unwelcome {
            what: "a name among the keys",
            found: format!("`{name}`"),
            expected: format!("one of {}, the silos of the run", silos.join(", ")),
            remedy: "Correct the name under `[keys]` or `[signatures]` in the coordinator's file, or the silos in the run's.",
        }),
    }
}
