//! `pinnace forward`: each TCP connection gets a socket; its lines become messages, and messages become its lines.
//!
//! One thread per connection waits for both sides and buffers little: one line that the socket has no room for, one
//! answer that the client has not read. Lines of a connection stay in order. After a signal nothing more is read,
//! and the lines already read are delivered within `--linger`. Lines that are not delivered, then or earlier, are
//! counted and change the exit code, except those that a publisher drops by its pattern.

mod connection;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use pinnace::{Interest, PollItem, Reason, SocketType};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::losses;
use crate::outcome::{Failure, Outcome, both, say};
use crate::settings;
use crate::signals::Signals;
use crate::sockets::{self, Context, Socket, readable};
use crate::table::Forward;
use connection::Connection;

/// State shared by all connections.
struct Shared<'a> {
    given: &'a Forward,
    context: Context,
    socket_type: SocketType,
    /// The socket shared by all connections, if it is bound.
    bound: Option<Socket>,
    signals: Signals,
    live: AtomicUsize,
    lines_in: AtomicU64,
    lines_out: AtomicU64,
    /// Lines that were read but not accepted by a socket.
    lines_left: AtomicU64,
    /// The deadline for delivering lines at the end.
    delivery_deadline: OnceLock<Option<Instant>>,
    /// A connection that ends writes a byte here. If the buffer is full, the reader has enough bytes to wake up.
    ended: UnixStream,
}

pub fn run(given: &Forward) -> Outcome {
    let socket_type = sockets::type_of(&given.socket_type)?;
    if given.bind && !matches!(socket_type, SocketType::Push | SocketType::Pub) {
        return Err(Failure::usage(
            "--bind applies only to push and pub: answers could not be matched to a connection",
        ));
    }
    if !given.subscribe.is_empty() && socket_type != SocketType::Sub {
        return Err(Failure::usage("--subscribe applies only to sub"));
    }
    let signals = Signals::new(false)?;
    let failed = |error| Failure::of(&given.listen, error);
    // An unresolvable host name is a usage error; a port in use is not.
    let addresses = given.listen.to_socket_addrs();
    let addresses: Vec<_> =
        addresses.map_err(|error| Failure::usage(format!("{}: {error}", given.listen)))?.collect();
    let listener = TcpListener::bind(&addresses[..]).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let (ended, told) = UnixStream::pair().map_err(failed)?;
    for end in [&ended, &told] {
        end.set_nonblocking(true).map_err(failed)?;
    }
    raise_descriptors();
    let context = settings::context_for(&given.socket, &given.endpoints, Some(given.connections))?;
    let mut shared = Shared {
        given,
        context,
        socket_type,
        bound: None,
        signals,
        live: AtomicUsize::new(0),
        lines_in: AtomicU64::new(0),
        lines_out: AtomicU64::new(0),
        lines_left: AtomicU64::new(0),
        delivery_deadline: OnceLock::new(),
        ended,
    };
    // Report wrong options and endpoints now, not at the first connection.
    match given.bind {
        true => shared.bound = Some(shared.socket()?),
        false => shared.check()?,
    }
    say(format!("listening on {}", listener.local_addr().map_err(failed)?));
    let outcome = shared.accept_all(&listener, &told);
    if let Some(socket) = shared.bound.take() {
        settings::print_stats(&given.socket, &[("forward", &socket)]);
        socket.close(true);
    }
    let left = shared.end()?;
    let (lines_in, lines_out) = (shared.lines_in.into_inner(), shared.lines_out.into_inner());
    say(format!("{lines_in} lines forwarded, {lines_out} returned"));
    let outcome = match outcome {
        Err(Failure::Signal(_)) => Ok(()),
        outcome => outcome,
    };
    let delivered = match left {
        0 => Ok(()),
        left => Err(Failure::Failed(format!("lines not delivered: {left}"))),
    };
    both(outcome, delivered)
}

/// Raises the descriptor limit to the hard limit: a connection takes several descriptors, and clients must not be
/// cut off before `--connections` is reached.
fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    // On failure the limit stays as it is.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

