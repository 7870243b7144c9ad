//! Processes the input of a PUB or XPUB: subscriptions, and messages for the application of an XPUB.
//!
//! Any frame of a message may be a subscription, recognized by its first byte. With ZMQ_ONLY_FIRST_SUBSCRIBE only
//! first frames are examined, and later frames only if the first was a subscription. If a message begins with a
//! subscription, each subscription in it is reported as a message of its own. A subscription inside any other message
//! takes effect but stays part of that message.
//!
//! With ZMQ_XPUB_MANUAL the peers' subscriptions have no effect. They are recorded as wishes, so that their end can
//! be reported when the peer leaves.

use pinnace_ring::{COMMAND, Frame, MORE};
use pinnace_zmtp::{command, command::Command, subscription};

use super::subscriptions::{Added, Removed, Subscriptions};
use super::upstream::{UpstreamFrame, UpstreamQueue};
use crate::drops::{Drops, Reason};
use crate::options::Options;
use crate::pipe::{PipeId, Pipes};

#[derive(Default)]
pub(crate) struct UpstreamIntake {
    /// The subscriptions that decide where messages go.
    pub(crate) subscriptions: Subscriptions,
    /// Subscriptions that peers have requested, if the application decides (ZMQ_XPUB_MANUAL).
    wishes: Subscriptions,
    upstream: UpstreamQueue,
    /// The application receives upstream messages (XPUB).
    has_reader: bool,
    verbose: bool,
    verboser: bool,
    manual: bool,
    only_first: bool,
    /// The message that is being read began with a subscription.
    subscribing: bool,
    /// Messages dropped as unwanted, over a limit or for lack of memory, and not yet counted.
    drops: Drops,
    has_dropped: bool,
    /// The last frame was a subscription.
    took_command: bool,
}

impl UpstreamIntake {
    /// For an XPUB: its application receives upstream messages.
    pub(crate) fn for_reader() -> UpstreamIntake {
        UpstreamIntake { has_reader: true, ..UpstreamIntake::default() }
    }

    pub(crate) fn has_reader(&self) -> bool {
        self.has_reader
    }

    pub(crate) fn is_manual(&self) -> bool {
        self.manual
    }

    pub(crate) fn has_upstream(&self) -> bool {
        !self.upstream.is_empty()
    }

    /// The queue is full: the application has to receive before more input is read.
    pub(crate) fn is_full(&self) -> bool {
        self.upstream.is_full()
    }

    /// Passes the next frame to the application.
    pub(crate) fn hand(
        &mut self,
        pipes: &mut Pipes,
        sink: &mut dyn FnMut(Frame<'_>),
    ) -> Option<UpstreamFrame> {
        self.upstream.hand(pipes, sink)
    }

    pub(crate) fn configure(&mut self, options: &Options) {
        self.verbose = options.xpub.verbose || options.xpub.verboser;
        self.verboser = options.xpub.verboser;
        self.manual = options.xpub.manual;
        self.only_first = options.only_first_subscribe;
    }

    /// Accepts subscriptions of this pipe from now on.
    pub(crate) fn add_pipe(&mut self, id: PipeId) {
        self.subscriptions.add_pipe(id);
        self.wishes.add_pipe(id);
    }

    /// Subscribes a peer that cannot send subscriptions (ZMTP 1.0) to everything, or ends that (`on` false) once a
    /// peer that can takes its place.
    pub(crate) fn set_to_all(&mut self, id: PipeId, on: bool) {
        self.change(id, on, b"");
    }

    /// Processes one frame.
    pub(crate) fn take(&mut self, id: PipeId, first: bool, frame: Frame<'_>) {
        let looks = first || self.subscribing || !self.only_first;
        let change = if looks { read_subscription(&frame) } else { None };
        if first {
            self.subscribing = change.is_some();
        }
        self.took_command = change.is_some();
        let is_command = frame.flags() & COMMAND != 0;
        match change {
            Some((on, topic)) if self.subscribing || is_command => self.change(id, on, topic),
            Some((on, topic)) => {
                self.apply(id, on, topic);
                self.pass(id, frame.flags() & MORE, true, frame);
            }
            None if is_command => {}
            None if self.has_reader => {
                let flags = if self.subscribing { 0 } else { frame.flags() & MORE };
                self.pass(id, flags, false, frame);
            }
            None if first => self.drop_one(Reason::Unwanted),
            None => {}
        }
    }

    fn pass(&mut self, id: PipeId, flags: u8, is_subscription: bool, frame: Frame<'_>) {
        if self.has_reader {
            self.upstream.pass(flags, frame, is_subscription.then_some(id));
        }
    }

    /// Applies a subscription, and queues it for the application if it has to be reported.
    fn change(&mut self, id: PipeId, on: bool, topic: &[u8]) {
        if self.apply(id, on, topic) && self.has_reader {
            self.upstream.tell(on, topic, Some(id));
        }
    }

    /// Adds (`on`) or removes a subscription. Returns true if the application has to be told.
    fn apply(&mut self, id: PipeId, on: bool, topic: &[u8]) -> bool {
        let subscriptions = if self.manual { &mut self.wishes } else { &mut self.subscriptions };
        if !on {
            let last = subscriptions.remove(id, topic) == Removed::Last;
            return last || self.verboser || self.manual;
        }
        match subscriptions.add(id, topic) {
            Added::First => true,
            Added::Another | Added::Known => self.verbose || self.manual,
            Added::Refused => {
                self.drop_one(Reason::Limit);
                false
            }
        }
    }

    fn drop_one(&mut self, reason: Reason) {
        self.drops.add(reason, 1);
        self.has_dropped = true;
    }

    /// Returns true if the last frame was a subscription, and resets that.
    pub(crate) fn take_command(&mut self) -> bool {
        std::mem::take(&mut self.took_command)
    }

    pub(crate) fn has_dropped(&self) -> bool {
        self.has_dropped
    }

    /// Counts the drops noted so far against the pipe they came from.
    #[cold]
    pub(crate) fn count_drops(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.drops.add(Reason::NoMemory, self.upstream.take_lost());
        pipes.count_drops(Some(id), &std::mem::take(&mut self.drops));
        self.has_dropped = false;
    }

    /// Removes a pipe's subscriptions and reports the topics that have no subscriber left; in manual or verboser
    /// mode, all topics that the peer had requested.
    pub(crate) fn forget(&mut self, id: PipeId) {
        let (upstream, all) = (&mut self.upstream, self.verboser || self.manual);
        upstream.forget(id);
        let mut tell = |topic: &[u8], last: bool| {
            if last || all {
                upstream.tell(false, topic, None);
            }
        };
        let (told, silent) = if self.manual {
            (&mut self.wishes, &mut self.subscriptions)
        } else {
            (&mut self.subscriptions, &mut self.wishes)
        };
        told.remove_pipe(id, self.has_reader.then_some(&mut tell));
        silent.remove_pipe(id, None);
    }
}

/// Parses a subscription or unsubscription in either form; returns (subscribe, topic).
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
