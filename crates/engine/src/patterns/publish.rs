//! PUB and XPUB: each message goes to all peers that have subscribed to what it begins with (RFC 29).
//!
//! They never wait. A peer that takes no more misses the message, whole, and that is counted; the others do
//! not notice. With ZMQ_XPUB_NODROP sending waits instead until all take it. With ZMQ_INVERT_MATCHING the
//! peers get what they did not subscribe to.
//!
//! Subscriptions take effect as they come in, in both forms that peers send (RFC 29, RFC 37), whether or not
//! the application receives; those of a peer whose connection is lost stay until its pipe ends, so that it
//! misses nothing if it comes back. An XPUB's application receives each topic that is new over all peers as
//! `1 topic`, and each that nobody wants any more as `0 topic` (ZMQ_XPUB_VERBOSE: every subscription;
//! ZMQ_XPUB_VERBOSER: every end of one too), and other messages as they are.

use pinnace_ring::{COMMAND, Frame, MORE};
use pinnace_zmtp::{Version, command, command::Command, subscription};

use super::Pattern;
use super::fair::Fair;
use super::news::News;
use super::spread::Spread;
use super::subscriptions::{Added, Removed, Subscriptions};
use crate::error::Error;
use crate::options::Options;
use crate::pipe::{Outgoing, PipeId, Pipes};

/// The most frames that are read from the peers in one call.
const DRAIN_MAX: usize = 10_000;

#[derive(Default)]
pub(super) struct Publish {
    /// All pipes that have not ended.
    pipes: Vec<PipeId>,
    fair: Fair,
    intake: Intake,
    spread: Spread,
    /// Frames of a message are still to be sent.
    inside: bool,
    nodrop: bool,
    invert: bool,
}

impl Publish {
    pub(super) fn for_pub() -> Publish {
        Publish::default()
    }

    pub(super) fn for_xpub() -> Publish {
        let intake = Intake { has_reader: true, ..Intake::default() };
        Publish { intake, ..Publish::default() }
    }

    /// Reads what has come in, until there is nothing or the application has to receive first.
    fn drain(&mut self, pipes: &mut Pipes) {
        let mut frames = 0;
        while let Some(id) = self.fair.choose(pipes) {
            let first = !self.fair.is_inside();
            if first && (frames >= DRAIN_MAX || self.intake.news.is_full()) {
                return;
            }
            let intake = &mut self.intake;
            let _ = self.fair.recv(pipes, &mut |frame| intake.take(id, first, frame));
            frames += 1;
        }
    }

    /// Settles where a message goes that begins with this frame.
    #[inline(always)]
    fn begin(&mut self, pipes: &mut Pipes, frame: &[u8]) -> Result<(), Error> {
        self.drain(pipes);
        let targets = self.spread.targets();
        self.intake.subscriptions.find(frame, targets);
        if self.invert {
            self.intake.subscriptions.invert(&self.pipes, targets);
        }
        if self.nodrop && !self.spread.all_have_room(pipes) {
            self.spread.targets().clear();
            return Err(Error::WouldBlock);
        }
        self.spread.leave_out_full(pipes);
        Ok(())
    }
}

impl Pattern for Publish {
    fn attached(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.pipes.push(id);
        self.intake.subscriptions.add_pipe(id);
        self.fair.add(id);
        self.drain(pipes);
    }

    fn up(&mut self, pipes: &mut Pipes, id: PipeId) {
        if pipes.get(id).is_some_and(|pipe| pipe.peer.version == Version::V1_0) {
            self.intake.subscribe(id, b"");
        }
    }

    fn down(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.spread.lose(pipes, id);
    }

    fn ended(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.spread.lose(pipes, id);
        self.pipes.retain(|&other| other != id);
        self.drain(pipes);
        self.intake.forget(id);
    }

    fn removed(&mut self, id: PipeId) {
        self.spread.forget(id);
        self.pipes.retain(|&other| other != id);
        self.fair.remove(id);
        self.intake.forget(id);
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

    fn recv(&mut self, pipes: &mut Pipes, sink: &mut dyn FnMut(Frame<'_>)) -> Result<bool, Error> {
        if !self.intake.has_reader {
            return Err(Error::NotSupported);
        }
        self.drain(pipes);
        self.intake.news.hand(pipes, sink).ok_or(Error::WouldBlock)
    }

    fn can_send(&mut self, _pipes: &mut Pipes) -> bool {
        true
    }

    fn can_recv(&mut self, pipes: &mut Pipes) -> bool {
        self.drain(pipes);
        !self.intake.news.is_empty()
    }

    fn configure(&mut self, options: &Options) {
        self.nodrop = options.xpub_nodrop;
        self.invert = options.invert_matching;
        self.intake.verbose = options.xpub_verbose || options.xpub_verboser;
        self.intake.verboser = options.xpub_verboser;
    }

    fn dropped(&self) -> u64 {
        self.spread.dropped + self.intake.dropped + self.intake.news.dropped
    }
}

/// What becomes of what the peers send.
#[derive(Default)]
struct Intake {
    subscriptions: Subscriptions,
    news: News,
    /// An application receives what is new.
    has_reader: bool,
    verbose: bool,
    verboser: bool,
    /// The message being read began with a subscription: its further frames may be some too.
    subscribing: bool,
    /// What was not wanted, or beyond a limit.
    dropped: u64,
}

impl Intake {
    fn take(&mut self, id: PipeId, first: bool, frame: Frame<'_>) {
        let change = read_subscription(&frame);
        if first {
            self.subscribing = change.is_some();
        }
        match change {
            Some((true, topic)) if self.subscribing => self.subscribe(id, topic),
            Some((false, topic)) if self.subscribing => self.unsubscribe(id, topic),
            _ if frame.flags() & COMMAND != 0 => {}
            _ if self.has_reader => {
                let flags = if self.subscribing { 0 } else { frame.flags() & MORE };
                self.news.pass(flags, frame);
            }
            _ => self.dropped += u64::from(first),
        }
    }

    fn subscribe(&mut self, id: PipeId, topic: &[u8]) {
        let is_news = match self.subscriptions.add(id, topic) {
            Added::First => true,
            Added::Another | Added::Known => self.verbose,
            Added::Refused => {
                self.dropped += 1;
                false
            }
        };
        if is_news && self.has_reader {
            self.news.tell(true, topic);
        }
    }

    fn unsubscribe(&mut self, id: PipeId, topic: &[u8]) {
        let is_last = self.subscriptions.remove(id, topic) == Removed::Last;
        if (is_last || self.verboser) && self.has_reader {
            self.news.tell(false, topic);
        }
    }

    /// Forgets a pipe's subscriptions.
    fn forget(&mut self, id: PipeId) {
        let (news, verboser) = (&mut self.news, self.verboser);
        let mut tell = |topic: &[u8], last: bool| {
            if last || verboser {
                news.tell(false, topic);
            }
        };
        self.subscriptions.remove_pipe(id, self.has_reader.then_some(&mut tell));
    }
}

/// Whether a frame subscribes or unsubscribes, in either form, and to what.
fn read_subscription<'a>(frame: &'a Frame<'_>) -> Option<(bool, &'a [u8])> {
    if frame.flags() & COMMAND == 0 {
        return subscription::from_message(frame.data());
    }
    match command::parse(frame.data()).ok()? {
        Command::Subscribe(topic) => Some((true, topic)),
        Command::Cancel(topic) => Some((false, topic)),
        _ => None,
    }
}
