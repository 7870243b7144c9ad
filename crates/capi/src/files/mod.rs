//! File transfer in C: pinnace_files.h.
//!
//! Servers, clients, transfers, rules and options are checked handles: an invalid or released one is EFAULT. A function
//! that fails sets errno and stores a message for its thread (`pinnace_files_error`). A call in progress keeps its
//! object, so closing one never frees what another thread uses.

mod client;
mod error;
mod event;
mod owned;
mod rules;
mod server;
mod transfer;
