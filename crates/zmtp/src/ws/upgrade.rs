//! The upgrade from HTTP to WebSocket, both sides (RFC 6455, section 4).

use super::client::{Client, Target};
use super::http::Head;
use super::server::{Request, Server};
use super::{Error, client, server};
use crate::{Config, Version};

/// The format of the frames after the upgrade.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subprotocol {
    /// `ZWS2.0/` and the mechanism's name.
    Mechanism,
    /// `ZWS2.0`: no mechanism, and no commands.
    Bare,
}

/// The subprotocols that a socket accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// The security mechanism's name.
    pub mechanism: &'static str,
    /// Whether a peer without a mechanism is accepted. Must be false if peers must be authenticated.
    pub bare: bool,
}

/// One side's upgrade. As with [`Handshake`](crate::Handshake), the caller passes bytes to
/// [`input`](Upgrade::input), and writes [`output`](Upgrade::output) and reports it with [`sent`](Upgrade::sent),
/// until [`subprotocol`](Upgrade::subprotocol) returns a value.
///
/// A peer can make it hold at most [`MAX_HEAD`](super::MAX_HEAD) bytes.
#[derive(Debug)]
pub struct Upgrade {
    role: UpgradeRole,
    offer: Offer,
    head: Head,
    progress: UpgradeProgress,
    output: Vec<u8>,
    sent: usize,
}

#[derive(Debug)]
enum UpgradeRole {
    Client(Client),
    Server(Server),
}

#[derive(Debug)]
enum UpgradeProgress {
    Running,
    Done(Subprotocol),
    Failed(Error),
}

impl Offer {
    /// The subprotocol's name on the wire.
    pub(super) fn name(&self, subprotocol: Subprotocol) -> String {
        match subprotocol {
            Subprotocol::Mechanism => format!("ZWS2.0/{}", self.mechanism),
            Subprotocol::Bare => "ZWS2.0".to_owned(),
        }
    }

    /// The subprotocols that we accept, in order of preference.
    pub(super) fn all(&self) -> &'static [Subprotocol] {
        if self.bare { &[Subprotocol::Mechanism, Subprotocol::Bare] } else { &[Subprotocol::Mechanism] }
    }
}

impl From<&Config> for Offer {
    /// A peer without a mechanism counts as ZMTP 2.0, and is accepted if such peers are: with NULL, unless
    /// [`oldest_version`](crate::Limits::oldest_version) is higher.
    fn from(config: &Config) -> Offer {
        Offer { mechanism: config.mechanism.name(), bare: config.oldest_version() <= Version::V2_0 }
    }
}

impl Upgrade {
    /// The client's side. `random` is 16 random bytes, from which the key in the request is made.
    ///
    /// # Errors
    /// [`Error::BadTarget`].
    pub fn client(target: &Target<'_>, offer: Offer, random: &[u8; 16]) -> Result<Upgrade, Error> {
        let mut output = Vec::new();
        let client = client::start(target, &offer, random, &mut output)?;
        Ok(Upgrade::new(UpgradeRole::Client(client), offer, output))
    }

    /// The server's side.
    pub fn server(offer: Offer) -> Upgrade {
        Upgrade::new(UpgradeRole::Server(Server::default()), offer, Vec::new())
    }

    fn new(role: UpgradeRole, offer: Offer, output: Vec<u8>) -> Upgrade {
        Upgrade { role, offer, head: Head::default(), progress: UpgradeProgress::Running, output, sent: 0 }
    }

    /// Passes received bytes in and returns how many of them belong to the upgrade: all until it is complete. The
    /// bytes after a server's response are WebSocket frames.
    ///
    /// # Errors
    /// The upgrade has failed. The error is final, and every further call returns it. On a server the output holds
    /// the response to write before closing.
    pub fn input(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        match &self.progress {
            UpgradeProgress::Running => {}
            UpgradeProgress::Done(_) => return Ok(0),
            UpgradeProgress::Failed(error) => return Err(error.clone()),
        }
        let (used, gathered) = self.head.take(bytes);
        let result = match &mut self.role {
            UpgradeRole::Client(client) => client.advance(gathered, self.head.bytes(), &self.offer),
            UpgradeRole::Server(server) => {
                server.advance(gathered, self.head.bytes(), &self.offer, &mut self.output)
            }
        };
        match result {
            Ok(None) => return Ok(used),
            Ok(Some(subprotocol)) => self.progress = UpgradeProgress::Done(subprotocol),
            Err(error) => {
                server::append_refusal(&error, &mut self.output);
                self.progress = UpgradeProgress::Failed(error.clone());
                self.head = Head::default();
                return Err(error);
            }
        }
        self.head = Head::default();
        Ok(used)
    }

    /// The bytes to be written, in order.
    pub fn output(&self) -> &[u8] {
        &self.output[self.sent..]
    }

    /// Reports that the first `n` bytes of [`output`](Upgrade::output) have been written.
    pub fn sent(&mut self, n: usize) {
        self.sent = self.sent.saturating_add(n).min(self.output.len());
    }

    /// The negotiated subprotocol, once the upgrade is complete. There may still be [`output`](Upgrade::output) to
    /// write.
    pub fn subprotocol(&self) -> Option<Subprotocol> {
        match self.progress {
            UpgradeProgress::Done(subprotocol) => Some(subprotocol),
            _ => None,
        }
    }

    /// The client's request, if we are the server and have accepted it.
    pub fn request(&self) -> Option<&Request> {
        match &self.role {
            UpgradeRole::Server(server) => server.request(),
            UpgradeRole::Client(_) => None,
        }
    }
}
