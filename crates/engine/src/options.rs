//! A socket's options: one table ([`TABLE`]) says of each its number, type, range, default, and when a new
//! value counts.
//!
//! [`set`] and [`get`] work by libzmq's numbers, from the table alone. They guarantee that no value out of
//! range reaches [`Options`]. They do not act: what the socket has to do is told by [`Effect`], what only the
//! socket knows by [`SocketValue`].
//!
//! ```ignore
//! let mut options = Options::default();
//! assert_eq!(set(&mut options, 23, &10i32.to_ne_bytes()), Ok(Effect::Hwm));
//! assert_eq!(options.sndhwm, 10);
//! ```

mod access;
mod filters;
#[cfg(test)]
mod page_tests;
mod security;
mod spec;
mod table;
#[cfg(test)]
mod tests;
mod times;

use std::sync::OnceLock;
use std::time::Duration;

use pinnace_zmtp::SocketType;

pub use access::{Effect, Lookup, get, put_int, put_text, set};
pub use filters::Filters;
pub use security::{SecretText, Security};
pub use spec::{Access, Kind, OptionSpec, SocketValue, When};
pub use table::TABLE;

/// The values of a socket's options. Times of -1 are `None`: no limit, or off.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whose options these are; None: any type's.
    pub socket_type: Option<SocketType>,
    pub affinity: u64,
    pub routing_id: Vec<u8>,
    pub rate: i32,
    pub recovery_ivl_ms: i32,
    pub sndbuf: i32,
    pub rcvbuf: i32,
    /// None: for ever.
    pub linger: Option<Duration>,
    /// None: never reconnect.
    pub reconnect_ivl: Option<Duration>,
    /// Zero: the interval does not grow.
    pub reconnect_ivl_max: Duration,
    pub backlog: i32,
    /// None: no limit but memory.
    pub maxmsgsize: Option<u64>,
    /// Messages; 0 is no limit.
    pub sndhwm: u32,
    pub rcvhwm: u32,
    /// Bytes that one peer's queue may hold, beside the messages; 0 is no limit.
    pub snd_bytes: u64,
    pub rcv_bytes: u64,
    pub multicast_hops: i32,
    pub multicast_maxtpdu: i32,
    pub rcvtimeo: Option<Duration>,
    pub sndtimeo: Option<Duration>,
    pub tcp_keepalive: i32,
    pub tcp_keepalive_cnt: i32,
    pub tcp_keepalive_idle: i32,
    pub tcp_keepalive_intvl: i32,
    pub immediate: bool,
    pub ipv6: bool,
    pub tos: i32,
    /// Zero: no limit.
    pub handshake_ivl: Duration,
    /// Zero: no heartbeats.
    pub heartbeat_ivl: Duration,
    pub heartbeat_ttl: Duration,
    /// None: as the interval.
    pub heartbeat_timeout: Option<Duration>,
    /// Zero: the system's.
    pub connect_timeout: Duration,
    pub tcp_maxrt_ms: i32,
    pub bind_to_device: String,
    pub connect_routing_id: Vec<u8>,
    pub security: Security,
    pub filters: Filters,
    /// Properties of our own that peers are told.
    pub metadata: Vec<(String, Vec<u8>)>,
    /// "host:port" of a SOCKS5 proxy; empty: none.
    pub socks: Socks,
    /// A descriptor that listens already, for the next bind that succeeds; -1: none.
    pub use_fd: i32,
    pub multicast_loop: bool,
    pub loopback_fastpath: bool,
    pub in_batch_size: i32,
    pub out_batch_size: i32,
    pub wss: Wss,
    /// Bits: 1 connection refused, 2 handshake failed, 4 after a disconnect of ours.
    pub reconnect_stop: i32,
    /// SO_PRIORITY (socket(7)); 0: the system's.
    pub priority: i32,
    /// How long to look after shared memory before sleeping, in microseconds, and SO_BUSY_POLL (socket(7)); 0: while it
    /// pays, and the system's; -1: never.
    pub busy_poll_us: i32,
    /// Whether local connections go through shared memory: 0 no, 1 those of the same user, 2 those of any.
    pub shared_memory: i32,
    /// Large bodies that come through shared memory are handed out where they lie.
    pub borrow: bool,
    /// Sent to each new peer.
    pub hello_msg: Option<Vec<u8>>,
    /// Received when a peer is lost.
    pub disconnect_msg: Option<Vec<u8>>,
    /// Received when a connection of ours is lost and made again.
    pub hiccup_msg: Option<Vec<u8>>,
    /// Only the newest message is kept.
    pub conflate: bool,
    // What patterns look at.
    pub router_mandatory: bool,
    pub router_handover: bool,
    pub router_raw: bool,
    /// Bits: 1 a peer has connected, 2 one is lost.
    pub router_notify: i32,
    pub stream_notify: bool,
    pub probe_router: bool,
    pub req_correlate: bool,
    pub req_relaxed: bool,
    pub xpub: Xpub,
    pub xsub_verbose_unsubscribe: bool,
    pub only_first_subscribe: bool,
    pub invert_matching: bool,
}

