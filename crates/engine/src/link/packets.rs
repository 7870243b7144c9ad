//! Links that move packets instead of a stream of frames: udp's datagrams, and those of a multicast.

use pinnace_ring::{Body, Consumer, Intake};
use pinnace_sys::Errno;

use super::Stream;
use super::datagrams::{self, First};
use super::multicast;
use crate::drops::Reason;

/// What the packets are.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Packets {
    Udp(First),
    /// `sends`: in one direction, and in this one.
    Pgm {
        sends: bool,
    },
}

/// The way out.
pub(super) enum Outgoing {
    Udp(Box<datagrams::Outgoing>),
    Pgm(Box<multicast::Outgoing>),
}

/// The way in.
pub(super) enum Incoming {
    Udp(Box<datagrams::Incoming>),
    Pgm(Box<multicast::Incoming>),
}

impl Outgoing {
    pub(super) fn new(packets: Packets, stream: &Stream) -> Outgoing {
        match packets {
            Packets::Udp(first) => Outgoing::Udp(Box::new(datagrams::Outgoing::new(first))),
            Packets::Pgm { sends } => {
                let max = stream.packets().filter(|_| sends).map(|socket| socket.max_data());
                Outgoing::Pgm(Box::new(multicast::Outgoing::new(max)))
            }
        }
    }

    /// Sends what comes next in the queue. None: there is nothing. Else how much that cost, or EAGAIN.
    pub(super) fn send(
        &mut self,
        stream: &Stream,
        queue: &mut Consumer,
        done: &mut Vec<Body>,
        lost: impl FnMut(Reason),
    ) -> Option<Result<usize, Errno>> {
        match self {
            Outgoing::Udp(outgoing) => outgoing.send(stream, queue, done, lost),
            Outgoing::Pgm(outgoing) => outgoing.send(stream, queue, done, lost),
        }
    }
}

impl Incoming {
    pub(super) fn new(packets: Packets) -> Incoming {
        match packets {
            Packets::Udp(first) => Incoming::Udp(Box::new(datagrams::Incoming::new(first))),
            Packets::Pgm { .. } => Incoming::Pgm(Box::default()),
        }
    }

    /// Takes the next packet in, as messages whose frames have at most `max_body` bytes. How much that cost, or EAGAIN.
    pub(super) fn receive(
        &mut self,
        stream: &Stream,
        intake: &mut Intake,
        max_body: u64,
        lost: impl FnMut(Reason),
    ) -> Result<usize, Errno> {
        match self {
            Incoming::Udp(incoming) => incoming.receive(stream, Some(intake), max_body, lost),
            Incoming::Pgm(incoming) => incoming.receive(stream, intake, max_body, lost),
        }
    }

    /// Takes a packet away that there is no room for. None: those that are left unread are sent again, and need not
    /// be.
    pub(super) fn discard(
        &mut self,
        stream: &Stream,
        max_body: u64,
        lost: impl FnMut(Reason),
    ) -> Option<Result<usize, Errno>> {
        match self {
            Incoming::Udp(incoming) => Some(incoming.receive(stream, None, max_body, lost)),
            Incoming::Pgm(_) => None,
        }
    }
}
