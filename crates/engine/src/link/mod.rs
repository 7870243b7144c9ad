//! A connection to a peer, after its handshake: it moves bytes between the kernel and the queues of one pipe.

use pinnace_ring::Producer;

/// One connection.
pub struct Link {}

impl Link {
    /// Whether what has gathered in `_queue` has to be written now, by the caller, once the socket's lock is open.
    #[inline(always)]
    pub(crate) fn after_commit(&self, _queue: &Producer, _turned: bool) -> bool {
        true
    }
}
