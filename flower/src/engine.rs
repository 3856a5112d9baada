//! Says where an engine is and how it is reached: encrypted, unless it is on this machine or the file says otherwise.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The address of the engine and the credentials for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Engine {
    /// `host:port` of the SuperLink, or of the silo's own SuperNode.
    pub address: String,
    /// A file with the certificates of the authorities, one of which signed the engine's; without it, the connection is
    /// not encrypted.
    #[serde(default)]
    pub certificate_authority: Option<PathBuf>,
    /// Whether a connection to another machine may be without encryption.
    #[serde(default)]
    pub insecure: bool,
    /// A file with the certificate of this party, for an engine that asks for one, and those that signed it.
    #[serde(default)]
    pub client_certificate: Option<PathBuf>,
    /// A file with the private key of that certificate.
    #[serde(default)]
    pub client_key: Option<PathBuf>,
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
    ///
    /// # Example
    /// ```
    /// use partita_flower::Engine;
    /// assert!(Engine::insecure("127.0.0.1:8000").check().is_ok());
    /// let elsewhere = Engine::insecure("link.example.org:8000");
    /// assert!(elsewhere.check().unwrap_err().to_string().contains("insecure = true"));
    /// assert!(Engine { insecure: true, ..elsewhere }.check().is_ok());
    /// for wrong in ["https://link.example.org:8000", "link.example.org", "127.0.0.1:0", "::1:8000"] {
    ///     assert!(Engine::insecure(wrong).check().unwrap_err().to_string().contains("expected `host:port`"));
    /// }
    /// ```
    #[must_use]
    pub fn insecure(address: &str) -> Self {
        Self {
            address: address.to_owned(),
            certificate_authority: None,
            insecure: false,
            client_certificate: None,
            client_key: None,
            secret: None,
            key: None,
            patience_seconds: patience(),
        }
    }

    /// Refuses an address that is no `host:port`, a connection without encryption to another machine that the file does not
    /// ask for, and half of a client's certificate.
    ///
    /// # Errors
    /// [`Error::Unwelcome`].
    pub fn check(&self) -> Result<()> {
        let (what, address) = ("the address of the engine", &self.address);
        let remedy = "Write the name or number of the machine and the port, as in `link.example.org:8000` or `[::1]:8000`, without `https://`: `certificate_authority` makes the connection encrypted.";
        Error::unless(self.host().is_some(), what, format_args!("`{address}`"), "`host:port`", remedy)?;
        let is_encrypted = self.certificate_authority.is_some();
        let is_protected = is_encrypted || self.insecure || self.is_on_this_machine();
        let (what, found) = ("the encryption of the connection", format_args!("none to {address}"));
        let remedy = "Give `certificate_authority` under `[engine]`, or write `insecure = true` there if the network protects the connection.";
        Error::unless(is_protected, what, found, "a certificate authority", remedy)?;
        let is_said_twice = is_encrypted && self.insecure;
        let found = "`insecure = true` with `certificate_authority`";
        Error::unless(!is_said_twice, what, found, "one of them", "Take one of them out.")?;
        let has_key = self.client_key.is_some();
        let is_whole = self.client_certificate.is_some() == has_key && (!has_key || is_encrypted);
        let (what, remedy) = ("the files of a client's certificate", "Give all three, or the last alone.");
        let expected = "`client_certificate`, `client_key` and `certificate_authority` together";
        Error::unless(is_whole, what, "a part of them", expected, remedy)
    }

    /// The host of the address, without the brackets of a number of IPv6; none where it is no `host:port`.
    fn host(&self) -> Option<&str> {
        let (host, port) = self.address.rsplit_once(':')?;
        port.parse::<core::num::NonZeroU16>().ok()?;
        match host.strip_prefix('[') {
            Some(numbers) => numbers.strip_suffix(']').filter(|own| own.parse::<core::net::Ipv6Addr>().is_ok()),
            None => {
                let is_plain = |letter: char| letter.is_alphanumeric() || matches!(letter, '.' | '-' | '_');
                Some(host).filter(|host| !host.is_empty() && host.chars().all(is_plain))
            }
        }
    }

    /// Whether the host is a name or address of this machine alone.
    fn is_on_this_machine(&self) -> bool {
        self.host().is_some_and(|host| {
            host == "localhost" || host.parse::<core::net::IpAddr>().is_ok_and(|address| address.is_loopback())
        })
    }
}
