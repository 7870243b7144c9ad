//! The program, through its pipes.

mod certificates;
mod client;
mod credit;
mod delivery;
mod files;
mod protocol;
mod sockets;
