//! The server's address and credentials.

use std::fs;
use std::io::{Error, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use redis::{ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo, parse_redis_url};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

use crate::registry::RegistryError;

/// A parsed address. It holds secrets, so it is never printed as a whole.
pub struct Address {
    pub host: String,
    pub port: u16,
    /// User, password and database.
    pub login: RedisConnectionInfo,
    /// None: unencrypted.
    pub tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

/// The TLS parameters: paths of PEM files.
#[derive(Default)]
struct Files {
    ca: Option<String>,
    cert: Option<String>,
    key: Option<String>,
}

impl Address {
    /// Parses `redis://` and `rediss://` addresses, and reads the files that they name. Errors: Url; Io, of a file.
    pub fn read(text: &str) -> Result<Address, RegistryError> {
        let secure = text.starts_with("rediss://");
        let scheme = if secure { "rediss" } else { "redis" };
        let refused = |what: &str| RegistryError::Url(format!("{scheme}://{what}"));
        let mut url = parse_redis_url(text).ok_or_else(|| refused(" without an address"))?;
        let mut files = Files::default();
        for (name, value) in url.query_pairs() {
            match &*name {
                "ca" if secure => files.ca = Some(value.into_owned()),
                "cert" if secure => files.cert = Some(value.into_owned()),
                "key" if secure => files.key = Some(value.into_owned()),
                _ => return Err(refused(" with a parameter that is not known")),
            }
        }
        if url.fragment().is_some() {
            return Err(refused(" with a fragment"));
        }
        url.set_query(None);
        // Hide TLS from the library: it is done here.
        let info = url.set_scheme("redis").ok().and_then(|()| url.into_connection_info().ok());
        let info = info.ok_or_else(|| refused(" without a host, or with a database that is no number"))?;
        let ConnectionAddr::Tcp(host, port) = info.addr().clone() else {
            return Err(refused(" without a host"));
        };
        let login = info.redis_settings().clone();
        if login.username().is_some() && login.password().is_none() {
            return Err(refused(" with a user and without a password"));
        }
        if files.cert.is_some() != files.key.is_some() {
            return Err(refused(" with one of cert and key"));
        }
        let tls = match secure {
            true => {
                let name =
                    ServerName::try_from(host.clone()).map_err(|_| refused(" without a host's name"))?;
                Some((Arc::new(files.config()?), name))
            }
            false => None,
        };
        Ok(Address { host, port, login, tls })
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
