//! Options of a socket: the table's, and those that only the socket knows.

use super::{Socket, Waiter};
use crate::error::Error;
use crate::monitor::{self, Monitor};
use crate::options::{self, Effect, Lookup, SocketValue, put_int, put_text};

/// What `events` answers: a message can be received (ZMQ_POLLIN), sent (ZMQ_POLLOUT).
pub const POLLIN: i16 = 1;
pub const POLLOUT: i16 = 2;

impl Socket {
    /// Sets an option by libzmq's number.
    pub fn set_option(self, option: i32, value: &[u8]) -> Result<(), Error> {
        self.call(false, |core| {
            match options::set(&mut core.options, option, value)? {
                Effect::Stored => {}
                Effect::Patterns => core.pattern.configure(&core.options),
                Effect::Hwm => core.apply_marks(),
                Effect::Subscribe(topic) => core.pattern.subscribe(&mut core.pipes, topic, true)?,
                Effect::Unsubscribe(topic) => core.pattern.subscribe(&mut core.pipes, topic, false)?,
            }
            Ok(())
        })
    }

    /// Reads an option by libzmq's number; returns the value's length in bytes.
    pub fn get_option(self, option: i32, value: &mut [u8]) -> Result<usize, Error> {
        let known = match self.call(false, |core| options::get(&core.options, option, value))? {
            Lookup::Value(len) => return Ok(len),
            Lookup::Socket(known) => known,
        };
        if known == SocketValue::Events {
            return put_int(value, self.events()?.into());
        }
        let core = self.lock()?;
        match known {
            SocketValue::ReceiveMore => put_int(value, core.receive_more.into()),
            SocketValue::Fd => put_int(value, core.hub.descriptor()?.raw()),
            SocketValue::Type => put_int(value, core.kind.socket_type as i32),
            SocketValue::LastEndpoint => put_text(value, &core.last_endpoint),
            SocketValue::Mechanism | SocketValue::ThreadSafe | SocketValue::Events => put_int(value, 0),
        }
    }

    /// What the socket is ready for at this moment: POLLIN, POLLOUT.
    pub fn events(self) -> Result<i16, Error> {
        let mut waiter = Waiter::new(&*self.lock()?);
        waiter.serve_if_ours()?;
        waiter.flush();
        waiter.clear_descriptor();
        self.call(false, |core| {
            let mut events = 0;
            if core.pattern.can_recv(&mut core.pipes) {
                events |= POLLIN;
            }
            if core.pattern.can_send(&mut core.pipes) {
                events |= POLLOUT;
            }
            if !core.ended.is_empty() {
                core.sweep();
            }
            Ok(events)
        })
    }

    /// Has events of the socket's connections told at an inproc endpoint; None ends it.
    pub fn monitor(self, endpoint: Option<&str>, events: u64, version: i32) -> Result<(), Error> {
        let (hub, context) = self.call(false, |core| Ok((core.hub.clone(), core.context.clone())))?;
        let Some(endpoint) = endpoint else {
            monitor::stop(&hub);
            return Ok(());
        };
        if !(version == 1 || version == 2) || (version == 1 && events >> 16 != 0) {
            return Err(Error::Invalid);
        }
        let (scheme, _) = endpoint.split_once("://").ok_or(Error::Invalid)?;
        if scheme != "inproc" {
            return Err(Error::Transport);
        }
        monitor::stop(&hub);
        const PAIR: i32 = 0;
        let socket = context.socket(PAIR)?;
        const LINGER: i32 = 17;
        socket.set_option(LINGER, &0i32.to_ne_bytes())?;
        if let Err(error) = socket.bind(endpoint) {
            let _ = socket.close();
            return Err(error);
        }
        hub.set_monitor(Some(Monitor { socket, events, version }));
        Ok(())
    }
}
