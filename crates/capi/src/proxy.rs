//! Passing messages on between two sockets: zmq_proxy(3), zmq_proxy_steerable(3).
//!
//! Messages are passed on whole. A direction whose receiver or capture has no room keeps the first frame of one
//! message, waits for room, and takes nothing more; the other direction goes on. A third socket may steer: each message
//! that it receives is a command, which is obeyed whatever a direction waits for.

use std::ffi::{c_int, c_void};
use std::time::Duration;

use pinnace_engine::{Error, Outgoing, PollItem, Socket, Source, poll};
use smallvec::SmallVec;

use crate::guard::guard;
use crate::handle::socket;
use crate::message::Message;

const POLLIN: i16 = 1;
const POLLOUT: i16 = 2;

/// How long a direction waits that was refused although its receiver had room, as a ROUTER does for another peer than
/// the one that is addressed (ZMQ_ROUTER_MANDATORY): nothing tells when that one has.
const REFUSED_WAIT: Duration = Duration::from_millis(5);

/// How long a copy waits for room before the capture is looked at again: it may have lost the peer that was full.
const CAPTURE_WAIT: Duration = Duration::from_millis(100);

/// Messages that one direction passes on before the other has its turn.
const BURST: usize = 1000;

/// Passes messages on in both directions, and a copy of each to `capture` unless that is NULL, until the
/// context ends (ETERM).
#[unsafe(no_mangle)]
pub extern "C" fn zmq_proxy(frontend: *mut c_void, backend: *mut c_void, capture: *mut c_void) -> c_int {
    zmq_proxy_steerable(frontend, backend, capture, std::ptr::null_mut())
}

