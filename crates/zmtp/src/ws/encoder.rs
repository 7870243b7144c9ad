//! Translates ZMTP frames into WebSocket messages: a flag byte and the body, as one unfragmented binary message.

use super::frame::{self, Mask, Opcode};
use super::{COMMAND, MORE, close};
use crate::frame as zmtp;
use sha1::{Digest, Sha1};

/// Our side of the connection. A client masks what it sends, a server does not.
#[derive(Clone)]
pub enum Role {
    /// The side that connects.
    Client {
        /// Random bytes, new for each connection and secret. The masks are derived from them; RFC 6455, section
        /// 10.3, requires masks to be unpredictable.
        seed: [u8; 32],
    },
    /// The side that accepts.
    Server,
}

/// Turns ZMTP frames into WebSocket messages.
#[derive(Debug)]
pub struct Encoder {
    masks: Option<Masks>,
}

/// The mask state of a frame's body that is being appended.
#[derive(Debug, Clone, Copy)]
pub struct Body {
    mask: Mask,
}

/// An endless sequence of masks: SHA-1 over the seed, the user of the sequence, and a counter.
pub(super) struct Masks {
    seed: [u8; 32],
    use_: u8,
    counter: u64,
    block: [u8; 20],
    left: usize,
}

impl Encoder {
    /// For one connection.
    pub fn new(role: &Role) -> Encoder {
        Encoder { masks: Masks::new(role, 0) }
    }

    /// Appends a ZMTP frame. Only MORE and COMMAND of [`crate::frame`] in `flags` count.
    pub fn encode(&mut self, flags: u8, body: &[u8], out: &mut Vec<u8>) {
        out.reserve(frame::MAX_HEADER + 1 + body.len());
        self.begin(flags, body.len() as u64, out).append(body, out);
    }

    /// Appends all but the body of a ZMTP frame. The caller must append `body_len` bytes of body through the
    /// returned value, or, on a server, may append them directly.
    pub fn begin(&mut self, flags: u8, body_len: u64, out: &mut Vec<u8>) -> Body {
        let more = if flags & zmtp::MORE != 0 { MORE } else { 0 };
        let command = if flags & zmtp::COMMAND != 0 { COMMAND } else { 0 };
        let key = next(&mut self.masks);
        frame::encode_header(Opcode::Binary, body_len.saturating_add(1), key, out);
        let mut mask = Mask::new(key);
        out.push(mask.byte(more | command));
        Body { mask }
    }

    /// Appends all complete ZMTP frames in `frames`, such as a handshake's output, and returns their length in
    /// `frames`. Reserves all memory in `out` beforehand, so that reallocation leaves no copies of secrets behind.
    pub fn encode_frames(&mut self, frames: &[u8], out: &mut Vec<u8>) -> usize {
        let longest = whole(frames).count() * (frame::MAX_HEADER + 1);
        out.reserve(longest + frames.len());
        let mut taken = 0;
        for (header, body) in whole(frames) {
            self.encode(header.flags, body, out);
            taken += header.header_len + body.len();
        }
        taken
    }

    /// Appends a ping with this context, truncated to 125 bytes; the peer answers with the same context. libzmq
    /// sends empty pings and empty pongs.
    pub fn ping(&mut self, context: &[u8], out: &mut Vec<u8>) {
        let context = &context[..context.len().min(frame::MAX_CONTROL)];
        frame::encode(Opcode::Ping, &[context], next(&mut self.masks), out);
    }

    /// Appends a close frame, the last frame that may be sent. The reason is truncated to 123 bytes.
    ///
    /// Call [`closing`](super::Decoder::closing) on the decoder, so that it does not reply to the peer's close
    /// frame.
    pub fn close(&mut self, code: u16, reason: &str, out: &mut Vec<u8>) {
        frame::encode(Opcode::Close, &[&close::body(code, reason)], next(&mut self.masks), out);
    }
}

/// The complete ZMTP frames in `frames`.
fn whole(mut frames: &[u8]) -> impl Iterator<Item = (zmtp::Header, &[u8])> {
    std::iter::from_fn(move || {
        let header = zmtp::parse(frames)?;
        let len = usize::try_from(header.body_len).ok()?;
        let (body, behind) = frames[header.header_len..].split_at_checked(len)?;
        frames = behind;
        Some((header, body))
    })
}

impl Body {
    /// Appends the next bytes of the body.
    pub fn append(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.mask.append(bytes, out);
    }
}

impl Masks {
    /// `None` for a server. `use_` separates the sequences of users with the same seed.
    pub(super) fn new(role: &Role, use_: u8) -> Option<Masks> {
        match role {
            Role::Client { seed } => Some(Masks { seed: *seed, use_, counter: 0, block: [0; 20], left: 0 }),
            Role::Server => None,
        }
    }

    fn next(&mut self) -> [u8; 4] {
        if self.left == 0 {
            let hash = Sha1::new().chain_update(self.seed).chain_update([self.use_]);
            self.block = hash.chain_update(self.counter.to_be_bytes()).finalize().into();
            self.counter += 1;
            self.left = self.block.len() / 4;
        }
        self.left -= 1;
        let at = self.left * 4;
        [self.block[at], self.block[at + 1], self.block[at + 2], self.block[at + 3]]
    }
}

pub(super) fn next(masks: &mut Option<Masks>) -> Option<[u8; 4]> {
    masks.as_mut().map(Masks::next)
}

impl std::fmt::Debug for Masks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Masks")
    }
}

impl std::fmt::Debug for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if matches!(self, Role::Server) { "Server" } else { "Client" })
    }
}
