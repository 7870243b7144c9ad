//! Kernel socket options, read back from the kernel after they are set.

use std::net::UdpSocket;

use libc::{IPPROTO_IP, IPPROTO_TCP, SOL_SOCKET, c_int};
use support::*;

/// The descriptors of this process that are sockets with this local port.
fn sockets_at(port: u16) -> Vec<c_int> {
    let open = std::fs::read_dir("/proc/self/fd").expect("procfs").flatten();
    let numbers = open.filter_map(|entry| entry.file_name().to_str()?.parse::<c_int>().ok());
    numbers.filter(|&fd| port_of(fd) == Some(port)).collect()
}

fn port_of(fd: c_int) -> Option<u16> {
    // SAFETY: a structure of ours and its size.
    unsafe {
        let mut address: libc::sockaddr_in = std::mem::zeroed();
        let mut size = size_of_val(&address) as libc::socklen_t;
        let rc = libc::getsockname(fd, (&raw mut address).cast(), &mut size);
        (rc == 0 && address.sin_family == libc::AF_INET as u16).then(|| u16::from_be(address.sin_port))
    }
}

fn option(fd: c_int, level: c_int, name: c_int) -> c_int {
    let (mut value, mut size): (c_int, libc::socklen_t) = (0, 4);
    // SAFETY: an int and its size.
    let rc = unsafe { libc::getsockopt(fd, level, name, (&raw mut value).cast(), &mut size) };
    assert_eq!(rc, 0, "getsockopt {level} {name}");
    value
}

fn device(fd: c_int) -> String {
    let (mut name, mut size) = ([0u8; 16], 16 as libc::socklen_t);
    // SAFETY: a buffer and its size.
    let rc = unsafe {
        libc::getsockopt(fd, SOL_SOCKET, libc::SO_BINDTODEVICE, name.as_mut_ptr().cast(), &mut size)
    };
    assert_eq!(rc, 0, "SO_BINDTODEVICE");
    String::from_utf8_lossy(&name[..size as usize]).trim_end_matches('\0').to_owned()
}

fn port(endpoint: &str) -> u16 {
    endpoint.trim_end_matches('/').rsplit(':').next().and_then(|text| text.parse().ok()).expect("a port")
}

/// The listener and its accepted connection have this local port: at least two sockets.
#[test]
fn tcp_has_what_was_set() {
    for scheme in ["tcp", "ws", "tls+tcp", "wss"] {
        let ctx = Context::new();
        let tuned = |kind: i32| {
            let socket = ctx.socket(kind).secured().with(SNDBUF, 50_000).with(RCVBUF, 60_000).with(TOS, 0x28);
            let socket =
                socket.with(TCP_KEEPALIVE, 1).with(TCP_KEEPALIVE_CNT, 4).with(TCP_KEEPALIVE_IDLE, 77);
            socket.with(TCP_KEEPALIVE_INTVL, 9).with(TCP_MAXRT, 12_345).with(PRIORITY, 3)
        };
        let (pull, push) = (tuned(PULL), tuned(PUSH));
        pull.bind(&format!("{scheme}://127.0.0.1:*")).expect("bind");
        push.connect(&pull.endpoint()).expect("connect");
        push.put("connected");
        pull.take();
        let sockets = sockets_at(port(&pull.endpoint()));
        assert!(sockets.len() >= 2, "{scheme}: a listener and a connection");
        for fd in sockets {
            // The kernel doubles the requested size.
            assert_eq!(option(fd, SOL_SOCKET, libc::SO_SNDBUF), 100_000, "{scheme}");
            assert_eq!(option(fd, SOL_SOCKET, libc::SO_RCVBUF), 120_000, "{scheme}");
            if option(fd, SOL_SOCKET, libc::SO_ACCEPTCONN) != 0 {
                assert_eq!(option(fd, IPPROTO_IP, libc::IP_TOS), 0x28, "{scheme}");
                assert_eq!(option(fd, SOL_SOCKET, libc::SO_PRIORITY), 3, "{scheme}");
                continue;
            }
            assert_eq!(option(fd, SOL_SOCKET, libc::SO_KEEPALIVE), 1, "{scheme}");
            for (name, value) in [
                (libc::TCP_KEEPCNT, 4),
                (libc::TCP_KEEPIDLE, 77),
                (libc::TCP_KEEPINTVL, 9),
                (libc::TCP_USER_TIMEOUT, 12_345),
                (libc::TCP_NODELAY, 1),
            ] {
                assert_eq!(option(fd, IPPROTO_TCP, name), value, "{scheme} {name}");
            }
        }
    }
}

#[test]
fn udp_has_what_was_set() {
    let ctx = Context::new();
    let free = UdpSocket::bind("0.0.0.0:0").and_then(|probe| probe.local_addr()).expect("a port").port();
    let dgram = ctx.socket(DGRAM).with(MULTICAST_HOPS, 7).with(MULTICAST_LOOP, 0).with(TOS, 0x20);
    dgram.bind(&format!("udp://lo;239.17.0.3:{free}")).expect("bind");
    let sockets = sockets_at(free);
    assert_eq!(sockets.len(), 1);
    assert_eq!(option(sockets[0], IPPROTO_IP, libc::IP_MULTICAST_TTL), 7);
    assert_eq!(option(sockets[0], IPPROTO_IP, libc::IP_MULTICAST_LOOP), 0);
    assert_eq!(option(sockets[0], IPPROTO_IP, libc::IP_TOS), 0x20);
}

/// Binding to a device may need a privilege; without it the bind fails with an error.
#[test]
fn sockets_stay_on_their_device() {
    let ctx = Context::new();
    for (kind, scheme) in [(PULL, "tcp"), (PULL, "ws"), (DGRAM, "udp")] {
        let socket = ctx.socket(kind);
        socket.set_bytes(BINDTODEVICE, b"lo").expect("BINDTODEVICE");
        match socket.bind(&format!("{scheme}://127.0.0.1:*")) {
            Ok(()) => assert!(
                sockets_at(port(&socket.endpoint())).into_iter().all(|fd| device(fd) == "lo"),
                "{scheme}"
            ),
            Err(error) => assert_eq!(error, Errno(libc::EPERM), "{scheme}"),
        }
        let socket = ctx.socket(kind);
        socket.set_bytes(BINDTODEVICE, b"no-such-device").expect("BINDTODEVICE");
        let failed = socket.bind(&format!("{scheme}://127.0.0.1:*"));
        assert!(
            [Err(Errno(libc::ENODEV)), Err(Errno(libc::EPERM))].contains(&failed),
            "{scheme}: {failed:?}"
        );
    }
}
