//! `pinnace send`: sends messages from the command line, files or standard input. Success means delivered: the
//! peer's kernel has the messages, or, for req, the peer has replied. Losses are a failure, except for publishers,
//! which drop by their pattern (`losses`).

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use pinnace::{Message, SocketType};

use crate::input::{Framing, GROUP_MAX, Input, from_json, split};
use crate::losses;
use crate::outcome::{self, Failure, Outcome};
use crate::output::Output;
use crate::settings;
use crate::signals::Signals;
use crate::sockets::{self, Socket};
use crate::table::Send;

pub fn run(given: &Send) -> Outcome {
    let (endpoints, files) = targets(given)?;
    let socket_type = sockets::type_of(&given.socket_type)?;
    check(given, socket_type)?;
    let signals = Signals::new(false)?;
    let context = settings::context(&given.socket, &endpoints)?;
    let socket = Socket::new(&context, socket_type)?;
    if socket_type == SocketType::Router {
        // A message to a peer that is not connected yet waits instead of being dropped.
        settings::set(&socket, "router_mandatory", b"1")?;
    }
    settings::prepare(&socket, &given.socket)?;
    let mut peers = Vec::new();
    for endpoint in &endpoints {
        peers.extend(settings::attach(&socket, endpoint, given.bind, given.socket.verbose)?);
    }
    if socket_type == SocketType::Peer && peers.is_empty() {
        return Err(Failure::usage("a peer socket that binds has no peer to send to: connect it"));
    }
    let mut source = Source::new(given, files);
    let linger = given.linger.or(given.timeout);
    let outcome =
        outcome::closed_output_fails_if(true, send_all(given, &socket, &peers, &mut source, &signals));
    let drained = match outcome {
        Err(Failure::Signal(_)) => Ok(()),
        // The failure is the missing reply; there are no unsent messages to report.
        Err(Failure::TimedOut(_)) if awaits(given, socket_type) => Ok(()),
        // Accepted messages are discarded, and their number is reported.
        Err(Failure::TimedOut(_)) => socket.drain(&signals, Some(Duration::ZERO)),
        // A bad line of input does not affect the good ones before it.
        _ => socket.drain(&signals, linger),
    };
    // After a timeout or a signal, unsent messages are discarded.
    let keeps =
        ![&outcome, &drained].iter().any(|one| matches!(one, Err(Failure::Signal(_) | Failure::TimedOut(_))));
    let outcome = outcome::both(outcome, drained);
    settings::print_stats(&given.socket, &[("send", &socket)]);
    let lost = socket.stats()?.drops;
    socket.close(keeps);
    context.end(&signals)?;
    // After a failure, messages discarded at the end need not be reported again.
    let lost = if outcome.is_ok() { context.lost(lost) } else { lost };
    outcome::both(outcome, losses::check(socket_type, &lost))
}

/// Rejects flags that do not fit the socket type.
fn check(given: &Send, socket_type: SocketType) -> Outcome {
    let is_radio = socket_type == SocketType::Radio;
    if given.group.is_some() && !is_radio {
        return Err(Failure::usage("--group applies only to radio"));
    }
    if is_radio && given.group.is_none() && !given.json {
        return Err(Failure::usage("radio requires --group"));
    }
    if given.group.as_ref().is_some_and(|group| group.len() > GROUP_MAX) {
        return Err(Failure::usage(format!("--group: a group has at most {GROUP_MAX} bytes")));
    }
    let receives = !matches!(
        socket_type,
        SocketType::Push | SocketType::Pub | SocketType::XPub | SocketType::Radio | SocketType::Scatter
    );
    if given.await_reply && !receives {
        return Err(Failure::usage("--await-reply applies only to socket types that receive replies"));
    }
    Ok(())
}

/// Separates endpoints from files.
fn targets(given: &Send) -> Outcome<(Vec<String>, Vec<OsString>)> {
    let (mut endpoints, mut files) = (Vec::new(), Vec::new());
    for target in &given.targets {
        match target.to_str() {
            Some(text) if text.contains("://") => endpoints.push(text.to_owned()),
            _ => files.push(target.clone()),
        }
    }
    if endpoints.is_empty() {
        return Err(Failure::usage("an endpoint is required, such as tcp://127.0.0.1:5555"));
    }
    if !given.message.is_empty() && !files.is_empty() {
        return Err(Failure::usage("--message cannot be used with a file"));
    }
    Ok((endpoints, files))
}

fn send_all(given: &Send, socket: &Socket, peers: &[u32], source: &mut Source, signals: &Signals) -> Outcome {
    let mut output = Output::for_replies(&given.replies);
    let awaits = awaits(given, socket.0.socket_type());
    let (mut sent, mut turns) = (0_u64, peers.iter().cycle());
    while given.count.is_none_or(|count| sent < count) {
        let Some(mut message) = source.next(signals)? else { break };
        if let Some(group) = &given.group
            && message.group().is_empty()
        {
            message = message.to_group(group.as_bytes());
        }
        if let Some(&peer) = turns.next() {
            message = message.to_peer(peer);
        }
        if sent == 0
            && let Some(peers) = given.wait
        {
            let topic = match socket.0.socket_type() {
                SocketType::Radio => message.group(),
                _ => message.first().map(|frame| &frame[..]).unwrap_or_default(),
            };
            socket.wait_peers(peers, topic, signals, given.timeout)?;
        }
        if sent > 0
            && let Some(interval) = given.interval
        {
            sockets::pause(signals, interval)?;
        }
        socket.send(message, signals, given.timeout, format_args!("message {}", sent + 1))?;
        sent += 1;
        if awaits {
            output.write(&socket.recv(signals, given.timeout, "no reply received")?)?;
            output.flush()?;
        }
    }
    Ok(())
}

/// Whether each message is answered before the next is sent.
fn awaits(given: &Send, socket_type: SocketType) -> bool {
    given.await_reply || socket_type == SocketType::Req
}

/// The source of the messages.
struct Source<'a> {
    given: &'a Send,
    input: Option<Input>,
    next: usize,
}

impl Source<'_> {
    fn new(given: &Send, files: Vec<OsString>) -> Source<'_> {
        let cut = match given {
            Send { raw: true, .. } => Framing::Whole,
            Send { null: true, .. } => Framing::At(0),
            _ => Framing::At(b'\n'),
        };
        let input = given.message.is_empty().then(|| Input::new(files, cut, given.max));
        Source { given, input, next: 0 }
    }

    fn next(&mut self, signals: &Signals) -> Outcome<Option<Message>> {
        let bytes = match &mut self.input {
            Some(input) => match input.next(signals)? {
                Some(bytes) => bytes,
                None => return Ok(None),
            },
            None => {
                let messages = &self.given.message;
                // Without --count each message is sent once.
                if self.next >= messages.len() && self.given.count.is_none() {
                    return Ok(None);
                }
                let message = messages[self.next % messages.len()].as_os_str().as_bytes();
                self.next += 1;
                message.to_vec()
            }
        };
        if self.given.json { from_json(&bytes) } else { split(bytes, self.given.frames) }.map(Some)
    }
}
