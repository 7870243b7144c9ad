//! Monitoring of a socket's connections (zmq_socket_monitor(3)).

use std::sync::Arc;
use std::time::Duration;

use pinnace_zmtp::SocketType;

use super::Socket;
use crate::error::{Error, Invalid};
use crate::events::Event;
use crate::monitor::{self, At, EventSink, Monitor, SendFrame};
use crate::pipe::{Far, Outgoing, PipeId};

impl EventSink for Socket {
    fn send(&self, frame: &[u8], more: bool) -> bool {
        Socket::send(*self, Outgoing::Bytes(frame), more, false).is_ok()
    }

    fn send_to_all(&self, write: &dyn Fn(SendFrame<'_>) -> bool) {
        let sent = self.call(false, |core| {
            let readers: Vec<PipeId> = core.pipes.ids().collect();
            for id in readers {
                match write(&mut |frame, more| core.pipes.push(id, &Outgoing::Bytes(frame), more).is_ok()) {
                    true => core.pipes.commit(id),
                    false => core.pipes.rollback(id),
                }
            }
            Ok(())
        });
        let _ = sent; // If the context is being terminated, its readers learn that instead.
    }

    fn close(&self) {
        // The socket is ours alone: its close can fail only because the context is being terminated.
        let _ = Socket::close(*self);
    }
}

impl Socket {
    /// Reports events of the socket's connections at an inproc endpoint; None stops that. `socket_type` is the type of
    /// the socket that reports: PAIR, PUB or PUSH.
    pub fn monitor(
        self,
        endpoint: Option<&str>,
        events: u64,
        version: i32,
        socket_type: SocketType,
    ) -> Result<(), Error> {
        let (mailbox, context) = self.call(false, |core| Ok((core.mailbox.clone(), core.context.clone())))?;
        if !(version == 1 || version == 2) || (version == 1 && events >> 16 != 0) {
            return Err(Error::Invalid(Invalid::MonitorEvents));
        }
        let Some(endpoint) = endpoint else {
            monitor::stop(&mailbox);
            return Ok(());
        };
        let (scheme, _) = endpoint.split_once("://").ok_or(Error::Invalid(Invalid::Endpoint))?;
        if scheme != "inproc" {
            return Err(Error::Transport);
        }
        if !matches!(socket_type, SocketType::Pair | SocketType::Pub | SocketType::Push) {
            return Err(Error::Invalid(Invalid::MonitorType));
        }
        monitor::stop(&mailbox);
        let socket = context.socket(socket_type)?;
        socket.configure(|options| options.linger = Some(Duration::ZERO))?;
        if let Err(error) = socket.bind(endpoint) {
            let _ = socket.close();
            return Err(error);
        }
        mailbox.monitoring.set(Some(Monitor { sink: Arc::new(socket), events, version }));
        Ok(())
    }

    /// Reports to the monitor how many messages each pipe holds, outgoing and incoming. Errors: Invalid if that event
    /// is not monitored, WouldBlock without a pipe.
    pub fn tell_pipes(self) -> Result<(), Error> {
        self.call_quietly(false, |core| {
            let asks = |monitor: Monitor| monitor.events & Event::PipesStats as u64 != 0;
            if !core.mailbox.monitoring.monitor().is_some_and(asks) {
                return Err(Error::Invalid(Invalid::NotMonitored));
            }
            let ids: Vec<PipeId> = core.pipes.ids().collect();
            if ids.is_empty() {
                return Err(Error::WouldBlock);
            }
            for id in ids {
                let dialed = core.endpoint_of(id).map(str::to_owned);
                let Some(pipe) = core.pipes.get(id) else { continue };
                let counts = [pipe.tx.backlog(), pipe.rx.queue.backlog()];
                let at = match (&pipe.far, &dialed) {
                    (Far::Link(Some(link)), _) => At::Between(&link.config.ends),
                    (_, Some(endpoint)) => At::Dialed(endpoint),
                    _ => At::Nothing,
                };
                monitor::emit_all(&core.mailbox, Event::PipesStats, &counts, at);
            }
            Ok(())
        })
    }
}
