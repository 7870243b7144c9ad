//! The program, through its pipes.

mod client;
mod credit;
mod protocol;
mod sockets;
