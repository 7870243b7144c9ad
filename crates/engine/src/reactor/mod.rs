//! The I/O thread: it listens, connects and shakes hands, and serves the connections nobody else serves.
//!
//! Others give it [`Command`]s; it alone decides on the life of connections. What it owns are entries, each
//! with a token: listeners, connecters, handshakes, and the poll sets of sockets. Everything it does is
//! non-blocking; host names are resolved on threads of their own.

mod about;
mod asking;
mod beat;
mod closing;
mod connecter;
mod listener;
#[cfg(test)]
pub(crate) mod scripted;
mod session;
mod sharing;
mod stage;
mod supervise;
#[cfg(test)]
mod tests;
mod timers;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pinnace_sys::poll::{Batch, Interest, Poller, Ready};
use pinnace_sys::wake::WakeFd;

use crate::context::Context;
use crate::error::Error;
use crate::hub::Hub;
use crate::link::Link;
use crate::pipe::PipeId;
use crate::transports::Route;
use beat::Beat;
use closing::{Closers, Closing};
pub(crate) use connecter::{Connecter, Ends};
pub(crate) use listener::{Listener, Owner};
use session::Accepted;
pub(crate) use session::Side;
use supervise::Supervised;
use timers::Timers;

/// How often the I/O thread looks at what senders left behind, while messages keep coming.
pub(crate) const WATCH_TICK: Duration = Duration::from_micros(100);
/// The shortest sleep before a timer, so that timers which expire within it share one wake-up.
const TIMER_RESOLUTION: Duration = Duration::from_millis(1);

/// What the I/O thread is asked to do.
pub(crate) enum Command {
    /// A socket has a poll set.
    Enter(Arc<Hub>),
    /// A link that needed no handshake is registered with the I/O thread, or with its socket's poll set.
    Join(Arc<Link>),
    /// Links have more to read than a turn takes.
    ReadOn(Arc<Hub>),
    /// The link with this token looks for room in its memory after the pause.
    TryLater(u64, Duration),
    Listen(Box<Listener>),
    Connect(Box<Connecter>),
    /// Ends a listener or a connecter, with the connections that came of it; they are sent to their end
    /// first.
    End(Arc<Hub>, u64, Option<Duration>),
    /// Ends a connection that was accepted, without waiting for anything.
    EndLink(Arc<Link>),
    /// The connection of a pipe ends once all is written, within so much time; there is no other.
    HangUp(Arc<Hub>, PipeId, Option<Duration>),
    /// A connection is lost.
    LinkDown(Arc<Hub>, PipeId),
    /// A sender leaves messages to be written.
    Watch(Arc<Hub>, PipeId),
    /// A connection's queues may have grown.
    Swollen(Arc<Hub>, PipeId),
    /// Callers watch the socket's connections; look after them.
    Supervise(Arc<Hub>),
    /// There is room again in a context's budget.
    Room(Context),
    /// There is mail for a socket with level-triggered descriptors, or with tasks that wait.
    Look(Arc<Hub>),
    /// A peer has promised to be heard of in time.
    AwaitPeer(Arc<Hub>, PipeId),
    Resolved(u64, Vec<Route>),
    /// The handler of ZAP may have answered about the handshake with this token.
    Answered(u64),
    /// The socket is closed: send what is left, for so long at most, then say so.
    Close(Arc<Hub>, Option<Duration>, Box<dyn FnOnce() + Send>),
    /// The context ends at once: nothing lingers any more.
    Hurry,
    Stop,
}

/// The I/O thread as others see it.
pub(crate) struct Io {
    commands: Mutex<Vec<Command>>,
    /// The I/O thread is going to wait without another look at the commands: the next one wakes it.
    waits: AtomicBool,
    wake: WakeFd,
    poller: Poller,
    next_token: AtomicU64,
    /// Entries and links it has, to find the least busy one.
    pub(crate) load: AtomicUsize,
}

const WAKE_TOKEN: u64 = 0;

