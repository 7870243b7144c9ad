//! Options that reach the kernel, read back from this process's descriptors; and options that concern descriptors:
//! which peers are accepted, which descriptors are used, how long a connect waits.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};
use std::time::{Duration, Instant};

use libc::c_int;
use support::peer::RawPeer;
use support::*;

const IPV4ONLY: i32 = 31;
const TCP_ACCEPT_FILTER: i32 = 38;
const IPC_FILTER_PID: i32 = 58;
const IPC_FILTER_UID: i32 = 59;
const IPC_FILTER_GID: i32 = 60;
const USE_FD: i32 = 89;
const PRIORITY: i32 = 112;

/// The kernel's value for a descriptor; `None` if it is no socket with this option.
fn kernel_value(fd: RawFd, level: c_int, name: c_int) -> Option<c_int> {
    let (mut value, mut size) = (0 as c_int, 4);
    // SAFETY: an int to write to, and its size.
    let rc = unsafe { libc::getsockopt(fd, level, name, (&raw mut value).cast(), &mut size) };
    (rc == 0).then_some(value)
}

/// The port of one end of a tcp socket over IPv4.
fn port(
    fd: RawFd,
    name: unsafe extern "C" fn(c_int, *mut libc::sockaddr, *mut libc::socklen_t) -> c_int,
) -> Option<u16> {
    // SAFETY: room for an address, and its size.
    unsafe {
        let mut address: libc::sockaddr_in = std::mem::zeroed();
        let mut size = size_of_val(&address) as libc::socklen_t;
        let rc = name(fd, (&raw mut address).cast(), &mut size);
        (rc == 0 && address.sin_family == libc::AF_INET as u16).then(|| u16::from_be(address.sin_port))
    }
}

fn descriptors(condition: impl Fn(RawFd) -> bool) -> Vec<RawFd> {
    let all = std::fs::read_dir("/proc/self/fd").expect("descriptors").flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(|&fd| condition(fd)).collect()
}

fn port_of(endpoint: &str) -> u16 {
    endpoint.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port")
}

/// The descriptors of both ends of a tcp connection that has passed a message.
fn ends(set: impl Fn(&Socket)) -> (Context, [Socket; 2], [RawFd; 2]) {
    let ctx = Context::new();
    let sockets = [ctx.socket(PULL), ctx.socket(PUSH)];
    sockets.iter().for_each(set);
    let at = port_of(&Transport::Tcp.join(&sockets[0], &sockets[1]));
    sockets[1].put("x");
    sockets[0].take();
    let is_listener = |fd| kernel_value(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN) == Some(1);
    let accepted = descriptors(|fd| port(fd, libc::getsockname) == Some(at) && !is_listener(fd));
    let connected = descriptors(|fd| port(fd, libc::getpeername) == Some(at));
    assert_eq!((accepted.len(), connected.len()), (1, 1), "one connection");
    (ctx, sockets, [accepted[0], connected[0]])
}

/// An option of the library and its value, and the kernel option with the value expected there.
type Row = (i32, i32, c_int, c_int, c_int);

#[track_caller]
fn reach_the_kernel(rows: &[Row]) {
    let (_ctx, _sockets, fds) = ends(|socket| {
        rows.iter()
            .for_each(|row| socket.set(row.0, row.1).unwrap_or_else(|e| panic!("option {}: {e:?}", row.0)));
    });
    for fd in fds {
        for (option, _, level, name, expected) in rows {
            assert_eq!(kernel_value(fd, *level, *name), Some(*expected), "option {option}");
        }
    }
}

/// The kernel doubles the sizes (socket(7)).
#[test]
fn buffers_have_their_size() {
    reach_the_kernel(&[
        (SNDBUF, 30_000, libc::SOL_SOCKET, libc::SO_SNDBUF, 60_000),
        (RCVBUF, 20_000, libc::SOL_SOCKET, libc::SO_RCVBUF, 40_000),
    ]);
}

#[test]
fn keepalives_are_as_asked_for() {
    reach_the_kernel(&[
        (TCP_KEEPALIVE, 1, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1),
        (TCP_KEEPALIVE_CNT, 7, libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 7),
        (TCP_KEEPALIVE_IDLE, 70, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, 70),
        (TCP_KEEPALIVE_INTVL, 9, libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, 9),
    ]);
}

