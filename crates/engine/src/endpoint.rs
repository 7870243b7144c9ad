//! Endpoints: "transport://address", parsed for binding or for connecting.
//!
//! Parsing looks nothing up. A name stays a name ([`Host::Name`]); whether it is an interface or a host is resolved
//! later. The accepted forms are those of zmq_tcp(7), zmq_ipc(7) and zmq_inproc(7).
//!
//! ```ignore
//! let endpoint = Endpoint::parse("tcp://*:5555", Role::Bind)?;
//! assert_eq!(endpoint, Endpoint::Tcp(TcpEndpoint { host: Host::Any, port: 5555, source: None }));
//! ```

mod families;
mod pgm;

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use pinnace_sys::Errno;
use pinnace_sys::pgm::BUILT_IN;

use crate::error::{Error, Invalid};
pub use families::FamilyEndpoint;
pub use pgm::PgmEndpoint;

/// What an endpoint is parsed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Bind,
    Connect,
}

/// Where a socket binds, or connects to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    Tcp(TcpEndpoint),
    Ipc(IpcEndpoint),
    /// The name, 1 to 255 bytes.
    Inproc(String),
    Web(WebEndpoint),
    /// "tls+tcp://": ZMTP over TLS over tcp.
    Tls(TcpEndpoint),
    Udp(UdpEndpoint),
    /// "vsock://", "tipc://".
    Family(FamilyEndpoint),
    /// "pgm://", "epgm://".
    Pgm(PgmEndpoint),
}

/// "tcp://host:port", and for connecting also "tcp://source;host:port".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TcpEndpoint {
    pub host: Host,
    /// 0: any free port.
    pub port: u16,
    /// The address and port to connect from.
    pub source: Option<(Host, u16)>,
}

/// "ws://host:port/path", "wss://host:port/path".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebEndpoint {
    pub at: TcpEndpoint,
    /// With its leading slash; "/" if none is given. A server ignores it.
    pub path: String,
    /// Over TLS.
    pub secure: bool,
}

/// "udp://host:port", "udp://interface;group:port".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UdpEndpoint {
    /// The interface on which multicast is received or sent.
    pub interface: Option<Host>,
    /// An address, an interface to bind to, a host to send to, or a multicast group.
    pub host: Host,
    /// 0, to bind: any free port.
    pub port: u16,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// `*`: all interfaces.
    Any,
    /// An address. An IPv6 address may name its zone: an interface's name or number.
    Ip(IpAddr, Option<String>),
    /// The name of an interface (to bind, or as a source), or of a host.
    Name(String),
}

/// "ipc://path", "ipc://@name", "ipc://*".
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IpcEndpoint {
    /// A path of the file system, at most 107 bytes.
    Path(String),
    /// A name in Linux's abstract namespace, without the `@`.
    Abstract(String),
    /// `*`: a path that the transport chooses; only to bind.
    Any,
}

/// sun_path has 108 bytes, and a NUL at its end (unix(7)).
const IPC_MAX: usize = 107;
const INPROC_MAX: usize = 255;
/// Path and query, in bytes; servers do not accept longer ones either.
const PATH_MAX: usize = 4096;
/// The longest host name (RFC 1035, section 2.3.4).
const NAME_MAX: usize = 255;
/// The order is that of `Endpoint::transport`. libzmq's transports that are not built in fail like unknown ones.
const SCHEMES: [&str; 7] = ["tcp", "ipc", "inproc", "ws", "wss", "tls+tcp", "udp"];

/// Whether a socket may connect to an endpoint, judged by its text alone. Errors: those of `Socket::connect`.
pub fn check_endpoint(text: &str) -> Result<(), Error> {
    Endpoint::parse(text, Role::Connect).map(drop)
}

/// Both ends of a connection, as endpoints. Version 1 names the one that was bound or connected to.
#[derive(Debug, Clone, Default)]
pub(crate) struct EndpointPair {
    pub(crate) local: String,
    pub(crate) remote: String,
    pub(crate) accepted: bool,
}

impl EndpointPair {
    /// The endpoint that was bound or connected to.
    pub(crate) fn ours(&self) -> &str {
        if self.accepted { &self.local } else { &self.remote }
    }
}

