//! Hides a silo's numbers behind masks that cancel in the sum over a roster, in one exchange.

use std::collections::BTreeMap;

use aes::Aes256;
use ctr::Ctr64BE;
use ctr::cipher::{KeyIvInit, StreamCipher};
use hkdf::Hkdf;
use sha2::{Digest, Sha256};
use x25519_dalek::{PublicKey, SharedSecret};

use crate::entropy::Entropy;
use crate::error::{Error, Result};

mod keys;

pub use keys::{Peers, RunKey, SignedKey, SiloKey};

/// Goes into every key of a mask, so that none is one for another purpose.
const PURPOSE: &[u8] = b"partita mask 2";

/// For which answer of a run a mask is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The round.
    pub round: u64,
    /// The attempt at this round.
    pub attempt: u64,
}

/// A silo's numbers with its masks: every value is uniform modulo 2¹²⁸ for whoever lacks the keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Masked {
    /// The numbers modulo 2¹²⁸.
    pub values: Vec<u128>,
    /// The hash of run, place, roster and request, which all addends of a sum share.
    pub roster: [u8; 32],
}

/// Makes the masks of one silo in one run.
///
/// Silo $a$ sends $x_a + \sum_{b \ne a} \pm m_{ab} \bmod 2^{128}$, plus for the name that comes first. The mask
/// $m_{ab}$ is the stream of AES-256 in counter mode under a key that HKDF-SHA256 makes of the X25519 secret of $a$ and
/// $b$ and of run, round, attempt, roster and the request itself. Two silos that were asked the same make the same, so
/// that it cancels in the sum; where a request differs in one byte, both keep their masks, and their sum is as random
/// as they are.
///
/// # Laws
/// The sum of all masked answers has the bits of the sum of the plain ones, in any order: `privacy/tests/privacy/masks.rs`.
///
/// # Example
/// ```
/// use std::collections::BTreeMap;
/// use partita_privacy::{Masked, Masker, Peers, Place, RunKey, SiloKey, SystemEntropy};
/// let mut entropy = SystemEntropy::default();
/// let names = ["north", "south", "west"];
/// let keys: Vec<SiloKey> = names.iter().map(|_| SiloKey::generate(&mut entropy)).collect::<Result<_, _>>()?;
/// let peers: Peers = names.iter().zip(&keys).map(|(name, key)| (name.to_string(), key.public())).collect();
/// let own: Vec<RunKey> = names.iter().zip(&keys)
///     .map(|(name, key)| RunKey::new("run 1", name, key, &mut entropy)).collect::<Result<_, _>>()?;
/// let signed: Vec<_> = own.iter().map(RunKey::signed).collect();
/// let answers: Vec<Masked> = own.into_iter().zip([5, 6, 7]).map(|(key, value)| {
///     let mut masker = Masker::new(key, &peers, &signed, 3)?;
///     masker.mask(Place { round: 1, attempt: 0 }, &names, b"what is asked", &[value])
/// }).collect::<Result<_, _>>()?;
/// assert_eq!(Masked::sum(&answers, 3)?, [18]);
/// # Ok::<(), partita_privacy::Error>(())
/// ```
///
/// # References
/// Bonawitz et al. (2017), Practical secure aggregation, whose pairwise masks these are, without secret sharing: a silo
/// that leaves costs another attempt.
pub struct Masker {
    name: String,
    run: String,
    secrets: BTreeMap<String, SharedSecret>,
    fewest: usize,
    /// The last place used.
    last: Option<Place>,
}

impl std::fmt::Debug for Masker {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (run, peers) = (&self.run, self.secrets.keys().collect::<Vec<_>>());
        formatter.debug_struct("Masker").field("run", run).field("peers", &peers).finish_non_exhaustive()
    }
}

impl Masker {
    /// Shares a secret with every silo of `signed` that is among `peers`; the silo's own key may be among them.
    ///
    /// # Errors
    /// [`Error::Refused`] for a key of a stranger, of another run, twice of one silo, with a wrong signature, or with
    /// which no secret can be shared; for `fewest` below two.
    pub fn new(own: RunKey, peers: &Peers, signed: &[SignedKey], fewest: usize) -> Result<Self> {
        if fewest < 2 {
            let remedy = "Three keep what each gave from the others; with two each learns the other's by subtraction.";
            let expected = "at least 2".to_owned();
            return Err(Error::Refused { what: "the fewest silos", found: fewest.to_string(), expected, remedy });
        }
        let mut secrets = BTreeMap::new();
        for key in signed.iter().filter(|key| key.silo != own.silo()) {
            let shared = own.share(key.verified(own.run(), peers)?, &key.silo)?;
            if secrets.insert(key.silo.clone(), shared).is_some() {
                let remedy = "Give one key a silo.";
                return Err(Error::Refused { what: "a key", found: key.silo.clone(), expected: "one".into(), remedy });
            }
        }
        let (name, run) = (own.silo().to_owned(), own.run().to_owned());
        Ok(Self { name, run, secrets, fewest, last: None })
    }

    /// Whether [`mask`](Self::mask) would be refused for this place and roster, before anything is computed for it.
    ///
    /// # Errors
    /// As for [`mask`](Self::mask).
    pub fn check<N: AsRef<str>>(&self, place: Place, roster: &[N]) -> Result<()> {
        self.checked(place, roster).map(drop)
    }

