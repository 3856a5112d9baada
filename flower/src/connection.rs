//! Calls the engine: protobuf over HTTP, with TLS, size limits and retries.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use prost::Message;
use serde::Deserialize;
use ureq::Agent;
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::jitter::spread;
use crate::node_signer::NodeSigner;
use crate::notice::{User, Wait};
use crate::secret::signature;

/// The largest answer in bytes: a chunk of five megabytes, with room.
const LARGEST_ANSWER: u64 = 64 * 1024 * 1024;

/// How long a call that fails inside the engine is retried: a locked database is soon free, other failures repeat.
const BROKEN: Duration = Duration::from_secs(15);

/// A connection to the engine, with the token of a task once there is one.
#[derive(Clone)]
pub(crate) struct Connection {
    agent: Agent,
    base: String,
    address: String,
    patience: Duration,
    secret: Option<Vec<u8>>,
    /// Who is told of a wait.
    user: Option<User>,
    pub(crate) token: Option<String>,
    signer: Option<Arc<NodeSigner>>,
}

/// Neither the secret nor a token is shown: whoever has a token can take the task over.
impl std::fmt::Debug for Connection {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("Connection");
        shown.field("base", &self.base).field("patience", &self.patience).finish_non_exhaustive()
    }
}

impl Connection {
    pub(crate) fn new(engine: &Engine) -> Result<Self> {
        engine.check()?;
        // A proxy or a redirection would see what is for the engine alone.
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .max_redirects(0)
            .timeout_connect(Some(Duration::from_secs(10)))
            .timeout_global(Some(longest(0)));
        let scheme = match &engine.certificate_authority {
            None => "http",
            Some(path) => {
                let roots = RootCerts::Specific(Arc::new(certificates(path)?));
                let own = client_certificate(engine)?;
                config = config.tls_config(TlsConfig::builder().root_certs(roots).client_cert(own).build());
                "https"
            }
        };
        // The engine reads the file byte by byte, including the line break at its end.
        let secret = engine.secret.as_deref().map(|path| read("secret", path)).transpose()?;
        Ok(Self {
            agent: config.build().into(),
            base: format!("{scheme}://{}/v1", engine.address),
            address: engine.address.clone(),
            patience: Duration::from_secs(engine.patience_seconds),
            secret,
            user: None,
            token: None,
            signer: engine.key.as_deref().map(NodeSigner::read).transpose()?.map(Arc::new),
        })
    }

    /// The same connection for the task of this token.
    pub(crate) fn with_token(&self, token: String) -> Self {
        Self { token: Some(token), ..self.clone() }
    }

    /// The same connection, for a user who is told of waits and may interrupt them; none for calls in the background.
    pub(crate) fn for_user(&self, user: Option<User>) -> Self {
        Self { user, ..self.clone() }
    }

    /// The public key of the node that it calls for.
    pub(crate) fn public_key(&self) -> Option<&[u8]> {
        self.signer.as_ref().map(|signer| signer.public.as_slice())
    }

    /// How long a call is retried without an answer.
    pub(crate) fn patience(&self) -> Duration {
        self.patience
    }

    /// The same connection with another patience.
    pub(crate) fn with_patience(&self, patience: Duration) -> Self {
        Self { patience, ..self.clone() }
    }

    /// Calls `path` of the engine; retries without an answer until patience ends, and for a while if the engine fails.
    pub(crate) fn call<A: Message + Default>(
        &self,
        operation: &'static str,
        path: &str,
        request: &impl Message,
    ) -> Result<A> {
        let body = request.encode_to_vec();
        let (started, mut wait) = (Instant::now(), Wait::new(Duration::ZERO));
        let mut pause = Duration::from_millis(100);
        loop {
            match self.once(operation, path, &body) {
                Ok(answer) => return decode(operation, answer),
                Err(Failed::Refused(error)) => return Err(error),
                Err(Failed::Broken(error)) if started.elapsed() >= BROKEN.min(self.patience) => return Err(error),
                Err(Failed::Unanswered(reason)) if started.elapsed() >= self.patience => {
                    return Err(Error::Transport {
                        operation,
                        address: self.address.clone(),
                        patience_seconds: self.patience.as_secs(),
                        reason,
                    });
                }
                Err(Failed::Broken(_) | Failed::Unanswered(_)) => {}
            }
            if let Some(user) = &self.user {
                wait.look(user, || format!("the engine at {}", self.address))?;
            }
            std::thread::sleep(spread(pause));
            pause = (2 * pause).min(Duration::from_secs(2));
        }
    }

    fn once(&self, operation: &'static str, path: &str, body: &[u8]) -> std::result::Result<Vec<u8>, Failed> {
        let mut request = self.agent.post(format!("{}/{path}", self.base));
        request = request.config().timeout_global(Some(longest(body.len()))).build();
        request = request.header("content-type", "application/protobuf").header("accept", "application/protobuf");
        if let Some(token) = &self.token {
            request = request.header("flwr-task-token", token);
        } else if let Some(signer) = &self.signer {
            for (name, value) in signer.headers()? {
                request = request.header(name, value);
            }
        } else if let Some(secret) = &self.secret {
            for (name, value) in signature(secret, body)? {
                request = request.header(name, value);
            }
        }
        let failed = |error: ureq::Error| self.failed(operation, &error);
        let mut response = request.send(body).map_err(failed)?;
        let status = response.status().as_u16();
        if let Some(announced) = response.body().content_length().filter(|length| *length > LARGEST_ANSWER) {
            let problem = format!("it announces {announced} bytes, this party reads at most {LARGEST_ANSWER}");
            return Err(Failed::Refused(Error::malformed(operation, problem)));
        }
        let answer = response.body_mut().with_config().limit(LARGEST_ANSWER).read_to_vec().map_err(failed)?;
        match status {
            200..300 => Ok(answer),
            500 => Err(Failed::Broken(refused(operation, status, &answer))),
            502..=504 => Err(Failed::Unanswered(format!("status {status}"))),
            _ => Err(Failed::Refused(refused(operation, status, &answer))),
        }
    }
}

