//! Builds sockets with options.

use std::time::Duration;

use pinnace_cert::Certificate;
use pinnace_engine::KeyPair;

use crate::kind::{Joins, Kind, Subscribes, Typed, kinds};
use crate::{Context, Error, Invalid, Socket, Value, options};

/// Builds a socket; made by [`Socket::builder`]. `build`, `bind` and `connect` return the first error of the chain.
///
/// ```
/// # use std::time::Duration;
/// use pinnace::{Context, Error, Invalid, Router};
/// # let context = Context::new()?;
/// let router = Router::builder(&context)
///     .mandatory(true)
///     .heartbeat(Duration::from_secs(5))
///     .receive_timeout(Duration::from_secs(1))
///     .set("TCP_KEEPALIVE", true)
///     .bind("tcp://127.0.0.1:*")?;
/// assert_eq!(router.send(["nobody", "hello"]).unwrap_err().error, Error::Unreachable);
/// let refused = Router::builder(&context).set("NO_SUCH_OPTION", 1).build().unwrap_err();
/// assert_eq!(refused, Error::Invalid(Invalid::UnknownOption));
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

    /// Returns the socket.
    pub fn build(self) -> Result<Socket<K>, Error> {
        self.0
    }

    /// Returns the socket, bound to an endpoint.
    pub fn bind(self, endpoint: &str) -> Result<Socket<K>, Error> {
        let socket = self.0?;
        socket.bind(endpoint)?;
        Ok(socket)
    }

    /// Returns the socket, connected to an endpoint.
    pub fn connect(self, endpoint: &str) -> Result<Socket<K>, Error> {
        let socket = self.0?;
        socket.connect(endpoint)?;
        Ok(socket)
    }

    /// Sets an option by libzmq's name, as [`Socket::set_option`] does.
    pub fn set(self, name: &str, value: impl Into<Value>) -> Builder<K> {
        Builder(self.0.and_then(|socket| socket.set_option(name, value).map(|()| socket)))
    }

    /// As `set`, without an intermediate copy of the value, which would stay in memory unwiped.
    fn set_secret(self, name: &str, value: &[u8]) -> Builder<K> {
        Builder(self.0.and_then(|socket| {
            socket.engine().set_option(options::find(name)?.number, value)?;
            Ok(socket)
        }))
    }

    /// High-water mark for sending: the number of messages that may be queued per peer; 0 is no limit. Default: 1000.
    pub fn send_high_water_mark(self, messages: u32) -> Builder<K> {
        self.set("SNDHWM", messages)
    }

    /// High-water mark for receiving: the number of messages that may be queued per peer; 0 is no limit. Default: 1000.
    pub fn receive_high_water_mark(self, messages: u32) -> Builder<K> {
        self.set("RCVHWM", messages)
    }

    /// Bytes that may be queued for sending per peer, in addition to the high-water mark. A message is accepted while
    /// fewer bytes than this are queued. ZMTP's headers count. 0 is no limit (the default).
    pub fn send_byte_limit(self, bytes: u64) -> Builder<K> {
        self.set("PINNACE_SNDBYTES", i64::try_from(bytes).unwrap_or(i64::MAX))
    }

    /// Received bytes that may be queued per peer, in addition to the high-water mark; 0 is no limit (the default).
    pub fn receive_byte_limit(self, bytes: u64) -> Builder<K> {
        self.set("PINNACE_RCVBYTES", i64::try_from(bytes).unwrap_or(i64::MAX))
    }

    /// Chooses the peers with which `ipc://` connections exchange messages through shared memory. Default: processes of
    /// the same user.
    pub fn shared_memory(self, with: SharedMemory) -> Builder<K> {
        self.set("PINNACE_SHARED_MEMORY", with as i32)
    }

    /// How long accepted messages are still sent after the socket is closed. None: without limit (the default).
    pub fn linger(self, time: impl Into<Option<Duration>>) -> Builder<K> {
        self.set("LINGER", time.into())
    }

    /// How long `send` waits. None: without limit (the default).
    pub fn send_timeout(self, time: impl Into<Option<Duration>>) -> Builder<K> {
        self.set("SNDTIMEO", time.into())
    }

    /// How long `recv` waits. None: without limit (the default).
    pub fn receive_timeout(self, time: impl Into<Option<Duration>>) -> Builder<K> {
        self.set("RCVTIMEO", time.into())
    }

    /// The routing id under which ROUTERs know this socket; 1 to 255 bytes.
    pub fn routing_id(self, name: impl AsRef<[u8]>) -> Builder<K> {
        self.set("ROUTING_ID", name.as_ref())
    }

    /// The delay before the first attempt to reconnect, and the limit up to which it grows while attempts fail.
    /// Default: 100 ms, not growing.
    pub fn reconnect_interval(self, first: Duration, longest: Duration) -> Builder<K> {
        self.set("RECONNECT_IVL", first).set("RECONNECT_IVL_MAX", longest)
    }

    /// How long an attempt to connect may take; zero: as long as the operating system allows.
    pub fn connect_timeout(self, time: Duration) -> Builder<K> {
        self.set("CONNECT_TIMEOUT", time)
    }

    /// How long a peer may take for its handshake; zero is no limit. Default: 30 s.
    pub fn handshake_timeout(self, time: Duration) -> Builder<K> {
        self.set("HANDSHAKE_IVL", time)
    }

    /// Interval of heartbeats (ZMTP PING). A peer that does not answer within one interval is disconnected. Zero: none
    /// (the default).
    pub fn heartbeat(self, interval: Duration) -> Builder<K> {
        self.set("HEARTBEAT_IVL", interval)
    }

    /// The largest frame that is received, in bytes. A peer that sends a larger one is disconnected. Default: no limit.
    pub fn max_message_size(self, bytes: u64) -> Builder<K> {
        self.set("MAXMSGSIZE", i64::try_from(bytes).unwrap_or(i64::MAX))
    }

    /// If true, a message is queued only for peers whose connection is complete, not for endpoints that are still
    /// connecting.
    pub fn immediate(self, on: bool) -> Builder<K> {
        self.set("IMMEDIATE", on)
    }

    /// Keeps only the newest message of each peer.
    pub fn conflate(self, on: bool) -> Builder<K> {
        self.set("CONFLATE", on)
    }

    /// Allows IPv6 too.
    pub fn ipv6(self, on: bool) -> Builder<K> {
        self.set("IPV6", on)
    }

    /// Adds a metadata property that is sent to peers in the handshake; the name begins with "X-".
    pub fn metadata(self, name: &str, value: &str) -> Builder<K> {
        self.set("METADATA", format!("{name}:{value}").into_bytes())
    }

    /// The domain passed to the ZAP handler (RFC 27) that authorizes peers.
    pub fn zap_domain(self, domain: &str) -> Builder<K> {
        self.set("ZAP_DOMAIN", domain)
    }

    /// Requires a name and a password from clients (PLAIN); a ZAP handler authorizes them.
    pub fn plain_server(self) -> Builder<K> {
        self.set("PLAIN_SERVER", true)
    }

    /// Sends this name and password to servers (PLAIN), unencrypted.
    pub fn plain_client(self, username: &str, password: &str) -> Builder<K> {
        self.set("PLAIN_USERNAME", username).set_secret("PLAIN_PASSWORD", password.as_bytes())
    }

    /// Enables CURVE as a server with these keys. Without a ZAP handler, the socket accepts every client that knows its
    /// public key.
    pub fn curve_server(self, keys: &KeyPair) -> Builder<K> {
        self.set("CURVE_SERVER", true).curve_keys(keys)
    }

    /// Enables CURVE as a client with these keys. The socket accepts only the server with this public key.
    pub fn curve_client(self, keys: &KeyPair, server: &[u8; 32]) -> Builder<K> {
        self.curve_keys(keys).set("CURVE_SERVERKEY", server)
    }

    fn curve_keys(self, keys: &KeyPair) -> Builder<K> {
        Builder(self.0.and_then(|socket| socket.set_curve_keys(keys).map(|()| socket)))
    }

    /// As [`curve_server`](Self::curve_server). Errors: Invalid if the certificate has no secret key.
    pub fn certified_server(self, certificate: &Certificate) -> Builder<K> {
        match certificate.keys() {
            Some(keys) => self.curve_server(keys),
            None => Builder(self.0.and(Err(Error::Invalid(Invalid::NoSecretKey)))),
        }
    }

    /// As [`curve_client`](Self::curve_client). Errors: Invalid if the client's certificate has no secret key.
    pub fn certified_client(self, certificate: &Certificate, server: &Certificate) -> Builder<K> {
        match certificate.keys() {
            Some(keys) => self.curve_client(keys, server.public_key()),
            None => Builder(self.0.and(Err(Error::Invalid(Invalid::NoSecretKey)))),
        }
    }
}