/// As `zmq_proxy`, steered by what `control` receives unless that is NULL: PAUSE, RESUME, STATISTICS, and
/// TERMINATE, with which it returns 0.
#[unsafe(no_mangle)]
pub extern "C" fn zmq_proxy_steerable(
    frontend: *mut c_void,
    backend: *mut c_void,
    capture: *mut c_void,
    control: *mut c_void,
) -> c_int {
    guard(|| {
        if frontend.is_null() || backend.is_null() {
            return Err(Error::Fault);
        }
        let (front, back) = (socket(frontend)?, socket(backend)?);
        let optional = |pointer: *mut c_void| match pointer.is_null() {
            true => Ok(None),
            false => socket(pointer).map(Some),
        };
        let (capture, control) = (optional(capture)?, optional(control)?);
        let mut proxy = Proxy { directions: SmallVec::new(), control, mode: Mode::Active };
        proxy.directions.push(Direction::new(front, back, capture));
        if frontend != backend {
            proxy.directions.push(Direction::new(back, front, capture));
        }
        while proxy.mode != Mode::Terminated {
            proxy.turn()?;
        }
        for direction in &mut proxy.directions {
            direction.let_go()?;
        }
        Ok(0)
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Active,
    Paused,
    Terminated,
}

struct Proxy {
    /// From the front to the back, and back unless that is the same socket.
    directions: SmallVec<[Direction; 2]>,
    control: Option<Socket>,
    mode: Mode,
}

impl Proxy {
    /// Waits for what each direction needs, or a command. Commands are obeyed before anything is passed on.
    fn turn(&mut self) -> Result<(), Error> {
        let mut items: SmallVec<[PollItem<'_>; 3]> = SmallVec::new();
        items.extend(self.control.map(|control| item(control, POLLIN)));
        let mut limit = None;
        if self.mode == Mode::Active {
            items.extend(self.directions.iter().filter_map(Direction::needs));
            limit = self.directions.iter().filter_map(Direction::retries_after).min();
        }
        poll(&mut items, limit, None, None)?;
        let mut ready = items.iter().map(|item| item.revents != 0);
        if let Some(control) = self.control
            && ready.next() == Some(true)
        {
            self.obey(control)?;
        }
        if self.mode == Mode::Active {
            for direction in &mut self.directions {
                let is_ready = !direction.refused && ready.next() == Some(true);
                if is_ready || direction.retries_after().is_some() {
                    direction.pass()?;
                }
            }
        }
        Ok(())
    }

    /// Takes a command. What is none is nothing. A REP gets an empty answer where there is no other.
    fn obey(&mut self, control: Socket) -> Result<(), Error> {
        let command = match Message::receive(control, false) {
            Err(Error::WouldBlock) => return Ok(()),
            command => command?,
        };
        let mut more = command.more();
        while more {
            more = Message::receive(control, true)?.more();
        }
        match command.data() {
            b"STATISTICS" => return self.report(control),
            b"PAUSE" => self.mode = Mode::Paused,
            b"RESUME" => self.mode = Mode::Active,
            b"TERMINATE" => self.mode = Mode::Terminated,
            _ => {}
        }
        if is_rep(control)? { answer(control, b"", false).map(|_| ()) } else { Ok(()) }
    }

    /// Eight numbers as frames: received and sent by the front, then by the back; of each messages, then bytes.
    fn report(&self, control: Socket) -> Result<(), Error> {
        let there = &self.directions[0];
        let nothing = Count::default();
        let (back_taken, front_given) =
            self.directions.get(1).map_or((nothing, nothing), |back| (back.taken, back.given));
        let counts = [there.taken, front_given, back_taken, there.given];
        let numbers: SmallVec<[u64; 8]> =
            counts.iter().flat_map(|count| [count.messages, count.bytes]).collect();
        for (index, number) in numbers.iter().enumerate() {
            if !answer(control, &number.to_ne_bytes(), index + 1 < numbers.len())? {
                break;
            }
        }
        Ok(())
    }
}

fn is_rep(socket: Socket) -> Result<bool, Error> {
    const TYPE: c_int = 16;
    const REP: c_int = 4;
    let mut value = [0; size_of::<c_int>()];
    socket.get_option(TYPE, &mut value)?;
    Ok(c_int::from_ne_bytes(value) == REP)
}

/// Sends a frame of an answer. False: it cannot be sent; who steers and does not listen holds nobody up.
fn answer(control: Socket, data: &[u8], more: bool) -> Result<bool, Error> {
    match control.send(Outgoing::Bytes(data), more, false) {
        Ok(()) => Ok(true),
        Err(Error::Terminated) => Err(Error::Terminated),
        Err(_) => Ok(false),
    }
}

fn item(socket: Socket, events: i16) -> PollItem<'static> {
    PollItem { source: Source::Socket(socket), events, revents: 0 }
}

#[derive(Clone, Copy, Default)]
struct Count {
    messages: u64,
    bytes: u64,
}

impl Count {
    fn add(&mut self, frame: &Message) {
        self.messages += u64::from(!frame.more());
        self.bytes += frame.len() as u64;
    }
}

/// The first frame of a message that waits for room.
struct Held {
    frame: Message,
    at: Stop,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    Receiver,
    /// The receiver has the frame already.
    Capture,
}

struct Direction {
    from: Socket,
    to: Socket,
    capture: Option<Socket>,
    held: Option<Held>,
    /// The socket that it waits for said that it had room, and did not take it.
    refused: bool,
    taken: Count,
    given: Count,
}

impl Direction {
    fn new(from: Socket, to: Socket, capture: Option<Socket>) -> Direction {
        let nothing = Count::default();
        Direction { from, to, capture, held: None, refused: false, taken: nothing, given: nothing }
    }

    /// What to wait for. None: there is nothing that tells.
    fn needs(&self) -> Option<PollItem<'static>> {
        match self.held.as_ref().map(|held| held.at) {
            None => Some(item(self.from, POLLIN)),
            Some(_) if self.refused => None,
            Some(Stop::Receiver) => Some(item(self.to, POLLOUT)),
            Some(Stop::Capture) => self.capture.map(|capture| item(capture, POLLOUT)),
        }
    }

    /// When to try again what nothing may tell of.
    fn retries_after(&self) -> Option<Duration> {
        let copy_waits = self.held.as_ref().is_some_and(|held| held.at == Stop::Capture);
        if self.refused { Some(REFUSED_WAIT) } else { copy_waits.then_some(CAPTURE_WAIT) }
    }

    fn take(&mut self, wait: bool) -> Result<Message, Error> {
        let frame = Message::receive(self.from, wait)?;
        self.taken.add(&frame);
        Ok(frame)
    }

    /// Passes on until one side would have to wait, or it is the other direction's turn.
    fn pass(&mut self) -> Result<(), Error> {
        for _ in 0..BURST {
            if !self.pass_one()? {
                break;
            }
        }
        Ok(())
    }

    /// Passes one message on. False: one side would have to wait.
    fn pass_one(&mut self) -> Result<bool, Error> {
        // A second time it may be that there is no room at all, which is something to wait for.
        let is_promised = self.held.is_some() && !std::mem::take(&mut self.refused);
        let (frame, has_copy) = match self.held.take() {
            Some(Held { frame, at }) => (frame, at == Stop::Capture),
            None => match self.take(false) {
                Err(Error::WouldBlock) => return Ok(false),
                frame => (frame?, false),
            },
        };
        if !has_copy {
            match put(&frame, self.to, false) {
                Err(Error::WouldBlock) => return Ok(self.hold(frame, Stop::Receiver, is_promised)),
                sent => sent?,
            }
            self.given.add(&frame);
        }
        let mut capture = self.capture;
        if let Some(to) = capture {
            match put(&frame, to, false) {
                Err(Error::WouldBlock) if has_peer(to)? => {
                    return Ok(self.hold(frame, Stop::Capture, is_promised && has_copy));
                }
                Err(Error::WouldBlock) => capture = None,
                sent => sent?,
            }
        }
        self.rest(frame.more(), capture).map(|()| true)
    }

    /// Keeps a frame until there is room for it.
    fn hold(&mut self, frame: Message, at: Stop, is_promised: bool) -> bool {
        self.held = Some(Held { frame, at });
        self.refused = is_promised;
        false
    }

    /// The end: what is held is passed on if there is room by now. Else it is lost, with the frames behind it; of what
    /// the receiver has begun only the copy is.
    fn let_go(&mut self) -> Result<(), Error> {
        if self.held.is_none() || self.pass_one()? {
            return Ok(());
        }
        let Some(Held { frame, at }) = self.held.take() else { return Ok(()) };
        if at == Stop::Capture {
            return self.rest(frame.more(), None);
        }
        let mut more = frame.more();
        while more {
            more = self.take(true)?.more();
        }
        Ok(())
    }

    /// The first frame was sent: the others are there, and have room.
    fn rest(&mut self, mut more: bool, capture: Option<Socket>) -> Result<(), Error> {
        while more {
            let frame = self.take(true)?;
            put(&frame, self.to, true)?;
            self.given.add(&frame);
            if let Some(capture) = capture {
                put(&frame, capture, true)?;
            }
            more = frame.more();
        }
        Ok(())
    }
}

/// Whether a copy that finds no room is to wait: a capture that nobody reads must not stop the proxy.
fn has_peer(capture: Socket) -> Result<bool, Error> {
    match capture.wait_peers(1, Some(Duration::ZERO)) {
        Ok(()) => Ok(true),
        Err(Error::WouldBlock) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Sends a frame as it was received: with the group it came for, say.
fn put(frame: &Message, to: Socket, wait: bool) -> Result<(), Error> {
    frame.send(to, frame.more(), wait)
}

#[cfg(test)]
mod tests;
