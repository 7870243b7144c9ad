//! Faults: peers that lie, processes that die, resources that run out, calls that are wrong.

mod cancelled;
mod crowds;
mod forks;
mod freeing;
mod holes;
mod hostile;
mod idle;
mod kill;
mod killed_in_memory;
mod limits;
mod memory;
mod misuse;
mod scribbling;
mod sealed;
mod secrets;
mod signals;
mod stopped;
mod tail;
mod threads;
mod two_processes;
mod volume;
mod websocket;
