//! Security mechanisms (RFC 37, "Authentication and Confidentiality"): what happens between greeting and
//! traffic.
//!
//! A mechanism is one file with its states. It is told of every command that the peer sends, in order, may
//! append frames to the output, and ends the handshake by handing over the peer's properties and what traffic
//! goes through. It never sees message frames and never more bytes than the handshake's limit. A new mechanism
//! is a variant of [`MechanismConfig`] with what it needs to know (keys, names), a [`Mechanism`], and a line in
//! each function of the former.

pub mod curve;
mod null;
mod plain;

use std::fmt;
use std::sync::Arc;

use pinnace_crypto::{KeyPair, PublicKey, SecretBytes};

use crate::command::{self, Command};
use crate::error::{Error, Misbehaviour, Misuse};
use crate::handshake::{Limits, Output};

/// The longest name or password of PLAIN, in bytes.
const MAX_CREDENTIAL: usize = 255;

/// Which security mechanism a socket wants, on which side of it, and what it needs for that.
///
/// Clients and servers of a mechanism are told apart by this alone. The greeting's as-server field says what
/// we are; what the peer says there means little, since libzmq never says that it is the server.
#[derive(Debug, Default)]
#[non_exhaustive]
pub enum MechanismConfig {
    /// No security: RFC 37, "The NULL Security Mechanism".
    #[default]
    Null,
    /// A name and a password in the clear: RFC 24, the side that sends them.
    PlainClient {
        /// At most 255 bytes.
        username: Vec<u8>,
        /// At most 255 bytes.
        password: SecretBytes,
    },
    /// The side that is sent them. It lets everybody in unless [`authorize`](crate::Config::authorize) is set.
    PlainServer,
    /// Keys, secrecy and authenticity: RFC 26, the side that knows the other's public key.
    CurveClient {
        /// Our long-term keys.
        keys: Arc<KeyPair>,
        /// The server's long-term public key.
        server_key: PublicKey,
        /// Fresh randomness, for this handshake alone.
        entropy: curve::Entropy,
    },
    /// The side whose public key the other knows.
    CurveServer {
        /// Our long-term keys.
        keys: Arc<KeyPair>,
        /// Fresh randomness, for this handshake alone.
        entropy: curve::Entropy,
    },
}

impl MechanismConfig {
    /// The name, as it stands in the greeting: at most 20 bytes.
    pub fn name(&self) -> &'static str {
        use MechanismConfig::*;
        match self {
            Null => "NULL",
            PlainClient { .. } | PlainServer => "PLAIN",
            CurveClient { .. } | CurveServer { .. } => "CURVE",
        }
    }

    /// Whether we are the mechanism's server. NULL has none (RFC 37, "Topology").
    pub fn is_server(&self) -> bool {
        matches!(self, MechanismConfig::PlainServer | MechanismConfig::CurveServer { .. })
    }

    /// Whether peers before ZMTP 3.0 may take part: with NULL alone (RFC 37, "Detecting ZMTP 1.0 and 2.0
    /// Peers").
    pub(crate) fn allows_old_versions(&self) -> bool {
        matches!(self, MechanismConfig::Null)
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        let MechanismConfig::PlainClient { username, password } = self else { return Ok(()) };
        match username.len().max(password.len()) {
            len if len > MAX_CREDENTIAL => Err(Misuse::CredentialTooLong { len }.into()),
            _ => Ok(()),
        }
    }

    /// Starts the mechanism right after the greetings. `metadata` is what we have to tell the peer;
    /// `authorize` says whether the caller wants to be asked about it.
    pub(crate) fn start(
        &self,
        metadata: Vec<u8>,
        authorize: bool,
        output: &mut Output,
    ) -> Result<Box<dyn Mechanism>, Error> {
        use MechanismConfig::*;
        Ok(match self {
            Null => Box::new(null::Null::start(metadata, authorize, output)),
            PlainClient { username, password } => {
                Box::new(plain::Client::start(metadata, username, password, output))
            }
            PlainServer => Box::new(plain::Server::new(metadata, authorize)),
            CurveClient { keys, server_key, entropy } => {
                Box::new(curve::Client::start(metadata, keys.clone(), server_key, entropy, output)?)
            }
            CurveServer { keys, entropy } => {
                Box::new(curve::Server::new(metadata, authorize, keys.clone(), entropy))
            }
        })
    }
}