impl Endpoint {
    /// Parses `text`.
    ///
    /// Errors: `Transport` for an unknown transport, `NoTls` for one that needs TLS in a build without it,
    /// `System(ENAMETOOLONG)` for a path that is too long, `Invalid` for everything else that cannot be parsed.
    pub fn parse(text: &str, role: Role) -> Result<Endpoint, Error> {
        let (scheme, address) = text.split_once("://").ok_or(Error::Invalid(Invalid::Endpoint))?;
        if scheme.is_empty() || address.is_empty() || text.contains('\0') {
            return Err(Error::Invalid(Invalid::Endpoint));
        }
        match scheme {
            "tcp" => TcpEndpoint::parse(address, role).map(Endpoint::Tcp),
            "ipc" => IpcEndpoint::parse(address, role).map(Endpoint::Ipc),
            "wss" | "tls+tcp" if !cfg!(feature = "tls") => Err(Error::NoTls),
            "ws" | "wss" => WebEndpoint::parse(address, role, scheme == "wss").map(Endpoint::Web),
            "vsock" => FamilyEndpoint::vsock(address, role).map(Endpoint::Family),
            "tipc" => FamilyEndpoint::tipc(address, role).map(Endpoint::Family),
            "udp" => UdpEndpoint::parse(address, role).map(Endpoint::Udp),
            "pgm" | "epgm" if BUILT_IN => PgmEndpoint::parse(address, scheme == "epgm").map(Endpoint::Pgm),
            "tls+tcp" => TcpEndpoint::parse(address, role).map(Endpoint::Tls),
            "inproc" if address.len() > INPROC_MAX => Err(Error::Invalid(Invalid::Address)),
            "inproc" => Ok(Endpoint::Inproc(address.to_owned())),
            _ => Err(Error::Transport),
        }
    }

    /// The transport's name.
    pub fn transport(&self) -> &'static str {
        let [tcp, ipc, inproc, ws, wss, tls, udp] = SCHEMES;
        match self {
            Endpoint::Tcp(_) => tcp,
            Endpoint::Ipc(_) => ipc,
            Endpoint::Inproc(_) => inproc,
            Endpoint::Web(web) => [ws, wss][usize::from(web.secure)],
            Endpoint::Tls(_) => tls,
            Endpoint::Udp(_) => udp,
            Endpoint::Family(family) => family.transport(),
            Endpoint::Pgm(pgm) => pgm.transport(),
        }
    }
}

impl TcpEndpoint {
    /// Parses "host:port" for connecting.
    pub(crate) fn parse_target(address: &str) -> Result<TcpEndpoint, Error> {
        let (host, port) = host_and_port(address, Role::Connect)?;
        Ok(TcpEndpoint { host, port, source: None })
    }

    fn parse(address: &str, role: Role) -> Result<TcpEndpoint, Error> {
        let (source, destination) = match (address.split_once(';'), role) {
            (None, _) => (None, address),
            (Some((source, destination)), Role::Connect) => {
                (Some(host_and_port(source, Role::Bind)?), destination)
            }
            (Some(_), Role::Bind) => return Err(Error::Invalid(Invalid::Address)),
        };
        let (host, port) = host_and_port(destination, role)?;
        Ok(TcpEndpoint { host, port, source })
    }
}

impl UdpEndpoint {
    fn parse(address: &str, role: Role) -> Result<UdpEndpoint, Error> {
        let (interface, target) = match address.split_once(';') {
            Some((interface, target)) => (Some(Host::parse(interface, Role::Bind)?), target),
            None => (None, address),
        };
        let (host, port) = host_and_port(target, role)?;
        if matches!(&interface, Some(Host::Ip(ip, _)) if ip.is_multicast()) {
            return Err(Error::Invalid(Invalid::Interface));
        }
        Ok(UdpEndpoint { interface, host, port })
    }
}

impl WebEndpoint {
    fn parse(text: &str, role: Role, secure: bool) -> Result<WebEndpoint, Error> {
        let (address, path) = text.split_at(text.find('/').unwrap_or(text.len()));
        let path = if path.is_empty() { "/" } else { path };
        if !path.bytes().all(|byte| byte.is_ascii_graphic()) || path.len() > PATH_MAX {
            return Err(Error::Invalid(Invalid::Address));
        }
        Ok(WebEndpoint { at: TcpEndpoint::parse(address, role)?, path: path.to_owned(), secure })
    }

    /// Host and port, as in a URL.
    pub(crate) fn authority(&self) -> String {
        let host = match &self.at.host {
            Host::Ip(ip, _) => Host::Ip(*ip, None), // The zone has no meaning for the peer.
            host => host.clone(),
        };
        format!("{host}:{}", self.at.port)
    }
}

