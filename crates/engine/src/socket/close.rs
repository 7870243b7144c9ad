//! Closing a socket: its handle is invalid at once, and the I/O thread sends the messages that it has accepted.

use super::{Core, SOCKETS, Socket};
use crate::drops::Reason;
use crate::error::Error;
use crate::io::Command;
use crate::mailbox::Notice;
use crate::monitor;
use crate::pipe::PipeId;
use crate::table::Dead;

impl Socket {
    /// Closes the socket. Blocked calls on it return NotSocket. In a forked child the parent's socket is not
    /// affected.
    pub fn close(self) -> Result<(), Error> {
        let mut core = match SOCKETS.remove(self.0) {
            Ok(core) => core,
            Err(Dead::Inherited) => return Ok(()),
            Err(dead) => return Err(dead.into()),
        };
        core.endpoints.stop_listening();
        let unsent = core.context.inproc().leave(&core.mailbox);
        core.mailbox.lost.give_up(Reason::Expired, unsent);
        // Notices bring peers that have come or gone, and their messages, all of which count.
        let _ = core.handle_notices();
        let mut deferred = std::mem::take(&mut core.pipes.deferred);
        core.do_within(&deferred);
        deferred.append(&mut core.pipes.deferred);
        let unread = core.drop_unread();
        core.mailbox.lost.add(Reason::Unread, unread);
        let pipes: Vec<PipeId> = core.pipes.ids().collect();
        let mut peers = Vec::new();
        for id in pipes {
            core.pipes.rollback(id);
            peers.extend(core.say_farewell(id));
        }
        core.mailbox.lost.absorb(&core.pipes.drops);
        let (mailbox, io, context, linger) =
            (core.mailbox.clone(), core.io.clone(), core.context.clone(), core.options.linger);
        drop(core);
        super::run(deferred, false);
        // After `drop(core)`: a peer that handles this notice finds its unread messages abandoned.
        peers.into_iter().for_each(|(mailbox, far)| mailbox.post(Notice::Ended(far)));
        mailbox.close();
        mailbox.for_each_link(|link| link.flush());
        context.socket_closed(&mailbox);
        if !mailbox.has_io() {
            monitor::stop(&mailbox);
            context.socket_ended(&mailbox);
            return Ok(());
        }
        let ended = mailbox.clone();
        let done = Box::new(move || context.socket_ended(&ended));
        io.send(Command::Close(mailbox, linger, done));
        Ok(())
    }
}

impl Core {
    /// Drops input that was not received; returns the number of messages. A publisher's input is subscriptions and
    /// does not count.
    fn drop_unread(&mut self) -> u64 {
        if self.kind.receives_subscriptions() {
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
