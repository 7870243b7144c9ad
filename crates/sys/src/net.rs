//! Stream sockets: TCP and Unix domain. All of them are non-blocking.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use rustix::io::{Errno, ioctl_fionread};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};

/// The address of a Unix domain socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnixAddress {
    Path(PathBuf),
    /// A name outside the file system (unix(7)).
    Abstract(Vec<u8>),
}

impl UnixAddress {
    fn address(&self) -> Result<SocketAddrUnix, Errno> {
        match self {
            UnixAddress::Path(path) => SocketAddrUnix::new(path.as_path()),
            UnixAddress::Abstract(name) => SocketAddrUnix::new_abstract_name(name),
        }
    }
}

/// Socket options; None leaves the system's default.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    pub send_buffer: Option<usize>,
    pub recv_buffer: Option<usize>,
    /// IP type of service (ip(7), ipv6(7)).
    pub tos: Option<u8>,
    pub device: Option<String>,
    pub keepalive: Option<bool>,
    pub keepalive_count: Option<u32>,
    pub keepalive_idle_s: Option<u32>,
    pub keepalive_interval_s: Option<u32>,
    /// TCP_USER_TIMEOUT in milliseconds (tcp(7)).
    pub max_retransmit_ms: Option<u32>,
    /// SO_PRIORITY (socket(7)).
    pub priority: Option<u32>,
    /// SO_BUSY_POLL (socket(7)), in microseconds.
    pub busy_poll_us: Option<u32>,
}

const WRITE_FLAGS: net::SendFlags = net::SendFlags::NOSIGNAL.union(net::SendFlags::DONTWAIT);
const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

/// A socket of the address's family.
pub(crate) fn ip_socket(address: &SocketAddr, kind: SocketType, setup: &Setup) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let fd = net::socket_with(family, kind, FLAGS, None)?;
    buffers(&fd, setup)?;
    if let Some(tos) = setup.tos {
        if address.is_ipv4() {
            sockopt::set_ip_tos(&fd, tos)?
        } else {
            sockopt::set_ipv6_tclass(&fd, tos.into())?
        }
    }
    if let Some(device) = &setup.device {
        bind_to_device(&fd, device)?;
    }
    if let Some(priority) = setup.priority {
        set_number(&fd, libc::SO_PRIORITY, priority)?;
    }
    if let Some(us) = setup.busy_poll_us {
        // More than the system allows needs a privilege (EPERM). The option only tunes: ignore a failure.
        let _ = set_number(&fd, libc::SO_BUSY_POLL, us);
    }
    Ok(fd)
}

fn bind_to_device(fd: &OwnedFd, device: &str) -> Result<(), Errno> {
    // SAFETY: the value is a buffer of the length given (socket(7), SO_BINDTODEVICE).
    let result = unsafe {
        let (value, len) = (device.as_ptr().cast(), device.len() as libc::socklen_t);
        libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_BINDTODEVICE, value, len)
    };
    if result == 0 {
        return Ok(());
    }
    Err(crate::last_error())
}

/// Sets a SOL_SOCKET option that is an int.
fn set_number(fd: &OwnedFd, option: libc::c_int, value: u32) -> Result<(), Errno> {
    let value = value as libc::c_int;
    // SAFETY: the value is an int, of the length given.
    let result = unsafe {
        let len = size_of::<libc::c_int>() as libc::socklen_t;
        libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, option, (&raw const value).cast(), len)
    };
    if result == 0 { Ok(()) } else { Err(crate::last_error()) }
}

pub(crate) fn buffers(fd: &OwnedFd, setup: &Setup) -> Result<(), Errno> {
    if let Some(bytes) = setup.send_buffer {
        sockopt::set_socket_send_buffer_size(fd, bytes)?;
    }
    if let Some(bytes) = setup.recv_buffer {
        sockopt::set_socket_recv_buffer_size(fd, bytes)?;
    }
    Ok(())
}

