//! Reliable multicast (PGM, RFC 3208) by OpenPGM, over IP or over UDP ("encapsulated", epgm). Only in a build with
//! the feature `pgm` ([`BUILT_IN`]); in other builds `open` fails.
//!
//! A [`Socket`] either sends or receives. OpenPGM waits for two to four descriptors and for timers of its own. Here
//! one descriptor stands for all of them, and is readable whenever [`receive`](Socket::receive) or
//! [`send`](Socket::send) has to be called (again). A sender has to receive too, because its receivers ask it to
//! repeat what they have missed. Several threads may call; a lock admits one at a time.

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

/// True if this build has OpenPGM.
pub const BUILT_IN: bool = cfg!(feature = "pgm");

/// Options of a new socket.
#[derive(Debug, Clone)]
pub struct Config<'a> {
    /// Index of the network interface.
    pub interface: u32,
    /// The groups to receive from, and the group to send data to, or requests for missing data.
    pub groups: &'a [Ipv4Addr],
    pub send_group: Ipv4Addr,
    /// The data-destination port, and with UDP also the UDP port.
    pub port: u16,
    pub over_udp: bool,
    pub sends: bool,
    /// Unique identifier of this sender.
    pub id: [u8; 6],
    /// The largest packet, in bytes, including the headers of PGM and IP.
    pub max_packet: i32,
    /// The most bytes to send per second; at least one packet.
    pub rate: i32,
    /// Packets that a sender keeps for repetition, and that a receiver waits for.
    pub window: i32,
    /// The TTL: the number of routers that packets may pass, plus one.
    pub hops: i32,
    /// SO_SNDBUF, SO_RCVBUF, in bytes; None leaves the default.
    pub send_buffer: Option<i32>,
    pub recv_buffer: Option<i32>,
}

/// A sender: OpenPGM's transport session identifier, as it is on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tsi(pub [u8; 8]);

/// The result of [`Socket::receive`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// The next data of this sender, in order, with the sequence numbers of the first and the last packet of the
    /// data. After data that cannot be recovered, the numbers have a gap.
    Data(Tsi, u32, u32),
    /// No data; there may be more packets.
    Nothing,
}
