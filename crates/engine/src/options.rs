//! A socket's options. One table ([`TABLE`]) defines each option's number, type, range and default, and when a new
//! value takes effect.
//!
//! [`set`] and [`get`] work by libzmq's numbers, from the table alone. They guarantee that no value out of
//! range reaches [`Options`]. They do not act: [`Effect`] names what the socket has to do, and [`SocketValue`] the
//! values that only the socket knows.
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
pub use spec::{Access, OptionKind, OptionSpec, SocketValue, When};
pub use table::TABLE;

/// The values of a socket's options. For times libzmq's -1 is `None`: no limit, or off.
#[derive(Debug, Clone)]
pub struct Options {
    /// None: options for any socket type.
    pub socket_type: Option<SocketType>,
    pub affinity: u64,
    pub routing_id: Vec<u8>,
    pub rate: i32,
    pub recovery_ivl_ms: i32,
    pub sndbuf: i32,
    pub rcvbuf: i32,
    /// None: no limit.
    pub linger: Option<Duration>,
    /// None: never reconnect.
    pub reconnect_ivl: Option<Duration>,
    /// Zero: the interval does not grow.
    pub reconnect_ivl_max: Duration,
    pub backlog: i32,
    /// None: limited by memory only.
    pub maxmsgsize: Option<u64>,
    /// In messages; 0: no limit.
    pub sndhwm: u32,
    pub rcvhwm: u32,
    /// Byte limit of each peer's queue, in addition to the message limit; 0: no limit.
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
    /// None: same as `heartbeat_ivl`.
    pub heartbeat_timeout: Option<Duration>,
    /// Zero: the system's default.
    pub connect_timeout: Duration,
    pub tcp_maxrt_ms: i32,
    pub bind_to_device: String,
    pub connect_routing_id: Vec<u8>,
    pub security: Security,
    pub filters: Filters,
    /// Properties that we send to peers.
    pub metadata: Vec<(String, Vec<u8>)>,
    /// SOCKS5 proxy for tcp connections.
    pub socks: Socks,
    /// A listening descriptor for the next bind that succeeds; -1: none.
    pub use_fd: i32,
    pub multicast_loop: bool,
    pub loopback_fastpath: bool,
    pub in_batch_size: i32,
    pub out_batch_size: i32,
    pub wss: Wss,
    /// Bits: 1 connection refused, 2 handshake failed, 4 after we disconnect.
    pub reconnect_stop: i32,
    /// SO_PRIORITY (socket(7)); 0: the system's default.
    pub priority: i32,
    /// Time to poll shared memory before sleeping, in microseconds, and SO_BUSY_POLL (socket(7)). 0: poll while it
    /// pays off, and the system's default; -1: never poll.
    pub busy_poll_us: i32,
    /// Shared memory for local connections: 0 never, 1 with the same user, 2 with any user.
    pub shared_memory: i32,
    /// Large bodies in shared memory are handed out in place, not copied.
    pub borrow: bool,
    /// Sent to each new peer.
    pub hello_msg: Option<Vec<u8>>,
    /// Received when a peer's connection is lost.
    pub disconnect_msg: Option<Vec<u8>>,
    /// Received when a connection that we made is lost and re-established.
    pub hiccup_msg: Option<Vec<u8>>,
    /// Keeps only the newest message.
    pub conflate: bool,
    // Options that only the patterns use.
    pub router_mandatory: bool,
    pub router_handover: bool,
    pub router_raw: bool,
    /// Bits: 1 when a peer connects, 2 when one is lost.
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

/// A SOCKS5 proxy, "host:port"; empty: none.
#[derive(Debug, Clone, Default)]
pub struct Socks {
    pub proxy: String,
    pub username: String,
    pub password: SecretText,
}

/// How an XPUB or PUB treats subscriptions.
#[derive(Debug, Clone, Default)]
pub struct Xpub {
    pub verbose: bool,
    pub verboser: bool,
    pub nodrop: bool,
    pub manual: bool,
    pub manual_last_value: bool,
    pub welcome_msg: Vec<u8>,
}

/// TLS parameters, as PEM text (RFC 7468).
#[derive(Debug, Clone, Default)]
pub struct Wss {
    pub key_pem: SecretText,
    pub cert_pem: String,
    pub trust_pem: String,
    pub hostname: String,
    pub trust_system: bool,
}

impl Options {
    /// The largest accepted frame, in bytes.
    pub(crate) fn max_body(&self) -> u64 {
        self.maxmsgsize.unwrap_or(i64::MAX as u64)
    }

    /// The initial options of a socket of this type.
    pub fn new(socket_type: SocketType) -> Options {
        let mut options = Options { socket_type: Some(socket_type), ..Options::default() };
        if matches!(socket_type, SocketType::Sub | SocketType::XSub | SocketType::Dish) {
            // These types send only subscriptions and groups, which are not worth a linger.
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

/// PINNACE_SHARED_MEMORY in the environment: 0, 1 or 2; 1 if unset or empty. Any other value counts as 0: everything
/// works without shared memory, and the statistics show that it is off.
fn shared_memory_default() -> i32 {
    static DEFAULT: OnceLock<i32> = OnceLock::new();
    *DEFAULT.get_or_init(|| {
        let given = std::env::var_os("PINNACE_SHARED_MEMORY").filter(|text| !text.is_empty());
        let Some(text) = given else { return 1 };
        let value = text.to_str().and_then(|text| text.trim().parse().ok());
        value.filter(|value| (0..=2).contains(value)).unwrap_or(0)
    })
}
