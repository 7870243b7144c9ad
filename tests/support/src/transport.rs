//! Endpoints of each transport, unique in this process and unlikely to meet those of others.

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

/// A directory of this process for socket files and the like, removed when the process ends in order. A
/// child's lies in its parent's.
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
        // SAFETY: a function without arguments, to run at exit; in a forked child it does nothing.
        unsafe { libc::atexit(remove) };
        path
    })
}

/// A fresh path for a socket file.
pub fn socket_path() -> String {
    scratch().join(format!("{}.sock", next())).to_string_lossy().into_owned()
}

/// A tcp port that nobody uses, on a loopback address of this process's own: others that ask for a wildcard
/// port on 127.0.0.1 cannot be given it.
pub fn free_tcp() -> String {
    let id = std::process::id();
    let address = format!("127.{}.{}.{}", 1 + (id >> 14 & 0x7f), id >> 7 & 0x7f, 1 + (id & 0x7f));
    let probe = TcpListener::bind((address.as_str(), 0)).expect("a free port");
    format!("{address}:{}", probe.local_addr().expect("bound").port())
}

impl Transport {
    pub const ALL: [Transport; 4] = [Transport::Tcp, Transport::Ipc, Transport::Inproc, Transport::Ws];
    /// Those over which peers of raw bytes speak.
    pub const WIRES: [Transport; 2] = [Transport::Tcp, Transport::Ipc];

    /// For the arguments of a child: see [`Transport::named`].
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

    /// An endpoint to bind that the library may complete: ask the socket for the result.
    pub fn wildcard(self) -> String {
        match self {
            Transport::Tcp => "tcp://127.0.0.1:*".into(),
            Transport::Ws => "ws://127.0.0.1:*/here".into(),
            _ => self.fresh(),
        }
    }

    /// An endpoint that is known before anybody binds it.
    pub fn fresh(self) -> String {
        match self {
            Transport::Tcp => format!("tcp://{}", free_tcp()),
            Transport::Ipc => format!("ipc://{}", socket_path()),
            Transport::Inproc => format!("inproc://here-{}", next()),
            Transport::Ws => format!("ws://{}/here", free_tcp()),
        }
    }

    /// Binds the socket and returns where.
    #[track_caller]
    pub fn bind(self, socket: &Socket) -> String {
        let endpoint = self.wildcard();
        socket.bind(&endpoint).unwrap_or_else(|e| panic!("bind {endpoint}: {e:?}"));
        socket.endpoint()
    }

    /// Binds the first, connects the second to it; returns the endpoint.
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
