//! A connection from its first byte until traffic may flow.
//!
//! Call [`input`](Handshake::input) with what the peer sent, write what [`output`](Handshake::output) holds
//! and report it with [`sent`](Handshake::sent), in any order and in pieces of any size, until
//! [`peer`](Handshake::peer) is there. Then write the rest of the output, which precedes all traffic, and go
//! on with what `input` did not consume.
//!
//! The greeting leaves in stages, so that peers of every version understand it: ten bytes at once, the rest
//! as the peer's bytes show what it speaks. Those ten bytes are a signature to ZMTP 2.0 and later, and the
//! head of a long identity frame to ZMTP 1.0 (RFC 37, "Detecting ZMTP 1.0 and 2.0 Peers").
//!
//! After an error the handshake stays failed, and every further `input` returns the same error; its output
//! may still be written, followed by the error's [`reply`](crate::Error::reply). There is no time limit here:
//! the caller has the clock, and should have a deadline.
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
pub use crate::mechanism::{Decision, MechanismConfig, Refusal, Request, Traffic};
use crate::ws::Subprotocol;
use crate::{SocketType, Version, metadata};
pub(crate) use output::Output;
pub use peer::Peer;
use pinnace_crypto::SecretBytes;

/// What this side of a connection is.
#[derive(Debug)]
pub struct Config {
    /// Our kind of socket.
    pub socket_type: SocketType,
    /// Our routing id, 0 to 255 bytes. RFC 37 keeps those that begin with a zero byte for names that a ROUTER makes up.
    pub routing_id: Vec<u8>,
    /// The security mechanism that both sides must want.
    pub mechanism: MechanismConfig,
    /// Whether the caller wants to be asked who may come in: see [`Handshake::authorization`]. Without a meaning
    /// for the clients of PLAIN and CURVE. Peers before ZMTP 3.0 are refused then, since they say nothing of
    /// themselves.
    pub authorize: bool,
    /// What we tell the peer besides our kind of socket and routing id.
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

    /// The oldest version a peer may speak.
    pub(crate) fn oldest_version(&self) -> Version {
        if self.mechanism.allows_old_versions() && !self.authorize {
            self.limits.oldest_version
        } else {
            self.limits.oldest_version.max(Version::V3_0)
        }
    }

    /// What would show only once a peer is there.
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

/// What we accept from a peer before we know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How many bytes the peer's side of the handshake may have, from the greeting's first byte on. We hold
    /// no more of them than that, once as they came and once more as properties.
    pub max_handshake_bytes: usize,
    /// How many properties a peer may tell us.
    pub max_properties: usize,
    /// Peers that speak an older version are refused: [`Version::V3_0`] where peers must be authenticated.
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
    /// How long `unit` has to be before the state can go on; always more than it has.
    need: usize,
    /// How many bytes have been consumed in all.
    received: usize,
    output: Output,
}

#[derive(Debug)]
enum Progress {
    Running(State),
    Advancing,
    /// The caller has to decide.
    Asking(commands::Commands),
    Done(Peer, Traffic),
    Failed(Error),
}

/// What we wait for. Each state is a type that is consumed into the next.
#[derive(Debug)]
enum State {
    Greeting(greeting::Greeting),
    Identity(identity::Identity),
    Command(commands::Commands),
    /// Of a WebSocket server that begins.
    FirstOverWs,
}

/// What a state makes of the bytes it asked for.
enum Step {
    /// Needs the unit to have this many bytes.
    Need(State, u64),
    /// Is done with the unit; the next one starts with the byte after it.
    Next(State),
    /// Cannot go on before the caller has decided.
    Ask(commands::Commands),
    /// Was the last one.
    Done(Peer, Traffic),
}

/// What every state may use.
struct Context<'a> {
    config: &'a Config,
    output: &'a mut Output,
}

const MAX_ROUTING_ID: usize = 255;

impl Handshake {
    /// Starts a handshake; the first output is ready.
    ///
    /// A configuration that cannot work shows as [`Error::CallerMisuse`] from the first
    /// [`input`](Handshake::input).
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

    /// Starts what takes the place of the handshake over WebSocket, once the [upgrade](crate::ws::Upgrade) has
    /// settled the subprotocol. Input and output are ZMTP frames, which the caller translates. This is the side of the
    /// WebSocket server, which always begins.
    ///
    /// The peer's version will be 3.0, or 2.0 where there is no mechanism.
    pub fn over_ws(config: Config, subprotocol: Subprotocol) -> Handshake {
        Handshake::begin_over_ws(config, |context| over_ws::start(subprotocol, context))
    }

