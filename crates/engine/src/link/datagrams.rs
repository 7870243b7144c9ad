//! Messages of two frames as datagrams (udp://): the first frame is an address or a group, the second is the body.
//!
//! DGRAM: the first frame is the peer's address, and the datagram is the body alone. RADIO and DISH: the first frame
//! is the group, and the datagram is the group's length in one byte, the group, and the body. A message that cannot
//! be sent, or is malformed, is lost and counted. It never ends the link.

use std::net::SocketAddr;

use pinnace_ring::{Body, Consumer, Intake};
use pinnace_sys::{Errno, udp};
use pinnace_zmtp::frame::{self, COMMAND, MORE};

use super::Stream;
use crate::drops::Reason;

/// The largest datagram, in bytes; libzmq's limit.
const DATAGRAM_MAX: usize = 8192;
/// Cost of a datagram to the round's byte budget, besides its bytes.
const DATAGRAM_COST: usize = 256;

/// The meaning of the first frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum First {
    /// An address.
    Address,
    /// A group; all datagrams go to this address. None: the socket only receives.
    Group(Option<SocketAddr>),
}

/// Sends messages as datagrams.
pub(super) struct DatagramWriter {
    first: First,
    /// The first frame of a message that waits for its second.
    head: Option<Vec<u8>>,
    /// The rest of the current message is skipped.
    skips: bool,
    datagram: Vec<u8>,
}

/// Receives datagrams as messages.
pub(super) struct DatagramReader {
    first: First,
    buffer: Box<[u8]>,
    frames: Vec<u8>,
}

/// What to do with a frame.
enum Verdict {
    /// The queue is empty.
    Nothing,
    /// The frame is stored, or is not to be sent.
    Pass,
    Send(SocketAddr),
    /// The frame's message is lost.
    Lose(Reason),
}

impl DatagramWriter {
    pub(super) fn new(first: First) -> DatagramWriter {
        DatagramWriter { first, head: None, skips: false, datagram: Vec::new() }
    }

    /// Sends the next message of the queue. None: the queue is empty. Otherwise the cost in bytes, or EAGAIN.
    pub(super) fn send(
        &mut self,
        stream: &Stream,
        queue: &mut Consumer,
        done: &mut Vec<Body>,
        mut lost: impl FnMut(Reason),
    ) -> Option<Result<usize, Errno>> {
        let mut next = Verdict::Nothing;
        queue.show_frames(|flags, body| {
            next = self.take(flags, body);
            false
        });
        match next {
            Verdict::Nothing => return None,
            Verdict::Pass => {}
            Verdict::Lose(reason) => lost(reason),
            Verdict::Send(to) => match udp::send(stream, &self.datagram, &to) {
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

    fn take(&mut self, flags: u8, body: &[u8]) -> Verdict {
        let more = flags & MORE != 0;
        if flags & COMMAND != 0 {
            return Verdict::Pass; // Joins of a group are not sent.
        }
        if self.skips {
            self.skips = more;
            return Verdict::Pass;
        }
        let Some(head) = &self.head else {
            if !more {
                return Verdict::Lose(Reason::Malformed);
            }
            self.head = Some(body.to_vec());
            return Verdict::Pass;
        };
        let made = make(self.first, head, body, &mut self.datagram);
        match made {
            Ok(to) if !more => Verdict::Send(to),
            made => {
                (self.head, self.skips) = (None, more);
                Verdict::Lose(made.err().unwrap_or(Reason::Malformed))
            }
        }
    }
}

/// Builds the datagram and returns its destination.
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

impl DatagramReader {
    pub(super) fn new(first: First) -> DatagramReader {
        DatagramReader { first, buffer: vec![0; DATAGRAM_MAX].into(), frames: Vec::new() }
    }

    /// Receives the next datagram as a message with a body of at most `max_body` bytes. Without an `intake` the
    /// datagram is dropped and counted. Returns the cost in bytes, or EAGAIN.
    pub(super) fn receive(
        &mut self,
        stream: &Stream,
        intake: Option<&mut Intake>,
        max_body: u64,
        mut lost: impl FnMut(Reason),
    ) -> Result<usize, Errno> {
        // Other errors belong to a datagram sent earlier, or to an invalid one: the next call receives another one.
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
            First::Group(Some(_)) => return Err(Reason::Unwanted), // This socket only sends.
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
