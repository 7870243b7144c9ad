//! How an owner takes its store back from an agent, over a socket in the directory that holds the stores.
//!
//! An owner that finds its store locked connects, and sends the name of the store's directory with a NUL behind it. The
//! agent closes that store, and answers with one byte. Until the owner closes the connection, which it does once it has
//! the store or has given up, the agent does not open the store again. So the owner takes part in no race: it waits for
//! one event. If the agent is killed meanwhile, the connection ends, and the kernel releases the lock.
//!
//! The socket file stays behind when an agent is killed. Connecting is refused then, and the next agent replaces it.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The socket's name. No client's store has it, since their names do not begin with a dot.
const SOCKET: &str = ".agent";
const SOCKET_MODE: u32 = 0o600;
/// The longest path that a socket's address holds, in bytes.
const PATH_MAX: usize = 107;
/// The longest name of a directory entry, in bytes.
const NAME_MAX: usize = 255;
/// How long an owner waits for an agent's answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// How often an owner tries to lock a store that an agent gave back, or held when it was killed, and the pause before.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(5);

/// The agent has closed the store.
const RELEASED: u8 = b'r';
/// The agent does not have the store open.
const NOT_HELD: u8 = b'n';

/// The result of asking. Dropped once the owner has the store, or has given up.
pub struct Asked {
    _connection: Option<UnixStream>,
    tries: u32,
    tried: u32,
}

/// Asks the agent that drains the directory of a store, if there is one, and waits until the store is closed.
pub fn ask(store: &Path) -> Asked {
    let (connection, tries) = match answer_about(store) {
        Ok((connection, Some(NOT_HELD))) => (Some(connection), 1),
        // None: the agent was killed, and the store is locked until the kernel has closed its files.
        Ok((connection, Some(RELEASED) | None)) => (Some(connection), TRIES),
        // Another byte would be of a later version.
        Ok((connection, Some(_))) => (Some(connection), TRIES),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => (None, TRIES),
        Err(_) => (None, 0),
    };
    Asked { _connection: connection, tries, tried: 0 }
}

impl Asked {
    /// Returns true if locking the store is worth a try. Pauses before all tries but the first.
    pub fn may_be_free(&mut self) -> bool {
        if self.tried > 0 && self.tried < self.tries {
            std::thread::sleep(PAUSE);
        }
        self.tried += 1;
        self.tried <= self.tries
    }
}

/// Errors: NotFound, there is no agent; ConnectionRefused, it was killed; TimedOut and others.
fn answer_about(store: &Path) -> io::Result<(UnixStream, Option<u8>)> {
    let store = store.canonicalize()?;
    let (folder, name) = store.parent().zip(store.file_name()).ok_or(ErrorKind::NotFound)?;
    // In a directory that others can write to, another user could answer for an agent.
    if fs::symlink_metadata(folder.join(SOCKET))?.uid() != fs::metadata(&store)?.uid() {
        return Err(ErrorKind::NotFound.into());
    }
    let mut connection = with_address(folder, |address| UnixStream::connect(address))?;
    connection.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    let gone = |error: &io::Error| matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset);
    match connection.write_all(&[name.as_bytes(), &[0]].concat()) {
        Err(error) if gone(&error) => return Ok((connection, None)),
        written => written?,
    }
    let until = Instant::now() + ANSWER_TIMEOUT;
    let mut answer = [0];
    loop {
        match connection.read(&mut answer) {
            Ok(0) => return Ok((connection, None)),
            Ok(_) => return Ok((connection, Some(answer[0]))),
            Err(error) if gone(&error) => return Ok((connection, None)),
            Err(error) if error.kind() == ErrorKind::Interrupted && Instant::now() < until => {}
            Err(error) => return Err(error),
        }
    }
}

/// Calls `with` with an address of the socket in a directory, whose path may be longer than an address.
fn with_address<R>(folder: &Path, with: impl FnOnce(&Path) -> io::Result<R>) -> io::Result<R> {
    let path = folder.join(SOCKET);
    if path.as_os_str().len() <= PATH_MAX {
        return with(&path);
    }
    let folder = File::open(folder)?;
    with(&PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd())))
}

/// The agent's end: the socket in a directory, which is removed when this is dropped.
pub struct RequestListener {
    folder: PathBuf,
    listener: UnixListener,
}

impl RequestListener {
    /// Opens the socket. The caller has the directory's lock: a socket that is there is of an agent that was killed.
    pub fn open(folder: &Path) -> io::Result<RequestListener> {
        match fs::remove_file(folder.join(SOCKET)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = with_address(folder, |address| UnixListener::bind(address))?;
        fs::set_permissions(folder.join(SOCKET), fs::Permissions::from_mode(SOCKET_MODE))?;
        listener.set_nonblocking(true)?;
        Ok(RequestListener { folder: folder.to_owned(), listener })
    }

    pub fn listener(&self) -> &UnixListener {
        &self.listener
    }

    /// The next owner that has connected.
    pub fn accept(&self) -> Option<OwnerRequest> {
        let (connection, _) = self.listener.accept().ok()?;
        connection.set_nonblocking(true).ok()?;
        Some(OwnerRequest { folder: self.folder.clone(), connection, name: Vec::new(), store: None })
    }
}

impl Drop for RequestListener {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.folder.join(SOCKET));
    }
}

/// An owner that asks for its store.
pub struct OwnerRequest {
    folder: PathBuf,
    connection: UnixStream,
    name: Vec<u8>,
    /// Known once the name has arrived.
    pub store: Option<PathBuf>,
}

/// What has arrived from an owner.
pub enum RequestNews {
    Nothing,
    /// It asks for `store`.
    Question,
    /// It has closed the connection, or has sent what is no name.
    End,
}

impl OwnerRequest {
    pub fn connection(&self) -> &UnixStream {
        &self.connection
    }

    pub fn receive(&mut self) -> RequestNews {
        let mut bytes = [0; NAME_MAX + 1];
        match (&self.connection).read(&mut bytes) {
            Ok(0) => RequestNews::End,
            Ok(_) if self.store.is_some() => RequestNews::End,
            Ok(len) => {
                self.name.extend_from_slice(&bytes[..len]);
                match self.name.split_last() {
                    Some((0, name)) if is_name(name) => {
                        self.store = Some(self.folder.join(std::ffi::OsStr::from_bytes(name)));
                        RequestNews::Question
                    }
                    Some((0, _)) => RequestNews::End,
                    _ if self.name.len() > NAME_MAX => RequestNews::End,
                    _ => RequestNews::Nothing,
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                RequestNews::Nothing
            }
            Err(_) => RequestNews::End,
        }
    }

    /// Answers, with whether the store was held. An owner that is gone does not need it.
    pub fn answer(&self, was_held: bool) {
        let _ = (&self.connection).write(&[if was_held { RELEASED } else { NOT_HELD }]);
    }
}

fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name != b"." && name != b".." && !name.contains(&b'/') && !name.contains(&0)
}
