//! WebSocket's frame headers and masks (RFC 6455, section 5).
//!
//! A header is two bytes (end of message, reserved bits and opcode; mask bit and a length up to 125), then two or
//! eight bytes of length if the short length is 126 or 127, then the four mask bytes if a client sent it. The
//! payload is XORed with the mask, repeated.
//!
//! ```
//! use pinnace_zmtp::ws::frame::{self, Opcode};
//!
//! let mut out = Vec::new();
//! frame::encode(Opcode::Ping, &[b"Hello"], Some([0x37, 0xfa, 0x21, 0x3d]), &mut out);
//! assert_eq!(out, b"\x89\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58");
//! let header = frame::parse(&out).unwrap();
//! assert_eq!((header.header_len, header.payload_len), (6, 5));
//! ```

/// The longest header, in bytes.
pub const MAX_HEADER: usize = 14;
/// The longest payload of a ping, pong or close, in bytes.
pub const MAX_CONTROL: usize = 125;

const FIN: u8 = 0x80;
const RESERVED: u8 = 0x70;
const OPCODE: u8 = 0x0f;
const MASKED: u8 = 0x80;
const LEN: u8 = 0x7f;
const TWO_BYTES: u8 = 126;
const EIGHT_BYTES: u8 = 127;

/// Bytes that are masked at once, while they are still in the cache from the copy.
const CHUNK: usize = 16 * 1024;

/// The kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Opcode {
    /// The next fragment of a message.
    Continuation = 0,
    /// A text message, which ZWS does not have.
    Text = 1,
    /// A binary message.
    Binary = 2,
    /// The end of the connection.
    Close = 8,
    /// Asks for a pong.
    Ping = 9,
    /// Answers a ping.
    Pong = 10,
}

impl Opcode {
    fn from_bits(bits: u8) -> Result<Opcode, u8> {
        Ok(match bits {
            0 => Opcode::Continuation,
            1 => Opcode::Text,
            2 => Opcode::Binary,
            8 => Opcode::Close,
            9 => Opcode::Ping,
            10 => Opcode::Pong,
            other => return Err(other),
        })
    }

    /// Whether frames of this kind may come between the fragments of a message.
    pub fn is_control(self) -> bool {
        self as u8 >= Opcode::Close as u8
    }
}

/// A frame's header, unchecked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WsHeader {
    /// Whether this is the message's last frame.
    pub fin: bool,
    /// Whether a reserved bit is set.
    pub reserved: bool,
    /// The kind of the frame, or an undefined number.
    pub opcode: Result<Opcode, u8>,
    /// The mask; only clients send one.
    pub mask: Option<[u8; 4]>,
    /// Length of the header itself in bytes: 2 to 14.
    pub header_len: usize,
    /// Length of the payload in bytes.
    pub payload_len: u64,
}

/// Parses the header at the front of `bytes`; `None` if it is incomplete.
///
/// Lengths in a longer form than necessary are accepted, as in libzmq.
pub fn parse(bytes: &[u8]) -> Option<WsHeader> {
    let (&[first, second], rest) = bytes.split_first_chunk()?;
    let (payload_len, rest) = match second & LEN {
        TWO_BYTES => {
            rest.split_first_chunk().map(|(len, rest)| (u64::from(u16::from_be_bytes(*len)), rest))?
        }
        EIGHT_BYTES => rest.split_first_chunk().map(|(len, rest)| (u64::from_be_bytes(*len), rest))?,
        len => (u64::from(len), rest),
    };
    let (mask, rest) = match second & MASKED {
        0 => (None, rest),
        _ => rest.split_first_chunk().map(|(mask, rest)| (Some(*mask), rest))?,
    };
    Some(WsHeader {
        fin: first & FIN != 0,
        reserved: first & RESERVED != 0,
        opcode: Opcode::from_bits(first & OPCODE),
        mask,
        header_len: bytes.len() - rest.len(),
        payload_len,
    })
}

/// Appends the header of a frame that is a whole message.
pub fn encode_header(opcode: Opcode, payload_len: u64, mask: Option<[u8; 4]>, out: &mut Vec<u8>) {
    let masked = if mask.is_some() { MASKED } else { 0 };
    out.push(FIN | opcode as u8);
    if payload_len < u64::from(TWO_BYTES) {
        out.push(masked | payload_len as u8);
    } else if let Ok(len) = u16::try_from(payload_len) {
        out.push(masked | TWO_BYTES);
        out.extend_from_slice(&len.to_be_bytes());
    } else {
        out.push(masked | EIGHT_BYTES);
        out.extend_from_slice(&payload_len.to_be_bytes());
    }
    out.extend_from_slice(&mask.unwrap_or_default()[..if mask.is_some() { 4 } else { 0 }]);
}

/// Appends a frame that is a whole message; its payload is the concatenation of `parts`.
pub fn encode(opcode: Opcode, parts: &[&[u8]], mask: Option<[u8; 4]>, out: &mut Vec<u8>) {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    out.reserve(MAX_HEADER + len);
    encode_header(opcode, len as u64, mask, out);
    let mut mask = Mask::new(mask);
    for part in parts {
        mask.append(part, out);
    }
}

/// A mask, and the position in it for a payload that comes in pieces.
#[derive(Debug, Clone, Copy)]
pub struct Mask {
    /// Four bytes, the next one lowest; zero if there is no mask.
    key: u32,
}

impl Mask {
    /// The mask of a header, positioned at its payload's first byte.
    pub fn new(mask: Option<[u8; 4]>) -> Mask {
        Mask { key: u32::from_le_bytes(mask.unwrap_or_default()) }
    }

    /// Appends the next bytes of the payload, masked or unmasked (the operation is the same).
    pub fn append(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if self.key == 0 {
            return out.extend_from_slice(bytes);
        }
        out.reserve(bytes.len());
        for chunk in bytes.chunks(CHUNK) {
            let at = out.len();
            out.extend_from_slice(chunk);
            self.apply(&mut out[at..]);
        }
    }

    /// Masks or unmasks the next bytes of the payload, eight at a time, which compilers vectorize.
    pub fn apply(&mut self, bytes: &mut [u8]) {
        let word = u64::from(self.key) << 32 | u64::from(self.key);
        let (words, rest) = bytes.as_chunks_mut();
        for bytes in words {
            *bytes = (u64::from_le_bytes(*bytes) ^ word).to_le_bytes();
        }
        for byte in rest {
            *byte = self.byte(*byte);
        }
    }

    /// Masks or unmasks the next byte of the payload.
    #[inline]
    pub fn byte(&mut self, byte: u8) -> u8 {
        let masked = byte ^ self.key as u8;
        self.key = self.key.rotate_right(8);
        masked
    }
}
