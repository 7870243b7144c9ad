//! The transports: each opens descriptors for listening or for connecting, as an endpoint describes.

mod families;
mod ipc;
mod layers;
mod listening;
mod pgm;
mod resolver;
mod tcp;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
mod tls;
mod udp;

use pinnace_sys::families::Address;
use pinnace_sys::net::{self, Setup, UnixAddress};
use pinnace_sys::{AsFd, BorrowedFd, Errno, OwnedFd};

use crate::endpoint::{Endpoint, EndpointPair, TcpEndpoint};
use crate::error::{Error, Invalid};
use crate::options::Options;
pub use families::{kernel_has_tipc, kernel_has_vsock};
use ipc::SocketFile;
pub(crate) use layers::{Layers, Web, WebSide};
use listening::Listening;
pub use pgm::has_pgm;
pub(crate) use pgm::open as open_pgm;
pub(crate) use resolver::Resolver;
pub(crate) use tcp::{Remote, Route};
pub(crate) use tls::{Connection, TlsError};
pub(crate) use udp::Udp;

/// A listening descriptor, and the endpoint that reaches it.
pub(crate) struct Bound {
    fd: Listening,
    /// As a peer would connect to it: wildcards are filled in.
    pub(crate) endpoint: String,
    /// Socket file to remove at the end.
    file: Option<SocketFile>,
    /// The layers of accepted connections between their descriptor and ZMTP.
    pub(crate) layers: Layers,
}

/// Where a connecter dials, and the layers of its connection.
pub(crate) struct Target {
    pub(crate) to: To,
    pub(crate) layers: Layers,
}

/// Where a connecter dials.
pub(crate) enum To {
    Local(UnixAddress),
    Remote(Remote),
    Family(Address),
}

impl Bound {
    /// Listens at an endpoint other than inproc, udp and pgm. Resolving a host name may block for long.
    pub(crate) fn new(endpoint: &Endpoint, options: &Options) -> Result<Bound, Error> {
        let layers = Layers::of_server(endpoint, options)?;
        let (fd, at, file) = match endpoint {
            Endpoint::Tcp(tcp) | Endpoint::Tls(tcp) => {
                let (fd, at) = tcp::listen(tcp, options)?;
                (fd, format!("{}://{at}", endpoint.transport()), None)
            }
            Endpoint::Web(web) => {
                let (fd, at) = tcp::listen(&web.at, options)?;
                (fd, format!("{}://{at}{}", endpoint.transport(), web.path), None)
            }
            Endpoint::Ipc(ipc) => ipc::listen(ipc, options)?,
            Endpoint::Family(family) => {
                let (fd, at) = families::listen(family, options)?;
                (Listening::Opened(fd), format!("{}://{at}", endpoint.transport()), None)
            }
            Endpoint::Inproc(_) | Endpoint::Udp(_) | Endpoint::Pgm(_) => {
                return Err(Error::Invalid(Invalid::Address));
            }
        };
        Ok(Bound { fd, endpoint: at, file, layers })
    }

    /// True if it listens on a descriptor of the application (ZMQ_USE_FD).
    pub(crate) fn is_adopted(&self) -> bool {
        matches!(self.fd, Listening::Adopted(_))
    }

    /// Undoes it when the bind fails: the application keeps its own descriptor.
    pub(crate) fn abandon(self) {
        match self.fd {
            Listening::Adopted(adopted) => adopted.give_back(),
            Listening::Opened(_) => self.stop(),
        }
    }

    /// Stops listening at once, so that the endpoint is free for others.
    pub(crate) fn stop(&self) {
        net::shut_down(&self.fd);
        if let Some(file) = &self.file {
            file.remove();
        }
    }
}

