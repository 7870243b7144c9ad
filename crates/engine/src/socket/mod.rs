//! A socket: a pattern, its pipes and its endpoints behind one lock, and a handle that any thread may use.
//!
//! A call locks, reads its mail (`news`), lets the pattern decide, unlocks, and then does the chores that
//! were left: writing to the kernel, reading on, letting bodies go (`Socket::call`). Nothing waits with the
//! lock held, and no code of the application runs. What most calls come down to, by the thread that owns the lock
//! and with nothing to see to, is `Socket::call_at_once`: it is laid out in line, and gives way to the other where
//! anything is out of the ordinary.

mod close;
mod datagrams;
mod endpoints;
mod level;
mod marks;
mod messages;
mod news;
mod options;
mod peers;
mod routing;
mod tasks;
mod transfer;
mod wait;

use std::ops::DerefMut;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use pinnace_zmtp::SocketType;

use crate::context::Context;
use crate::error::Error;
use crate::hub::{Hub, Mail};
use crate::link::Link;
use crate::options::Options;
use crate::patterns::Pattern;
use crate::pipe::{Chore, Chores, Far, PipeId, Pipes};
use crate::reactor::{Command, Io};
use crate::socket_kind::Kind;
use crate::table::{self, Handle, Locked, Slot, Table};
use endpoints::Attached;

pub use level::LevelFd;
pub(crate) use level::Watcher;
pub use messages::Wait;
pub use options::{POLLIN, POLLOUT};
pub use tasks::Place;
pub(crate) use tasks::Wakers;
pub use transfer::Received;
pub(crate) use wait::{SocketNap, Waiter};

type Sockets = Table<Box<Core>, 0xa>;

static SOCKETS: Sockets = Table::new();

/// A handle of a socket. Any thread may use it; after `close` its calls return NotSocket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Socket(Handle<Box<Core>>);

/// Where a socket is kept: a reference to what stays when the socket is closed, and is another's then.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct SocketSlot(&'static Slot<Box<Core>>);

/// What the lock guards.
pub(crate) struct Core {
    pub(crate) context: Context,
    pub(crate) hub: Arc<Hub>,
    pub(crate) io: Arc<Io>,
    pub(crate) kind: Kind,
    pub(crate) pattern: Box<dyn Pattern>,
    pub(crate) pipes: Pipes,
    /// As they are now; connections that were made meanwhile have them too.
    pub(crate) options: Arc<Options>,
    endpoints: Vec<Attached>,
    last_endpoint: String,
    /// The last frame received has more after it.
    receive_more: bool,
    /// Frames of the message that is being sent are still to come.
    sending: bool,
    stopped: bool,
    levels: level::Levels,
    /// A poller watches it: it has to hear of calls, which may change what the socket is ready for.
    pub(crate) watched: bool,
    /// Pipes that have ended and may still hold something.
    ended: Vec<PipeId>,
    /// Peers that are gone, and of which all was received.
    pub(crate) ended_peers: u64,
    mail: Vec<Mail>,
}

impl Socket {
    pub(crate) fn create(
        context: Context,
        hub: Arc<Hub>,
        io: Arc<Io>,
        socket_type: SocketType,
        pattern: Box<dyn Pattern>,
        ipv6: bool,
        linger_forever: bool,
    ) -> Result<Socket, Error> {
        let mut options = Options::new(socket_type);
        options.ipv6 = ipv6;
        if !linger_forever {
            options.linger = Some(std::time::Duration::ZERO);
        }
        hub.marks.set(&options);
        let core = Core {
            context,
            hub,
            io,
            kind: Kind::of(socket_type),
            pattern,
            pipes: Pipes::default(),
            options: Arc::new(options),
            endpoints: Vec::new(),
            last_endpoint: String::new(),
            receive_more: false,
            sending: false,
            stopped: false,
            levels: level::Levels::default(),
            watched: false,
            ended: Vec::new(),
            ended_peers: 0,
            mail: Vec::new(),
        };
        let hub = core.hub.clone();
        let socket = SOCKETS.insert(Box::new(core)).map(Socket).ok_or(Error::TooManySockets)?;
        hub.set_socket(socket);
        Ok(socket)
    }

    /// Where it is kept, and which it is of those that are kept there one after the other: from 1 to 2^24 - 1.
    pub fn into_parts(self) -> (SocketSlot, u32) {
        (SocketSlot(self.0.slot()), self.0.generation())
    }

    /// The socket of these parts. Whether it is still open, each call tells, and whether there ever was one.
    #[inline(always)]
    pub fn from_parts(slot: SocketSlot, number: u32) -> Socket {
        Socket(Handle::new(slot.0, number))
    }

    #[inline(always)]
    pub(crate) fn lock(self) -> Result<Locked<Box<Core>>, Error> {
        Sockets::lock(self.0).map_err(Error::from)
    }

