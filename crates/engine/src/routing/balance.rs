//! Load balancing: sends round robin to the writable pipes, one whole message to each.

use crate::drops::Reason;
use crate::error::Error;
use crate::pipe::{Outgoing, PipeId, Pipes};

/// From this number of pipes on, a pipe's data has usually left the cache by its turn, so it is prefetched.
const MANY: usize = 64;

/// The writable pipes; `next` indexes the current one.
#[derive(Default)]
pub(crate) struct Balance {
    writable: Vec<PipeId>,
    next: usize,
    /// The pipe of the message that is being sent; Some(None): the pipe is gone and the rest of the message is
    /// dropped.
    current: Option<Option<PipeId>>,
}

impl Balance {
    pub(crate) fn add(&mut self, id: PipeId) {
        if !self.writable.contains(&id) {
            self.writable.push(id);
        }
    }

    /// Removes a pipe. A message that is being sent into it is lost.
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

    /// Rolls back the message that is being sent.
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

    /// Advances to a pipe that has room. False if none has.
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

    /// Sends one frame; returns its pipe.
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
                pipes.prefetch_next(self.writable[self.after(4)], self.writable[self.after(8)]);
            }
        }
        Ok(pipe)
    }

    /// The index `places` after the current pipe.
    #[inline(always)]
    fn after(&self, places: usize) -> usize {
        (self.next + places) % self.writable.len()
    }

    /// Sends the first frame of a message to the current pipe.
    #[inline(always)]
    fn begin(&mut self, pipes: &mut Pipes, frame: &Outgoing<'_>, more: bool) -> Result<PipeId, Error> {
        match self.writable.get(self.next) {
            Some(&id) if pipes.begin(id, frame, more)? => Ok(id),
            _ => self.begin_elsewhere(pipes, frame, more),
        }
    }

    /// As `begin`, if the current pipe has no room.
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
