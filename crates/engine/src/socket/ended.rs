//! Pipes that have ended and may still hold messages.

use super::Core;
use crate::mailbox::Mailbox;
use crate::patterns::Pattern;
use crate::pipe::{PipeId, Pipes};

#[derive(Default)]
pub(super) struct EndedPipes {
    ids: Vec<PipeId>,
    /// Peers that are gone, with all their messages received.
    peers: u64,
}

impl EndedPipes {
    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    pub(super) fn add(&mut self, id: PipeId) {
        self.ids.push(id);
    }

    fn remove_empty(&mut self, pipes: &mut Pipes, pattern: &mut dyn Pattern, mailbox: &Mailbox) {
        let peers = &mut self.peers;
        self.ids.retain(|&id| {
            let gone = pipes.peek(id).is_none();
            if gone {
                *peers += u64::from(pipes.get(id).is_some_and(|pipe| pipe.has_met));
                if pipes.get(id).is_some() {
                    pattern.removed(pipes, id);
                    pipes.remove(id);
                }
                mailbox.free_pipe(id);
            }
            !gone
        });
    }
}

impl Core {
    /// Removes ended pipes that are empty.
    #[cold]
    #[inline(never)]
    pub(super) fn sweep(&mut self) {
        self.ended.remove_empty(&mut self.pipes, &mut *self.pattern, &self.mailbox);
    }

    /// Number of peers that have come and gone, with all their messages received.
    pub(crate) fn ended_peers(&self) -> u64 {
        self.ended.peers + self.mailbox.vanished()
    }
}
