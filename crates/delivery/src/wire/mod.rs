//! What two clients say to each other: frames, each the only one of its message.
//!
//! A client that sends connects (CLIENT, RFC 41) to the one it sends to (SERVER). Its frames introduce it, open streams
//! and carry their messages; the other's frames say how far it is. Nothing here reads a socket or a clock.
//!
//! ```text
//! conversation = hello (welcome / refused) *( open cursor / data / gone / ack / again / credit / final )
//!
//! sender to receiver
//! hello    = %x01 version name id opening receiver     ; who sends, and whom it means to reach
//! open     = %x02 stream topic done                    ; a stream, and what the sender has no more of it
//! data     = %x03 stream prev time *entry              ; messages; behind prev there is none but these up to the last
//! gone     = %x04 stream done                          ; what the sender has no more of it now
//!
//! receiver to sender
//! welcome  = %x10 version name id opening              ; who receives, and which of the sender's it heard of last
//! cursor   = %x11 stream received done                 ; go on behind received, without what is done
//! ack      = %x12 stream done                          ; what is done is so for good
//! credit   = %x13 bytes                                ; that may be sent since the connection began
//! again    = %x14 stream received                      ; something is missing behind received
//! final    = %x15 stream first last verdict deliveries ; will not be handled: the sender puts it away
//! refused  = %x16 code text                            ; nothing more is said here
//!
//! entry    = step flags time-since [ttl] length body   ; step: from the number before it; ttl: where flags say so
//! flags    = OCTET                                     ; 1 begins, 2 ends, 4 dead letter, 8 compressed, 16 in memory
//!                                                      ; alone, 32 ttl, 64 for anyone of the topic
//! done     = upto count *( gap length )                ; all up to upto, and some ranges behind it
//! name, topic, text = length UTF-8
//! id       = 16OCTET
//! opening  = epoch mark                                ; of the sender's store; 0 0: none
//! version, epoch, stream, ... = number                 ; LEB128, the shortest form
//! ```

mod bytes;
mod frames;

pub use bytes::{Bytes, NUMBER_MAX, put_counted, put_number};
pub use frames::{Data, Entry, FromReceiver, FromSender, Refusal, Verdict, make_room, put_done, take_done};

/// Of what is said here.
pub const VERSION: u64 = 1;
/// Numbers of messages are below it.
pub const SEQ_MAX: u64 = 1 << 63;
/// What a connection may have under way and not handled: bytes of bodies, and COST for each message or part.
pub const WINDOW: u64 = 8 << 20;
/// What a message costs beyond its body, so that empty ones are not free.
pub const COST: u64 = 64;
/// The longest name or topic, in bytes.
pub const NAME_MAX: usize = 255;
/// The most ranges that are told behind the number up to which all is done.
pub const RANGES_MAX: usize = 1024;
/// The longest body of a message in one part, in bytes.
pub const PART_MAX: usize = 1 << 20;
/// Bytes of a frame of messages at most, where one message is not more: a buffer of the engine's pool holds them.
pub const FRAME_BYTES: usize = 64 << 10;
/// The longest body of an entry: a part, and what precedes a dead letter.
pub const BODY_MAX: usize = PART_MAX + 1024;
/// The longest frame, in bytes.
pub const FRAME_MAX: usize = BODY_MAX + 1024;

/// Flags of a message, or a part of one: it is the first part.
pub const BEGINS: u8 = 1;
/// It is the last part.
pub const ENDS: u8 = 2;
/// Somebody has given it up; what is known of that precedes the body of its first part.
pub const DEAD: u8 = 4;
/// The parts together are compressed.
pub const PACKED: u8 = 8;
/// Its sender has it in memory alone.
pub const VOLATILE: u8 = 16;
/// It was sent to one of those that listen, and another may have it as well.
pub const ANY: u8 = 64;

/// Which client it is: its name may be another's later, this may not.
pub type Id = [u8; 16];

/// An opening of a client's store. Copies of a store may be opened equally often, and each goes its own way from there:
/// the mark, which is drawn at random, tells them apart.
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

    /// Whether a client that was there in this opening is another than one in that, or was there before it.
    pub fn is_out_of_date(self, that: Opening) -> bool {
        self != that && self.epoch <= that.epoch
    }
}
