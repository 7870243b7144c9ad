//! Messages of two frames as datagrams (udp://): one frame says where to or where from, the other is the body.
//!
//! DGRAM has the peer's address in front, and the datagram is the body alone. RADIO and DISH have the group, which
//! travels: its length in one byte, the group, the body. What cannot be sent or is none of these is lost and counted,
//! and never ends the link.

use std::net::SocketAddr;

use pinnace_ring::{Body, Consumer, Intake};
use pinnace_sys::{Errno, udp};
use pinnace_zmtp::frame::{self, COMMAND, MORE};

use super::Stream;
use crate::drops::Reason;

/// The largest datagram, in bytes; libzmq's limit.
const DATAGRAM_MAX: usize = 8192;
/// What a datagram costs of a turn's share beside its bytes.
const DATAGRAM_COST: usize = 256;

/// What the first frames are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum First {
    /// An address.
    Address,
    /// A group; all datagrams go to this address. None: nothing is sent.
    Group(Option<SocketAddr>),
}

/// The way out.
pub(super) struct Outgoing {
    first: First,
    /// The first frame of the message whose second comes next.
    head: Option<Vec<u8>>,
    /// Frames are passed over until a message ends.
    skips: bool,
    datagram: Vec<u8>,
}

/// The way in.
pub(super) struct Incoming {
    first: First,
    buffer: Box<[u8]>,
    frames: Vec<u8>,
}

/// What becomes of a frame.
enum Next {
    /// There is none.
    Nothing,
    /// It is kept, or belongs to nothing that is sent.
    Pass,
    Send(SocketAddr),
    /// Its message is lost.
    Lose(Reason),
}

impl Outgoing {
    pub(super) fn new(first: First) -> Outgoing {
        Outgoing { first, head: None, skips: false, datagram: Vec::new() }
    }

    /// Sends what comes next in the queue. None: there is nothing. Else how much that cost, or EAGAIN.
    pub(super) fn send(
        &mut self,
        stream: &Stream,
        queue: &mut Consumer,
        done: &mut Vec<Body>,
        mut lost: impl FnMut(Reason),
    ) -> Option<Result<usize, Errno>> {
        let mut next = Next::Nothing;
        queue.show_frames(|flags, body| {
            next = self.take(flags, body);
            false
        });
        match next {
            Next::Nothing => return None,
            Next::Pass => {}
            Next::Lose(reason) => lost(reason),
            Next::Send(to) => match udp::send(stream, &self.datagram, &to) {
                Ok(()) => self.head = None,
                Err(Errno::AGAIN) => return Some(Err(Errno::AGAIN)),
                Err(error) => {
                    self.head = None;
                    lost(match error {
                        Errno::MSGSIZE => Reason::Limit,
                        Errno::NOBUFS | Errno::NOMEM => Reason::NoMemory,
                        _ => Reason::Unroutable,
                    });
                }
            },
        }
        queue.pass_frames(1, done);
        Some(Ok(self.datagram.len() + DATAGRAM_COST))
    }

    fn take(&mut self, flags: u8, body: &[u8]) -> Next {
        let more = flags & MORE != 0;
        if flags & COMMAND != 0 {
            return Next::Pass; // Who joins a group tells nobody.
        }
        if self.skips {
            self.skips = more;
            return Next::Pass;
        }
        let Some(head) = &self.head else {
            if !more {
                return Next::Lose(Reason::Malformed);
            }
            self.head = Some(body.to_vec());
            return Next::Pass;
        };
        let made = make(self.first, head, body, &mut self.datagram);
        match made {
            Ok(to) if !more => Next::Send(to),
            made => {
                (self.head, self.skips) = (None, more);
                Next::Lose(made.err().unwrap_or(Reason::Malformed))
            }
        }
    }
}

/// Makes the datagram; returns where it goes.
fn make(first: First, head: &[u8], body: &[u8], out: &mut Vec<u8>) -> Result<SocketAddr, Reason> {
    out.clear();
    let to = match first {
        First::Address => {
            let text = std::str::from_utf8(head).map_err(|_| Reason::Unroutable)?;
            text.parse().map_err(|_| Reason::Unroutable)?
        }
        First::Group(to) => {
            out.push(u8::try_from(head.len()).map_err(|_| Reason::Limit)?);
            out.extend_from_slice(head);
            to.ok_or(Reason::Unwanted)?
        }
    };
    if out.len() + body.len() > DATAGRAM_MAX {
        return Err(Reason::Limit);
    }
    out.extend_from_slice(body);
    Ok(to)
}

impl Incoming {
    pub(super) fn new(first: First) -> Incoming {
        Incoming { first, buffer: vec![0; DATAGRAM_MAX].into(), frames: Vec::new() }
    }

    /// Takes the next datagram in, as a message of at most `max_body` bytes; or takes it away, where there is no
    /// `intake` for it. How much that cost, or EAGAIN.
    pub(super) fn receive(
        &mut self,
        stream: &Stream,
        intake: Option<&mut Intake>,
        max_body: u64,
        mut lost: impl FnMut(Reason),
    ) -> Result<usize, Errno> {
        // All other errors are those of a datagram that was sent, or of one that is none: the next is another one.
        let (size, from) = udp::receive(stream, &mut self.buffer).map_err(|_| Errno::AGAIN)?;
        match (self.translate(size, from, max_body), intake) {
            (Err(reason), _) => lost(reason),
            (Ok(()), None) => lost(Reason::Full),
            (Ok(()), Some(intake)) => intake.feed(&self.frames).map_err(|_| Errno::NOMEM)?,
        }
        Ok(size + DATAGRAM_COST)
    }

    fn translate(&mut self, size: usize, from: Option<SocketAddr>, max_body: u64) -> Result<(), Reason> {
        let datagram = self.buffer.get(..size).ok_or(Reason::Limit)?;
        self.frames.clear();
        let body = match self.first {
            First::Address => {
                let from = from.ok_or(Reason::Malformed)?.to_string();
                frame::append(MORE, &[from.as_bytes()], &mut self.frames);
                datagram
            }
            First::Group(Some(_)) => return Err(Reason::Unwanted), // It only sends.
            First::Group(None) => {
                let (&len, rest) = datagram.split_first().ok_or(Reason::Malformed)?;
                let (group, body) = rest.split_at_checked(len.into()).ok_or(Reason::Malformed)?;
                frame::append(MORE, &[group], &mut self.frames);
                body
            }
        };
        if body.len() as u64 > max_body {
            return Err(Reason::Limit);
        }
        frame::append(0, &[body], &mut self.frames);
        Ok(())
    }
}
