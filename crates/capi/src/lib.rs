//! libzmq's C API, and Pinnace's extensions to it.
//!
//! There is one file per object of zmq.h. A function checks its arguments ([`arguments`]), calls the engine, and
//! converts the result to a return value and errno ([`guard`]). Guarantees of every function:
//! - no panic crosses into C: it becomes -1 (or NULL) and ENOTRECOVERABLE;
//! - a null pointer, a closed socket, a closed message and a terminated context are errors, not crashes;
//! - callbacks of the caller (free functions, timers) run with no lock held.
//!
//! Not checked: that a non-null pointer refers to the memory that the manual page requires.

mod arguments;
mod call_error;
mod certificate_files;
mod context;
mod curve;
mod delivery;
mod error;
mod files;
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
