//! The connection to another client.

use std::borrow::Cow;
use std::time::Instant;

use pinnace_engine::{Error, Outgoing};
use pinnace_stream::RangeSet;

use super::network::{Attempts, PeerLink};
use super::silence::Silence;
use crate::properties;
use crate::statistics::ReceiverState;
use crate::store::VolatileRun;
use crate::wire::{Features, FromSender, PROPERTIES, split};

/// A client that one of ours sends to.
pub struct Peer {
    pub client: u32,
    pub name: String,
    pub endpoint: String,
    /// A newer endpoint, to be used once the live connection is lost.
    pub elsewhere: Option<String>,
    pub link: Box<dyn PeerLink>,
    pub answer: AnswerState,
    /// When to look at the attempts to connect; the attempts at the last look; and another reason of its silence that
    /// they have shown once.
    pub(super) check_at: Option<Instant>,
    pub(super) attempts: Attempts,
    pub(super) other: Option<Silence>,
    /// What both sides can do on this connection.
    pub features: Features,
    /// Messages to one that were bound to it when this connection began.
    pub bound: Vec<Bound>,
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

/// A stream to one receiver that has messages to any one receiver of its topic, up to a number.
#[derive(Debug, Clone)]
pub struct Bound {
    pub topic: String,
    pub stream: u32,
    pub upto: u64,
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
    Answered,
    /// It does not answer, and our client was told why.
    Silent(Silence),
    /// The registry shows it as away.
    NotExpected,
}

impl Peer {
    pub fn new(client: u32, name: &str, endpoint: &str, link: Box<dyn PeerLink>) -> Peer {
        let mut peer = Peer {
            client,
            name: name.to_owned(),
            endpoint: endpoint.to_owned(),
            elsewhere: None,
            link,
            answer: AnswerState::NotExpected,
            check_at: None,
            attempts: Attempts::default(),
            other: None,
            features: Features::NONE,
            bound: Vec::new(),
            properties: Left::In,
            was_asked_again: false,
            again_at: None,
            was_refused: false,
            problem: None,
            is_forked: false,
            is_full: false,
        };
        peer.await_answer();
        peer
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

    /// Sends the numbers of a stream that are gone: one frame made by `first`, then `Gone` frames for the ranges that
    /// it has no room for.
    pub fn send_gone<'a>(
        &mut self,
        stream: u64,
        gone: &RangeSet,
        first: impl FnOnce(RangeSet) -> FromSender<'a>,
    ) {
        let mut sets = split(gone);
        self.send(Outgoing::Bytes(&first(sets.next().unwrap_or_default()).write()));
        for gone in sets {
            self.send(Outgoing::Bytes(&FromSender::Gone { stream, gone }.write()));
        }
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

    /// Connects to the newer endpoint, if there is one.
    pub fn move_on(&mut self) {
        let Some(endpoint) = self.elsewhere.take() else { return };
        // If the new endpoint cannot be connected to, keep the old one.
        if self.link.connect(&endpoint).is_ok() {
            self.link.disconnect(&self.endpoint);
            self.endpoint = endpoint;
            self.await_answer();
        }
    }
}
