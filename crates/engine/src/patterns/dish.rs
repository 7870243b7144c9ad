//! DISH: receives the messages of the groups that it has joined, fairly from all peers (RFC 48).
//!
//! In the queues a message is two frames: the group, which becomes its label, and the body. Joining a joined group is
//! an error, and so is leaving one that is not joined. Each change is sent to all connected peers, and all groups are
//! sent to each new connection, even above the high-water mark. Messages of groups that are not joined are dropped
//! and counted, and so are messages that are not a group and a body.

use std::collections::HashSet;

use pinnace_ring::{COMMAND, Frame, MORE, NoMemory};
use pinnace_zmtp::command::{self, MAX_GROUP};

use super::Pattern;
use crate::drops::Reason;
use crate::error::{Error, Invalid};
use crate::pipe::{Outgoing, PipeId, Pipes};
use crate::routing::{Announced, Fair, drop_malformed};

#[derive(Default)]
pub(super) struct Dish {
    groups: HashSet<Box<[u8]>>,
    announced: Announced,
    fair: Fair,
    /// The group of the message that is being read, while `fair` is inside a message.
    group: Vec<u8>,
}

impl Dish {
    /// Reads up to the next body of a joined group. Returns its pipe; `group` holds the group.
    #[inline(always)]
    fn seek(&mut self, pipes: &mut Pipes) -> Option<PipeId> {
        if self.fair.is_inside() {
            return self.fair.choose(pipes);
        }
        loop {
            let id = self.fair.choose(pipes)?;
            if pipes.peek(id).is_none_or(|flags| flags & (MORE | COMMAND) != MORE) {
                drop_malformed(pipes, id);
                continue;
            }
            let mut fits = false;
            let group = &mut self.group;
            let _ = self.fair.recv(pipes, &mut |frame| fits = keep(group, frame.data()));
            // A queue publishes whole messages only: the next frame is in the queue.
            if !fits || pipes.peek(id).is_none_or(|flags| flags & MORE != 0) {
                self.fair.skip_rest(pipes);
                pipes.count_drop(Some(id), Reason::Malformed, 1);
                continue;
            }
            if self.groups.contains(&self.group[..]) {
                return Some(id);
            }
            self.drop_unwanted(pipes, id);
        }
    }

    fn drop_unwanted(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.fair.skip_rest(pipes);
        pipes.count_drop(Some(id), Reason::Unwanted, 1);
    }
}

/// Copies a group's name. False if it is too long.
fn keep(group: &mut Vec<u8>, name: &[u8]) -> bool {
    group.clear();
    let fits = name.len() <= MAX_GROUP;
    if fits {
        group.extend_from_slice(name);
    }
    fits
}

impl Pattern for Dish {
    fn attached(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.fair.add(id);
        self.up(pipes, id);
    }

    fn up(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.announced.connect(pipes, id, self.groups.iter(), |group, command| {
            command::append_group(true, group, command);
            Ok(())
        });
    }

    fn down(&mut self, _pipes: &mut Pipes, id: PipeId) {
        self.announced.forget(id);
    }

    fn ended(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.down(pipes, id);
    }

    fn removed(&mut self, _pipes: &mut Pipes, id: PipeId) {
        self.announced.forget(id);
        self.fair.remove(id);
    }

    fn readable(&mut self, _pipes: &mut Pipes, id: PipeId) {
        self.fair.add(id);
    }

    fn writable(&mut self, _pipes: &mut Pipes, _id: PipeId) {}

    fn send(&mut self, _pipes: &mut Pipes, _frame: &mut Outgoing<'_>, _more: bool) -> Result<(), Error> {
        Err(Error::NotSupported)
    }

    fn recv(&mut self, pipes: &mut Pipes, sink: &mut dyn FnMut(Frame<'_>)) -> Result<bool, Error> {
        self.seek(pipes).ok_or(Error::WouldBlock)?;
        self.fair.recv(pipes, sink)?;
        keep(&mut pipes.received.group, &self.group);
        Ok(false)
    }

    /// Always true, as in libzmq: it can join and leave.
    fn can_send(&mut self, _pipes: &mut Pipes) -> bool {
        true
    }

    fn can_recv(&mut self, pipes: &mut Pipes) -> bool {
        self.seek(pipes).is_some()
    }

    fn join(&mut self, pipes: &mut Pipes, group: &[u8], on: bool) -> Result<(), Error> {
        if group.len() > MAX_GROUP || self.groups.contains(group) == on {
            return Err(Error::Invalid(Invalid::Group));
        }
        if on {
            self.groups.try_reserve(1).map_err(|_| NoMemory)?;
            self.groups.insert(group.into());
        } else {
            self.groups.remove(group);
            // The group frame of a message may already have been read.
            if self.fair.is_inside()
                && self.group == group
                && let Some(id) = self.fair.choose(pipes)
            {
                self.drop_unwanted(pipes, id);
            }
        }
        let told = self.announced.change(pipes, |command| {
            command::append_group(on, group, command);
            Ok(())
        });
        Ok(told?)
    }
}
