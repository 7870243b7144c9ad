//! Load balancing: messages go to the writable pipes in turn, each whole to one pipe.

use crate::drops::Reason;
use crate::error::Error;
use crate::pipe::{Outgoing, PipeId, Pipes};

/// So many pipes are not all in the processor's cache, each when its turn has come.
const MANY: usize = 64;

/// The writable pipes, and whose turn it is.
#[derive(Default)]
pub(crate) struct Balance {
    writable: Vec<PipeId>,
    next: usize,
    /// The pipe that takes the rest of the message being sent; None inside says that it is gone and the rest
    /// is dropped.
    current: Option<Option<PipeId>>,
}

impl Balance {
    pub(crate) fn add(&mut self, id: PipeId) {
        if !self.writable.contains(&id) {
            self.writable.push(id);
        }
    }

    /// The pipe takes nothing any more. The message that was on its way into it is lost.
    pub(crate) fn remove(&mut self, pipes: &mut Pipes, id: PipeId) {
        if let Some(index) = self.writable.iter().position(|&other| other == id) {
            self.drop_at(index);
        }
        if self.current == Some(Some(id)) {
            self.current = Some(None);
            pipes.rollback(id);
            pipes.count_drop(Some(id), Reason::PeerLost, 1);
        }
    }

    /// Takes back the frames of the message being sent.
    pub(crate) fn rollback(&mut self, pipes: &mut Pipes) {
        if let Some(Some(id)) = self.current.take() {
            pipes.rollback(id);
        }
    }

    fn drop_at(&mut self, index: usize) {
        self.writable.remove(index);
        if index < self.next {
            self.next -= 1;
        }
        if self.next >= self.writable.len() {
            self.next = 0;
        }
    }

    /// Goes on to a pipe that has room. False: there is none.
    fn choose(&mut self, pipes: &mut Pipes) -> bool {
        while let Some(&id) = self.writable.get(self.next) {
            if pipes.has_room(id) || pipes.want_room(id) {
                return true;
            }
            self.drop_at(self.next);
        }
        false
    }

    pub(crate) fn can_send(&mut self, pipes: &mut Pipes) -> bool {
        self.current.is_some() || self.choose(pipes)
    }

    /// Sends one frame; returns the pipe it went into.
    #[inline(always)]
    pub(crate) fn send(
        &mut self,
        pipes: &mut Pipes,
        frame: &Outgoing<'_>,
        more: bool,
    ) -> Result<Option<PipeId>, Error> {
        let pipe = match self.current {
            Some(pipe) => {
                if let Some(id) = pipe {
                    pipes.push(id, frame, more)?;
                    if !more {
                        pipes.commit(id);
                    }
                }
                pipe
            }
            None => Some(self.begin(pipes, frame, more)?),
        };
        self.current = more.then_some(pipe);
        if !more && self.writable.len() > 1 {
            self.next = self.after(1);
            if self.writable.len() >= MANY {
                pipes.foresee(self.writable[self.after(4)], self.writable[self.after(8)]);
            }
        }
        Ok(pipe)
    }

    /// The place so many behind the one whose turn it is.
    #[inline(always)]
    fn after(&self, places: usize) -> usize {
        (self.next + places) % self.writable.len()
    }

    /// Sends the first frame of a message to the pipe whose turn it is.
    #[inline(always)]
    fn begin(&mut self, pipes: &mut Pipes, frame: &Outgoing<'_>, more: bool) -> Result<PipeId, Error> {
        match self.writable.get(self.next) {
            Some(&id) if pipes.begin(id, frame, more)? => Ok(id),
            _ => self.begin_elsewhere(pipes, frame, more),
        }
    }

    /// The same where the pipe whose turn it was had no room.
    #[cold]
    #[inline(never)]
    fn begin_elsewhere(
        &mut self,
        pipes: &mut Pipes,
        frame: &Outgoing<'_>,
        more: bool,
    ) -> Result<PipeId, Error> {
        while self.choose(pipes) {
            let id = self.writable[self.next];
            if pipes.begin(id, frame, more)? {
                return Ok(id);
            }
        }
        Err(Error::WouldBlock)
    }
}
