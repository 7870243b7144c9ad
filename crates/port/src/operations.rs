//! The operations that a client may request, with their arguments and results (docs/port.md).

use pinnace_engine::{Context, Error, KeyPair, OPTIONS, OptionKind, OptionSpec, Socket, SocketType, Stats};
use rustix::io::Errno;

use crate::arguments::linger;
use crate::certificates;
use crate::channel::{Channel, WINDOW};
use crate::credit::Credit;
use crate::delivery_operations;
use crate::entries::Entries;
use crate::files_operations;
use crate::refusal::{Refusal, answer};
use crate::session::Session;
use crate::wire::{Fields, Malformed};

type Outcome = Result<(), Refusal>;

/// Carries an operation out, and answers. The answers to some come later.
pub fn handle(
    session: &mut Session,
    id: u32,
    operation: u16,
    arguments: Fields<'_>,
) -> Result<(), Malformed> {
    if operation == SEND {
        return send(session, id, arguments);
    }
    let outcome = match operation {
        certificates::LOAD | certificates::SAVE => {
            certificates::handle(id, operation, arguments, session.desk()).map(|()| None)
        }
        DELIVERY_FIRST..FILES_FIRST => delivery_operations::handle(session, id, operation, arguments),
        FILES_FIRST..FILES_END => files_operations::handle(session, id, operation, arguments),
        _ => {
            let mut values = Vec::new();
            carry_out(session, operation, arguments, &mut values).map(|()| Some(values))
        }
    };
    if let Some(outcome) = outcome.transpose() {
        answer(&mut session.output, id, outcome);
    }
    Ok(())
}

/// Operations of guaranteed delivery, and of file transfer.
const DELIVERY_FIRST: u16 = 50;
const FILES_FIRST: u16 = 70;
const FILES_END: u16 = 90;

const LIST_OPTIONS: u16 = 1;
const NEW_CONTEXT: u16 = 2;
const SET_CONTEXT: u16 = 3;
const GET_CONTEXT: u16 = 4;
const END_CONTEXT: u16 = 5;
const NEW_SOCKET: u16 = 10;
const CLOSE: u16 = 11;
const BIND: u16 = 12;
const UNBIND: u16 = 13;
const CONNECT: u16 = 14;
const DISCONNECT: u16 = 15;
const SET_OPTION: u16 = 16;
const GET_OPTION: u16 = 17;
const JOIN: u16 = 18;
const LEAVE: u16 = 19;
const MONITOR: u16 = 20;
const STATISTICS: u16 = 21;
const WITHDRAW: u16 = 22;
const KEY_PAIR: u16 = 30;
/// Sends one message and confirms it.
const SEND: u16 = 40;

fn carry_out(session: &mut Session, operation: u16, mut of: Fields<'_>, values: &mut Vec<u8>) -> Outcome {
    match operation {
        LIST_OPTIONS => list_options(of, values),
        NEW_CONTEXT => new_context(session, of),
        SET_CONTEXT => {
            let (context, option, value) = (of.u32()?, of.i32()?, of.i32()?);
            of.end()?;
            Ok(context_of(session, context)?.set(option, value)?)
        }
        GET_CONTEXT => {
            let (context, option) = (of.u32()?, of.i32()?);
            of.end()?;
            values.extend_from_slice(&context_of(session, context)?.get(option)?.to_be_bytes());
            Ok(())
        }
        END_CONTEXT => end_context(session, of),
        NEW_SOCKET => new_socket(session, of, values),
        CLOSE => close_socket(session, of),
        BIND => with_endpoint(session, of, values, Socket::bind),
        UNBIND => with_endpoint(session, of, &mut Vec::new(), Socket::unbind),
        CONNECT => with_endpoint(session, of, values, Socket::connect),
        DISCONNECT => with_endpoint(session, of, &mut Vec::new(), Socket::disconnect),
        SET_OPTION => set_option(session, of),
        GET_OPTION => get_option(session, of, values),
        JOIN | LEAVE => {
            let (socket, group) = (socket_of(session, of.u32()?)?, of.bytes()?);
            of.end()?;
            Ok(socket.join(group, operation == JOIN)?)
        }
        MONITOR => monitor(session, of),
        STATISTICS => statistics(session, of, values),
        WITHDRAW => withdraw(session, of),
        KEY_PAIR => {
            of.end()?;
            let pair =
                KeyPair::generate().map_err(|_| Refusal::Other(Errno::IO, "the kernel has no randomness"))?;
            values.extend_from_slice(&pair.public);
            values.extend_from_slice(pair.secret.as_ref());
            Ok(())
        }
        _ => Err(Refusal::Other(Errno::NOSYS, "unknown operation")),
    }
}