/// Congestion control for connections within the host, which every Linux has and any process may choose (tcp(7)).
/// The system's own may pace, as BBR does: timers for each connection, and nothing is gained where no packet is lost.
const LOCAL_CONGESTION: &str = "reno";

/// Tunes a connected TCP socket for messages: no delay, and keep-alives as configured.
pub fn tune_tcp(fd: &OwnedFd, setup: &Setup) -> Result<(), Errno> {
    sockopt::set_tcp_nodelay(fd, true)?;
    if is_within_host(fd) {
        // It only tunes: ignore a failure.
        let _ = sockopt::set_tcp_congestion(fd, LOCAL_CONGESTION);
    }
    if let Some(on) = setup.keepalive {
        sockopt::set_socket_keepalive(fd, on)?;
        if let Some(count) = setup.keepalive_count {
            sockopt::set_tcp_keepcnt(fd, count)?;
        }
        if let Some(idle) = setup.keepalive_idle_s {
            sockopt::set_tcp_keepidle(fd, Duration::from_secs(idle.into()))?;
        }
        if let Some(interval) = setup.keepalive_interval_s {
            sockopt::set_tcp_keepintvl(fd, Duration::from_secs(interval.into()))?;
        }
    }
    if let Some(ms) = setup.max_retransmit_ms {
        sockopt::set_tcp_user_timeout(fd, ms)?;
    }
    // An accepted socket does not inherit it from the listener.
    if let Some(priority) = setup.priority {
        set_number(fd, libc::SO_PRIORITY, priority)?;
    }
    Ok(())
}

fn is_within_host(fd: &OwnedFd) -> bool {
    match tcp_addresses(fd) {
        (Some(local), Some(peer)) => local.ip() == peer.ip() || peer.ip().to_canonical().is_loopback(),
        _ => false,
    }
}

/// Sets a connected Unix domain socket's buffers, which an accepted one does not inherit from the listener.
pub fn tune_local(fd: &OwnedFd, setup: &Setup) -> Result<(), Errno> {
    buffers(fd, setup)
}

/// A listening TCP socket. `dual`: an IPv6 wildcard also takes IPv4 connections.
pub fn listen_tcp(address: &SocketAddr, dual: bool, backlog: i32, setup: &Setup) -> Result<OwnedFd, Errno> {
    let fd = ip_socket(address, SocketType::STREAM, setup)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&fd, !dual)?;
    }
    sockopt::set_socket_reuseaddr(&fd, true)?;
    net::bind(&fd, address)?;
    net::listen(&fd, backlog)?;
    Ok(fd)
}

/// Starts to connect. The socket becomes writable when that has ended; `connected` then returns the outcome.
pub fn connect_tcp(to: &SocketAddr, from: Option<&SocketAddr>, setup: &Setup) -> Result<OwnedFd, Errno> {
    let fd = ip_socket(to, SocketType::STREAM, setup)?;
    if let Some(from) = from {
        sockopt::set_socket_reuseaddr(&fd, true)?;
        net::bind(&fd, from)?;
    }
    match net::connect(&fd, to) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(fd),
        Err(error) => Err(error),
    }
}

/// The outcome of a connection attempt.
pub fn connected(fd: &OwnedFd) -> Result<(), Errno> {
    sockopt::socket_error(fd)?
}

/// A listening Unix domain socket. A path must not exist.
pub fn listen_local(at: &UnixAddress, backlog: i32, setup: &Setup) -> Result<OwnedFd, Errno> {
    let fd = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None)?;
    buffers(&fd, setup)?;
    net::bind(&fd, &at.address()?)?;
    net::listen(&fd, backlog)?;
    Ok(fd)
}

/// Connects to a Unix domain socket; EAGAIN if its backlog is full.
pub fn connect_local(to: &UnixAddress, setup: &Setup) -> Result<OwnedFd, Errno> {
    let fd = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None)?;
    buffers(&fd, setup)?;
    net::connect(&fd, &to.address()?)?;
    Ok(fd)
}

