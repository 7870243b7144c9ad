//! Waits for several sockets and descriptors at once.

use std::fmt;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use pinnace_engine::{POLLERR, POLLIN, POLLOUT, PollTarget};

use crate::{Error, Kind, Socket};

/// The operations to wait for, or those that are ready.
///
/// ```
/// use pinnace::Interest;
/// assert_eq!(Interest::BOTH, Interest { readable: true, writable: true });
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Interest {
    /// A message can be received; for a descriptor, bytes.
    pub readable: bool,
    /// A message can be sent; for a descriptor, bytes.
    pub writable: bool,
}

impl Interest {
    /// Only receiving.
    pub const READABLE: Interest = Interest { readable: true, writable: false };
    /// Only sending.
    pub const WRITABLE: Interest = Interest { readable: false, writable: true };
    /// Receiving and sending.
    pub const BOTH: Interest = Interest { readable: true, writable: true };

    pub(crate) fn events(self) -> i16 {
        (i16::from(self.readable) * POLLIN) | (i16::from(self.writable) * POLLOUT)
    }

    /// The events that the engine reported, limited to those requested.
    pub(crate) fn found(events: i16, asked: i16) -> Interest {
        let events = if is_over(events) { asked } else { events };
        Interest { readable: events & POLLIN != 0, writable: events & POLLOUT != 0 }
    }
}

/// True if the engine reports a descriptor in error or its other end closed.
pub(crate) fn is_over(events: i16) -> bool {
    events & POLLERR != 0
}

/// A socket or descriptor that is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ready<T> {
    /// The key passed at registration.
    pub key: T,
    /// What it is ready for, among what was requested. If `is_over`, everything requested is ready: a read or write
    /// does not block, and returns what happened.
    pub ready: Interest,
    /// True if the descriptor is in error or its other end is closed. This persists, and every wait reports it, until
    /// the descriptor is removed.
    pub is_over: bool,
}

/// A set of sockets and descriptors, each with a key of yours. A wait costs time for the ready ones, not for all
/// registered.
///
/// ```
/// use std::time::Duration;
/// use pinnace::{Context, Interest, Poller, Pull, Push};
/// # let context = Context::new()?;
/// let (tasks, results) = (Pull::new(&context)?, Pull::new(&context)?);
/// # tasks.bind("inproc://tasks")?;
/// # results.bind("inproc://results")?;
/// # let push = Push::builder(&context).connect("inproc://results")?;
/// let poller = Poller::new()?;
/// poller.add(&tasks, Interest::READABLE, "tasks")?;
/// poller.add(&results, Interest::READABLE, "results")?;
/// # push.send("done")?;
/// for event in poller.wait(Duration::from_secs(10))? {
///     println!("{} can be received", event.key);
/// #   assert_eq!(event.key, "results");
/// }
/// # Ok::<(), pinnace::Error>(())
/// ```
///
/// A descriptor with its other end closed stays ready:
/// ```
/// use std::io::{Read, Write};
/// use std::time::Duration;
/// use pinnace::{Interest, Poller};
/// let (reader, mut writer) = std::io::pipe()?;
/// writer.write_all(b"all there is")?;
/// drop(writer);
/// let mut text = String::new();
/// let poller = Poller::new()?;
/// poller.add_fd(&reader, Interest::READABLE, ())?;
/// for event in poller.wait(Duration::from_secs(10))? {
///     if event.ready.readable {
///         (&reader).read_to_string(&mut text)?;
///     }
///     if event.is_over {
///         poller.remove_fd(&reader)?;
///     }
/// }
/// assert_eq!(text, "all there is");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A registered socket or descriptor must outlive the poller:
/// ```compile_fail,E0505
/// # use pinnace::{Context, Interest, Poller, Pull};
/// # let context = Context::new()?;
/// let pull = Pull::new(&context)?;
/// let poller = Poller::new()?;
/// poller.add(&pull, Interest::READABLE, ())?;
/// drop(pull);
/// poller.wait(None)?;
/// # Ok::<(), pinnace::Error>(())
/// ```
pub struct Poller<'a, T: Clone> {
    engine: pinnace_engine::Poller<T>,
    registered: PhantomData<fn(&'a ()) -> &'a ()>,
}

impl<'a, T: Clone> Poller<'a, T> {
    /// An empty set. Errors: System if the process has no descriptor left.
    pub fn new() -> Result<Poller<'a, T>, Error> {
        Ok(Poller { engine: pinnace_engine::Poller::new()?, registered: PhantomData })
    }

    /// Registers a socket. Errors: Invalid if it is registered already.
    pub fn add<K: Kind>(&self, socket: &'a Socket<K>, interest: Interest, key: T) -> Result<(), Error> {
        self.engine.add(PollTarget::Socket(socket.engine()), interest.events(), key)
    }

    /// Registers a descriptor.
    pub fn add_fd(&self, fd: &'a impl AsFd, interest: Interest, key: T) -> Result<(), Error> {
        self.engine.add(PollTarget::Fd(fd.as_fd().as_raw_fd()), interest.events(), key)
    }

    /// Changes a socket's interest; it may be empty. Errors: Invalid if the socket is not registered.
    pub fn modify<K: Kind>(&self, socket: &Socket<K>, interest: Interest) -> Result<(), Error> {
        self.engine.modify(PollTarget::Socket(socket.engine()), interest.events())
    }

    /// Changes a descriptor's interest.
    pub fn modify_fd(&self, fd: &impl AsFd, interest: Interest) -> Result<(), Error> {
        self.engine.modify(PollTarget::Fd(fd.as_fd().as_raw_fd()), interest.events())
    }

    /// Removes a socket. Errors: Invalid if it is not registered.
    pub fn remove<K: Kind>(&self, socket: &Socket<K>) -> Result<(), Error> {
        self.engine.remove(PollTarget::Socket(socket.engine()))
    }

    /// Removes a descriptor.
    pub fn remove_fd(&self, fd: &impl AsFd) -> Result<(), Error> {
        self.engine.remove(PollTarget::Fd(fd.as_fd().as_raw_fd()))
    }

    /// Waits until something is ready, and returns everything that is; empty on timeout. Errors: Terminated,
    /// Interrupted by a signal; Fault if nothing is registered and there is no timeout.
    pub fn wait(&self, timeout: impl Into<Option<Duration>>) -> Result<Vec<Ready<T>>, Error> {
        let found = match self.engine.wait(self.engine.len().max(1), timeout.into(), None) {
            Err(Error::WouldBlock) => Vec::new(),
            found => found?,
        };
        let ready = found.into_iter().map(|event| Ready {
            ready: Interest::found(event.events, event.asked),
            is_over: is_over(event.events),
            key: event.data,
        });
        Ok(ready.collect())
    }
}

impl<T: Clone> fmt::Debug for Poller<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Poller({} registered)", self.engine.len())
    }
}
