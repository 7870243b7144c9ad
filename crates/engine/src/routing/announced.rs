//! Peers that know what a socket wants: its topics (SUB, XSUB) or its groups (DISH). Each new connection is sent all of
//! them, and then each change, even above the high-water mark.

use pinnace_ring::NoMemory;

use crate::drops::Reason;
use crate::pipe::{PipeId, Pipes};

#[derive(Default)]
pub(crate) struct Announced {
    peers: Vec<PipeId>,
    /// Buffer for the command that is being sent.
    command: Vec<u8>,
}

impl Announced {
    pub(crate) fn peers(&self) -> &[PipeId] {
        &self.peers
    }

    /// A peer is connected: sends it a command for each of `all`, in place of commands that still wait for an earlier
    /// connection. A new pipe queues commands until it is connected, so it is told only once.
    pub(crate) fn connect<T>(
        &mut self,
        pipes: &mut Pipes,
        id: PipeId,
        all: impl Iterator<Item = T>,
        write: impl Fn(T, &mut Vec<u8>) -> Result<(), NoMemory>,
    ) {
        if self.peers.contains(&id) {
            return;
        }
        self.peers.push(id);
        if self.send_all(pipes, id, all, write).is_err() {
            pipes.count_drop(Some(id), Reason::NoMemory, 1);
        }
    }

    fn send_all<T>(
        &mut self,
        pipes: &mut Pipes,
        id: PipeId,
        mut all: impl Iterator<Item = T>,
        write: impl Fn(T, &mut Vec<u8>) -> Result<(), NoMemory>,
    ) -> Result<(), NoMemory> {
        pipes.restart_commands(id)?;
        all.try_for_each(|one| {
            self.command.clear();
            write(one, &mut self.command)?;
            pipes.push_command(id, &self.command)
        })
    }

    /// Sends a change to all peers. Errors: NoMemory; the other peers are sent it.
    pub(crate) fn change(
        &mut self,
        pipes: &mut Pipes,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), NoMemory>,
    ) -> Result<(), NoMemory> {
        self.command.clear();
        write(&mut self.command)?;
        let mut result = Ok(());
        for &id in &self.peers {
            result = pipes.push_command(id, &self.command).and(result);
        }
        result
    }

    /// The peer's connection is lost, or its pipe has ended.
    pub(crate) fn forget(&mut self, id: PipeId) {
        self.peers.retain(|&other| other != id);
    }
}
