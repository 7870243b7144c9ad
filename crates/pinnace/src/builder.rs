//! Sockets with options.

use std::time::Duration;

use pinnace_cert::Certificate;
use pinnace_engine::KeyPair;

use crate::kind::{Joins, Kind, Subscribes, Typed, kinds};
use crate::{Context, Error, Socket, Value, options};

/// Makes a socket; from [`Socket::builder`]. The first thing that goes wrong is what `build`, `bind` and `connect` say.
///
/// ```
/// # use std::time::Duration;
/// use pinnace::{Context, Error, Router};
/// # let context = Context::new()?;
/// let router = Router::builder(&context)
///     .mandatory(true)
///     .heartbeat(Duration::from_secs(5))
///     .receive_timeout(Duration::from_secs(1))
///     .set("TCP_KEEPALIVE", true)
///     .bind("tcp://127.0.0.1:*")?;
/// assert_eq!(router.send(["nobody", "hello"]).unwrap_err().error, Error::Unreachable);
/// assert_eq!(Router::builder(&context).set("NO_SUCH_OPTION", 1).build().unwrap_err(), Error::Invalid);
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
#[must_use]
pub struct Builder<K: Kind>(Result<Socket<K>, Error>);

impl<K: Kind> Builder<K> {
    pub(crate) fn new(context: &Context) -> Builder<K>
    where
        K: Typed,
    {
        Builder(Socket::new(context))
    }

    /// The socket.
    pub fn build(self) -> Result<Socket<K>, Error> {
        self.0
    }

    /// The socket, bound to an endpoint.
    pub fn bind(self, endpoint: &str) -> Result<Socket<K>, Error> {
        let socket = self.0?;
        socket.bind(endpoint)?;
        Ok(socket)
    }

    /// The socket, connected to an endpoint.
    pub fn connect(self, endpoint: &str) -> Result<Socket<K>, Error> {
        let socket = self.0?;
        socket.connect(endpoint)?;
        Ok(socket)
    }

    /// An option by libzmq's name, as [`Socket::set_option`].
    pub fn set(self, name: &str, value: impl Into<Value>) -> Builder<K> {
        Builder(self.0.and_then(|socket| socket.set_option(name, value).map(|()| socket)))
    }

    /// As `set`, without a copy that would not be wiped.
    fn set_secret(self, name: &str, value: &[u8]) -> Builder<K> {
        Builder(self.0.and_then(|socket| {
            socket.engine().set_option(options::find(name)?.number, value)?;
            Ok(socket)
        }))
    }

    /// How many messages may wait to be sent, for each peer; 0 is no limit. 1000 unless set.
    pub fn send_high_water_mark(self, messages: u32) -> Builder<K> {
        self.set("SNDHWM", messages)
    }

    /// How many messages that came in may wait, for each peer; 0 is no limit. 1000 unless set.
    pub fn receive_high_water_mark(self, messages: u32) -> Builder<K> {
        self.set("RCVHWM", messages)
    }

    /// How many bytes may wait to be sent, for each peer, beside the high-water mark; another message is accepted while
    /// fewer wait. They are counted with ZMTP's headers. 0 is no limit, as it is unless set.
    pub fn send_byte_limit(self, bytes: u64) -> Builder<K> {
        self.set("PINNACE_SNDBYTES", i64::try_from(bytes).unwrap_or(i64::MAX))
    }

    /// How many bytes that came in may wait, for each peer, beside the high-water mark; 0 is no limit, as it is unless
    /// set.
    pub fn receive_byte_limit(self, bytes: u64) -> Builder<K> {
        self.set("PINNACE_RCVBYTES", i64::try_from(bytes).unwrap_or(i64::MAX))
    }

    /// Whether `ipc://` connections move their messages through memory that both processes have: with those of the
    /// same user, unless set.
    pub fn shared_memory(self, with: SharedMemory) -> Builder<K> {
        self.set("PINNACE_SHARED_MEMORY", with as i32)
    }

    /// How long what was accepted is still sent after the socket's end; None: for ever, as it is unless set.
    pub fn linger(self, time: impl Into<Option<Duration>>) -> Builder<K> {
        self.set("LINGER", time.into())
    }

    /// How long `send` waits; None: for ever, as it is unless set.
    pub fn send_timeout(self, time: impl Into<Option<Duration>>) -> Builder<K> {
        self.set("SNDTIMEO", time.into())
    }

    /// How long `recv` waits; None: for ever, as it is unless set.
    pub fn receive_timeout(self, time: impl Into<Option<Duration>>) -> Builder<K> {
        self.set("RCVTIMEO", time.into())
    }

    /// The name by which ROUTERs know this socket; 1 to 255 bytes.
    pub fn routing_id(self, name: impl AsRef<[u8]>) -> Builder<K> {
        self.set("ROUTING_ID", name.as_ref())
    }

    /// How long after a lost connection the next attempt comes, and to what that grows while attempts fail. 100 ms, and
    /// not growing, unless set.
    pub fn reconnect_interval(self, first: Duration, longest: Duration) -> Builder<K> {
        self.set("RECONNECT_IVL", first).set("RECONNECT_IVL_MAX", longest)
    }

    /// How long an attempt to connect may take; zero is what the system allows.
    pub fn connect_timeout(self, time: Duration) -> Builder<K> {
        self.set("CONNECT_TIMEOUT", time)
    }

    /// How long a peer may take for its handshake; zero is any time. 30 s unless set.
    pub fn handshake_timeout(self, time: Duration) -> Builder<K> {
        self.set("HANDSHAKE_IVL", time)
    }

