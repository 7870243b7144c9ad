//! A connection to another client.

use std::time::Instant;

use pinnace_engine::{Error, Outgoing, Socket};

/// A client that one of ours sends to.
pub struct Peer {
    pub client: u32,
    pub name: String,
    pub endpoint: String,
    /// Where it is said to be since, while the connection lives.
    pub elsewhere: Option<String>,
    pub socket: Socket,
    /// It has said that it takes our streams, since the connection was last lost.
    pub live: bool,
    /// What it takes since then, and what was sent, as messages cost.
    pub credit: u64,
    pub sent: u64,
    pub lanes: Vec<u32>,
    /// Lanes that wait for credit.
    pub stalled: Vec<u32>,
    /// It was refused: when to ask again.
    pub again_at: Option<Instant>,
    /// It has not taken our streams since.
    pub was_refused: bool,
    /// It has known a copy of our store, and in this opening we are somebody else to it.
    pub is_parted: bool,
    /// Something could not be sent: it asks for more than it reads.
    pub is_full: bool,
}

impl Peer {
    pub fn new(client: u32, name: &str, endpoint: &str, socket: Socket) -> Peer {
        Peer {
            client,
            name: name.to_owned(),
            endpoint: endpoint.to_owned(),
            elsewhere: None,
            socket,
            live: false,
            credit: 0,
            sent: 0,
            lanes: Vec::new(),
            stalled: Vec::new(),
            again_at: None,
            was_refused: false,
            is_parted: false,
            is_full: false,
        }
    }

    /// There is no mark: credit limits what is under way. What is lost with a connection is sent again.
    pub fn send(&mut self, frame: Outgoing<'_>) {
        self.is_full |= self.socket.send(frame, false, false) == Err(Error::WouldBlock);
    }

    /// Goes where the peer is said to be now.
    pub fn move_on(&mut self) {
        let Some(endpoint) = self.elsewhere.take() else { return };
        // An address that cannot be connected to is not a better one than the last.
        if self.socket.connect(&endpoint).is_ok() {
            let _ = self.socket.disconnect(&self.endpoint);
            self.endpoint = endpoint;
        }
    }
}
