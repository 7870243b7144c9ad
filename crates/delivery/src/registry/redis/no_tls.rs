//! In place of `tls` in a build without the feature of this name: `rediss://` is refused.

use super::address::Files;
use crate::registry::RegistryError;

/// How connections to a server are encrypted: there is no way.
pub enum TlsClient {}

impl TlsClient {
    pub fn new(_: &str, _: &Files) -> Result<TlsClient, RegistryError> {
        Err(RegistryError::Feature("tls"))
    }
}