/// Accepts the next connection; EAGAIN if there is none.
pub fn accept(fd: &impl AsFd) -> Result<OwnedFd, Errno> {
    net::accept_with(fd, FLAGS)
}

/// The socket's own TCP address, and its peer's.
pub fn tcp_addresses(fd: &impl AsFd) -> (Option<SocketAddr>, Option<SocketAddr>) {
    let local = net::getsockname(fd).ok().and_then(|a| SocketAddr::try_from(a).ok());
    let peer = net::getpeername(fd).ok().flatten().and_then(|a| SocketAddr::try_from(a).ok());
    (local, peer)
}

/// The process at the other end of a Unix domain connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// 0 if it has no pid in our namespace.
    pub pid: u32,
    pub uid: u32,
    pub gid: u32,
}

/// The process that made a Unix domain connection (unix(7), SO_PEERCRED); None for a socket of another kind. The pid
/// is 0 if this process cannot see the other one, which is in a sibling or parent namespace.
pub fn peer_process(fd: &impl AsFd) -> Option<Process> {
    // For a socket of another family the kernel returns uid and gid -1 and pid 0, not an error.
    if sockopt::socket_domain(fd).ok()? != AddressFamily::UNIX {
        return None;
    }
    let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    let raw = fd.as_fd().as_raw_fd();
    // SAFETY: room for the structure, and its size. Not by rustix, which assumes that the pid is not 0.
    let outcome = unsafe {
        let at = (&raw mut credentials).cast();
        libc::getsockopt(raw, libc::SOL_SOCKET, libc::SO_PEERCRED, at, &mut len)
    };
    // All bits set: no process, as where there is no connection.
    let is_known = outcome == 0 && credentials.uid != u32::MAX;
    is_known.then_some(Process {
        pid: u32::try_from(credentials.pid).unwrap_or(0),
        uid: credentials.uid,
        gid: credentials.gid,
    })
}

/// The most groups that a process can be in (NGROUPS_MAX, getgroups(2)).
const GROUPS_MAX: usize = 65_536;

/// The supplementary groups of the process that made a Unix domain connection, as of that time (unix(7),
/// SO_PEERGROUPS).
pub fn peer_groups(fd: &impl AsFd) -> Vec<u32> {
    let raw = fd.as_fd().as_raw_fd();
    let mut groups = vec![0_u32; 64];
    loop {
        let mut len = size_of_val(&groups[..]) as libc::socklen_t;
        let at = groups.as_mut_ptr().cast();
        // SAFETY: room for numbers, and its size; the kernel writes no more.
        let outcome = unsafe { libc::getsockopt(raw, libc::SOL_SOCKET, libc::SO_PEERGROUPS, at, &mut len) };
        let count = len as usize / size_of::<u32>();
        if outcome == 0 {
            groups.truncate(count);
            return groups;
        }
        // ERANGE: there are more groups, and `len` says how many.
        if count <= groups.len() || count > GROUPS_MAX {
            return Vec::new();
        }
        groups.resize(count, 0);
    }
}