    /// The same on the side of the WebSocket client. Where a peer without mechanism would do, there is no output before
    /// the server has begun: there are servers that agree to a mechanism and then use none.
    pub fn over_ws_to_server(config: Config, subprotocol: Subprotocol) -> Handshake {
        Handshake::begin_over_ws(config, |context| over_ws::start_as_client(subprotocol, context))
    }

    fn begin_over_ws(
        config: Config,
        begin: impl FnOnce(&mut Context<'_>) -> Result<Step, Error>,
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

    /// Takes bytes from the peer and returns how many of them it has used: all until the handshake is over, or
    /// until there is an [`authorization`](Handshake::authorization) to be answered. The rest has to come again
    /// after the answer; it is not kept here, so the caller should not read on meanwhile.
    ///
    /// # Errors
    /// The connection cannot come about. The error is final and comes back from every further call.
    pub fn input(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        let mut used = 0;
        loop {
            match &self.progress {
                Progress::Running(_) => {}
                Progress::Advancing | Progress::Asking(_) | Progress::Done(..) => return Ok(used),
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

    /// The bytes that wait to be written, in order.
    pub fn output(&self) -> &[u8] {
        self.output.waiting()
    }

    /// Tells that the first `n` bytes of [`output`](Handshake::output) have been written.
    pub fn sent(&mut self, n: usize) {
        self.output.sent(n);
    }

    /// The peer, as soon as all is known of it. There may still be [`output`](Handshake::output) to write.
    pub fn peer(&self) -> Option<&Peer> {
        match &self.progress {
            Progress::Done(peer, _) => Some(peer),
            _ => None,
        }
    }

    /// Who wants to come in, while that has to be decided: where the configuration says `authorize`, before the
    /// first command (NULL) or after the client has said who it is (PLAIN's and CURVE's servers). Answer with
    /// [`authorize`](Handshake::authorize), whenever the answer is there.
    pub fn authorization(&self) -> Option<Request<'_>> {
        match &self.progress {
            Progress::Asking(commands) => commands.request(),
            _ => None,
        }
    }

    /// Answers the [`authorization`](Handshake::authorization). There is new output then, and maybe a peer.
    ///
    /// # Errors
    /// A refusal comes back as [`Error::PeerUnauthorized`], with which the handshake has failed; its
    /// [`reply`](Error::reply) is for the peer. [`Misuse::NothingToAuthorize`] where nobody has asked.
    pub fn authorize(&mut self, decision: Decision) -> Result<(), Error> {
        let commands = match std::mem::replace(&mut self.progress, Progress::Advancing) {
            Progress::Asking(commands) => commands,
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

    /// The peer and how frames travel, when the handshake is no longer needed.
    pub fn into_parts(self) -> Option<(Peer, Traffic)> {
        match self.progress {
            Progress::Done(peer, traffic) => Some((peer, traffic)),
            _ => None,
        }
    }

    /// Lets the state look at the unit it has been waiting for.
    fn advance(&mut self) {
        // The state is moved out and consumed; `Advancing` is seen by nobody.
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

    fn take(&mut self, step: Result<Step, Error>) {
        self.progress = match step.and_then(|step| self.apply(step)) {
            Ok(progress) => progress,
            Err(error) => Progress::Failed(error),
        };
        if !matches!(self.progress, Progress::Running(_)) {
            self.unit = SecretBytes::new();
        }
    }

    fn apply(&mut self, step: Step) -> Result<Progress, Error> {
        let (state, need) = match step {
            Step::Need(state, need) => (state, need),
            Step::Next(state) => {
                self.unit.clear();
                (state, 1)
            }
            Step::Ask(commands) => return Ok(Progress::Asking(commands)),
            Step::Done(peer, traffic) => return Ok(Progress::Done(peer, traffic)),
        };
        self.need = self.within_limit(need)?;
        Ok(Progress::Running(state))
    }

    /// No state gets more bytes than the limit leaves, whatever a peer has made it ask for.
    fn within_limit(&self, need: u64) -> Result<usize, Error> {
        let limit_bytes = self.config.limits.max_handshake_bytes;
        let left = limit_bytes.saturating_sub(self.received);
        match usize::try_from(need) {
            Ok(need) if need.saturating_sub(self.unit.len()) <= left => Ok(need),
            _ => Err(Misbehaviour::HandshakeTooLarge { limit_bytes }.into()),
        }
    }
}
