//! `pinnace recv`: prints messages as they come, and answers them where the pattern wants it.

use std::os::unix::ffi::OsStrExt;

use pinnace_engine::{POLLIN, SocketType};

use crate::face::{self, Message, Socket};
use crate::outcome::{Failure, Outcome};
use crate::output::{self, Output};
use crate::settings;
use crate::signals::Signals;
use crate::table::Recv;

pub fn run(given: &Recv) -> Outcome {
    let socket_type = face::type_of(&given.socket_type)?;
    let subscribes = matches!(socket_type, SocketType::Sub | SocketType::XSub);
    if !given.subscribe.is_empty() && !subscribes {
        return Err(Failure::usage("--subscribe is for sub and xsub"));
    }
    if (given.reply.is_some() || given.echo) && socket_type != SocketType::Rep {
        return Err(Failure::usage("--reply and --echo are for rep"));
    }
    let signals = Signals::new(false)?;
    let context = settings::context(&given.socket)?;
    let socket = settings::socket(&context, socket_type, &given.socket)?;
    if subscribes {
        settings::subscribe(socket, socket_type, &given.subscribe)?;
    }
    for endpoint in &given.endpoints {
        settings::attach(socket, endpoint, given.bind, given.socket.verbose)?;
    }
    let outcome = receive_all(given, socket, socket_type, &signals);
    settings::tell_stats(socket, &given.socket);
    socket.close(outcome.is_ok());
    face::end(&context, &signals)?;
    outcome
}

fn receive_all(given: &Recv, socket: Socket, socket_type: SocketType, signals: &Signals) -> Outcome {
    let mut output = Output::new(&given.output);
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
        if socket_type == SocketType::Rep {
            // Who asked may be gone by now: then the answer is dropped, and counted.
            socket.send(&answer(given, message), signals, given.timeout)?;
        }
    }
    output.flush()
}

/// Waits for a message, for the end of whoever reads our output, and for signals.
fn next(given: &Recv, socket: Socket, signals: &Signals) -> Outcome<Message> {
    let deadline = face::deadline(given.timeout);
    loop {
        match face::wait(vec![socket.item(POLLIN), output::end_item()], signals, deadline)? {
            None => return Err(socket.timed_out("no message came")),
            Some(ready) if output::is_end(ready[1]) => return Err(Failure::Unread),
            Some(_) => {}
        }
        if let Some(message) = socket.try_recv()? {
            return Ok(message);
        }
    }
}

fn answer(given: &Recv, message: Message) -> Message {
    match &given.reply {
        _ if given.echo => message,
        Some(text) => vec![text.as_bytes().to_vec()],
        None => vec![Vec::new()],
    }
}
