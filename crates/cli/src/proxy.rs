//! `pinnace proxy`: passes messages between two sockets in both directions until a signal ends it; prints
//! statistics at SIGUSR1 and at the end.
//!
//! A direction with a blocked receiver holds one message and stops reading; the other direction continues.

use std::time::Duration;

use pinnace::{Error, Interest, Message, PollItem, SocketType};
use serde_json::json;

use crate::outcome::{Failure, Outcome, say};
use crate::settings::{self, attach, eprintln_quietly};
use crate::signals::Signals;
use crate::sockets::{self, Context, Socket};
use crate::table::Proxy;

/// Linger at the end, for messages that were passed on.
const MOMENT: Duration = Duration::from_secs(1);
/// Messages that one direction passes before the other has its turn.
const BURST: usize = 1000;

pub fn run(given: &Proxy) -> Outcome {
    let front_type = sockets::type_of(&given.front_type)?;
    let back_type = match &given.back_type {
        Some(name) => sockets::type_of(name)?,
        None => partner(front_type),
    };
    let signals = Signals::new(true)?;
    let endpoints: Vec<_> = [&given.front, &given.back].into_iter().chain(&given.capture).collect();
    let context = settings::context(&given.socket, &endpoints)?;
    let front = settings::socket(&context, front_type, &given.socket)?;
    let back = settings::socket(&context, back_type, &given.socket)?;
    // The capture socket gets the same security options, so that strangers cannot read the messages there.
    let publisher = |_| settings::socket(&context, SocketType::Pub, &given.socket);
    let capture = given.capture.as_ref().map(publisher).transpose()?;
    attach(&front, &given.front, true, true)?;
    attach(&back, &given.back, true, true)?;
    if let (Some(capture), Some(endpoint)) = (&capture, &given.capture) {
        attach(capture, endpoint, true, true)?;
    }
    let told = capture.as_ref();
    let mut proxy = Running {
        there: Direction::new(&front, &back, told, sends(back_type) && receives(front_type)),
        back: Direction::new(&back, &front, told, sends(front_type) && receives(back_type)),
        json: given.json,
    };
    let outcome = proxy.pass_on(&signals);
    proxy.report();
    let named = [("front", Some(&front)), ("back", Some(&back)), ("capture", capture.as_ref())];
    let named: Vec<_> = named.into_iter().filter_map(|(name, socket)| Some((name, socket?))).collect();
    settings::print_stats(&given.socket, &named);
    end(&context, [Some(front), Some(back), capture]);
    match outcome {
        Err(Failure::Signal(_)) => Ok(()),
        outcome => outcome,
    }
}

/// Closes all sockets and waits at most [`MOMENT`] for their messages. A second signal ends the process.
fn end(context: &Context, sockets: [Option<Socket>; 3]) {
    drop(sockets);
    while context.inner().terminate_within(MOMENT) == Err(Error::Interrupted) {}
}

/// The usual type of the other side.
fn partner(front: SocketType) -> SocketType {
    match front {
        SocketType::Router => SocketType::Dealer,
        SocketType::Dealer => SocketType::Router,
        SocketType::XSub => SocketType::XPub,
        SocketType::XPub => SocketType::XSub,
        SocketType::Pull => SocketType::Push,
        SocketType::Push => SocketType::Pull,
        other => other,
    }
}

fn sends(socket_type: SocketType) -> bool {
    socket_type != SocketType::Pull
}

fn receives(socket_type: SocketType) -> bool {
    socket_type != SocketType::Push
}

#[derive(Default)]
struct Count {
    messages: u64,
    bytes: u64,
}

struct Direction<'a> {
    from: &'a Socket,
    to: &'a Socket,
    capture: Option<&'a Socket>,
    /// Received, but not sent yet.
    held: Option<Message>,
    passed: Count,
    /// True if the socket types allow this direction.
    exists: bool,
}

impl<'a> Direction<'a> {
    fn new(from: &'a Socket, to: &'a Socket, capture: Option<&'a Socket>, exists: bool) -> Direction<'a> {
        Direction { from, to, capture, held: None, passed: Count::default(), exists }
    }

    fn needs(&self) -> PollItem<'a> {
        match self.held {
            _ if !self.exists => self.from.0.poll_item(Interest::default()),
            None => self.from.readable(),
            Some(_) => self.to.0.poll_item(Interest::WRITABLE),
        }
    }

    /// Passes messages until a side would block, or until the burst limit.
    fn pass(&mut self) -> Outcome {
        for _ in 0..if self.exists { BURST } else { 0 } {
            let message = match self.held.take() {
                Some(message) => message,
                None => match self.from.try_recv()? {
                    Some(message) => message,
                    None => break,
                },
            };
            let bytes = message.iter().map(|frame| frame.len() as u64).sum::<u64>();
            let copy = self.capture.map(|_| message.clone());
            self.held = self.to.try_send(message)?;
            if self.held.is_some() {
                break;
            }
            self.passed.messages += 1;
            self.passed.bytes += bytes;
            if let (Some(capture), Some(copy)) = (self.capture, copy) {
                capture.try_send(copy)?;
            }
        }
        Ok(())
    }
}

struct Running<'a> {
    there: Direction<'a>,
    back: Direction<'a>,
    json: bool,
}

impl Running<'_> {
    fn pass_on(&mut self, signals: &Signals) -> Outcome {
        loop {
            sockets::wait(vec![self.there.needs(), self.back.needs()], signals, None)?;
            if signals.was_asked() {
                self.report();
            }
            self.there.pass()?;
            self.back.pass()?;
        }
    }

    fn report(&self) {
        let (there, back) = (&self.there.passed, &self.back.passed);
        if self.json {
            let count = |count: &Count| json!({ "messages": count.messages, "bytes": count.bytes });
            eprintln_quietly(
                &json!({ "front_to_back": count(there), "back_to_front": count(back) }).to_string(),
            );
        } else {
            let count = |count: &Count| format!("{} messages, {} bytes", count.messages, count.bytes);
            say(format!("front to back: {}; back to front: {}", count(there), count(back)));
        }
    }
}
