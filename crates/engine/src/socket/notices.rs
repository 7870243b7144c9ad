//! Handling the notices that other threads and sockets have posted to a socket.

use super::Core;
use crate::drops::Reason;
use crate::error::Error;
use crate::mailbox::{InprocBound, Notice};
use crate::pipe::{Deferred, Far, Pipe, PipeId};

impl Core {
    /// Handles all notices. Errors: Terminated once the context is terminated.
    #[inline(always)]
    pub(crate) fn handle_notices(&mut self) -> Result<(), Error> {
        if self.mailbox.has_notices() {
            self.read_notices();
        }
        if self.stopped { Err(Error::Terminated) } else { Ok(()) }
    }

    #[cold]
    pub(super) fn read_notices(&mut self) {
        let mut notices = std::mem::take(&mut self.notices);
        self.mailbox.take_notices(&mut notices);
        for notice in notices.drain(..) {
            self.take_in(notice);
        }
        self.notices = notices;
    }

    fn take_in(&mut self, notice: Notice) {
        match notice {
            Notice::Readable(id) => self.pattern.readable(&mut self.pipes, id),
            Notice::Writable(id) => self.pattern.writable(&mut self.pipes, id),
            // Its endpoint was taken back. The I/O thread closes the connection and posts `Notice::Ended`.
            Notice::Attach(_, pipe) if self.is_detached(&pipe) => {
                self.pipes.deferred.push(Deferred::Part(pipe))
            }
            Notice::SwitchedToMemory(id) => self.pipes.get(id).into_iter().for_each(Pipe::lend),
            Notice::Attach(id, pipe) => {
                let is_inproc = matches!(pipe.far, Far::Socket { .. });
                if let Far::Link(Some(link)) = &pipe.far {
                    self.endpoints.set_pipe(link.config.origin, id);
                }
                self.pipes.insert(id, *pipe);
                self.apply_hwm(id);
                if is_inproc {
                    self.greet_inproc(id);
                }
                self.pattern.attached(&mut self.pipes, id);
                self.pattern.up(&mut self.pipes, id);
            }
            Notice::Up(id, peer, link) => {
                let Some(pipe) = self.pipes.get(id) else { return };
                pipe.lead_to(Far::Link(Some(link.clone())));
                pipe.meet(*peer);
                if !pipe.ended {
                    pipe.up = true;
                    self.apply_hwm(id);
                    self.pattern.up(&mut self.pipes, id);
                    self.pattern.writable(&mut self.pipes, id);
                }
                self.pipes.deferred.push(Deferred::Flush(link));
            }
            Notice::Down(id) => {
                let Some(pipe) = self.pipes.get(id) else { return };
                pipe.lead_to(Far::Link(None));
                if !pipe.ended {
                    pipe.up = false;
                    self.update_hwm(id);
                    self.pattern.down(&mut self.pipes, id);
                }
            }
            Notice::InprocBound(id, bound) => self.bound(id, *bound),
            Notice::HighWaterMarks(id) => {
                self.update_hwm(id);
                self.pattern.writable(&mut self.pipes, id);
            }
            Notice::Ended(id) => {
                self.endpoints.forget_pipe(id);
                self.answer_end(id);
                self.end_pipe(id);
                self.count_unheard(id);
                self.ended.add(id);
                self.sweep();
            }
            Notice::Room => {
                let ids: Vec<_> = self.pipes.ids().collect();
                ids.into_iter().for_each(|id| self.pattern.writable(&mut self.pipes, id));
            }
            Notice::Forget(token) => self.endpoints.forget(token),
            Notice::Stop => self.stopped = true,
        }
    }

    /// The name that an inproc pipe has waited for is bound.
    fn bound(&mut self, id: PipeId, bound: InprocBound) {
        let Some(pipe) = self.pipes.get(id) else { return };
        pipe.lead_to(Far::Socket { mailbox: bound.mailbox.clone(), pipe: bound.pipe });
        if pipe.ended {
            // Disconnected in the meantime: the id is free once the other side has acknowledged the end.
            return bound.mailbox.post(Notice::Ended(bound.pipe));
        }
        pipe.meet(bound.peer);
        pipe.farewell = bound.farewell;
        pipe.up = true;
        self.apply_hwm(id);
        self.pattern.up(&mut self.pipes, id);
        self.pattern.writable(&mut self.pipes, id);
        bound.mailbox.post(Notice::Readable(bound.pipe));
    }

    /// Acknowledges the end of an inproc pipe to the socket at its other end, unless this side ended the pipe.
    fn answer_end(&mut self, id: PipeId) {
        if let Some(pipe) = self.pipes.get(id).filter(|pipe| !pipe.ended)
            && let Far::Socket { mailbox, pipe: far } = &pipe.far
        {
            mailbox.post(Notice::Ended(*far));
        }
    }

    /// Counts the messages sent into a pipe after its other end was gone. A subscriber's are subscriptions and do not
    /// count.
    fn count_unheard(&mut self, id: PipeId) {
        let Some(pipe) = self.pipes.get(id).filter(|_| !self.kind.sends_subscriptions) else { return };
        let mut left = Vec::new();
        let unheard = pipe.tx.give_up_abandoned(&mut left);
        left.into_iter().for_each(|body| self.pipes.discard(body));
        self.mailbox.lost.note_unsent(unheard);
        self.pipes.count_drop(Some(id), Reason::PeerLost, unheard.messages);
    }

    /// Ends a pipe: nothing more can be sent into it. It is removed once `Notice::Ended` has reported that nothing
    /// else uses it, and all its input was received.
    pub(super) fn end_pipe(&mut self, id: PipeId) {
        let Some(pipe) = self.pipes.get(id) else { return };
        if !matches!(pipe.far, Far::Socket { .. }) {
            pipe.lead_to(Far::Link(None));
        }
        if !std::mem::replace(&mut pipe.ended, true) {
            self.pattern.ended(&mut self.pipes, id);
            self.pattern.readable(&mut self.pipes, id);
        }
    }
}