    /// Makes the queues of an idle link small again. False: there is something in them, or the socket does not
    /// know of the link yet. The I/O thread calls this, once or some times after much was moved; it is the one
    /// occasion at which it waits for the lock of a socket that it serves.
    pub(crate) fn shrink(self, link: &Link) -> bool {
        let Ok(mut core) = self.lock() else { return true };
        match core.pipes.get(link.pipe) {
            Some(pipe) if matches!(&pipe.far, Far::Link(Some(far)) if std::ptr::eq(&**far, link)) => {
                link.shrink(pipe)
            }
            _ => false,
        }
    }

    /// Takes in the news and does `work` with the lock held; then, with the lock open, the chores that are
    /// left. `wait`: the caller may be held up for a moment. Whatever reads mail goes this way.
    #[inline(always)]
    pub(crate) fn call<R>(
        self,
        wait: bool,
        work: impl FnOnce(&mut Core) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.call_quietly(wait, |core| {
            let outcome = work(core);
            if core.watched {
                core.hub.tell_watches();
            }
            outcome
        })
    }

    /// As `call`, where this thread owns the lock and there is nothing to see to before the work. None: it was not
    /// done, and `call` is the way.
    #[inline(always)]
    fn call_at_once<R>(
        self,
        wait: bool,
        work: impl FnOnce(&mut Core) -> Result<R, Error>,
    ) -> Option<Result<R, Error>> {
        let mut owned = Sockets::lock_owned(self.0)?;
        let core = &mut **owned;
        if core.hub.has_mail() || core.stopped || core.watched || !core.levels.is_empty() {
            return table::leave(owned);
        }
        let outcome = work(core);
        if !core.pipes.chores.is_empty() {
            finish(owned, wait);
        }
        Some(outcome)
    }

    /// As `call`, for work that changes nothing but by the news it finds, of which pollers know.
    #[inline(always)]
    fn call_quietly<R>(
        self,
        wait: bool,
        work: impl FnOnce(&mut Core) -> Result<R, Error>,
    ) -> Result<R, Error> {
        within(self.lock()?, wait, work)
    }

    /// As `call_quietly`, for those who have a look now and then: the thread that uses the socket most goes on to own
    /// its lock.
    pub(crate) fn look<R>(self, work: impl FnOnce(&mut Core) -> Result<R, Error>) -> Result<R, Error> {
        within(Sockets::visit(self.0)?, false, work)
    }
}

#[inline(always)]
fn within<R>(
    mut locked: Locked<Box<Core>>,
    wait: bool,
    work: impl FnOnce(&mut Core) -> Result<R, Error>,
) -> Result<R, Error> {
    let core = &mut **locked;
    let outcome = match core.news() {
        Ok(()) => work(core),
        Err(error) => Err(error),
    };
    if !core.levels.is_empty() {
        core.settle_levels();
    }
    if !core.pipes.chores.is_empty() {
        finish(locked, wait);
    }
    outcome
}

/// Opens the lock and does what was left to be done once it is open.
#[cold]
#[inline(never)]
fn finish(mut locked: impl DerefMut<Target = Box<Core>>, wait: bool) {
    let core = &mut **locked;
    let mut chores = std::mem::take(&mut core.pipes.chores);
    core.do_within(&chores);
    chores.append(&mut core.pipes.chores);
    drop(locked);
    run(chores, wait);
}

impl Core {
    /// What of the chores wants the lock: to end connections, or have them ended; to look again at pipes, and mail.
    fn do_within(&mut self, chores: &[Chore]) {
        for chore in chores {
            match *chore {
                Chore::HangUp(id) => match self.pipes.get(id).map(|pipe| &pipe.far) {
                    Some(Far::Socket { .. }) => self.leave(id),
                    _ => self.io.send(Command::HangUp(self.hub.clone(), id, self.options.linger)),
                },
                Chore::LookAgain(id) => self.hub.post(Mail::Readable(id)),
                Chore::Unlinked => {
                    fence(Ordering::SeqCst); // With the one in `Reactor::connected`.
                    if self.hub.has_mail() {
                        self.pipes.chores.push(Chore::Visit(self.hub.clone()));
                    }
                }
                _ => {}
            }
        }
    }
}

/// Has a socket take in its mail, mostly another. Its users are told to look: the signals for them went with the mail.
#[cold]
fn visit(hub: &Hub) {
    if let Some(socket) = hub.socket()
        && socket.look(|_| Ok(())).is_ok()
    {
        hub.wake();
    }
}

/// Does what was left to be done once the lock is open; `wait`: the caller may be held up for a moment.
fn run(chores: Chores, wait: bool) {
    for chore in chores {
        match chore {
            Chore::Pace(link) if wait => link.pace(),
            Chore::Pace(_) => {}
            Chore::Flush(link) => link.flush(),
            Chore::ReadOn(link) => link.read_on(),
            Chore::Drop(body) => drop(body),
            Chore::Part(pipe) => drop(pipe),
            Chore::Visit(hub) => visit(&hub),
            Chore::HangUp(_) | Chore::LookAgain(_) | Chore::Unlinked => {} // Done with the lock held.
        }
    }
}
