//! tcp:// (zmq_tcp(7)): host names, interfaces, wildcards, IPv4 and IPv6.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, ToSocketAddrs};

use pinnace_sys::{Errno, interfaces, net};

use super::listening::Listening;
use super::setup;
use crate::endpoint::{Host, TcpEndpoint};
use crate::error::Error;
use crate::options::Options;

/// A name to look up. Its addresses have no port yet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Question {
    name: String,
    /// As in [`Name`].
    local: bool,
    ipv6: bool,
}

impl Question {
    /// Asks the system's resolver, which may block for long.
    pub(super) fn look_up(&self) -> Vec<SocketAddr> {
        let wanted = |address: &SocketAddr| self.ipv6 || address.is_ipv4();
        if self.local {
            let of_interface = interfaces::addresses(&self.name).into_iter();
            let found: Vec<_> = of_interface.map(|ip| SocketAddr::new(ip, 0)).filter(wanted).collect();
            if !found.is_empty() {
                return found;
            }
        }
        let resolved = (self.name.as_str(), 0).to_socket_addrs();
        let mut found: Vec<_> = resolved.into_iter().flatten().filter(wanted).collect();
        found.dedup();
        found
    }
}

/// Answers a question; None if it cannot.
pub(super) type Ask<'a> = &'a mut dyn FnMut(&Question) -> Option<Vec<SocketAddr>>;

/// A host and a port, to be resolved.
#[derive(Debug, Clone)]
pub(super) struct Name {
    pub(super) host: Host,
    pub(super) port: u16,
    /// Interface names count too: to bind, or to connect from.
    pub(super) local: bool,
}

impl Name {
    /// All addresses of the host. The system's resolver may block for long.
    pub(super) fn resolve(&self, ipv6: bool) -> Vec<SocketAddr> {
        self.resolve_by(ipv6, &mut |question| Some(question.look_up())).unwrap_or_default()
    }

    /// Like `resolve`, with the answers of `ask`; None if it has no answer.
    fn resolve_by(&self, ipv6: bool, ask: Ask<'_>) -> Option<Vec<SocketAddr>> {
        Some(match &self.host {
            Host::Any if ipv6 => vec![(Ipv6Addr::UNSPECIFIED, self.port).into()],
            Host::Any => vec![(Ipv4Addr::UNSPECIFIED, self.port).into()],
            Host::Ip(ip, zone) => vec![with_zone(*ip, zone.as_deref(), self.port)],
            Host::Name(name) => {
                let mut found = ask(&Question { name: name.clone(), local: self.local, ipv6 })?;
                found.iter_mut().for_each(|address| address.set_port(self.port));
                found
            }
        })
    }
}

fn with_zone(ip: IpAddr, zone: Option<&str>, port: u16) -> SocketAddr {
    match (ip, zone) {
        (IpAddr::V6(v6), Some(zone)) => {
            let scope = zone.parse().ok().or_else(|| interfaces::index(zone)).unwrap_or(0);
            SocketAddrV6::new(v6, port, 0, scope).into()
        }
        _ => SocketAddr::new(ip, port),
    }
}

/// Listens; returns the address with the wildcards filled in.
pub(super) fn listen(endpoint: &TcpEndpoint, options: &Options) -> Result<(Listening, SocketAddr), Error> {
    if options.use_fd >= 0 {
        return Listening::adopt(options.use_fd, |fd| net::tcp_addresses(fd).0);
    }
    let name = Name { host: endpoint.host.clone(), port: endpoint.port, local: true };
    let mut last = Error::System(Errno::NODEV.raw_os_error());
    let any = endpoint.host == Host::Any;
    for address in name.resolve(options.ipv6) {
        match net::listen_tcp(&address, any && options.ipv6, options.backlog, &setup(options)) {
            Ok(fd) => {
                let at = net::tcp_addresses(&fd).0.unwrap_or(address);
                return Ok((Listening::Opened(fd), at));
            }
            // The system has no IPv6.
            Err(Errno::AFNOSUPPORT) if any && options.ipv6 => {
                let ipv4 = Options { ipv6: false, ..options.clone() };
                return listen(endpoint, &ipv4);
            }
            Err(error) => last = error.into(),
        }
    }
    if last == Error::System(Errno::ADDRNOTAVAIL.raw_os_error()) && matches!(endpoint.host, Host::Name(_)) {
        last = Error::System(Errno::NODEV.raw_os_error());
    }
    Err(last)
}

/// Where to dial. Names are looked up before each attempt.
#[derive(Debug, Clone)]
pub(crate) struct Remote {
    to: Name,
    from: Option<Name>,
}

/// An address to dial, and the address to dial from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Route {
    pub(crate) to: SocketAddr,
    pub(crate) from: Option<SocketAddr>,
}

impl Remote {
    pub(super) fn new(endpoint: &TcpEndpoint) -> Remote {
        let from = endpoint.source.as_ref();
        Remote {
            to: Name { host: endpoint.host.clone(), port: endpoint.port, local: false },
            from: from.map(|(host, port)| Name { host: host.clone(), port: *port, local: true }),
        }
    }

    /// The routes to dial, each with a source address of the same family if there is one. None: `ask` has no answer.
    pub(super) fn routes(&self, ipv6: bool, ask: Ask<'_>) -> Option<Vec<Route>> {
        let targets = match &self.to.host {
            Host::Any if ipv6 => vec![(Ipv6Addr::LOCALHOST, self.to.port).into()],
            Host::Any => vec![(Ipv4Addr::LOCALHOST, self.to.port).into()],
            _ => self.to.resolve_by(ipv6, ask)?,
        };
        let mut routes = Vec::new();
        for to in targets {
            let sources = match &self.from {
                Some(from) => from.resolve_by(to.is_ipv6(), ask)?,
                None => Vec::new(),
            };
            let from = sources.into_iter().find(|from| from.is_ipv6() == to.is_ipv6());
            routes.push(Route { to, from });
        }
        Some(routes)
    }
}
