//! Errors and damage of a log.

use std::fmt;
use std::io;

/// Something that was on the disk is missing or changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Damage {
    /// A file with content, but without a valid segment header.
    Header { file: String },
    /// A second file with this segment's number.
    Twice { segment: u64, file: String },
    /// A segment that should exist.
    Missing { segment: u64 },
    /// A segment is unreadable from this offset on.
    Batches { segment: u64, file: String, at: u64 },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::Header { file } => write!(f, "{file} does not begin as a file of the log"),
            Damage::Twice { segment, file } => {
                write!(f, "{file} says to be segment {segment}, which another is")
            }
            Damage::Missing { segment } => write!(f, "segment {segment} is missing"),
            Damage::Batches { file, at, .. } => write!(f, "{file} cannot be read from byte {at} on"),
        }
    }
}

/// Why a log has failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub kind: io::ErrorKind,
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogError {
    Io(io::ErrorKind),
    /// A write failed earlier; the log accepts nothing until it is reopened.
    Failed(Failure),
    Damaged(Vec<Damage>),
    /// No file for a new segment: one is being made, or could not be made for this reason.
    NoRoom(Option<io::ErrorKind>),
    /// More than MAX_PAYLOAD, or than a segment holds.
    TooLarge,
    TimedOut,
}

impl From<io::Error> for LogError {
    fn from(error: io::Error) -> LogError {
        LogError::Io(error.kind())
    }
}

impl Failure {
    pub fn of(error: &io::Error) -> Failure {
        Failure { kind: error.kind(), text: error.to_string() }
    }
}
