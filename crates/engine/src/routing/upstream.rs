//! The queue of an XPUB's application: new and ended subscriptions, and other messages from its peers.
//!
//! Input is queued here because subscriptions must take effect whether or not the application receives. The queue is
//! limited: while it is full, the pipes are not read until the application receives, which puts back-pressure on the
//! peers. The unsubscriptions of a lost peer are queued even then; the limits of `subscriptions` bound their number.

use std::collections::VecDeque;

use pinnace_ring::{Frame, MORE, NoMemory};

use super::kept::Kept;
use crate::pipe::{PipeId, Pipes};

/// Queued frames at which the pipes are no longer read.
const FULL: usize = 65_536;
/// Queued bytes at which the pipes are no longer read.
const FULL_BYTES: usize = 8 << 20;

/// The frame that was handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UpstreamFrame {
    /// More frames of the message follow.
    pub(crate) more: bool,
    /// The frame is a subscription or unsubscription.
    pub(crate) is_subscription: bool,
    /// The peer that sent the subscription, while its pipe exists.
    pub(crate) from: Option<PipeId>,
}

struct QueuedFrame {
    kept: Kept,
    is_subscription: bool,
    from: Option<PipeId>,
}

#[derive(Default)]
pub(crate) struct UpstreamQueue {
    frames: VecDeque<QueuedFrame>,
    bytes: usize,
    /// Frames lost for lack of memory.
    lost: u64,
}

impl UpstreamQueue {
    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.frames.len() >= FULL || self.bytes >= FULL_BYTES
    }

    /// Queues a subscription (`on`) or unsubscription.
    pub(crate) fn tell(&mut self, on: bool, topic: &[u8], from: Option<PipeId>) {
        self.put(true, from, |kept| kept.keep_bytes(0, &[&[u8::from(on)], topic]));
    }

    /// Queues a frame with the given flags; `subscriber`: the frame is also a subscription of this pipe.
    pub(crate) fn pass(&mut self, flags: u8, frame: Frame<'_>, subscriber: Option<PipeId>) {
        self.put(subscriber.is_some(), subscriber, |kept| kept.keep(flags, frame));
    }

    /// Queues the frame that `keep` stores. `keep` is called only if there is room, else a body stays in its frame.
    fn put(
        &mut self,
        is_subscription: bool,
        from: Option<PipeId>,
        keep: impl FnOnce(&mut Kept) -> Result<(), NoMemory>,
    ) {
        let mut kept = Kept::default();
        if self.frames.try_reserve(1).is_ok() && keep(&mut kept).is_ok() {
            self.bytes += kept.len();
            self.frames.push_back(QueuedFrame { kept, is_subscription, from });
        } else {
            self.lost += 1;
        }
    }

    /// A pipe is gone; its id may be reused.
    pub(crate) fn forget(&mut self, id: PipeId) {
        for entry in self.frames.iter_mut().filter(|entry| entry.from == Some(id)) {
            entry.from = None;
        }
    }

    /// Frames lost since the last call.
    pub(crate) fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    /// Hands out the next frame; None if the queue is empty.
    pub(crate) fn hand(
        &mut self,
        pipes: &mut Pipes,
        sink: &mut dyn FnMut(Frame<'_>),
    ) -> Option<UpstreamFrame> {
        let QueuedFrame { mut kept, is_subscription, from } = self.frames.pop_front()?;
        self.bytes -= kept.len();
        if self.frames.is_empty() {
            self.frames.shrink_to(64);
        }
        let more = kept.flags() & MORE != 0;
        kept.hand(pipes, sink);
        Some(UpstreamFrame { more, is_subscription, from })
    }
}
