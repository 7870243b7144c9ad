//! Socket types: numbers, names and compatibility.

use std::fmt;

/// The kinds of socket, with libzmq's numbers, which ZMTP 2.0 also sends on the wire (RFC 15).
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // The names are the field's own.
pub enum SocketType {
    Pair = 0,
    Pub = 1,
    Sub = 2,
    Req = 3,
    Rep = 4,
    Dealer = 5,
    Router = 6,
    Pull = 7,
    Push = 8,
    XPub = 9,
    XSub = 10,
    /// Raw TCP: never takes part in a ZMTP handshake.
    Stream = 11,
    Server = 12,
    Client = 13,
    Radio = 14,
    Dish = 15,
    Gather = 16,
    Scatter = 17,
    /// Raw UDP: never takes part in a ZMTP handshake.
    Dgram = 18,
    Peer = 19,
    Channel = 20,
}

use SocketType::*;

impl SocketType {
    /// All types, ordered by number.
    pub const ALL: [SocketType; 21] = [
        Pair, Pub, Sub, Req, Rep, Dealer, Router, Pull, Push, XPub, XSub, Stream, Server, Client, Radio,
        Dish, Gather, Scatter, Dgram, Peer, Channel,
    ];

    /// The type with libzmq's number, 0 to 20.
    pub fn from_number(number: u8) -> Option<SocketType> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// The type that a Socket-Type property names (RFC 37, "The Socket-Type Property"): exact, in capitals.
    pub fn from_name(name: &[u8]) -> Option<SocketType> {
        Self::ALL.into_iter().find(|kind| kind.name().as_bytes() == name)
    }

    /// The name in the Socket-Type property.
    pub fn name(self) -> &'static str {
        match self {
            Pair => "PAIR",
            Pub => "PUB",
            Sub => "SUB",
            Req => "REQ",
            Rep => "REP",
            Dealer => "DEALER",
            Router => "ROUTER",
            Pull => "PULL",
            Push => "PUSH",
            XPub => "XPUB",
            XSub => "XSUB",
            Stream => "STREAM",
            Server => "SERVER",
            Client => "CLIENT",
            Radio => "RADIO",
            Dish => "DISH",
            Gather => "GATHER",
            Scatter => "SCATTER",
            Dgram => "DGRAM",
            Peer => "PEER",
            Channel => "CHANNEL",
        }
    }

    /// Whether the two types may talk to each other: the table of RFC 37, "The Socket-Type Property". Symmetric.
    pub fn compatible(self, peer: SocketType) -> bool {
        self.peers().contains(&peer)
    }

    /// Whether READY carries an Identity, even an empty one. In RFC 37's worked example ROUTER sends none; libzmq
    /// sends it.
    pub fn announces_routing_id(self) -> bool {
        matches!(self, Req | Dealer | Router)
    }

    fn peers(self) -> &'static [SocketType] {
        match self {
            Pair => &[Pair],
            Pub | XPub => &[Sub, XSub],
            Sub | XSub => &[Pub, XPub],
            Req => &[Rep, Router],
            Rep => &[Req, Dealer],
            Dealer => &[Rep, Dealer, Router],
            Router => &[Req, Dealer, Router],
            Pull => &[Push],
            Push => &[Pull],
            Server => &[Client],
            Client => &[Server],
            Radio => &[Dish],
            Dish => &[Radio],
            Gather => &[Scatter],
            Scatter => &[Gather],
            Peer => &[Peer],
            Channel => &[Channel],
            Stream | Dgram => &[],
        }
    }
}

impl fmt::Display for SocketType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
