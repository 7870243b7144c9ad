//! Peers that speak raw bytes: each test spells out what it sends and expects.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use crate::deadline::PATIENCE_MS;
use crate::poll::fd_readable;
use crate::{Context, RECONNECT_IVL, Socket, Transport, transport, wire};

/// A frame of ZMTP 2 or 3 as received; `LONG` is removed from the flags.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame {
    pub flags: u8,
    pub body: Vec<u8>,
}

trait Stream: Read + Write + AsRawFd + Send {
    fn hang_up(&self);
}

impl Stream for TcpStream {
    fn hang_up(&self) {
        let _ = self.shutdown(Shutdown::Write);
    }
}

impl Stream for UnixStream {
    fn hang_up(&self) {
        let _ = self.shutdown(Shutdown::Write);
    }
}

pub struct RawPeer {
    stream: Box<dyn Stream>,
}

pub enum RawListener {
    Tcp(TcpListener),
    Ipc(UnixListener, String),
}

impl RawListener {
    /// Listens where a library can connect: tcp or ipc.
    pub fn bind(transport: Transport) -> RawListener {
        match transport {
            Transport::Tcp => RawListener::Tcp(TcpListener::bind("127.0.0.1:0").expect("bind")),
            _ => {
                let path = transport::socket_path();
                RawListener::Ipc(UnixListener::bind(&path).expect("bind"), path)
            }
        }
    }

    pub fn endpoint(&self) -> String {
        match self {
            RawListener::Tcp(listener) => format!("tcp://{}", listener.local_addr().expect("bound")),
            RawListener::Ipc(_, path) => format!("ipc://{path}"),
        }
    }

    #[track_caller]
    pub fn accept(&self) -> RawPeer {
        assert!(self.knocked(PATIENCE_MS), "nobody connects");
        match self {
            RawListener::Tcp(listener) => RawPeer::of_tcp(listener.accept().expect("accept").0),
            RawListener::Ipc(listener, _) => RawPeer::of_unix(listener.accept().expect("accept").0),
        }
    }

    /// Returns true if a peer connects within the time.
    pub fn knocked(&self, timeout_ms: i32) -> bool {
        let fd = match self {
            RawListener::Tcp(listener) => listener.as_raw_fd(),
            RawListener::Ipc(listener, _) => listener.as_raw_fd(),
        };
        fd_readable(fd, timeout_ms)
    }
}

impl RawPeer {
    fn of_tcp(stream: TcpStream) -> RawPeer {
        stream.set_nodelay(true).expect("nodelay");
        let patience = Some(Duration::from_millis(PATIENCE_MS as u64));
        stream.set_read_timeout(patience).expect("a timeout");
        stream.set_write_timeout(patience).expect("a timeout");
        RawPeer { stream: Box::new(stream) }
    }

    fn of_unix(stream: UnixStream) -> RawPeer {
        let patience = Some(Duration::from_millis(PATIENCE_MS as u64));
        stream.set_read_timeout(patience).expect("a timeout");
        stream.set_write_timeout(patience).expect("a timeout");
        RawPeer { stream: Box::new(stream) }
    }

    /// Connects to an endpoint of the library: `tcp://` or `ipc://` with a path.
    #[track_caller]
    pub fn connect(endpoint: &str) -> RawPeer {
        RawPeer::try_connect(endpoint).unwrap_or_else(|error| panic!("connect {endpoint}: {error}"))
    }

    pub fn try_connect(endpoint: &str) -> std::io::Result<RawPeer> {
        match endpoint.split_once("://") {
            Some(("tcp", address)) => Ok(RawPeer::of_tcp(TcpStream::connect(address)?)),
            Some(("ipc", path)) => Ok(RawPeer::of_unix(UnixStream::connect(path)?)),
            _ => panic!("no endpoint for raw bytes: {endpoint}"),
        }
    }