impl Io {
    fn new() -> Result<Arc<Io>, Error> {
        let (wake, poller) = (WakeFd::new()?, Poller::new()?);
        poller.add(&wake, WAKE_TOKEN, Interest::READ)?;
        Ok(Arc::new(Io {
            commands: Mutex::default(),
            waits: AtomicBool::new(false),
            wake,
            poller,
            next_token: AtomicU64::new(WAKE_TOKEN + 1),
            load: AtomicUsize::new(0),
        }))
    }

    /// Starts an I/O thread, which does `first` before anything else.
    pub(crate) fn start(
        name: String,
        first: impl FnOnce() + Send + 'static,
    ) -> Result<(Arc<Io>, JoinHandle<()>), Error> {
        let io = Io::new()?;
        let reactor = Reactor::new(io.clone());
        let thread = pinnace_sys::thread::start(&name, move || {
            first();
            reactor.run();
        });
        let thread =
            thread.map_err(|error| Error::System(error.raw_os_error().unwrap_or(Error::NoMemory.errno())))?;
        Ok((io, thread))
    }

    pub(crate) fn send(&self, command: Command) {
        self.commands.lock().push(command);
        if self.waits.swap(false, Ordering::Relaxed) {
            self.wake.signal();
        }
    }

    /// The I/O thread is going to wait. False: there are commands.
    fn begins_wait(&self) -> bool {
        // The lock orders this store: a command that the look below misses is pushed behind the lock, and its sender
        // then reads true and writes the eventfd.
        self.waits.store(true, Ordering::Relaxed);
        self.commands.lock().is_empty()
    }

    fn ends_wait(&self) {
        self.waits.store(false, Ordering::Relaxed);
    }

    pub(crate) fn poller(&self) -> &Poller {
        &self.poller
    }

    /// A token that nothing else has.
    pub(crate) fn token(&self) -> u64 {
        self.next_token.fetch_add(1, Ordering::Relaxed)
    }
}

/// Something with a descriptor or a deadline.
enum Entry {
    Hub(Arc<Hub>),
    Listener(Box<Listener>),
    Accepted(Box<Accepted>),
    Connecter(Box<Connecter>),
    Closing(Box<Closing>),
    Beat(Box<Beat>),
}

struct Reactor {
    io: Arc<Io>,
    entries: HashMap<u64, Entry>,
    /// Established connections, by the tokens that they have here; a socket's poll set may watch them instead.
    links: HashMap<u64, Arc<Link>>,
    closers: Closers,
    timers: Timers,
    supervised: Supervised,
    /// What is closed is not waited for any more.
    hurried: bool,
}

impl Reactor {
    fn new(io: Arc<Io>) -> Reactor {
        let (entries, links) = (HashMap::new(), HashMap::new());
        let (timers, supervised) = (Timers::default(), Supervised::default());
        Reactor { io, entries, links, closers: Closers::new(), timers, supervised, hurried: false }
    }

    fn run(mut self) {
        let mut ready = Batch::new();
        loop {
            let timeout = if self.io.begins_wait() { self.timeout() } else { Some(Duration::ZERO) };
            // Only an interruption can fail it; then there is nothing ready.
            let _ = self.io.poller.wait(&mut ready, timeout);
            self.io.ends_wait();
            // A fault of ours costs what was being done, never the thread that all sockets live on.
            let turn = catch_unwind(AssertUnwindSafe(|| self.turn(&ready)));
            if turn.unwrap_or(false) {
                return;
            }
        }
    }

    /// Does what is to be done now. True: it is to stop.
    fn turn(&mut self, ready: &Batch) -> bool {
        if ready.iter().any(|one| one.token == WAKE_TOKEN) {
            self.io.wake.clear();
        }
        if self.commands() {
            return true;
        }
        for one in ready.iter() {
            self.on_ready(&one);
        }
        let now = Instant::now();
        while let Some(token) = self.timers.due(now) {
            self.on_timer(token, now);
        }
        self.supervised.tick(&self.io, now);
        self.io.load.store(self.entries.len() + self.links.len(), Ordering::Relaxed);
        false
    }

