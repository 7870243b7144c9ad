//! Calls that wait: blocking, polling, time-outs.

mod blocking;
mod busy_waiting;
mod pollers;
mod polling;
