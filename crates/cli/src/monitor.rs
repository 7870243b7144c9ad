//! `pinnace monitor`: connects or binds, and prints the connections' events (zmq_socket_monitor(3)).

use std::io::{self, Write};
use std::time::Instant;

use pinnace::{Error, Event, EventKind, Message, SocketType};
use serde_json::json;

use crate::events;
use crate::outcome::{self, Failure, Outcome};
use crate::output;
use crate::settings;
use crate::signals::Signals;
use crate::sockets::{self, Socket};
use crate::table::Monitor;

/// Messages that are discarded before events are checked again.
const BURST: usize = 1000;

pub fn run(given: &Monitor) -> Outcome {
    let socket_type = sockets::type_of(&given.socket_type)?;
    let signals = Signals::new(false)?;
    let context = settings::context(&given.socket, &given.endpoints)?;
    let socket = settings::socket(&context, socket_type, &given.socket)?;
    let events = socket.0.monitor().map_err(|error| Failure::of("monitor", error))?;
    if socket_type == SocketType::Sub {
        settings::subscribe(&socket, &[] as &[&str])?;
    }
    let mut endpoints = given.endpoints.iter();
    let attached = endpoints.try_for_each(|endpoint| {
        settings::attach(&socket, endpoint, given.bind, given.socket.verbose).map(drop)
    });
    let outcome = attached.and_then(|()| print_all(given, &socket, events, &signals));
    settings::print_stats(&given.socket, &[("monitor", &socket)]);
    socket.close(false);
    context.end(&signals).or(Ok(()))?;
    let endless = given.count.is_none() && given.until.is_none();
    match outcome {
        Err(Failure::Signal(_)) if endless => Ok(()),
        outcome => outcome::closed_output_fails_if(!endless, outcome),
    }
}

fn print_all(given: &Monitor, socket: &Socket, mut events: pinnace::Monitor, signals: &Signals) -> Outcome {
    let mut out = io::stdout().lock();
    let deadline = sockets::deadline(given.timeout);
    let mut count = 0;
    loop {
        discard(socket);
        let event = match events.try_recv() {
            Ok(Some(event)) => event,
            Ok(None) => return Err(Failure::of("monitor", "there are no more events")),
            Err(Error::WouldBlock) => {
                let items = vec![events.poll_item(), output::end_item(), socket.readable()];
                let found = sockets::wait(items, signals, deadline)?;
                let is_late = deadline.is_some_and(|deadline| deadline <= Instant::now());
                match found {
                    Some(items) if items[1].is_over() => return Err(Failure::OutputClosed),
                    // Messages may keep arriving, so the deadline is checked here too.
                    Some(items) if !is_late || items[0].ready().readable => continue,
                    Some(_) | None => return Err(socket.timed_out("the event did not occur")),
                }
            }
            Err(error) => return Err(Failure::of("monitor", error)),
        };
        let written = writeln!(out, "{}", if given.json { json(&event) } else { text(&event) });
        written.and_then(|()| out.flush()).map_err(|error| Failure::of_output(&error))?;
        count += 1;
        if given.until.as_deref() == Some(event.kind.name())
            || given.count.is_some_and(|wanted| count >= wanted)
        {
            return Ok(());
        }
    }
}

/// Discards received messages, so that they do not block senders and the end of a connection, which is queued
/// behind them, is seen. A request gets an empty answer, as from `recv`: otherwise a REP could not receive the next
/// one.
fn discard(socket: &Socket) {
    for _ in 0..BURST {
        if !matches!(socket.try_recv(), Ok(Some(_))) {
            return;
        }
        if socket.0.socket_type() == SocketType::Rep {
            let _ = socket.try_send(Message::from(""));
        }
    }
}

fn text(event: &Event) -> String {
    let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    let (local, remote) = (or_dash(&event.local), or_dash(&event.remote));
    let value = match event.kind {
        // In hexadecimal, as in zmq.h.
        EventKind::HandshakeFailedProtocol => format!("{:#x}", event.value()),
        _ => event.value().to_string(),
    };
    format!("{} {}={value} local={local} remote={remote}", event.kind.name(), events::meaning(event.kind))
}

fn json(event: &Event) -> String {
    let Event { kind, local, remote, .. } = event;
    json!({ "event": kind.name(), (events::meaning(*kind)): event.value(), "local": local, "remote": remote })
        .to_string()
}
