//! The state machine of a connection from its first byte until traffic may flow.
//!
//! Pass received bytes to [`input`](Handshake::input), write the content of [`output`](Handshake::output) and
//! report it with [`sent`](Handshake::sent), in any order and in pieces of any size, until
//! [`peer`](Handshake::peer) returns a peer. Then write the rest of the output, which precedes all traffic, and
//! parse the bytes that `input` did not consume as traffic.
//!
//! The greeting is sent in stages, so that peers of every version understand it: ten bytes at once, the rest when
//! the peer's bytes show its version. The ten bytes are a signature for ZMTP 2.0 and later, and the head of a long
//! identity frame for ZMTP 1.0 (RFC 37, "Detecting ZMTP 1.0 and 2.0 Peers").
//!
//! After an error the handshake stays failed, and every further `input` returns the same error. The caller may
//! still write the output, followed by the error's [`reply`](crate::Error::reply). There is no timeout here: the
//! caller has the clock, and should set a deadline.
//!
//! ```
//! use pinnace_zmtp::{Config, Handshake, SocketType, Version};
//!
//! let mut pull = Handshake::new(Config::new(SocketType::Pull));
//! assert_eq!(pull.output(), b"\xff\0\0\0\0\0\0\0\x01\x7f");
//! pull.sent(10);
//!
//! // A PUSH socket that speaks ZMTP 2.0, with a message right behind its empty identity.
//! let bytes = b"\xff\0\0\0\0\0\0\0\x01\x7f\x01\x08\0\0\0\x05hello";
//! assert_eq!(pull.input(bytes)?, 14);
//! assert_eq!(pull.output(), b"\x03\x07\0\0");
//! assert_eq!(pull.peer().unwrap().version, Version::V2_0);
//! # Ok::<(), pinnace_zmtp::Error>(())
//! ```

mod commands;
mod greeting;
mod identity;
mod output;
mod over_ws;
mod peer;

use crate::error::{Error, Misbehaviour, Misuse};
pub use crate::mechanism::{AuthorizationRequest, Decision, MechanismConfig, Refusal, Traffic};
use crate::ws::Subprotocol;
use crate::{SocketType, Version, metadata};
pub(crate) use output::Output;
pub use peer::Peer;
use pinnace_crypto::SecretBytes;

/// The configuration of our side of a connection.
#[derive(Debug)]
pub struct Config {
    /// Our socket type.
    pub socket_type: SocketType,
    /// Our routing id, 0 to 255 bytes. RFC 37 reserves ids that begin with a zero byte for ids that a ROUTER
    /// generates.
    pub routing_id: Vec<u8>,
    /// The security mechanism, which must be the same on both sides.
    pub mechanism: MechanismConfig,
    /// True if the caller decides about each peer: see [`Handshake::authorization`]. No effect for the clients of
    /// PLAIN and CURVE. Peers older than ZMTP 3.0 are refused then, because they send no properties.
    pub authorize: bool,
    /// Properties that we send besides our socket type and routing id.
    pub properties: Vec<(String, Vec<u8>)>,
    /// What we accept from the peer.
    pub limits: Limits,
}

impl Config {
    /// A socket without routing id and security, with the default limits.
    pub fn new(socket_type: SocketType) -> Config {
        Config {
            socket_type,
            routing_id: Vec::new(),
            mechanism: MechanismConfig::Null,
            authorize: false,
            properties: Vec::new(),
            limits: Limits::default(),
        }
    }

    /// The oldest version that a peer may speak.
    pub(crate) fn oldest_version(&self) -> Version {
        if self.mechanism.allows_old_versions() && !self.authorize {
            self.limits.oldest_version
        } else {
            self.limits.oldest_version.max(Version::V3_0)
        }
    }

    /// Reports configuration errors that would otherwise show only when a peer connects.
    fn check(&self) -> Result<(), Error> {
        if self.routing_id.len() > MAX_ROUTING_ID {
            return Err(Misuse::RoutingIdTooLong { len: self.routing_id.len() }.into());
        }
        for (name, value) in &self.properties {
            let reserved = [metadata::SOCKET_TYPE, metadata::IDENTITY];
            if reserved.iter().any(|reserved| reserved.eq_ignore_ascii_case(name)) {
                return Err(Misuse::PropertyName.into());
            }
            metadata::encode(name, value, &mut Vec::new())?;
        }
        self.mechanism.check()
    }
}

/// Limits on a peer before the handshake is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of bytes of the peer's side of the handshake, counted from the greeting's first byte. We hold
    /// at most that many twice: once raw and once as properties.
    pub max_handshake_bytes: usize,
    /// Maximum number of properties from a peer.
    pub max_properties: usize,
    /// Peers with an older version are refused. At least [`Version::V3_0`] if peers must be authenticated.
    pub oldest_version: Version,
}

