//! The end of a socket: its handle is dead at once, what it accepted is sent by the I/O thread.

use super::{Core, SOCKETS, Socket};
use crate::drops::Reason;
use crate::error::Error;
use crate::hub::Mail;
use crate::monitor;
use crate::pipe::PipeId;
use crate::reactor::Command;
use crate::table::Dead;

impl Socket {
    /// Closes the socket. Blocked calls on it return NotSocket. In a forked child it does nothing to the
    /// parent's.
    pub fn close(self) -> Result<(), Error> {
        let mut core = match SOCKETS.remove(self.0) {
            Ok(core) => core,
            Err(Dead::Inherited) => return Ok(()),
            Err(dead) => return Err(dead.into()),
        };
        core.stop_listening();
        let unsent = core.context.inproc().leave(&core.hub);
        core.hub.lost.give_up(Reason::Expired, unsent);
        // Peers that have come, or gone, and what they sent are told of in the mail: all of it counts.
        let _ = core.news();
        let mut chores = std::mem::take(&mut core.pipes.chores);
        core.do_within(&chores);
        chores.append(&mut core.pipes.chores);
        let unread = core.drop_unread();
        core.hub.lost.add(Reason::Unread, unread);
        let pipes: Vec<PipeId> = core.pipes.ids().collect();
        let mut peers = Vec::new();
        for id in pipes {
            core.pipes.rollback(id);
            peers.extend(core.say_farewell(id));
        }
        core.hub.lost.absorb(&core.pipes.drops);
        let (hub, io, context, linger) =
            (core.hub.clone(), core.io.clone(), core.context.clone(), core.options.linger);
        drop(core);
        super::run(chores, false);
        // Who hears of the end finds that what it has sent since is read by nobody.
        peers.into_iter().for_each(|(hub, far)| hub.post(Mail::Ended(far)));
        hub.close();
        hub.for_each_link(|link| link.flush());
        context.socket_closed(&hub);
        if !hub.has_io() {
            monitor::stop(&hub);
            context.socket_ended(&hub);
            return Ok(());
        }
        let ended = hub.clone();
        let done = Box::new(move || context.socket_ended(&ended));
        io.send(Command::Close(hub, linger, done));
        Ok(())
    }
}

impl Core {
    /// Takes out what came in and nobody received; returns how many messages that were. What a publisher has not
    /// read are subscriptions.
    fn drop_unread(&mut self) -> u64 {
        if self.kind.hears_wishes() {
            return 0;
        }
        let mut left = Vec::new();
        let ids: Vec<PipeId> = self.pipes.ids().collect();
        let mut unread = self.pattern.unread();
        for id in ids {
            unread += self.pipes.get(id).map_or(0, |pipe| pipe.drain(&mut left));
        }
        unread
    }
}
