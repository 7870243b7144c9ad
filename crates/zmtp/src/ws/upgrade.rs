//! From HTTP to WebSocket, as either side (RFC 6455, section 4).

use super::client::{Client, Target};
use super::http::Head;
use super::server::{Request, Server};
use super::{Error, client, server};
use crate::{Config, Version};

/// What the frames behind the upgrade are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subprotocol {
    /// `ZWS2.0/` and the mechanism's name.
    Mechanism,
    /// `ZWS2.0`: no mechanism, and no commands.
    Bare,
}

/// Which subprotocols a socket can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// The security mechanism's name.
    pub mechanism: &'static str,
    /// Whether a peer may do without: never right where peers must be authenticated.
    pub bare: bool,
}

/// One side's upgrade. Like [`Handshake`](crate::Handshake), it is fed by [`input`](Upgrade::input) and emptied by
/// [`output`](Upgrade::output) and [`sent`](Upgrade::sent), until there is a [`subprotocol`](Upgrade::subprotocol).
///
/// What a peer can make it hold: [`MAX_HEAD`](super::MAX_HEAD) bytes.
#[derive(Debug)]
pub struct Upgrade {
    role: Role,
    offer: Offer,
    head: Head,
    progress: Progress,
    output: Vec<u8>,
    sent: usize,
}

#[derive(Debug)]
enum Role {
    Client(Client),
    Server(Server),
}

#[derive(Debug)]
enum Progress {
    Running,
    Done(Subprotocol),
    Failed(Error),
}

impl Offer {
    /// Its name on the wire.
    pub(super) fn name(&self, subprotocol: Subprotocol) -> String {
        match subprotocol {
            Subprotocol::Mechanism => format!("ZWS2.0/{}", self.mechanism),
            Subprotocol::Bare => "ZWS2.0".to_owned(),
        }
    }

    /// What we take, the better one first.
    pub(super) fn all(&self) -> &'static [Subprotocol] {
        if self.bare { &[Subprotocol::Mechanism, Subprotocol::Bare] } else { &[Subprotocol::Mechanism] }
    }
}

impl From<&Config> for Offer {
    /// A peer without mechanism is one of ZMTP 2.0, and is taken where those are: with NULL, unless
    /// [`oldest_version`](crate::Limits::oldest_version) is higher.
    fn from(config: &Config) -> Offer {
        Offer { mechanism: config.mechanism.name(), bare: config.oldest_version() <= Version::V2_0 }
    }
}

impl Upgrade {
    /// Asks a server. `random` makes the key by which its answer is recognised: 16 random bytes.
    ///
    /// # Errors
    /// [`Error::BadTarget`].
    pub fn client(target: &Target<'_>, offer: Offer, random: &[u8; 16]) -> Result<Upgrade, Error> {
        let mut output = Vec::new();
        let client = client::start(target, &offer, random, &mut output)?;
        Ok(Upgrade::new(Role::Client(client), offer, output))
    }

    /// Waits for a client.
    pub fn server(offer: Offer) -> Upgrade {
        Upgrade::new(Role::Server(Server::default()), offer, Vec::new())
    }

    fn new(role: Role, offer: Offer, output: Vec<u8>) -> Upgrade {
        Upgrade { role, offer, head: Head::default(), progress: Progress::Running, output, sent: 0 }
    }

    /// Takes bytes from the peer and returns how many of them belong to the upgrade: all of them until it is over.
    /// What a client gets behind the answer are frames already.
    ///
    /// # Errors
    /// The connection cannot come about. The error is final and comes back from every further call. A server has
    /// its answer to such a client in the output, to be written before closing.
    pub fn input(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        match &self.progress {
            Progress::Running => {}
            Progress::Done(_) => return Ok(0),
            Progress::Failed(error) => return Err(error.clone()),
        }
        let (used, gathered) = self.head.take(bytes);
        let result = match &mut self.role {
            Role::Client(client) => client.advance(gathered, self.head.bytes(), &self.offer),
            Role::Server(server) => {
                server.advance(gathered, self.head.bytes(), &self.offer, &mut self.output)
            }
        };
        match result {
            Ok(None) => return Ok(used),
            Ok(Some(subprotocol)) => self.progress = Progress::Done(subprotocol),
            Err(error) => {
                server::append_refusal(&error, &mut self.output);
                self.progress = Progress::Failed(error.clone());
                self.head = Head::default();
                return Err(error);
            }
        }
        self.head = Head::default();
        Ok(used)
    }

    /// The bytes that wait to be written, in order.
    pub fn output(&self) -> &[u8] {
        &self.output[self.sent..]
    }

    /// Tells that the first `n` bytes of [`output`](Upgrade::output) have been written.
    pub fn sent(&mut self, n: usize) {
        self.sent = self.sent.saturating_add(n).min(self.output.len());
    }

    /// What was agreed on, as soon as it is. There may still be [`output`](Upgrade::output) to write.
    pub fn subprotocol(&self) -> Option<Subprotocol> {
        match self.progress {
            Progress::Done(subprotocol) => Some(subprotocol),
            _ => None,
        }
    }

    /// What a client has asked for, where we are the server and said yes.
    pub fn request(&self) -> Option<&Request> {
        match &self.role {
            Role::Server(server) => server.request(),
            Role::Client(_) => None,
        }
    }
}
