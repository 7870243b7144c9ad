//! Contexts: what the sockets of a program share, and how they are shut down.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{Drops, Error, Leftover};

/// I/O threads, inproc names, and limits shared by the sockets of the context. Most programs have one. Clones are the
/// same context.
///
/// Dropping the last clone and the last socket terminates the context: the drop blocks until all accepted messages are
/// sent, for as long as each socket's linger allows (without limit by default). [`Context::terminate`] does the same at
/// a time of your choice.
///
/// ```
/// use pinnace::{Context, Pair};
/// let context = Context::new()?;
/// let (left, right) = (Pair::new(&context)?, Pair::new(&context)?);
/// left.bind("inproc://middle")?;
/// right.connect("inproc://middle")?;
/// left.send("hello")?;
/// assert_eq!(right.recv()?, "hello");
/// # Ok::<(), pinnace::Error>(())
/// ```
#[derive(Clone)]
pub struct Context(Arc<Owner>);

/// Terminates the context when its last owner is dropped.
struct Owner(pinnace_engine::Context);

/// libzmq's numbers of the context options.
const IO_THREADS: i32 = 1;
const MAX_SOCKETS: i32 = 2;
const THREAD_NAME_PREFIX: i32 = 9;
const IPV6: i32 = 42;
const BLOCKY: i32 = 70;

impl Context {
    /// A context with one I/O thread, which starts with the first socket.
    pub fn new() -> Result<Context, Error> {
        pinnace_engine::Context::new().map(|context| Context(Arc::new(Owner(context))))
    }

    /// Builds a context with options.
    ///
    /// ```
    /// use pinnace::Context;
    /// let context = Context::builder().io_threads(2).max_sockets(10_000).build()?;
    /// # Ok::<(), pinnace::Error>(())
    /// ```
    pub fn builder() -> ContextBuilder {
        ContextBuilder { settings: Vec::new(), prefix: None, max_bytes: None }
    }

    /// Makes every call on the context's sockets return Terminated from now on, blocked calls included. The sockets
    /// still have to be dropped.
    pub fn shutdown(&self) -> Result<(), Error> {
        self.engine().shutdown()
    }

    /// Shuts down, and waits until every socket is dropped and has sent its accepted messages, as its linger allows. A
    /// thread must drop its own sockets before it calls this. Errors: Interrupted by a signal; the call can be
    /// repeated.
    ///
    /// ```
    /// use pinnace::{Context, Error, Pull};
    /// let context = Context::new()?;
    /// let pull = Pull::new(&context)?;
    /// let receiver = std::thread::spawn(move || pull.recv().map(|_| ())); // The thread's end drops the socket.
    /// context.terminate()?;
    /// assert_eq!(receiver.join().unwrap(), Err(Error::Terminated));
    /// # Ok::<(), pinnace::Error>(())
    /// ```
    pub fn terminate(&self) -> Result<(), Error> {
        self.engine().terminate()
    }

    /// As [`terminate`](Self::terminate), but takes at most `timeout`. After that, sockets that are still open are
    /// closed, even while in use, and unsent messages are discarded. Returns what was left unsent, over all sockets
    /// that the context ever had; a second call returns the same. Errors: Interrupted by a signal; the call can be
    /// repeated.
    ///
    /// ```
    /// use std::time::Duration;
    /// use pinnace::{Context, Push};
    /// let context = Context::new()?;
    /// let push = Push::builder(&context).connect("tcp://127.0.0.1:1")?; // Nobody is there.
    /// push.send("never sent")?;
    /// drop(push);
    /// let left = context.terminate_within(Duration::from_millis(10))?;
    /// assert_eq!((left.messages, left.bytes, left.open_sockets), (1, 12, 0)); // ZMTP's header is two bytes.
    /// # Ok::<(), pinnace::Error>(())
    /// ```
    pub fn terminate_within(&self, timeout: impl Into<Option<Duration>>) -> Result<Leftover, Error> {
        self.engine().terminate_within(timeout.into())
    }

