//! A message that comes in parts: its frames, each in memory of its own, so that the socket takes them without a copy.

use pinnace_engine::Body;

use super::fields::Malformed;
use super::messages::{MESSAGE_HEADER, header_of};

/// The most octets of a message, with the headers of its frames.
const MESSAGE_MAX: usize = 1 << 31;

/// What is allocated for a frame when its header comes. A longer one grows as its content comes.
const FRAME_BEGUN_MAX: usize = 4 << 20;

/// The begin of a message, cut anywhere.
#[derive(Debug, Default)]
pub struct Parts {
    frames: Vec<Vec<u8>>,
    /// The begin of a header, if the parts so far end within one.
    header: Vec<u8>,
    /// The octets that the last frame still needs.
    missing: usize,
    /// The last frame of the message has begun.
    is_last_frame: bool,
    /// With the headers.
    octets: usize,
}

impl Parts {
    pub fn is_empty(&self) -> bool {
        self.octets == 0
    }

    /// The octets of the parts.
    pub fn octets(&self) -> usize {
        self.octets
    }

    /// Adds the next part. Errors: it goes on behind the message's last frame, or the message is too long.
    pub fn add(&mut self, mut part: &[u8]) -> Result<(), Malformed> {
        loop {
            let (content, rest) = part.split_at(part.len().min(self.missing));
            if let Some(frame) = self.frames.last_mut() {
                frame.extend_from_slice(content);
            }
            self.missing -= content.len();
            self.octets += content.len();
            if rest.is_empty() {
                return Ok(());
            }
            part = self.begin_frame(rest)?;
        }
    }

    /// Takes a header, or as much of it as there is. Returns what is behind it.
    fn begin_frame<'a>(&mut self, octets: &'a [u8]) -> Result<&'a [u8], Malformed> {
        if self.is_last_frame {
            return Err(Malformed::Frame);
        }
        let (of_header, rest) = octets.split_at(octets.len().min(MESSAGE_HEADER - self.header.len()));
        self.header.extend_from_slice(of_header);
        self.octets += of_header.len();
        if let Ok(header) = <[u8; MESSAGE_HEADER]>::try_from(self.header.as_slice()) {
            let (length, more) = header_of(header);
            if self.octets + length > MESSAGE_MAX {
                return Err(Malformed::Length);
            }
            self.header.clear();
            self.frames.push(Body::buffer(length.min(FRAME_BEGUN_MAX)).unwrap_or_default());
            (self.missing, self.is_last_frame) = (length, !more);
        }
        Ok(rest)
    }

    /// The frames of the whole message. Error: something of it is missing.
    pub fn finish(self) -> Result<Vec<Vec<u8>>, Malformed> {
        if self.is_last_frame && self.missing == 0 { Ok(self.frames) } else { Err(Malformed::Frame) }
    }
}
