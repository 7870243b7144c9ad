//! Messages in packets. A frame is a number of four octets, then its content: the number's first bit says that more
//! frames of the message follow, the others are the content's length.

use super::fields::Malformed;

/// The octets before a frame's content.
pub(super) const MESSAGE_HEADER: usize = 4;

/// The bit that says that more frames follow.
const MORE: u32 = 1 << 31;

/// The same bit in the first octet of a frame's header.
pub const MORE_OCTET: u8 = 1 << 7;

/// The octets before a frame's content. None: it is too long to be passed on.
pub fn frame_header(length: usize, more: bool) -> Option<[u8; MESSAGE_HEADER]> {
    let length = u32::try_from(length).ok().filter(|length| length & MORE == 0)?;
    Some((length | if more { MORE } else { 0 }).to_be_bytes())
}

/// The length of a frame, and whether more of its message follow.
pub(super) fn header_of(header: [u8; MESSAGE_HEADER]) -> (usize, bool) {
    let header = u32::from_be_bytes(header);
    ((header & !MORE) as usize, header & MORE != 0)
}

/// The first frame, whether more of its message follow, and what is behind it.
fn split(octets: &[u8]) -> Result<(&[u8], bool, &[u8]), Malformed> {
    let (header, rest) = octets.split_first_chunk().ok_or(Malformed::Frame)?;
    let (length, more) = header_of(*header);
    let (frame, rest) = rest.split_at_checked(length).ok_or(Malformed::Frame)?;
    Ok((frame, more, rest))
}

/// Messages of a packet, one after the other.
#[derive(Debug, Clone, Copy)]
pub struct Messages<'a>(&'a [u8]);

impl<'a> Messages<'a> {
    /// Error: they are not whole messages.
    pub fn new(octets: &'a [u8]) -> Result<Messages<'a>, Malformed> {
        let (mut left, mut is_open) = (octets, false);
        while !left.is_empty() {
            (_, is_open, left) = split(left)?;
        }
        if is_open { Err(Malformed::Frame) } else { Ok(Messages(octets)) }
    }

    /// As `new`, for octets that `new` has accepted.
    pub fn checked(octets: &'a [u8]) -> Messages<'a> {
        Messages(octets)
    }

    /// How many there are.
    pub fn count(mut self) -> u32 {
        let (mut frames, mut count) = (Vec::new(), 0);
        while self.next(&mut frames) > 0 {
            count += 1;
        }
        count
    }

    /// Moves the frames of the next message to `frames`. Returns its length with its headers; 0: there is none.
    pub fn next(&mut self, frames: &mut Vec<&'a [u8]>) -> usize {
        frames.clear();
        let before = self.0.len();
        while let Ok((frame, more, rest)) = split(self.0) {
            self.0 = rest;
            frames.push(frame);
            if !more {
                break;
            }
        }
        before - self.0.len()
    }
}
