//! PUB and XPUB: each message goes to all peers with a subscription that is a prefix of it (RFC 29).
//!
//! Sending never blocks. A peer at its high-water mark misses the whole message, which is counted, and the others are
//! not affected. With ZMQ_XPUB_NODROP sending blocks instead until all have room. With ZMQ_INVERT_MATCHING peers get
//! the messages that they did not subscribe to.
//!
//! Subscriptions arrive in two forms (RFC 29, RFC 37) and take effect on arrival, whether or not the application
//! receives. If a peer's connection is lost, its subscriptions stay until its pipe ends, so that it misses nothing if
//! it reconnects.
//!
//! The application of an XPUB receives `1 topic` for the first subscription to a topic over all peers and `0 topic`
//! when the last one ends (ZMQ_XPUB_VERBOSE: every subscription; ZMQ_XPUB_VERBOSER: also every unsubscription). Other
//! messages are passed on unchanged. With ZMQ_XPUB_MANUAL the application receives all of them and none takes effect
//! by itself: ZMQ_SUBSCRIBE and ZMQ_UNSUBSCRIBE apply to the peer of the subscription that was received last.

use std::time::{Duration, Instant};

use pinnace_ring::Frame;
use pinnace_zmtp::Version;

use super::Pattern;
use crate::drops::Reason;
use crate::error::{Error, Invalid};
use crate::options::Options;
use crate::pipe::{Outgoing, PipeId, Pipes};
use crate::routing::{Added, Fair, Spread, UpstreamIntake};

/// Minimum interval between two calls of `look` that read the connections, and the most connections that it reads.
const LOOK_GAP: Duration = Duration::from_micros(50);
const LOOK_MAX: usize = 16;

#[derive(Default)]
pub(super) struct Publish {
    /// All pipes that have not ended.
    pipes: Vec<PipeId>,
    /// Pipes of peers that cannot send subscriptions and get everything (ZMTP 1.0).
    to_all: Vec<PipeId>,
    fair: Fair,
    intake: UpstreamIntake,
    spread: Spread,
    /// More frames of the message follow.
    inside: bool,
    /// When `look` last read the connections.
    looked: Option<Instant>,
    invert: bool,
    /// The next message goes only to the peer of the last subscription (ZMQ_XPUB_MANUAL_LAST_VALUE).
    last_value: bool,
    /// Sent to each new peer, unless empty.
    welcome: Vec<u8>,
    /// The pipe of the subscription that was received last (ZMQ_XPUB_MANUAL).
    last: Option<PipeId>,
}

impl Publish {
    pub(super) fn for_pub() -> Publish {
        Publish::default()
    }

    pub(super) fn for_xpub() -> Publish {
        Publish { intake: UpstreamIntake::for_reader(), ..Publish::default() }
    }

    /// Reads the input of all readable pipes, until they are empty or the application has to receive first.
    fn drain(&mut self, pipes: &mut Pipes) {
        let intake = &mut self.intake;
        self.fair.drain(pipes, |fair, pipes, id, first| {
            if first && intake.is_full() {
                return false;
            }
            let _ = fair.recv(pipes, &mut |frame| intake.take(id, first, frame));
            if intake.take_command() && first {
                pipes.was_command(id);
            }
            if intake.has_dropped() {
                intake.count_drops(pipes, id);
            }
            true
        });
    }

    /// Called before a message without subscribers is dropped: a subscription may have arrived that the I/O thread
    /// has not read yet. If a caller forwards a message that it read from another connection, the message must not
    /// overtake a subscription that was sent earlier.
    #[cold]
    fn look(&mut self, pipes: &mut Pipes) {
        let now = Instant::now();
        let lately = self.looked.is_some_and(|before| now.duration_since(before) < LOOK_GAP);
        if lately || self.pipes.len() > LOOK_MAX {
            return;
        }
        self.looked = Some(now);
        for &id in &self.pipes {
            if pipes.read_ahead(id) {
                self.fair.add(id);
            }
        }
        self.drain(pipes);
    }

    /// Chooses the destinations of the message that begins with this frame.
    #[inline(always)]
    fn begin(&mut self, pipes: &mut Pipes, frame: &[u8]) -> Result<(), Error> {
        self.drain(pipes);
        self.intake.subscriptions.find(frame, self.spread.targets());
        if self.spread.targets().is_empty() && !self.pipes.is_empty() {
            self.look(pipes);
            self.intake.subscriptions.find(frame, self.spread.targets());
        }
        let targets = self.spread.targets();
        let last = self.last.filter(|_| self.last_value);
        if let Some(last) = last {
            targets.retain(|&id| id == last);
        }
        if self.invert {
            self.intake.subscriptions.invert(&self.pipes, targets);
        }
        self.spread.admit(pipes)?;
        if last.is_some() {
            self.last = None;
        }
        Ok(())
    }

