//! A server of files: one thread that receives and sends, and workers that read and write files.
//!
//! Each client has a session. A session with something to do stands in a queue, and a worker lets it send one chunk;
//! then it goes to the end of the queue. So clients take turns, and a slow disk holds up one worker at most.

mod builder;
pub(crate) mod session;
mod watch;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pinnace_engine::{Body, Frame, Outgoing};
use pinnace_eventloop::{Doorbell, EventLoop, Next, Task};

use crate::access::Access;
use crate::dialogue::changes::Wake;
use crate::dialogue::mounts::Mounts;
use crate::dialogue::provider::Turn;
use crate::outbox::Outbox;
use crate::sockets::{OwnContext, OwnSocket};
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
/// The most octets of frames that wait to be written to a client, beside those that the kernel has taken. One frame
/// may exceed it.
const UNSENT_MAX: u64 = 1 << 20;
/// When a connection without room is tried again: the first time, and the longest pause after several.
const RETRY: Duration = Duration::from_micros(500);
const RETRY_MAX: Duration = Duration::from_millis(50);
/// Frames that are received, and those that are sent, in one turn of the loop.
const TURN: usize = 256;
const SENT: usize = 16;

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
    /// Dropped last: it ends the socket.
    _context: OwnContext,
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
    }
}

/// What the server's threads share.
struct Core {
    own: Weak<Core>,
    socket: OwnSocket,
    mounts: Mounts,
    access: Arc<Access>,
    part_age: Duration,
    /// By the routing id.
    sessions: Mutex<HashMap<Vec<u8>, Arc<Peer>>>,
    runnable: Mutex<Runnable>,
    wake: Condvar,
    /// Clients with frames to be sent, and the octets of all their frames.
    outgoing: Mutex<Vec<Arc<Peer>>>,
    waiting: Arc<AtomicUsize>,
    /// Clients that are to have a turn at a time.
    later: Mutex<Vec<(Instant, Weak<Peer>)>>,
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
    outbox: Outbox,
}