    /// How often peers are asked whether they are there; who does not answer for as long is cut off. Zero is never, as
    /// it is unless set.
    pub fn heartbeat(self, interval: Duration) -> Builder<K> {
        self.set("HEARTBEAT_IVL", interval)
    }

    /// The largest frame that is received, in bytes; who sends a larger one is cut off. None unless set.
    pub fn max_message_size(self, bytes: u64) -> Builder<K> {
        self.set("MAXMSGSIZE", i64::try_from(bytes).unwrap_or(i64::MAX))
    }

    /// Only peers that are connected are sent to.
    pub fn immediate(self, on: bool) -> Builder<K> {
        self.set("IMMEDIATE", on)
    }

    /// Only the newest message of each peer is kept.
    pub fn conflate(self, on: bool) -> Builder<K> {
        self.set("CONFLATE", on)
    }

    /// Speaks IPv6 too.
    pub fn ipv6(self, on: bool) -> Builder<K> {
        self.set("IPV6", on)
    }

    /// A property of ours that peers are told; the name begins with "X-".
    pub fn metadata(self, name: &str, value: &str) -> Builder<K> {
        self.set("METADATA", format!("{name}:{value}").into_bytes())
    }

    /// The domain in which a ZAP handler (RFC 27) decides who may come in.
    pub fn zap_domain(self, domain: &str) -> Builder<K> {
        self.set("ZAP_DOMAIN", domain)
    }

    /// Clients have to say a name and a password, on which a ZAP handler decides.
    pub fn plain_server(self) -> Builder<K> {
        self.set("PLAIN_SERVER", true)
    }

    /// Says this name and password to servers, in the clear.
    pub fn plain_client(self, username: &str, password: &str) -> Builder<K> {
        self.set("PLAIN_USERNAME", username).set_secret("PLAIN_PASSWORD", password.as_bytes())
    }

    /// Encrypts, as the server whose keys these are. Without a ZAP handler it takes every client that knows its public
    /// key.
    pub fn curve_server(self, keys: &KeyPair) -> Builder<K> {
        self.set("CURVE_SERVER", true).curve_keys(keys)
    }

    /// Encrypts, as a client with these keys, and speaks to no server but the one that has this public key.
    pub fn curve_client(self, keys: &KeyPair, server: &[u8; 32]) -> Builder<K> {
        self.curve_keys(keys).set("CURVE_SERVERKEY", server)
    }

    fn curve_keys(self, keys: &KeyPair) -> Builder<K> {
        Builder(self.0.and_then(|socket| socket.set_curve_keys(keys).map(|()| socket)))
    }

    /// As [`curve_server`](Self::curve_server). Errors: Invalid where the certificate has no secret key.
    pub fn certified_server(self, certificate: &Certificate) -> Builder<K> {
        match certificate.keys() {
            Some(keys) => self.curve_server(keys),
            None => Builder(self.0.and(Err(Error::Invalid))),
        }
    }

    /// As [`curve_client`](Self::curve_client). Errors: Invalid where the client's certificate has no secret key.
    pub fn certified_client(self, certificate: &Certificate, server: &Certificate) -> Builder<K> {
        match certificate.keys() {
            Some(keys) => self.curve_client(keys, server.public_key()),
            None => Builder(self.0.and(Err(Error::Invalid))),
        }
    }
}

impl<K: Subscribes> Builder<K> {
    /// Receives what begins with `topic`. (A XSUB subscribes by messages, once it is connected.)
    pub fn subscribe(self, topic: impl AsRef<[u8]>) -> Builder<K> {
        Builder(self.0.and_then(|socket| socket.subscribe(topic).map(|()| socket)))
    }
}

impl<K: Joins> Builder<K> {
    /// Receives what RADIOs send to this group.
    pub fn join(self, group: impl AsRef<[u8]>) -> Builder<K> {
        Builder(self.0.and_then(|socket| socket.join(group).map(|()| socket)))
    }
}

impl Builder<kinds::Router> {
    /// A message to a name that no peer has is an error (Unreachable), and a full one waits, instead of being dropped
    /// and counted.
    pub fn mandatory(self, on: bool) -> Builder<kinds::Router> {
        self.set("ROUTER_MANDATORY", on)
    }

    /// A second peer with a name takes it from the first.
    pub fn handover(self, on: bool) -> Builder<kinds::Router> {
        self.set("ROUTER_HANDOVER", on)
    }
}

impl Builder<kinds::Req> {
    /// A new request may be sent before the answer to the last has come, which is then not wanted any more.
    pub fn relaxed(self, on: bool) -> Builder<kinds::Req> {
        self.set("REQ_RELAXED", on).set("REQ_CORRELATE", on)
    }
}

impl Builder<kinds::XPub> {
    /// Every subscription is received, not only the first to its topic.
    pub fn verbose(self, on: bool) -> Builder<kinds::XPub> {
        self.set("XPUB_VERBOSE", on)
    }

    /// A full peer makes `send` wait, instead of missing messages.
    pub fn no_drop(self, on: bool) -> Builder<kinds::XPub> {
        self.set("XPUB_NODROP", on)
    }

    /// Sent to each new subscriber.
    pub fn welcome_message(self, message: impl AsRef<[u8]>) -> Builder<kinds::XPub> {
        self.set("XPUB_WELCOME_MSG", message.as_ref())
    }
}

/// With whose processes memory is shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SharedMemory {
    /// With nobody's.
    Never = 0,
    /// With those of our own user.
    SameUser = 1,
    /// With anybody's.
    AnyUser = 2,
}
