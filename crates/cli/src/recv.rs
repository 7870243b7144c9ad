//! `pinnace recv`: prints messages as they come, and answers them where the pattern wants it. What had come in by its
//! end and was not received is lost, which is said.

use std::os::unix::ffi::OsStrExt;

use pinnace::{Message, SocketType};

use crate::face::{self, Socket};
use crate::outcome::{self, Failure, Outcome, say};
use crate::output::{self, Output};
use crate::settings;
use crate::signals::Signals;
use crate::table::Recv;

pub fn run(given: &Recv) -> Outcome {
    let socket_type = face::type_of(&given.socket_type)?;
    let subscribes = matches!(socket_type, SocketType::Sub | SocketType::XSub);
    check(given, socket_type, subscribes)?;
    let signals = Signals::new(false)?;
    let context = settings::context(&given.socket, &given.endpoints)?;
    let socket = settings::socket(&context, socket_type, &given.socket)?;
    for group in &given.group {
        let joined = socket.0.join(group.as_bytes());
        joined.map_err(|error| Failure::usage(format!("--group {}: {error}", group.display())))?;
    }
    if subscribes {
        settings::subscribe(&socket, &given.subscribe)?;
    }
    for endpoint in &given.endpoints {
        settings::attach(&socket, endpoint, given.bind, given.socket.verbose)?;
    }
    let outcome = outcome::reached(receive_all(given, &socket, &signals), given.count.is_some());
    settings::tell_stats(&given.socket, &[("recv", &socket)]);
    let stats = socket.stats()?;
    socket.close(outcome.is_ok());
    context.end(&signals)?;
    match context.unread(&stats) {
        // Who reads no more misses nothing.
        _ if matches!(outcome, Err(Failure::Unread)) => {}
        0 => {}
        unread => say(format!("messages lost: {unread} had come in and were not asked for")),
    }
    outcome
}

/// Flags that do not go with the socket type.
fn check(given: &Recv, socket_type: SocketType, subscribes: bool) -> Outcome {
    if !given.subscribe.is_empty() && !subscribes {
        return Err(Failure::usage("--subscribe is for sub and xsub"));
    }
    if given.group.is_empty() == (socket_type == SocketType::Dish) {
        return Err(Failure::usage("--group is for dish, which wants one at least"));
    }
    let answers = matches!(
        socket_type,
        SocketType::Rep | SocketType::Server | SocketType::Peer | SocketType::Channel | SocketType::Dgram
    );
    if (given.reply.is_some() || given.echo) && !answers {
        return Err(Failure::usage("--reply and --echo are for rep, server, peer, channel and dgram"));
    }
    Ok(())
}

fn receive_all(given: &Recv, socket: &Socket, signals: &Signals) -> Outcome {
    let mut output = Output::new(&given.output);
    let answers = given.echo || given.reply.is_some() || socket.0.socket_type() == SocketType::Rep;
    let mut received = 0;
    while given.count.is_none_or(|count| received < count) {
        signals.check().or_else(|ended| output.flush().and(Err(ended)))?;
        let message = match socket.try_recv()? {
            Some(message) => message,
            None => {
                output.flush()?;
                next(given, socket, signals)?
            }
        };
        received += 1;
        output.write(&message)?;
        if answers {
            socket.answer(answer(given, socket.0.socket_type(), message), signals, given.timeout)?;
        }
    }
    output.flush()
}

/// Waits for a message, for the end of whoever reads our output, and for signals.
fn next(given: &Recv, socket: &Socket, signals: &Signals) -> Outcome<Message> {
    let deadline = face::deadline(given.timeout);
    loop {
        match face::wait(vec![socket.readable(), output::end_item()], signals, deadline)? {
            None => return Err(socket.timed_out("no message came")),
            Some(items) if items[1].is_over() => return Err(Failure::Unread),
            Some(_) => {}
        }
        if let Some(message) = socket.try_recv()? {
            return Ok(message);
        }
    }
}

/// To whoever sent the message: a DGRAM says so in the first frame, a SERVER and a PEER beside the frame.
fn answer(given: &Recv, socket_type: SocketType, mut message: Message) -> Message {
    if given.echo {
        return message;
    }
    let text = given.reply.as_ref().map(|text| text.as_bytes()).unwrap_or_default();
    let mut answer = Message::from(text).to_peer(message.routing_id());
    if socket_type == SocketType::Dgram {
        answer.push_front(message.pop_front().unwrap_or_default());
    }
    answer
}
