//! ipc:// (zmq_ipc(7)): local sockets, at a path or under an abstract name.

use std::path::{Path, PathBuf};

use pinnace_sys::Errno;
use pinnace_sys::net::{self, Local};

use super::listening::Listening;
use super::setup;
use crate::endpoint::IpcEndpoint;
use crate::error::Error;
use crate::options::Options;

/// Names that `*` tries before it gives up.
const WILDCARD_TRIES: u32 = 100;

pub(super) fn local(endpoint: &IpcEndpoint) -> Result<Local, Error> {
    match endpoint {
        IpcEndpoint::Path(path) => Ok(Local::Path(PathBuf::from(path))),
        IpcEndpoint::Abstract(name) => Ok(Local::Abstract(name.clone().into_bytes())),
        IpcEndpoint::Any => Err(Error::Invalid),
    }
}

/// Listens; returns the endpoint, and the path that has to be removed in the end.
pub(super) fn listen(
    endpoint: &IpcEndpoint,
    options: &Options,
) -> Result<(Listening, String, Option<PathBuf>), Error> {
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
            // libzmq takes over what is there, so that a path left by a dead process is no obstacle.
            if Path::new(path).exists() {
                let _ = std::fs::remove_file(path);
            }
            let fd = net::listen_local(&local(endpoint)?, options.backlog, &setup(options))?;
            Ok((Listening::Opened(fd), format!("ipc://{path}"), Some(PathBuf::from(path))))
        }
    }
}

/// A descriptor that listens already (ZMQ_USE_FD). Its path is not ours to remove.
fn adopt(raw: i32) -> Result<(Listening, String, Option<PathBuf>), Error> {
    let (fd, at) = Listening::adopt(raw, net::local_address)?;
    let at = match at {
        Local::Path(path) => format!("ipc://{}", path.display()),
        Local::Abstract(name) => format!("ipc://@{}", String::from_utf8_lossy(&name)),
    };
    Ok((fd, at, None))
}

/// `*`: a path of our own in the directory for temporary files.
fn listen_anywhere(options: &Options) -> Result<(Listening, String, Option<PathBuf>), Error> {
    use std::hash::{BuildHasher, RandomState};
    for attempt in 0..WILDCARD_TRIES {
        let number = RandomState::new().hash_one((std::process::id(), attempt));
        let path = std::env::temp_dir().join(format!("pinnace-{number:016x}"));
        match net::listen_local(&Local::Path(path.clone()), options.backlog, &setup(options)) {
            Ok(fd) => {
                return Ok((Listening::Opened(fd), format!("ipc://{}", path.display()), Some(path)));
            }
            Err(Errno::ADDRINUSE) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::System(Errno::ADDRINUSE.raw_os_error()))
}
