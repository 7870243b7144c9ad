//! TLS for wss:// and tls+tcp://: certificates and keys from the options (ZMQ_WSS_*).

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
pub(crate) use rustls::{Connection, Error as TlsError};

use crate::endpoint::Host;
use crate::error::{Error, Invalid};
use crate::options::Options;

/// One end of a TLS connection.
#[derive(Clone)]
pub(crate) enum TlsSide {
    /// The client. The server's certificate must be valid for this name.
    Client(Arc<ClientConfig>, ServerName<'static>),
    Server(Arc<ServerConfig>),
}

impl TlsSide {
    /// The server: presents WSS_CERT_PEM, with the key in WSS_KEY_PEM. Errors: Invalid if one is missing, is not
    /// PEM, or does not match the other.
    pub(super) fn server(options: &Options) -> Result<TlsSide, Error> {
        let chain = certificates(&options.wss.cert_pem)?;
        if chain.is_empty() {
            return Err(Error::Invalid(Invalid::Certificate));
        }
        let key = PrivateKeyDer::from_pem_slice(options.wss.key_pem.bytes())
            .map_err(|_| Error::Invalid(Invalid::PrivateKey))?;
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|_| Error::NotSupported)?;
        let config = config.with_no_client_auth().with_single_cert(chain, key);
        let mut config = config.map_err(|_| Error::Invalid(Invalid::PrivateKey))?;
        config.send_tls13_tickets = 0; // Our connections last; no session is resumed.
        Ok(TlsSide::Server(Arc::new(config)))
    }

    /// The client: trusts WSS_TRUST_PEM, and the system's authorities if WSS_TRUST_SYSTEM is set. The server's name
    /// is WSS_HOSTNAME, or else the endpoint's host. Errors: Invalid.
    pub(super) fn client(host: &Host, options: &Options) -> Result<TlsSide, Error> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&options.wss.trust_pem)? {
            roots.add(certificate).map_err(|_| Error::Invalid(Invalid::Certificate))?;
        }
        if options.wss.trust_system {
            // A certificate that cannot be parsed is not trusted.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        let name = match (options.wss.hostname.as_str(), host) {
            ("", Host::Any) => return Err(Error::Invalid(Invalid::ServerName)),
            ("", Host::Ip(ip, _)) => ServerName::IpAddress((*ip).into()),
            ("", Host::Name(name)) => {
                ServerName::try_from(name.clone()).map_err(|_| Error::Invalid(Invalid::ServerName))?
            }
            (name, _) => {
                ServerName::try_from(name.to_owned()).map_err(|_| Error::Invalid(Invalid::ServerName))?
            }
        };
        let config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|_| Error::NotSupported)?;
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.resumption = rustls::client::Resumption::disabled();
        Ok(TlsSide::Client(Arc::new(config), name))
    }

    /// The TLS state of a new connection.
    pub(crate) fn begin(&self) -> Result<Connection, TlsError> {
        Ok(match self {
            TlsSide::Client(config, name) => ClientConnection::new(config.clone(), name.clone())?.into(),
            TlsSide::Server(config) => ServerConnection::new(config.clone())?.into(),
        })
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// All certificates in the text; none if it is blank. Errors: Invalid if it is not blank and has none.
fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, Error> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let found = found.map_err(|_| Error::Invalid(Invalid::Certificate))?;
    if found.is_empty() && !pem.trim().is_empty() {
        Err(Error::Invalid(Invalid::Certificate))
    } else {
        Ok(found)
    }
}
