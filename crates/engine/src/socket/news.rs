//! What others have told a socket, taken in by whoever uses it next.

use super::Core;
use crate::drops::Reason;
use crate::error::Error;
use crate::hub::{Bound, Mail};
use crate::pipe::{Chore, Far, Pipe, PipeId};

impl Core {
    /// Takes in the mail. Terminated: the context is.
    #[inline(always)]
    pub(crate) fn news(&mut self) -> Result<(), Error> {
        if self.hub.has_mail() {
            self.read_mail();
        }
        if self.stopped { Err(Error::Terminated) } else { Ok(()) }
    }

    #[cold]
    pub(super) fn read_mail(&mut self) {
        let mut mail = std::mem::take(&mut self.mail);
        self.hub.take_mail(&mut mail);
        for piece in mail.drain(..) {
            self.take_in(piece);
        }
        self.mail = mail;
    }

    fn take_in(&mut self, piece: Mail) {
        match piece {
            Mail::Readable(id) => self.pattern.readable(&mut self.pipes, id),
            Mail::Writable(id) => self.pattern.writable(&mut self.pipes, id),
            // The I/O thread ends the connection, and says so.
            Mail::Attach(_, pipe) if self.is_detached(&pipe) => self.pipes.chores.push(Chore::Part(pipe)),
            Mail::Lend(id) => self.pipes.get(id).into_iter().for_each(Pipe::lend),
            Mail::Attach(id, pipe) => {
                let is_inproc = matches!(pipe.far, Far::Socket { .. });
                self.pipes.insert(id, *pipe);
                self.settle_marks(id);
                if is_inproc {
                    self.greet_inproc(id);
                }
                self.pattern.attached(&mut self.pipes, id);
                self.pattern.up(&mut self.pipes, id);
            }
            Mail::Up(id, peer, link) => {
                let Some(pipe) = self.pipes.get(id) else { return };
                pipe.lead_to(Far::Link(Some(link.clone())));
                pipe.meet(*peer);
                if !pipe.ended {
                    pipe.up = true;
                    self.settle_marks(id);
                    self.pattern.up(&mut self.pipes, id);
                    self.pattern.writable(&mut self.pipes, id);
                }
                self.pipes.chores.push(Chore::Flush(link));
            }
            Mail::Down(id) => {
                let Some(pipe) = self.pipes.get(id) else { return };
                pipe.lead_to(Far::Link(None));
                if !pipe.ended {
                    pipe.up = false;
                    self.follow_marks(id);
                    self.pattern.down(&mut self.pipes, id);
                }
            }
            Mail::Bound(id, bound) => self.bound(id, *bound),
            Mail::Marks(id) => {
                self.follow_marks(id);
                self.pattern.writable(&mut self.pipes, id);
            }
            Mail::Ended(id) => {
                self.forget_inproc(id);
                self.answer_end(id);
                self.end_pipe(id);
                self.count_unheard(id);
                self.ended.push(id);
                self.sweep();
            }
            Mail::Room => {
                let ids: Vec<_> = self.pipes.ids().collect();
                ids.into_iter().for_each(|id| self.pattern.writable(&mut self.pipes, id));
            }
            Mail::Forget(token) => self.forget_endpoint(token),
            Mail::Stop => self.stopped = true,
        }
    }

    /// The name that an inproc pipe has waited for leads somewhere.
    fn bound(&mut self, id: PipeId, bound: Bound) {
        let Some(pipe) = self.pipes.get(id) else { return };
        pipe.lead_to(Far::Socket { hub: bound.hub.clone(), pipe: bound.pipe });
        if pipe.ended {
            // It was disconnected while this was on its way: the number is free when the other side says so.
            return bound.hub.post(Mail::Ended(bound.pipe));
        }
        pipe.meet(bound.peer);
        pipe.farewell = bound.farewell;
        pipe.up = true;
        self.settle_marks(id);
        self.pattern.up(&mut self.pipes, id);
        self.pattern.writable(&mut self.pipes, id);
        bound.hub.post(Mail::Readable(bound.pipe));
    }

    /// Tells the socket at the other end of an inproc pipe that we have heard of its end, unless we have ended the
    /// pipe ourselves.
    fn answer_end(&mut self, id: PipeId) {
        if let Some(pipe) = self.pipes.get(id).filter(|pipe| !pipe.ended)
            && let Far::Socket { hub, pipe: far } = &pipe.far
        {
            hub.post(Mail::Ended(*far));
        }
    }

    /// Counts what was sent into a pipe after its other end was gone. What subscribers send are subscriptions.
    fn count_unheard(&mut self, id: PipeId) {
        let Some(pipe) = self.pipes.get(id).filter(|_| !self.kind.sends_subscriptions) else { return };
        let mut left = Vec::new();
        let unheard = match &mut pipe.outlet {
            Some(outlet) => outlet.give_up_abandoned(&mut left),
            None => pipe.tx.give_up_abandoned(),
        };
        left.into_iter().for_each(|body| self.pipes.discard(body));
        self.hub.lost.note_unsent(unheard);
        self.pipes.count_drop(Some(id), Reason::PeerLost, unheard.messages);
    }

    /// Nothing can be sent into the pipe any more. It goes when `Mail::Ended` has said that nobody else holds
    /// it, and all that came in was received.
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

    /// Lets ended pipes go that hold nothing any more.
    #[cold]
    #[inline(never)]
    pub(super) fn sweep(&mut self) {
        let (pipes, pattern, hub) = (&mut self.pipes, &mut self.pattern, &self.hub);
        let ended_peers = &mut self.ended_peers;
        self.ended.retain(|&id| {
            let gone = pipes.peek(id).is_none();
            if gone {
                *ended_peers += u64::from(pipes.get(id).is_some_and(|pipe| pipe.up));
                if pipes.get(id).is_some() {
                    pattern.removed(pipes, id);
                    pipes.remove(id);
                }
                hub.free_pipe(id);
            }
            !gone
        });
    }
}
