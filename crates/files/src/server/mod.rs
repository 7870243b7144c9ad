//! A server of files: one thread that receives, and workers that read files and send.
//!
//! Each client has a session. A session with something to do stands in a queue, and a worker lets it send one chunk;
//! then it goes to the end of the queue. So clients take turns, and a slow disk holds up one worker at most.

mod builder;
mod session;
mod watch;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pinnace_engine::{Body, Context, Frame, Outgoing, Socket};
use pinnace_eventloop::{Doorbell, EventLoop, Next, Task};

use crate::access::Access;
use crate::dialogue::changes::Wake;
use crate::dialogue::mounts::Mounts;
use crate::dialogue::provider::{Outlet, Turn};
use crate::wire::Message;
pub use builder::ServerBuilder;
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
/// Frames that are received in one turn of the loop.
const TURN: usize = 256;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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

impl Server {
    pub fn builder() -> ServerBuilder {
        ServerBuilder::new()
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

    fn refuse_own_id(&self, id: &[u8]) {
        let reason = Message::Srsly { reason: b"users have no routing ids of their own" };
        // Without room the client learns nothing, and is not served either.
        let _ = Connection { socket: self.socket, id }.send(reason.to_frame().into());
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
            let property = |name| received.about.as_deref().and_then(|about| about.get(name));
            let user = property("User-Id");
            let mut frames = frames.into_iter();
            if let (Some(id), Some(frame), None) = (frames.next(), frames.next(), frames.next()) {
                // Another user could take over a session by its id.
                if user.is_some() && property("Routing-Id").is_some_and(|own| !own.is_empty()) {
                    self.core.refuse_own_id(&id);
                    continue;
                }
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
