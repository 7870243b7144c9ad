//! How two peers on one host move an established connection from its socket to memory that both have.
//!
//! It is ours alone: a peer that can says so by a property of READY ([`PROPERTY`]), which others pass over. Where both
//! have said it, messages go over the socket at first, and these commands may come between them:
//!
//! ```text
//! who connected      who accepted
//!   OFFER + memory -->
//!                  <-- ACCEPT + memory
//!   GO             -->                     the last frame on the socket in this direction
//!                  <-- GO                  and in the other one
//! ```
//! Behind its GO a side sends through its memory. Either may say DECLINE instead of the first GO, and then messages go
//! over the socket as before. What "memory" is, and how it comes along, is not this crate's business.
//!
//! ```
//! use pinnace_zmtp::sharing::{Step, encode, parse};
//! let mut wire = Vec::new();
//! encode(Step::Offer, &mut wire);
//! assert_eq!(parse(&wire[2..]), Some(Ok(Step::Offer))); // Behind the frame's header.
//! assert_eq!(parse(b"\x04PING\0\0"), None);
//! ```

use crate::Error;
use crate::error::Misbehaviour;
use crate::frame::{self, COMMAND};

/// The property's name, and its value: the version of what is agreed upon here.
pub const PROPERTY: &str = "X-Pinnace-Memory";
/// As above.
pub const VERSION: &[u8] = b"4";

/// The commands' name.
const NAME: &[u8] = b"\x06MEMORY";

/// One step of the agreement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Here is memory that I write.
    Offer,
    /// I have it, and here is mine.
    Accept,
    /// What I send from here on is in my memory.
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

/// The step that a command's body is; None: it is another command. An error: there is no such step.
pub fn parse(body: &[u8]) -> Option<Result<Step, Error>> {
    let letter = body.strip_prefix(NAME)?;
    let step = STEPS.iter().find(|(_, other)| letter == [*other]);
    Some(step.map(|&(step, _)| step).ok_or_else(out_of_turn))
}