fn send(session: &mut Session, id: u32, mut of: Fields<'_>) -> Result<(), Malformed> {
    let channel = of.u32()?;
    session.send(channel, of.rest(), Some(id))
}

fn context_of(session: &Session, number: u32) -> Result<&Context, Refusal> {
    session.contexts.get(&number).ok_or(Refusal::Other(Errno::NOENT, "no such context"))
}

fn new_context(session: &mut Session, mut of: Fields<'_>) -> Outcome {
    let number = of.u32()?;
    of.end()?;
    if session.contexts.contains_key(&number) {
        return Err(Refusal::Other(Errno::EXIST, "the context is there"));
    }
    session.contexts.insert(number, Context::new()?);
    Ok(())
}

/// Its sockets are closed first.
fn end_context(session: &mut Session, mut of: Fields<'_>) -> Outcome {
    let (number, linger) = (of.u32()?, linger(of.i32()?));
    of.end()?;
    context_of(session, number)?;
    session.end_context(number, linger);
    Ok(())
}

fn new_socket(session: &mut Session, mut of: Fields<'_>, values: &mut Vec<u8>) -> Outcome {
    let (number, context, socket_type) = (of.u32()?, of.u32()?, of.u8()?);
    of.end()?;
    let socket_type = SocketType::from_number(socket_type)
        .ok_or(Refusal::Other(Errno::INVAL, "there is no such type of socket"))?;
    let socket = context_of(session, context)?.socket(socket_type)?;
    add(session, number, socket, socket_type, context)?;
    values.extend_from_slice(&u32::try_from(WINDOW).unwrap_or(u32::MAX).to_be_bytes());
    Ok(())
}

fn add(session: &mut Session, number: u32, socket: Socket, socket_type: SocketType, context: u32) -> Outcome {
    if session.has_channel(number) {
        let _ = socket.close();
        return Err(Refusal::Other(Errno::EXIST, "the channel is in use"));
    }
    session.channels.insert(number, Channel::new(socket, socket_type, context));
    Ok(())
}

fn socket_of(session: &Session, number: u32) -> Result<Socket, Refusal> {
    let open = session.channels.get(&number).filter(|channel| channel.closes.is_none());
    open.map(|channel| channel.socket).ok_or(Refusal::Engine(Error::NotSocket))
}

fn close_socket(session: &mut Session, mut of: Fields<'_>) -> Outcome {
    let number = of.u32()?;
    of.end()?;
    let socket = socket_of(session, number)?;
    let mut wait = None;
    socket.configure(|options| wait = options.linger)?;
    session.close(number, wait);
    Ok(())
}

/// Answers with the endpoint, of which the port may be chosen by the system.
fn with_endpoint(
    session: &Session,
    mut of: Fields<'_>,
    values: &mut Vec<u8>,
    call: impl FnOnce(Socket, &str) -> Result<(), Error>,
) -> Outcome {
    let (socket, endpoint) = (socket_of(session, of.u32()?)?, of.text()?);
    of.end()?;
    call(socket, endpoint)?;
    values.extend_from_slice(socket.last_endpoint()?.as_bytes());
    Ok(())
}

fn option_of(number: i32) -> Result<&'static OptionSpec, Refusal> {
    let unknown = Refusal::Engine(Error::Invalid(pinnace_engine::Invalid::UnknownOption));
    OPTIONS.iter().find(|spec| spec.number == number).ok_or(unknown)
}

/// Numbers are sent in network byte order, and the engine takes them in its own.
fn set_option(session: &Session, mut of: Fields<'_>) -> Outcome {
    let (socket, spec) = (socket_of(session, of.u32()?)?, option_of(of.i32()?)?);
    match spec.kind {
        OptionKind::Int { .. } => {
            let value = of.i32()?;
            of.end()?;
            socket.set_option(spec.number, &value.to_ne_bytes())?;
        }
        OptionKind::Int64 { .. } | OptionKind::Bits { .. } => {
            let value = of.u64()?;
            of.end()?;
            socket.set_option(spec.number, &value.to_ne_bytes())?;
        }
        OptionKind::Text { .. } | OptionKind::Bytes { .. } | OptionKind::Key => {
            socket.set_option(spec.number, of.rest())?;
        }
    }
    Ok(())
}

/// The most octets of an option that is read.
const OPTION_MAX: usize = 64 * 1024;

