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

mod store;
mod zpl;

use std::ffi::OsString;
use std::fmt::{self, Write as _};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

pub use pinnace_crypto::{KeyPair, PublicKey, SecretKey};
use pinnace_zmtp::z85;
pub use store::Store;

/// What the name of a secret certificate ends in.
const SECRET: &str = "_secret";
/// The largest file that is read, in bytes.
const FILE_MAX: u64 = 64 * 1024;

/// Why a certificate was not read or written.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The system's: no such file, no permission, no space.
    Io(io::Error),
    /// The file's: this line is not of the form that certificates have.
    Line(usize),
    /// The file's: it is larger than 64 KiB, or no text.
    NotText,
    /// The file's: it has no public key, or none that is one.
    NoPublicKey,
    /// The file's: it has no secret key, or none that is one, or not the one that belongs to the public key.
    WrongSecretKey,
    /// The caller's: such a name, or such a value, cannot be written.
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
    /// NoSecretKey.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        self.save_secret(secret_path(path.as_ref()))?;
        self.save_public(path)
    }

    /// As `save`, where neither file is there: else nothing is changed, and the error is Io with AlreadyExists. Errors:
    /// NoSecretKey.
    pub fn save_new(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        if self.keys.is_none() {
            return Err(Error::NoSecretKey);
        }
        let secret = secret_path(path.as_ref());
        write_new(&secret, &self.text(true), 0o600)?;
        write_new(path.as_ref(), &self.text(false), 0o644).inspect_err(|_| {
            let _ = fs::remove_file(&secret);
        })
    }

    /// Writes the public certificate to one file.
    pub fn save_public(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        write(path.as_ref(), &self.text(false), 0o644)
    }

    /// Writes the secret certificate to one file, which only its owner can read. Errors: NoSecretKey.
    pub fn save_secret(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        if self.keys.is_none() {
            return Err(Error::NoSecretKey);
        }
        write(path.as_ref(), &self.text(true), 0o600)
    }

    fn read(path: &Path, with_secret: bool) -> Result<Certificate, Error> {
        let mut text = String::new();
        let read = File::open(path)?.take(FILE_MAX + 1).read_to_string(&mut text);
        match read {
            Err(error) if error.kind() != io::ErrorKind::InvalidData => return Err(error.into()),
            Ok(bytes) if bytes as u64 <= FILE_MAX => {}
            _ => return Err(Error::NotText),
        }
        let root = zpl::read(&text).map_err(Error::Line)?;
        let key = |name: &str| {
            let curve = root.child("curve")?;
            z85::decode_key(curve.child(name)?.value.as_bytes())
        };
        let mut certificate = Certificate::public(key("public-key").ok_or(Error::NoPublicKey)?);
        if with_secret {
            let keys = key("secret-key").map(|key| KeyPair::from_secret(SecretKey::copy_of(&key)));
            let keys = keys.filter(|keys| keys.public == certificate.public);
            certificate.keys = Some(keys.ok_or(Error::WrongSecretKey)?);
        }
        for node in root.child("metadata").into_iter().flat_map(|metadata| &metadata.children) {
            certificate.metadata.push((node.name.clone(), node.value.clone()));
        }
        Ok(certificate)
    }

    fn text(&self, with_secret: bool) -> String {
        let mut text = String::from(if with_secret {
            "# CURVE certificate, SECRET: whoever reads this file can be you.\n\n"
        } else {
            "# CURVE certificate, public: give it to those who are to know you, in a way you trust.\n\n"
        });
        // Nothing is refused by a text.
        text.push_str("metadata\n");
        for (name, value) in &self.metadata {
            let _ = writeln!(text, "    {name} = {}", zpl::quoted(value).unwrap_or_default());
        }
        let key = |key: &[u8; 32]| z85::encode_key(key).map(char::from).iter().collect::<String>();
        let _ = writeln!(text, "curve\n    public-key = \"{}\"", key(&self.public));
        if let Some(keys) = self.keys.as_ref().filter(|_| with_secret) {
            let _ = writeln!(text, "    secret-key = \"{}\"", key(&keys.secret));
        }
        text
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

/// Writes a file that is not there; what was begun is taken back where it cannot be written to its end.
fn write_new(path: &Path, text: &str, mode: u32) -> Result<(), Error> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(|error| {
        let _ = fs::remove_file(path);
        error.into()
    })
}

/// Writes a file as a whole: who reads it finds what was there or all of what is to be.
fn write(path: &Path, text: &str, mode: u32) -> Result<(), Error> {
    let mut beside = OsString::from(path);
    beside.push(format!(".{}.new", std::process::id()));
    let beside = PathBuf::from(beside);
    let written =
        OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&beside, path)
        });
    written.map_err(|error| {
        let _ = fs::remove_file(&beside);
        error.into()
    })
}
