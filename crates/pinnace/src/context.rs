//! Contexts: what the sockets of a program have in common, and how all of it ends.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{Drops, Error, Leftover};

/// I/O threads, inproc names, and limits for the sockets made in it. Most programs have one. Clones are the same
/// context.
///
/// When the last clone and the last socket are dropped the context ends: that waits until what the sockets have
/// accepted is sent, as long as the linger of each allows (for ever, unless it was set). [`Context::terminate`] does
/// the same at a time of your choice.
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

/// Ends the context with its last holder.
struct Owner(pinnace_engine::Context);

/// libzmq's numbers of context options.
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

    /// A context that is to be different.
    ///
    /// ```
    /// use pinnace::Context;
    /// let context = Context::builder().io_threads(2).max_sockets(10_000).build()?;
    /// # Ok::<(), pinnace::Error>(())
    /// ```
    pub fn builder() -> ContextBuilder {
        ContextBuilder { settings: Vec::new(), prefix: None, max_bytes: None }
    }

    /// From now on every call on the context's sockets says Terminated, those that wait too. The sockets stay to be
    /// dropped.
    pub fn shutdown(&self) -> Result<(), Error> {
        self.engine().shutdown()
    }

    /// Shuts down, and waits until every socket is dropped and what it had accepted is sent, as its linger allows. A
    /// thread that holds sockets must not call this before it has dropped them. Errors: Interrupted by a signal; it
    /// can be called again.
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

    /// As [`terminate`](Self::terminate), but it is over after `timeout`: sockets that are still open are closed then,
    /// whoever uses them, and what was not sent is given up. It returns what was left, over all sockets that the
    /// context ever had; called again it says the same again. Errors: Interrupted by a signal; call it again then.
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

    /// Limits the bytes that all queues of the context hold together, with ZMTP's headers: while they hold so many,
    /// nothing more is accepted from applications nor read from peers, but for queues that hold nothing. 0 is no limit.
    /// It counts for peers that come after the first call; [`ContextBuilder::max_bytes`] comes before all.
    pub fn set_max_bytes(&self, max_bytes: u64) {
        self.engine().set_max_bytes(max_bytes);
    }

    /// How many bytes count for that limit now; 0 while none was ever set.
    pub fn held_bytes(&self) -> u64 {
        self.engine().held_bytes()
    }

    /// The messages that its closed sockets have lost, by reason. One that still sends what its linger allows may lose
    /// more. Of a socket that is open [`Socket::stats`](crate::Socket::stats) tells.
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
                // An I/O thread cannot wait for itself: it drops what a waker held.
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

/// Makes a [`Context`]; from [`Context::builder`].
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
    /// How many threads serve connections that no caller serves; at least one.
    pub fn io_threads(self, count: u16) -> ContextBuilder {
        self.set(IO_THREADS, count.into())
    }

    /// How many sockets may be open at once; 1023 unless set.
    pub fn max_sockets(self, count: u32) -> ContextBuilder {
        // Beyond what the option can say there is no difference: memory ends before.
        self.set(MAX_SOCKETS, i32::try_from(count).unwrap_or(i32::MAX))
    }

    /// New sockets speak IPv6 too.
    pub fn ipv6(self, on: bool) -> ContextBuilder {
        self.set(IPV6, on.into())
    }

    /// Whether new sockets linger for ever (as they do unless this is false) or not at all.
    pub fn lingers(self, on: bool) -> ContextBuilder {
        self.set(BLOCKY, on.into())
    }

    /// What the names of the I/O threads begin with; at most 16 bytes.
    pub fn thread_name_prefix(mut self, prefix: &str) -> ContextBuilder {
        // Four bytes would be taken for a number; with the NUL they are five.
        self.prefix = Some(if prefix.len() == 4 { format!("{prefix}\0") } else { prefix.to_owned() });
        self
    }

    /// The bytes that all queues may hold together: see [`Context::set_max_bytes`].
    pub fn max_bytes(mut self, bytes: u64) -> ContextBuilder {
        self.max_bytes = Some(bytes);
        self
    }

    /// The context. Errors: Invalid for a value out of its range.
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