    fn timeout(&mut self) -> Option<Duration> {
        let now = Instant::now();
        let timer = self.timers.next().map(|at| if at > now { at.max(now + TIMER_RESOLUTION) } else { at });
        let next = [timer, self.supervised.next()].into_iter().flatten().min()?;
        Some(next.saturating_duration_since(now))
    }

    /// Does what was asked for. True: it was to stop.
    fn commands(&mut self) -> bool {
        let commands = std::mem::take(&mut *self.io.commands.lock());
        for command in commands {
            match command {
                Command::Stop => return true,
                Command::Enter(hub) => self.enter(hub),
                Command::Join(link) => self.join(&link),
                Command::TryLater(token, pause) => self.timers.set(token, Instant::now() + pause),
                Command::ReadOn(hub) => hub.serve_unread(),
                Command::Listen(listener) => self.listen(listener),
                Command::Connect(connecter) => self.connect(connecter),
                Command::End(hub, token, linger) => self.end(hub, token, linger),
                Command::EndLink(link) => self.end_link(link),
                Command::HangUp(hub, pipe, linger) => self.hang_up(hub, pipe, linger),
                Command::LinkDown(hub, pipe) => self.link_down(&hub, pipe),
                Command::Watch(hub, pipe) => self.supervised.watch(hub, pipe),
                Command::Swollen(hub, pipe) => self.supervised.swollen(&hub, pipe),
                Command::Supervise(hub) => self.supervised.supervise(hub),
                Command::Room(context) => context.tell_of_room(),
                Command::Look(hub) => hub.look(),
                Command::AwaitPeer(hub, pipe) => self.await_peer(&hub, pipe),
                Command::Resolved(token, routes) => self.resolved(token, routes),
                Command::Answered(token) => self.answered(token),
                Command::Close(hub, linger, done) => self.close(hub, linger, done),
                Command::Hurry => self.hurry(),
            }
        }
        false
    }

    fn enter(&mut self, hub: Arc<Hub>) {
        let token = self.io.token();
        if let Some(set) = hub.poll_set()
            && hub.lease.entered(&self.io, set, token).is_ok()
        {
            self.entries.insert(token, Entry::Hub(hub));
        }
    }

    /// A link may be ready from now on.
    fn join(&mut self, link: &Arc<Link>) {
        self.links.insert(link.io_token, link.clone());
    }

    /// A link ends: nobody finds it any more.
    fn leave(&mut self, link: &Link) {
        self.links.remove(&link.io_token);
        link.hub.remove_link(link);
    }

    fn on_ready(&mut self, ready: &Ready) {
        match self.entries.get(&ready.token) {
            None => {
                if let Some(link) = self.links.get(&ready.token) {
                    link.serve(ready);
                    link.hub.serve_unread();
                    link.hub.tell_of_service();
                    self.look_at_closing(ready.token);
                }
            }
            Some(Entry::Hub(hub)) => {
                let hub = hub.clone();
                let mut inner = Batch::new();
                if let Some(set) = hub.poll_set()
                    && set.poller.ready(&mut inner).is_ok()
                {
                    hub.serve(&inner, false);
                }
            }
            Some(Entry::Listener(_)) => self.accept(ready.token),
            Some(Entry::Accepted(_)) => self.accepted_ready(ready.token),
            Some(Entry::Connecter(_)) => self.connecter_ready(ready.token),
            Some(Entry::Closing(_) | Entry::Beat(_)) => {}
        }
    }

    fn on_timer(&mut self, token: u64, now: Instant) {
        match self.entries.get(&token) {
            None => {
                self.links.get(&token).into_iter().for_each(|link| link.try_again());
                self.look_at_closing(token);
            }
            Some(Entry::Hub(_)) => {}
            Some(Entry::Listener(_)) => self.listen_again(token),
            Some(Entry::Accepted(_)) => self.accepted_late(token),
            Some(Entry::Connecter(_)) => self.connecter_timer(token, now),
            Some(Entry::Closing(_)) => self.linger_is_over(token),
            Some(Entry::Beat(_)) => self.beat_timer(token, now),
        }
    }
}