    /// Sends the welcome message to a new peer (ZMQ_XPUB_WELCOME_MSG).
    fn greet(&self, pipes: &mut Pipes, id: PipeId) {
        if self.welcome.is_empty() {
            return;
        }
        match pipes.push(id, &Outgoing::Bytes(&self.welcome), false) {
            Ok(()) => pipes.commit(id),
            Err(_) => pipes.count_drop(Some(id), Reason::NoMemory, 1),
        }
    }

    /// Forgets a pipe's subscriptions.
    fn forget(&mut self, id: PipeId) {
        self.last = self.last.filter(|&last| last != id);
        self.to_all.retain(|&other| other != id);
        self.intake.forget(id);
    }
}

impl Pattern for Publish {
    fn attached(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.pipes.push(id);
        self.intake.add_pipe(id);
        self.fair.add(id);
        self.greet(pipes, id);
        self.drain(pipes);
    }

    fn up(&mut self, pipes: &mut Pipes, id: PipeId) {
        let is_to_all = pipes.get(id).is_some_and(|pipe| pipe.peer.version == Version::V1_0);
        if is_to_all != self.to_all.contains(&id) {
            self.intake.set_to_all(id, is_to_all);
            self.to_all.retain(|&other| other != id);
            self.to_all.extend(is_to_all.then_some(id));
        }
    }

    fn down(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.spread.lose(pipes, id);
    }

    fn ended(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.spread.lose(pipes, id);
        self.pipes.retain(|&other| other != id);
        self.drain(pipes);
        self.forget(id);
    }

    fn removed(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.spread.forget(pipes, id);
        self.pipes.retain(|&other| other != id);
        self.fair.remove(id);
        self.forget(id);
    }

    fn readable(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.fair.add(id);
        self.drain(pipes);
    }

    fn writable(&mut self, _pipes: &mut Pipes, _id: PipeId) {}

    fn send(&mut self, pipes: &mut Pipes, frame: &mut Outgoing<'_>, more: bool) -> Result<(), Error> {
        if !self.inside {
            self.begin(pipes, frame.data())?;
        }
        self.spread.send(pipes, frame, more)?;
        self.inside = more;
        Ok(())
    }

    fn abort(&mut self, pipes: &mut Pipes) {
        self.inside = false;
        self.spread.abort(pipes);
    }

    fn recv(&mut self, pipes: &mut Pipes, sink: &mut dyn FnMut(Frame<'_>)) -> Result<bool, Error> {
        if !self.intake.has_reader() {
            return Err(Error::NotSupported);
        }
        self.drain(pipes);
        let upstream = self.intake.hand(pipes, sink).ok_or(Error::WouldBlock)?;
        if upstream.is_subscription {
            self.last = upstream.from;
        }
        Ok(upstream.more)
    }

    fn can_send(&mut self, _pipes: &mut Pipes) -> bool {
        true
    }

    fn can_recv(&mut self, pipes: &mut Pipes) -> bool {
        self.drain(pipes);
        self.intake.has_upstream()
    }

    /// With ZMQ_XPUB_MANUAL, changes a subscription of the peer that sent the last received subscription.
    fn subscribe(&mut self, _pipes: &mut Pipes, topic: &[u8], on: bool) -> Result<(), Error> {
        if !self.intake.is_manual() {
            return Err(Error::Invalid(Invalid::NotManual));
        }
        let Some(id) = self.last else { return Ok(()) };
        if !on {
            self.intake.subscriptions.remove(id, topic);
            return Ok(());
        }
        match self.intake.subscriptions.add(id, topic) {
            Added::Refused => Err(Error::NoMemory),
            _ => Ok(()),
        }
    }

    fn subscribers(&mut self, pipes: &mut Pipes, topic: &[u8]) -> usize {
        self.drain(pipes);
        let mut found = Vec::new();
        self.intake.subscriptions.find(topic, &mut found);
        found.len()
    }

    fn configure(&mut self, options: &Options) {
        self.spread.set_nodrop(options.xpub.nodrop);
        self.invert = options.invert_matching;
        self.last_value = options.xpub.manual_last_value;
        self.welcome.clone_from(&options.xpub.welcome_msg);
        self.intake.configure(options);
    }

    fn topics(&self) -> usize {
        self.intake.subscriptions.topics()
    }
}
