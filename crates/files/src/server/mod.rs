//! A server of files: one thread that receives, and workers that read files and send.
//!
//! Each client has a session. A session with something to do stands in a queue, and a worker lets it send one chunk;
//! then it goes to the end of the queue. So clients take turns, and a slow disk holds up one worker at most.

mod admission;
mod session;
mod watch;

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pinnace_crypto::{KeyPair, PublicKey, SecretBytes};
use pinnace_engine::{Body, Context, Frame, Outgoing, PollTarget, Socket, SocketType};
use pinnace_eventloop::{Doorbell, EventLoop, Next, Task};

use crate::access::{Access, Credential, Right};
use crate::dialogue::changes::Wake;
use crate::dialogue::mounts::Mounts;
use crate::dialogue::provider::{Outlet, Turn};
use crate::error::Error;
use crate::transfer::filter::PART_AGE;
use crate::tree::disk::DiskFolder;
use crate::wire::Message;
use session::Session;
use watch::Watchers;

/// The most octets of a frame from a client.
const FRAME_MAX: u64 = 2 << 20;
/// The most octets of a client's frames that wait for its session: twice what it may upload at once.
const INBOX_MAX: usize = 32 << 20;
/// Frames that a session handles in one turn.
const FRAMES: usize = 64;
/// The most octets of frames that wait to be written to a client which ignores its own credit.
const UNSENT_MAX: u64 = 128 << 20;
/// How often a session tries again whose connection has no room.
const RETRY: Duration = Duration::from_millis(2);
/// How long a file that is followed may not have been written.
const QUIET: Duration = Duration::from_secs(1);
/// How often folders are listed again that cannot be watched.
const RESCAN: Duration = Duration::from_secs(10);
/// Frames that are received in one turn of the loop.
const TURN: usize = 256;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Settings of a server.
pub struct ServerBuilder {
    mounts: Mounts,
    endpoints: Vec<String>,
    workers: usize,
    quiet: Duration,
    rescan: Duration,
    part_age: Duration,
    high_water_mark: u32,
    access: Access,
}

/// A running server; it ends when this is dropped.
pub struct Server {
    endpoints: Vec<String>,
    core: Arc<Core>,
    workers: Vec<JoinHandle<()>>,
    watchers: Watchers,
    task: Option<pinnace_eventloop::Handle<Receiver>>,
    /// Dropped after the task.
    _events: EventLoop<Receiver>,
    _context: Context,
}

impl ServerBuilder {
    /// Serves a folder of this host below a virtual path such as `/data`. Errors: the folder cannot be opened, or
    /// the path is invalid or has a folder.
    pub fn folder(self, alias: &str, path: &Path) -> Result<ServerBuilder, Error> {
        self.disk_folder(alias, path, false)
    }

    /// As `folder`, and clients may upload to it.
    pub fn writable_folder(self, alias: &str, path: &Path) -> Result<ServerBuilder, Error> {
        self.disk_folder(alias, path, true)
    }

    fn disk_folder(mut self, alias: &str, path: &Path, is_writable: bool) -> Result<ServerBuilder, Error> {
        let folder = DiskFolder::open(path).map(Arc::new);
        let added = folder.and_then(|folder| self.mounts.add(alias.as_bytes(), folder, is_writable));
        added.map_err(|error| Error::File { path: path.display().to_string(), error })?;
        Ok(self)
    }

    /// Listens at an endpoint.
    pub fn bind(mut self, endpoint: &str) -> ServerBuilder {
        self.endpoints.push(endpoint.to_owned());
        self
    }

    /// How many threads read files.
    pub fn workers(mut self, count: usize) -> ServerBuilder {
        self.workers = count.max(1);
        self
    }

    /// Secures all connections by CURVE with these keys. Without `user_by_key`, every client that knows the public key
    /// is admitted.
    pub fn curve(mut self, keys: &KeyPair) -> ServerBuilder {
        self.access.keys = Some(keys.clone());
        self
    }

    /// Admits the user with this CURVE key, and others only if they are added too.
    pub fn user_by_key(mut self, name: &str, key: &PublicKey) -> ServerBuilder {
        self.access.users.push((name.to_owned(), Credential::Key(*key)));
        self
    }

    /// Admits a user with a password (PLAIN: it is sent in clear), and others only if they are added too.
    pub fn user_by_password(mut self, name: &str, password: &str) -> ServerBuilder {
        let password = SecretBytes::from(password.as_bytes());
        self.access.users.push((name.to_owned(), Credential::Password(password)));
        self
    }

