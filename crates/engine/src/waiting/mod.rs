//! How callers wait: in one socket (`waiter`), in several at once (`visit`), in a poller (`registration`), or for an
//! event count (`event`). Each prepares a sleep, which the caller or the engine then runs (`pending_sleep`).

mod event;
pub mod pending_sleep;
mod registration;
mod visit;
mod waiter;

pub(crate) use event::EventSleep;
pub use pending_sleep::Wait;
pub(crate) use pending_sleep::{PendingSleep, Turn};
pub(crate) use registration::{PollerRegistration, PollerShared, PollerSleep};
pub(crate) use visit::{PollSleep, Visit, Visits};
pub(crate) use waiter::{SocketSleep, Waiter};