impl AsFd for Bound {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Target {
    /// For an endpoint other than inproc, udp and pgm. Nothing is looked up yet.
    pub(crate) fn new(endpoint: &Endpoint, options: &Options) -> Result<Target, Error> {
        let layers = Layers::of_client(endpoint, options)?;
        match endpoint {
            Endpoint::Tcp(tcp) | Endpoint::Tls(tcp) => Target::remote(tcp, layers, options),
            Endpoint::Web(web) => Target::remote(&web.at, layers, options),
            Endpoint::Family(family) => Ok(Target { to: To::Family(families::target(family)?), layers }),
            Endpoint::Ipc(ipc) => Ok(Target { to: To::Local(ipc::local(ipc)?), layers }),
            Endpoint::Inproc(_) | Endpoint::Udp(_) | Endpoint::Pgm(_) => {
                Err(Error::Invalid(Invalid::Address))
            }
        }
    }

    /// Over TCP, through a proxy if one is set.
    fn remote(endpoint: &TcpEndpoint, mut layers: Layers, options: &Options) -> Result<Target, Error> {
        let remote = match layers::proxy(endpoint, options)? {
            Some((proxy, target, credentials)) => {
                layers.proxy = Some(Box::new((target, credentials)));
                Remote::new(&proxy)
            }
            None => Remote::new(endpoint),
        };
        Ok(Target { to: To::Remote(remote), layers })
    }
}

/// The options that sockets are set up with.
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
        priority: given(options.priority).filter(|&priority| priority > 0),
        busy_poll_us: given(options.busy_poll_us).filter(|&us| us > 0),
    }
}

/// SO_SNDBUF of local connections in bytes, unless ZMQ_SNDBUF sets it. The kernel's default of 208 KiB holds less
/// than two of our writes, so that both sides would alternate between sleeping and waking. The kernel caps this
/// value at net.core.wmem_max (socket(7)).
const LOCAL_SEND_BUFFER: usize = 1 << 20;

/// True if the address and process filters admit a connection.
pub(crate) fn admits(fd: &OwnedFd, options: &Options) -> bool {
    let filters = &options.filters;
    if let Some(address) = net::tcp_addresses(fd).1 {
        return filters.admits_address(address.ip());
    }
    if !filters.has_processes() {
        return true;
    }
    net::peer_process(fd).is_some_and(|process| filters.admits_process(&process, || net::peer_groups(fd)))
}

/// The address of a connection's peer, as in ZAP (RFC 27) and message properties: the IP address without the port,
/// or "localhost:uid:gid:pid" of a local process; empty if unknown.
pub(crate) fn peer_address(fd: &impl AsFd) -> String {
    if let Some(address) = net::tcp_addresses(fd).1 {
        return address.ip().to_canonical().to_string();
    }
    match net::peer_process(fd) {
        Some(process) => format!("localhost:{}:{}:{}", process.uid, process.gid, process.pid),
        None => String::new(),
    }
}

/// Both ends of a connection of `endpoint`, as the kernel reports them, except that a dialed endpoint stays as the
/// user wrote it. The connecting end of a local connection has no name.
pub(crate) fn ends(fd: &impl AsFd, endpoint: &str, accepted: bool) -> EndpointPair {
    let (scheme, address) = endpoint.split_once("://").unwrap_or_default();
    let path = address.find('/').map_or("", |at| &address[at..]);
    let (local, remote) = match net::tcp_addresses(fd) {
        (None, None) if accepted => (endpoint.to_owned(), format!("{scheme}://")),
        (None, None) => (format!("{scheme}://"), String::new()),
        (local, remote) => {
            let text = |address: Option<_>| address.map_or(String::new(), |at| format!("{scheme}://{at}"));
            (text(local) + path, text(remote))
        }
    };
    EndpointPair { local, remote: if accepted { remote } else { endpoint.to_owned() }, accepted }
}

/// Sets the socket options of a new connection.
pub(crate) fn tune(fd: &OwnedFd, endpoint: &str, options: &Options) -> Result<(), Errno> {
    let mut setup = setup(options);
    if endpoint.starts_with("vsock://") || endpoint.starts_with("tipc://") {
        return Ok(());
    }
    if !endpoint.starts_with("ipc://") {
        return net::tune_tcp(fd, &setup);
    }
    setup.send_buffer.get_or_insert(LOCAL_SEND_BUFFER);
    net::tune_local(fd, &setup)
}
