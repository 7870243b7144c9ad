//! A context and sockets that end with their owner. Those of the engine go on until they are ended: a context that is
//! only dropped leaves its I/O thread behind, and a socket its endpoints.

use std::ops::Deref;
use std::time::Duration;

use pinnace_engine::{Context, Error, Socket, SocketType};

/// How long a context waits for sockets that were closed, and linger, or are in use. Nothing here lingers so long.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// A context that is terminated when this is dropped. Drop its sockets before.
pub struct OwnContext(Context);

/// A socket that is closed when this is dropped.
pub struct OwnSocket(Socket);

impl OwnContext {
    pub fn new() -> Result<OwnContext, Error> {
        Context::new().map(OwnContext)
    }

    pub fn own_socket(&self, kind: SocketType) -> Result<OwnSocket, Error> {
        self.socket(kind).map(OwnSocket)
    }
}

impl Deref for OwnContext {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.0
    }
}

impl Drop for OwnContext {
    fn drop(&mut self) {
        while let Err(Error::Interrupted) = self.0.terminate_within(Some(END_TIMEOUT)) {}
    }
}

impl Deref for OwnSocket {
    type Target = Socket;

    fn deref(&self) -> &Socket {
        &self.0
    }
}

impl Drop for OwnSocket {
    fn drop(&mut self) {
        let _ = self.0.close();
    }
}
