//! The connection to another client.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use pinnace_engine::{Error, Outgoing};

use super::network::PeerLink;
use crate::environment::now;
use crate::properties;
use crate::statistics::ReceiverState;
use crate::store::VolatileRun;
use crate::wire::{Features, PROPERTIES};

/// How long a peer that the registry lists as alive may take to answer before `NoAnswer` is reported to our client.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// A client that one of ours sends to.
pub struct Peer {
    pub client: u32,
    pub name: String,
    pub endpoint: String,
    /// A newer endpoint, to be used once the live connection is lost.
    pub elsewhere: Option<String>,
    pub link: Box<dyn PeerLink>,
    pub answer: AnswerState,
    /// What both sides can do on this connection.
    pub features: Features,
    /// Whether properties of messages were left out for it.
    pub properties: Left,
    /// It does not speak our version of the protocol, and was asked again in the first one on this connection.
    pub was_asked_again: bool,
    /// When to connect again to a peer that refused us.
    pub again_at: Option<Instant>,
    /// It refused us, and has not accepted our streams since.
    pub was_refused: bool,
    /// Why it gets no messages, if that was reported.
    pub problem: Option<PeerProblem>,
    /// It has talked to a copy of our store, so our client uses another id towards it until the store is reopened.
    pub is_forked: bool,
    /// A frame hit the limit in bytes: the peer causes more frames than it reads.
    pub is_full: bool,
}

/// Why a peer gets no messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerProblem {
    pub connection: ReceiverState,
    pub text: String,
}

/// Whether messages were sent to a peer without their properties, because the peer lacks that feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    In,
    Out,
    OutAndReported,
}

/// Whether a peer answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerState {
    AwaitedSince(Instant),
    AnsweredOrReported,
    /// The registry shows it as away.
    NotExpected,
}

impl Peer {
    pub fn new(client: u32, name: &str, endpoint: &str, link: Box<dyn PeerLink>) -> Peer {
        Peer {
            client,
            name: name.to_owned(),
            endpoint: endpoint.to_owned(),
            elsewhere: None,
            link,
            answer: AnswerState::AwaitedSince(now()),
            features: Features::NONE,
            properties: Left::In,
            was_asked_again: false,
            again_at: None,
            was_refused: false,
            problem: None,
            is_forked: false,
            is_full: false,
        }
    }

    /// The connection has ended: the next one begins in our version again.
    pub fn end_connection(&mut self) {
        (self.features, self.was_asked_again) = (Features::NONE, false);
    }

    /// Only a limit in bytes applies, which a peer that keeps to its credit cannot reach. Frames lost with a connection
    /// are sent again.
    pub fn send(&mut self, frame: Outgoing<'_>) {
        self.is_full |= self.link.send(frame) == Err(Error::WouldBlock);
    }

    /// A part as this peer can take it.
    pub fn fit<'a>(&mut self, flags: u8, body: &'a [u8]) -> (u8, Cow<'a, [u8]>) {
        if flags & PROPERTIES == 0 || self.features.has(Features::PROPERTIES) {
            return (flags, Cow::Borrowed(body));
        }
        self.leave_properties_out();
        properties::without(flags, body)
    }

    /// Volatile messages of a stream as this peer can take them.
    pub fn fit_run(&mut self, stream: u32, run: VolatileRun) -> VolatileRun {
        if !run.of.has_properties || self.features.has(Features::PROPERTIES) {
            return run;
        }
        self.leave_properties_out();
        run.without_properties(stream)
    }

    fn leave_properties_out(&mut self) {
        if self.properties == Left::In {
            self.properties = Left::Out;
        }
    }

    /// When the missing answer is reported to our client.
    pub fn answer_deadline(&self) -> Option<Instant> {
        match self.answer {
            AnswerState::AwaitedSince(since) => Some(since + ANSWER_TIMEOUT),
            AnswerState::AnsweredOrReported | AnswerState::NotExpected => None,
        }
    }

    /// Connects to the newer endpoint, if there is one.
    pub fn move_on(&mut self) {
        let Some(endpoint) = self.elsewhere.take() else { return };
        // If the new endpoint cannot be connected to, keep the old one.
        if self.link.connect(&endpoint).is_ok() {
            self.link.disconnect(&self.endpoint);
            self.endpoint = endpoint;
            self.answer = AnswerState::AwaitedSince(now());
        }
    }
}
