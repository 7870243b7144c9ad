//! TLS with the server.

use std::fs;
use std::io::{self, Error, ErrorKind, Read, Write};
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::address::Files;
use crate::registry::RegistryError;

pub type Secured<S> = StreamOwned<ClientConnection, S>;

/// How connections to a server are encrypted.
pub struct TlsClient {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl TlsClient {
    /// Errors: Url, of the host; Io, of a file.
    pub fn new(host: &str, files: &Files) -> Result<TlsClient, RegistryError> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| RegistryError::Url("rediss:// without a host's name".to_owned()))?;
        Ok(TlsClient { config: Arc::new(files.config()?), name })
    }

    /// Puts TLS over a connection.
    pub fn secure<S: Read + Write>(&self, stream: S) -> io::Result<Secured<S>> {
        let session =
            ClientConnection::new(self.config.clone(), self.name.clone()).map_err(io::Error::other)?;
        Ok(StreamOwned::new(session, stream))
    }
}

impl Files {
    fn config(&self) -> Result<ClientConfig, RegistryError> {
        let roots = match &self.ca {
            Some(path) => roots_of(path)?,
            None => {
                let mut roots = RootCertStore::empty();
                // A certificate that cannot be parsed is not trusted.
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
                roots
            }
        };
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| RegistryError::io(&Error::other(error), "TLS"))?
            .with_root_certificates(roots);
        let (Some(cert), Some(key)) = (&self.cert, &self.key) else {
            return Ok(config.with_no_client_auth());
        };
        let spoiled = |path: &str| RegistryError::io(&ErrorKind::InvalidData.into(), path);
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(cert)?).collect();
        let private = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|_| spoiled(key))?;
        config.with_client_auth_cert(chain.map_err(|_| spoiled(cert))?, private).map_err(|_| spoiled(cert))
    }
}

fn roots_of(path: &str) -> Result<RootCertStore, RegistryError> {
    let spoiled = || RegistryError::io(&ErrorKind::InvalidData.into(), path);
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&read(path)?) {
        roots.add(certificate.map_err(|_| spoiled())?).map_err(|_| spoiled())?;
    }
    if roots.is_empty() { Err(spoiled()) } else { Ok(roots) }
}

fn read(path: &str) -> Result<Vec<u8>, RegistryError> {
    fs::read(Path::new(path)).map_err(|error| RegistryError::io(&error, path))
}
