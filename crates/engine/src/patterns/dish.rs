//! DISH: messages of the groups that it has joined, from all peers in turn (RFC 48).
//!
//! A message is two frames in the queues: its group, which becomes its label, and its body. Groups are joined once
//! and left once: a second time is an error. Each change is sent to all peers that are connected, and all groups
//! to each peer whose connection comes (again), even to one that takes no more. What a peer sends of a group that
//! is not joined (any more) is dropped and counted, and so is what is not a group and a body.

use std::collections::HashSet;

use pinnace_ring::{COMMAND, Frame, MORE, NoMemory};
use pinnace_zmtp::command::{self, MAX_GROUP};

use super::Pattern;
use super::fair::{Fair, drop_malformed};
use crate::drops::Reason;
use crate::error::Error;
use crate::pipe::{Outgoing, PipeId, Pipes};

#[derive(Default)]
pub(super) struct Dish {
    groups: HashSet<Box<[u8]>>,
    /// The peers that have been sent the groups, and are sent what changes.
    told: Vec<PipeId>,
    fair: Fair,
    /// The group of the message whose body comes next, where `fair` is inside one.
    group: Vec<u8>,
    /// The command that is being sent.
    command: Vec<u8>,
}

impl Dish {
    /// Takes frames out until a body comes next that is wanted: the pipe it is in. Its group is in `group`.
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
            // Messages are whole in their pipes: the next frame is there.
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

    /// Tells a peer of a group that is joined (`on`) or left.
    fn tell(&mut self, pipes: &mut Pipes, id: PipeId, group: &[u8], on: bool) -> Result<(), NoMemory> {
        self.command.clear();
        command::append_group(on, group, &mut self.command);
        pipes.push_command(id, &self.command)
    }

    /// Tells a peer of all groups, in place of what waits for it to come back.
    fn tell_all(&mut self, pipes: &mut Pipes, id: PipeId) -> Result<(), NoMemory> {
        pipes.restart_commands(id)?;
        let groups = std::mem::take(&mut self.groups);
        let told = groups.iter().try_for_each(|group| self.tell(pipes, id, group, true));
        self.groups = groups;
        told
    }
}

/// Keeps a group's name; false: it is too long to be one.
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

    /// The groups wait in a new pipe for its connection; only after a reconnect do they have to be sent again, all
    /// of them.
    fn up(&mut self, pipes: &mut Pipes, id: PipeId) {
        if self.told.contains(&id) {
            return;
        }
        self.told.push(id);
        if self.tell_all(pipes, id).is_err() {
            pipes.count_drop(Some(id), Reason::NoMemory, 1);
        }
    }

    fn down(&mut self, _pipes: &mut Pipes, id: PipeId) {
        self.told.retain(|&other| other != id);
    }

    fn ended(&mut self, pipes: &mut Pipes, id: PipeId) {
        self.down(pipes, id);
    }

    fn removed(&mut self, _pipes: &mut Pipes, id: PipeId) {
        self.told.retain(|&other| other != id);
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

    /// Always, as libzmq says: it can join and leave.
    fn can_send(&mut self, _pipes: &mut Pipes) -> bool {
        true
    }

    fn can_recv(&mut self, pipes: &mut Pipes) -> bool {
        self.seek(pipes).is_some()
    }

    fn join(&mut self, pipes: &mut Pipes, group: &[u8], on: bool) -> Result<(), Error> {
        if group.len() > MAX_GROUP || self.groups.contains(group) == on {
            return Err(Error::Invalid);
        }
        if on {
            self.groups.try_reserve(1).map_err(|_| NoMemory)?;
            self.groups.insert(group.into());
        } else {
            self.groups.remove(group);
            // The group frame of a message may have been taken out already.
            if self.fair.is_inside()
                && self.group == group
                && let Some(id) = self.fair.choose(pipes)
            {
                self.drop_unwanted(pipes, id);
            }
        }
        let mut result = Ok(());
        for index in 0..self.told.len() {
            result = self.tell(pipes, self.told[index], group, on).and(result);
        }
        Ok(result?)
    }
}
