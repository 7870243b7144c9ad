//! CURVE certificates as files, in the format of CZMQ's `zcert`: a public certificate, `NAME`, to be given to
//! others, and a secret one, `NAME_secret`, that only its owner can read. And directories of certificates, as in
//! CZMQ's `zcertstore`.
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

/// The suffix of a secret certificate's name.
const SECRET: &str = "_secret";

/// Why a certificate could not be read or written.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A system error: no such file, no permission, no space.
    Io(io::Error),
    /// The file is invalid: this line, counted from 1, is not ZPL (RFC 4).
    Line(usize),
    /// The file is invalid: it is larger than 64 KiB, or not text.
    NotText,
    /// The file is invalid: it has no public key, or an invalid one.
    NoPublicKey,
    /// The file is invalid: it has no secret key, an invalid one, or one that does not match the public key.
    WrongSecretKey,
    /// The caller's error: this name or value cannot be written. This can also happen with a value that was read from a
    /// file: an unquoted one that contains both kinds of quotes.
    Metadata,
    /// The caller's error: the certificate has no secret key to save.
    NoSecretKey,
    /// The system has no random bytes.
    NoRandomness,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io(error) => write!(f, "{error}"),
            Error::Line(number) => write!(f, "line {number} is not a valid line of a certificate"),
            Error::NotText => f.write_str("not a certificate: too large, or not text"),
            Error::NoPublicKey => f.write_str("the certificate has no valid public key"),
            Error::WrongSecretKey => {
                f.write_str("the certificate has no secret key that matches its public key")
            }
            Error::Metadata => f.write_str("this metadata name or value cannot be written to a certificate"),
            Error::NoSecretKey => f.write_str("the certificate has no secret key"),
            Error::NoRandomness => f.write_str("the system provides no random bytes"),
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

/// A public key, optionally the secret key, and metadata about their owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    public: PublicKey,
    keys: Option<KeyPair>,
    metadata: Vec<(String, String)>,
}

impl Certificate {
    /// A new certificate with new keys.
    pub fn generate() -> Result<Certificate, Error> {
        KeyPair::generate().map(Certificate::from).map_err(|_| Error::NoRandomness)
    }

    /// A certificate of another party.
    pub fn public(key: PublicKey) -> Certificate {
        Certificate { public: key, keys: None, metadata: Vec::new() }
    }

    /// The public key.
    pub fn public_key(&self) -> &PublicKey {
        &self.public
    }

    /// Both keys; `None` if the certificate has no secret key.
    pub fn keys(&self) -> Option<&KeyPair> {
        self.keys.as_ref()
    }

    /// The metadata value of this name.
    pub fn metadata(&self, name: &str) -> Option<&str> {
        self.metadata.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// All metadata, in order.
    pub fn all_metadata(&self) -> impl Iterator<Item = (&str, &str)> {
        self.metadata.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Sets a metadata value. Errors: Metadata for a name with characters other than letters, digits and
    /// `$-_@.&+/`, or for a value with line ends or with both kinds of quotes.
    pub fn set_metadata(&mut self, name: &str, value: &str) -> Result<(), Error> {
        if !zpl::is_name(name) || zpl::quoted(value).is_none() {
            return Err(Error::Metadata);
        }
        self.metadata.retain(|(other, _)| other != name);
        self.metadata.push((name.to_owned(), value.to_owned()));
        Ok(())
    }

    /// Reads `PATH_secret` if it exists, else `PATH`.
    pub fn load(path: impl AsRef<Path>) -> Result<Certificate, Error> {
        let secret = secret_path(path.as_ref());
        match Certificate::read(&secret, true) {
            Err(Error::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                Certificate::load_public(path)
            }
            outcome => outcome,
        }
    }

    /// Reads the public key from one file.
    pub fn load_public(path: impl AsRef<Path>) -> Result<Certificate, Error> {
        Certificate::read(path.as_ref(), false)
    }

    /// Reads both keys from one file. Errors: WrongSecretKey if it has no secret key.
    pub fn load_secret(path: impl AsRef<Path>) -> Result<Certificate, Error> {
        Certificate::read(path.as_ref(), true)
    }

    /// Reads both keys, from `PATH_secret` if it exists, else from `PATH`: either of the files that
    /// [`save`](Certificate::save) writes may be named. Errors: WrongSecretKey if there is no secret key.
    pub fn load_own(path: impl AsRef<Path>) -> Result<Certificate, Error> {
        match Certificate::read(&secret_path(path.as_ref()), true) {
            Err(Error::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                Certificate::load_secret(path)
            }
            outcome => outcome,
        }
    }

    /// Writes `PATH` and `PATH_secret`, which only its owner can read. Existing files are replaced atomically.
    /// Errors: NoSecretKey, Metadata.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        self.save_secret(secret_path(path.as_ref()))?;
        self.save_public(path)
    }

    /// As `save`, but neither file may exist: otherwise nothing is changed and the error is Io with AlreadyExists.
    /// Errors: NoSecretKey, Metadata.
    pub fn save_new(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let secret = secret_path(path.as_ref());
        files::write_new(&secret, &self.secret_text()?, 0o600)?;
        let written = self.public_text().and_then(|text| files::write_new(path.as_ref(), &text, 0o644));
        written.inspect_err(|_| {
            let _ = fs::remove_file(&secret);
        })
    }

    /// Writes the public certificate to a file. Errors: Metadata.
    pub fn save_public(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        files::replace(path.as_ref(), &self.public_text()?, 0o644)
    }

    /// Writes the secret certificate to a file that only its owner can read. Errors: NoSecretKey, Metadata.
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
        self.text("public: give it to your peers over a channel that you trust.")
    }

    fn secret_text(&self) -> Result<SecretBytes, Error> {
        let keys = self.keys.as_ref().ok_or(Error::NoSecretKey)?;
        let mut text = self.text("SECRET: anyone who can read this file can impersonate you.")?;
        add_key(&mut text, "secret-key", &keys.secret);
        Ok(text)
    }

    /// The common content of both files: a comment, the metadata, and the public key.
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

/// Appends a line with a key, which may be secret.
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

/// The path of the secret certificate for a public one.
pub fn secret_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(SECRET);
    name.into()
}

/// Whether the name is that of a secret certificate.
pub fn is_secret_file(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().ends_with(SECRET.as_bytes()))
}