    /// Limits the bytes that all queues of the context hold together, ZMTP's headers included. At the limit, nothing
    /// more is accepted from the application nor read from peers, except for queues that are empty. 0 is no limit. The
    /// first call affects only peers that connect later; [`ContextBuilder::max_bytes`] affects all.
    pub fn set_max_bytes(&self, max_bytes: u64) {
        self.engine().set_max_bytes(max_bytes);
    }

    /// The bytes that count towards that limit now; 0 if no limit was ever set.
    pub fn held_bytes(&self) -> u64 {
        self.engine().held_bytes()
    }

    /// The messages that closed sockets have lost, by reason. A socket that is still lingering may lose more. For open
    /// sockets see [`Socket::stats`](crate::Socket::stats).
    ///
    /// ```
    /// use pinnace::{Context, Pull, Push, Reason};
    /// let context = Context::new()?;
    /// let pull = Pull::builder(&context).bind("inproc://unread")?;
    /// Push::builder(&context).connect("inproc://unread")?.send("never received")?;
    /// pull.close();
    /// assert_eq!(context.lost().of(Reason::Unread), 1);
    /// # Ok::<(), pinnace::Error>(())
    /// ```
    pub fn lost(&self) -> Drops {
        self.engine().drops_of_closed()
    }

    /// The engine's context.
    pub fn engine(&self) -> &pinnace_engine::Context {
        &self.0.0
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Context")
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        loop {
            match self.0.terminate() {
                Err(Error::Interrupted) => {}
                // An I/O thread runs this drop (a waker held the last owner). It cannot wait for itself.
                Err(Error::Reentered) => {
                    let context = self.0.clone();
                    let terminate = move || while let Err(Error::Interrupted) = context.terminate() {};
                    let _ = pinnace_sys::thread::start("", terminate);
                    return;
                }
                _ => return,
            }
        }
    }
}

/// Builds a [`Context`]; made by [`Context::builder`].
///
/// ```
/// let context = pinnace::Context::builder().thread_name_prefix("feed").ipv6(true).build()?;
/// # Ok::<(), pinnace::Error>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct ContextBuilder {
    settings: Vec<(i32, i32)>,
    prefix: Option<String>,
    max_bytes: Option<u64>,
}

impl ContextBuilder {
    /// Number of I/O threads, which serve the connections that no calling thread polls; at least one.
    pub fn io_threads(self, count: u16) -> ContextBuilder {
        self.set(IO_THREADS, count.into())
    }

    /// How many sockets may be open at once. Default: 1023.
    pub fn max_sockets(self, count: u32) -> ContextBuilder {
        // Larger counts than the option can express make no difference: memory runs out before.
        self.set(MAX_SOCKETS, i32::try_from(count).unwrap_or(i32::MAX))
    }

    /// Allows IPv6 for new sockets too.
    pub fn ipv6(self, on: bool) -> ContextBuilder {
        self.set(IPV6, on.into())
    }

    /// The default linger of new sockets: without limit (true, the default) or none (false).
    pub fn lingers(self, on: bool) -> ContextBuilder {
        self.set(BLOCKY, on.into())
    }

    /// Prefix of the I/O threads' names; at most 16 bytes.
    pub fn thread_name_prefix(mut self, prefix: &str) -> ContextBuilder {
        // A value of exactly four bytes would be read as a number; the trailing NUL makes it five.
        self.prefix = Some(if prefix.len() == 4 { format!("{prefix}\0") } else { prefix.to_owned() });
        self
    }

    /// The bytes that all queues may hold together; see [`Context::set_max_bytes`].
    pub fn max_bytes(mut self, bytes: u64) -> ContextBuilder {
        self.max_bytes = Some(bytes);
        self
    }

    /// Returns the context. Errors: Invalid for a value out of range.
    pub fn build(self) -> Result<Context, Error> {
        let context = Context::new()?;
        for (option, value) in self.settings {
            context.engine().set(option, value)?;
        }
        if let Some(prefix) = self.prefix {
            context.engine().set_bytes(THREAD_NAME_PREFIX, prefix.as_bytes())?;
        }
        if let Some(bytes) = self.max_bytes {
            context.set_max_bytes(bytes);
        }
        Ok(context)
    }

    fn set(mut self, option: i32, value: i32) -> ContextBuilder {
        self.settings.push((option, value));
        self
    }
}
