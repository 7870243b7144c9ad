//! What a socket's type means to those who make connections for it.

use pinnace_zmtp::SocketType;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) socket_type: SocketType,
    /// It takes subscriptions (PUB, XPUB).
    pub(crate) keeps_subscriptions: bool,
    /// It sends them (SUB, XSUB).
    pub(crate) sends_subscriptions: bool,
    /// It sends by name (ROUTER).
    pub(crate) names_peers: bool,
}

impl Kind {
    pub(crate) fn of(socket_type: SocketType) -> Kind {
        use SocketType::{Pub, Router, Sub, XPub, XSub};
        Kind {
            socket_type,
            keeps_subscriptions: matches!(socket_type, Pub | XPub),
            sends_subscriptions: matches!(socket_type, Sub | XSub),
            names_peers: socket_type == Router,
        }
    }
}
