//! `pinnace monitor`: connects or binds, and prints what happens to the connections (zmq_socket_monitor(3)).

use std::io::{self, Write};

use pinnace_engine::{POLLIN, SocketType};
use serde_json::json;

use crate::face::{self, Message, Socket};
use crate::outcome::{Failure, Outcome};
use crate::output;
use crate::settings;
use crate::signals::Signals;
use crate::table::Monitor;

/// Where events are told, within this process.
const TOLD_AT: &str = "inproc://pinnace.monitor";
const ALL: u64 = 0xffff;
/// The form of messages with both addresses.
const VERSION: i32 = 2;

/// Events by libzmq's numbers, and what their value is.
const EVENTS: [(u64, &str, &str); 14] = [
    (0x1, "connected", "fd"),
    (0x2, "connect_delayed", "errno"),
    (0x4, "connect_retried", "interval_ms"),
    (0x8, "listening", "fd"),
    (0x10, "bind_failed", "errno"),
    (0x20, "accepted", "fd"),
    (0x40, "accept_failed", "errno"),
    (0x80, "closed", "fd"),
    (0x200, "disconnected", "fd"),
    (0x400, "monitor_stopped", "value"),
    (0x800, "handshake_failed_no_detail", "errno"),
    (0x1000, "handshake_succeeded", "value"),
    (0x2000, "handshake_failed_protocol", "code"),
    (0x4000, "handshake_failed_auth", "status"),
];

/// The names of all events.
pub fn names() -> Vec<&'static str> {
    EVENTS.iter().map(|&(_, name, _)| name).collect()
}

pub fn run(given: &Monitor) -> Outcome {
    let socket_type = face::type_of(&given.socket_type)?;
    let signals = Signals::new(false)?;
    let context = settings::context(&given.socket)?;
    let socket = settings::socket(&context, socket_type, &given.socket)?;
    let failed = |error| Failure::of("monitor", error);
    socket.0.monitor(Some(TOLD_AT), ALL, VERSION, SocketType::Pair as i32).map_err(failed)?;
    let told = Socket::new(&context, SocketType::Pair)?;
    told.connect(TOLD_AT)?;
    if socket_type == SocketType::Sub {
        settings::subscribe(socket, socket_type, &[] as &[&str])?;
    }
    let mut outcome = given
        .endpoints
        .iter()
        .try_for_each(|endpoint| settings::attach(socket, endpoint, given.bind, given.socket.verbose));
    if outcome.is_ok() {
        outcome = print_all(given, socket, told, &signals);
    }
    settings::tell_stats(socket, &given.socket);
    socket.close(false);
    told.close(false);
    face::end(&context, &signals).or(Ok(()))?;
    let endless = given.count.is_none() && given.until.is_none();
    match outcome {
        Err(Failure::Signal(_)) if endless => Ok(()),
        outcome => outcome,
    }
}

fn print_all(given: &Monitor, socket: Socket, told: Socket, signals: &Signals) -> Outcome {
    let mut out = io::stdout().lock();
    let deadline = face::deadline(given.timeout);
    let mut count = 0;
    loop {
        let Some(message) = told.try_recv()? else {
            match face::wait(vec![told.item(POLLIN), output::end_item()], signals, deadline)? {
                None => return Err(socket.timed_out("the event did not come")),
                Some(ready) if output::is_end(ready[1]) => return Err(Failure::Unread),
                Some(_) => continue,
            }
        };
        // What is sent to a monitored socket is nobody's: taken, so that it holds nobody up.
        while let Ok(Some(_)) = socket.try_recv() {}
        let event = Event::read(&message)?;
        let written = writeln!(out, "{}", if given.json { event.json() } else { event.text() });
        written.and_then(|()| out.flush()).map_err(|error| Failure::of_output(&error))?;
        count += 1;
        if given.until.as_deref() == Some(event.name) || given.count.is_some_and(|wanted| count >= wanted) {
            return Ok(());
        }
    }
}

struct Event {
    name: &'static str,
    meaning: &'static str,
    value: u64,
    local: String,
    remote: String,
}

impl Event {
    /// From the frames of the second form: event, number of values, the values, both addresses.
    fn read(message: &Message) -> Outcome<Event> {
        let number = |at: usize| {
            message.get(at).and_then(|frame| frame.as_slice().try_into().ok()).map(u64::from_ne_bytes)
        };
        let text = |from_end: usize| {
            let at = message.len().checked_sub(from_end)?;
            message.get(at).map(|frame| String::from_utf8_lossy(frame).into_owned())
        };
        let known = number(0).and_then(|number| EVENTS.iter().find(|&&(other, ..)| other == number));
        match (known, number(2), text(2), text(1)) {
            (Some(&(_, name, meaning)), Some(value), Some(local), Some(remote)) => {
                Ok(Event { name, meaning, value, local, remote })
            }
            _ => Err(Failure::of("monitor", "an event of an unknown form")),
        }
    }

    fn text(&self) -> String {
        let Event { name, meaning, value, local, remote } = self;
        let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
        format!("{name} {meaning}={value} local={} remote={}", or_dash(local), or_dash(remote))
    }

    fn json(&self) -> String {
        let Event { name, meaning, value, local, remote } = self;
        json!({ "event": name, (*meaning): value, "local": local, "remote": remote }).to_string()
    }
}
