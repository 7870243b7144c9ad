//! The protocol of the two pipes (docs/port.md), as functions of their arguments.
//!
//! A packet is a length of four octets, then as many octets; the first of them is its kind. All numbers are in network
//! byte order. The side that starts the program is the client.

mod fields;
mod messages;
mod parts;

pub use fields::{Fields, Malformed};
pub use messages::{MORE_OCTET, Messages, frame_header};
pub use parts::Parts;

/// The versions of the protocol that the program speaks.
pub const LOWEST_VERSION: u16 = 1;
pub const HIGHEST_VERSION: u16 = 1;

/// The text at the begin of the program's hello.
pub const GREETING: &[u8] = b"pinnace-port";

/// The length before each packet.
pub const LENGTH_OCTETS: usize = 4;

/// The most octets of a packet. What is larger is sent in parts.
pub const PACKET_MAX: usize = 1 << 20;

/// The most octets of a packet with several messages. Erlang reads 64 KiB at once.
pub const BATCH_MAX: usize = 60 * 1024;

/// The octets of a part before its content: kind, channel, whether it is the last.
const PART_HEADER: usize = 6;

/// The most octets of content in a part.
pub const PART_MAX: usize = PACKET_MAX - PART_HEADER;

/// What a part is of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Middle,
    Last,
    /// The client gives up the message that has begun, if one has.
    GivenUp,
}

