//! Forwards messages between two sockets: zmq_proxy(3), zmq_proxy_steerable(3).
//!
//! Messages are forwarded whole. If the receiver or the capture socket of a direction has no room, the direction holds
//! the first frame of one message, waits for room, and receives nothing more; the other direction continues. A third
//! socket may control the proxy: each message it receives is a command, executed even while the directions wait.

use std::ffi::{c_int, c_void};
use std::time::Duration;

use pinnace_engine::{Error, Outgoing, PollItem, PollSource, Socket, poll};
use smallvec::SmallVec;

use crate::guard::guard;
use crate::handle::socket;
use crate::message::Message;

const POLLIN: i16 = 1;
const POLLOUT: i16 = 2;

/// Retry interval of a direction that was refused although its receiver had room. A mandatory ROUTER does that if the
/// addressed peer is full and another is not (ZMQ_ROUTER_MANDATORY). No event reports room for the addressed peer.
const REFUSED_WAIT: Duration = Duration::from_millis(5);

/// How long a held copy waits for room before it is tried again: the capture may have lost its full peer.
const CAPTURE_WAIT: Duration = Duration::from_millis(100);

/// Messages that one direction forwards before the other has its turn.
const BURST: usize = 1000;

/// Forwards messages in both directions, with a copy of each to `capture` unless it is NULL, until the context is
/// terminated (ETERM).
#[unsafe(no_mangle)]
pub extern "C" fn zmq_proxy(frontend: *mut c_void, backend: *mut c_void, capture: *mut c_void) -> c_int {
    zmq_proxy_steerable(frontend, backend, capture, std::ptr::null_mut())
}

/// As `zmq_proxy`, controlled by the messages that `control` receives unless it is NULL: PAUSE, RESUME, STATISTICS, and
/// TERMINATE, after which the proxy returns 0.
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
    /// Front to back, and back to front unless both are the same socket.
    directions: SmallVec<[Direction; 2]>,
    control: Option<Socket>,
    mode: Mode,
}

impl Proxy {
    /// Waits for what each direction needs, or a command. Commands are executed before messages are forwarded.
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

    /// Receives and executes a command; unknown commands are ignored. A REP gets an empty reply if the command has
    /// none.
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

    /// Sends eight numbers as frames: received and sent by the front, then by the back; for each, messages then bytes.
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

/// Sends a frame of a reply. False if it cannot be sent: a controller that does not read must not block the proxy.
fn answer(control: Socket, data: &[u8], more: bool) -> Result<bool, Error> {
    match control.send(Outgoing::Bytes(data), more, false) {
        Ok(()) => Ok(true),
        Err(Error::Terminated) => Err(Error::Terminated),
        Err(_) => Ok(false),
    }
}

fn item(socket: Socket, events: i16) -> PollItem<'static> {
    PollItem { source: PollSource::Socket(socket), events, revents: 0 }
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
struct HeldFrame {
    frame: Message,
    at: Stop,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    Receiver,
    /// The receiver has the frame already; its copy waits.
    Capture,
}

struct Direction {
    from: Socket,
    to: Socket,
    capture: Option<Socket>,
    held: Option<HeldFrame>,
    /// The socket that this direction waits for reported room, but did not take the frame.
    refused: bool,
    taken: Count,
    given: Count,
}

impl Direction {
    fn new(from: Socket, to: Socket, capture: Option<Socket>) -> Direction {
        let nothing = Count::default();
        Direction { from, to, capture, held: None, refused: false, taken: nothing, given: nothing }
    }

    /// The event to wait for. None if no event would report the change.
    fn needs(&self) -> Option<PollItem<'static>> {
        match self.held.as_ref().map(|held| held.at) {
            None => Some(item(self.from, POLLIN)),
            Some(_) if self.refused => None,
            Some(Stop::Receiver) => Some(item(self.to, POLLOUT)),
            Some(Stop::Capture) => self.capture.map(|capture| item(capture, POLLOUT)),
        }
    }

    /// When to retry if no event may report the change.
    fn retries_after(&self) -> Option<Duration> {
        let copy_waits = self.held.as_ref().is_some_and(|held| held.at == Stop::Capture);
        if self.refused { Some(REFUSED_WAIT) } else { copy_waits.then_some(CAPTURE_WAIT) }
    }

    fn take(&mut self, wait: bool) -> Result<Message, Error> {
        let frame = Message::receive(self.from, wait)?;
        self.taken.add(&frame);
        Ok(frame)
    }

    /// Forwards messages until one side would have to wait, or it is the other direction's turn.
    fn pass(&mut self) -> Result<(), Error> {
        for _ in 0..BURST {
            if !self.pass_one()? {
                break;
            }
        }
        Ok(())
    }

    /// Forwards one message. False if one side would have to wait.
    fn pass_one(&mut self) -> Result<bool, Error> {
        // At a retry after a refusal, the socket may have no room at all; then POLLOUT can be waited for again.
        let is_promised = self.held.is_some() && !std::mem::take(&mut self.refused);
        let (frame, has_copy) = match self.held.take() {
            Some(HeldFrame { frame, at }) => (frame, at == Stop::Capture),
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

    /// Holds a frame until there is room for it.
    fn hold(&mut self, frame: Message, at: Stop, is_promised: bool) -> bool {
        self.held = Some(HeldFrame { frame, at });
        self.refused = is_promised;
        false
    }

    /// Shutdown: the held message is forwarded if there is room now. Otherwise it is lost with its remaining frames; if
    /// the receiver has its first frame, only the copy is lost.
    fn let_go(&mut self) -> Result<(), Error> {
        if self.held.is_none() || self.pass_one()? {
            return Ok(());
        }
        let Some(HeldFrame { frame, at }) = self.held.take() else { return Ok(()) };
        if at == Stop::Capture {
            return self.rest(frame.more(), None);
        }
        let mut more = frame.more();
        while more {
            more = self.take(true)?.more();
        }
        Ok(())
    }

    /// Forwards the remaining frames. They are available, and the first frame's acceptance guarantees them room.
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

/// True if a copy without room should wait. A capture without a peer must not stop the proxy.
fn has_peer(capture: Socket) -> Result<bool, Error> {
    match capture.wait_peers(1, Some(Duration::ZERO)) {
        Ok(()) => Ok(true),
        Err(Error::WouldBlock) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Sends a frame with its properties as received, such as its group.
fn put(frame: &Message, to: Socket, wait: bool) -> Result<(), Error> {
    frame.send(to, frame.more(), wait)
}

#[cfg(test)]
mod tests;