    /// Gives a user, or [`ANYBODY`](crate::access::ANYBODY), a right to a virtual path and all below it. Without any
    /// grant every client may do everything; with the first one, nobody has a right that was not granted.
    pub fn grant(mut self, user: &str, path: &str, right: Right) -> ServerBuilder {
        self.access.grant(user, path, right);
        self
    }

    /// Serves only clients that name the same domain, and with extensions of FILEMQ. It protects from mistakes, such as
    /// test data that goes to production, and not from attackers.
    pub fn domain(mut self, name: &str) -> ServerBuilder {
        name.clone_into(&mut self.access.domain);
        self
    }

    /// Clients that follow a path are told of a file when its writer closes it, or when it was not written for this
    /// time [default: 1 s].
    pub fn quiet(mut self, time: Duration) -> ServerBuilder {
        self.quiet = time;
        self
    }

    /// How often everything is listed again for clients that follow a path if the system watches no more directories
    /// [default: 10 s].
    pub fn rescan(mut self, interval: Duration) -> ServerBuilder {
        self.rescan = interval.max(Duration::from_millis(10));
        self
    }

    /// The most frames that wait for each client, in each direction (ZMQ_SNDHWM and ZMQ_RCVHWM) [default: no limit].
    /// Credit limits what is under way; a low mark costs time and loses nothing.
    pub fn high_water_mark(mut self, frames: u32) -> ServerBuilder {
        self.high_water_mark = frames;
        self
    }

    /// How long the parts of uploads that ended early are kept [default: 14 days]. Older ones are removed from the
    /// directories that an upload fills.
    pub fn part_age(mut self, age: Duration) -> ServerBuilder {
        self.part_age = age;
        self
    }

    /// Starts the server. Errors: those of bind; Users, they have keys and passwords, or keys without `curve`.
    pub fn start(self) -> Result<Server, Error> {
        let access = Arc::new(self.access);
        let by = (access.keys.is_some(), access.has_keys(), access.has_passwords());
        if matches!(by, (true, _, true) | (false, true, _)) {
            return Err(Error::Users);
        }
        let context = Context::new()?;
        let events = EventLoop::start("files-server")?;
        let socket = context.socket(SocketType::Router)?;
        socket.configure(|options| {
            options.linger = Some(Duration::ZERO);
            // Credit limits what is under way; these limit peers that ignore it.
            (options.sndhwm, options.rcvhwm) = (self.high_water_mark, self.high_water_mark);
            (options.snd_bytes, options.rcv_bytes) = (UNSENT_MAX, FRAME_MAX);
            options.maxmsgsize = Some(FRAME_MAX);
            (options.router_mandatory, options.router_handover) = (true, true);
            options.heartbeat_ivl = Duration::from_secs(5);
            match &access.keys {
                Some(keys) => options.security.be_curve_server(keys),
                None if access.has_passwords() => options.security.be_plain_server(),
                None => {}
            }
            // The session of a client whose connection is lost ends as if it had taken leave.
            options.disconnect_msg = Some(Message::Kthxbai.to_frame());
        })?;
        if access.keys.is_some() || access.has_passwords() {
            admission::start(&context, access.clone())?;
        }
        let mut endpoints = Vec::new();
        for endpoint in &self.endpoints {
            socket.bind(endpoint)?;
            endpoints.push(socket.last_endpoint()?);
        }
        let slot = events.slot();
        slot.interest().add(PollTarget::Socket(socket), ())?;
        let watchers = Watchers::default();
        let mut mounts = self.mounts;
        mounts.watch(|folder| watchers.changes_of(folder, self.quiet, self.rescan));
        let core = Arc::new_cyclic(|own| Core {
            own: own.clone(),
            socket,
            mounts,
            access,
            part_age: self.part_age,
            sessions: Mutex::default(),
            runnable: Mutex::default(),
            wake: Condvar::new(),
            blocked: Mutex::default(),
            doorbell: slot.doorbell(),
            sent: AtomicU64::new(0),
        });
        let workers = (0..self.workers).map(|number| {
            let core = core.clone();
            let work = move || core.work();
            pinnace_sys::thread::start(&format!("files-{number}"), work)
                .map_err(|_| Error::Socket(pinnace_engine::Error::NoMemory))
        });
        let workers = workers.collect::<Result<Vec<_>, _>>()?;
        let task = Some(slot.run(Receiver { core: core.clone(), retry_at: None }));
        Ok(Server { endpoints, core, workers, watchers, task, _events: events, _context: context })
    }
}