impl<K: Subscribes> Builder<K> {
    /// Receives messages that begin with `topic`. (An XSUB subscribes by sending a message, once it is connected.)
    pub fn subscribe(self, topic: impl AsRef<[u8]>) -> Builder<K> {
        Builder(self.0.and_then(|socket| socket.subscribe(topic).map(|()| socket)))
    }
}

impl<K: Joins> Builder<K> {
    /// Receives the messages that RADIOs send to this group.
    pub fn join(self, group: impl AsRef<[u8]>) -> Builder<K> {
        Builder(self.0.and_then(|socket| socket.join(group).map(|()| socket)))
    }
}

impl Builder<kinds::Router> {
    /// If true, a message to an unknown routing id is an error (Unreachable), and `send` waits for a peer at its
    /// high-water mark. If false, such messages are dropped and counted.
    pub fn mandatory(self, on: bool) -> Builder<kinds::Router> {
        self.set("ROUTER_MANDATORY", on)
    }

    /// If true, a second peer with the same routing id takes it over from the first.
    pub fn handover(self, on: bool) -> Builder<kinds::Router> {
        self.set("ROUTER_HANDOVER", on)
    }
}

impl Builder<kinds::Req> {
    /// Allows a new request before the reply to the last one has arrived. A late reply is then discarded.
    pub fn relaxed(self, on: bool) -> Builder<kinds::Req> {
        self.set("REQ_RELAXED", on).set("REQ_CORRELATE", on)
    }
}

impl Builder<kinds::XPub> {
    /// Passes every subscription to `recv`, not only the first to its topic.
    pub fn verbose(self, on: bool) -> Builder<kinds::XPub> {
        self.set("XPUB_VERBOSE", on)
    }

    /// Makes `send` wait for a subscriber at its high-water mark, instead of dropping the message for it.
    pub fn no_drop(self, on: bool) -> Builder<kinds::XPub> {
        self.set("XPUB_NODROP", on)
    }

    /// The message sent to each new subscriber.
    pub fn welcome_message(self, message: impl AsRef<[u8]>) -> Builder<kinds::XPub> {
        self.set("XPUB_WELCOME_MSG", message.as_ref())
    }
}

/// The peers with which memory is shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SharedMemory {
    /// None.
    Never = 0,
    /// Processes of our own user.
    SameUser = 1,
    /// Processes of any user.
    AnyUser = 2,
}