#[derive(Default)]
struct Inbox {
    frames: VecDeque<Body>,
    bytes: usize,
    /// Frames were dropped: the client has sent more than it may.
    is_overfull: bool,
    /// It stands in the queue, has its turn, or waits for room in its outbox.
    is_scheduled: bool,
    /// There is something to tell the client since its turn began.
    is_woken: bool,
    /// When it is to have a turn because of the time.
    due: Option<Instant>,
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
        let (turn, due) = {
            let mut session = lock(&client.session);
            frames.iter().for_each(|frame| session.on_frame(frame, &self.mounts));
            if is_overfull {
                session.end("more octets than a client may send at once");
            }
            let turn = session.turn(&client.outbox);
            self.sent.fetch_add(session.take_sent(), Ordering::Relaxed);
            (turn, session.due())
        };
        self.send_for(&client);
        match turn {
            // This worker takes the next one of the queue itself, so none has to be woken.
            Some(Turn::More) => lock(&self.runnable).queue.push_back(client),
            // It is scheduled when its outbox has room.
            Some(Turn::Blocked) => {}
            Some(Turn::Idle) => {
                let mut inbox = lock(&client.inbox);
                if let Some(at) = due.filter(|at| inbox.due.is_none_or(|known| *at < known)) {
                    inbox.due = Some(at);
                    lock(&self.later).push((at, Arc::downgrade(&client)));
                    self.doorbell.ring();
                }
                inbox.is_scheduled = !inbox.frames.is_empty() || inbox.is_woken;
                if inbox.is_scheduled {
                    drop(inbox);
                    self.schedule(client);
                }
            }
            None => self.end_session(client),
        }
    }

    /// Has the frames sent that a session has made.
    fn send_for(&self, client: &Arc<Peer>) {
        if client.outbox.is_to_be_told() {
            lock(&self.outgoing).push(client.clone());
            self.doorbell.ring();
        }
    }

    /// Gives a client a turn when it is called.
    fn waker_of(&self, peer: &Weak<Peer>) -> Wake {
        let (core, peer) = (self.own.clone(), peer.clone());
        Arc::new(move || {
            if let (Some(core), Some(peer)) = (core.upgrade(), peer.upgrade()) {
                core.wake_session(peer, false);
            }
        })
    }

    /// Has a client given a turn. `is_due`: because of the time.
    fn wake_session(&self, peer: Arc<Peer>, is_due: bool) {
        let mut inbox = lock(&peer.inbox);
        if is_due {
            inbox.due = None;
        }
        inbox.is_woken = true;
        let was_scheduled = std::mem::replace(&mut inbox.is_scheduled, true);
        drop(inbox);
        if !was_scheduled {
            self.schedule(peer);
        }
    }

    /// Removes a client, unless it has sent more meanwhile: that may be a greeting.
    fn end_session(&self, client: Arc<Peer>) {
        let mut sessions = lock(&self.sessions);
        if lock(&client.inbox).frames.is_empty() {
            if sessions.get(&client.id).is_some_and(|known| Arc::ptr_eq(known, &client)) {
                sessions.remove(&client.id);
            }
            return;
        }
        drop(sessions);
        self.schedule(client);
    }

    fn refuse_own_id(&self, id: &[u8]) {
        let reason = Message::Srsly { reason: b"users have no routing ids of their own" };
        // Without room the client learns nothing, and is not served either.
        let _ = self.send(id, &reason.to_frame().into());
    }

    /// False: the connection has no room.
    fn send(&self, id: &[u8], frame: &Body) -> bool {
        let mut frames = [Outgoing::Bytes(id), Outgoing::Body(frame.clone())];
        // A client that is gone needs nothing more; its session ends with the notice of that.
        !matches!(self.socket.send_message(&mut frames, false), Err(pinnace_engine::Error::WouldBlock))
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
                let outbox = Outbox::one_of(&self.waiting);
                Peer { id: id.clone(), inbox: Mutex::default(), session, outbox }
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

/// Receives and sends for all sessions.
struct Receiver {
    core: Arc<Core>,
    /// Clients with frames to be sent, which take turns.
    outgoing: VecDeque<Sending>,
    /// Clients that wait for a time; the number tells those of the same time apart.
    later: BTreeMap<(Instant, u64), Later>,
    last_later: u64,
}

enum Later {
    /// Its connection has no room; it is tried again.
    Send(Sending),
    /// Its session is to have a turn.
    Turn(Weak<Peer>),
}

/// A client to send to, and the pause if its connection has no room.
struct Sending {
    client: Arc<Peer>,
    pause: Duration,
}

impl Receiver {
    fn new(core: Arc<Core>) -> Receiver {
        let (outgoing, later, last_later) = Default::default();
        Receiver { core, outgoing, later, last_later }
    }

    fn put_off(&mut self, until: Instant, what: Later) {
        self.last_later += 1;
        self.later.insert((until, self.last_later), what);
    }

    /// Sends the next frame of a client.
    fn send_next(&mut self, Sending { client, pause }: Sending) {
        let Some(frame) = client.outbox.pop() else { return };
        if !self.core.send(&client.id, &frame) {
            client.outbox.put_back(frame);
            let next = Sending { client, pause: (2 * pause).min(RETRY_MAX) };
            return self.put_off(Instant::now() + pause, Later::Send(next));
        }
        if client.outbox.is_freed() {
            self.core.schedule(client.clone());
        }
        self.outgoing.push_back(Sending { client, pause: RETRY });
    }

    /// Handles those whose time has come.
    fn on_due(&mut self) {
        let later = std::mem::take(&mut *lock(&self.core.later));
        later.into_iter().for_each(|(at, peer)| self.put_off(at, Later::Turn(peer)));
        if self.later.is_empty() {
            return;
        }
        let now = Instant::now();
        while let Some(due) = self.later.first_entry().filter(|due| due.key().0 <= now) {
            match due.remove() {
                Later::Send(sending) => self.outgoing.push_back(sending),
                Later::Turn(peer) => {
                    peer.upgrade().into_iter().for_each(|peer| self.core.wake_session(peer, true))
                }
            }
        }
    }
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
        let told = std::mem::take(&mut *lock(&self.core.outgoing));
        self.outgoing.extend(told.into_iter().map(|client| Sending { client, pause: RETRY }));
        self.on_due();
        for _ in 0..SENT {
            let Some(client) = self.outgoing.pop_front() else { break };
            self.send_next(client);
        }
        match self.outgoing.is_empty() {
            true => Next::Wait(self.later.keys().next().map(|(at, _)| *at)),
            false => Next::Now,
        }
    }
}

/// The bytes of a frame; those of a large one are not copied.
pub(crate) fn taken(frame: Frame<'_>) -> Body {
    match frame {
        Frame::Body { body, .. } => body.take().unwrap_or_else(|| Vec::new().into()),
        Frame::Bytes { data, .. } => data.to_vec().into(),
    }
}
