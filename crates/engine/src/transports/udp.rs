//! udp:// (zmq_udp(7)): datagrams to an address or to a multicast group.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use pinnace_sys::udp::{self, Multicast};
use pinnace_sys::{Errno, OwnedFd, interfaces};

use super::setup;
use super::tcp::Name;
use crate::endpoint::{Host, UdpEndpoint};
use crate::error::{Error, Invalid};
use crate::options::Options;

/// A datagram socket, and the address that it receives at, or sends to.
pub(crate) struct Udp {
    pub(crate) fd: OwnedFd,
    pub(crate) at: SocketAddr,
}

impl Udp {
    /// Receives at `endpoint`; may ask the system's resolver.
    pub(crate) fn bind(endpoint: &UdpEndpoint, options: &Options) -> Result<Udp, Error> {
        let mut last = Error::System(Errno::NODEV.raw_os_error());
        for at in addresses(endpoint, true, options) {
            let multicast = multicast(endpoint, &at, options)?;
            match udp::bind(&at, &multicast, &setup(options)) {
                Ok(fd) => {
                    let at = pinnace_sys::net::tcp_addresses(&fd).0.unwrap_or(at);
                    return Ok(Udp { fd, at });
                }
                Err(error) => last = error.into(),
            }
        }
        Err(last)
    }

    /// Sends to `endpoint`; may ask the system's resolver.
    pub(crate) fn connect(endpoint: &UdpEndpoint, options: &Options) -> Result<Udp, Error> {
        let mut last = Error::System(Errno::HOSTUNREACH.raw_os_error());
        for at in addresses(endpoint, false, options) {
            let multicast = multicast(endpoint, &at, options)?;
            match udp::open(&at, &multicast, &setup(options)) {
                Ok(fd) => return Ok(Udp { fd, at }),
                Err(error) => last = error.into(),
            }
        }
        Err(last)
    }
}

fn addresses(endpoint: &UdpEndpoint, local: bool, options: &Options) -> Vec<SocketAddr> {
    let name = Name { host: endpoint.host.clone(), port: endpoint.port, local };
    name.resolve(options.ipv6)
}

/// The multicast settings. An interface is valid only with a multicast group.
fn multicast(endpoint: &UdpEndpoint, at: &SocketAddr, options: &Options) -> Result<Multicast, Error> {
    let mut multicast = Multicast {
        hops: options.multicast_hops.max(0) as u32,
        loops: options.multicast_loop,
        ..Multicast::default()
    };
    if let SocketAddr::V6(v6) = at {
        multicast.interface = v6.scope_id();
    }
    let Some(interface) = &endpoint.interface else { return Ok(multicast) };
    if !at.ip().is_multicast() {
        return Err(Error::Invalid(Invalid::Interface));
    }
    match interface {
        Host::Any => {}
        Host::Ip(IpAddr::V4(ip), _) if at.is_ipv4() => multicast.address = Some(*ip),
        Host::Ip(..) => return Err(Error::Invalid(Invalid::Interface)),
        Host::Name(name) => {
            multicast.interface =
                interfaces::index(name).ok_or(Error::System(Errno::NODEV.raw_os_error()))?;
        }
    }
    Ok(match multicast.address {
        Some(Ipv4Addr::UNSPECIFIED) => Multicast { address: None, ..multicast },
        _ => multicast,
    })
}
