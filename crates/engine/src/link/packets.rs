//! Links that carry packets instead of a stream of frames: UDP datagrams, and multicast packets.

use pinnace_ring::{Body, Consumer, Intake};
use pinnace_sys::Errno;

use super::Stream;
use super::datagrams::{self, First};
use super::multicast;
use crate::drops::Reason;

/// The kind of packets.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Packets {
    Udp(First),
    /// One direction only. `sends`: our side sends; otherwise it receives.
    Pgm {
        sends: bool,
    },
}

/// Sends messages as packets.
pub(super) enum PacketWriter {
    Udp(Box<datagrams::DatagramWriter>),
    Pgm(Box<multicast::MulticastWriter>),
}

/// Receives packets as messages.
pub(super) enum PacketReader {
    Udp(Box<datagrams::DatagramReader>),
    Pgm(Box<multicast::MulticastReader>),
}

impl PacketWriter {
    pub(super) fn new(packets: Packets, stream: &Stream) -> PacketWriter {
        match packets {
            Packets::Udp(first) => PacketWriter::Udp(Box::new(datagrams::DatagramWriter::new(first))),
            Packets::Pgm { sends } => {
                let max = stream.packets().filter(|_| sends).map(|socket| socket.max_data());
                PacketWriter::Pgm(Box::new(multicast::MulticastWriter::new(max)))
            }
        }
    }

    /// Sends the next packet of the queue. None: the queue is empty. Otherwise the cost in bytes, or EAGAIN.
    pub(super) fn send(
        &mut self,
        stream: &Stream,
        queue: &mut Consumer,
        done: &mut Vec<Body>,
        lost: impl FnMut(Reason),
    ) -> Option<Result<usize, Errno>> {
        match self {
            PacketWriter::Udp(outgoing) => outgoing.send(stream, queue, done, lost),
            PacketWriter::Pgm(outgoing) => outgoing.send(stream, queue, done, lost),
        }
    }
}

impl PacketReader {
    pub(super) fn new(packets: Packets) -> PacketReader {
        match packets {
            Packets::Udp(first) => PacketReader::Udp(Box::new(datagrams::DatagramReader::new(first))),
            Packets::Pgm { .. } => PacketReader::Pgm(Box::default()),
        }
    }

    /// Receives the next packet as messages with frames of at most `max_body` bytes. Returns the cost in bytes, or
    /// EAGAIN.
    pub(super) fn receive(
        &mut self,
        stream: &Stream,
        intake: &mut Intake,
        max_body: u64,
        lost: impl FnMut(Reason),
    ) -> Result<usize, Errno> {
        match self {
            PacketReader::Udp(incoming) => incoming.receive(stream, Some(intake), max_body, lost),
            PacketReader::Pgm(incoming) => incoming.receive(stream, intake, max_body, lost),
        }
    }

    /// Discards a packet that the queue has no room for. None: nothing needs to be discarded, since unread packets
    /// are sent again.
    pub(super) fn discard(
        &mut self,
        stream: &Stream,
        max_body: u64,
        lost: impl FnMut(Reason),
    ) -> Option<Result<usize, Errno>> {
        match self {
            PacketReader::Udp(incoming) => Some(incoming.receive(stream, None, max_body, lost)),
            PacketReader::Pgm(_) => None,
        }
    }
}
