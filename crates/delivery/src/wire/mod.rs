//! What two clients say to each other: frames, each the only one of its message.
//!
//! A client that sends connects (CLIENT, RFC 41) to the one it sends to (SERVER). Its frames introduce it, open streams
//! and carry their messages; the other's frames say how far it is. Nothing here reads a socket or a clock.
//!
//! ```text
//! conversation = hello (welcome / refused) *( open cursor / data / skip / ack / again / credit )
//!
//! sender to receiver
//! hello    = %x01 version name id epoch receiver       ; who sends, and whom it means to reach
//! open     = %x02 stream topic base                    ; a stream, and up to which number all of it is done
//! data     = %x03 stream prev time *entry              ; messages; behind prev there is none but these up to the last
//! skip     = %x04 stream prev end                      ; behind prev there is none up to end
//!
//! receiver to sender
//! welcome  = %x10 version name id                      ; who receives
//! cursor   = %x11 stream received done                 ; go on behind received, without what is done
//! ack      = %x12 stream done                          ; what is done is so for good
//! credit   = %x13 bytes                                ; of bodies, that may be sent since the connection began
//! again    = %x14 stream received                      ; something is missing behind received
//! refused  = %x15 code text                            ; nothing more is said here
//!
//! entry    = step flags time-since [ttl] length body   ; step: from the number before it; ttl: where flags say so
//! done     = upto count *( gap length )                ; all up to upto, and some ranges behind it
//! name, topic, text = length UTF-8
//! id       = 16OCTET
//! version, epoch, stream, ... = number                 ; LEB128, the shortest form
//! ```

mod bytes;
mod frames;

pub use bytes::{Bytes, put_counted, put_number};
pub use frames::{Data, Entry, FromReceiver, FromSender, Refusal, put_done, take_done};

/// Of what is said here.
pub const VERSION: u64 = 1;
/// The longest name or topic, in bytes.
pub const NAME_MAX: usize = 255;
/// The most ranges that are told behind the number up to which all is done.
pub const RANGES_MAX: usize = 1024;
/// The longest body of an entry, in bytes: what is longer comes in parts.
pub const PART_MAX: usize = 1 << 20;

/// Which client it is: its name may be another's later, this may not.
pub type Id = [u8; 16];
