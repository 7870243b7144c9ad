//! The frames of FILEMQ v2 (RFC 35) as libfilemq encodes them, and this implementation's extensions.
//!
//! A message is one ZeroMQ frame. Numbers are big-endian.
//!
//! ```text
//! frame   = 0xAA 0xA3 id body
//! string  = len:1 octets          longstr = len:4 octets          chunk = len:4 octets
//! hash    = count:4 *( name:string value:longstr )
//! ```
//!
//! | id | command | body |
//! | --- | --- | --- |
//! | 1 | OHAI | `"FILEMQ":string version:2` |
//! | 4 | OHAI-OK | |
//! | 5 | ICANHAZ | `path:longstr options:hash cache:hash` |
//! | 6 | ICANHAZ-OK | |
//! | 7 | NOM | `credit:8 sequence:8` |
//! | 8 | CHEEZBURGER | `sequence:8 operation:1 filename:longstr offset:8 eof:1 headers:hash chunk` |
//! | 9, 10 | HUGZ, HUGZ-OK | |
//! | 11 | KTHXBAI | |
//! | 128, 129 | SRSLY, RTFM | `reason:string` |
//!
//! Where the RFC's text says `string` for a path or file name, libfilemq and its model use `longstr`; so does this.
//! [`Request`] and [`Headers`] are the extensions: names in the hashes, which other implementations ignore.

mod entries;
mod hash;
mod headers;
mod read;
mod request;

use std::error::Error;
use std::fmt;

pub use entries::{
    Entries, Entry, Extra, HardLink, Kind, MoreAttributes, Owner, put_entry, put_entry_with_extra,
};
pub use hash::{Hash, HashWriter};
pub use headers::{DIGEST, Form, Headers};
use read::Reader;
pub use request::{Mode, Request};

/// The first two octets of each frame (zproto's signature 3).
const SIGNATURE: [u8; 2] = [0xAA, 0xA3];

/// The name and version of the protocol, as OHAI gives them.
pub const PROTOCOL: &[u8] = b"FILEMQ";
pub const VERSION: u16 = 2;

/// The port that IANA has assigned to FILEMQ.
pub const PORT: u16 = 5670;

/// The most octets of a path or file name.
pub const NAME_MAX: usize = 4096;

/// What becomes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Create,
    Delete,
    /// Of no meaning: to be ignored.
    Other(u8),
}

/// A message in a received frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message<'a> {
    /// A client begins, or begins again.
    Ohai {
        protocol: &'a [u8],
        version: u16,
    },
    OhaiOk,
    /// A client subscribes to a path; with extensions, its request.
    Icanhaz {
        path: &'a [u8],
        options: Hash<'a>,
        cache: Hash<'a>,
    },
    IcanhazOk,
    /// The receiver of files grants `credit` more bytes of content.
    Nom {
        credit: u64,
        sequence: u64,
    },
    Cheezburger(Cheezburger<'a>),
    Hugz,
    HugzOk,
    Kthxbai,
    /// The server refuses access.
    Srsly {
        reason: &'a [u8],
    },
    /// The server does not understand the client.
    Rtfm {
        reason: &'a [u8],
    },
}

/// A chunk of a file, or the end of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cheezburger<'a> {
    pub sequence: u64,
    pub operation: Change,
    pub filename: &'a [u8],
    pub offset: u64,
    pub eof: bool,
    pub headers: Hash<'a>,
    pub chunk: &'a [u8],
}

/// A frame that is no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeError {
    /// Another protocol's signature. RFC 35: discard it silently.
    Foreign,
    Malformed(&'static str),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::Foreign => f.write_str("no FILEMQ signature"),
            DecodeError::Malformed(what) => f.write_str(what),
        }
    }
}

impl Error for DecodeError {}

