//! The connection to another client.

use std::time::{Duration, Instant};

use pinnace_engine::{Error, Outgoing};

use super::network::PeerLink;
use crate::environment::now;

/// How long a peer that should be there may take to answer before its client is told.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// A client that one of ours sends to.
pub struct Peer {
    pub client: u32,
    pub name: String,
    pub endpoint: String,
    /// A newer endpoint, to be used once the live connection is lost.
    pub elsewhere: Option<String>,
    pub link: Box<dyn PeerLink>,
    pub silence: Silence,
    /// When to connect again to a peer that refused us.
    pub again_at: Option<Instant>,
    /// It refused us, and has not accepted our streams since.
    pub was_refused: bool,
    /// It knows a copy of our store, and this opening uses a new id towards it.
    pub is_forked: bool,
    /// A frame could not be sent: the peer requests more than it reads.
    pub is_full: bool,
}

/// Whether a peer answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Silence {
    /// Its answer is waited for since then.
    Since(Instant),
    /// It has answered, or its client was told that it does not.
    Settled,
    /// No answer is expected: the registry shows it as away.
    Away,
}

impl Peer {
    pub fn new(client: u32, name: &str, endpoint: &str, link: Box<dyn PeerLink>) -> Peer {
        Peer {
            client,
            name: name.to_owned(),
            endpoint: endpoint.to_owned(),
            elsewhere: None,
            link,
            silence: Silence::Since(now()),
            again_at: None,
            was_refused: false,
            is_forked: false,
            is_full: false,
        }
    }

    /// The link has no high-water mark: credit limits what is in flight. Frames lost with a connection are sent again.
    pub fn send(&mut self, frame: Outgoing<'_>) {
        self.is_full |= self.link.send(frame) == Err(Error::WouldBlock);
    }

    /// When it will not have answered for too long.
    pub fn silent_at(&self) -> Option<Instant> {
        match self.silence {
            Silence::Since(since) => Some(since + ANSWER_TIMEOUT),
            Silence::Settled | Silence::Away => None,
        }
    }

    /// Connects to the newer endpoint, if there is one.
    pub fn move_on(&mut self) {
        let Some(endpoint) = self.elsewhere.take() else { return };
        // If the new endpoint cannot be connected to, keep the old one.
        if self.link.connect(&endpoint).is_ok() {
            self.link.disconnect(&self.endpoint);
            self.endpoint = endpoint;
            self.silence = Silence::Since(now());
        }
    }
}