/// Takes ownership of a listening socket of the caller's. Errors: EBADF and ENOTSOCK if it is no socket, EINVAL if it
/// does not listen.
pub fn adopt_listener(raw: i32) -> Result<OwnedFd, Errno> {
    // SAFETY: the number is used for this call only; one that is not open gives EBADF.
    let borrowed = unsafe { BorrowedFd::borrow_raw(if raw < 0 { return Err(Errno::BADF) } else { raw }) };
    if !sockopt::socket_acceptconn(borrowed)? {
        return Err(Errno::INVAL);
    }
    rustix::io::fcntl_setfd(borrowed, rustix::io::FdFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(borrowed, true)?;
    // SAFETY: it is open, and the caller gives up its ownership.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// The address of a Unix domain socket.
pub fn local_address(fd: &impl AsFd) -> Option<UnixAddress> {
    let address = SocketAddrUnix::try_from(net::getsockname(fd).ok()?).ok()?;
    if let Some(name) = address.abstract_name() {
        return Some(UnixAddress::Abstract(name.to_vec()));
    }
    Some(UnixAddress::Path(PathBuf::from(std::ffi::OsStr::from_bytes(address.path_bytes()?))))
}

/// The round trip time that the kernel estimates for a TCP connection, in microseconds (tcp(7), TCP_INFO).
pub fn tcp_round_trip_us(fd: &impl AsFd) -> Option<u32> {
    let mut info = std::mem::MaybeUninit::<libc::tcp_info>::zeroed();
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, and zeros are valid for what it leaves out.
    let info = unsafe {
        let at = info.as_mut_ptr().cast();
        if libc::getsockopt(fd.as_fd().as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, at, &mut len) != 0 {
            return None;
        }
        info.assume_init()
    };
    Some(info.tcpi_rtt).filter(|&us| us > 0)
}

/// Reads what is available, into both buffers in turn; 0 at the end of the stream, EAGAIN if nothing is available.
#[inline]
pub fn read(fd: &impl AsFd, first: &mut [u8], second: &mut [u8]) -> Result<usize, Errno> {
    loop {
        let outcome = if second.is_empty() {
            net::recv(fd, &mut *first, net::RecvFlags::DONTWAIT).map(|(bytes, _)| bytes)
        } else {
            rustix::io::readv(fd, &mut [IoSliceMut::new(first), IoSliceMut::new(second)])
        };
        match outcome {
            Err(Errno::INTR) => {}
            outcome => return outcome,
        }
    }
}

/// As `read`, plus the last descriptor that the peer has passed along (unix(7), SCM_RIGHTS). Other passed descriptors
/// are closed.
pub fn read_passed(
    fd: &impl AsFd,
    first: &mut [u8],
    second: &mut [u8],
) -> Result<(usize, Option<OwnedFd>), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = net::RecvAncillaryBuffer::new(&mut space);
    let flags = net::RecvFlags::DONTWAIT | net::RecvFlags::CMSG_CLOEXEC;
    loop {
        match net::recvmsg(fd, &mut [IoSliceMut::new(first), IoSliceMut::new(second)], &mut control, flags) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
            Ok(received) => {
                let rights = control.drain().filter_map(|message| match message {
                    net::RecvAncillaryMessage::ScmRights(rights) => rights.last(),
                    _ => None,
                });
                return Ok((received.bytes, rights.last()));
            }
        }
    }
}

/// As `write`, with a descriptor passed along with the first byte.
pub fn write_passing(fd: &impl AsFd, bytes: &[u8], passed: &impl AsFd) -> Result<usize, Errno> {
    let (rights, mut space) = ([passed.as_fd()], [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))]);
    let mut control = net::SendAncillaryBuffer::new(&mut space);
    if !control.push(net::SendAncillaryMessage::ScmRights(&rights)) {
        return Err(Errno::NOBUFS);
    }
    loop {
        match net::sendmsg(fd, &[IoSlice::new(bytes)], &mut control, WRITE_FLAGS) {
            Err(Errno::INTR) => {}
            outcome => return outcome,
        }
    }
}

