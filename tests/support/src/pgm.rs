//! Raw PGM packets over UDP (RFC 3208): built by hand for a receiver, and captured from a sender. All over the
//! loopback interface.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd};
use std::time::Duration;

use crate::PATIENCE_MS;

/// PGM's packet type for original data, not repairs.
const ODATA: u8 = 4;
const HEADER: usize = 16;
/// The multicast group of all tests; their ports differ.
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 192, 71, 1);

/// A port for the n-th test of this process, and its endpoint.
pub fn endpoint(n: u16) -> (u16, String) {
    let port = 20_000 + (std::process::id() % 1_200) as u16 * 32 + n;
    (port, format!("epgm://127.0.0.1;{GROUP}:{port}"))
}

/// A captured data packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overheard {
    pub number: u32,
    pub data: Vec<u8>,
    /// Size of the packet, including the headers of PGM, UDP and IP.
    pub size: usize,
}

/// A kernel socket that has joined the group.
pub struct Wire {
    socket: UdpSocket,
    to: SocketAddrV4,
}

impl Wire {
    /// Receives what is sent to this port, alongside other receivers, and can send.
    pub fn new(port: u16) -> Wire {
        // SAFETY: creates a socket, owned by the result.
        let socket = unsafe {
            let fd = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
            assert!(fd >= 0, "{}", io::Error::last_os_error());
            UdpSocket::from_raw_fd(fd)
        };
        for option in [libc::SO_REUSEADDR, libc::SO_REUSEPORT] {
            set(&socket, libc::SOL_SOCKET, option, &1_i32);
        }
        let lo = Ipv4Addr::LOCALHOST;
        let to = SocketAddrV4::new(GROUP, port);
        bind(&socket, to);
        socket.join_multicast_v4(&GROUP, &lo).expect("joined");
        set(&socket, libc::IPPROTO_IP, libc::IP_MULTICAST_IF, &u32::from_ne_bytes(lo.octets()));
        set(&socket, libc::IPPROTO_IP, libc::IP_MULTICAST_LOOP, &0_i32);
        socket.set_read_timeout(Some(Duration::from_millis(PATIENCE_MS as u64))).expect("a timeout");
        Wire { socket, to }
    }

    /// The next data packet; skips all others.
    pub fn overhear(&self) -> Overheard {
        let mut buffer = [0; 65_536];
        loop {
            let (size, _) = self.socket.recv_from(&mut buffer).expect("a packet");
            let packet = &buffer[..size];
            if packet.get(4) == Some(&ODATA) {
                let number = u32::from_be_bytes(packet[HEADER..HEADER + 4].try_into().expect("four"));
                // 20 bytes of IP header and 8 of UDP header.
                return Overheard { number, data: packet[HEADER + 8..].to_vec(), size: size + 28 };
            }
        }
    }

    /// Sends a datagram as it is.
    pub fn send(&self, datagram: &[u8]) {
        self.socket.send_to(datagram, self.to).expect("sent");
    }

    /// Sends a data packet with this sequence number, of this sender.
    pub fn send_data(&self, sender: u32, number: u32, data: &[u8]) {
        let port = self.to.port().to_be_bytes();
        let mut packet = [&[7, 7], &port[..], &[ODATA, 0, 0, 0]].concat();
        packet.extend_from_slice(&sender.to_be_bytes());
        packet.extend_from_slice(&[9, 9]);
        packet.extend_from_slice(&(data.len() as u16).to_be_bytes());
        packet.extend_from_slice(&number.to_be_bytes());
        packet.extend_from_slice(&number.to_be_bytes()); // Trailing edge of the window: nothing older can be repaired.
        packet.extend_from_slice(data);
        let sum = checksum(&packet).to_be_bytes();
        packet[6..8].copy_from_slice(&sum);
        self.send(&packet);
    }
}

/// The Internet checksum (RFC 1071); PGM reserves 0 for "none".
fn checksum(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0));
    let mut sum: u64 = bytes.chunks(2).map(word).sum();
    while sum >> 16 > 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    match !(sum as u16) {
        0 => 0xffff,
        sum => sum,
    }
}

fn set<T>(socket: &UdpSocket, level: i32, option: i32, value: &T) {
    // SAFETY: a value and its size.
    let rc = unsafe {
        let size = size_of::<T>() as libc::socklen_t;
        libc::setsockopt(socket.as_raw_fd(), level, option, std::ptr::from_ref(value).cast(), size)
    };
    assert_eq!(rc, 0, "{level} {option}: {}", io::Error::last_os_error());
}

fn bind(socket: &UdpSocket, at: SocketAddrV4) {
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: at.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(at.ip().octets()) },
        sin_zero: [0; 8],
    };
    // SAFETY: an address and its size.
    let rc = unsafe {
        let size = size_of_val(&address) as libc::socklen_t;
        libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size)
    };
    assert_eq!(rc, 0, "bind: {}", io::Error::last_os_error());
}
