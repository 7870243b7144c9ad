//! Fields of packets: numbers, texts and the rest.

use std::fmt;

/// What is wrong with a packet or with the arguments of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// It is longer than [`PACKET_MAX`](super::PACKET_MAX), or empty.
    Length,
    /// There is no such kind of packet.
    Kind,
    /// It ends within a field.
    Short,
    /// There is something behind its last field.
    Long,
    /// A field that is 0 or 1 has another value.
    Bool,
    /// There is no such kind of part.
    Part,
    /// A text is not UTF-8.
    Text,
    /// A frame is longer than its packet, or the last frame of a message is missing.
    Frame,
    /// More was sent than there was room for.
    Room,
    /// The first packet is not a hello, or another one is.
    Hello,
    /// The version is not one of those that the program speaks.
    Version,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Malformed::Length => "the length of a packet is 0 or too large",
            Malformed::Kind => "unknown kind of packet",
            Malformed::Short => "a field is missing",
            Malformed::Long => "octets follow the last field",
            Malformed::Bool => "a field is neither 0 nor 1",
            Malformed::Part => "a part is of no kind",
            Malformed::Text => "a text is not UTF-8",
            Malformed::Frame => "a frame is cut off, or octets follow the last one of a message",
            Malformed::Room => "more was sent than there was room for",
            Malformed::Hello => "the first packet is not a hello, or another one is",
            Malformed::Version => "the version is not one of those of this program",
        })
    }
}

/// Fields that were not read yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub fn new(octets: &'a [u8]) -> Fields<'a> {
        Fields(octets)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (array, rest) = self.0.split_first_chunk().ok_or(Malformed::Short)?;
        self.0 = rest;
        Ok(*array)
    }

    pub fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(u8::from_be_bytes)
    }

    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    pub fn i32(&mut self) -> Result<i32, Malformed> {
        self.array().map(i32::from_be_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_be_bytes)
    }

    pub fn bool(&mut self) -> Result<bool, Malformed> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed::Bool),
        }
    }

    /// A key of CURVE.
    pub fn key(&mut self) -> Result<[u8; 32], Malformed> {
        self.array()
    }

    /// Octets with their length, a number of four octets, before them.
    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.u32()? as usize;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(Malformed::Short)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// As `bytes`, in UTF-8.
    pub fn text(&mut self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Malformed::Text)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    /// Error: something is left.
    pub fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed::Long) }
    }
}