    /// Masks `values`, the answer to the request `asked`, for the sum over `roster`.
    ///
    /// `asked` are the bytes of everything on which the values depend beside the silo's data, the same for all silos.
    ///
    /// # Errors
    /// [`Error::Refused`] for a roster below the fewest silos, with a stranger, with a name twice or without this silo;
    /// for a place that is not after the last one, since a mask that is used twice gives the difference of two answers
    /// away.
    pub fn mask<N: AsRef<str>>(&mut self, place: Place, roster: &[N], asked: &[u8], values: &[u128]) -> Result<Masked> {
        let roster = self.checked(place, roster)?;
        let roster_hash = hash(&self.run, place, &roster, asked);
        let mut masked = values.to_vec();
        for peer in roster.iter().filter(|peer| **peer != self.name) {
            let secret = self.secrets.get(peer).ok_or_else(|| stranger(peer))?;
            for (value, mask) in masked.iter_mut().zip(stream(secret, &roster_hash, values.len())?) {
                *value = match self.name < *peer {
                    true => value.wrapping_add(mask),
                    false => value.wrapping_sub(mask),
                };
            }
        }
        self.last = Some(place);
        Ok(Masked { values: masked, roster: roster_hash })
    }

    /// The roster in the order of names, once this silo accepts it for `place`.
    fn checked<N: AsRef<str>>(&self, place: Place, roster: &[N]) -> Result<Vec<String>> {
        let mut names: Vec<String> = roster.iter().map(|name| name.as_ref().to_owned()).collect();
        names.sort();
        let refused =
            |what, found: String, expected: String, remedy| Err(Error::Refused { what, found, expected, remedy });
        if names.windows(2).any(|pair| pair[0] == pair[1]) || !names.contains(&self.name) {
            let expected = format!("every silo once, {} among them", self.name);
            return refused("the roster", names.join(", "), expected, "Ask the silos that take part alone.");
        }
        if let Some(unknown) = names.iter().find(|name| **name != self.name && !self.secrets.contains_key(*name)) {
            return Err(stranger(unknown));
        }
        if names.len() < self.fewest {
            let expected = format!("at least {}", self.fewest);
            let remedy = "Wait for more silos: a sum over few says much about each.";
            return refused("the number of silos", names.len().to_string(), expected, remedy);
        }
        match self.last {
            Some(last) if place <= last => {
                let expected = format!("a later one than {last:?}");
                let remedy = "Ask for another attempt: a mask is used once.";
                refused("the place", format!("{place:?}"), expected, remedy)
            }
            _ => Ok(names),
        }
    }
}

impl Masked {
    /// The sum of the plain values modulo 2¹²⁸, once all of the `roster` silos have answered.
    ///
    /// # Errors
    /// [`Error::Refused`] for another number of answers, for answers of different rosters, runs, places or requests, and
    /// for different lengths: masks would not cancel.
    pub fn sum(answers: &[Self], roster: usize) -> Result<Vec<u128>> {
        let refused = |what, found: String, expected: String| {
            let remedy = "Ask for another attempt with the silos that are there.";
            Err(Error::Refused { what, found, expected, remedy })
        };
        let Some(first) = answers.first().filter(|_| answers.len() == roster) else {
            return refused("the number of answers", answers.len().to_string(), roster.to_string());
        };
        if answers.iter().any(|answer| answer.roster != first.roster) {
            return refused("the rosters or requests of the answers", "different ones".into(), "one".into());
        }
        if answers.iter().any(|answer| answer.values.len() != first.values.len()) {
            return refused("the lengths of the answers", "different ones".into(), first.values.len().to_string());
        }
        let mut sum = vec![0_u128; first.values.len()];
        for answer in answers {
            sum.iter_mut().zip(&answer.values).for_each(|(sum, value)| *sum = sum.wrapping_add(*value));
        }
        Ok(sum)
    }
}

fn stranger(name: &str) -> Error {
    let expected = "silos whose keys this one has, and has for this run".into();
    Error::Refused {
        what: "a silo of the roster",
        found: name.to_owned(),
        expected,
        remedy: "Put its public key into this silo's file, and exchange keys at the start of the run.",
    }
}

/// The hash of everything that both makers of a mask must agree on.
fn hash(run: &str, place: Place, roster: &[String], asked: &[u8]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(PURPOSE);
    for number in [place.round, place.attempt, roster.len() as u64] {
        hash.update(number.to_le_bytes());
    }
    for part in roster.iter().map(String::as_bytes).chain([run.as_bytes(), asked]) {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

/// The mask of one pair: `length` numbers of the key stream of AES-256 in counter mode. The key is of this one mask, so
/// that the counter starts at zero.
fn stream(secret: &SharedSecret, roster: &[u8; 32], length: usize) -> Result<impl Iterator<Item = u128>> {
    let mut key = [0; 32];
    let expanded = Hkdf::<Sha256>::new(Some(PURPOSE), secret.as_bytes()).expand(roster, &mut key);
    expanded.map_err(|error| Error::Entropy { problem: error.to_string() })?;
    let mut bytes = vec![0; length * 16];
    Ctr64BE::<Aes256>::new(&key.into(), &[0; 16].into()).apply_keystream(&mut bytes);
    Ok((0..length).map(move |at| u128::from_le_bytes(bytes.as_chunks::<16>().0[at])))
}

/// Fresh bytes for a key.
fn fresh(entropy: &mut dyn Entropy) -> Result<[u8; 32]> {
    let mut bytes = [0; 32];
    entropy.fill(&mut bytes)?;
    Ok(bytes)
}

/// The public half of a key that was checked.
struct Verified(PublicKey);
