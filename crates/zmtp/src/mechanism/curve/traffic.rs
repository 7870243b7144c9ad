//! CURVE's traffic: one frame is one MESSAGE, a box with the frame's flags and its body.
//!
//! | bytes | what |
//! | --- | --- |
//! | 8 | `07` `MESSAGE` |
//! | 8 | the number, highest byte first: the end of the nonce |
//! | 16 | the tag of Poly1305 |
//! | 1 | flags: 1 more frames follow, 2 a command |
//! | the rest | the body |
//!
//! Flags and body are encrypted. The MESSAGE is the body of a message frame without flags.

use pinnace_crypto::{BoxKey, StreamKey, TAG_LEN};

use super::SHORT_NONCE_LEN;
use crate::error::{Error, Misbehaviour, Misuse};
use crate::frame::{self, COMMAND, MORE};

/// Bytes that sealing adds to a body.
pub const OVERHEAD: usize = HEAD_LEN + TAG_LEN + 1;

const MESSAGE: &[u8; 8] = b"\x07MESSAGE";
const HEAD_LEN: usize = MESSAGE.len() + SHORT_NONCE_LEN;

/// The flags in the box.
const BOX_MORE: u8 = 1;
const BOX_COMMAND: u8 = 2;

/// Our side of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TrafficRole {
    Client,
    Server,
}

const FROM_CLIENT: &[u8; 16] = b"CurveZMQMESSAGEC";
const FROM_SERVER: &[u8; 16] = b"CurveZMQMESSAGES";

/// Seals the frames that one side of a connection sends.
#[derive(Debug)]
pub struct Sealer {
    key: StreamKey,
    /// The number of the next message.
    next: u64,
}

impl Sealer {
    pub(super) fn new(key: &BoxKey, role: TrafficRole, next: u64) -> Sealer {
        let prefix = if role == TrafficRole::Client { FROM_CLIENT } else { FROM_SERVER };
        Sealer { key: StreamKey::new(key, prefix), next }
    }

    /// Appends a whole frame, header included, that seals the frame with these flags ([`MORE`], [`COMMAND`]) and
    /// this body. Frames must be sent in the order in which they were sealed.
    ///
    /// # Errors
    /// [`Misuse::NoncesExhausted`] after 2^64 frames, and [`Error::NoMemory`]; `out` is unchanged then.
    #[inline]
    pub fn seal(&mut self, flags: u8, body: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        if self.next == u64::MAX {
            return Err(Misuse::NoncesExhausted.into());
        }
        let start = out.len();
        let mut header = [0; frame::MAX_HEADER];
        let header_len = frame::encode(0, (OVERHEAD + body.len()) as u64, &mut header);
        out.try_reserve(header_len + OVERHEAD + body.len()).map_err(|_| Error::NoMemory)?;
        out.extend_from_slice(&header[..header_len]);

        let number = self.next.to_be_bytes();
        let mut head = [0; HEAD_LEN];
        head[..MESSAGE.len()].copy_from_slice(MESSAGE);
        head[MESSAGE.len()..].copy_from_slice(&number);
        if self.key.seal(&number, &head, to_box(flags), body, out).is_err() {
            out.truncate(start);
            return Err(Error::NoMemory);
        }
        self.next += 1;
        Ok(())
    }
}

/// Opens the frames that one side of a connection receives.
#[derive(Debug)]
pub struct Opener {
    key: StreamKey,
    /// The number of the last message. The next one must have a higher number: no repetition, no reordering.
    last: u64,
}

/// The content of a MESSAGE.
#[derive(Debug, PartialEq, Eq)]
pub struct Opened<'a> {
    /// [`MORE`] and [`COMMAND`], as the peer sealed them.
    pub flags: u8,
    /// The frame's body: everything after the first [`OVERHEAD`] bytes of the enclosing frame's body.
    pub payload: &'a [u8],
}

