//! Sockets: what all types have in common.

use std::fmt;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

use pinnace_engine::{KeyPair, LevelFd, POLLIN, POLLOUT, SocketType, Stats};

use crate::kind::{AnySocket, Publishes, Subscribes, Typed, kinds};
use crate::options::{self, Value};
use crate::{Builder, Context, Error, Interest, Kind, Message, Monitor};

/// A socket of the type that `K` marks: [`Push`](crate::Push), [`Sub`](crate::Sub) and so on are its names.
///
/// Any thread may use it, several at once too; each message goes to one of those that receive. Dropping it closes it:
/// what it has accepted is sent in the background, as long as its linger allows.
pub struct Socket<K: Kind> {
    raw: pinnace_engine::Socket,
    socket_type: SocketType,
    context: Context,
    kind: PhantomData<fn() -> K>,
}

impl Socket<kinds::Any> {
    /// A socket of this type, with all options at their defaults. Errors: TooManySockets, Terminated.
    pub fn of_type(context: &Context, socket_type: SocketType) -> Result<AnySocket, Error> {
        Socket::create(context, socket_type)
    }
}

impl<K: Typed> Socket<K> {
    /// A socket with all options at their defaults. Errors: TooManySockets, Terminated.
    pub fn new(context: &Context) -> Result<Socket<K>, Error> {
        Socket::create(context, K::TYPE)
    }

