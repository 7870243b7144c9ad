//! CURVE: the client's own keys, and those of the clients that it trusts; as values, or as files.

use std::path::{Path, PathBuf};

use pinnace_cert::Certificate;
use pinnace_crypto::{KeyPair, PublicKey};

use super::Builder;
use crate::Error;

/// Certificates to read when the client is started.
#[derive(Clone, Default)]
pub(super) struct CertificateFiles {
    own: Option<PathBuf>,
    trusted: Vec<(String, PathBuf)>,
}

impl Builder {
    /// Encrypts all of this client's traffic with CURVE (RFC 26) and these keys. It communicates only with the clients
    /// that [`trust`](Self::trust) and [`trust_file`](Self::trust_file) name, and no other client can impersonate one
    /// of them.
    pub fn curve(mut self, keys: &KeyPair) -> Builder {
        self.keys = Some(keys.clone());
        self
    }

    /// The same, with the keys of a certificate, as `pinnace keygen` writes it: the path of `NAME` or of `NAME_secret`.
    /// It is read at the start (error: Certificate).
    pub fn cert(mut self, path: impl Into<PathBuf>) -> Builder {
        self.files.own = Some(path.into());
        self
    }

    /// The public key of another client.
    pub fn trust(mut self, name: &str, key: &PublicKey) -> Builder {
        self.trusted.insert(name.to_owned(), *key);
        self
    }

    /// The same, with the public certificate of the other client, as `pinnace keygen` writes it. It is read at the
    /// start (error: Certificate).
    pub fn trust_file(mut self, name: &str, path: impl Into<PathBuf>) -> Builder {
        self.files.trusted.push((name.to_owned(), path.into()));
        self
    }

    /// Reads the certificates.
    pub(super) fn read_files(mut self) -> Result<Builder, Error> {
        let CertificateFiles { own, trusted } = std::mem::take(&mut self.files);
        if let Some(path) = own {
            let keys = read(&path, |path| Certificate::load_own(path))?.keys().cloned();
            self.keys = keys.or(self.keys);
        }
        for (name, path) in trusted {
            let key = *read(&path, |path| Certificate::load_public(path))?.public_key();
            self.trusted.insert(name, key);
        }
        Ok(self)
    }
}

fn read(
    path: &Path,
    load: impl FnOnce(&Path) -> Result<Certificate, pinnace_cert::Error>,
) -> Result<Certificate, Error> {
    load(path).map_err(|error| Error::Certificate { file: path.to_owned(), text: error.to_string() })
}