impl Opener {
    pub(super) fn new(key: &BoxKey, role: TrafficRole, last: u64) -> Opener {
        let prefix = if role == TrafficRole::Client { FROM_SERVER } else { FROM_CLIENT };
        Opener { key: StreamKey::new(key, prefix), last }
    }

    /// Opens the body of a frame in place.
    ///
    /// The flags of the enclosing frame are ignored: they are not sealed, so anyone on the path can change them. Pass
    /// every frame to this function, message or command; only the flags in the box are valid.
    ///
    /// # Errors
    /// [`Error::PeerMisbehaved`]: `frame_body` is not a MESSAGE, is too short, is not newer than the last one, or
    /// does not open. The caller should close the connection.
    #[inline]
    pub fn open<'a>(&mut self, frame_body: &'a mut [u8]) -> Result<Opened<'a>, Error> {
        if !frame_body.starts_with(MESSAGE) {
            return Err(not_a_message(frame_body));
        }
        let (head, rest) = frame_body.split_at_mut_checked(HEAD_LEN).ok_or(Misbehaviour::MalformedMessage)?;
        let number = head.last_chunk().ok_or(Misbehaviour::MalformedMessage)?;
        let (tag, sealed) = rest.split_first_chunk_mut().ok_or(Misbehaviour::MalformedMessage)?;
        if sealed.is_empty() {
            return Err(Misbehaviour::MalformedMessage.into());
        }
        if u64::from_be_bytes(*number) <= self.last {
            return Err(Misbehaviour::OldMessage.into());
        }
        self.key.open(number, tag, sealed).map_err(|_| Misbehaviour::Unreadable { command: "MESSAGE" })?;
        self.last = u64::from_be_bytes(*number);
        let (flags, payload) = sealed.split_first().ok_or(Misbehaviour::MalformedMessage)?;
        Ok(Opened { flags: from_box(*flags), payload })
    }
}

/// The error for a frame that is another command, or none.
#[cold]
fn not_a_message(frame_body: &[u8]) -> Error {
    match crate::command::parse(frame_body) {
        Ok(command) => crate::mechanism::unexpected(command),
        Err(error) => error,
    }
}

fn to_box(flags: u8) -> u8 {
    let more = if flags & MORE == 0 { 0 } else { BOX_MORE };
    let command = if flags & COMMAND == 0 { 0 } else { BOX_COMMAND };
    more | command
}

/// Other bits are ignored, as in libzmq.
fn from_box(flags: u8) -> u8 {
    let more = if flags & BOX_MORE == 0 { 0 } else { MORE };
    let command = if flags & BOX_COMMAND == 0 { 0 } else { COMMAND };
    more | command
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinnace_crypto::Secret;

    fn key() -> BoxKey {
        BoxKey::symmetric(Secret::copy_of(&[1; 32]))
    }

    #[test]
    fn the_last_number_is_never_used() {
        let mut sealer = Sealer::new(&key(), TrafficRole::Client, u64::MAX - 1);
        let mut out = Vec::new();
        sealer.seal(0, b"last", &mut out).unwrap();
        let sealed = out.clone();
        for _ in 0..2 {
            assert_eq!(sealer.seal(0, b"too many", &mut out), Err(Misuse::NoncesExhausted.into()));
            assert_eq!(out, sealed);
        }
        let mut opener = Opener::new(&key(), TrafficRole::Server, u64::MAX - 2);
        assert_eq!(opener.open(&mut out[2..]).unwrap().payload, b"last");
    }

    #[test]
    fn the_two_directions_have_keys_of_their_own() {
        let mut out = Vec::new();
        Sealer::new(&key(), TrafficRole::Client, 2).seal(0, b"mine", &mut out).unwrap();
        let reflected = Opener::new(&key(), TrafficRole::Client, 1).open(&mut out[2..]).unwrap_err();
        assert_eq!(reflected, Misbehaviour::Unreadable { command: "MESSAGE" }.into());
    }
}
