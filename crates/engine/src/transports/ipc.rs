//! ipc:// (zmq_ipc(7)): local sockets, at a path or under an abstract name.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use pinnace_sys::net::{self, UnixAddress};
use pinnace_sys::{Errno, OwnedFd};

use super::listening::Listening;
use super::setup;
use crate::endpoint::IpcEndpoint;
use crate::error::{Error, Invalid};
use crate::options::Options;

/// Attempts to find a free name for `*`.
const WILDCARD_TRIES: u32 = 100;

pub(super) fn local(endpoint: &IpcEndpoint) -> Result<UnixAddress, Error> {
    match endpoint {
        IpcEndpoint::Path(path) => Ok(UnixAddress::Path(PathBuf::from(path))),
        IpcEndpoint::Abstract(name) => Ok(UnixAddress::Abstract(name.clone().into_bytes())),
        IpcEndpoint::Any => Err(Error::Invalid(Invalid::Address)),
    }
}

/// The file of a socket that was bound here.
pub(super) struct SocketFile {
    /// Absolute, without symbolic links in its directory: neither chdir(2) nor a changed link redirects it.
    path: PathBuf,
    /// Device and inode. The inode number is not reused while the socket is open.
    id: (u64, u64),
}

impl SocketFile {
    /// The file that was just bound at `path`. None: it is gone already.
    fn new(path: PathBuf) -> Option<SocketFile> {
        Some(SocketFile { id: file_id(&path)?, path })
    }

    /// Removes the file, unless another server has taken over the path.
    pub(super) fn remove(&self) {
        if file_id(&self.path) == Some(self.id) {
            // Another process may have removed it since.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Device and inode of the file at `path`, which may be a symbolic link.
fn file_id(path: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

/// The path with the symbolic links of its directory resolved; the last component stays as it is.
fn resolve(path: &Path) -> Option<PathBuf> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Some(directory.canonicalize().ok()?.join(path.file_name()?))
}

/// Listens; returns the endpoint, and the file to remove at the end.
pub(super) fn listen(
    endpoint: &IpcEndpoint,
    options: &Options,
) -> Result<(Listening, String, Option<SocketFile>), Error> {
    if options.use_fd >= 0 {
        return adopt(options.use_fd);
    }
    match endpoint {
        IpcEndpoint::Any => listen_anywhere(options),
        IpcEndpoint::Abstract(name) => {
            let fd = net::listen_local(&local(endpoint)?, options.backlog, &setup(options))?;
            Ok((Listening::Opened(fd), format!("ipc://@{name}"), None))
        }
        IpcEndpoint::Path(path) => {
            let at = Path::new(path);
            let (fd, file) = match listen_at(at, options) {
                // Replace any file, as libzmq does: one that a dead process left is no obstacle.
                Err(Errno::ADDRINUSE) => {
                    let _ = fs::remove_file(at);
                    listen_at(at, options)
                }
                outcome => outcome,
            }?;
            Ok((Listening::Opened(fd), format!("ipc://{path}"), file))
        }
    }
}

/// Adopts a descriptor that listens already (ZMQ_USE_FD). Its path is not ours to remove.
fn adopt(raw: i32) -> Result<(Listening, String, Option<SocketFile>), Error> {
    let (fd, at) = Listening::adopt(raw, net::local_address)?;
    let at = match at {
        UnixAddress::Path(path) => format!("ipc://{}", path.display()),
        UnixAddress::Abstract(name) => format!("ipc://@{}", String::from_utf8_lossy(&name)),
    };
    Ok((fd, at, None))
}

/// Binds the path as it is given: made absolute, a relative path may exceed the size of an address.
fn listen_at(path: &Path, options: &Options) -> Result<(OwnedFd, Option<SocketFile>), Errno> {
    // Resolved before the bind, because another thread may change the directory.
    let resolved = resolve(path);
    let fd = net::listen_local(&UnixAddress::Path(path.to_owned()), options.backlog, &setup(options))?;
    Ok((fd, resolved.and_then(SocketFile::new)))
}

/// `*`: a new path in the directory for temporary files.
fn listen_anywhere(options: &Options) -> Result<(Listening, String, Option<SocketFile>), Error> {
    use std::hash::{BuildHasher, RandomState};
    for attempt in 0..WILDCARD_TRIES {
        let number = RandomState::new().hash_one((std::process::id(), attempt));
        let path = std::env::temp_dir().join(format!("pinnace-{number:016x}"));
        match listen_at(&path, options) {
            Ok((fd, file)) => return Ok((Listening::Opened(fd), format!("ipc://{}", path.display()), file)),
            Err(Errno::ADDRINUSE) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::System(Errno::ADDRINUSE.raw_os_error()))
}