impl Shared<'_> {
    /// A socket with its options, neither bound nor connected.
    fn unattached(&self) -> Outcome<Socket> {
        let socket = settings::socket(&self.context, self.socket_type, &self.given.socket)?;
        settings::set(&socket, "linger", self.given.linger.as_millis().to_string().as_bytes())?;
        if self.socket_type == SocketType::Sub {
            settings::subscribe(&socket, &self.given.subscribe)?;
        }
        Ok(socket)
    }

    /// Validates the socket's options and endpoints without connecting: a peer would send to a trial connection,
    /// and those messages would be lost.
    fn check(&self) -> Outcome {
        let socket = self.unattached()?;
        self.given.endpoints.iter().try_for_each(|endpoint| settings::check(&socket, endpoint))
    }

    /// A socket with its options, bound or connected.
    fn socket(&self) -> Outcome<Socket> {
        let socket = self.unattached()?;
        let told = self.given.socket.verbose || self.given.bind;
        for endpoint in &self.given.endpoints {
            settings::attach(&socket, endpoint, self.given.bind, told)?;
        }
        Ok(socket)
    }

    /// The deadline for delivering lines; the first call fixes it.
    fn delivery_deadline(&self) -> Option<Instant> {
        *self.delivery_deadline.get_or_init(|| sockets::deadline(Some(self.given.linger)))
    }

    /// Waits until the sockets have sent everything, or until the deadline. Returns the number of lost lines.
    fn end(&self) -> Outcome<u64> {
        let left = loop {
            let time = self.delivery_deadline().map(|until| until.saturating_duration_since(Instant::now()));
            match self.context.inner().terminate_within(time) {
                Err(pinnace::Error::Interrupted) => {}
                left => break left.map_err(|error| Failure::Failed(error.to_string()))?,
            }
        };
        let unsent = match losses::publishes(self.socket_type) {
            // Messages left for a subscriber that disconnects are not lost for anyone.
            true => left.lost.of(Reason::Expired),
            false => left.messages,
        };
        Ok(unsent + self.lines_left.load(Ordering::Relaxed))
    }

    /// Accepts connections until a signal comes, then waits for the open ones.
    fn accept_all(&self, listener: &TcpListener, told: &UnixStream) -> Outcome {
        thread::scope(|scope| {
            loop {
                let is_full = self.live.load(Ordering::Acquire) >= self.given.connections;
                let listening = Interest { readable: !is_full, writable: false };
                let items = vec![PollItem::fd(listener.as_fd(), listening), readable(told.as_fd())];
                sockets::wait(items, &self.signals, None)?;
                let mut rest = [0; 256];
                while matches!((&*told).read(&mut rest), Ok(len) if len > 0) {}
                if is_full {
                    continue;
                }
                let stream = match listener.accept() {
                    Ok((stream, _)) => stream,
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
                    Err(error) => {
                        // Out of descriptors, or the client is already gone; retry after a pause.
                        say(format!("cannot accept a connection: {error}"));
                        sockets::pause(&self.signals, std::time::Duration::from_millis(50))?;
                        continue;
                    }
                };
                self.live.fetch_add(1, Ordering::AcqRel);
                let served = pinnace_sys::thread::start_scoped(scope, "", || self.serve(stream));
                if let Err(error) = served {
                    say(format!("cannot accept a connection: {error}"));
                    self.live.fetch_sub(1, Ordering::AcqRel);
                }
            }
        })
    }

    /// Serves one connection until it ends.
    fn serve(&self, stream: TcpStream) {
        let peer = stream.peer_addr().map_or_else(|_| "a client".to_owned(), |peer| peer.to_string());
        if let Some(why) = self.run_until_done(stream, &peer).err().and_then(Failure::into_text) {
            say(format!("{peer}: {why}"));
        }
        self.live.fetch_sub(1, Ordering::AcqRel);
        let _ = (&self.ended).write(&[0]);
    }

    fn run_until_done(&self, stream: TcpStream, peer: &str) -> Outcome {
        if let Some(socket) = &self.bound {
            return self.pass_on(stream, socket);
        }
        let socket = self.socket()?;
        let outcome = self.pass_on(stream, &socket);
        let drained = socket.drain(&self.signals, Some(self.given.linger));
        settings::print_stats(&self.given.socket, &[(peer, &socket)]);
        socket.close(true);
        outcome.and(drained)
    }

    fn pass_on(&self, stream: TcpStream, socket: &Socket) -> Outcome {
        let mut connection = Connection::new(stream, socket, self)?;
        let outcome = connection.run();
        self.lines_in.fetch_add(connection.lines_sent, Ordering::Relaxed);
        self.lines_out.fetch_add(connection.messages_received, Ordering::Relaxed);
        self.lines_left.fetch_add(connection.left(), Ordering::Relaxed);
        outcome
    }
}
