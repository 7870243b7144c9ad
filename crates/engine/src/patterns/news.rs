//! What an XPUB has for its application: the subscriptions that are new or over, and what else its peers send
//! upstream.
//!
//! They are queued here because subscriptions must take effect whether or not the application receives. The
//! queue is limited: when it is full, the pipes are not read any further until the application receives, and
//! hold their peers back in turn. What a lost peer leaves behind is queued all the same; the limits of
//! `subscriptions` bound that.

use std::collections::VecDeque;

use pinnace_ring::{Frame, MORE, NoMemory};

use super::kept::Kept;
use crate::pipe::{PipeId, Pipes};

/// Frames from which on pipes are not read any further.
const FULL: usize = 65_536;
/// The same in bytes.
const FULL_BYTES: usize = 8 << 20;

/// What was handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    /// More of its message follows.
    pub(super) more: bool,
    /// It says what a peer wants, or does not want any more.
    pub(super) is_subscription: bool,
    /// Which peer that is, while its pipe is there.
    pub(super) from: Option<PipeId>,
}

struct Entry {
    kept: Kept,
    is_subscription: bool,
    from: Option<PipeId>,
}

#[derive(Default)]
pub(super) struct News {
    frames: VecDeque<Entry>,
    bytes: usize,
    /// Frames that were lost for want of memory.
    lost: u64,
}

impl News {
    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.frames.len() >= FULL || self.bytes >= FULL_BYTES
    }

    /// Queues a subscription that is new (`on`) or over.
    pub(super) fn tell(&mut self, on: bool, topic: &[u8], from: Option<PipeId>) {
        self.put(true, from, |kept| kept.keep_bytes(0, &[&[u8::from(on)], topic]));
    }

    /// Queues a frame as it is, but for its flags; `subscriber`: it is a subscription of that pipe besides.
    pub(super) fn pass(&mut self, flags: u8, frame: Frame<'_>, subscriber: Option<PipeId>) {
        self.put(subscriber.is_some(), subscriber, |kept| kept.keep(flags, frame));
    }

    /// Queues what `keep` keeps. It is called where there is room only, so that a body stays in its frame.
    fn put(
        &mut self,
        is_subscription: bool,
        from: Option<PipeId>,
        keep: impl FnOnce(&mut Kept) -> Result<(), NoMemory>,
    ) {
        let mut kept = Kept::default();
        if self.frames.try_reserve(1).is_ok() && keep(&mut kept).is_ok() {
            self.bytes += kept.len();
            self.frames.push_back(Entry { kept, is_subscription, from });
        } else {
            self.lost += 1;
        }
    }

    /// A pipe is gone; its id may come again.
    pub(super) fn forget(&mut self, id: PipeId) {
        for entry in self.frames.iter_mut().filter(|entry| entry.from == Some(id)) {
            entry.from = None;
        }
    }

    /// How many frames were lost since the last call.
    pub(super) fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    /// Hands out the next frame. None: there is nothing.
    pub(super) fn hand(&mut self, pipes: &mut Pipes, sink: &mut dyn FnMut(Frame<'_>)) -> Option<Piece> {
        let Entry { mut kept, is_subscription, from } = self.frames.pop_front()?;
        self.bytes -= kept.len();
        if self.frames.is_empty() {
            self.frames.shrink_to(64);
        }
        let more = kept.flags() & MORE != 0;
        kept.hand(pipes, sink);
        Some(Piece { more, is_subscription, from })
    }
}