impl Default for Limits {
    /// 64 KiB, 64 properties, all versions.
    fn default() -> Limits {
        Limits { max_handshake_bytes: 64 * 1024, max_properties: 64, oldest_version: Version::V1_0 }
    }
}

/// One side's handshake.
#[derive(Debug)]
pub struct Handshake {
    config: Config,
    progress: Progress,
    /// The greeting or frame that is being read, from its first byte.
    unit: SecretBytes,
    /// The length that `unit` needs before the state can advance; always more than its current length.
    need: usize,
    /// Total number of bytes consumed.
    received: usize,
    output: Output,
}

#[derive(Debug)]
enum Progress {
    Running(State),
    Advancing,
    /// Waits for the caller's decision about the peer.
    AwaitingAuthorization(commands::Commands),
    Done(Peer, Traffic),
    Failed(Error),
}

/// The input that we wait for. Each state is a type that is consumed into the next.
#[derive(Debug)]
enum State {
    Greeting(greeting::Greeting),
    Identity(identity::Identity),
    Command(commands::Commands),
    /// The first frame of a WebSocket server that sends first.
    FirstOverWs,
}

/// The result of a state for the bytes it asked for.
enum HandshakeStep {
    /// Needs this many bytes in the unit.
    Need(State, u64),
    /// Has consumed the unit; the next one starts with the following byte.
    Next(State),
    /// Waits for the caller's decision.
    Ask(commands::Commands),
    /// The handshake is complete.
    Done(Peer, Traffic),
}

/// Shared by all states.
struct Context<'a> {
    config: &'a Config,
    output: &'a mut Output,
}

const MAX_ROUTING_ID: usize = 255;

impl Handshake {
    /// Starts a handshake; the first output is ready.
    ///
    /// An invalid configuration is reported as [`Error::CallerMisuse`] by the first [`input`](Handshake::input).
    pub fn new(config: Config) -> Handshake {
        let mut output = Output::default();
        let progress = match config.check() {
            Ok(()) => {
                Progress::Running(greeting::start(&mut Context { config: &config, output: &mut output }))
            }
            Err(error) => Progress::Failed(error),
        };
        Handshake { config, progress, unit: SecretBytes::new(), need: 1, received: 0, output }
    }

    /// Starts the handshake over WebSocket, after the [upgrade](crate::ws::Upgrade) has settled the subprotocol.
    /// Input and output are ZMTP frames, which the caller translates. This is the WebSocket server's side, which
    /// always sends first.
    ///
    /// The peer's version will be 3.0, or 2.0 without a mechanism.
    pub fn over_ws(config: Config, subprotocol: Subprotocol) -> Handshake {
        Handshake::begin_over_ws(config, |context| over_ws::start(subprotocol, context))
    }

    /// The WebSocket client's side. If a peer without a mechanism is acceptable, there is no output before the
    /// server has sent: some servers agree to a mechanism and then use none.
    pub fn over_ws_to_server(config: Config, subprotocol: Subprotocol) -> Handshake {
        Handshake::begin_over_ws(config, |context| over_ws::start_as_client(subprotocol, context))
    }

    fn begin_over_ws(
        config: Config,
        begin: impl FnOnce(&mut Context<'_>) -> Result<HandshakeStep, Error>,
    ) -> Handshake {
        let mut handshake = Handshake {
            config,
            progress: Progress::Advancing,
            unit: SecretBytes::new(),
            need: 1,
            received: 0,
            output: Output::default(),
        };
        let checked = handshake.config.check();
        let mut context = Context { config: &handshake.config, output: &mut handshake.output };
        let step = checked.and_then(|()| begin(&mut context));
        handshake.take(step);
        handshake
    }

    /// Passes received bytes in and returns how many of them were used: all until the handshake is complete, or
    /// until an [`authorization`](Handshake::authorization) is pending. The caller passes the rest again after its
    /// decision; it is not kept here, so the caller should stop reading meanwhile.
    ///
    /// # Errors
    /// The handshake has failed. The error is final, and every further call returns it.
    pub fn input(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        let mut used = 0;
        loop {
            match &self.progress {
                Progress::Running(_) => {}
                Progress::Advancing | Progress::AwaitingAuthorization(_) | Progress::Done(..) => {
                    return Ok(used);
                }
                Progress::Failed(error) => return Err(error.clone()),
            }
            let take = (self.need - self.unit.len()).min(bytes.len() - used);
            self.unit.extend_from_slice(&bytes[used..used + take]);
            self.received += take;
            used += take;
            if self.unit.len() < self.need {
                return Ok(used);
            }
            self.advance();
        }
    }

    /// The bytes to be written, in order.
    pub fn output(&self) -> &[u8] {
        self.output.waiting()
    }

    /// Reports that the first `n` bytes of [`output`](Handshake::output) have been written.
    pub fn sent(&mut self, n: usize) {
        self.output.sent(n);
    }

    /// The peer, once the handshake is complete. There may still be [`output`](Handshake::output) to write.
    pub fn peer(&self) -> Option<&Peer> {
        match &self.progress {
            Progress::Done(peer, _) => Some(peer),
            _ => None,
        }
    }

    /// The peer that needs authorization, while the decision is pending. It is pending if the configuration sets
    /// `authorize`: before the first command (NULL) or after the client has sent its credentials (servers of PLAIN
    /// and CURVE). Answer with [`authorize`](Handshake::authorize), at any time.
    pub fn authorization(&self) -> Option<AuthorizationRequest<'_>> {
        match &self.progress {
            Progress::AwaitingAuthorization(commands) => commands.request(),
            _ => None,
        }
    }

