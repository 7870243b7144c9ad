//! What an XPUB has for its application: the subscriptions that are new or over, and what else its peers send
//! upstream.
//!
//! They are queued here because subscriptions must take effect whether or not the application receives. The
//! queue is limited: when it is full, the pipes are not read any further until the application receives, and
//! hold their peers back in turn. What a lost peer leaves behind is queued all the same; the limits of
//! `subscriptions` bound that.

use std::collections::VecDeque;

use pinnace_ring::{Frame, MORE};

use super::kept::Kept;

/// Frames from which on pipes are not read any further.
const FULL: usize = 65_536;
/// The same in bytes.
const FULL_BYTES: usize = 8 << 20;

#[derive(Default)]
pub(super) struct News {
    frames: VecDeque<Kept>,
    bytes: usize,
    /// Frames that were lost for want of memory.
    pub(super) dropped: u64,
}

impl News {
    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.frames.len() >= FULL || self.bytes >= FULL_BYTES
    }

    /// Queues a subscription that is new (`on`) or over.
    pub(super) fn tell(&mut self, on: bool, topic: &[u8]) {
        let mut kept = Kept::default();
        let result = kept.keep_bytes(0, &[&[u8::from(on)], topic]);
        self.put(result.is_ok().then_some(kept));
    }

    /// Queues a frame as it is, but for its flags.
    pub(super) fn pass(&mut self, flags: u8, frame: Frame<'_>) {
        let mut kept = Kept::default();
        let result = kept.keep(flags, frame);
        self.put(result.is_ok().then_some(kept));
    }

    fn put(&mut self, kept: Option<Kept>) {
        match kept {
            Some(kept) if self.frames.try_reserve(1).is_ok() => {
                self.bytes += kept.len();
                self.frames.push_back(kept);
            }
            _ => self.dropped += 1,
        }
    }

    /// Hands out the next frame; whether more of its message follows. None: there is nothing.
    pub(super) fn hand(&mut self, sink: &mut dyn FnMut(Frame<'_>)) -> Option<bool> {
        let mut kept = self.frames.pop_front()?;
        self.bytes -= kept.len();
        if self.frames.is_empty() {
            self.frames.shrink_to(64);
        }
        let more = kept.flags() & MORE != 0;
        kept.hand(sink);
        Some(more)
    }
}
