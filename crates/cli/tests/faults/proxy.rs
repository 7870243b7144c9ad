//! A proxy between clients and a server, which counts what passes in each direction, holds it back from some byte on,
//! and cuts connections.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use crate::process::AGAIN;
use crate::support::deadline;

const BUFFER: u64 = 16 << 10;

/// A direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// To the server.
    Up,
    /// To the client.
    Down,
}

#[derive(Default)]
struct State {
    /// The bytes that were passed on, by direction.
    passed: [u64; 2],
    /// How many bytes may be passed on.
    limit: [u64; 2],
    /// Bytes that a thread may pass on, and reads.
    reserved: [u64; 2],
    /// How often the connections were cut: threads of earlier ones end.
    cuts: u64,
    connections: Vec<(TcpStream, UnixStream)>,
    /// Connections of the server, of whose end it hears nothing.
    hanging: Vec<UnixStream>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// The proxy. Its threads end with the connections.
pub struct Proxy {
    pub endpoint: String,
    shared: Arc<Shared>,
}

impl Proxy {
    /// In front of a server at an abstract ipc endpoint. At first all bytes pass.
    pub fn new(server: &str) -> Proxy {
        let server = SocketAddr::from_abstract_name(server.strip_prefix("ipc://@").unwrap()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("tcp://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared::default());
        shared.state.lock().unwrap().limit = [u64::MAX; 2];
        let own = shared.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                // The server may be away: then the client's connection ends, and it tries again.
                let Ok(server) = UnixStream::connect_addr(&server) else { continue };
                let _ = client.set_nodelay(true);
                own.connect(&client, &server);
            }
        });
        Proxy { endpoint, shared }
    }

    /// The bytes that were passed on.
    pub fn passed(&self, way: Way) -> u64 {
        self.shared.state.lock().unwrap().passed[way as usize]
    }

    /// Lets so many more bytes pass, and then none. Returns how many have passed then.
    pub fn hold_after(&self, way: Way, bytes: u64) -> u64 {
        let mut state = self.shared.state.lock().unwrap();
        let limit = state.passed[way as usize].saturating_add(bytes);
        state.limit[way as usize] = limit;
        self.shared.changed.notify_all();
        limit
    }

    /// Lets all bytes pass.
    pub fn open(&self, way: Way) {
        self.hold_after(way, u64::MAX);
    }

    /// Waits until so many bytes have passed. False: `is_over` before.
    pub fn reaches(&self, way: Way, passed: u64, is_over: impl Fn() -> bool) -> bool {
        let (deadline, mut state) = (deadline(), self.shared.state.lock().unwrap());
        while state.passed[way as usize] < passed {
            if is_over() {
                return false;
            }
            let passed_now = state.passed[way as usize];
            assert!(Instant::now() < deadline, "{passed_now} bytes of {passed} have passed {way:?}");
            state = self.shared.changed.wait_timeout(state, AGAIN).unwrap().0;
        }
        true
    }

    /// Cuts all connections. What was read and not passed on is lost.
    pub fn cut(&self) {
        self.end(|(client, server), _| {
            client.end();
            server.end();
        });
    }

    /// Cuts all connections, and the server hears nothing of it.
    pub fn hang(&self) {
        self.end(|(client, server), state| {
            client.end();
            state.hanging.push(server);
        });
    }

    fn end(&self, end: impl Fn((TcpStream, UnixStream), &mut State)) {
        let mut state = self.shared.state.lock().unwrap();
        state.cuts += 1;
        for connection in std::mem::take(&mut state.connections) {
            end(connection, &mut state);
        }
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn connect(self: &Arc<Shared>, client: &TcpStream, server: &UnixStream) {
        let mut state = self.state.lock().unwrap();
        let copies = || (client.try_clone().unwrap(), server.try_clone().unwrap());
        state.connections.push(copies());
        let cuts = state.cuts;
        let ((client, to_server), (to_client, server)) = (copies(), copies());
        let (up, down) = (self.clone(), self.clone());
        std::thread::spawn(move || up.pass(Way::Up, cuts, client, to_server));
        std::thread::spawn(move || down.pass(Way::Down, cuts, server, to_client));
    }

    /// Forwards one direction until it ends.
    fn pass(&self, way: Way, cuts: u64, mut from: impl Read + Ends, mut to: impl Write + Ends) {
        let mut buffer = vec![0; BUFFER as usize];
        // Nothing is read that may not pass, so that it waits where it would without the proxy.
        while let Some(most) = self.reserve(way, cuts) {
            let read = from.read(&mut buffer[..most as usize]).unwrap_or(0);
            let written = read > 0 && to.write_all(&buffer[..read]).is_ok();
            let mut state = self.state.lock().unwrap();
            state.reserved[way as usize] -= most;
            state.passed[way as usize] += if written { read as u64 } else { 0 };
            self.changed.notify_all();
            if !written {
                break;
            }
        }
        if self.state.lock().unwrap().cuts == cuts {
            from.end();
            to.end();
        }
    }

    /// Waits until some bytes may pass. None: the connection was cut.
    fn reserve(&self, way: Way, cuts: u64) -> Option<u64> {
        let at = way as usize;
        let room = |state: &State| state.limit[at].saturating_sub(state.passed[at] + state.reserved[at]);
        let waits = |state: &mut State| state.cuts == cuts && room(state) == 0;
        let mut state = self.changed.wait_while(self.state.lock().unwrap(), waits).unwrap();
        if state.cuts != cuts {
            return None;
        }
        let most = BUFFER.min(room(&state));
        state.reserved[at] += most;
        Some(most)
    }
}

/// A connection that both ends may close.
trait Ends {
    fn end(&self);
}

impl Ends for TcpStream {
    fn end(&self) {
        let _ = self.shutdown(Shutdown::Both);
    }
}

impl Ends for UnixStream {
    fn end(&self) {
        let _ = self.shutdown(Shutdown::Both);
    }
}
