//! The program, through its pipes.

mod client;
mod credit;
mod delivery;
mod protocol;
mod sockets;
