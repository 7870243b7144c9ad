//! CURVE certificates as files, in the form that CZMQ's `zcert` writes and reads: a public one, `NAME`, to be given
//! to others, and a secret one, `NAME_secret`, that its owner alone can read. And a directory of them, as its
//! `zcertstore`.
//!
//! ```
//! use pinnace_cert::Certificate;
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("server");
//! let mut certificate = Certificate::generate()?;
//! certificate.set_metadata("name", "our server")?;
//! certificate.save(&path)?; // PATH and PATH_secret
//! let loaded = Certificate::load(&path)?;
//! assert_eq!(loaded.keys().unwrap(), certificate.keys().unwrap());
//! assert_eq!(loaded.metadata("name"), Some("our server"));
//! assert!(Certificate::load_public(&path)?.keys().is_none());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod files;
mod store;
mod zpl;

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub use pinnace_crypto::{KeyPair, PublicKey, SecretKey};
use pinnace_crypto::{Secret, SecretBytes};
use pinnace_zmtp::z85;
pub use store::Store;

/// What the name of a secret certificate ends in.
const SECRET: &str = "_secret";

/// Why a certificate was not read or written.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The system's: no such file, no permission, no space.
    Io(io::Error),
    /// The file's: this line is not of the form that certificates have.
    Line(usize),
    /// The file's: it is larger than 64 KiB, or no file of text.
    NotText,
    /// The file's: it has no public key, or none that is one.
    NoPublicKey,
    /// The file's: it has no secret key, or none that is one, or not the one that belongs to the public key.
    WrongSecretKey,
    /// The caller's: such a name, or such a value, cannot be written. A value that was read from a file may be one: a
    /// bare one that holds both kinds of quotes.
    Metadata,
    /// The caller's: the certificate has no secret key that could be saved.
    NoSecretKey,
    /// The system's: it has no random bytes.
    NoRandomness,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io(error) => write!(f, "{error}"),
            Error::Line(number) => write!(f, "line {number} is not one of a certificate"),
            Error::NotText => f.write_str("not a certificate: too large, or no text"),
            Error::NoPublicKey => f.write_str("there is no public key in it"),
            Error::WrongSecretKey => {
                f.write_str("there is no secret key in it that belongs to the public key")
            }
            Error::Metadata => f.write_str("such a name or value cannot be written to a certificate"),
            Error::NoSecretKey => f.write_str("the certificate has no secret key"),
            Error::NoRandomness => f.write_str("the system has no random bytes"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        Error::Io(error)
    }
}

/// A public key, perhaps the secret one, and what is said of their owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    public: PublicKey,
    keys: Option<KeyPair>,
    metadata: Vec<(String, String)>,
}

impl Certificate {
    /// A new one, with new keys.
    pub fn generate() -> Result<Certificate, Error> {
        KeyPair::generate().map(Certificate::from).map_err(|_| Error::NoRandomness)
    }

    /// One of somebody else.
    pub fn public(key: PublicKey) -> Certificate {
        Certificate { public: key, keys: None, metadata: Vec::new() }
    }

    /// The key that everybody may know.
    pub fn public_key(&self) -> &PublicKey {
        &self.public
    }

    /// Both keys; None where it is somebody else's.
    pub fn keys(&self) -> Option<&KeyPair> {
        self.keys.as_ref()
    }

