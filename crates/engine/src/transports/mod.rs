//! The transports: each makes descriptors, for listening or for connecting, out of what an endpoint says.

pub(crate) mod inproc;
mod ipc;
mod tcp;

use std::path::PathBuf;
use std::sync::Arc;

use pinnace_sys::net::{self, Local, Setup};
use pinnace_sys::{AsFd, BorrowedFd, Errno, OwnedFd};

use crate::endpoint::{Endpoint, IpcEndpoint, TcpEndpoint};
use crate::error::Error;
use crate::options::Options;
pub(crate) use tcp::{Remote, Route};

/// A listening descriptor, and the endpoint that leads to it.
pub(crate) struct Bound {
    fd: OwnedFd,
    /// As a peer would connect to it: wildcards are filled in.
    pub(crate) endpoint: String,
    /// The path to be removed in the end.
    path: Option<PathBuf>,
}

/// Where a connecter dials to.
pub(crate) enum Target {
    Local(Local),
    Remote(Remote),
}

impl Bound {
    /// Listens at an endpoint other than inproc; for a host name the system's resolver is asked.
    pub(crate) fn new(endpoint: &Endpoint, options: &Options) -> Result<Arc<Bound>, Error> {
        let (fd, endpoint, path) = match endpoint {
            Endpoint::Tcp(endpoint) => {
                let (fd, endpoint) = tcp::listen(endpoint, options)?;
                (fd, endpoint, None)
            }
            Endpoint::Ipc(endpoint) => ipc::listen(endpoint, options)?,
            Endpoint::Inproc(_) => return Err(Error::Invalid),
        };
        Ok(Arc::new(Bound { fd, endpoint, path }))
    }

    /// Stops listening at once, so that the endpoint is free for others.
    pub(crate) fn stop(&self) {
        net::shut_down(&self.fd);
        if let Some(path) = &self.path {
            // Somebody may have removed it before us.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl AsFd for Bound {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Target {
    pub(crate) fn tcp(endpoint: &TcpEndpoint) -> Target {
        Target::Remote(Remote::new(endpoint))
    }

    pub(crate) fn ipc(endpoint: &IpcEndpoint) -> Result<Target, Error> {
        ipc::local(endpoint).map(Target::Local)
    }
}

/// What sockets are set up with.
pub(crate) fn setup(options: &Options) -> Setup {
    let given = |value: i32| u32::try_from(value).ok();
    Setup {
        send_buffer: usize::try_from(options.sndbuf).ok().filter(|&bytes| bytes > 0),
        recv_buffer: usize::try_from(options.rcvbuf).ok().filter(|&bytes| bytes > 0),
        tos: u8::try_from(options.tos).ok().filter(|&tos| tos > 0),
        device: Some(options.bind_to_device.clone()).filter(|device| !device.is_empty()),
        keepalive: given(options.tcp_keepalive).map(|on| on != 0),
        keepalive_count: given(options.tcp_keepalive_cnt).filter(|&count| count > 0),
        keepalive_idle_s: given(options.tcp_keepalive_idle).filter(|&seconds| seconds > 0),
        keepalive_interval_s: given(options.tcp_keepalive_intvl).filter(|&seconds| seconds > 0),
        max_retransmit_ms: given(options.tcp_maxrt_ms).filter(|&ms| ms > 0),
    }
}

/// SO_SNDBUF of local connections where ZMQ_SNDBUF leaves it open, in bytes. The kernel's own 208 KiB hold less than
/// two writes of ours, so that both sides would sleep and wake by turns; it caps this at net.core.wmem_max
/// (socket(7)).
const LOCAL_SEND_BUFFER: usize = 1 << 20;

/// Makes a connection fit for messages.
pub(crate) fn tune(fd: &OwnedFd, endpoint: &str, options: &Options) -> Result<(), Errno> {
    let mut setup = setup(options);
    if endpoint.starts_with("tcp://") {
        return net::tune_tcp(fd, &setup);
    }
    setup.send_buffer.get_or_insert(LOCAL_SEND_BUFFER);
    net::tune_local(fd, &setup)
}
