//! Events of a socket's connections, told to a PAIR socket that somebody reads (zmq_socket_monitor(3)).
//!
//! An event that does not fit is dropped and counted: nobody is ever held up by a monitor that is not read.

use std::sync::atomic::Ordering;

use pinnace_sys::{AsFd, AsRawFd};

use crate::hub::Hub;
use crate::pipe::Outgoing;
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
pub(crate) fn emit(hub: &Hub, event: Event, value: u32, endpoint: &str) {
    if !hub.is_monitored() {
        return;
    }
    let Some(monitor) = hub.monitor() else { return };
    let _turn = hub.telling.lock();
    if monitor.events & event as u64 != 0 && !tell(&monitor, event, value, endpoint) {
        hub.events_dropped.fetch_add(1, Ordering::Relaxed);
    }
}

/// Tells of an event whose value is a descriptor.
pub(crate) fn emit_fd(hub: &Hub, event: Event, fd: &impl AsFd, endpoint: &str) {
    emit(hub, event, fd.as_fd().as_raw_fd() as u32, endpoint);
}

/// Tells of a handshake that failed by the peer's fault.
pub(crate) fn emit_refusal(hub: &Hub, error: &pinnace_zmtp::Error, endpoint: &str) {
    match error.zap_status() {
        Some(status) => emit(hub, Event::HandshakeFailedAuth, status.into(), endpoint),
        None => emit(hub, Event::HandshakeFailedProtocol, error.protocol_code(), endpoint),
    }
}

fn tell(monitor: &Monitor, event: Event, value: u32, endpoint: &str) -> bool {
    let send = |bytes: &[u8], more| monitor.socket.send(Outgoing::Bytes(bytes), more, false).is_ok();
    if monitor.version == 2 {
        return send(&(event as u64).to_ne_bytes(), true)
            && send(&1u64.to_ne_bytes(), true)
            && send(&u64::from(value).to_ne_bytes(), true)
            && send(endpoint.as_bytes(), true)
            && send(b"", false);
    }
    let mut first = [0; 6];
    first[..2].copy_from_slice(&(event as u16).to_ne_bytes());
    first[2..].copy_from_slice(&value.to_ne_bytes());
    send(&first, true) && send(endpoint.as_bytes(), false)
}

/// Ends the monitoring of a socket: its reader is told so.
pub(crate) fn stop(hub: &Hub) {
    emit(hub, Event::MonitorStopped, 0, "");
    if let Some(monitor) = hub.set_monitor(None) {
        // It was ours alone; nothing can be wrong with it but that the context ends.
        let _ = monitor.socket.close();
    }
}
