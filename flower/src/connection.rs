//! Calls the engine: protobuf over HTTP, with TLS, size limits and retries.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hmac::{Hmac, KeyInit, Mac};
use prost::Message;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use crate::error::{Error, Result};
use crate::node_signer::NodeSigner;
use crate::object::hexadecimal;

/// The address of the engine and the credentials for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Engine {
    /// `host:port` of the SuperLink, or of the silo's own SuperNode.
    pub address: String,
    /// A file with the certificate of the authority that signed the engine's; without it, the connection is not
    /// encrypted.
    #[serde(default)]
    pub certificate_authority: Option<PathBuf>,
    /// A file with the secret that the engine requires of programs that take tasks (`--superexec-auth-secret-file`).
    #[serde(default)]
    pub secret: Option<PathBuf>,
    /// In a silo's file, the private key with which the silo is a node of the SuperLink itself, without a SuperNode:
    /// then `address` is that of the SuperLink.
    #[serde(default)]
    pub key: Option<PathBuf>,
    /// How long a call is retried without an answer, in seconds; an engine restarts within a minute.
    #[serde(default = "patience")]
    pub patience_seconds: u64,
}

fn patience() -> u64 {
    90
}

impl Engine {
    /// An engine at this address, without encryption: for one machine.
    #[must_use]
    pub fn insecure(address: &str) -> Self {
        Self {
            address: address.to_owned(),
            certificate_authority: None,
            secret: None,
            key: None,
            patience_seconds: patience(),
        }
    }
}

/// The largest answer in bytes: a chunk of five megabytes, with room.
const LARGEST_ANSWER: u64 = 64 * 1024 * 1024;

/// How long a call that fails inside the engine is retried: a locked database is soon free, other failures repeat.
const BROKEN: Duration = Duration::from_secs(15);

/// A connection to the engine, with the token of a task once there is one.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    agent: Agent,
    base: String,
    address: String,
    patience: Duration,
    secret: Option<Vec<u8>>,
    pub(crate) token: Option<String>,
    signer: Option<Arc<NodeSigner>>,
}

impl Connection {
    pub(crate) fn new(engine: &Engine) -> Result<Self> {
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(Duration::from_secs(10)))
            .timeout_global(Some(Duration::from_secs(60)));
        let scheme = match &engine.certificate_authority {
            None => "http",
            Some(path) => {
                let certificate = Certificate::from_pem(&read(path)?).map_err(|error| Error::File {
                    path: path.clone(),
                    problem: format!("it is not a certificate in PEM format ({error})"),
                })?;
                let roots = RootCerts::Specific(Arc::new(vec![certificate]));
                config = config.tls_config(TlsConfig::builder().root_certs(roots).build());
                "https"
            }
        };
        // The engine reads the file byte by byte, including the line break at its end.
        let secret = engine.secret.as_ref().map(read).transpose()?;
        Ok(Self {
            agent: config.build().into(),
            base: format!("{scheme}://{}/v1", engine.address),
            address: engine.address.clone(),
            patience: Duration::from_secs(engine.patience_seconds),
            secret,
            token: None,
            signer: engine.key.as_deref().map(NodeSigner::read).transpose()?.map(Arc::new),
        })
    }

    /// The same connection for the task of this token.
    pub(crate) fn with_token(&self, token: String) -> Self {
        Self { token: Some(token), ..self.clone() }
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
        let started = Instant::now();
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
            std::thread::sleep(pause);
            pause = (2 * pause).min(Duration::from_secs(2));
        }
    }

    fn once(&self, operation: &'static str, path: &str, body: &[u8]) -> std::result::Result<Vec<u8>, Failed> {
        let mut request = self.agent.post(format!("{}/{path}", self.base));
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
        .map_or_else(|_| String::from_utf8_lossy(&answer[..answer.len().min(200)]).into_owned(), |found| found.detail);
    let remedy = match status {
        401 | 403 => "Check the secret, the keys that are registered, and that no other program took this task.",
        404 => "This is not an engine of the version that Partita speaks: install flwr 1.41.",
        412 => "The engine has another version: install flwr 1.41 everywhere.",
        _ => "See the engine's log.",
    };
    Error::Refused { operation, status, detail: crate::npy::shown(&detail), remedy }
}

fn decode<A: Message + Default>(operation: &'static str, bytes: Vec<u8>) -> Result<A> {
    A::decode(bytes.as_slice()).map_err(|error| Error::malformed(operation, error.to_string()))
}

fn read(path: &PathBuf) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| Error::File { path: path.clone(), problem: error.to_string() })
}

type HmacSha256 = Hmac<Sha256>;

fn keyed(key: &[u8], text: &[u8]) -> Result<Vec<u8>> {
    let mac = HmacSha256::new_from_slice(key).map_err(|error| Error::malformed("the secret", error.to_string()))?;
    Ok(mac.chain_update(text).finalize().into_bytes().to_vec())
}

/// The proof that a caller who takes a task knows the secret.
fn signature(secret: &[u8], body: &[u8]) -> Result<[(&'static str, String); 4]> {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // A number used once: the clock in nanoseconds and the process, hashed.
    let nonce = hexadecimal(&Sha256::digest(format!("{} {}", time.as_nanos(), std::process::id())))[..32].to_owned();
    let body = hexadecimal(&Sha256::digest(body));
    let seconds = time.as_secs();
    let text = format!("method=/flwr.proto.Runtime/AcquireTask\nts={seconds}\nnonce={nonce}\nbody_sha256={body}");
    let key = keyed(secret, b"superexec-auth-v1")?;
    Ok([
        ("flwr-superexec-ts", seconds.to_string()),
        ("flwr-superexec-nonce", nonce),
        ("flwr-superexec-body-sha256", body),
        ("flwr-superexec-signature", hexadecimal(&keyed(&key, text.as_bytes())?)),
    ])
}