impl Server {
    pub fn builder() -> ServerBuilder {
        let workers = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 16);
        ServerBuilder {
            mounts: Mounts::default(),
            endpoints: Vec::new(),
            workers,
            quiet: QUIET,
            rescan: RESCAN,
            part_age: PART_AGE,
            high_water_mark: 0,
            access: Access::default(),
        }
    }

    /// Where it listens, with the ports that the system chose.
    pub fn endpoints(&self) -> &[String] {
        &self.endpoints
    }

    /// Octets of content that were sent to all clients.
    pub fn sent_bytes(&self) -> u64 {
        self.core.sent.load(Ordering::Relaxed)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task = None;
        lock(&self.core.runnable).is_closing = true;
        self.core.wake.notify_all();
        for worker in self.workers.drain(..) {
            let _ = worker.join();
        }
        self.watchers.stop();
        let _ = self.core.socket.close();
    }
}

/// What the server's threads share.
struct Core {
    own: Weak<Core>,
    socket: Socket,
    mounts: Mounts,
    access: Arc<Access>,
    part_age: Duration,
    /// By the routing id.
    sessions: Mutex<HashMap<Vec<u8>, Arc<Peer>>>,
    runnable: Mutex<Runnable>,
    wake: Condvar,
    /// Sessions whose connection has no room.
    blocked: Mutex<Vec<Arc<Peer>>>,
    doorbell: Arc<Doorbell>,
    /// Octets of content sent to all clients.
    sent: AtomicU64,
}

#[derive(Default)]
struct Runnable {
    queue: VecDeque<Arc<Peer>>,
    is_closing: bool,
}

/// A client with its session. The session's lock is held during its turn, the inbox's never for long.
struct Peer {
    id: Vec<u8>,
    inbox: Mutex<Inbox>,
    session: Mutex<Session>,
}

#[derive(Default)]
struct Inbox {
    frames: VecDeque<Body>,
    bytes: usize,
    /// Frames were dropped: the client has sent more than it may.
    is_overfull: bool,
    /// It stands in the queue, has its turn, or is blocked.
    is_scheduled: bool,
    /// There is something to tell the client since its turn began.
    is_woken: bool,
}

impl Core {
    fn schedule(&self, client: Arc<Peer>) {
        lock(&self.runnable).queue.push_back(client);
        self.wake.notify_one();
    }

    /// A worker's thread.
    fn work(&self) {
        loop {
            let mut runnable = lock(&self.runnable);
            let client = loop {
                if runnable.is_closing {
                    return;
                }
                match runnable.queue.pop_front() {
                    Some(client) => break client,
                    None => runnable = self.wake.wait(runnable).unwrap_or_else(PoisonError::into_inner),
                }
            };
            drop(runnable);
            self.give_turn(client);
        }
    }

    fn give_turn(&self, client: Arc<Peer>) {
        let (frames, is_overfull) = {
            let mut inbox = lock(&client.inbox);
            let count = inbox.frames.len().min(FRAMES);
            let frames: Vec<Body> = inbox.frames.drain(..count).collect();
            inbox.is_woken = false;
            inbox.bytes -= frames.iter().map(|frame| frame.len()).sum::<usize>();
            (frames, inbox.is_overfull)
        };
        let outlet = Connection { socket: self.socket, id: &client.id };
        let turn = {
            let mut session = lock(&client.session);
            frames.iter().for_each(|frame| session.on_frame(frame, &self.mounts));
            if is_overfull {
                session.end("more octets than a client may send at once");
            }
            let turn = session.turn(&outlet);
            self.sent.fetch_add(session.take_sent(), Ordering::Relaxed);
            turn
        };
        match turn {
            // This worker takes the next one of the queue itself, so none has to be woken.
            Some(Turn::More) => lock(&self.runnable).queue.push_back(client),
            Some(Turn::Blocked) => {
                lock(&self.blocked).push(client);
                self.doorbell.ring();
            }
            Some(Turn::Idle) => {
                let mut inbox = lock(&client.inbox);
                inbox.is_scheduled = !inbox.frames.is_empty() || inbox.is_woken;
                if inbox.is_scheduled {
                    drop(inbox);
                    self.schedule(client);
                }
            }
            None => self.end_session(client),
        }
    }