    #[track_caller]
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the library reads");
    }

    /// Sends the bytes; fails if the library hangs up.
    pub fn try_send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// From now on, a write that the library does not read fails after this time.
    pub fn give_up_writing_after_ms(&self, limit_ms: u64) {
        let limit = libc::timeval {
            tv_sec: (limit_ms / 1000) as libc::time_t,
            tv_usec: (limit_ms % 1000 * 1000) as libc::suseconds_t,
        };
        // SAFETY: passes a structure of ours and its size.
        let rc = unsafe {
            libc::setsockopt(
                self.fd(),
                libc::SOL_SOCKET,
                libc::SO_SNDTIMEO,
                (&raw const limit).cast(),
                size_of_val(&limit) as libc::socklen_t,
            )
        };
        assert_eq!(rc, 0, "SO_SNDTIMEO");
    }

    #[track_caller]
    pub fn read(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        if let Err(error) = self.stream.read_exact(&mut bytes) {
            panic!("{count} bytes do not come: {error}");
        }
        bytes
    }

    #[track_caller]
    pub fn expect(&mut self, bytes: &[u8]) {
        let got = self.read(bytes.len());
        assert!(got == bytes, "expected {bytes:02x?}\n     got {got:02x?}");
    }

    #[track_caller]
    pub fn read_frame(&mut self) -> Frame {
        let flags = self.read(1)[0];
        let size = if flags & wire::LONG != 0 {
            u64::from_be_bytes(self.read(8).try_into().expect("8 bytes"))
        } else {
            self.read(1)[0] as u64
        };
        assert!(size < 1 << 30, "a frame of {size} bytes");
        Frame { flags: flags & !wire::LONG, body: self.read(size as usize) }
    }

    /// The body of the next message, of one part; skips commands before it.
    #[track_caller]
    pub fn read_message(&mut self) -> Vec<u8> {
        loop {
            let frame = self.read_frame();
            if frame.flags & wire::COMMAND == 0 {
                assert_eq!(frame.flags, 0, "a message of one part");
                return frame.body;
            }
        }
    }

    /// Greets as ZMTP 3 with NULL, exchanges READY as a socket of this type; returns the library's READY.
    #[track_caller]
    pub fn handshake(&mut self, minor: u8, socket_type: &str) -> Frame {
        self.send(&wire::greeting(minor, "NULL", false));
        self.read(64);
        self.send(&wire::ready(socket_type));
        self.read_frame()
    }

    /// Reads until the library hangs up, and returns all that it sent before.
    #[track_caller]
    pub fn expect_end(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return rest,
                Ok(count) => rest.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return rest,
                Err(error) => panic!("the library does not hang up: {error}"),
            }
        }
    }

    /// Returns true if bytes or end of file arrive within the time.
    pub fn stirs(&self, timeout_ms: i32) -> bool {
        fd_readable(self.stream.as_raw_fd(), timeout_ms)
    }

    /// Shuts down the sending side; still reads.
    pub fn hang_up(&self) {
        self.stream.hang_up();
    }

    pub fn fd(&self) -> i32 {
        self.stream.as_raw_fd()
    }
}

/// The two ways in which a library and a raw peer connect.
pub const MEETINGS: [Meeting; 2] = [Meeting::LibraryBinds, Meeting::LibraryConnects];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Meeting {
    LibraryBinds,
    LibraryConnects,
}

/// Runs `test` with a socket of this type and a raw peer, once for each [`Meeting`]; the socket does not reconnect.
pub fn each_way(transport: Transport, kind: i32, test: impl Fn(&Socket, RawPeer)) {
    for meeting in MEETINGS {
        let ctx = Context::new();
        let socket = ctx.socket(kind).with(RECONNECT_IVL, -1);
        let peer = meeting.arrange(transport, &socket);
        test(&socket, peer);
    }
}

impl Meeting {
    /// Connects the socket and a raw peer; nothing has been sent yet.
    #[track_caller]
    pub fn arrange(self, transport: Transport, socket: &Socket) -> RawPeer {
        match self {
            Meeting::LibraryBinds => RawPeer::connect(&transport.bind(socket)),
            Meeting::LibraryConnects => {
                let listener = RawListener::bind(transport);
                socket.connect(&listener.endpoint()).expect("connect");
                listener.accept()
            }
        }
    }
}