impl Connection {
    /// The meaning of a transport's error: whether to try again.
    fn failed(&self, operation: &'static str, error: &ureq::Error) -> Failed {
        let reason = error.to_string();
        if let ureq::Error::BodyExceedsLimit(_) = error {
            return Failed::Refused(Error::malformed(operation, reason));
        }
        // A rejected certificate stays rejected: do not try again.
        if reason.contains("certificate") {
            return Failed::Refused(Error::Untrusted { address: self.address.clone(), reason });
        }
        Failed::Unanswered(reason)
    }
}

enum Failed {
    /// The call may or may not have been executed.
    Unanswered(String),
    /// The engine failed internally.
    Broken(Error),
    /// The engine refused.
    Refused(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

fn refused(operation: &'static str, status: u16, answer: &[u8]) -> Error {
    #[derive(Deserialize)]
    struct Detail {
        detail: String,
    }
    let detail = serde_json::from_slice::<Detail>(answer)
        .map_or_else(|_| String::from_utf8_lossy(&answer[..answer.len().min(400)]).into_owned(), |found| found.detail);
    let remedy = match status {
        401 => "Check the secret, the keys that are registered, and that no other program took this task.",
        403 => {
            "If the run has ended meanwhile, nothing is to be done; otherwise check the secret, and that no other program took this task."
        }
        404 => "This is not an engine of the version that Partita speaks: install flwr 1.41.",
        412 => "See the engine's log; if the engine has another version, install flwr 1.41 everywhere.",
        _ => "See the engine's log.",
    };
    // The sentence goes on after it.
    let detail = crate::error::shown(detail.trim_end_matches('.'));
    Error::Refused { operation, status, detail, remedy }
}

fn decode<A: Message + Default>(operation: &'static str, bytes: Vec<u8>) -> Result<A> {
    A::decode(bytes.as_slice()).map_err(|error| Error::malformed(operation, error.to_string()))
}

/// All certificates of a file.
fn certificates(path: &Path) -> Result<Vec<Certificate<'static>>> {
    let wrong = |problem: &str| Error::file(path, problem);
    let mut found = Vec::new();
    for item in parse_pem(&read("certificate_authority", path)?) {
        match item.map_err(|error| wrong(&format!("it is not in PEM format ({error})")))? {
            PemItem::Certificate(own) if !is_whole(own.der()) => {
                return Err(wrong(
                    "a certificate of it is cut, or is none: ask for the file anew, and copy it as it is",
                ));
            }
            PemItem::Certificate(certificate) => found.push(certificate),
            _ => return Err(wrong("it has something beside certificates, such as a private key")),
        }
    }
    match found.is_empty() {
        true => Err(wrong("it has no certificate in PEM format: name `ca.pem`, which the operator of the engine has")),
        false => Ok(found),
    }
}

/// Whether bytes are one DER sequence that is as long as it says.
fn is_whole(der: &[u8]) -> bool {
    let [0x30, first, rest @ ..] = der else { return false };
    let size = usize::from(first & 0x7f);
    if *first < 0x80 {
        return rest.len() == size;
    }
    let Some((length, content)) = rest.split_at_checked(size).filter(|_| size <= 4) else { return false };
    length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)) == content.len()
}

/// What this party shows an engine that asks for a certificate.
fn client_certificate(engine: &Engine) -> Result<Option<ClientCert>> {
    let (Some(certificate), Some(key)) = (&engine.client_certificate, &engine.client_key) else { return Ok(None) };
    let private = PrivateKey::from_pem(&read("client_key", key)?)
        .map_err(|error| Error::file(key, format!("it is not a private key in PEM format ({error})")))?;
    Ok(Some(ClientCert::new_with_certs(&certificates(certificate)?, private)))
}

/// Reads the file that an entry of `[engine]` names.
fn read(entry: &str, path: &Path) -> Result<Vec<u8>> {
    let remedy = format!("It is `{entry}` of `[engine]`: put the file there, or correct the entry");
    std::fs::read(path).map_err(|error| Error::file(path, format!("{error}. {remedy}")))
}

/// How long a call may take that sends these many bytes: a part of a message goes over a line of 50 kB a second, too.
fn longest(bytes: usize) -> Duration {
    Duration::from_secs(60 + bytes as u64 / 50_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_that_is_cut_is_refused_at_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.pem");
        // Three bytes of a sequence that says it has 256 and more; of a whole one that says it has one.
        for (text, is_taken) in [("MIIB", false), ("MAAA", false), ("MAEA", true)] {
            std::fs::write(&path, format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")).unwrap();
            match certificates(&path) {
                Ok(_) => assert!(is_taken, "{text}"),
                Err(error) => assert!(!is_taken && error.to_string().contains("is cut"), "{text}: {error}"),
            }
        }
    }
}
