//! Who is at the other end of a pipe.

use pinnace_zmtp::Version;

/// What a peer said of itself in the handshake.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Its routing id; empty where it gave none.
    pub routing_id: Vec<u8>,
    pub version: Version,
}

impl Default for Peer {
    fn default() -> Peer {
        Peer { routing_id: Vec::new(), version: Version::V3_1 }
    }
}
