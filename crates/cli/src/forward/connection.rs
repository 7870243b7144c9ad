//! One TCP connection and its socket: lines in one direction, messages in the other.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::time::Instant;

use pinnace::{Interest, Message, PollItem, SocketType};

use super::Shared;
use crate::input::{Cutter, Unfit};
use crate::outcome::{Failure, Outcome};
use crate::output::joined;
use crate::sockets::{self, Socket};

/// Bytes per read.
const CHUNK: usize = 64 << 10;

pub struct Connection<'a> {
    stream: TcpStream,
    socket: &'a Socket,
    shared: &'a Shared<'a>,
    cutter: Cutter,
    /// When the client has finished sending.
    over: Option<Instant>,
    /// True if the client does not read any more either.
    gone: bool,
    /// True if a line was rejected, which ended the connection.
    cut_off: bool,
    /// A line that the socket has no room for yet.
    held: Option<Message>,
    /// The part of an answer that the client has not accepted yet.
    out: Vec<u8>,
    /// Number of lines sent, and of messages received.
    pub lines_sent: u64,
    pub messages_received: u64,
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
            lines_sent: 0,
            messages_received: 0,
        })
    }

    /// Runs until the client has finished, all its lines were accepted and all answers were written. After a
    /// signal, runs until the lines already read are accepted.
    pub fn run(&mut self) -> Outcome {
        match self.run_until_done() {
            Err(Failure::Signal(number)) => self.finish().and(Err(Failure::Signal(number))),
            outcome => outcome,
        }
    }

    /// Number of lines that were read but not accepted. An incomplete line does not count, unless it was too long.
    pub fn left(&self) -> u64 {
        u64::from(self.held.is_some()) + u64::from(self.cut_off) + self.cutter.count(b'\n')
    }

    /// Passes on the lines already read, until the deadline. Reads nothing more.
    fn finish(&mut self) -> Outcome {
        let until = self.shared.delivery_deadline();
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
            if sockets::wait_after_signal(items, until)?.is_none() {
                return Err(self.socket.timed_out("no peer accepted a line"));
            }
        }
    }

    fn run_until_done(&mut self) -> Outcome {
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
            let Some(items) = sockets::wait(items, &self.shared.signals, until)? else {
                let what =
                    if self.held.is_some() { "no peer accepted a line" } else { "an answer is missing" };
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
            SocketType::Req => self.lines_sent > self.messages_received,
            _ => true,
        }
    }

    fn takes_lines(&self) -> bool {
        !matches!(self.socket_type(), SocketType::Sub | SocketType::Pull)
    }

    /// A REQ must not send again before it has received the answer.
    fn may_ask(&self) -> bool {
        self.socket_type() != SocketType::Req || self.lines_sent == self.messages_received
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
            SocketType::Req | SocketType::Dealer | SocketType::Pair => {
                self.messages_received >= self.lines_sent
            }
            _ => true,
        };
        self.over.is_some() && self.held.is_none() && self.out.is_empty() && is_answered
    }

    /// Sends the available lines, as long as there is room.
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
            self.lines_sent += 1;
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

    /// Writes the received messages, as long as the client accepts them.
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
            self.messages_received += 1;
            if self.gone {
                continue;
            }
            self.out = joined(&message, b'\t');
            if self.out.last() != Some(&b'\n') {
                self.out.push(b'\n');
            }
            if self.held.is_some() && self.may_ask() {
                // A REQ can send its next line now; this loop does not wait for the answer.
                self.pass_lines()?;
            }
        }
    }

    fn cut_off(&mut self, why: Unfit) -> Failure {
        self.cut_off = true;
        Failure::Failed(format!("disconnected: a line is {why}"))
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

    /// The client is gone. Its lines are passed on, its answers are discarded.
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
