//! The server's address and credentials.

use redis::{ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo, parse_redis_url};

use super::tls::TlsClient;
use crate::registry::RegistryError;

/// A parsed address. It holds secrets, so it is never printed as a whole.
pub struct Address {
    pub host: String,
    pub port: u16,
    /// User, password and database.
    pub login: RedisConnectionInfo,
    /// None: unencrypted.
    pub tls: Option<TlsClient>,
}

/// The TLS parameters: paths of PEM files.
#[derive(Default)]
pub struct Files {
    pub ca: Option<String>,
    pub cert: Option<String>,
    pub key: Option<String>,
}

impl Address {
    /// Parses `redis://` and `rediss://` addresses, and reads the files that they name. Errors: Url; Io, of a file;
    /// Feature.
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
        let tls = if secure { Some(TlsClient::new(&host, &files)?) } else { None };
        Ok(Address { host, port, login, tls })
    }
}