#[test]
fn packets_are_marked_and_resent_as_asked_for() {
    reach_the_kernel(&[
        (TOS, 16, libc::IPPROTO_IP, libc::IP_TOS, 16),
        (TCP_MAXRT, 5_000, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, 5_000),
    ]);
}

/// Drafts. Raising SO_BUSY_POLL needs a privilege; without it the connection is made all the same.
#[test]
fn packets_have_a_priority_and_are_polled_for() {
    if !api::exports("zmq_poller_new") {
        return;
    }
    reach_the_kernel(&[(PRIORITY, 5, libc::SOL_SOCKET, libc::SO_PRIORITY, 5)]);
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let wish: c_int = 40;
    // SAFETY: an int and its size.
    let rc = unsafe {
        libc::setsockopt(
            listener.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_BUSY_POLL,
            (&raw const wish).cast(),
            4,
        )
    };
    let expected = if rc == 0 {
        40
    } else {
        kernel_value(listener.as_raw_fd(), libc::SOL_SOCKET, libc::SO_BUSY_POLL).unwrap_or(0)
    };
    reach_the_kernel(&[(BUSY_POLL, 40, libc::SOL_SOCKET, libc::SO_BUSY_POLL, expected)]);
}

#[test]
fn devices_are_bound_to() {
    let (_ctx, _sockets, fds) = ends(|socket| socket.set_bytes(BINDTODEVICE, b"lo\0").expect("BINDTODEVICE"));
    for fd in fds {
        let (mut name, mut size) = ([0u8; libc::IFNAMSIZ], libc::IFNAMSIZ as libc::socklen_t);
        // SAFETY: a buffer of that size.
        let rc = unsafe {
            libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, name.as_mut_ptr().cast(), &mut size)
        };
        assert_eq!((rc, &name[..size as usize]), (0, &b"lo\0"[..]));
    }
}

/// For a listener the kernel reports the backlog in the field for lost segments (tcp(7), TCP_INFO).
#[test]
fn backlogs_are_as_long_as_asked_for() {
    let ctx = Context::new();
    let socket = ctx.socket(PULL).with(BACKLOG, 7);
    let at = port_of(&Transport::Tcp.bind(&socket));
    let listeners = descriptors(|fd| port(fd, libc::getsockname) == Some(at));
    assert_eq!(listeners.len(), 1);
    // SAFETY: room for the structure, and its size.
    let info = unsafe {
        let mut info: libc::tcp_info = std::mem::zeroed();
        let mut size = size_of_val(&info) as libc::socklen_t;
        let rc = libc::getsockopt(
            listeners[0],
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &mut size,
        );
        assert_eq!(rc, 0);
        info
    };
    assert_eq!(info.tcpi_sacked, 7);
}

/// The library uses a listener that the application opened, and does not open one at the same address.
#[test]
fn descriptors_of_ours_are_used() {
    for transport in Transport::WIRES {
        let ctx = Context::new();
        let (endpoint, fd) = match transport {
            Transport::Tcp => {
                let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
                (format!("tcp://{}", listener.local_addr().expect("bound")), listener.into_raw_fd())
            }
            _ => {
                let path = transport::socket_path();
                let listener = std::os::unix::net::UnixListener::bind(&path).expect("bind");
                (format!("ipc://{path}"), listener.into_raw_fd())
            }
        };
        let (pull, push) = (ctx.socket(PULL).with(USE_FD, fd), ctx.socket(PUSH));
        pull.bind(&endpoint).expect("bind");
        assert_eq!(kernel_value(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN), Some(1), "still ours");
        push.connect(&endpoint).expect("connect");
        push.put("x");
        assert_eq!(pull.take_text(), "x");
    }
}

#[test]
fn ipv4only_is_ipv6_turned_round() {
    let ctx = Context::new();
    let socket = ctx.socket(PULL);
    assert_eq!(socket.set(IPV4ONLY, 0), Ok(()));
    assert_eq!(socket.get(IPV6), Ok(1));
    assert_eq!(socket.set(IPV4ONLY, 1), Ok(()));
    assert_eq!(socket.get(IPV6), Ok(0));
}

