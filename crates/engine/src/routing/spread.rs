//! Spreading: sends a message to several pipes, whole to each.
//!
//! The destinations are fixed at the message's first frame. A pipe that is full at that point, or lost before the
//! last frame, misses the message. This is counted, and the other pipes are not affected. Large frames are shared
//! between the pipes, not copied.

use crate::drops::Reason;
use crate::error::Error;
use crate::pipe::{Outgoing, PipeId, Pipes};

#[derive(Default)]
pub(crate) struct Spread {
    /// Destinations of the message that is being sent.
    targets: Vec<PipeId>,
    /// A message waits until all destinations have room, and none misses it (ZMQ_XPUB_NODROP).
    waits_for_all: bool,
}

impl Spread {
    /// Destinations of the next message, filled in by the caller.
    #[inline(always)]
    pub(crate) fn targets(&mut self) -> &mut Vec<PipeId> {
        &mut self.targets
    }

    /// Sets ZMQ_XPUB_NODROP.
    pub(crate) fn set_nodrop(&mut self, on: bool) {
        self.waits_for_all = on;
    }

    /// Admits the message to its destinations: those without room miss it, or all wait for them. Errors: WouldBlock.
    #[inline(always)]
    pub(crate) fn admit(&mut self, pipes: &mut Pipes) -> Result<(), Error> {
        if self.waits_for_all && !self.all_have_room(pipes) {
            self.targets.clear();
            return Err(Error::WouldBlock);
        }
        self.leave_out_full(pipes);
        Ok(())
    }

    /// Removes the pipes without room, and counts a drop for each.
    #[inline(always)]
    pub(crate) fn leave_out_full(&mut self, pipes: &mut Pipes) {
        self.targets.retain(|&id| {
            let has_room = pipes.has_room(id);
            if !has_room {
                pipes.count_drop(Some(id), Reason::Full, 1);
            }
            has_room
        });
    }

    /// Returns true if all destinations have room. The first one without room requests a `writable` call.
    fn all_have_room(&mut self, pipes: &mut Pipes) -> bool {
        self.targets.iter().all(|&id| pipes.has_room(id) || pipes.want_room(id))
    }

    /// Sends one frame of the message to all destinations.
    #[inline(always)]
    pub(crate) fn send(
        &mut self,
        pipes: &mut Pipes,
        frame: &mut Outgoing<'_>,
        more: bool,
    ) -> Result<(), Error> {
        if self.targets.len() > 1 {
            frame.share()?;
        }
        self.targets.retain(|&id| {
            let pushed = pipes.push(id, frame, more).is_ok();
            if !pushed {
                pipes.rollback(id);
                pipes.count_drop(Some(id), Reason::NoMemory, 1);
            } else if !more {
                pipes.commit(id);
            }
            pushed
        });
        if !more {
            self.targets.clear();
        }
        Ok(())
    }

    /// Rolls back the message that is being sent.
    pub(crate) fn abort(&mut self, pipes: &mut Pipes) {
        self.targets.drain(..).for_each(|id| pipes.rollback(id));
    }

    /// Removes a lost pipe and rolls back its part of the message.
    pub(crate) fn lose(&mut self, pipes: &mut Pipes, id: PipeId) {
        if self.forget(pipes, id) {
            pipes.rollback(id);
        }
    }

    /// Removes a pipe. Returns true if the pipe misses the message that is being sent.
    pub(crate) fn forget(&mut self, pipes: &mut Pipes, id: PipeId) -> bool {
        let Some(index) = self.targets.iter().position(|&other| other == id) else { return false };
        self.targets.swap_remove(index);
        pipes.count_drop(Some(id), Reason::PeerLost, 1);
        true
    }
}
