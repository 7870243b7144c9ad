//! One TCP connection and its socket: lines one way, messages the other.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::time::Instant;

use pinnace::{Interest, Message, PollItem, SocketType};

use super::Shared;
use crate::face::{self, Socket};
use crate::input::{Cutter, Unfit};
use crate::outcome::{Failure, Outcome};
use crate::output::joined;

/// Bytes of one read.
const CHUNK: usize = 64 << 10;

pub struct Connection<'a> {
    stream: TcpStream,
    socket: &'a Socket,
    shared: &'a Shared<'a>,
    cutter: Cutter,
    /// The client sends no more: since when.
    over: Option<Instant>,
    /// It takes no more either.
    gone: bool,
    /// A line did not fit, and ended it.
    cut_off: bool,
    /// A line that the socket has no room for yet.
    held: Option<Message>,
    /// Of an answer, what the client has not taken yet.
    out: Vec<u8>,
    /// Lines sent, messages brought back.
    pub asked: u64,
    pub answered: u64,
}

impl<'a> Connection<'a> {
    pub fn new(stream: TcpStream, socket: &'a Socket, shared: &'a Shared<'a>) -> Outcome<Connection<'a>> {
        stream.set_nonblocking(true).map_err(|error| Failure::of("a connection", error))?;
        let cutter = Cutter::new(shared.given.max);
        Ok(Connection {
            stream,
            socket,
            shared,
            cutter,
            over: None,
            gone: false,
            cut_off: false,
            held: None,
            out: Vec::new(),
            asked: 0,
            answered: 0,
        })
    }

    /// Until the client has ended, all that it sent was taken, and all that came back was written; or until a signal,
    /// and the lines that were read are taken.
    pub fn run(&mut self) -> Outcome {
        match self.converse() {
            Err(Failure::Signal(number)) => self.finish().and(Err(Failure::Signal(number))),
            outcome => outcome,
        }
    }

    /// Lines that were read and not taken. What has no end yet is none, unless it was too long.
    pub fn left(&self) -> u64 {
        u64::from(self.held.is_some()) + u64::from(self.cut_off) + self.cutter.count(b'\n')
    }

    /// Passes on what was read, until the last moment. Nothing more is read.
    fn finish(&mut self) -> Outcome {
        let until = self.shared.last_moment();
        loop {
            self.pass_lines()?;
            self.pass_answers()?;
            if self.held.is_none() {
                return Ok(());
            }
            let mut items = vec![self.socket.0.poll_item(self.wants())];
            if !self.out.is_empty() {
                items.push(PollItem::fd(self.stream.as_fd(), Interest::WRITABLE));
            }
            if face::wait_on(items, until)?.is_none() {
                return Err(self.socket.timed_out("nobody took a line"));
            }
        }
    }

    fn converse(&mut self) -> Outcome {
        let mut chunk = vec![0; CHUNK];
        loop {
            self.pass_lines()?;
            self.pass_answers()?;
            if self.is_done() {
                let _ = self.stream.shutdown(Shutdown::Both);
                return Ok(());
            }
            let until = self.over.and_then(|over| over.checked_add(self.shared.given.linger));
            let mut items = vec![self.socket.0.poll_item(self.wants())];
            if !self.gone {
                items.push(PollItem::fd(self.stream.as_fd(), self.wants_of_client()));
            }
            let Some(items) = face::wait(items, &self.shared.signals, until)? else {
                let what = if self.held.is_some() { "nobody took a line" } else { "an answer is missing" };
                return Err(self.socket.timed_out(what));
            };
            let client = items.get(1).map(|client| (client.ready().readable, client.is_over()));
            drop(items);
            match client {
                Some((true, _)) => self.read(&mut chunk)?,
                Some((_, true)) => self.leave(),
                _ => {}
            }
        }
    }

    fn socket_type(&self) -> SocketType {
        self.shared.socket_type
    }

    fn may_be_answered(&self) -> bool {
        match self.socket_type() {
            SocketType::Push | SocketType::Pub => false,
            SocketType::Req => self.asked > self.answered,
            _ => true,
        }
    }

    fn takes_lines(&self) -> bool {
        !matches!(self.socket_type(), SocketType::Sub | SocketType::Pull)
    }

    /// A REQ may not ask again before it was answered.
    fn may_ask(&self) -> bool {
        self.socket_type() != SocketType::Req || self.asked == self.answered
    }

    fn wants(&self) -> Interest {
        Interest {
            readable: self.may_be_answered() && self.out.is_empty(),
            writable: self.held.is_some() && self.may_ask(),
        }
    }

    fn wants_of_client(&self) -> Interest {
        Interest { readable: self.over.is_none() && self.held.is_none(), writable: !self.out.is_empty() }
    }

    fn is_done(&self) -> bool {
        let is_answered = match self.socket_type() {
            _ if self.gone => true,
            SocketType::Req | SocketType::Dealer | SocketType::Pair => self.answered >= self.asked,
            _ => true,
        };
        self.over.is_some() && self.held.is_none() && self.out.is_empty() && is_answered
    }

    /// Sends the lines that are there, as far as there is room.
    fn pass_lines(&mut self) -> Outcome {
        loop {
            if self.held.is_none() {
                self.held = self.next_line()?;
            }
            if !self.may_ask() {
                return Ok(());
            }
            let Some(line) = self.held.take() else { return Ok(()) };
            self.held = self.socket.try_send(line)?;
            if self.held.is_some() {
                return Ok(());
            }
            self.asked += 1;
        }
    }

    fn next_line(&mut self) -> Outcome<Option<Message>> {
        let line = match self.cutter.next(b'\n').map_err(|why| self.cut_off(why))? {
            Some(line) => line,
            None if self.over.is_some() && self.cutter.len() > 0 => self.cutter.rest(),
            None => return Ok(None),
        };
        let line = if self.shared.given.keep_newline { line } else { without_end(line) };
        Ok(Some(Message::from(line)))
    }

    /// Writes what has come from the socket, as far as the client takes it.
    fn pass_answers(&mut self) -> Outcome {
        loop {
            while !self.out.is_empty() {
                match self.stream.write(&self.out) {
                    Ok(len) => drop(self.out.drain(..len)),
                    Err(error) if is_later(&error) => return Ok(()),
                    Err(_) => self.leave(),
                }
            }
            if !self.may_be_answered() {
                return Ok(());
            }
            let Some(message) = self.socket.try_recv()? else { return Ok(()) };
            self.answered += 1;
            if self.gone {
                continue;
            }
            self.out = joined(&message, b'\t');
            if self.out.last() != Some(&b'\n') {
                self.out.push(b'\n');
            }
            if self.held.is_some() && self.may_ask() {
                // The next question can go; its answer is not waited for here.
                self.pass_lines()?;
            }
        }
    }

    fn cut_off(&mut self, why: Unfit) -> Failure {
        self.cut_off = true;
        Failure::Failed(format!("cut off: a line is {why}"))
    }

    fn read(&mut self, chunk: &mut [u8]) -> Outcome {
        match self.stream.read(chunk) {
            Ok(0) => self.over = Some(Instant::now()),
            Ok(len) if self.takes_lines() => {
                self.cutter.push(&chunk[..len]).map_err(|why| self.cut_off(why))?;
            }
            Ok(_) => {}
            Err(error) if is_later(&error) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => self.leave(),
            Err(error) => return Err(Failure::Failed(error.to_string())),
        }
        Ok(())
    }

    /// The client has gone. What it has sent is passed on, what it was to get is not kept.
    fn leave(&mut self) {
        self.gone = true;
        self.over.get_or_insert_with(Instant::now);
        self.out.clear();
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// A line without its end, LF or CR LF.
fn without_end(mut line: Vec<u8>) -> Vec<u8> {
    if line.last() == Some(&b'\n') {
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
    }
    line
}