fn get_option(session: &Session, mut of: Fields<'_>, values: &mut Vec<u8>) -> Outcome {
    let (socket, spec) = (socket_of(session, of.u32()?)?, option_of(of.i32()?)?);
    of.end()?;
    let mut room = vec![0; OPTION_MAX];
    let length = match spec.kind {
        OptionKind::Int { .. } => 4,
        OptionKind::Int64 { .. } | OptionKind::Bits { .. } => 8,
        OptionKind::Key => 32,
        OptionKind::Text { .. } | OptionKind::Bytes { .. } => room.len(),
    };
    room.truncate(length);
    let length = socket.get_option(spec.number, &mut room)?;
    room.truncate(length);
    match spec.kind {
        OptionKind::Text { .. } => drop(room.pop()), // The NUL.
        OptionKind::Int { .. } | OptionKind::Int64 { .. } | OptionKind::Bits { .. }
            if cfg!(target_endian = "little") =>
        {
            room.reverse();
        }
        _ => {}
    }
    values.extend_from_slice(&room);
    Ok(())
}

/// The options of all sockets: how many, and of each the number, the kind of its values, and its name.
fn list_options(of: Fields<'_>, values: &mut Vec<u8>) -> Outcome {
    of.end()?;
    let count = u16::try_from(OPTIONS.len()).unwrap_or(u16::MAX);
    values.extend_from_slice(&count.to_be_bytes());
    for spec in OPTIONS {
        values.extend_from_slice(&spec.number.to_be_bytes());
        values.push(match spec.kind {
            OptionKind::Int { .. } => 1,
            OptionKind::Int64 { .. } => 2,
            OptionKind::Bits { .. } => 3,
            OptionKind::Text { .. } => 4,
            OptionKind::Bytes { .. } => 5,
            OptionKind::Key => 6,
        });
        values.extend_from_slice(&u32::try_from(spec.name.len()).unwrap_or(u32::MAX).to_be_bytes());
        values.extend_from_slice(spec.name.as_bytes());
    }
    Ok(())
}

/// Events of a socket's connections come through a channel of their own, as messages of two frames
/// (zmq_socket_monitor(3)).
fn monitor(session: &mut Session, mut of: Fields<'_>) -> Outcome {
    let (number, channel, events) = (of.u32()?, of.u32()?, of.u64()?);
    of.end()?;
    let socket = socket_of(session, number)?;
    let context = session.channels.get(&number).map_or(0, |channel| channel.context);
    let endpoint = format!("inproc://pinnace-port/monitor/{channel}");
    socket.monitor(Some(&endpoint), events, 1, SocketType::Pair)?;
    let reader = context_of(session, context)?.socket(SocketType::Pair)?;
    reader.connect(&endpoint)?;
    add(session, channel, reader, SocketType::Pair, context)
}

/// Takes back the credit of a socket, or of a client of guaranteed delivery.
fn withdraw(session: &mut Session, mut of: Fields<'_>) -> Outcome {
    let number = of.u32()?;
    of.end()?;
    let credit = match session.channels.get_mut(&number) {
        Some(channel) => &mut channel.credit,
        None => &mut session.deliveries.get_mut(&number).ok_or(Error::NotSocket)?.credit,
    };
    *credit = Credit::default();
    Ok(())
}

fn statistics(session: &Session, mut of: Fields<'_>, values: &mut Vec<u8>) -> Outcome {
    let socket = socket_of(session, of.u32()?)?;
    of.end()?;
    let Stats { socket_type, received, sent, drops, events, events_dropped, ended_peers, peers } =
        socket.stats()?;
    let mut entries = Entries::new(values);
    entries.text("socket_type", socket_type.name().as_bytes());
    entries.traffic("received", received);
    entries.traffic("sent", sent);
    entries.drops("drops", drops);
    for (name, count) in events.iter() {
        entries.number(&format!("events.{name}"), count);
    }
    entries.number("events_dropped", events_dropped);
    entries.number("ended_peers", ended_peers);
    for peer in peers {
        let of = |name: &str| format!("peers.{}.{name}", peer.number);
        entries.text(&of("endpoint"), peer.endpoint.as_bytes());
        entries.text(&of("address"), peer.address.as_bytes());
        entries.text(&of("routing_id"), &peer.routing_id);
        entries.text(&of("mechanism"), peer.mechanism.as_bytes());
        entries.text(&of("user_id"), &peer.user_id);
        entries.number(&of("connected"), peer.connected.into());
        entries.number(&of("reconnects"), peer.reconnects);
        entries.traffic(&of("received"), peer.received);
        entries.traffic(&of("sent"), peer.sent);
        entries.drops(&of("drops"), peer.drops);
    }
    Ok(())
}
