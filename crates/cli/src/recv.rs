//! `pinnace recv`: prints messages as they arrive, and answers them if the pattern requires it. Messages that were
//! received by the socket but not printed at the end are lost, and their number is reported.

use std::os::unix::ffi::OsStrExt;

use pinnace::{Message, SocketType};

use crate::outcome::{self, Failure, Outcome, say};
use crate::output::{self, Output};
use crate::settings;
use crate::signals::Signals;
use crate::sockets::{self, Socket};
use crate::table::Recv;

pub fn run(given: &Recv) -> Outcome {
    let socket_type = sockets::type_of(&given.socket_type)?;
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
    let outcome =
        outcome::closed_output_fails_if(given.count.is_some(), receive_all(given, &socket, &signals));
    settings::print_stats(&given.socket, &[("recv", &socket)]);
    let stats = socket.stats()?;
    socket.close(outcome.is_ok());
    context.end(&signals)?;
    match context.unread(&stats) {
        // If the output has no reader, nothing counts as lost.
        _ if matches!(outcome, Err(Failure::OutputClosed)) => {}
        0 => {}
        unread => say(format!("messages lost: {unread} received but not printed")),
    }
    outcome
}

/// Rejects flags that do not fit the socket type.
fn check(given: &Recv, socket_type: SocketType, subscribes: bool) -> Outcome {
    if !given.subscribe.is_empty() && !subscribes {
        return Err(Failure::usage("--subscribe applies only to sub and xsub"));
    }
    if given.group.is_empty() == (socket_type == SocketType::Dish) {
        return Err(Failure::usage("--group applies only to dish, and dish requires it"));
    }
    let answers = matches!(
        socket_type,
        SocketType::Rep | SocketType::Server | SocketType::Peer | SocketType::Channel | SocketType::Dgram
    );
    if (given.reply.is_some() || given.echo) && !answers {
        return Err(Failure::usage("--reply and --echo apply only to rep, server, peer, channel and dgram"));
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

/// Waits for a message. A closed standard output, or a signal, is an error.
fn next(given: &Recv, socket: &Socket, signals: &Signals) -> Outcome<Message> {
    let deadline = sockets::deadline(given.timeout);
    loop {
        match sockets::wait(vec![socket.readable(), output::end_item()], signals, deadline)? {
            None => return Err(socket.timed_out("no message received")),
            Some(items) if items[1].is_over() => return Err(Failure::OutputClosed),
            Some(_) => {}
        }
        if let Some(message) = socket.try_recv()? {
            return Ok(message);
        }
    }
}

/// Addressed to the message's sender: for DGRAM by the first frame, for SERVER and PEER by the routing id.
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
