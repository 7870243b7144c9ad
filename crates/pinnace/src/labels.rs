//! What a message of one frame carries beside its frame: the group of RADIO and DISH, the peer's routing id of SERVER
//! and PEER.

use std::time::Duration;

use crate::kind::{Addresses, Dials, Joins};
use crate::{Error, Socket};

impl<K: Joins> Socket<K> {
    /// Receives what RADIOs send to this group from now on; at most 255 bytes. Errors: Invalid for a longer one, or one
    /// that is joined already.
    pub fn join(&self, group: impl AsRef<[u8]>) -> Result<(), Error> {
        self.engine().join(group.as_ref(), true)
    }

    /// Leaves a group; of what was sent to it and not received yet nothing comes any more. Errors: Invalid for one that
    /// is not joined.
    pub fn leave(&self, group: impl AsRef<[u8]>) -> Result<(), Error> {
        self.engine().join(group.as_ref(), false)
    }

    /// Waits until a RADIO is there, and each that is knows all groups joined so far: what it sends to them from then
    /// on comes. Errors: WouldBlock when the time is over.
    pub fn wait_joined(&self, timeout: impl Into<Option<Duration>>) -> Result<(), Error> {
        self.engine().wait_subscribed(timeout.into())
    }
}

impl<K: Dials> Socket<K> {
    /// As [`connect`](Self::connect), and returns the routing id of the peer at the other end, which it keeps through
    /// reconnects; messages can be sent to it at once. Errors: Fault with the option IMMEDIATE, which knows no peer
    /// before its connection; those of `connect`.
    pub fn connect_peer(&self, endpoint: &str) -> Result<u32, Error> {
        self.engine().connect_peer(endpoint)
    }
}

impl<K: Addresses> Socket<K> {
    /// Ends the connection to the peer with this routing id, from now on: what the kernel does not take of what was
    /// accepted for it is not sent (and counted), what came from it can still be received. Where we connected to it,
    /// its endpoint is disconnected; a peer that connected to us may come again, under another routing id. Errors:
    /// Unreachable.
    pub fn disconnect_peer(&self, routing_id: u32) -> Result<(), Error> {
        self.engine().disconnect_peer(routing_id)
    }
}
