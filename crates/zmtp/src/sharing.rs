//! How two peers on one host agree to move their bytes through memory that both have.
//!
//! It is ours alone: a peer that can says so by a property of READY ([`PROPERTY`]), which others pass over, and only
//! where both have said it do the commands here follow, before any traffic:
//!
//! ```text
//! who connected      who accepted
//!   OFFER + memory -->
//!                  <-- ACCEPT + memory
//!   GO             -->                     from here on messages go through the memory
//! ```
//! Either may say DECLINE instead, and then messages go over the connection as ever. What "memory" is, and how it comes
//! along, is not this crate's business.
//!
//! ```
//! use pinnace_zmtp::sharing::{Step, encode, parse};
//! let mut wire = Vec::new();
//! encode(Step::Offer, &mut wire);
//! assert_eq!(parse(&wire), Ok(Some((Step::Offer, wire.len()))));
//! assert_eq!(parse(&wire[..3]), Ok(None));
//! ```

use crate::Error;
use crate::error::Misbehaviour;
use crate::frame::{self, COMMAND};

/// The property's name, and its value: the version of what is agreed upon here.
pub const PROPERTY: &str = "X-Pinnace-Memory";
/// As above.
pub const VERSION: &[u8] = b"3";

/// The commands' name.
const NAME: &[u8] = b"\x06MEMORY";

/// One step of the agreement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Here is memory that I write.
    Offer,
    /// I have it, and here is mine.
    Accept,
    /// I have it, too.
    Go,
    /// Not through memory.
    Decline,
}

const STEPS: [(Step, u8); 4] =
    [(Step::Offer, b'o'), (Step::Accept, b'a'), (Step::Go, b'g'), (Step::Decline, b'd')];

/// Appends a step as a whole frame.
pub fn encode(step: Step, out: &mut Vec<u8>) {
    let letter = STEPS.iter().find(|(other, _)| *other == step).map_or(b'd', |&(_, letter)| letter);
    frame::append(COMMAND, &[NAME, &[letter]], out);
}

/// The peer has said what it has not to say now.
pub fn out_of_turn() -> Error {
    Misbehaviour::UnexpectedCommand { name: NAME[1..].to_vec() }.into()
}

/// The step that `bytes` begin with, and its size as a frame; None where more bytes are needed. An error: it is none.
pub fn parse(bytes: &[u8]) -> Result<Option<(Step, usize)>, Error> {
    let Some(header) = frame::parse(bytes) else { return Ok(None) };
    if !header.is_command() || header.body_len != NAME.len() as u64 + 1 {
        return Err(out_of_turn());
    }
    let end = header.header_len + NAME.len() + 1;
    let Some(body) = bytes.get(header.header_len..end) else { return Ok(None) };
    let letter = body.strip_prefix(NAME).ok_or_else(out_of_turn)?;
    let step = STEPS.iter().find(|(_, other)| letter == [*other]).ok_or_else(out_of_turn)?;
    Ok(Some((step.0, end)))
}