    /// A socket that is to have other options.
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
        let raw = context.engine().socket(socket_type as i32)?;
        Ok(Socket { raw, socket_type, context: context.clone(), kind: PhantomData })
    }

    /// Its type.
    pub fn socket_type(&self) -> SocketType {
        self.socket_type
    }

    /// Binds to an endpoint, and returns it as it came to be: with a port in the place of `*`.
    ///
    /// ```
    /// # use pinnace::{Context, Pull};
    /// # let context = Context::new()?;
    /// let pull = Pull::new(&context)?;
    /// assert!(pull.bind("tcp://127.0.0.1:*")?.starts_with("tcp://127.0.0.1:"));
    /// # Ok::<(), pinnace::Error>(())
    /// ```
    /// Errors: Invalid, Transport, TransportForType; System with what the system says, as that the address is in use.
    pub fn bind(&self, endpoint: &str) -> Result<String, Error> {
        self.raw.bind(endpoint)?;
        self.last_endpoint()
    }

    /// Connects to an endpoint, and again whenever the connection is lost. It returns at once: nobody has to be there.
    /// Errors: Invalid, Transport, TransportForType.
    pub fn connect(&self, endpoint: &str) -> Result<(), Error> {
        self.raw.connect(endpoint)
    }

    /// Takes back each `bind` to this endpoint, and ends the connections that came by it. Where there was none, it is
    /// [`disconnect`](Self::disconnect), as in libzmq. Errors: NoEndpoint.
    pub fn unbind(&self, endpoint: &str) -> Result<(), Error> {
        self.raw.unbind(endpoint)
    }

    /// Takes back each `connect` to this endpoint. What was accepted for it is sent first, as long as the linger says.
    /// Where there was none, it is [`unbind`](Self::unbind), as in libzmq. Errors: NoEndpoint.
    pub fn disconnect(&self, endpoint: &str) -> Result<(), Error> {
        self.raw.disconnect(endpoint)
    }

    /// What the last bind or connect came to; empty before the first.
    pub fn last_endpoint(&self) -> Result<String, Error> {
        match self.option("LAST_ENDPOINT")? {
            Value::Text(endpoint) => Ok(endpoint),
            _ => Err(Error::Invalid),
        }
    }

    /// Sets an option by libzmq's name, of which `ZMQ_` may be left out.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use pinnace::{Context, Error, Push};
    /// # let context = Context::new()?;
    /// let push = Push::new(&context)?;
    /// push.set_option("SNDHWM", 10)?;
    /// push.set_option("LINGER", Duration::from_millis(500))?;
    /// push.set_option("ZMQ_SNDTIMEO", "250")?; // Numbers are read from text too.
    /// assert_eq!(push.option("SNDTIMEO")?.int(), Some(250));
    /// assert_eq!(push.set_option("BACKLOG", -1), Err(Error::Invalid));
    /// # Ok::<(), pinnace::Error>(())
    /// ```
    /// Errors: Invalid for a name that is none, a value of another type or out of range, or an option of another socket
    /// type's.
    pub fn set_option(&self, name: &str, value: impl Into<Value>) -> Result<(), Error> {
        let spec = options::find(name)?;
        self.raw.set_option(spec.number, &value.into().encode(spec.kind)?)
    }

    /// Sets our CURVE keys, for a server (with the option CURVE_SERVER) or a client (with CURVE_SERVERKEY). The secret
    /// one is copied to nowhere else.
    pub fn set_curve_keys(&self, keys: &KeyPair) -> Result<(), Error> {
        self.raw.set_option(options::find("CURVE_SECRETKEY")?.number, &*keys.secret)?;
        self.raw.set_option(options::find("CURVE_PUBLICKEY")?.number, &keys.public)
    }

    /// An option's value. Errors: Invalid for a name that is none, or an option that can only be set.
    pub fn option(&self, name: &str) -> Result<Value, Error> {
        options::read(self.raw, options::find(name)?)
    }

    /// What was moved, is queued and was lost, in all and for each peer.
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

    /// Cuts a peer off, by its number in the statistics. What it has sent can still be received. Who connected to us
    /// may come back; where we connected, we do so again. Errors: Unreachable.
    pub fn kick(&self, number: u64) -> Result<(), Error> {
        self.raw.kick(number)
    }

    /// Waits until `count` peers are there; without a timeout, for ever. Errors: WouldBlock when the time is over.
    pub fn wait_peers(&self, count: usize, timeout: impl Into<Option<Duration>>) -> Result<(), Error> {
        self.raw.wait_peers(count, timeout.into())
    }

    /// Waits until `count` peers have come and gone again, and all that they sent was received. Errors: WouldBlock when
    /// the time is over.
    pub fn wait_ended(&self, count: u64, timeout: impl Into<Option<Duration>>) -> Result<(), Error> {
        self.raw.wait_ended(count, timeout.into())
    }

    /// Whether receiving would not wait, and whether sending would not, at this moment.
    pub fn ready(&self) -> Result<Interest, Error> {
        let events = self.raw.events()?;
        Ok(Interest { readable: events & POLLIN != 0, writable: events & POLLOUT != 0 })
    }

    /// A descriptor that is readable exactly while the socket is ready for `interest`, or for either of both. It is for
    /// event loops that watch descriptors, as tokio's `AsyncFd`; a future needs none.
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
    /// Errors: Invalid where nothing is asked for; System when the process has no descriptor left.
    pub fn ready_fd(&self, interest: Interest) -> Result<LevelFd, Error> {
        self.raw.level(interest.events())
    }

    /// The events of the socket's connections from now on. A second call ends the first one's.
    pub fn monitor(&self) -> Result<Monitor, Error> {
        Monitor::new(self.raw, &self.context)
    }

    /// The context that it was made in.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The engine's handle, which is good until this is dropped.
    pub fn engine(&self) -> pinnace_engine::Socket {
        self.raw
    }

    /// Closes the socket, as dropping it does.
    pub fn close(self) {}
}

impl<K: Subscribes> Socket<K> {
    /// Receives what begins with `topic` from now on; the empty topic is everything. As often as it is subscribed to it
    /// has to be taken back.
    pub fn subscribe(&self, topic: impl AsRef<[u8]>) -> Result<(), Error> {
        self.change("SUBSCRIBE", 1, topic.as_ref())
    }

    /// Takes a subscription back.
    pub fn unsubscribe(&self, topic: impl AsRef<[u8]>) -> Result<(), Error> {
        self.change("UNSUBSCRIBE", 0, topic.as_ref())
    }

    /// Waits until a publisher is there, and each that is has all subscriptions made so far: what it publishes from
    /// then on comes. Errors: WouldBlock when the time is over, NotSupported with publishers older than ZMTP 3.0.
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
    /// Waits until `count` peers get messages that begin with `topic`; of a RADIO, until so many have joined this
    /// group. Errors: WouldBlock when the time is over.
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
        // It may have been closed through the engine.
        let _ = self.raw.close();
    }
}

impl<K: Kind> fmt::Debug for Socket<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Socket<{}>", self.socket_type.name())
    }
}

/// The end of a time that begins now; None where the clock does not go that far.
pub(crate) fn deadline(timeout: Duration) -> Option<Instant> {
    Instant::now().checked_add(timeout)
}
