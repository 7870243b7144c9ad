//! The protocol between two clients. Every frame is a message of one part.
//!
//! A sending client connects (CLIENT, RFC 41) to the receiving client (SERVER). The sender's frames introduce it, open
//! streams and carry their messages; the receiver's frames report progress. This module reads no socket and no clock.
//!
//! ```text
//! conversation = hello (welcome / refused) *( open cursor / data / gone / ack / again / credit / final
//!                                           / share held / work / taken / want )
//!
//! sender to receiver
//! hello    = %x01 version name id opening receiver     ; the sender, and the name of the intended receiver
//! open     = %x02 stream topic done                    ; a stream, and the numbers that the sender no longer has
//! data     = %x03 stream prev time *entry              ; messages; no others exist between prev and the last entry
//! gone     = %x04 stream done                          ; the numbers that the sender no longer has now
//! share    = %x05 stream topic done                    ; a stream that other receivers have a part of
//! work     = %x06 generation index stream prev time *entry ; messages of a shared stream; prev: the number before the
//!                                                      ; first
//! taken    = %x07 stream done                          ; other receivers have these: drop those that wait
//!
//! receiver to sender
//! welcome  = %x10 version name id opening              ; the receiver, and the sender's last opening it heard from
//! cursor   = %x11 stream received done                 ; resume after received, and skip what is done
//! ack      = %x12 stream done                          ; these are done: the sender may drop them
//! credit   = %x13 bytes                                ; total that may be sent since the connection began
//! again    = %x14 stream received                      ; messages after received are missing: resend them
//! final    = %x15 stream first last verdict deliveries ; will not be handled: given up, or expired
//! refused  = %x16 code text                            ; the conversation ends
//! held     = %x17 stream generation wanted done done   ; of a shared stream: what waits or is handled, and what is
//!                                                      ; done; the rest is returned. A new generation begins
//! want     = %x18 stream generation wanted             ; total of messages asked for in this generation
//!
//! entry    = step flags time-since [ttl] length body   ; step: from the previous number; ttl: if its flag is set
//! flags    = OCTET                                     ; 1 begins, 2 ends, 4 dead letter, 8 compressed, 16 in memory
//!                                                      ; only, 32 ttl, 64 for any receiver of the topic,
//!                                                      ; 128 a block of properties precedes the first part's body
//! done     = upto count *( gap length )                ; all up to upto, and at most 1,024 ranges after it: a larger
//!                                                      ; set takes several frames
//! name, topic, text = length UTF-8
//! id       = 16OCTET
//! opening  = epoch mark                                ; of the sender's store; 0 0: none
//! version  = number                                    ; 1; or 2, plus 256 times the set of features, a bit each
//! epoch, stream, ... = number                          ; LEB128, the shortest form
//! ```

mod bytes;
mod frames;
mod ranges;
mod version;

pub use bytes::{Bytes, NUMBER_MAX, put_counted, put_number};
pub use frames::{Data, FrameEntry, FromReceiver, FromSender, Refusal, Verdict, make_room};
pub use ranges::{put_ranges, split, take_ranges};
pub use version::{FIRST_VERSION, Features, VERSION, answer_to, is_later};

/// Message numbers are below it.
pub const SEQ_MAX: u64 = 1 << 63;
/// Send window of a connection: the most credit for messages not handled yet. A message, or a part of one, costs COST
/// plus the bytes of its body.
pub const WINDOW: u64 = 8 << 20;
/// Fixed cost of a message or part in addition to its body, so that empty ones are not free.
pub const COST: u64 = 64;
/// The longest name or topic, in bytes.
pub const NAME_MAX: usize = 255;
/// The most ranges in a set of a frame or record, in addition to `upto`. A larger set is split ([`split`]).
pub const RANGES_MAX: usize = 1024;
/// The longest body of a message in one part, in bytes.
pub const PART_MAX: usize = 1 << 20;
/// The most bytes of a data frame, unless its only message is larger. Fits a buffer of the engine's pool.
pub const FRAME_BYTES: usize = 64 << 10;
/// The longest body of an entry: a part, plus the envelope of a dead letter.
pub const BODY_MAX: usize = PART_MAX + 1024;
/// The longest frame, in bytes.
pub const FRAME_MAX: usize = BODY_MAX + 1024;

/// Flag of a message or part: it is the first part.
pub const BEGINS: u8 = 1;
/// It is the last part.
pub const ENDS: u8 = 2;
/// It is a dead letter: an envelope with the reason precedes the body of its first part.
pub const DEAD: u8 = 4;
/// The body of the whole message is compressed.
pub const PACKED: u8 = 8;
/// The sender keeps it in memory only.
pub const VOLATILE: u8 = 16;
/// It was sent to any one receiver of the topic, and another receiver may get it as well.
pub const ANY: u8 = 64;
/// A block of properties (`properties.rs`) precedes the body of its first part, after the envelope of a dead letter.
pub const PROPERTIES: u8 = 128;

/// Identifies a client. Names can be reused by other clients, ids cannot.
pub type Id = [u8; 16];

/// One opening of a client's store. Copies of a store can reach the same epoch independently; the random mark tells
/// them apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Opening {
    pub epoch: u64,
    pub mark: u64,
}

impl Opening {
    pub fn put(self, to: &mut Vec<u8>) {
        put_number(to, self.epoch);
        put_number(to, self.mark);
    }

    pub fn take(from: &mut Bytes<'_>) -> Option<Opening> {
        Some(Opening { epoch: from.number()?, mark: from.number()? })
    }

    /// Returns true if `self` is an earlier opening than `that`, or another one of the same epoch.
    pub fn is_out_of_date(self, that: Opening) -> bool {
        self != that && self.epoch <= that.epoch
    }
}
