//! Queues of frames between threads, and the bodies they carry.
//!
//! What it is: [`queue`] makes one lock-free queue with a single [`Producer`] and a single [`Consumer`].
//! Frames lie in it as they go on the wire (ZMTP 3 header and body), so that a connection writes them to the
//! kernel, or reads them from it, without touching each; a large body is a reference ([`Body`]).
//!
//! What it guarantees:
//! - a message of several frames becomes visible at its last frame, whole;
//! - memory grows with what is queued and is handed back as it is consumed;
//! - a consumer that parks, and a producer that waits for room, is told of what it waits for: no wake-up is
//!   lost;
//! - memory that cannot be had is an error ([`NoMemory`]), never an abort.
//!
//! What it does not: a queue blocks nobody and wakes nobody. It tells its caller whom to wake.
//!
//! Beside it are where threads sleep ([`EventCount`]) and a lock for what one thread uses mostly
//! ([`BiasedLock`]).
//!
//! ```
//! use pinnace_ring::{queue, Frame, Limits};
//! let (mut tx, mut rx) = queue(Limits { messages: 1000, ahead_bytes: 0 });
//! tx.push(0, b"hello").unwrap();
//! tx.commit();
//! let text = rx.pop(|frame| match frame {
//!     Frame::Bytes { data, .. } => data.to_vec(),
//!     Frame::Body { body, .. } => body.take().map_or(Vec::new(), |body| body.to_vec()),
//! });
//! assert_eq!(text.as_deref(), Some(&b"hello"[..]));
//! ```

mod arena;
mod bell;
mod biased;
mod body;
mod budget;
mod consumer;
mod event;
mod gather;
mod intake;
mod pool;
mod prefetch;
mod producer;
mod queue;
mod record;
mod segment;
mod shared;
mod sync;
mod word;

#[cfg(all(test, loom))]
mod loom_lock_tests;
#[cfg(all(test, loom))]
mod loom_tests;

pub use arena::{Arena, Borrower, Halves, LOAN_MIN, Lender, Taking};
pub use bell::{Bell, Rung};
pub use biased::{BiasedGuard, BiasedLock, OwnerGuard, Reentered};
pub use body::Body;
pub use budget::Budget;
pub use consumer::{Consumer, Frame};
pub use event::{EventCount, Ticket, Unnotified};
pub use intake::{COMMAND_MAX, Intake, MAX_PARTS, Refused, Verdict};
pub use prefetch::prefetch;
pub use producer::{Books, Producer};
pub use queue::{Amount, Limits, budgeted_queue, queue};
pub use record::{COMMAND, LONG, MORE};
pub use shared::{HEAD, Half, Incoming, Lied, Outgoing, RING_MAX, RING_MIN, shared};

/// The largest body that is copied into a queue, in bytes; a larger one travels by reference.
pub const INLINE_MAX: usize = 32 * 1024;

/// Memory for a frame or a segment could not be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoMemory;

impl std::fmt::Display for NoMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("memory for a message could not be had")
    }
}

impl std::error::Error for NoMemory {}
