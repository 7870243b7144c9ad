//! Endpoints of each transport, unique in this process and unlikely to clash with other processes'.

use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{Context, Socket};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    Tcp,
    Ipc,
    Inproc,
    Ws,
}

fn next() -> usize {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    COUNT.fetch_add(1, Ordering::Relaxed)
}

/// This process's directory for socket files and the like, removed at normal exit. A child's directory is inside its
/// parent's.
pub fn scratch() -> &'static PathBuf {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let parent = std::env::var_os(crate::child::SCRATCH).map(PathBuf::from);
        let path = parent.unwrap_or_else(std::env::temp_dir).join(format!("pt-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a temporary directory");
        extern "C" fn remove() {
            if scratch().ends_with(format!("pt-{}", std::process::id())) {
                let _ = std::fs::remove_dir_all(scratch());
            }
        }
        // SAFETY: a function without arguments, run at exit; in a forked child it does nothing.
        unsafe { libc::atexit(remove) };
        path
    })
}

/// A fresh path for a socket file.
pub fn socket_path() -> String {
    scratch().join(format!("{}.sock", next())).to_string_lossy().into_owned()
}

/// An unused tcp port on a loopback address of this process's own, so the kernel cannot assign it to a process that
/// binds a wildcard port on 127.0.0.1.
pub fn free_tcp() -> String {
    let id = std::process::id();
    let address = format!("127.{}.{}.{}", 1 + (id >> 14 & 0x7f), id >> 7 & 0x7f, 1 + (id & 0x7f));
    let probe = TcpListener::bind((address.as_str(), 0)).expect("a free port");
    format!("{address}:{}", probe.local_addr().expect("bound").port())
}

impl Transport {
    pub const ALL: [Transport; 4] = [Transport::Tcp, Transport::Ipc, Transport::Inproc, Transport::Ws];
    /// The transports of raw-byte peers.
    pub const WIRES: [Transport; 2] = [Transport::Tcp, Transport::Ipc];

    /// For a child's arguments: see [`Transport::named`].
    pub fn name(self) -> &'static str {
        match self {
            Transport::Tcp => "tcp",
            Transport::Ipc => "ipc",
            Transport::Inproc => "inproc",
            Transport::Ws => "ws",
        }
    }

    #[track_caller]
    pub fn named(name: &str) -> Transport {
        *Transport::ALL.iter().find(|transport| transport.name() == name).expect("a transport's name")
    }

    /// An endpoint to bind; may contain a wildcard, so ask the socket for the actual endpoint.
    pub fn wildcard(self) -> String {
        match self {
            Transport::Tcp => "tcp://127.0.0.1:*".into(),
            Transport::Ws => "ws://127.0.0.1:*/here".into(),
            _ => self.fresh(),
        }
    }

    /// An endpoint known before it is bound.
    pub fn fresh(self) -> String {
        match self {
            Transport::Tcp => format!("tcp://{}", free_tcp()),
            Transport::Ipc => format!("ipc://{}", socket_path()),
            Transport::Inproc => format!("inproc://here-{}", next()),
            Transport::Ws => format!("ws://{}/here", free_tcp()),
        }
    }

    /// Binds the socket; returns the actual endpoint.
    #[track_caller]
    pub fn bind(self, socket: &Socket) -> String {
        let endpoint = self.wildcard();
        socket.bind(&endpoint).unwrap_or_else(|e| panic!("bind {endpoint}: {e:?}"));
        socket.endpoint()
    }

    /// Binds the first and connects the second to it; returns the endpoint.
    #[track_caller]
    pub fn join(self, binder: &Socket, connecter: &Socket) -> String {
        let endpoint = self.bind(binder);
        connecter.connect(&endpoint).unwrap_or_else(|e| panic!("connect {endpoint}: {e:?}"));
        endpoint
    }

    /// Two sockets of these kinds, the first bound and the second connected.
    #[track_caller]
    pub fn pair(self, ctx: &Context, binder: i32, connecter: i32) -> (Socket, Socket) {
        let sockets = (ctx.socket(binder), ctx.socket(connecter));
        self.join(&sockets.0, &sockets.1);
        sockets
    }
}
