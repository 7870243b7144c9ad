//! Spreading: a message goes to several pipes, whole to each.
//!
//! Which pipes is settled at the message's first frame. A pipe that takes no more then, or that is lost
//! before the last frame, misses the message; that is counted, and the others do not notice. Large frames are
//! shared, not copied for each pipe.

use crate::drops::Reason;
use crate::error::Error;
use crate::pipe::{Outgoing, PipeId, Pipes};

#[derive(Default)]
pub(super) struct Spread {
    /// Where the message being sent goes.
    targets: Vec<PipeId>,
}

impl Spread {
    /// Where the next message goes, to be filled in by the caller.
    #[inline(always)]
    pub(super) fn targets(&mut self) -> &mut Vec<PipeId> {
        &mut self.targets
    }

    /// Leaves out the pipes that take no more.
    #[inline(always)]
    pub(super) fn leave_out_full(&mut self, pipes: &mut Pipes) {
        self.targets.retain(|&id| {
            let has_room = pipes.has_room(id);
            if !has_room {
                pipes.count_drop(Some(id), Reason::Full, 1);
            }
            has_room
        });
    }

    /// Whether all of them take the message; the first that does not will tell when it does.
    pub(super) fn all_have_room(&mut self, pipes: &mut Pipes) -> bool {
        self.targets.iter().all(|&id| pipes.has_room(id) || pipes.want_room(id))
    }

    /// Sends one frame of the message to all of them.
    #[inline(always)]
    pub(super) fn send(
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

    /// Takes back what was sent of the message.
    pub(super) fn abort(&mut self, pipes: &mut Pipes) {
        self.targets.drain(..).for_each(|id| pipes.rollback(id));
    }

    /// A pipe is lost; what it got of the message is taken back.
    pub(super) fn lose(&mut self, pipes: &mut Pipes, id: PipeId) {
        if self.forget(pipes, id) {
            pipes.rollback(id);
        }
    }

    /// A pipe is gone. True: it misses a message by that.
    pub(super) fn forget(&mut self, pipes: &mut Pipes, id: PipeId) -> bool {
        let Some(index) = self.targets.iter().position(|&other| other == id) else { return false };
        self.targets.swap_remove(index);
        pipes.count_drop(Some(id), Reason::PeerLost, 1);
        true
    }
}
