//! Datagrams: UDP sockets, to one address or to a multicast group. All of them are non-blocking.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use rustix::net::{self, RecvFlags, SendFlags, SocketType, sockopt};

use crate::net::{Setup, ip_socket};
use crate::{AsFd, Errno, OwnedFd};

/// How multicast datagrams are sent and received.
#[derive(Debug, Clone, Copy, Default)]
pub struct Multicast {
    /// The TTL: the number of routers that a datagram may pass, plus one.
    pub hops: u32,
    /// True: this host also receives them.
    pub loops: bool,
    /// Index of the interface; 0 leaves the choice to the system.
    pub interface: u32,
    /// Address of the interface, if its index is not known (IPv4).
    pub address: Option<Ipv4Addr>,
}

/// A socket that receives what is sent to `at`. For a multicast group it joins the group, and other sockets may then
/// receive the same datagrams.
pub fn bind(at: &SocketAddr, multicast: &Multicast, setup: &Setup) -> Result<OwnedFd, Errno> {
    let fd = ip_socket(at, SocketType::DGRAM, setup)?;
    let in_group = at.ip().is_multicast();
    if in_group {
        sockopt::set_socket_reuseaddr(&fd, true)?;
        sockopt::set_socket_reuseport(&fd, true)?;
    }
    if at.is_ipv6() {
        sockopt::set_ipv6_v6only(&fd, true)?;
    }
    // Binding to the group address keeps out datagrams to this port that were sent to other addresses.
    net::bind(&fd, at)?;
    if in_group {
        join(&fd, &at.ip(), multicast)?;
    }
    sends(&fd, at, multicast)?;
    Ok(fd)
}

/// A socket that sends to addresses of `to`'s family.
pub fn open(to: &SocketAddr, multicast: &Multicast, setup: &Setup) -> Result<OwnedFd, Errno> {
    let fd = ip_socket(to, SocketType::DGRAM, setup)?;
    sends(&fd, to, multicast)?;
    Ok(fd)
}

fn join(fd: &OwnedFd, group: &IpAddr, multicast: &Multicast) -> Result<(), Errno> {
    match (group, multicast.address) {
        (IpAddr::V4(group), Some(address)) if multicast.interface == 0 => {
            sockopt::set_ip_add_membership(fd, group, &address)
        }
        (IpAddr::V4(group), _) => {
            let any = Ipv4Addr::UNSPECIFIED;
            sockopt::set_ip_add_membership_with_ifindex(fd, group, &any, multicast.interface)
        }
        (IpAddr::V6(group), _) => sockopt::set_ipv6_add_membership(fd, group, multicast.interface),
    }
}

fn sends(fd: &OwnedFd, at: &SocketAddr, multicast: &Multicast) -> Result<(), Errno> {
    let Multicast { hops, loops, interface, address } = *multicast;
    if at.is_ipv6() {
        sockopt::set_ipv6_multicast_hops(fd, hops)?;
        sockopt::set_ipv6_multicast_loop(fd, loops)?;
        if interface != 0 {
            sockopt::set_ipv6_multicast_if(fd, interface)?;
        }
        return Ok(());
    }
    sockopt::set_ip_multicast_ttl(fd, hops)?;
    sockopt::set_ip_multicast_loop(fd, loops)?;
    match address {
        _ if interface != 0 => {
            let any = Ipv4Addr::UNSPECIFIED;
            sockopt::set_ip_multicast_if_with_ifindex(fd, &any, &any, interface)
        }
        Some(address) => sockopt::set_ip_multicast_if(fd, &address),
        None => Ok(()),
    }
}

/// Receives the next datagram; EAGAIN if there is none. Returns its size, which may exceed the buffer's, and its
/// sender.
pub fn receive(fd: &impl AsFd, buffer: &mut [u8]) -> Result<(usize, Option<SocketAddr>), Errno> {
    const FLAGS: RecvFlags = RecvFlags::DONTWAIT.union(RecvFlags::TRUNC);
    loop {
        match net::recvfrom(fd, &mut *buffer, FLAGS) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
            Ok((_, size, from)) => return Ok((size, from.and_then(|from| SocketAddr::try_from(from).ok()))),
        }
    }
}

/// Sends one datagram; EAGAIN if the kernel takes none now.
pub fn send(fd: &impl AsFd, bytes: &[u8], to: &SocketAddr) -> Result<(), Errno> {
    const FLAGS: SendFlags = SendFlags::NOSIGNAL.union(SendFlags::DONTWAIT);
    loop {
        match net::sendto(fd, bytes, FLAGS, to) {
            Err(Errno::INTR) => {}
            outcome => return outcome.map(|_| ()),
        }
    }
}
