//! Why the program ends.

use std::fmt;
use std::io;

use pinnace_engine::Error;

use crate::wire::Malformed;

/// Why the program ended, unless the client has closed its input.
#[derive(Debug)]
pub enum Failure {
    /// The client has violated the protocol.
    Protocol(Malformed),
    /// A pipe cannot be used.
    Pipe(io::Error),
    /// The engine cannot be used.
    Engine(Error),
    /// A defect of the program.
    Panic,
}

impl From<Malformed> for Failure {
    fn from(error: Malformed) -> Failure {
        Failure::Protocol(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Pipe(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Engine(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Protocol(error) => write!(f, "protocol: {error}"),
            Failure::Pipe(error) => write!(f, "pipe: {error}"),
            Failure::Engine(error) => write!(f, "engine: {error}"),
            Failure::Panic => f.write_str("a defect; it is in the log"),
        }
    }
}

impl std::error::Error for Failure {}

impl From<rustix::io::Errno> for Failure {
    fn from(errno: rustix::io::Errno) -> Failure {
        Failure::Pipe(errno.into())
    }
}
