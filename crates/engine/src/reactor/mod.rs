//! The I/O thread: it listens, connects, performs handshakes, and serves the connections that no caller serves.
//!
//! Other threads send it [`Command`]s; it alone creates and ends connections. It owns entries, each with a token:
//! listeners, connecters, handshakes, closings, heartbeats, and the poll sets of sockets. Everything it does is
//! non-blocking; host names are resolved on another thread.

mod about;
mod authorization;
mod backoff;
mod closing;
mod connecter;
mod heartbeat;
mod housekeeping;
mod listener;
#[cfg(test)]
pub(crate) mod scripted;
mod session;
mod sharing;
mod stage;
#[cfg(test)]
mod tests;
mod timers;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pinnace_sys::poll::{Batch, Ready};

use crate::error::Error;
use crate::io::{Command, Io, Listener, WAKE_TOKEN};
use crate::link::Link;
use crate::mailbox::Mailbox;
use closing::{Closers, Closing};
use connecter::Connecter;
use heartbeat::Heartbeat;
use housekeeping::Housekeeping;
use session::Accepted;
use timers::Timers;

/// How often the I/O thread checks for messages that senders left unwritten, while messages keep coming.
pub(crate) const WATCH_TICK: Duration = Duration::from_micros(100);
/// The shortest sleep before a timer, so that timers which expire within it share one wake-up.
const TIMER_RESOLUTION: Duration = Duration::from_millis(1);

/// Something with a descriptor or a deadline.
enum Entry {
    Mailbox(Arc<Mailbox>),
    Listener(Box<Listener>),
    Accepted(Box<Accepted>),
    Connecter(Box<Connecter>),
    Closing(Box<Closing>),
    Heartbeat(Box<Heartbeat>),
}

struct Reactor {
    io: Arc<Io>,
    entries: HashMap<u64, Entry>,
    /// Established connections, by their tokens with this thread; a socket's poll set may watch them instead.
    links: HashMap<u64, Arc<Link>>,
    closers: Closers,
    timers: Timers,
    housekeeping: Housekeeping,
    /// Closed sockets no longer linger.
    linger_ended: bool,
}

/// Starts an I/O thread, which runs `first` before anything else.
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

impl Reactor {
    fn new(io: Arc<Io>) -> Reactor {
        let (entries, links) = (HashMap::new(), HashMap::new());
        let (timers, housekeeping) = (Timers::default(), Housekeeping::default());
        Reactor { io, entries, links, closers: Closers::new(), timers, housekeeping, linger_ended: false }
    }

    fn run(mut self) {
        let mut ready = Batch::new();
        loop {
            let timeout = if self.io.begins_wait() { self.timeout() } else { Some(Duration::ZERO) };
            // Only an interruption can fail it; then nothing is ready.
            let _ = self.io.poller().wait(&mut ready, timeout);
            self.io.ends_wait();
            // A panic costs the current work, but not the thread that all sockets depend on.
            let turn = catch_unwind(AssertUnwindSafe(|| self.turn(&ready)));
            if turn.unwrap_or(false) {
                return;
            }
        }
    }

