//! "pgm://network:port" and "epgm://network:port", in a build that has them. The network is OpenPGM's to read:
//! "interface;group", "interface;group,group;group to send to".

use std::fmt;

use super::Role;
use crate::error::Error;

/// The longest network, in bytes; libzmq's limit.
const NETWORK_MAX: usize = 254;

/// An interface, multicast groups, and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PgmEndpoint {
    pub network: String,
    pub port: u16,
    /// "epgm://": PGM over UDP.
    pub over_udp: bool,
}

impl PgmEndpoint {
    pub(super) fn parse(text: &str, over_udp: bool) -> Result<PgmEndpoint, Error> {
        let (network, port) = text.rsplit_once(':').ok_or(Error::Invalid)?;
        let port = super::port_number(port, Role::Connect)?;
        if port == 0 || network.is_empty() || network.len() > NETWORK_MAX {
            return Err(Error::Invalid);
        }
        Ok(PgmEndpoint { network: network.to_owned(), port, over_udp })
    }

    pub(super) fn transport(&self) -> &'static str {
        if self.over_udp { "epgm" } else { "pgm" }
    }
}

impl fmt::Display for PgmEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.network, self.port)
    }
}
