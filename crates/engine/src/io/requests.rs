//! What a socket hands to the I/O thread when it binds or connects.

use std::sync::Arc;

use super::Owner;
use crate::pipe::PipeId;
use crate::queue::FarEnds;
use crate::transports::{Bound, Target};

/// A listening endpoint of a socket.
pub(crate) struct Listener {
    pub(crate) token: u64,
    pub(crate) owner: Owner,
    pub(crate) bound: Arc<Bound>,
}

/// A connecting endpoint of a socket, which has not dialed yet.
pub(crate) struct Dial {
    pub(crate) token: u64,
    pub(crate) owner: Owner,
    pub(crate) target: Target,
    /// As the user wrote it.
    pub(crate) endpoint: String,
    /// The pipe; None if each connection gets a pipe of its own (ZMQ_IMMEDIATE).
    pub(crate) ends: Option<Box<LastingPipe>>,
}

/// The far ends of a pipe that survives reconnects.
pub(crate) struct LastingPipe {
    pub(crate) id: PipeId,
    pub(crate) far: FarEnds,
    /// How many connections the pipe has had.
    pub(crate) connections: u64,
}