/// ZMQ_IPV6: wildcards are IPv6 wildcards, which also accept IPv4.
#[test]
fn ipv6_is_spoken_when_asked_for() {
    let ctx = Context::new();
    for (ipv6, wildcard) in [(0, "tcp://0.0.0.0:"), (1, "tcp://[::]:")] {
        let (pull, push) = (ctx.socket(PULL).with(IPV6, ipv6), ctx.socket(PUSH).with(IPV6, ipv6));
        pull.bind("tcp://*:*").expect("bind");
        assert!(pull.endpoint().starts_with(wildcard), "{}", pull.endpoint());
        let host = if ipv6 == 1 { "[::1]" } else { "127.0.0.1" };
        push.connect(&format!("tcp://{host}:{}", port_of(&pull.endpoint()))).expect("connect");
        push.put("x");
        assert_eq!(pull.take_text(), "x");
    }
}

/// A listener with a full backlog does not answer.
#[test]
fn waiting_for_a_connection_ends() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let address: SocketAddr = listener.local_addr().expect("bound");
    // SAFETY: a listening descriptor of ours.
    assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
    let connect = || TcpStream::connect_timeout(&address, Duration::from_millis(150));
    let crowd: Vec<TcpStream> = std::iter::from_fn(|| connect().ok()).take(50).collect();
    assert!(crowd.len() < 50, "there is always room");
    let ctx = Context::new();
    let socket = ctx.socket(PUSH).with(CONNECT_TIMEOUT, 100).with(RECONNECT_IVL, 20);
    let events = EVENT_CONNECT_DELAYED | EVENT_CONNECT_RETRIED | EVENT_CONNECTED;
    let monitor = Monitor::of(&ctx, &socket, events);
    let start = Instant::now();
    socket.connect(&format!("tcp://{address}")).expect("connect");
    for _ in 0..2 {
        assert_eq!(monitor.next().number, EVENT_CONNECT_DELAYED);
        assert_eq!(monitor.next().number, EVENT_CONNECT_RETRIED);
    }
    assert!(start.elapsed() >= Duration::from_millis(180), "twice the limit: {:?}", start.elapsed());
}

#[track_caller]
fn hangs_up(endpoint: &str) {
    assert_eq!(RawPeer::connect(endpoint).expect_end(), b"", "not a byte for strangers");
}

#[track_caller]
fn greets(endpoint: &str) {
    assert_eq!(RawPeer::connect(endpoint).read(1), [0xFF]);
}

#[test]
fn tcp_lets_in_who_is_listed() {
    let ctx = Context::new();
    let socket = ctx.socket(PULL);
    socket.set_bytes(TCP_ACCEPT_FILTER, b"10.0.0.0/8").expect("TCP_ACCEPT_FILTER");
    hangs_up(&Transport::Tcp.bind(&socket));
    socket.set_bytes(TCP_ACCEPT_FILTER, b"127.0.0.0/30").expect("TCP_ACCEPT_FILTER");
    greets(&Transport::Tcp.bind(&socket));
    assert_eq!(socket.set_bytes(TCP_ACCEPT_FILTER, b"127.0.0.0/33"), Err(Errno(libc::EINVAL)));
}

/// A filter that admits other processes, users or groups, and then one more filter that admits ours.
#[track_caller]
fn ipc_lets_in(option: i32, own: u32) {
    let ctx = Context::new();
    let socket = ctx.socket(PULL);
    socket.set_bytes(option, &0x7FFF_FFF0_u32.to_ne_bytes()).expect("a filter");
    hangs_up(&Transport::Ipc.bind(&socket));
    socket.set_bytes(option, &own.to_ne_bytes()).expect("a filter");
    greets(&Transport::Ipc.bind(&socket));
}

#[test]
fn ipc_lets_in_processes_that_are_listed() {
    ipc_lets_in(IPC_FILTER_PID, process::own());
}

#[test]
fn ipc_lets_in_users_that_are_listed() {
    // SAFETY: no arguments.
    ipc_lets_in(IPC_FILTER_UID, unsafe { libc::geteuid() });
}

#[test]
fn ipc_lets_in_groups_that_are_listed() {
    // SAFETY: no arguments.
    ipc_lets_in(IPC_FILTER_GID, unsafe { libc::getegid() });
}
