//! Messages in PGM packets (pgm://, epgm://), as libzmq sends them.
//!
//! The payload of a packet, an APDU, starts with a big-endian 16-bit offset: the distance from the end of this
//! field to the first message that starts in the APDU, or `0xffff` if none does. A piece of an endless stream of
//! ZMTP 1.0 frames ([`v1`]) follows. There is no greeting, no subscription and no traffic in the other direction. A
//! receiver joins at the start of a message, initially and after every unrecoverable loss.
//!
//! [`Packer`] builds APDUs; [`Assembler`] parses those of one sender. Senders are not trusted: [`AssemblerLimits`]
//! bounds the memory of an assembler, which grows with the received bytes, not with announced lengths.
//!
//! ```
//! use pinnace_zmtp::pgm::{Assembler, AssemblerLimits, Packer};
//!
//! let mut packer = Packer::new(9);
//! assert!(!packer.push(0, b"hello world")); // more than one APDU holds
//! assert_eq!(packer.apdu(), Some(&b"\0\0\x0c\0hello"[..]));
//! assert_eq!(packer.sent(), 0); // no frame is sent to its end
//! assert!(packer.push(0, b"hello world"));
//! assert_eq!(packer.apdu(), Some(&b"\xff\xff world"[..]));
//!
//! const LIMITS: AssemblerLimits = AssemblerLimits { max_body: 100, max_message: 1000, max_parts: 10 };
//! let (mut assembler, mut frames) = (Assembler::new(LIMITS), Vec::new());
//! assembler.take(b"\0\0\x0c\0hello", &mut frames)?;
//! assembler.take(b"\xff\xff world", &mut frames)?;
//! assert_eq!(frames, b"\0\x0bhello world"); // a whole message, as frames of ZMTP 3
//! # Ok::<(), pinnace_zmtp::pgm::Refused>(())
//! ```

use crate::frame::{self, MORE};
use crate::v1;

/// Length of the leading offset field in bytes.
const OFFSET: usize = 2;
/// Offset value: no message starts in this APDU.
const NONE: u16 = 0xffff;

/// The largest and the smallest APDU that a packer builds, in bytes.
const MAX: usize = NONE as usize;
const MIN: usize = OFFSET + 1;
/// Capacity that is kept for a sender's next message, in bytes.
const KEPT: usize = 64 * 1024;

/// Builds APDUs from frames.
///
/// [`push`](Packer::push) frames in order until it returns false, send [`apdu`](Packer::apdu), call
/// [`sent`](Packer::sent), and continue with the first frame that is not completely sent.
#[derive(Debug)]
pub struct Packer {
    max: usize,
    apdu: Vec<u8>,
    /// Bytes of the next frame to push that earlier APDUs contain, and bytes of it in this one.
    earlier: usize,
    now: usize,
    /// Frames that end in this APDU.
    whole: usize,
    /// True if the next frame continues a message.
    inside: bool,
}

impl Packer {
    /// For APDUs of at most `max` bytes; `max` is clamped to at least 3.
    pub fn new(max: usize) -> Packer {
        let apdu = NONE.to_be_bytes().to_vec();
        Packer { max: max.clamp(MIN, MAX), apdu, earlier: 0, now: 0, whole: 0, inside: false }
    }

    /// Appends as much of a frame as fits. Only MORE in `flags` counts. False if the APDU is full.
    pub fn push(&mut self, flags: u8, body: &[u8]) -> bool {
        let room = self.max - self.apdu.len();
        if room == 0 || self.now > 0 {
            return false;
        }
        if self.earlier == 0 && !self.inside && self.apdu[..OFFSET] == NONE.to_be_bytes() {
            // Less than MAX, because there is room for at least one more byte.
            let at = (self.apdu.len() - OFFSET) as u16;
            self.apdu[..OFFSET].copy_from_slice(&at.to_be_bytes());
        }
        let mut header = [0; v1::MAX_HEADER];
        let header_len = v1::encode(flags, body.len() as u64, &mut header);
        let header = header[..header_len].get(self.earlier..).unwrap_or_default();
        let body = &body[self.earlier.saturating_sub(header_len).min(body.len())..];
        let (head, data) = (header.len().min(room), body.len().min(room - header.len().min(room)));
        self.apdu.extend_from_slice(&header[..head]);
        self.apdu.extend_from_slice(&body[..data]);
        if head + data < header.len() + body.len() {
            self.now = head + data;
            return false;
        }
        self.earlier = 0;
        self.whole += 1;
        self.inside = flags & MORE != 0;
        self.apdu.len() < self.max
    }

