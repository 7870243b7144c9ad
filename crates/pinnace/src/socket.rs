//! Sockets: what all types have in common.

use std::fmt;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

use pinnace_engine::{KeyPair, LevelFd, POLLIN, POLLOUT, SocketType, Stats};

use crate::kind::{AnySocket, Publishes, Subscribes, Typed, kinds};
use crate::options::{self, Value};
use crate::{Builder, Context, Error, Interest, Invalid, Kind, Message, Monitor};

/// A socket of type `K`; [`Push`](crate::Push), [`Sub`](crate::Sub) and so on are aliases.
///
/// Any thread may use it, several at once too; each message goes to one of the receiving threads. Dropping it closes
/// it: accepted messages are sent in the background, for as long as its linger allows.
pub struct Socket<K: Kind> {
    raw: pinnace_engine::Socket,
    socket_type: SocketType,
    context: Context,
    kind: PhantomData<fn() -> K>,
}

impl Socket<kinds::Any> {
    /// A socket of this type with default options. Errors: TooManySockets, Terminated.
    pub fn of_type(context: &Context, socket_type: SocketType) -> Result<AnySocket, Error> {
        Socket::create(context, socket_type)
    }
}

impl<K: Typed> Socket<K> {
    /// A socket with default options. Errors: TooManySockets, Terminated.
    pub fn new(context: &Context) -> Result<Socket<K>, Error> {
        Socket::create(context, K::TYPE)
    }

    /// Builds a socket with options.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use pinnace::{Context, Push};
    /// # let context = Context::new()?;
    /// let push = Push::builder(&context).send_high_water_mark(10).linger(Duration::ZERO).connect("tcp://[::1]:5555")?;
    /// # Ok::<(), pinnace::Error>(())
    /// ```
    pub fn builder(context: &Context) -> Builder<K> {
        Builder::new(context)
    }
}

impl<K: Kind> Socket<K> {
    fn create(context: &Context, socket_type: SocketType) -> Result<Socket<K>, Error> {
        let raw = context.engine().socket(socket_type)?;
        Ok(Socket { raw, socket_type, context: context.clone(), kind: PhantomData })
    }

    /// The socket's type.
    pub fn socket_type(&self) -> SocketType {
        self.socket_type
    }

    /// Binds to an endpoint, and returns the actual one, with the port chosen for `*`.
    ///
    /// ```
    /// # use pinnace::{Context, Pull};
    /// # let context = Context::new()?;
    /// let pull = Pull::new(&context)?;
    /// assert!(pull.bind("tcp://127.0.0.1:*")?.starts_with("tcp://127.0.0.1:"));
    /// # Ok::<(), pinnace::Error>(())
    /// ```
    /// Errors: Invalid, Transport, TransportForType; System with the system's error, such as address in use.
    pub fn bind(&self, endpoint: &str) -> Result<String, Error> {
        self.raw.bind(endpoint)?;
        self.last_endpoint()
    }

    /// Connects to an endpoint, and reconnects whenever the connection is lost. It returns at once, whether or not a
    /// peer is there. Errors: Invalid, Transport, TransportForType.
    pub fn connect(&self, endpoint: &str) -> Result<(), Error> {
        self.raw.connect(endpoint)
    }

    /// Undoes every `bind` to this endpoint, and closes the connections accepted on it. If there was none, it acts as
    /// [`disconnect`](Self::disconnect), as in libzmq. Errors: NoEndpoint.
    pub fn unbind(&self, endpoint: &str) -> Result<(), Error> {
        self.raw.unbind(endpoint)
    }

    /// Undoes every `connect` to this endpoint. Messages accepted for it are sent first, for as long as the linger
    /// allows. If there was none, it acts as [`unbind`](Self::unbind), as in libzmq. Errors: NoEndpoint.
    pub fn disconnect(&self, endpoint: &str) -> Result<(), Error> {
        self.raw.disconnect(endpoint)
    }

    /// The actual endpoint of the last bind or connect; empty before the first.
    pub fn last_endpoint(&self) -> Result<String, Error> {
        match self.option("LAST_ENDPOINT")? {
            Value::Text(endpoint) => Ok(endpoint),
            _ => Err(Error::Invalid(Invalid::UnknownOption)),
        }
    }

    /// Sets an option by libzmq's name, with or without `ZMQ_`.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use pinnace::{Context, Error, Invalid, Push};
    /// # let context = Context::new()?;
    /// let push = Push::new(&context)?;
    /// push.set_option("SNDHWM", 10)?;
    /// push.set_option("LINGER", Duration::from_millis(500))?;
    /// push.set_option("ZMQ_SNDTIMEO", "250")?; // Numbers are read from text too.
    /// assert_eq!(push.option("SNDTIMEO")?.int(), Some(250));
    /// assert_eq!(push.set_option("BACKLOG", -1), Err(Error::Invalid(Invalid::Range)));
    /// # Ok::<(), pinnace::Error>(())
    /// ```
    /// Errors: Invalid for an unknown name, a value of another type or out of range, or an option of another socket
    /// type.
    pub fn set_option(&self, name: &str, value: impl Into<Value>) -> Result<(), Error> {
        let spec = options::find(name)?;
        self.raw.set_option(spec.number, &value.into().encode(spec.kind)?)
    }

    /// Sets our CURVE keys, for a server (with the option CURVE_SERVER) or a client (with CURVE_SERVERKEY). Makes no
    /// further copy of the secret key.
    pub fn set_curve_keys(&self, keys: &KeyPair) -> Result<(), Error> {
        self.raw.set_option(options::find("CURVE_SECRETKEY")?.number, &*keys.secret)?;
        self.raw.set_option(options::find("CURVE_PUBLICKEY")?.number, &keys.public)
    }