/// Writes as much as the kernel takes; EAGAIN if that is nothing.
#[inline]
pub fn write(fd: &impl AsFd, slices: &[IoSlice<'_>]) -> Result<usize, Errno> {
    loop {
        let outcome = match slices {
            [one] => net::send(fd, one, WRITE_FLAGS),
            many => net::sendmsg(fd, many, &mut net::SendAncillaryBuffer::default(), WRITE_FLAGS),
        };
        match outcome {
            Err(Errno::INTR) => {}
            outcome => return outcome,
        }
    }
}

/// Shuts down the sending direction. What was written before is still delivered.
pub fn shut_down_writing(fd: &impl AsFd) {
    // A connection that is already gone needs no shutdown.
    let _ = net::shutdown(fd, net::Shutdown::Write);
}

/// Shuts down both directions, without waiting.
pub fn shut_down(fd: &impl AsFd) {
    // As above.
    let _ = net::shutdown(fd, net::Shutdown::Both);
}

/// Bytes that the peer's kernel has not acknowledged (tcp(7), SIOCOUTQ), or that the peer has not read (Unix domain).
pub fn unsent(fd: &impl AsFd) -> usize {
    let mut bytes: libc::c_int = 0;
    // SAFETY: TIOCOUTQ (the same number as SIOCOUTQ) writes one int.
    let result = unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), libc::TIOCOUTQ, &mut bytes) };
    if result == 0 { bytes.max(0) as usize } else { 0 }
}

/// Bytes that are available to read.
pub fn unread(fd: &impl AsFd) -> usize {
    ioctl_fionread(fd).map_or(0, |bytes| bytes as usize)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::{UnixDatagram, UnixStream};

    use super::*;

    #[test]
    fn a_descriptor_is_passed_with_the_first_byte_and_no_more_of_them_than_one() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let null = rustix::fs::memfd_create(c"passed", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let count_open = || {
            let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
            let targets = links.filter_map(|link| std::fs::read_link(link.path()).ok());
            targets.filter(|target| target.to_string_lossy().contains("memfd:passed")).count()
        };
        assert_eq!(write_passing(&ours, b"null", &null), Ok(4));
        let mut bytes = [0; 16];
        let (count, passed) = read_passed(&theirs, &mut bytes, &mut []).unwrap();
        assert_eq!(&bytes[..count], b"null");
        assert_eq!((passed.is_some(), count_open()), (true, 2));
        drop(passed);
        assert_eq!(write(&ours, &[IoSlice::new(b"plain")]), Ok(5));
        let (count, passed) = read_passed(&theirs, &mut bytes, &mut []).unwrap();
        assert!((count, passed.is_none()) == (5, true));
        assert_eq!(read_passed(&theirs, &mut bytes, &mut []).err(), Some(Errno::AGAIN));
        let many = [null.as_fd(), null.as_fd(), null.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut control = net::SendAncillaryBuffer::new(&mut space);
        assert!(control.push(net::SendAncillaryMessage::ScmRights(&many)));
        net::sendmsg(&ours, &[IoSlice::new(b"3")], &mut control, WRITE_FLAGS).unwrap();
        assert!(read_passed(&theirs, &mut bytes, &mut []).unwrap().1.is_some());
        assert_eq!(count_open(), 1);
    }

    #[test]
    fn a_process_is_known_at_the_other_end_of_a_local_connection_alone() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let peer = peer_process(&ours).unwrap();
        assert_eq!((peer.pid, peer.uid), (std::process::id(), rustix::process::getuid().as_raw()));
        let groups: Vec<u32> = rustix::process::getgroups().unwrap().iter().map(|gid| gid.as_raw()).collect();
        assert_eq!(peer_groups(&ours), groups);
        assert_eq!(peer_process(&UnixDatagram::unbound().unwrap()), None, "no connection");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(peer_process(&stream), None);
        assert_eq!(peer_process(&std::fs::File::open("/dev/null").unwrap()), None);
    }

    #[test]
    fn a_connection_within_the_host_does_not_pace() {
        // ::1 may be missing; what is mapped is never.
        for at in ["127.0.0.1:0", "[::1]:0", "[::ffff:127.0.0.1]:0"] {
            let Ok(listener) = TcpListener::bind(at) else { continue };
            let connected = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let accepted = listener.accept().unwrap().0;
            for fd in [OwnedFd::from(connected), OwnedFd::from(accepted)] {
                tune_tcp(&fd, &Setup::default()).unwrap();
                assert_eq!(sockopt::tcp_congestion(&fd).unwrap(), LOCAL_CONGESTION, "{at}");
            }
        }
    }
}
