//! Flow control of numbered streams, as state without effects.
//!
//! A stream carries numbered messages from one sender to one receiver; many streams share a connection. This crate
//! decides what may be sent, what has to be sent again, and what is a duplicate. It has no socket, clock, disk or
//! thread: events are arguments and actions are results, so a test can run it through any sequence of events.
//!
//! | module | end | what it decides |
//! | --- | --- | --- |
//! | `ranges` | both | which numbers of a stream are done, in a few words of memory |
//! | `credit` | both | how many bytes may be under way on a connection |
//! | `pacing` | both | how many bytes may go now, so that a rate is not exceeded |
//! | `lanes` | sender | which message of the log goes out next on which stream |
//! | `dispatch` | sender | which of several receivers gets a message |
//! | `acceptance` | receiver | whether a message is the next one, a duplicate, or behind a gap |
//! | `pull` | receiver | how many messages of a shared stream to ask for |
//! | `round_robin` | receiver | which stream has its turn |
//!
//! Every type is a plain value without locks. The same events give the same actions, in the same order.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod acceptance;
mod credit;
mod dispatch;
mod lanes;
mod pacing;
mod pull;
mod ranges;
mod round_robin;

pub use acceptance::{Acceptance, Batch};
pub use credit::{CreditExceeded, ReceiverCredit, SenderCredit};
pub use dispatch::{Choice, Dispatch, Offer, Reported};
pub use lanes::{Lane, LaneMut, Lanes, Served};
pub use pacing::Pacer;
pub use pull::{Arrival, Pull, RETURN_AFTER};
pub use ranges::RangeSet;
pub use round_robin::RoundRobin;
