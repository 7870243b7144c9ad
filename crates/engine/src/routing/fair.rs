//! Fair queueing: receives round robin from the readable pipes, one whole message from each.

use pinnace_ring::{COMMAND, Frame, MORE};

use crate::drops::Reason;
use crate::error::Error;
use crate::pipe::{PipeId, Pipes};

/// Limit of frames that one call of [`Fair::drain`] reads, but for the rest of a message.
const DRAIN_MAX: usize = 10_000;

/// The readable pipes; `next` indexes the current one.
#[derive(Default)]
pub(crate) struct Fair {
    readable: Vec<PipeId>,
    next: usize,
    /// The last frame was received from the current pipe, and more frames of its message follow.
    inside: bool,
}

impl Fair {
    pub(crate) fn add(&mut self, id: PipeId) {
        if !self.readable.contains(&id) {
            self.readable.push(id);
        }
    }

    pub(crate) fn remove(&mut self, id: PipeId) {
        if let Some(index) = self.readable.iter().position(|&other| other == id) {
            self.inside &= index != self.next;
            self.drop_at(index);
        }
    }

    fn drop_at(&mut self, index: usize) {
        self.readable.remove(index);
        if index < self.next {
            self.next -= 1;
        }
        if self.next >= self.readable.len() {
            self.next = 0;
        }
    }

    /// The pipe of the next frame; pipes without input are parked and removed.
    #[inline(always)]
    pub(crate) fn choose(&mut self, pipes: &mut Pipes) -> Option<PipeId> {
        while let Some(&id) = self.readable.get(self.next) {
            if pipes.peek(id).is_some() || !pipes.park(id) {
                return Some(id);
            }
            self.drop_at(self.next);
        }
        None
    }

    /// Returns true if the next frame continues a message.
    pub(crate) fn is_inside(&self) -> bool {
        self.inside
    }

    /// Receives one frame. Returns its pipe, and true if more frames of the message follow.
    #[inline(always)]
    pub(crate) fn recv(
        &mut self,
        pipes: &mut Pipes,
        sink: &mut dyn FnMut(Frame<'_>),
    ) -> Result<(PipeId, bool), Error> {
        let first = self.readable.get(self.next).copied();
        let (id, more) = match first.and_then(|id| Some((id, pop(pipes, id, sink)?))) {
            Some(popped) => popped,
            None => self.pop_elsewhere(pipes, sink).ok_or(Error::WouldBlock)?,
        };
        self.inside = more;
        if !self.inside && self.readable.len() > 1 {
            self.next = (self.next + 1) % self.readable.len();
        }
        Ok((id, self.inside))
    }

    /// Pops a frame from the next pipe that has one; the current pipe is empty.
    #[cold]
    #[inline(never)]
    fn pop_elsewhere(
        &mut self,
        pipes: &mut Pipes,
        sink: &mut dyn FnMut(Frame<'_>),
    ) -> Option<(PipeId, bool)> {
        let id = self.choose(pipes)?;
        Some((id, pop(pipes, id, sink)?))
    }

    /// As `choose`, for single-frame messages: multipart messages and commands are dropped and counted.
    #[inline(always)]
    pub(crate) fn choose_single(&mut self, pipes: &mut Pipes) -> Option<PipeId> {
        loop {
            let id = self.choose(pipes)?;
            if is_single(pipes, id) {
                return Some(id);
            }
        }
    }

    /// Receives a single-frame message; returns its pipe.
    #[inline(always)]
    pub(crate) fn recv_single(
        &mut self,
        pipes: &mut Pipes,
        sink: &mut dyn FnMut(Frame<'_>),
    ) -> Result<PipeId, Error> {
        self.choose_single(pipes).ok_or(Error::WouldBlock)?;
        self.recv(pipes, sink).map(|(id, _)| id)
    }

    /// Reads the input of all readable pipes, until they are empty. `take` reads one frame of a pipe; true: it is the
    /// first of its message. It returns false to stop, which leaves the rest in the pipes. One call reads
    /// [`DRAIN_MAX`] frames at most; then the socket checks again.
    #[inline(always)]
    pub(crate) fn drain(
        &mut self,
        pipes: &mut Pipes,
        mut take: impl FnMut(&mut Fair, &mut Pipes, PipeId, bool) -> bool,
    ) {
        let mut frames = 0;
        while let Some(id) = self.choose(pipes) {
            let first = !self.inside;
            if first && frames >= DRAIN_MAX {
                return pipes.look_again(id);
            }
            if !take(self, pipes, id, first) {
                return;
            }
            frames += 1;
        }
    }

    /// Drops the rest of the message that is being received.
    pub(crate) fn skip_rest(&mut self, pipes: &mut Pipes) {
        if !std::mem::take(&mut self.inside) {
            return;
        }
        if let Some(&id) = self.readable.get(self.next) {
            pipes.skip_message(id);
            self.next = (self.next + 1) % self.readable.len();
        }
    }
}

/// Pops a frame. Returns true if more frames of its message follow.
#[inline(always)]
fn pop(pipes: &mut Pipes, id: PipeId, sink: &mut dyn FnMut(Frame<'_>)) -> Option<bool> {
    pipes.pop(id, |frame| {
        let more = frame.flags() & MORE != 0;
        sink(frame);
        more
    })
}

/// Returns true if the next message in the pipe has one frame; otherwise drops and counts it.
#[inline(always)]
pub(crate) fn is_single(pipes: &mut Pipes, id: PipeId) -> bool {
    let is_single = pipes.peek(id).is_none_or(|flags| flags & (MORE | COMMAND) == 0);
    if !is_single {
        drop_malformed(pipes, id);
    }
    is_single
}

/// Drops the next message in a pipe, or the rest of the current one, because it breaks the pattern's rules.
#[cold]
pub(crate) fn drop_malformed(pipes: &mut Pipes, id: PipeId) {
    pipes.skip_message(id);
    pipes.count_drop(Some(id), Reason::Malformed, 1);
}
