//! What a single-frame message carries besides its frame: the group (RADIO and DISH) or the peer's routing id (SERVER
//! and PEER).

use std::time::Duration;

use crate::kind::{Addresses, Dials, Joins};
use crate::{Error, Socket};

impl<K: Joins> Socket<K> {
    /// Receives the messages that RADIOs send to this group from now on; at most 255 bytes. Errors: Invalid if the
    /// group is longer or already joined.
    pub fn join(&self, group: impl AsRef<[u8]>) -> Result<(), Error> {
        self.engine().join(group.as_ref(), true)
    }

    /// Leaves a group. Messages of the group that are not received yet are discarded. Errors: Invalid if the group is
    /// not joined.
    pub fn leave(&self, group: impl AsRef<[u8]>) -> Result<(), Error> {
        self.engine().join(group.as_ref(), false)
    }

    /// Waits until at least one RADIO is connected and every connected one knows all groups joined so far. Messages
    /// that they send to these groups afterwards are received. Errors: WouldBlock on timeout.
    pub fn wait_joined(&self, timeout: impl Into<Option<Duration>>) -> Result<(), Error> {
        self.engine().wait_subscribed(timeout.into())
    }
}

impl<K: Dials> Socket<K> {
    /// As [`connect`](Self::connect), and returns the routing id of the peer at the other end. The routing id stays the
    /// same through reconnects, and messages can be sent to it at once. Errors: Fault with the option IMMEDIATE,
    /// because no peer exists before its connection does; those of `connect`.
    pub fn connect_peer(&self, endpoint: &str) -> Result<u32, Error> {
        self.engine().connect_peer(endpoint)
    }
}

impl<K: Addresses> Socket<K> {
    /// Closes the connection to the peer with this routing id at once. Accepted messages that the kernel does not take
    /// any more are not sent (and are counted). Messages already received from the peer can still be read. If we
    /// connected to the peer, its endpoint is disconnected; a peer that connected to us may reconnect under another
    /// routing id. Errors: Unreachable.
    pub fn disconnect_peer(&self, routing_id: u32) -> Result<(), Error> {
        self.engine().disconnect_peer(routing_id)
    }
}