    /// Answers the [`authorization`](Handshake::authorization). New output is ready then, and possibly a peer.
    ///
    /// # Errors
    /// A refusal is returned as [`Error::PeerUnauthorized`] and fails the handshake; send its
    /// [`reply`](Error::reply) to the peer. [`Misuse::NothingToAuthorize`] if no decision is pending.
    pub fn authorize(&mut self, decision: Decision) -> Result<(), Error> {
        let commands = match std::mem::replace(&mut self.progress, Progress::Advancing) {
            Progress::AwaitingAuthorization(commands) => commands,
            other => {
                self.progress = other;
                return Err(Misuse::NothingToAuthorize.into());
            }
        };
        let mut context = Context { config: &self.config, output: &mut self.output };
        let step = match decision {
            Decision::Accept => commands.accept(&mut context),
            Decision::Refuse(refusal) => {
                Err(Error::PeerUnauthorized { refusal, mechanism: self.config.mechanism.name() })
            }
        };
        self.take(step);
        match &self.progress {
            Progress::Failed(error) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// The peer and the form of the traffic, once the handshake is complete.
    pub fn into_parts(self) -> Option<(Peer, Traffic)> {
        match self.progress {
            Progress::Done(peer, traffic) => Some((peer, traffic)),
            _ => None,
        }
    }

    /// Passes the unit to the state that waits for it.
    fn advance(&mut self) {
        // The state is moved out and consumed; nothing observes `Advancing`.
        let Progress::Running(state) = std::mem::replace(&mut self.progress, Progress::Advancing) else {
            return;
        };
        let mut context = Context { config: &self.config, output: &mut self.output };
        let step = match state {
            State::Greeting(greeting) => greeting.advance(&self.unit, &mut context),
            State::Identity(identity) => identity.advance(&self.unit),
            State::Command(commands) => commands.advance(&self.unit, &mut context),
            State::FirstOverWs => over_ws::advance(&self.unit, &mut context),
        };
        self.take(step);
    }

    fn take(&mut self, step: Result<HandshakeStep, Error>) {
        self.progress = match step.and_then(|step| self.apply(step)) {
            Ok(progress) => progress,
            Err(error) => Progress::Failed(error),
        };
        if !matches!(self.progress, Progress::Running(_)) {
            self.unit = SecretBytes::new();
        }
    }

    fn apply(&mut self, step: HandshakeStep) -> Result<Progress, Error> {
        let (state, need) = match step {
            HandshakeStep::Need(state, need) => (state, need),
            HandshakeStep::Next(state) => {
                self.unit.clear();
                (state, 1)
            }
            HandshakeStep::Ask(commands) => return Ok(Progress::AwaitingAuthorization(commands)),
            HandshakeStep::Done(peer, traffic) => return Ok(Progress::Done(peer, traffic)),
        };
        self.need = self.within_limit(need)?;
        Ok(Progress::Running(state))
    }

    /// Bounds what a state may ask for by the rest of the limit.
    fn within_limit(&self, need: u64) -> Result<usize, Error> {
        let limit_bytes = self.config.limits.max_handshake_bytes;
        let left = limit_bytes.saturating_sub(self.received);
        match usize::try_from(need) {
            Ok(need) if need.saturating_sub(self.unit.len()) <= left => Ok(need),
            _ => Err(Misbehaviour::HandshakeTooLarge { limit_bytes }.into()),
        }
    }
}