/// A running mechanism.
pub(crate) trait Mechanism: fmt::Debug + Send + Sync {
    /// Reads a command's body.
    fn parse<'a>(&self, body: &'a [u8]) -> Result<Command<'a>, Error> {
        command::parse(body)
    }

    /// Takes a command of the peer.
    fn receive(
        &mut self,
        command: Command<'_>,
        limits: &Limits,
        output: &mut Output,
    ) -> Result<Outcome, Error>;

    /// What the caller has to decide before anything goes on.
    fn request(&self) -> Option<Request<'_>> {
        None
    }

    /// The caller has let the peer in.
    fn accept(&mut self, _output: &mut Output) -> Outcome {
        Outcome::Wait
    }
}

/// What a mechanism makes of a command.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It waits for another command, or for the answer to its request.
    Wait,
    /// The handshake is over: the peer's properties, and how traffic goes.
    Ready(Vec<(String, Vec<u8>)>, Traffic),
}

/// How frames travel after the handshake.
#[derive(Debug)]
pub enum Traffic {
    /// As they are.
    Clear,
    /// In CURVE's boxes: what we send goes through the one, what we receive through the other.
    Sealed(curve::Sealer, curve::Opener),
}

/// Who wants to come in: what ZAP (RFC 27) asks its handler.
#[derive(Clone, PartialEq, Eq)]
pub struct Request<'a> {
    /// The mechanism's name.
    pub mechanism: &'static str,
    /// NULL: nothing. PLAIN: name and password. CURVE: the client's long-term public key, 32 bytes, whose owner
    /// the peer has shown to be.
    pub credentials: Vec<&'a [u8]>,
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Request({}, {} credentials)", self.mechanism, self.credentials.len())
    }
}

/// The answer to a [`Request`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The peer may come in.
    Accept,
    /// It may not.
    Refuse(Refusal),
}

/// Why a peer may not come in: ZAP's status codes (RFC 27, "The Reply Command").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Not now: the peer is told nothing, so that it tries again.
    Temporary = 300,
    /// It is nobody we know.
    Denied = 400,
    /// The handler failed.
    Failed = 500,
}

/// The frame that tells a peer that it may not come in.
pub(crate) fn refusal(mechanism: &str, refusal: Refusal) -> Vec<u8> {
    let status = (refusal as u16).to_string();
    let mut out = Vec::new();
    match mechanism {
        "PLAIN" => plain::encode_refusal(status.as_bytes(), &mut out),
        _ => command::encode_error(status.as_bytes(), &mut out),
    }
    out
}

/// A command that has no place here.
fn unexpected(command: Command<'_>) -> Error {
    let name: &[u8] = match command {
        Command::Ready(_) => b"READY",
        Command::Error { .. } => b"ERROR",
        Command::Ping { .. } => b"PING",
        Command::Pong { .. } => b"PONG",
        Command::Subscribe(_) => b"SUBSCRIBE",
        Command::Cancel(_) => b"CANCEL",
        Command::Join(_) => b"JOIN",
        Command::Leave(_) => b"LEAVE",
        Command::Unknown { name, .. } => name,
    };
    Misbehaviour::UnexpectedCommand { name: name.to_vec() }.into()
}

/// The same, where an ERROR has its place: with NULL, and at a client.
fn unexpected_unless_error(command: Command<'_>) -> Error {
    match command {
        Command::Error { reason } => Error::PeerRefused { reason: reason.to_vec() },
        other => unexpected(other),
    }
}
