//! Events of a socket's connections, sent to a PAIR socket that the application reads (zmq_socket_monitor(3)).
//!
//! An event that does not fit is dropped and counted: a monitor that is not read never blocks a thread. The last
//! event, MONITOR_STOPPED, is sent to every connected reader, however much it has not read yet: no reader waits for
//! it in vain.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use pinnace_sys::{AsFd, AsRawFd};

use crate::endpoint::EndpointPair;
use crate::events::{Event, EventCounts};
use crate::mailbox::Mailbox;

/// What an event is about. Version 1 of the messages names one end, version 2 names both.
#[derive(Clone, Copy)]
pub(crate) enum At<'a> {
    /// An endpoint that was bound, or could not be bound.
    Bound(&'a str),
    /// An endpoint that is connected to.
    Dialed(&'a str),
    /// A connection.
    Between(&'a EndpointPair),
    Nothing,
}

impl At<'_> {
    /// The local end, the remote end, and the one that version 1 names.
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

/// Sends one frame of an event; `more`: further frames follow. False: it was refused.
pub(crate) type SendFrame<'a> = &'a mut dyn FnMut(&[u8], bool) -> bool;

/// The socket that the application reads events from.
pub(crate) trait EventSink: Send + Sync {
    /// Sends one frame; `more`: further frames follow. False: there is no room.
    fn send(&self, frame: &[u8], more: bool) -> bool;

    /// Sends one message to every reader, past the high-water mark. `write` is called for each reader, and returns
    /// false if a frame was refused.
    fn send_to_all(&self, write: &dyn Fn(SendFrame<'_>) -> bool);

    fn close(&self);
}

/// Where events go, and the mask of the events that go there.
#[derive(Clone)]
pub(crate) struct Monitor {
    pub(crate) sink: Arc<dyn EventSink>,
    pub(crate) events: u64,
    /// The version of the messages: 1 or 2.
    pub(crate) version: i32,
}

/// The monitor of a socket, and its events so far.
#[derive(Default)]
pub(crate) struct Monitoring {
    is_on: AtomicBool,
    monitor: Mutex<Option<Monitor>>,
    /// Held while the frames of one event are sent.
    telling: Mutex<()>,
    /// How often each event has happened.
    pub(crate) events: EventCounts,
    /// Events that did not fit into the monitor's queue.
    pub(crate) dropped: AtomicU64,
}

impl Monitoring {
    pub(crate) fn monitor(&self) -> Option<Monitor> {
        self.monitor.lock().clone()
    }

    /// Replaces the monitor and returns the previous one.
    pub(crate) fn set(&self, monitor: Option<Monitor>) -> Option<Monitor> {
        self.is_on.store(monitor.is_some(), Ordering::Relaxed);
        std::mem::replace(&mut self.monitor.lock(), monitor)
    }
}

/// Sends an event. `value` is what libzmq sends with it: an error number, an interval or a protocol error code.
pub(crate) fn emit(mailbox: &Mailbox, event: Event, value: u32, at: At<'_>) {
    emit_all(mailbox, event, &[value.into()], at);
}

/// Sends an event with several values; version 1 carries only the first.
pub(crate) fn emit_all(mailbox: &Mailbox, event: Event, values: &[u64], at: At<'_>) {
    let monitoring = &mailbox.monitoring;
    monitoring.events.count(event);
    if !monitoring.is_on.load(Ordering::Relaxed) {
        return;
    }
    let Some(monitor) = monitoring.monitor() else { return };
    let _turn = monitoring.telling.lock();
    if monitor.events & event as u64 != 0 && !tell(&monitor, event, values, at) {
        monitoring.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

/// Sends an event with a descriptor as its value.
pub(crate) fn emit_fd(mailbox: &Mailbox, event: Event, fd: &impl AsFd, at: At<'_>) {
    emit(mailbox, event, fd.as_fd().as_raw_fd() as u32, at);
}

/// Reports a handshake that failed because of the peer.
pub(crate) fn emit_refusal(mailbox: &Mailbox, error: &pinnace_zmtp::Error, at: At<'_>) {
    match error.zap_status() {
        Some(status) => emit(mailbox, Event::HandshakeFailedAuth, status.into(), at),
        None => emit(mailbox, Event::HandshakeFailedProtocol, error.protocol_code(), at),
    }
}

fn tell(monitor: &Monitor, event: Event, values: &[u64], at: At<'_>) -> bool {
    write(monitor.version, event, values, at, &mut |frame, more| monitor.sink.send(frame, more))
}

/// Writes the frames of an event's message, each with whether more follow. False: `send` refused one.
fn write(version: i32, event: Event, values: &[u64], at: At<'_>, send: SendFrame<'_>) -> bool {
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

/// Stops the monitoring of a socket, and tells its readers.
pub(crate) fn stop(mailbox: &Mailbox) {
    if let Some(monitor) = mailbox.monitoring.set(None) {
        if monitor.events & Event::MonitorStopped as u64 != 0 {
            let _turn = mailbox.monitoring.telling.lock();
            let stopped = Event::MonitorStopped;
            monitor.sink.send_to_all(&|send| write(monitor.version, stopped, &[0], At::Nothing, send));
        }
        monitor.sink.close();
    }
}
