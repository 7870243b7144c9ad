//! What a socket's type means to those who make connections for it.

use pinnace_ring::Taking;
use pinnace_zmtp::SocketType;

use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::hub::Incoming;
use crate::options::Options;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) socket_type: SocketType,
    /// It takes subscriptions (PUB, XPUB).
    pub(crate) keeps_subscriptions: bool,
    /// It sends them (SUB, XSUB), or the groups it is in (DISH), all of them again to each new connection.
    pub(crate) sends_subscriptions: bool,
    /// It is told of groups (RADIO).
    pub(crate) keeps_groups: bool,
    /// It sends by name (ROUTER, STREAM).
    pub(crate) names_peers: bool,
    /// Only the newest message is kept, with ZMQ_CONFLATE, of what it sends, and of what it receives.
    pub(crate) conflates_out: bool,
    pub(crate) conflates_in: bool,
    /// Nobody but who receives looks at what its peers send.
    pub(crate) hands_on: bool,
    /// It greets each peer (ZMQ_HELLO_MSG).
    pub(crate) greets: bool,
    /// It receives a message of its own when a peer that connected to it is lost (ZMQ_DISCONNECT_MSG) ...
    pub(crate) hears_disconnects: bool,
    /// ... or one that it connected to (ZMQ_HICCUP_MSG).
    pub(crate) hears_hiccups: bool,
    /// libzmq calls it thread-safe (its draft types): no multipart messages, no ZMQ_FD.
    pub(crate) is_thread_safe: bool,
}

impl Kind {
    /// Whether the type goes with the transport at all. Errors: TransportForType.
    pub(crate) fn goes_over(&self, endpoint: &Endpoint) -> Result<(), Error> {
        let fits = match (endpoint, self.socket_type) {
            (Endpoint::Udp(_), kind) => {
                matches!(kind, SocketType::Radio | SocketType::Dish | SocketType::Dgram)
            }
            (Endpoint::Pgm(_), kind) => {
                matches!(kind, SocketType::Pub | SocketType::Sub | SocketType::XPub | SocketType::XSub)
            }
            (_, kind) => kind != SocketType::Dgram,
        };
        if fits { Ok(()) } else { Err(Error::TransportForType) }
    }

    pub(crate) fn of(socket_type: SocketType) -> Kind {
        use SocketType::*;
        Kind {
            socket_type,
            keeps_subscriptions: matches!(socket_type, Pub | XPub),
            sends_subscriptions: matches!(socket_type, Sub | XSub | Dish),
            keeps_groups: matches!(socket_type, Radio),
            names_peers: matches!(socket_type, Router | Stream),
            conflates_out: matches!(socket_type, Push | Pub | Dealer),
            conflates_in: matches!(socket_type, Pull | Sub | Dealer),
            hands_on: matches!(socket_type, Pull | Gather | Pair | Channel | Dealer | Client),
            greets: matches!(socket_type, Dealer | Router | Client | Server | Peer),
            hears_disconnects: matches!(socket_type, Router | Server | Peer),
            hears_hiccups: matches!(socket_type, Dealer | Client | Peer),
            is_thread_safe: matches!(
                socket_type,
                Server | Client | Radio | Dish | Gather | Scatter | Peer | Channel
            ),
        }
    }

    /// What becomes of large bodies that a peer has put into memory of both.
    pub(crate) fn taking(&self, options: &Options) -> Taking {
        match options.borrow {
            true => Taking::InPlace,
            false if self.hands_on => Taking::WhenWanted,
            false => Taking::AtOnce,
        }
    }

    /// Peers of its connections speak no ZMTP: STREAM, and a ROUTER with ZMQ_ROUTER_RAW.
    pub(crate) fn is_raw(&self, options: &Options) -> bool {
        self.socket_type == SocketType::Stream || options.router_raw
    }

    /// What becomes of what its peers send. An XPUB's application is told of subscriptions.
    pub(crate) fn incoming(&self) -> Incoming {
        match self.socket_type {
            SocketType::Pub | SocketType::Radio => Incoming::Wishes,
            SocketType::Push | SocketType::Scatter => Incoming::Unwanted,
            _ => Incoming::Received,
        }
    }

    /// What its peers send it are subscriptions, or groups they are in, which nobody loses.
    pub(crate) fn hears_wishes(&self) -> bool {
        self.keeps_subscriptions || self.keeps_groups
    }
}
