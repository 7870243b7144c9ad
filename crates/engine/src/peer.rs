//! Who is at the other end of a pipe.

use pinnace_zmtp::{SocketType, Version};

/// What a peer said of itself in the handshake, and where it is.
#[derive(Debug, Clone)]
pub struct Peer {
    pub socket_type: Option<SocketType>,
    /// Its routing id; empty where it gave none.
    pub routing_id: Vec<u8>,
    pub version: Version,
    /// Its address (tcp), or empty.
    pub address: String,
    /// Further properties of its READY.
    pub properties: Vec<(String, Vec<u8>)>,
}

impl Default for Peer {
    fn default() -> Peer {
        Peer {
            socket_type: None,
            routing_id: Vec::new(),
            version: Version::V3_1,
            address: String::new(),
            properties: Vec::new(),
        }
    }
}