/// "host:port", split at the last colon, since IPv6 addresses contain colons.
fn host_and_port(text: &str, role: Role) -> Result<(Host, u16), Error> {
    let (host, port) = text.rsplit_once(':').ok_or(Error::Invalid(Invalid::Port))?;
    Ok((Host::parse(host, role)?, port_number(port, role)?))
}

fn port_number(text: &str, role: Role) -> Result<u16, Error> {
    match text {
        "*" if role == Role::Bind => Ok(0),
        _ if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            text.parse().map_err(|_| Error::Invalid(Invalid::Port))
        }
        _ => Err(Error::Invalid(Invalid::Port)),
    }
}

impl Host {
    fn parse(text: &str, role: Role) -> Result<Host, Error> {
        if text == "*" {
            return if role == Role::Bind { Ok(Host::Any) } else { Err(Error::Invalid(Invalid::Host)) };
        }
        let bracketed = text.strip_prefix('[');
        let inner = match bracketed {
            Some(rest) => rest.strip_suffix(']').ok_or(Error::Invalid(Invalid::Host))?,
            None => text,
        };
        if let Some((ip, zone)) = inner.split_once('%') {
            let ip: Ipv6Addr = ip.parse().map_err(|_| Error::Invalid(Invalid::Host))?;
            let zone = name(zone).ok_or(Error::Invalid(Invalid::Host))?;
            return Ok(Host::Ip(ip.into(), Some(zone)));
        }
        if let Ok(ip) = inner.parse() {
            return Ok(Host::Ip(ip, None));
        }
        match name(inner) {
            Some(name) if bracketed.is_none() => Ok(Host::Name(name)),
            _ => Err(Error::Invalid(Invalid::Host)),
        }
    }
}

/// The name, if a host, an interface or a zone could have it.
fn name(text: &str) -> Option<String> {
    let bad = |c: char| c.is_whitespace() || c.is_control() || ":/;[]*%@".contains(c);
    (!text.is_empty() && text.len() <= NAME_MAX && !text.contains(bad)).then(|| text.to_owned())
}

impl IpcEndpoint {
    fn parse(address: &str, role: Role) -> Result<IpcEndpoint, Error> {
        if address.len() > IPC_MAX {
            return Err(Error::from(Errno::NAMETOOLONG));
        }
        match (address, address.strip_prefix('@')) {
            ("*", _) if role == Role::Bind => Ok(IpcEndpoint::Any),
            ("*", _) | (_, Some("")) => Err(Error::Invalid(Invalid::Address)),
            (_, Some(name)) => Ok(IpcEndpoint::Abstract(name.to_owned())),
            (path, None) => Ok(IpcEndpoint::Path(path.to_owned())),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://", self.transport())?;
        match self {
            Endpoint::Tcp(tcp) | Endpoint::Tls(tcp) => tcp.fmt(f),
            Endpoint::Ipc(IpcEndpoint::Path(path)) => f.write_str(path),
            Endpoint::Ipc(IpcEndpoint::Abstract(name)) => write!(f, "@{name}"),
            Endpoint::Ipc(IpcEndpoint::Any) => f.write_str("*"),
            Endpoint::Inproc(name) => f.write_str(name),
            Endpoint::Udp(UdpEndpoint { interface: Some(interface), host, port }) => {
                write!(f, "{interface};{host}:{port}")
            }
            Endpoint::Udp(UdpEndpoint { host, port, .. }) => write!(f, "{host}:{port}"),
            Endpoint::Family(family) => family.fmt(f),
            Endpoint::Pgm(pgm) => pgm.fmt(f),
            Endpoint::Web(web) => write!(f, "{}{}", web.at, web.path),
        }
    }
}

impl fmt::Display for TcpEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((host, port)) = &self.source {
            write!(f, "{host}:{port};")?;
        }
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Any => f.write_str("*"),
            Host::Ip(IpAddr::V4(ip), _) => ip.fmt(f),
            Host::Ip(IpAddr::V6(ip), None) => write!(f, "[{ip}]"),
            Host::Ip(IpAddr::V6(ip), Some(zone)) => write!(f, "[{ip}%{zone}]"),
            Host::Name(name) => f.write_str(name),
        }
    }
}

#[cfg(test)]
#[path = "endpoint_tests.rs"]
mod tests;
