//! Socket options: those of the table, and those that only the socket can answer.

use std::sync::Arc;

use super::{Core, Socket};
use crate::error::{Error, Invalid};
use crate::options::{self, Effect, Lookup, Options, SocketValue, put_int, put_text};
use crate::readiness::{POLLIN, POLLOUT};

const ROUTING_ID: i32 = 5;

impl Core {
    /// ZMQ_ROUTING_ID of a socket that generates ids for its peers: the last one; None if there is none yet.
    fn generated_id(&self, value: &mut [u8]) -> Result<Option<usize>, Error> {
        let Some(id) = self.pattern.generated_id() else { return Ok(None) };
        value.get_mut(..id.len()).ok_or(Error::Invalid(Invalid::Length))?.copy_from_slice(id);
        Ok(Some(id.len()))
    }
}

impl Socket {
    /// Sets an option by libzmq's number.
    pub fn set_option(self, option: i32, value: &[u8]) -> Result<(), Error> {
        self.call(false, |core| {
            match options::set(Arc::make_mut(&mut core.options), option, value)? {
                Effect::Stored => {}
                Effect::Patterns => core.pattern.configure(&core.options),
                Effect::Hwm => core.apply_hwm_to_all(),
                Effect::Subscribe(topic) => core.pattern.subscribe(&mut core.pipes, topic, true)?,
                Effect::Unsubscribe(topic) => core.pattern.subscribe(&mut core.pipes, topic, false)?,
            }
            Ok(())
        })
    }

    /// Sets options by their fields.
    pub fn configure(self, change: impl FnOnce(&mut Options)) -> Result<(), Error> {
        self.call(false, |core| {
            change(Arc::make_mut(&mut core.options));
            core.pattern.configure(&core.options);
            core.apply_hwm_to_all();
            Ok(())
        })
    }

    /// The endpoint that was bound or connected last, as it is after resolution (ZMQ_LAST_ENDPOINT).
    pub fn last_endpoint(self) -> Result<String, Error> {
        self.call(false, |core| Ok(core.endpoints.last().to_owned()))
    }

    /// Reads an option by libzmq's number; returns the value's length in bytes.
    pub fn get_option(self, option: i32, value: &mut [u8]) -> Result<usize, Error> {
        if option == ROUTING_ID
            && let Some(len) = self.call(false, |core| core.generated_id(value))?
        {
            return Ok(len);
        }
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
            SocketValue::Fd if core.kind.is_thread_safe => Err(Error::Invalid(Invalid::OptionOfOtherType)),
            SocketValue::Fd => put_int(value, core.mailbox.descriptor()?.raw()),
            SocketValue::Type => put_int(value, core.kind.socket_type as i32),
            SocketValue::LastEndpoint => put_text(value, core.endpoints.last()),
            SocketValue::Mechanism => put_int(value, core.options.security.mechanism as i32),
            SocketValue::TopicsCount => put_int(value, core.pattern.topics().try_into().unwrap_or(i32::MAX)),
            SocketValue::ThreadSafe => put_int(value, core.kind.is_thread_safe.into()),
            SocketValue::Events => Err(Error::Invalid(Invalid::UnknownOption)),
        }
    }

    /// Errors: NotSocket if the socket is closed.
    pub fn is_open(self) -> Result<(), Error> {
        self.lock().map(|_| ())
    }

    /// Returns the socket's readiness: POLLIN, POLLOUT, or both.
    pub fn events(self) -> Result<i16, Error> {
        let waiter = self.lock()?.waiter();
        waiter.serve_if_ours()?;
        waiter.flush();
        waiter.clear_descriptor();
        self.call_quietly(false, |core| {
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

    /// The events that the peer with this name is ready for: POLLIN, POLLOUT. Errors: NotSupported unless ROUTER;
    /// Unreachable.
    pub fn peer_state(self, name: &[u8]) -> Result<i16, Error> {
        self.call_quietly(false, |core| core.pattern.peer_state(&mut core.pipes, name))
    }
}