    /// Gives a client a turn when it is called.
    fn waker_of(&self, peer: &Weak<Peer>) -> Wake {
        let (core, peer) = (self.own.clone(), peer.clone());
        Arc::new(move || {
            let (Some(core), Some(peer)) = (core.upgrade(), peer.upgrade()) else { return };
            let mut inbox = lock(&peer.inbox);
            inbox.is_woken = true;
            let was_scheduled = std::mem::replace(&mut inbox.is_scheduled, true);
            drop(inbox);
            if !was_scheduled {
                core.schedule(peer);
            }
        })
    }

    /// Removes a client, unless it has sent more meanwhile: that may be a greeting.
    fn end_session(&self, client: Arc<Peer>) {
        let mut sessions = lock(&self.sessions);
        if lock(&client.inbox).frames.is_empty() {
            sessions.remove(&client.id);
            return;
        }
        drop(sessions);
        self.schedule(client);
    }

    /// `user`: the name of the client's user, if it was admitted by one.
    fn on_frame(&self, id: Vec<u8>, user: Option<&[u8]>, frame: Body) {
        // Held until the frame is in the inbox, so that the session does not end before.
        let mut sessions = lock(&self.sessions);
        let client = sessions.entry(id).or_insert_with_key(|id| {
            Arc::new_cyclic(|peer| {
                let user = user.map(|user| String::from_utf8_lossy(user).into_owned());
                let session = Session::new(self.waker_of(peer), self.access.clone(), user, self.part_age);
                let session = Mutex::new(session);
                Peer { id: id.clone(), inbox: Mutex::default(), session }
            })
        });
        let client = client.clone();
        let mut inbox = lock(&client.inbox);
        match inbox.bytes + frame.len() > INBOX_MAX {
            true => inbox.is_overfull = true,
            false => {
                inbox.bytes += frame.len();
                inbox.frames.push_back(frame);
            }
        }
        let was_scheduled = std::mem::replace(&mut inbox.is_scheduled, true);
        drop((inbox, sessions));
        if !was_scheduled {
            self.schedule(client);
        }
    }
}

/// The way to one client.
struct Connection<'a> {
    socket: Socket,
    id: &'a [u8],
}

impl Outlet for Connection<'_> {
    fn send(&self, frame: Body) -> Result<(), Body> {
        let mut frames = [Outgoing::Bytes(self.id), Outgoing::Body(frame.clone())];
        match self.socket.send_message(&mut frames, false) {
            Err(pinnace_engine::Error::WouldBlock) => Err(frame),
            // A client that is gone needs nothing more; its session ends with the notice of that.
            _ => Ok(()),
        }
    }
}

/// Receives for all sessions.
struct Receiver {
    core: Arc<Core>,
    /// When blocked sessions are scheduled again.
    retry_at: Option<Instant>,
}

impl Task for Receiver {
    type Token = ();
    type Command = ();

    fn on_ready(&mut self, (): ()) {
        for _ in 0..TURN {
            let mut frames: Vec<Body> = Vec::with_capacity(2);
            let received = self.core.socket.recv_message(false, &mut |frame| frames.push(taken(frame)));
            let Ok(received) = received else { return };
            let user = received.about.as_deref().and_then(|about| about.get(admission::USER_ID));
            let mut frames = frames.into_iter();
            if let (Some(id), Some(frame), None) = (frames.next(), frames.next(), frames.next()) {
                self.core.on_frame(id.to_vec(), user, frame);
            }
        }
    }

    fn on_command(&mut self, (): ()) {}

    fn work(&mut self) -> Next {
        if lock(&self.core.blocked).is_empty() {
            return Next::Wait(None);
        }
        let (now, retry_at) = (Instant::now(), *self.retry_at.get_or_insert_with(|| Instant::now() + RETRY));
        if now < retry_at {
            return Next::Wait(Some(retry_at));
        }
        self.retry_at = None;
        let blocked = std::mem::take(&mut *lock(&self.core.blocked));
        blocked.into_iter().for_each(|client| self.core.schedule(client));
        Next::Wait(None)
    }
}

/// The bytes of a frame; those of a large one are not copied.
pub(crate) fn taken(frame: Frame<'_>) -> Body {
    match frame {
        Frame::Body { body, .. } => body.take().unwrap_or_else(|| Vec::new().into()),
        Frame::Bytes { data, .. } => data.to_vec().into(),
    }
}