    /// The APDU to send; `None` if no frame was pushed since the last call of [`sent`](Packer::sent).
    pub fn apdu(&self) -> Option<&[u8]> {
        (self.apdu.len() > OFFSET).then_some(&self.apdu)
    }

    /// Reports that the APDU was sent. Returns how many of the frames pushed for it are complete. The next frame
    /// may be partly sent; the caller pushes it again, whole.
    pub fn sent(&mut self) -> usize {
        self.apdu.truncate(OFFSET);
        self.apdu.copy_from_slice(&NONE.to_be_bytes());
        self.earlier += std::mem::take(&mut self.now);
        std::mem::take(&mut self.whole)
    }
}

/// Why an APDU was rejected. The assembler rejoins at the next message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The APDU has no offset, the offset is beyond its end, or a frame's length leaves no room for its flags.
    Malformed,
    /// A frame or a message exceeds the limits.
    TooLarge,
    /// Out of memory.
    NoMemory,
}

/// Bounds on what one sender can make an assembler hold.
#[derive(Debug, Clone, Copy)]
pub struct AssemblerLimits {
    /// The largest body of a frame, in bytes.
    pub max_body: u64,
    /// The largest message, in bytes including its frame headers.
    pub max_message: usize,
    /// The most frames in a message.
    pub max_parts: u32,
}

/// Parses the APDUs of one sender, in order.
#[derive(Debug)]
pub struct Assembler {
    limits: AssemblerLimits,
    joined: bool,
    /// The incomplete frame header.
    header: Vec<u8>,
    /// Bytes of the body that are missing, and whether another frame follows it.
    body: u64,
    more: bool,
    /// The incomplete message, as ZMTP 3 frames.
    message: Vec<u8>,
    parts: u32,
}

impl Assembler {
    /// For a new sender.
    pub fn new(limits: AssemblerLimits) -> Assembler {
        let (header, message) = (Vec::new(), Vec::new());
        Assembler { limits, joined: false, header, body: 0, more: false, message, parts: 0 }
    }

    /// Parses the next APDU; appends the messages that it completes to `out`, as ZMTP 3 frames.
    pub fn take(&mut self, apdu: &[u8], out: &mut Vec<u8>) -> Result<(), Refused> {
        let taken = self.try_take(apdu, out);
        if taken.is_err() {
            self.lose();
        }
        taken
    }

    /// Reports that data of the sender were lost. True if the assembler had joined, so messages are lost too.
    pub fn lose(&mut self) -> bool {
        let lost = self.joined;
        *self = Assembler::new(self.limits);
        lost
    }

    fn try_take(&mut self, apdu: &[u8], out: &mut Vec<u8>) -> Result<(), Refused> {
        let (offset, mut bytes) = apdu.split_first_chunk().ok_or(Refused::Malformed)?;
        if !self.joined {
            let offset = u16::from_be_bytes(*offset);
            if offset == NONE {
                return Ok(());
            }
            bytes = bytes.get(offset.into()..).ok_or(Refused::Malformed)?;
            self.joined = true;
        }
        while !bytes.is_empty() {
            bytes = if self.body > 0 { self.take_body(bytes)? } else { self.take_header(bytes)? };
            if self.body == 0 && self.header.is_empty() && !self.more {
                out.try_reserve(self.message.len()).map_err(|_| Refused::NoMemory)?;
                out.append(&mut self.message);
                self.message.shrink_to(KEPT);
                self.parts = 0;
            }
        }
        Ok(())
    }

    fn take_body<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], Refused> {
        let len = bytes.len().min(usize::try_from(self.body).unwrap_or(usize::MAX));
        let (body, rest) = bytes.split_at(len);
        self.append(body)?;
        self.body -= len as u64;
        Ok(rest)
    }

    fn take_header<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], Refused> {
        let (byte, rest) = bytes.split_at(1);
        self.header.extend_from_slice(byte);
        let Some(header) = v1::parse(&self.header).map_err(|_| Refused::Malformed)? else { return Ok(rest) };
        self.parts += 1;
        if header.body_len > self.limits.max_body || self.parts > self.limits.max_parts {
            return Err(Refused::TooLarge);
        }
        let mut head = [0; frame::MAX_HEADER];
        let len = frame::encode(header.flags & MORE, header.body_len, &mut head);
        self.append(&head[..len])?;
        (self.body, self.more) = (header.body_len, header.has_more());
        self.header.clear();
        Ok(rest)
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), Refused> {
        if self.message.len().saturating_add(bytes.len()) > self.limits.max_message {
            return Err(Refused::TooLarge);
        }
        self.message.try_reserve(bytes.len()).map_err(|_| Refused::NoMemory)?;
        self.message.extend_from_slice(bytes);
        Ok(())
    }
}
