//! libzmq's C interface, and what Pinnace adds to it.
//!
//! One file an object of zmq.h. A function here checks its arguments ([`arguments`]), calls the engine, and
//! turns what comes back into a value and errno ([`guard`]). What every function guarantees:
//! - no panic crosses into C: it becomes -1 (or NULL) and ENOTRECOVERABLE;
//! - a null pointer, a closed socket, a closed message and a terminated context are errors, not crashes;
//! - the caller's functions (free functions, timers) run with no lock held.
//!
//! What it cannot check is that a pointer that is not null leads to the memory that the manual page asks for.

mod arguments;
mod context;
mod curve;
mod delivery;
mod error;
mod guard;
mod handle;
mod legacy;
mod message;
mod pinnace;
mod poll;
mod poller;
mod proxy;
mod registry;
mod socket;
mod timers;
mod utils;
mod z85;