    /// Reads an option. Errors: Invalid for an unknown name, or a write-only option.
    pub fn option(&self, name: &str) -> Result<Value, Error> {
        options::read(self.raw, options::find(name)?)
    }

    /// Messages and bytes transferred, queued and lost, in total and per peer.
    ///
    /// ```
    /// # use pinnace::{Context, Pull, Push};
    /// # let context = Context::new()?;
    /// # let (push, pull) = (Push::new(&context)?, Pull::new(&context)?);
    /// # pull.bind("inproc://counted")?;
    /// # push.connect("inproc://counted")?;
    /// push.send("one")?;
    /// pull.recv()?;
    /// let stats = pull.stats()?;
    /// assert_eq!((stats.received.messages, stats.drops.total(), stats.peers.len()), (1, 0, 1));
    /// # Ok::<(), pinnace::Error>(())
    /// ```
    pub fn stats(&self) -> Result<Stats, Error> {
        self.raw.stats()
    }

    /// Disconnects a peer, by its number in the statistics. Messages already received from it can still be read. A peer
    /// that connected to us may come back; if we connected, we reconnect. Errors: Unreachable.
    pub fn kick(&self, number: u64) -> Result<(), Error> {
        self.raw.kick(number)
    }

    /// Waits until `count` peers are connected. None waits without limit. Errors: WouldBlock on timeout.
    pub fn wait_peers(&self, count: usize, timeout: impl Into<Option<Duration>>) -> Result<(), Error> {
        self.raw.wait_peers(count, timeout.into())
    }

    /// Waits until `count` peers have connected and disconnected again and all their messages were received. Errors:
    /// WouldBlock on timeout.
    pub fn wait_ended(&self, count: u64, timeout: impl Into<Option<Duration>>) -> Result<(), Error> {
        self.raw.wait_ended(count, timeout.into())
    }

    /// Whether receiving, and whether sending, would succeed now without waiting.
    pub fn ready(&self) -> Result<Interest, Error> {
        let events = self.raw.events()?;
        Ok(Interest { readable: events & POLLIN != 0, writable: events & POLLOUT != 0 })
    }

    /// A level-triggered descriptor: readable exactly while the socket is ready for `interest` (for either, if both).
    /// For event loops that poll descriptors, such as tokio's `AsyncFd`; the async calls do not need it.
    ///
    /// ```
    /// # use pinnace::{Context, Interest, Pull};
    /// use std::os::fd::AsFd;
    /// # let context = Context::new()?;
    /// let pull = Pull::new(&context)?;
    /// let descriptor = pull.ready_fd(Interest::READABLE)?;
    /// println!("watch {:?}", descriptor.as_fd());
    /// # Ok::<(), pinnace::Error>(())
    /// ```
    /// Errors: Invalid for an empty interest; System if the process has no descriptor left.
    pub fn ready_fd(&self, interest: Interest) -> Result<LevelFd, Error> {
        self.raw.level(interest.events())
    }

    /// Monitors the socket's connections from now on. A second call ends the monitor of the first.
    pub fn monitor(&self) -> Result<Monitor, Error> {
        Monitor::new(self.raw, &self.context)
    }

    /// The context that the socket belongs to.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The engine's handle, valid until the socket is dropped.
    pub fn engine(&self) -> pinnace_engine::Socket {
        self.raw
    }

    /// Closes the socket, as dropping it does.
    pub fn close(self) {}
}

impl<K: Subscribes> Socket<K> {
    /// Receives messages that begin with `topic` from now on; the empty topic matches everything. Subscriptions are
    /// counted: each needs its own `unsubscribe`.
    pub fn subscribe(&self, topic: impl AsRef<[u8]>) -> Result<(), Error> {
        self.change("SUBSCRIBE", 1, topic.as_ref())
    }

    /// Undoes one subscription.
    pub fn unsubscribe(&self, topic: impl AsRef<[u8]>) -> Result<(), Error> {
        self.change("UNSUBSCRIBE", 0, topic.as_ref())
    }

    /// Waits until at least one publisher is connected and every connected one has all subscriptions made so far.
    /// Matching messages published afterwards are received. Errors: WouldBlock on timeout, NotSupported with publishers
    /// older than ZMTP 3.0.
    pub fn wait_subscribed(&self, timeout: impl Into<Option<Duration>>) -> Result<(), Error> {
        self.raw.wait_subscribed(timeout.into())
    }

    fn change(&self, option: &str, command: u8, topic: &[u8]) -> Result<(), Error> {
        if self.socket_type != SocketType::XSub {
            return self.set_option(option, topic);
        }
        let message = Message::from([&[command], topic].concat());
        message.lend(|frames, _| self.raw.send_message(frames, true))
    }
}

impl<K: Publishes> Socket<K> {
    /// Waits until `count` peers subscribe to messages that begin with `topic`; for a RADIO, until `count` peers have
    /// joined this group. Errors: WouldBlock on timeout.
    pub fn wait_subscribers(
        &self,
        topic: impl AsRef<[u8]>,
        count: usize,
        timeout: impl Into<Option<Duration>>,
    ) -> Result<(), Error> {
        self.raw.wait_subscribers(topic.as_ref(), count, timeout.into())
    }
}

impl<K: Kind> Drop for Socket<K> {
    fn drop(&mut self) {
        // The application may have closed it through the engine's handle.
        let _ = self.raw.close();
    }
}

impl<K: Kind> fmt::Debug for Socket<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Socket<{}>", self.socket_type.name())
    }
}

/// The instant `timeout` from now; None if the clock cannot represent it.
pub(crate) fn deadline(timeout: Duration) -> Option<Instant> {
    Instant::now().checked_add(timeout)
}
