//! Properties of a socket type that the code that makes connections needs.

use pinnace_ring::Taking;
use pinnace_zmtp::SocketType;

use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::options::Options;
use crate::queue::{QueueMode, QueueModes};

#[derive(Debug, Clone, Copy)]
pub(crate) struct SocketKind {
    pub(crate) socket_type: SocketType,
    /// Accepts subscriptions (PUB, XPUB).
    pub(crate) keeps_subscriptions: bool,
    /// Sends subscriptions (SUB, XSUB) or groups (DISH), and all of them again to each new connection.
    pub(crate) sends_subscriptions: bool,
    /// Accepts groups (RADIO).
    pub(crate) keeps_groups: bool,
    /// Addresses peers by name (ROUTER, STREAM).
    pub(crate) names_peers: bool,
    /// What it sends is for one certain peer (ROUTER, REP). Another peer that answers at an endpoint that it has
    /// connected to gets a pipe of its own.
    pub(crate) addresses_peers: bool,
    /// How ZMQ_CONFLATE has it queue what it sends and receives.
    conflated: QueueModes,
    /// The pattern does not inspect input; only the application reads it.
    pub(crate) input_uninspected: bool,
    /// Sends ZMQ_HELLO_MSG to each peer.
    pub(crate) greets: bool,
    /// Delivers ZMQ_DISCONNECT_MSG when a peer that connected to it is lost ...
    pub(crate) hears_disconnects: bool,
    /// ... and ZMQ_HICCUP_MSG when one that it connected to is.
    pub(crate) hears_hiccups: bool,
    /// Thread-safe in libzmq's terms (its draft types): no multipart messages, no ZMQ_FD.
    pub(crate) is_thread_safe: bool,
}

/// What happens to the messages that a socket's peers send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum IncomingUse {
    /// The application receives them, or is notified of them.
    #[default]
    Received,
    /// Subscriptions or groups, which end with the peer; other messages are dropped (PUB, RADIO).
    Subscriptions,
    /// All are dropped (PUSH, SCATTER).
    Unwanted,
}

impl SocketKind {
    /// Checks that the transport supports the type. Errors: TransportForType.
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

    pub(crate) fn of(socket_type: SocketType) -> SocketKind {
        use SocketType::*;
        SocketKind {
            socket_type,
            keeps_subscriptions: matches!(socket_type, Pub | XPub),
            sends_subscriptions: matches!(socket_type, Sub | XSub | Dish),
            keeps_groups: matches!(socket_type, Radio),
            names_peers: matches!(socket_type, Router | Stream),
            addresses_peers: matches!(socket_type, Router | Rep),
            conflated: QueueModes {
                out: QueueMode::newest_if(matches!(socket_type, Push | Pub | Dealer)),
                into: QueueMode::newest_if(matches!(socket_type, Pull | Sub | Dealer)),
            },
            input_uninspected: matches!(socket_type, Pull | Gather | Pair | Channel | Dealer | Client),
            greets: matches!(socket_type, Dealer | Router | Client | Server | Peer),
            hears_disconnects: matches!(socket_type, Router | Server | Peer),
            hears_hiccups: matches!(socket_type, Dealer | Client | Peer),
            is_thread_safe: matches!(
                socket_type,
                Server | Client | Radio | Dish | Gather | Scatter | Peer | Channel
            ),
        }
    }

    /// How the queues of its pipes work.
    pub(crate) fn queue_modes(&self, options: &Options) -> QueueModes {
        if options.conflate { self.conflated } else { QueueModes::default() }
    }

    /// When large bodies in memory shared with a peer are copied out.
    pub(crate) fn taking(&self, options: &Options) -> Taking {
        match options.borrow {
            true => Taking::InPlace,
            false if self.input_uninspected => Taking::WhenWanted,
            false => Taking::AtOnce,
        }
    }

    /// Returns true if peers do not speak ZMTP: STREAM, and ROUTER with ZMQ_ROUTER_RAW.
    pub(crate) fn is_raw(&self, options: &Options) -> bool {
        self.socket_type == SocketType::Stream || options.router_raw
    }

    /// How the input from peers is used. The application of an XPUB receives subscriptions.
    pub(crate) fn incoming(&self) -> IncomingUse {
        match self.socket_type {
            SocketType::Pub | SocketType::Radio => IncomingUse::Subscriptions,
            SocketType::Push | SocketType::Scatter => IncomingUse::Unwanted,
            _ => IncomingUse::Received,
        }
    }

    /// Returns true if peers send it subscriptions or groups, which do not count as lost messages.
    pub(crate) fn receives_subscriptions(&self) -> bool {
        self.keeps_subscriptions || self.keeps_groups
    }
}
