//! PAIR: exchanges messages with exactly one peer (RFC 31).
//!
//! Guarantees that two peers are never mixed. While one pipe is in use, any further pipe is refused: its input is
//! dropped and counted, and nothing is sent to it. When the pipe in use ends, its remaining messages are received
//! first, and the refused pipe that has waited longest replaces it. Sending blocks while there is no pipe or the pipe
//! is full.

use pinnace_ring::{Frame, MORE};

use super::Pattern;
use super::push::discard;
use super::single::SingleSource;
use crate::drops::Reason;
use crate::error::Error;
use crate::pipe::{Outgoing, PipeId, Pipes};
use crate::routing::Balance;

#[derive(Default)]
pub(super) struct Pair {
    /// The pipe in use.
    current: Option<PipeId>,
    /// `current` is not parked and may have input.
    readable: bool,
    /// Pipes formerly in use that have ended and may still hold messages, oldest first.
    old: Vec<PipeId>,
    refused: Vec<PipeId>,
    /// Sends into `current`. If that pipe ends during a message, drops the rest of the message.
    sender: Balance,
}

impl Pair {
    fn admit(&mut self, id: PipeId) {
        self.current = Some(id);
        self.readable = true;
        self.sender.add(id);
    }

    /// Gives up the pipe in use; the next refused pipe replaces it.
    fn give_up(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.sender.remove(pipes, id);
        self.current = None;
        if !self.refused.is_empty() {
            let next = self.refused.remove(0);
            self.admit(next);
        }
    }
}

impl SingleSource for Pair {
    /// Queues hold whole messages only, so a message that was begun stays first.
    #[inline(always)]
    fn source(&mut self, pipes: &mut Pipes) -> Option<PipeId> {
        while let Some(&id) = self.old.first() {
            if !pipes.park(id) {
                return Some(id);
            }
            self.old.remove(0);
        }
        let id = self.current.filter(|_| self.readable)?;
        self.readable = pipes.peek(id).is_some() || !pipes.park(id);
        self.readable.then_some(id)
    }
}

impl Pattern for Pair {
    fn attached(&mut self, pipes: &mut Pipes, id: PipeId) {
        if self.current.is_none() {
            self.admit(id);
        } else {
            self.refused.push(id);
            discard(pipes, id, Reason::Unwanted);
        }
    }

    fn ended(&mut self, pipes: &mut Pipes, id: PipeId) {
        if self.current == Some(id) {
            self.old.push(id);
            self.give_up(pipes, id);
        }
        self.refused.retain(|&other| other != id);
    }

    fn removed(&mut self, pipes: &mut Pipes, id: PipeId) {
        if self.current == Some(id) {
            self.give_up(pipes, id);
        }
        self.old.retain(|&other| other != id);
        self.refused.retain(|&other| other != id);
    }

    fn readable(&mut self, pipes: &mut Pipes, id: PipeId) {
        if self.current == Some(id) {
            self.readable = true;
        } else if !self.old.contains(&id) {
            discard(pipes, id, Reason::Unwanted);
        }
    }

    fn writable(&mut self, _pipes: &mut Pipes, id: PipeId) {
        if self.current == Some(id) {
            self.sender.add(id);
        }
    }

    fn send(&mut self, pipes: &mut Pipes, frame: &mut Outgoing<'_>, more: bool) -> Result<(), Error> {
        self.sender.send(pipes, frame, more).map(|_| ())
    }

    fn abort(&mut self, pipes: &mut Pipes) {
        self.sender.rollback(pipes);
    }

    fn recv(&mut self, pipes: &mut Pipes, sink: &mut dyn FnMut(Frame<'_>)) -> Result<bool, Error> {
        let id = self.source(pipes).ok_or(Error::WouldBlock)?;
        let more = pipes.pop(id, |frame| {
            let more = frame.flags() & MORE != 0;
            sink(frame);
            more
        });
        Ok(more == Some(true))
    }

    fn can_send(&mut self, pipes: &mut Pipes) -> bool {
        self.sender.can_send(pipes)
    }

    fn can_recv(&mut self, pipes: &mut Pipes) -> bool {
        self.source(pipes).is_some()
    }
}
