//! What becomes of what the peers of a PUB or XPUB send: subscriptions, and messages for an XPUB's application.
//!
//! A frame is a subscription by what it begins with, whichever frame of its message it is. With
//! ZMQ_ONLY_FIRST_SUBSCRIBE that is asked of a message's first frame, and of the others only where that one is
//! a subscription. Those of a message that begins with one are told as messages of their own; those inside
//! another message take effect, and stay in it.
//!
//! With ZMQ_XPUB_MANUAL a peer's subscriptions are remembered as its wishes, so that their end can be told
//! when it goes, and have no other effect.

use pinnace_ring::{COMMAND, Frame, MORE};
use pinnace_zmtp::{command, command::Command, subscription};

use super::news::{News, Piece};
use super::subscriptions::{Added, Removed, Subscriptions};
use crate::drops::{Drops, Reason};
use crate::options::Options;
use crate::pipe::{PipeId, Pipes};

#[derive(Default)]
pub(super) struct Intake {
    /// What messages go by.
    pub(super) subscriptions: Subscriptions,
    /// What the peers have asked for, where the application decides.
    wishes: Subscriptions,
    news: News,
    /// An application receives what is new.
    has_reader: bool,
    verbose: bool,
    verboser: bool,
    manual: bool,
    only_first: bool,
    /// The message being read began with a subscription.
    subscribing: bool,
    /// What was not wanted, beyond a limit, or lost for want of memory, and is not yet counted.
    drops: Drops,
    has_dropped: bool,
    /// The last frame was a subscription.
    took_command: bool,
}

impl Intake {
    /// One whose news an application receives.
    pub(super) fn for_reader() -> Intake {
        Intake { has_reader: true, ..Intake::default() }
    }

    pub(super) fn has_reader(&self) -> bool {
        self.has_reader
    }

    pub(super) fn is_manual(&self) -> bool {
        self.manual
    }

    pub(super) fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    /// The application has to receive before more is taken.
    pub(super) fn is_full(&self) -> bool {
        self.news.is_full()
    }

    /// Hands the next frame to the application.
    pub(super) fn hand(&mut self, pipes: &mut Pipes, sink: &mut dyn FnMut(Frame<'_>)) -> Option<Piece> {
        self.news.hand(pipes, sink)
    }

    pub(super) fn configure(&mut self, options: &Options) {
        self.verbose = options.xpub.verbose || options.xpub.verboser;
        self.verboser = options.xpub.verboser;
        self.manual = options.xpub.manual;
        self.only_first = options.only_first_subscribe;
    }

    /// Subscriptions of this pipe are taken from now on.
    pub(super) fn add_pipe(&mut self, id: PipeId) {
        self.subscriptions.add_pipe(id);
        self.wishes.add_pipe(id);
    }

    /// A peer that cannot say what it wants gets everything (`on`), until one that can takes its place.
    pub(super) fn set_to_all(&mut self, id: PipeId, on: bool) {
        self.change(id, on, b"");
    }

    /// Takes one frame in.
    pub(super) fn take(&mut self, id: PipeId, first: bool, frame: Frame<'_>) {
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
            self.news.pass(flags, frame, is_subscription.then_some(id));
        }
    }

    /// Takes a subscription in, and tells of it where it is news.
    fn change(&mut self, id: PipeId, on: bool, topic: &[u8]) {
        if self.apply(id, on, topic) && self.has_reader {
            self.news.tell(on, topic, Some(id));
        }
    }

    /// Lets a subscription take effect, or end; whether that is news.
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

    /// Whether the last frame was a subscription; says so once.
    pub(super) fn take_command(&mut self) -> bool {
        std::mem::take(&mut self.took_command)
    }

    pub(super) fn has_dropped(&self) -> bool {
        self.has_dropped
    }

    /// Has what was dropped counted, for the pipe it came from.
    #[cold]
    pub(super) fn count_drops(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.drops.add(Reason::NoMemory, self.news.take_lost());
        pipes.count_drops(Some(id), &std::mem::take(&mut self.drops));
        self.has_dropped = false;
    }

    /// Forgets a pipe's subscriptions, and tells of what nobody wants any more; where the application decides,
    /// of all that the peer had asked for.
    pub(super) fn forget(&mut self, id: PipeId) {
        let (news, all) = (&mut self.news, self.verboser || self.manual);
        news.forget(id);
        let mut tell = |topic: &[u8], last: bool| {
            if last || all {
                news.tell(false, topic, None);
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
