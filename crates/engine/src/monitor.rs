//! Events of a socket's connections, told to a PAIR socket that somebody reads (zmq_socket_monitor(3)).
//!
//! An event that does not fit is dropped and counted: nobody is ever held up by a monitor that is not read. The last
//! one, MONITOR_STOPPED, is told to every reader that is there, whatever it has not read yet: who waits for it does so
//! in vain at no time.

use std::sync::atomic::Ordering;

use pinnace_sys::{AsFd, AsRawFd};

use crate::error::Error;
use crate::hub::Hub;
use crate::pipe::{Outgoing, PipeId};
use crate::socket::Socket;

/// libzmq's numbers of the events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Event {
    Connected = 0x1,
    ConnectDelayed = 0x2,
    ConnectRetried = 0x4,
    Listening = 0x8,
    BindFailed = 0x10,
    Accepted = 0x20,
    AcceptFailed = 0x40,
    Closed = 0x80,
    Disconnected = 0x200,
    MonitorStopped = 0x400,
    HandshakeFailedNoDetail = 0x800,
    HandshakeSucceeded = 0x1000,
    HandshakeFailedProtocol = 0x2000,
    HandshakeFailedAuth = 0x4000,
    PipesStats = 0x1_0000,
}

/// What an event is about. The first form of the messages names one end; the second both.
#[derive(Clone, Copy)]
pub(crate) enum At<'a> {
    /// An endpoint that was bound, or was to be.
    Bound(&'a str),
    /// One that is connected to.
    Dialed(&'a str),
    /// A connection.
    Between(&'a Ends),
    Nothing,
}

/// Both ends of a connection as endpoints; the first form names the one that was asked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ends {
    pub(crate) local: String,
    pub(crate) remote: String,
    pub(crate) accepted: bool,
}

impl Ends {
    /// The endpoint that was bound or connected to.
    pub(crate) fn ours(&self) -> &str {
        if self.accepted { &self.local } else { &self.remote }
    }
}

impl At<'_> {
    /// The local end, the remote end, and which of them the first form names.
    fn ends(&self) -> (&str, &str, &str) {
        match self {
            At::Bound(endpoint) => (endpoint, "", endpoint),
            At::Dialed(endpoint) => ("", endpoint, endpoint),
            At::Between(ends) if ends.accepted => (&ends.local, &ends.remote, &ends.local),
            At::Between(ends) => (&ends.local, &ends.remote, &ends.remote),
            At::Nothing => ("", "", ""),
        }
    }
}

/// Who is told, and of what.
#[derive(Clone, Copy)]
pub(crate) struct Monitor {
    pub(crate) socket: Socket,
    pub(crate) events: u64,
    /// 1 or 2: the form of the messages.
    pub(crate) version: i32,
}

/// Tells of an event; `value` is what libzmq gives with it: an error number, an interval or a protocol's
/// code.
pub(crate) fn emit(hub: &Hub, event: Event, value: u32, at: At<'_>) {
    emit_all(hub, event, &[value.into()], at);
}

/// Tells of an event with several values; the first form has the first of them alone.
pub(crate) fn emit_all(hub: &Hub, event: Event, values: &[u64], at: At<'_>) {
    hub.events.count(event);
    if !hub.is_monitored() {
        return;
    }
    let Some(monitor) = hub.monitor() else { return };
    let _turn = hub.telling.lock();
    if monitor.events & event as u64 != 0 && !tell(&monitor, event, values, at) {
        hub.events_dropped.fetch_add(1, Ordering::Relaxed);
    }
}

/// Tells of an event whose value is a descriptor.
pub(crate) fn emit_fd(hub: &Hub, event: Event, fd: &impl AsFd, at: At<'_>) {
    emit(hub, event, fd.as_fd().as_raw_fd() as u32, at);
}

/// Tells of a handshake that failed by the peer's fault.
pub(crate) fn emit_refusal(hub: &Hub, error: &pinnace_zmtp::Error, at: At<'_>) {
    match error.zap_status() {
        Some(status) => emit(hub, Event::HandshakeFailedAuth, status.into(), at),
        None => emit(hub, Event::HandshakeFailedProtocol, error.protocol_code(), at),
    }
}

fn tell(monitor: &Monitor, event: Event, values: &[u64], at: At<'_>) -> bool {
    let send = |bytes: &[u8], more| monitor.socket.send(Outgoing::Bytes(bytes), more, false).is_ok();
    write(monitor.version, event, values, at, send)
}

/// Tells every reader, past the marks.
fn tell_last(monitor: &Monitor, event: Event, at: At<'_>) -> Result<(), Error> {
    monitor.socket.call(false, |core| {
        let readers: Vec<PipeId> = core.pipes.ids().collect();
        for id in readers {
            let push = |bytes: &[u8], more| core.pipes.push(id, &Outgoing::Bytes(bytes), more).is_ok();
            match write(monitor.version, event, &[0], at, push) {
                true => core.pipes.commit(id),
                false => core.pipes.rollback(id),
            }
        }
        Ok(())
    })
}

/// Writes the frames of an event's message, each with whether more follow, until one is not taken.
fn write(
    version: i32,
    event: Event,
    values: &[u64],
    at: At<'_>,
    mut send: impl FnMut(&[u8], bool) -> bool,
) -> bool {
    let (local, remote, named) = at.ends();
    if version == 2 {
        return send(&(event as u64).to_ne_bytes(), true)
            && send(&(values.len() as u64).to_ne_bytes(), true)
            && values.iter().all(|value| send(&value.to_ne_bytes(), true))
            && send(local.as_bytes(), true)
            && send(remote.as_bytes(), false);
    }
    let mut first = [0; 6];
    first[..2].copy_from_slice(&(event as u16).to_ne_bytes());
    let value = values.first().map_or(0, |&value| value as u32);
    first[2..].copy_from_slice(&value.to_ne_bytes());
    send(&first, true) && send(named.as_bytes(), false)
}

/// Ends the monitoring of a socket: its readers are told so.
pub(crate) fn stop(hub: &Hub) {
    if let Some(monitor) = hub.set_monitor(None) {
        if monitor.events & Event::MonitorStopped as u64 != 0 {
            let _turn = hub.telling.lock();
            // Where the context ends its readers hear of that.
            let _ = tell_last(&monitor, Event::MonitorStopped, At::Nothing);
        }
        // It was ours alone; nothing can be wrong with it but that the context ends.
        let _ = monitor.socket.close();
    }
}