/// What a client sends.
#[derive(Debug, PartialEq, Eq)]
pub enum ClientPacket<'a> {
    /// The version that it has chosen. It comes first, and once.
    Hello { version: u16 },
    /// Asks for an operation; the answer has the same id.
    Request { id: u32, operation: u16, arguments: Fields<'a> },
    /// Whole messages to send.
    Send { channel: u32, messages: &'a [u8] },
    /// A part of one message, which is complete with the last part.
    SendPart { channel: u32, part: Part, content: &'a [u8] },
    /// The client takes this many messages and octets more.
    Credit { channel: u32, messages: u32, octets: u32 },
    /// Asks for a pong with this number.
    Ping { number: u64 },
}

impl<'a> ClientPacket<'a> {
    /// Parses a packet without its length.
    pub fn parse(packet: &'a [u8]) -> Result<ClientPacket<'a>, Malformed> {
        let mut fields = Fields::new(packet);
        let parsed = match fields.u8()? {
            1 => ClientPacket::Hello { version: fields.u16()? },
            2 => {
                let (id, operation) = (fields.u32()?, fields.u16()?);
                return Ok(ClientPacket::Request { id, operation, arguments: fields });
            }
            3 => ClientPacket::Send { channel: fields.u32()?, messages: fields.rest() },
            4 => {
                let (channel, part) = (fields.u32()?, fields.u8()?);
                let part = match part {
                    0 => Part::Middle,
                    1 => Part::Last,
                    2 => Part::GivenUp,
                    _ => return Err(Malformed::Part),
                };
                let content = if part == Part::GivenUp { &[] } else { fields.rest() };
                ClientPacket::SendPart { channel, part, content }
            }
            5 => {
                let (channel, messages, octets) = (fields.u32()?, fields.u32()?, fields.u32()?);
                ClientPacket::Credit { channel, messages, octets }
            }
            6 => ClientPacket::Ping { number: fields.u64()? },
            _ => return Err(Malformed::Kind),
        };
        fields.end()?;
        Ok(parsed)
    }
}

/// What the program sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramPacket<'a> {
    /// The versions that it speaks, and its release.
    Hello {
        release: &'a str,
    },
    /// The result of a request.
    Result {
        id: u32,
        values: &'a [u8],
    },
    /// The error of a request.
    Failure {
        id: u32,
        errno: i32,
        text: &'a str,
    },
    /// A part of one received message, which is complete with the last part.
    DeliverPart {
        channel: u32,
        is_last: bool,
        content: &'a [u8],
    },
    /// The program has taken this many messages and octets; there is room for as many again.
    Room {
        channel: u32,
        messages: u32,
        octets: u32,
    },
    Pong {
        number: u64,
    },
    /// These messages were not sent.
    Unsent {
        channel: u32,
        messages: u32,
        errno: i32,
    },
    /// The channel's socket has ended.
    Ended {
        channel: u32,
        errno: i32,
    },
    /// A line for the client's log.
    Log {
        text: &'a str,
    },
    /// The client has violated the protocol, and the program ends.
    Fatal {
        text: &'a str,
    },
}

/// The kind of a packet with received messages, which [`begin_delivery`] begins.
const DELIVER: u8 = 132;

/// The kind of a packet with a part of a received message, which [`begin_part`] begins.
const DELIVER_PART: u8 = 133;

impl ProgramPacket<'_> {
    /// Appends the packet with its length.
    pub fn write(self, to: &mut Vec<u8>) {
        let at = to.len();
        to.extend_from_slice(&[0; LENGTH_OCTETS]);
        let mut number = |kind: u8, values: &[u32]| {
            to.push(kind);
            values.iter().for_each(|value| to.extend_from_slice(&value.to_be_bytes()));
        };
        match self {
            ProgramPacket::Hello { release } => {
                number(129, &[]);
                to.extend_from_slice(GREETING);
                to.extend_from_slice(&LOWEST_VERSION.to_be_bytes());
                to.extend_from_slice(&HIGHEST_VERSION.to_be_bytes());
                to.extend_from_slice(release.as_bytes());
            }
            ProgramPacket::Result { id, values } => {
                number(130, &[id]);
                to.extend_from_slice(values);
            }
            ProgramPacket::Failure { id, errno, text } => {
                number(131, &[id, errno.cast_unsigned()]);
                to.extend_from_slice(text.as_bytes());
            }
            ProgramPacket::DeliverPart { channel, is_last, content } => {
                number(DELIVER_PART, &[channel]);
                to.push(is_last.into());
                to.extend_from_slice(content);
            }
            ProgramPacket::Room { channel, messages, octets } => number(134, &[channel, messages, octets]),
            ProgramPacket::Pong { number: of_ping } => {
                number(135, &[]);
                to.extend_from_slice(&of_ping.to_be_bytes());
            }
            ProgramPacket::Unsent { channel, messages, errno } => {
                number(136, &[channel, messages, errno.cast_unsigned()]);
            }
            ProgramPacket::Ended { channel, errno } => number(137, &[channel, errno.cast_unsigned()]),
            ProgramPacket::Log { text } => {
                number(138, &[]);
                to.extend_from_slice(text.as_bytes());
            }
            ProgramPacket::Fatal { text } => {
                number(255, &[]);
                to.extend_from_slice(text.as_bytes());
            }
        }
        end_packet(to, at);
    }
}

/// Begins a packet of received messages, to which their frames are appended. Returns its place for [`end_packet`].
pub fn begin_delivery(to: &mut Vec<u8>, channel: u32) -> usize {
    let at = to.len();
    to.extend_from_slice(&[0; LENGTH_OCTETS]);
    to.push(DELIVER);
    to.extend_from_slice(&channel.to_be_bytes());
    at
}

/// Begins a part of a received message, to which its content is appended. Returns its place for [`end_packet`].
pub fn begin_part(to: &mut Vec<u8>, channel: u32, is_last: bool) -> usize {
    let at = to.len();
    to.extend_from_slice(&[0; LENGTH_OCTETS]);
    to.push(DELIVER_PART);
    to.extend_from_slice(&channel.to_be_bytes());
    to.push(is_last.into());
    at
}

/// Writes the length of the packet that begins at `at` and ends with the buffer.
pub fn end_packet(to: &mut [u8], at: usize) {
    let length = u32::try_from(to.len() - at - LENGTH_OCTETS).expect("a packet is short");
    to[at..at + LENGTH_OCTETS].copy_from_slice(&length.to_be_bytes());
}

#[cfg(test)]
mod tests;
