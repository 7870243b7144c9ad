//! How two peers on one host switch an established connection from its socket to shared memory.
//!
//! This is an extension of Pinnace. A peer announces it by a property of READY ([`PROPERTY`]), which other
//! implementations ignore. If both sides announce it, messages travel over the socket at first, and these commands
//! may come between them:
//!
//! ```text
//! connecting side    accepting side
//!   OFFER + memory -->
//!                  <-- ACCEPT + memory
//!   GO             -->                     the last frame on the socket in this direction
//!                  <-- GO                  and in the other one
//! ```
//! After its GO a side sends through its memory. Either side may send DECLINE instead of the first GO; then
//! messages stay on the socket. This crate does not define what "memory" is and how it is passed.
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

/// The property's name.
pub const PROPERTY: &str = "X-Pinnace-Memory";
/// The property's value: the version of this negotiation.
pub const VERSION: &[u8] = b"4";

/// The name of all these commands.
const NAME: &[u8] = b"\x06MEMORY";

/// One step of the negotiation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Offers memory that the sender of this step writes.
    Offer,
    /// Accepts the offer, and passes memory that the sender of this step writes.
    Accept,
    /// Everything that the sender of this step sends afterwards is in its memory.
    Go,
    /// Stays on the socket.
    Decline,
}

const STEPS: [(Step, u8); 4] =
    [(Step::Offer, b'o'), (Step::Accept, b'a'), (Step::Go, b'g'), (Step::Decline, b'd')];

/// Appends a step as a whole frame.
pub fn encode(step: Step, out: &mut Vec<u8>) {
    let letter = STEPS.iter().find(|(other, _)| *other == step).map_or(b'd', |&(_, letter)| letter);
    frame::append(COMMAND, &[NAME, &[letter]], out);
}

/// The error for a step that is not allowed now.
pub fn out_of_turn() -> Error {
    Misbehaviour::UnexpectedCommand { name: NAME[1..].to_vec() }.into()
}

/// Parses a command's body; `None` if it is another command. Error: the step is unknown.
pub fn parse(body: &[u8]) -> Option<Result<Step, Error>> {
    let letter = body.strip_prefix(NAME)?;
    let step = STEPS.iter().find(|(_, other)| letter == [*other]);
    Some(step.map(|&(step, _)| step).ok_or_else(out_of_turn))
}
