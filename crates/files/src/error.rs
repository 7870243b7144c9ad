//! Errors of file transfer.

use std::fmt;
use std::io;

use crate::names::{name_of, value_of};

/// What kind of error it is. Its name is sent to the other side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// Nothing has this path.
    NotFound,
    /// The file system, or the server's access rules, forbid it.
    Denied,
    /// Another transfer writes the file.
    InUse,
    /// It is neither a file, nor a directory, nor a symbolic link that may be sent; or a path leads over a link.
    NotPlain,
    /// The file is not the one that was asked for: it was changed or replaced.
    Changed,
    /// No room on the disk, or a quota is reached.
    NoRoom,
    /// The disk failed.
    Disk,
    /// A limit of the server or client was reached.
    Limit,
    /// The path or request is invalid.
    Invalid,
    /// The octets are not those that the sender announced.
    Corrupt,
    /// A code of a later version.
    Unknown,
}

impl Code {
    const NAMES: [(&'static [u8], Code); 10] = [
        (b"not-found", Code::NotFound),
        (b"denied", Code::Denied),
        (b"in-use", Code::InUse),
        (b"not-plain", Code::NotPlain),
        (b"changed", Code::Changed),
        (b"no-room", Code::NoRoom),
        (b"disk", Code::Disk),
        (b"limit", Code::Limit),
        (b"invalid", Code::Invalid),
        (b"corrupt", Code::Corrupt),
    ];

    pub fn name(self) -> &'static [u8] {
        name_of(&Code::NAMES, self).unwrap_or(b"unknown")
    }

    pub fn of_name(name: &[u8]) -> Code {
        value_of(&Code::NAMES, name).unwrap_or(Code::Unknown)
    }
}

/// A file that failed, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileError {
    pub code: Code,
    pub text: String,
    /// Of a transfer's event or report: it failed on the disk of this host, and not at the other side.
    pub here: bool,
}

impl FileError {
    pub fn new(code: Code, text: impl Into<String>) -> FileError {
        FileError { code, text: text.into(), here: false }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for FileError {}

impl From<rustix::io::Errno> for FileError {
    fn from(errno: rustix::io::Errno) -> FileError {
        use rustix::io::Errno;
        let code = match errno {
            Errno::NOENT | Errno::NOTDIR => Code::NotFound,
            Errno::ACCESS | Errno::PERM | Errno::ROFS => Code::Denied,
            // openat2 answers XDEV to a path that leaves the folder.
            Errno::LOOP | Errno::XDEV | Errno::NXIO => Code::NotPlain,
            Errno::NOSPC | Errno::DQUOT => Code::NoRoom,
            Errno::NAMETOOLONG | Errno::INVAL | Errno::ISDIR => Code::Invalid,
            Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::FBIG => Code::Limit,
            _ => Code::Disk,
        };
        FileError::new(code, io::Error::from(errno).to_string())
    }
}

/// An error of a client or server.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A file failed, at this side or the other one.
    File {
        path: String,
        error: FileError,
    },
    /// No server answered within the time.
    NoServer(String),
    /// The server refuses the client.
    Refused(String),
    /// The other side does not follow the protocol.
    Protocol(String),
    /// An endpoint is invalid or in use, or the process has no descriptors left.
    Socket(pinnace_engine::Error),
    /// The users of a server have keys and passwords, or keys without CURVE; or a client has keys and a password.
    Users,
    /// A right is of an unknown user or to a path that is not served, or a user is given twice in conflict.
    Access(String),
    /// What a program gave to be written to, or read from, failed.
    Stream(io::Error),
    Cancelled,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::File { path, error } => write!(f, "{path}: {error}"),
            Error::NoServer(endpoint) => write!(f, "no server answers at {endpoint}"),
            Error::Refused(reason) => write!(f, "the server refuses this client: {reason}"),
            Error::Protocol(what) => write!(f, "the other side does not follow the protocol: {what}"),
            Error::Socket(error) => write!(f, "{error}"),
            Error::Users => {
                f.write_str("users have either CURVE keys, with the server's own keys, or passwords")
            }
            Error::Access(what) => f.write_str(what),
            Error::Stream(error) => write!(f, "{error}"),
            Error::Cancelled => f.write_str("cancelled"),
        }
    }
}

impl std::error::Error for Error {}

impl From<pinnace_engine::Error> for Error {
    fn from(error: pinnace_engine::Error) -> Error {
        Error::Socket(error)
    }
}
