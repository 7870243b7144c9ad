//! The end of a socket: its handle is dead at once, what it accepted is sent by the I/O thread.

use super::{SOCKETS, Socket};
use crate::error::Error;
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
        core.context.inproc().leave(&core.hub);
        let pipes: Vec<PipeId> = core.pipes.ids().collect();
        for id in pipes {
            core.pipes.rollback(id);
            core.leave_peer(id);
        }
        let (hub, io, context, linger) =
            (core.hub.clone(), core.io.clone(), core.context.clone(), core.options.linger);
        drop(core);
        hub.close();
        hub.for_each_link(|link| link.flush());
        context.socket_closed();
        if hub.poll_set().is_none() {
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