    /// What is said of the owner under this name.
    pub fn metadata(&self, name: &str) -> Option<&str> {
        self.metadata.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// All of it, in its order.
    pub fn all_metadata(&self) -> impl Iterator<Item = (&str, &str)> {
        self.metadata.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Says something of the owner. Errors: Metadata for a name of other than letters, digits and `$-_@.&+/`, or a
    /// value with line ends or with both kinds of quotes.
    pub fn set_metadata(&mut self, name: &str, value: &str) -> Result<(), Error> {
        if !zpl::is_name(name) || zpl::quoted(value).is_none() {
            return Err(Error::Metadata);
        }
        self.metadata.retain(|(other, _)| other != name);
        self.metadata.push((name.to_owned(), value.to_owned()));
        Ok(())
    }

    /// Reads `PATH_secret` where it is there, else `PATH`.
    pub fn load(path: impl AsRef<Path>) -> Result<Certificate, Error> {
        let secret = secret_path(path.as_ref());
        match Certificate::read(&secret, true) {
            Err(Error::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                Certificate::load_public(path)
            }
            outcome => outcome,
        }
    }

    /// Reads one file for its public key.
    pub fn load_public(path: impl AsRef<Path>) -> Result<Certificate, Error> {
        Certificate::read(path.as_ref(), false)
    }

    /// Reads one file for both keys. Errors: WrongSecretKey where it has no secret one.
    pub fn load_secret(path: impl AsRef<Path>) -> Result<Certificate, Error> {
        Certificate::read(path.as_ref(), true)
    }

    /// Writes `PATH` and `PATH_secret`, which only its owner can read. What was there is replaced as a whole. Errors:
    /// NoSecretKey, Metadata.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        self.save_secret(secret_path(path.as_ref()))?;
        self.save_public(path)
    }

    /// As `save`, where neither file is there: else nothing is changed, and the error is Io with AlreadyExists. Errors:
    /// NoSecretKey, Metadata.
    pub fn save_new(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let secret = secret_path(path.as_ref());
        files::write_new(&secret, &self.secret_text()?, 0o600)?;
        let written = self.public_text().and_then(|text| files::write_new(path.as_ref(), &text, 0o644));
        written.inspect_err(|_| {
            let _ = fs::remove_file(&secret);
        })
    }

    /// Writes the public certificate to one file. Errors: Metadata.
    pub fn save_public(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        files::replace(path.as_ref(), &self.public_text()?, 0o644)
    }

    /// Writes the secret certificate to one file, which only its owner can read. Errors: NoSecretKey, Metadata.
    pub fn save_secret(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        files::replace(path.as_ref(), &self.secret_text()?, 0o600)
    }

    fn read(path: &Path, with_secret: bool) -> Result<Certificate, Error> {
        let bytes = files::read(path)?;
        let text = std::str::from_utf8(&bytes).map_err(|_| Error::NotText)?;
        let root = zpl::read(text).map_err(Error::Line)?;
        let key_text = |name: &str| Some(root.child("curve")?.child(name)?.value.as_bytes());
        let public = key_text("public-key").and_then(z85::decode_key).ok_or(Error::NoPublicKey)?;
        let mut certificate = Certificate::public(public);
        if with_secret {
            let mut secret = SecretKey::zeroed();
            let keys = key_text("secret-key").and_then(|text| z85::decode_key_into(text, &mut secret));
            let keys = keys.map(|()| KeyPair::from_secret(secret)).filter(|keys| keys.public == public);
            certificate.keys = Some(keys.ok_or(Error::WrongSecretKey)?);
        }
        for node in root.child("metadata").into_iter().flat_map(|metadata| &metadata.children) {
            certificate.metadata.push((node.name.to_owned(), node.value.to_owned()));
        }
        Ok(certificate)
    }

    fn public_text(&self) -> Result<SecretBytes, Error> {
        self.text("public: give it to those who are to know you, in a way you trust.")
    }

    fn secret_text(&self) -> Result<SecretBytes, Error> {
        let keys = self.keys.as_ref().ok_or(Error::NoSecretKey)?;
        let mut text = self.text("SECRET: whoever reads this file can be you.")?;
        add_key(&mut text, "secret-key", &keys.secret);
        Ok(text)
    }

    /// What both files hold: a comment, what is said of the owner, and the public key.
    fn text(&self, comment: &str) -> Result<SecretBytes, Error> {
        let mut text = SecretBytes::from(format!("# CURVE certificate, {comment}\n\nmetadata\n").as_bytes());
        for (name, value) in &self.metadata {
            let value = zpl::quoted(value).ok_or(Error::Metadata)?;
            text.extend_from_slice(format!("    {name} = {value}\n").as_bytes());
        }
        text.extend_from_slice(b"curve\n");
        add_key(&mut text, "public-key", &self.public);
        Ok(text)
    }
}

/// Adds a line with a key, which may be a secret one.
fn add_key(text: &mut SecretBytes, name: &str, key: &[u8; 32]) {
    let mut value = Secret::zeroed();
    z85::encode_key_into(key, &mut value);
    for part in [b"    ", name.as_bytes(), b" = \"", &*value, b"\"\n"] {
        text.extend_from_slice(part);
    }
}

impl From<KeyPair> for Certificate {
    fn from(keys: KeyPair) -> Certificate {
        Certificate { public: keys.public, keys: Some(keys), metadata: Vec::new() }
    }
}

/// Where the secret certificate is that belongs to a public one.
pub fn secret_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(SECRET);
    name.into()
}

/// Whether the name is that of a secret certificate.
pub fn is_secret_file(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().ends_with(SECRET.as_bytes()))
}
