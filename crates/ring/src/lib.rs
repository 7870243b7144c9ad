//! Queues of frames between threads, and the bodies they carry.
//!
//! What it is: [`queue`] makes one lock-free queue with a single [`Producer`] and a single [`Consumer`].
//! Frames are stored in their wire format (ZMTP 3 header and body), so that a connection writes many of them
//! to the kernel, or reads many from it, without touching each one. A large body is stored as a reference
//! ([`Body`]).
//!
//! What it guarantees:
//! - a multi-frame message becomes visible as a whole, with its last frame;
//! - memory grows with the queued data and is returned as the data is consumed;
//! - no wake-up is lost, neither for a consumer that parks nor for a producer that waits for room;
//! - a failed allocation is an error ([`NoMemory`]), never an abort.
//!
//! What it does not do: a queue never blocks and never wakes a thread. It tells its caller when the other
//! side has to be woken.
//!
//! The crate also has an event count for threads to sleep on ([`EventCount`]) and a lock for data that one
//! thread uses most of the time ([`BiasedLock`]).
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
mod biased;
mod body;
mod budget;
mod consumer;
mod doorbell;
mod event;
mod futex_word;
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

#[cfg(all(test, loom))]
#[path = "tests/loom_lock.rs"]
mod loom_lock;
#[cfg(all(test, loom))]
#[path = "tests/loom_queue.rs"]
mod loom_queue;

pub use arena::{Arena, Borrower, Halves, LOAN_MIN, Lender, Taking};
pub use biased::{BiasedGuard, BiasedLock, OwnerGuard, Reentered};
pub use body::Body;
pub use budget::Budget;
pub use consumer::{Consumer, Frame};
pub use doorbell::{Doorbell, Rung};
pub use event::{EventCount, Ticket, Unnotified};
pub use intake::{COMMAND_MAX, Intake, MAX_PARTS, Refused, Verdict};
pub use prefetch::{prefetch, prefetch_room};
pub use producer::{Books, Producer};
pub use queue::{Amount, Limits, budgeted_queue, queue};
pub use record::{COMMAND, LONG, MORE};
pub use shared::{HEAD, Half, Incoming, Outgoing, PeerViolation, RING_MAX, RING_MIN, shared};

/// The largest body that is copied into a queue, in bytes. A larger one is passed by reference.
pub const INLINE_MAX: usize = 32 * 1024;

/// Allocating memory for a frame or a segment failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoMemory;

impl std::fmt::Display for NoMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("memory for a message could not be had")
    }
}

impl std::error::Error for NoMemory {}
