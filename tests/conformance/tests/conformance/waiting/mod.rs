//! Blocking calls, polling, timeouts.

mod blocking;
mod busy_waiting;
mod pollers;
mod polling;