    /// Runs one turn. True: the thread is to stop.
    fn turn(&mut self, ready: &Batch) -> bool {
        if ready.iter().any(|one| one.token == WAKE_TOKEN) {
            self.io.clear_wake();
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
        self.housekeeping.tick(&self.io, now);
        self.io.load.store(self.entries.len() + self.links.len(), Ordering::Relaxed);
        false
    }

    fn timeout(&mut self) -> Option<Duration> {
        let now = Instant::now();
        let timer = self.timers.next().map(|at| if at > now { at.max(now + TIMER_RESOLUTION) } else { at });
        let next = [timer, self.housekeeping.next()].into_iter().flatten().min()?;
        Some(next.saturating_duration_since(now))
    }

    /// Executes the queued commands. True: the thread is to stop.
    fn commands(&mut self) -> bool {
        for command in self.io.take_commands() {
            match command {
                Command::Stop => return true,
                Command::Enter(mailbox) => self.enter(mailbox),
                Command::Join(link) => self.join(&link),
                Command::TryLater(token, pause) => self.timers.set(token, Instant::now() + pause),
                Command::ReadOn(mailbox) => mailbox.serve_unread(),
                Command::Listen(listener) => self.listen(listener),
                Command::Connect(dial) => self.connect(*dial),
                Command::End(mailbox, token, linger) => self.end(mailbox, token, linger),
                Command::EndLink(link) => self.end_link(link),
                Command::HangUp(mailbox, pipe, linger) => self.hang_up(mailbox, pipe, linger),
                Command::LinkDown(mailbox, pipe) => self.link_down(&mailbox, pipe),
                Command::CheckFlush(mailbox, pipe) => self.housekeeping.check_flush(mailbox, pipe),
                Command::QueuesGrown(mailbox, pipe) => self.housekeeping.queues_grown(&mailbox, pipe),
                Command::CheckOwnership(mailbox) => self.housekeeping.check_ownership(mailbox),
                Command::Run(function) => function(),
                Command::Look(mailbox) => mailbox.look(),
                Command::AwaitPeer(mailbox, pipe) => self.await_peer(&mailbox, pipe),
                Command::Resolved(token, routes) => self.resolved(token, routes),
                Command::Answered(token) => self.answered(token),
                Command::Close(mailbox, linger, done) => self.close(mailbox, linger, done),
                Command::EndLinger => self.end_linger(),
            }
        }
        false
    }

    fn enter(&mut self, mailbox: Arc<Mailbox>) {
        let token = self.io.token();
        if let Some(set) = mailbox.poll_set()
            && mailbox.ownership.entered(&self.io, set, token).is_ok()
        {
            self.entries.insert(token, Entry::Mailbox(mailbox));
        }
    }

    /// Adds a link, which may be ready from now on.
    fn join(&mut self, link: &Arc<Link>) {
        self.links.insert(link.io_token, link.clone());
    }

    /// Removes a link that ends.
    fn leave(&mut self, link: &Link) {
        self.links.remove(&link.io_token);
        link.mailbox.remove_link(link);
    }

    fn on_ready(&mut self, ready: &Ready) {
        match self.entries.get(&ready.token) {
            None => {
                if let Some(link) = self.links.get(&ready.token) {
                    link.serve(ready);
                    link.mailbox.serve_unread();
                    link.mailbox.notify_served();
                    self.look_at_closing(ready.token);
                }
            }
            Some(Entry::Mailbox(mailbox)) => {
                let mailbox = mailbox.clone();
                let mut inner = Batch::new();
                if let Some(set) = mailbox.poll_set()
                    && set.poller.ready(&mut inner).is_ok()
                {
                    mailbox.serve(&inner, false);
                }
            }
            Some(Entry::Listener(_)) => self.accept(ready.token),
            Some(Entry::Accepted(_)) => self.accepted_ready(ready.token),
            Some(Entry::Connecter(_)) => self.connecter_ready(ready.token),
            Some(Entry::Closing(_) | Entry::Heartbeat(_)) => {}
        }
    }

    fn on_timer(&mut self, token: u64, now: Instant) {
        match self.entries.get(&token) {
            None => {
                self.links.get(&token).into_iter().for_each(|link| link.try_again());
                self.look_at_closing(token);
            }
            Some(Entry::Mailbox(_)) => {}
            Some(Entry::Listener(_)) => self.listen_again(token),
            Some(Entry::Accepted(_)) => self.accepted_late(token),
            Some(Entry::Connecter(_)) => self.connecter_timer(token, now),
            Some(Entry::Closing(_)) => self.linger_is_over(token),
            Some(Entry::Heartbeat(_)) => self.heartbeat_timer(token, now),
        }
    }
}