impl Message<'_> {
    /// The greeting of a client.
    pub const GREETING: Message<'static> = Message::Ohai { protocol: PROTOCOL, version: VERSION };

    /// Reads a frame. Octets behind the last field are ignored.
    ///
    /// # Errors
    ///
    /// The frame is no message of FILEMQ v2.
    pub fn read(frame: &[u8]) -> Result<Message<'_>, DecodeError> {
        let mut reader = Reader::new(frame);
        if reader.take(2) != Ok(&SIGNATURE) {
            return Err(DecodeError::Foreign);
        }
        let message = match reader.u8()? {
            1 => Message::Ohai { protocol: reader.string()?, version: reader.u16()? },
            4 => Message::OhaiOk,
            5 => Message::Icanhaz { path: reader.name()?, options: reader.hash()?, cache: reader.hash()? },
            6 => Message::IcanhazOk,
            7 => Message::Nom { credit: reader.u64()?, sequence: reader.u64()? },
            8 => Message::Cheezburger(Cheezburger::read(&mut reader)?),
            9 => Message::Hugz,
            10 => Message::HugzOk,
            11 => Message::Kthxbai,
            128 => Message::Srsly { reason: reader.string()? },
            129 => Message::Rtfm { reason: reader.string()? },
            _ => return Err(DecodeError::Malformed("unknown command")),
        };
        Ok(message)
    }

    /// Appends the message's frame.
    pub fn write(&self, into: &mut Vec<u8>) {
        let begin = |into: &mut Vec<u8>, id| into.extend_from_slice(&[SIGNATURE[0], SIGNATURE[1], id]);
        match self {
            Message::Ohai { protocol, version } => {
                begin(into, 1);
                put_string(into, protocol);
                into.extend_from_slice(&version.to_be_bytes());
            }
            Message::OhaiOk => begin(into, 4),
            Message::Icanhaz { path, options, cache } => {
                begin(into, 5);
                put_longstr(into, path);
                options.write(into);
                cache.write(into);
            }
            Message::IcanhazOk => begin(into, 6),
            Message::Nom { credit, sequence } => {
                begin(into, 7);
                into.extend_from_slice(&credit.to_be_bytes());
                into.extend_from_slice(&sequence.to_be_bytes());
            }
            Message::Cheezburger(burger) => {
                burger.write_head(into, burger.chunk.len());
                into.extend_from_slice(burger.chunk);
            }
            Message::Hugz => begin(into, 9),
            Message::HugzOk => begin(into, 10),
            Message::Kthxbai => begin(into, 11),
            Message::Srsly { reason } => {
                begin(into, 128);
                put_string(into, reason);
            }
            Message::Rtfm { reason } => {
                begin(into, 129);
                put_string(into, reason);
            }
        }
    }

    /// The message's frame.
    pub fn to_frame(&self) -> Vec<u8> {
        let mut frame = Vec::new();
        self.write(&mut frame);
        frame
    }
}

impl<'a> Cheezburger<'a> {
    /// Without offset and content.
    pub fn new(sequence: u64, filename: &'a [u8], headers: Hash<'a>) -> Cheezburger<'a> {
        let (operation, offset, eof, chunk) = (Change::Create, 0, false, &b""[..]);
        Cheezburger { sequence, operation, filename, offset, eof, headers, chunk }
    }

    fn read(reader: &mut Reader<'a>) -> Result<Cheezburger<'a>, DecodeError> {
        Ok(Cheezburger {
            sequence: reader.u64()?,
            operation: match reader.u8()? {
                1 => Change::Create,
                2 => Change::Delete,
                other => Change::Other(other),
            },
            filename: reader.name()?,
            offset: reader.u64()?,
            eof: reader.u8()? != 0,
            headers: reader.hash()?,
            chunk: reader.longstr()?,
        })
    }

    /// Appends the frame as far as the octets of its chunk, which the caller appends. `len`: how many.
    pub fn write_head(&self, into: &mut Vec<u8>, len: usize) {
        into.extend_from_slice(&[SIGNATURE[0], SIGNATURE[1], 8]);
        into.extend_from_slice(&self.sequence.to_be_bytes());
        into.push(match self.operation {
            Change::Create => 1,
            Change::Delete => 2,
            Change::Other(other) => other,
        });
        put_longstr(into, self.filename);
        into.extend_from_slice(&self.offset.to_be_bytes());
        into.push(u8::from(self.eof));
        self.headers.write(into);
        into.extend_from_slice(&(len as u32).to_be_bytes());
    }
}

/// Appends a string; what exceeds 255 octets is cut.
fn put_string(into: &mut Vec<u8>, octets: &[u8]) {
    let len = octets.len().min(usize::from(u8::MAX));
    into.push(len as u8);
    into.extend_from_slice(&octets[..len]);
}

fn put_longstr(into: &mut Vec<u8>, octets: &[u8]) {
    into.extend_from_slice(&(octets.len() as u32).to_be_bytes());
    into.extend_from_slice(octets);
}

#[cfg(test)]
mod tests;
