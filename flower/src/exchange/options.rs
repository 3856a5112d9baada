//! Says how a coordinator reaches its silos, how long it waits for them, and what becomes of one that is lost.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use partita_inference::Message;
use serde::{Deserialize, Serialize};

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::node_key::NodeKey;
use crate::object::Limits;
use crate::signature::{PartyKey, PartyPublicKey};

/// How a coordinator reaches its silos.
#[derive(Debug, Clone)]
pub struct CoordinatorOptions {
    /// The SuperLink.
    pub engine: Engine,
    /// The silos, in the order in which sums run.
    pub silos: Vec<String>,
    /// How long it waits, and how much it reads.
    pub patience: Patience,
    /// The fewest silos with which [`LostSilo::GoOn`] goes on.
    pub quorum: usize,
    /// The keys of the SuperNodes of silos, by name: who says that it is such a silo and has another key is refused.
    pub keys: BTreeMap<String, NodeKey>,
    /// The keys that sign the answers of silos, by name: what is said in their names without one is refused, the hello
    /// included.
    pub signatures: BTreeMap<String, PartyPublicKey>,
    /// The key that signs its requests: silos that have its public key answer nothing else.
    pub key: Option<PartyKey>,
    /// Set from outside to end a wait for silos; what is answered within ten seconds is still taken.
    pub interrupt: Arc<AtomicBool>,
    /// The entries of the file that all parties share, [`crate::RunFile::entries`]: told in hellos, so that a silo with another
    /// identity is told by which entry it differs; none of a run that follows from no file.
    pub entries: Vec<(String, String)>,
    /// The words that the file of a study lists as `asks`, where it does: no others are sent.
    pub asks: Option<Vec<String>>,
}

impl CoordinatorOptions {
    /// What the keys that are not named let others do, a line each.
    pub(super) fn warnings(&self) -> Vec<String> {
        let unsigned = || self.silos.iter().filter(|name| !self.signatures.contains_key(*name));
        let of = |is_key_named: bool| {
            let names = unsigned().filter(|name| self.keys.contains_key(*name) == is_key_named);
            Some(names.map(String::as_str).collect::<Vec<_>>().join(", ")).filter(|names| !names.is_empty())
        };
        let remedy = "Get the public keys from the silos' owners, and name their files in the coordinator's file";
        let anybody = of(false).map(|names| {
            format!("warning: `[keys]` and `[signatures]` name no key of {names}: whoever is a node of the engine can answer in their names. {remedy}")
        });
        let operator = of(true).map(|names| {
            format!("warning: `[signatures]` names no key of {names}: the engine's operator can answer in their names. {remedy}")
        });
        let own = self.key.is_none().then(|| {
            "warning: this coordinator has no `key`: silos cannot know it, and the engine's operator reads what they answer. Make one by `partita keys coordinator`, and give its public part to the silos' owners".to_owned()
        });
        [anybody, operator, own].into_iter().flatten().collect()
    }
}

/// How long a coordinator waits for its silos, what becomes of one that is lost, and how much it reads of what they
/// say.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Patience {
    /// How long to wait for all silos to appear, in seconds.
    pub appear_seconds: u64,
    /// How long an answer may take, in seconds.
    pub deadline_seconds: u64,
    /// How often a request is sent, after errors and deadlines again.
    pub attempts: u64,
    /// The most bytes of an answer.
    pub largest_answer: usize,
    /// The largest Euclidean norm of an array in an answer; none is too large where it is not given.
    pub largest_norm: Option<f64>,
    /// What becomes of a silo that is lost.
    pub lost_silo: LostSilo,
}

impl Default for Patience {
    /// Five minutes to appear, ten for an answer, ten attempts, a gigabyte, and no run without all silos.
    fn default() -> Self {
        Self {
            appear_seconds: 300,
            deadline_seconds: 600,
            attempts: 10,
            largest_answer: Limits::default().bytes,
            largest_norm: None,
            lost_silo: LostSilo::Wait,
        }
    }
}

impl Patience {
    pub(super) fn limits(&self) -> Limits {
        Limits { bytes: self.largest_answer, ..Limits::default() }
    }

    /// Refuses a silo's answer that has an array beyond [`Patience::largest_norm`].
    ///
    /// # Errors
    /// [`Error::Unwelcome`] that names the silo and the array.
    ///
    /// # Example
    /// ```
    /// use partita_flower::Patience;
    /// use partita_inference::Message;
    /// let answer = Message::new("pvi.answer").floats("change", &[3.0, 4.0]);
    /// let bound = |largest_norm| Patience { largest_norm, ..Patience::default() };
    /// assert!(bound(None).check("north", &answer).is_ok() && bound(Some(5.0)).check("north", &answer).is_ok());
    /// assert!(bound(Some(4.9)).check("north", &answer).unwrap_err().to_string().contains("`change` of silo `north`"));
    /// let wrong = Message::new("pvi.answer").floats("change", &[f64::NAN]);
    /// assert!(bound(Some(5.0)).check("north", &wrong).is_err());
    /// ```
    pub fn check(&self, silo: &str, answer: &Message) -> Result<()> {
        let (Some(largest), Some((name, norm))) = (self.largest_norm, answer.largest_norm()) else { return Ok(()) };
        let found = format_args!("`{}` of silo `{silo}` with norm {norm:e}", crate::error::shown(name));
        let expected = format_args!("at most {largest:e}");
        let remedy = "Ask the silo's owner what happened, or raise `largest_norm` in the coordinator's file.";
        Error::unless(norm <= largest, "the size of an answer", found, expected, remedy)
    }
}

/// What a coordinator does when a silo is gone, or does not answer by the deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LostSilo {
    /// It asks again until the attempts are used up, and then ends the run with an error; started again, it goes on
    /// from its checkpoint. What is found is what an undisturbed run finds, to the bit.
    #[default]
    Wait,
    /// The silo sits the round out as long as a quorum of others is there: its factor stays in the posterior as it was.
    /// When it comes back it takes part again, with its factor; one that was never there joins with the factor 1. For
    /// algorithms whose silos keep a factor: partitioned variational inference.
    GoOn,
    /// The first request without an answer ends the run with an error that names the silo.
    Fail,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coordinator_says_what_a_missing_key_lets_others_do() {
        let key = PartyKey::generate().unwrap();
        let mut options = CoordinatorOptions {
            engine: Engine::insecure("127.0.0.1:1"),
            silos: ["north", "south"].map(str::to_owned).to_vec(),
            patience: Patience::default(),
            quorum: 2,
            keys: BTreeMap::new(),
            signatures: BTreeMap::new(),
            key: None,
            interrupt: Arc::default(),
            entries: Vec::new(),
            asks: None,
        };
        let said = options.warnings();
        assert!(said[0].contains("of north, south: whoever is a node of the engine can answer"), "{said:?}");
        assert!(said[1].contains("has no `key`") && said.len() == 2, "{said:?}");
        options.key = Some(key.clone());
        options.signatures.insert("north".into(), key.public());
        let said = options.warnings();
        assert!(said[0].contains("of south: whoever") && said.len() == 1, "{said:?}");
        options.signatures.insert("south".into(), key.public());
        assert_eq!(options.warnings(), [""; 0]);
    }
}
