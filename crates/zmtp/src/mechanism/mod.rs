//! Security mechanisms (RFC 37, "Authentication and Confidentiality"): the phase between greeting and traffic.
//!
//! Each mechanism is one file with its states. It receives every command of the peer in order, may append frames to
//! the output, and ends the handshake by returning the peer's properties and the transform for the traffic. It
//! never sees message frames, nor more bytes than the handshake's limit. A new mechanism needs a variant of
//! [`MechanismConfig`] with its parameters (keys, names), a [`Mechanism`], and a line in each function of
//! `MechanismConfig`.

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

/// The security mechanism that a socket requires, its side of it, and the parameters.
///
/// The variant alone says whether we are the client or the server. The greeting's as-server field announces our side;
/// the peer's field means little, because libzmq never sets it.
#[derive(Debug, Default)]
#[non_exhaustive]
pub enum MechanismConfig {
    /// No security: RFC 37, "The NULL Security Mechanism".
    #[default]
    Null,
    /// A name and a password in the clear (RFC 24): the side that sends them.
    PlainClient {
        /// At most 255 bytes.
        username: Vec<u8>,
        /// At most 255 bytes.
        password: SecretBytes,
    },
    /// The side that receives them. It accepts every client unless [`authorize`](crate::Config::authorize) is set.
    PlainServer,
    /// Keys, secrecy and authenticity (RFC 26): the side that knows the other side's public key in advance.
    CurveClient {
        /// Our long-term keys.
        keys: Arc<KeyPair>,
        /// The server's long-term public key.
        server_key: PublicKey,
        /// Fresh randomness, for this handshake only.
        entropy: curve::Entropy,
    },
    /// The side with the public key that clients know in advance.
    CurveServer {
        /// Our long-term keys.
        keys: Arc<KeyPair>,
        /// Fresh randomness, for this handshake only.
        entropy: curve::Entropy,
    },
}

impl MechanismConfig {
    /// The name in the greeting: at most 20 bytes.
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

    /// Whether peers older than ZMTP 3.0 are allowed: only with NULL (RFC 37, "Detecting ZMTP 1.0 and 2.0 Peers").
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

    /// Starts the mechanism right after the greetings. `metadata` is our properties for the peer; `authorize` is
    /// true if the caller decides about the peer.
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
    /// Parses a command's body.
    fn parse<'a>(&self, body: &'a [u8]) -> Result<Command<'a>, Error> {
        command::parse(body)
    }

    /// Handles a command of the peer.
    fn receive(
        &mut self,
        command: Command<'_>,
        limits: &Limits,
        output: &mut Output,
    ) -> Result<Outcome, Error>;

    /// The pending decision of the caller, if any.
    fn request(&self) -> Option<AuthorizationRequest<'_>> {
        None
    }

    /// Called when the caller has accepted the peer.
    fn accept(&mut self, _output: &mut Output) -> Outcome {
        Outcome::Wait
    }
}

/// The result of handling a command.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Waits for another command, or for the answer to the request.
    Wait,
    /// The handshake is complete: the peer's properties, and the form of the traffic.
    Ready(Vec<(String, Vec<u8>)>, Traffic),
}

/// The form of frames after the handshake.
#[derive(Debug)]
pub enum Traffic {
    /// Plain frames.
    Clear,
    /// CURVE's boxes: the first seals what we send, the second opens what we receive.
    Sealed(curve::Sealer, curve::Opener),
}

/// The peer that needs authorization: the data that ZAP (RFC 27) passes to its handler.
#[derive(Clone, PartialEq, Eq)]
pub struct AuthorizationRequest<'a> {
    /// The mechanism's name.
    pub mechanism: &'static str,
    /// NULL: none. PLAIN: name and password. CURVE: the client's long-term public key, 32 bytes; the peer has
    /// proved possession of its secret key.
    pub credentials: Vec<&'a [u8]>,
}

impl fmt::Debug for AuthorizationRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Request({}, {} credentials)", self.mechanism, self.credentials.len())
    }
}

/// The answer to a [`AuthorizationRequest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The peer is accepted.
    Accept,
    /// The peer is refused.
    Refuse(Refusal),
}

/// Why a peer is refused: ZAP's status codes (RFC 27, "The Reply Command").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Temporary failure: the peer gets no reply, so that it tries again.
    Temporary = 300,
    /// The peer is not authorized.
    Denied = 400,
    /// The handler failed.
    Failed = 500,
}

/// The frame that refuses a peer.
pub(crate) fn refusal(mechanism: &str, refusal: Refusal) -> Vec<u8> {
    let status = (refusal as u16).to_string();
    let mut out = Vec::new();
    match mechanism {
        "PLAIN" => plain::encode_refusal(status.as_bytes(), &mut out),
        _ => command::encode_error(status.as_bytes(), &mut out),
    }
    out
}

/// The error for a command that is not allowed in this state.
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

/// As [`unexpected`], where an ERROR is allowed: with NULL, and at a client.
fn unexpected_unless_error(command: Command<'_>) -> Error {
    match command {
        Command::Error { reason } => Error::PeerRefused { reason: reason.to_vec() },
        other => unexpected(other),
    }
}
