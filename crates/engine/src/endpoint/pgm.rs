//! "pgm://interface;group:port" and "epgm://interface;group:port" (zmq_pgm(7)), in builds with PGM.
//!
//! An endpoint may name several groups to receive from, "interface;group,group:port", and another group to send to,
//! "interface;group;group:port". Everything is numeric except the interface, which may be a name. OpenPGM would
//! parse more, and ends the process on some of it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use super::{Host, Role};
use crate::error::{Error, Invalid};

/// Groups that one endpoint may name: OpenPGM's limit for a list.
const GROUPS_MAX: usize = 10;

/// An interface, multicast groups, and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PgmEndpoint {
    /// A name, or an IPv4 address.
    pub interface: Host,
    /// Groups to receive from; at least one.
    pub groups: Vec<Ipv4Addr>,
    /// Group to send to.
    pub send_group: Ipv4Addr,
    pub port: u16,
    /// "epgm://": PGM over UDP.
    pub over_udp: bool,
}

impl PgmEndpoint {
    pub(super) fn parse(text: &str, over_udp: bool) -> Result<PgmEndpoint, Error> {
        let (network, port) = text.rsplit_once(':').ok_or(Error::Invalid(Invalid::Port))?;
        let port = super::port_number(port, Role::Connect)?;
        let mut parts = network.split(';');
        let interface = Host::parse(parts.next().unwrap_or_default(), Role::Connect)?;
        // Exactly one interface: OpenPGM would accept a list.
        let is_list = matches!(&interface, Host::Name(name) if name.contains(','));
        if port == 0 || is_list || matches!(interface, Host::Ip(IpAddr::V6(_), _)) {
            return Err(Error::Invalid(Invalid::Interface));
        }
        let groups: Vec<Ipv4Addr> = parts
            .next()
            .ok_or(Error::Invalid(Invalid::Address))?
            .split(',')
            .map(group)
            .collect::<Result<_, _>>()?;
        let send_group = parts.next().map_or(Ok(groups[0]), group)?;
        if parts.next().is_some() || groups.len() > GROUPS_MAX {
            return Err(Error::Invalid(Invalid::Address));
        }
        Ok(PgmEndpoint { interface, groups, send_group, port, over_udp })
    }

    pub(super) fn transport(&self) -> &'static str {
        if self.over_udp { "epgm" } else { "pgm" }
    }
}

fn group(text: &str) -> Result<Ipv4Addr, Error> {
    let group: Ipv4Addr = text.parse().map_err(|_| Error::Invalid(Invalid::Address))?;
    if group.is_multicast() { Ok(group) } else { Err(Error::Invalid(Invalid::Address)) }
}

impl fmt::Display for PgmEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups: Vec<String> = self.groups.iter().map(Ipv4Addr::to_string).collect();
        write!(f, "{};{};{}:{}", self.interface, groups.join(","), self.send_group, self.port)
    }
}
