//! Reliable multicast (PGM, RFC 3208) by OpenPGM, over IP or over UDP ("encapsulated", epgm). Only in a build with the
//! feature `pgm` ([`BUILT_IN`]); in others nothing can be opened.
//!
//! A [`Socket`] either sends or receives. What OpenPGM waits for, two to four descriptors and its own times, is one
//! descriptor here, which is readable whenever [`receive`](Socket::receive) or [`send`](Socket::send) is to be called
//! (again): a sender has to receive too, because its receivers ask it to repeat what they have missed. Calls may come
//! from several threads; one at a time gets in.

#[cfg(not(feature = "pgm"))]
mod absent;
#[cfg(feature = "pgm")]
mod ffi;
#[cfg(feature = "pgm")]
mod openpgm;

use std::net::Ipv4Addr;

#[cfg(not(feature = "pgm"))]
pub use absent::Socket;
#[cfg(feature = "pgm")]
pub use openpgm::Socket;

/// Whether this build has OpenPGM.
pub const BUILT_IN: bool = cfg!(feature = "pgm");

/// What a socket is opened with.
#[derive(Debug, Clone)]
pub struct Config<'a> {
    /// The index of the interface.
    pub interface: u32,
    /// The groups to receive from, and the one to send to, or to tell senders what is missing.
    pub groups: &'a [Ipv4Addr],
    pub send_group: Ipv4Addr,
    /// The data-destination port, and over UDP its port too.
    pub port: u16,
    pub over_udp: bool,
    pub sends: bool,
    /// What tells this sender from all others.
    pub id: [u8; 6],
    /// The largest packet, in bytes, with PGM's headers and IP's.
    pub max_packet: i32,
    /// What is sent at most, in bytes a second; no less than one packet.
    pub rate: i32,
    /// Packets that a sender keeps to repeat them, and a receiver waits for.
    pub window: i32,
    /// Routers that packets may pass, and one.
    pub hops: i32,
    /// SO_SNDBUF, SO_RCVBUF, in bytes, where they are given.
    pub send_buffer: Option<i32>,
    pub recv_buffer: Option<i32>,
}

/// Who sends: OpenPGM's transport session identifier, as it is on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tsi(pub [u8; 8]);

/// What [`Socket::receive`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// The next data of this sender, in order, and the numbers of the first and the last packet that they came in.
    /// Where something is lost for good, numbers are left out.
    Data(Tsi, u32, u32),
    /// Nothing of use; there may be more.
    Nothing,
}