/// The proxy that tcp connections are made by way of; an empty address is none.
#[derive(Debug, Clone, Default)]
pub struct Socks {
    pub proxy: String,
    pub username: String,
    pub password: SecretText,
}

/// What an XPUB and a PUB do with subscriptions.
#[derive(Debug, Clone, Default)]
pub struct Xpub {
    pub verbose: bool,
    pub verboser: bool,
    pub nodrop: bool,
    pub manual: bool,
    pub manual_last_value: bool,
    pub welcome_msg: Vec<u8>,
}

/// What TLS needs, as texts in PEM (RFC 7468).
#[derive(Debug, Clone, Default)]
pub struct Wss {
    pub key_pem: SecretText,
    pub cert_pem: String,
    pub trust_pem: String,
    pub hostname: String,
    pub trust_system: bool,
}

impl Options {
    /// The largest frame that is taken, in bytes.
    pub(crate) fn max_body(&self) -> u64 {
        self.maxmsgsize.unwrap_or(i64::MAX as u64)
    }

    /// The options that a new socket of this type begins with.
    pub fn new(socket_type: SocketType) -> Options {
        let mut options = Options { socket_type: Some(socket_type), ..Options::default() };
        if matches!(socket_type, SocketType::Sub | SocketType::XSub | SocketType::Dish) {
            // What they send are subscriptions and groups, which nobody needs to wait for.
            options.linger = Some(Duration::ZERO);
        }
        options
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            socket_type: None,
            affinity: 0,
            routing_id: Vec::new(),
            rate: 100,
            recovery_ivl_ms: 10_000,
            sndbuf: -1,
            rcvbuf: -1,
            linger: None,
            reconnect_ivl: Some(Duration::from_millis(100)),
            reconnect_ivl_max: Duration::ZERO,
            backlog: 100,
            maxmsgsize: None,
            sndhwm: 1000,
            rcvhwm: 1000,
            snd_bytes: 0,
            rcv_bytes: 0,
            multicast_hops: 1,
            multicast_maxtpdu: 1500,
            rcvtimeo: None,
            sndtimeo: None,
            tcp_keepalive: -1,
            tcp_keepalive_cnt: -1,
            tcp_keepalive_idle: -1,
            tcp_keepalive_intvl: -1,
            immediate: false,
            ipv6: false,
            tos: 0,
            handshake_ivl: Duration::from_secs(30),
            heartbeat_ivl: Duration::ZERO,
            heartbeat_ttl: Duration::ZERO,
            heartbeat_timeout: None,
            connect_timeout: Duration::ZERO,
            tcp_maxrt_ms: 0,
            bind_to_device: String::new(),
            connect_routing_id: Vec::new(),
            security: Security::default(),
            filters: Filters::default(),
            metadata: Vec::new(),
            socks: Socks::default(),
            use_fd: -1,
            multicast_loop: true,
            loopback_fastpath: false,
            in_batch_size: 8192,
            out_batch_size: 8192,
            wss: Wss::default(),
            reconnect_stop: 0,
            priority: 0,
            busy_poll_us: 0,
            shared_memory: shared_memory_default(),
            borrow: false,
            hello_msg: None,
            disconnect_msg: None,
            hiccup_msg: None,
            conflate: false,
            router_mandatory: false,
            router_handover: false,
            router_raw: false,
            router_notify: 0,
            stream_notify: true,
            probe_router: false,
            req_correlate: false,
            req_relaxed: false,
            xpub: Xpub::default(),
            xsub_verbose_unsubscribe: false,
            only_first_subscribe: false,
            invert_matching: false,
        }
    }
}

/// What PINNACE_SHARED_MEMORY in the environment says: 0, 1 or 2; 1 where it is not there, or is empty. Anything else
/// is taken for 0: without shared memory all works, and statistics say that it is switched off.
fn shared_memory_default() -> i32 {
    static DEFAULT: OnceLock<i32> = OnceLock::new();
    *DEFAULT.get_or_init(|| {
        let given = std::env::var_os("PINNACE_SHARED_MEMORY").filter(|text| !text.is_empty());
        let Some(text) = given else { return 1 };
        let value = text.to_str().and_then(|text| text.trim().parse().ok());
        value.filter(|value| (0..=2).contains(value)).unwrap_or(0)
    })
}
