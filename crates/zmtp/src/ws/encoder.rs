//! ZMTP frames into WebSocket messages: each is one binary message of a flag byte and the body, in one frame.

use super::frame::{self, Mask, Opcode};
use super::{COMMAND, MORE, close};
use crate::frame as zmtp;
use sha1::{Digest, Sha1};

/// Which side of a connection this is. A client masks what it sends, and a server does not.
#[derive(Clone)]
pub enum Role {
    /// Connects.
    Client {
        /// Random bytes, new for each connection and known to nobody. From them come the masks, which RFC 6455,
        /// section 10.3, wants to be unpredictable.
        seed: [u8; 32],
    },
    /// Was connected to.
    Server,
}

/// Turns ZMTP frames into WebSocket messages.
#[derive(Debug)]
pub struct Encoder {
    masks: Option<Masks>,
}

/// The body of a frame that is under way: what it is masked with.
#[derive(Debug, Clone, Copy)]
pub struct Body {
    mask: Mask,
}

/// Masks without end: SHA-1 over the seed, who uses it, and a counter.
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

    /// Appends a ZMTP frame. Of `flags`, MORE and COMMAND of [`crate::frame`] count.
    pub fn encode(&mut self, flags: u8, body: &[u8], out: &mut Vec<u8>) {
        out.reserve(frame::MAX_HEADER + 1 + body.len());
        self.begin(flags, body.len() as u64, out).append(body, out);
    }

    /// Appends all but the body of a ZMTP frame. `body_len` bytes of body must follow, by way of what is returned or,
    /// from a server, as they are.
    pub fn begin(&mut self, flags: u8, body_len: u64, out: &mut Vec<u8>) -> Body {
        let more = if flags & zmtp::MORE != 0 { MORE } else { 0 };
        let command = if flags & zmtp::COMMAND != 0 { COMMAND } else { 0 };
        let key = next(&mut self.masks);
        frame::encode_header(Opcode::Binary, body_len.saturating_add(1), key, out);
        let mut mask = Mask::new(key);
        out.push(mask.byte(more | command));
        Body { mask }
    }

    /// Appends all ZMTP frames that are whole in `frames`, such as a handshake's output, and returns how many bytes
    /// of `frames` those were. `out` grows once and beforehand: what is secret leaves no copies behind.
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

    /// Appends a ping, which the peer answers with the same context, cut after 125 bytes. libzmq sends an empty one,
    /// and answers with an empty one.
    pub fn ping(&mut self, context: &[u8], out: &mut Vec<u8>) {
        let context = &context[..context.len().min(frame::MAX_CONTROL)];
        frame::encode(Opcode::Ping, &[context], next(&mut self.masks), out);
    }

    /// Appends a close frame, after which nothing may be sent. A reason is cut after 123 bytes.
    ///
    /// Tell the decoder ([`closing`](super::Decoder::closing)), so that it does not answer the peer's answer.
    pub fn close(&mut self, code: u16, reason: &str, out: &mut Vec<u8>) {
        frame::encode(Opcode::Close, &[&close::body(code, reason)], next(&mut self.masks), out);
    }
}

/// The ZMTP frames that are there with all of their bodies.
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
    /// None for a server. `use_` keeps those apart who have the same seed.
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
