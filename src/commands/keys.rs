//! Makes the keys and certificates of a deployment, each where it is used, so that no key has to travel.

use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::flower::{NodeKey, PartyKey};
use clap::{Args, Subcommand};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair, KeyUsagePurpose,
};

use super::say::say;

/// Whose keys.
#[derive(Args, Debug)]
pub(super) struct Options {
    #[command(subcommand)]
    party: Party,
}

#[derive(Subcommand, Debug)]
enum Party {
    /// Of a silo: NAME.key and NAME-signs.key stay with it, NAME.pub goes to the operator of the SuperLink and to the coordinator,
    /// NAME-signs.pub to the coordinator and to the other silos.
    Silo {
        /// The silo's name.
        name: String,
        /// The folder of the files.
        #[arg(long, default_value = ".")]
        output: PathBuf,
    },
    /// Of the coordinator: coordinator.key signs its requests and stays with it, coordinator.pub goes to every silo.
    Coordinator {
        /// The folder of the files.
        #[arg(long, default_value = ".")]
        output: PathBuf,
    },
    /// Of the SuperLink: an authority of this deployment, whose ca.pem goes to every party, and a certificate by it.
    Link {
        /// A name or address by which parties reach the SuperLink; any number of them.
        #[arg(long = "host", default_values = ["localhost", "127.0.0.1"])]
        hosts: Vec<String>,
        /// The folder of the files.
        #[arg(long, default_value = ".")]
        output: PathBuf,
    },
}

pub(super) fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    match &options.party {
        Party::Silo { name, output } => silo(name, output),
        Party::Coordinator { output } => coordinator(output),
        Party::Link { hosts, output } => link(hosts, output),
    }
}

/// Refuses a name that would not do as that of files and of a silo of the engine.
pub(super) fn is_plain(name: &str) -> Result<(), String> {
    let plain = |own: char| own.is_alphanumeric() || "-_.".contains(own);
    match !name.is_empty() && !name.starts_with(['.', '-']) && name.chars().all(plain) {
        true => Ok(()),
        false => Err(format!(
            "`{name}` as the name of a silo: expected letters, digits, `-`, `_` and `.` alone: it names files too"
        )),
    }
}

pub(super) fn silo(name: &str, folder: &Path) -> Result<(), Box<dyn Error>> {
    is_plain(name)?;
    let pair = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
    let (private, public) = (folder.join(format!("{name}.key")), folder.join(format!("{name}.pub")));
    secret(&private, &pair.serialize_pem())?;
    new(&public, &format!("{}\n", NodeKey::of_point(pair.public_key_raw()).openssh(name)))?;
    say(format_args!("{} stays here; send {} to the operator of the SuperLink", private.display(), public.display()))?;
    say(format_args!("who registers it: flwr supernode register {name}.pub"))?;
    let key = PartyKey::generate()?;
    let [private, public] = ["key", "pub"].map(|kind| folder.join(format!("{name}-signs.{kind}")));
    secret(&private, &key.pem())?;
    new(&public, &key.public().pem())?;
    say(format_args!(
        "{} signs the answers and stays here; send {} to the coordinator",
        private.display(),
        public.display()
    ))?;
    Ok(())
}

pub(super) fn coordinator(folder: &Path) -> Result<(), Box<dyn Error>> {
    let key = PartyKey::generate()?;
    let (private, public) = (folder.join("coordinator.key"), folder.join("coordinator.pub"));
    secret(&private, &key.pem())?;
    new(&public, &key.public().pem())?;
    say(format_args!("{} stays here; send {} to every silo", private.display(), public.display()))?;
    Ok(())
}

fn link(hosts: &[String], folder: &Path) -> Result<(), Box<dyn Error>> {
    let named = |words: &str| {
        let mut name = DistinguishedName::new();
        name.push(DnType::CommonName, words);
        name
    };
    let generate = || KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384);
    let mut authority = CertificateParams::default();
    authority.distinguished_name = named("authority of a Partita deployment");
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let authority = CertifiedIssuer::self_signed(authority, generate()?)?;
    let mut server = CertificateParams::new(hosts.to_vec())?;
    server.distinguished_name = named(hosts.first().map_or("SuperLink", String::as_str));
    let pair = generate()?;
    let certificate = server.signed_by(&pair, &authority)?;
    new(&folder.join("ca.pem"), &authority.pem())?;
    secret(&folder.join("ca.key"), &authority.key().serialize_pem())?;
    new(&folder.join("link.pem"), &certificate.pem())?;
    secret(&folder.join("link.key"), &pair.serialize_pem())?;
    say(format_args!("send {} to every party; the other files stay here", folder.join("ca.pem").display()))?;
    say(format_args!("the SuperLink is {}", hosts.join(", ")))?;
    Ok(())
}

/// Writes a file that only its owner may read.
fn secret(path: &Path, text: &str) -> Result<(), Box<dyn Error>> {
    let mut options = std::fs::File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    write(path, text, &options)
}

/// Writes a file that is not there yet.
fn new(path: &Path, text: &str) -> Result<(), Box<dyn Error>> {
    write(path, text, std::fs::File::options().write(true).create_new(true))
}

fn write(path: &Path, text: &str, options: &std::fs::OpenOptions) -> Result<(), Box<dyn Error>> {
    let wrong = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            format!(
                "{} is there already and stays as it is: move it away for a new one, or write into another folder \
                 (`--output` of `partita keys`)",
                path.display()
            )
        }
        _ => format!("{}: {error}", path.display()),
    };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(wrong)?;
    }
    Ok(options.open(path).and_then(|mut file| file.write_all(text.as_bytes())).map_err(wrong)?)
}
