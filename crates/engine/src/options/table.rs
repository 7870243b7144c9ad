//! All socket options: zmq_setsockopt(3) and zmq_getsockopt(3), libzmq 4.3.5.
//!
//! Missing numbers are unused, or belong to options that libzmq dropped. Ranges and defaults are libzmq's.

use pinnace_crypto::SecretKey;
use pinnace_zmtp::SocketType::{self, *};

use super::security::Mechanism as Wanted;
use super::spec::SocketValue::*;
use super::spec::{OptionKind, OptionSpec, Store, absent, bytes, flag, from, int, row, socket, text};
use super::times::{from_ms, limit, ms, ms_or_never};
use super::{Options, filters};
use crate::error::{Error, Invalid};

/// REP is based on ROUTER and REQ on DEALER, so they take those options too.
const ROUTERS: &[SocketType] = &[Router, Rep];
const PROBERS: &[SocketType] = &[Router, Rep, Dealer, Req];
const PUBLISHERS: &[SocketType] = &[XPub, Pub];

/// The longest ZMTP identity; libzmq has the same limit for other options.
const SHORT: usize = 255;
/// The wire format of HEARTBEAT_TTL is deciseconds in 16 bits.
const TTL_MAX_MS: i32 = 6_553_599;
/// Our own options, far from libzmq's numbers.
const PINNACE_SNDBYTES: i32 = 10_001;
const PINNACE_RCVBYTES: i32 = 10_002;
const PINNACE_SHARED_MEMORY: i32 = 10_003;
const PINNACE_BORROW: i32 = 10_004;
/// A number of bytes; 0: no limit.
const BYTES: OptionKind = OptionKind::Int64 { min: 0, default: 0 };
/// Properties that one socket sends; a peer accepts 64 in all.
const METADATA_MAX: usize = 32;
/// IFNAMSIZ (netdevice(7)).
const DEVICE_MAX: usize = 16;

macro_rules! stored {
    ($variant:ident, $field:ident) => {
        Store::$variant(|options| options.$field, |options, value| options.$field = value)
    };
}

macro_rules! switch {
    ($($field:ident).+) => {
        Store::Int(|options| i32::from(options.$($field).+), |options, value| options.$($field).+ = value != 0)
    };
}

macro_rules! duration {
    ($field:ident) => {
        Store::Int(|options| ms(options.$field), |options, value| options.$field = from_ms(value))
    };
}

/// A time; -1: none.
macro_rules! time_limit {
    ($field:ident) => {
        Store::Int(|options| ms_or_never(options.$field), |options, value| options.$field = limit(value))
    };
}

macro_rules! count {
    ($field:ident) => {
        Store::Int(|options| options.$field as i32, |options, value| options.$field = value as u32)
    };
}

macro_rules! bytes_limit {
    ($field:ident) => {
        Store::Int64(|options| options.$field as i64, |options, value| options.$field = value as u64)
    };
}

macro_rules! blob {
    ($variant:ident, $($field:ident).+) => {
        Store::$variant(|options| &options.$($field).+, |options, value| options.$($field).+ = value)
    };
}

/// A message that the engine sends or delivers by itself; empty: none.
macro_rules! message {
    ($field:ident) => {
        Store::Bytes(
            |options| options.$field.as_deref().unwrap_or_default(),
            |options, value| options.$field = Some(value).filter(|value| !value.is_empty()),
        )
    };
}

/// A key of our own; setting it selects CURVE.
macro_rules! curve_key {
    ($variant:ident, $field:ident, $make:expr) => {
        Store::$variant(
            |options| &options.security.$field,
            |options, key| {
                options.security.$field = $make(key);
                options.security.mechanism = Wanted::Curve;
            },
        )
    };
}

/// The table, sorted by number.
pub const TABLE: &[OptionSpec] = &[
    row(4, "AFFINITY", OptionKind::Bits { default: 0 }, stored!(Bits, affinity)),
    row(5, "ROUTING_ID", bytes(1, SHORT), blob!(Bytes, routing_id)),
    row(6, "SUBSCRIBE", bytes(0, usize::MAX), Store::Subscribe).set_only().now(),
    row(7, "UNSUBSCRIBE", bytes(0, usize::MAX), Store::Unsubscribe).set_only().now(),
    row(8, "RATE", from(1, 100), stored!(Int, rate)),
    row(9, "RECOVERY_IVL", from(0, 10_000), stored!(Int, recovery_ivl_ms)),
    row(11, "SNDBUF", from(-1, -1), stored!(Int, sndbuf)),
    row(12, "RCVBUF", from(-1, -1), stored!(Int, rcvbuf)),
    socket(13, "RCVMORE", flag(0), ReceiveMore),
    socket(14, "FD", from(-1, -1), Fd),
    socket(15, "EVENTS", int(0, 3, 0), Events),
    socket(16, "TYPE", int(0, 20, 0), Type),
    row(17, "LINGER", from(-1, -1), time_limit!(linger)).now(),
    row(18, "RECONNECT_IVL", from(-1, 100), time_limit!(reconnect_ivl)),
    row(19, "BACKLOG", from(0, 100), stored!(Int, backlog)),
    row(21, "RECONNECT_IVL_MAX", from(0, 0), duration!(reconnect_ivl_max)),
    row(22, "MAXMSGSIZE", OptionKind::Int64 { min: -1, default: -1 }, MAXMSGSIZE),
    row(23, "SNDHWM", from(0, 1000), count!(sndhwm)).hwm(),
    row(24, "RCVHWM", from(0, 1000), count!(rcvhwm)).hwm(),
    row(25, "MULTICAST_HOPS", from(1, 1), stored!(Int, multicast_hops)),
    row(27, "RCVTIMEO", from(-1, -1), time_limit!(rcvtimeo)).now(),
    row(28, "SNDTIMEO", from(-1, -1), time_limit!(sndtimeo)).now(),
    row(31, "IPV4ONLY", flag(1), IPV4ONLY),
    socket(32, "LAST_ENDPOINT", text(usize::MAX), LastEndpoint),
    row(33, "ROUTER_MANDATORY", from(0, 0), switch!(router_mandatory)).pattern(ROUTERS).set_only(),
    row(34, "TCP_KEEPALIVE", int(-1, 1, -1), stored!(Int, tcp_keepalive)),
    row(35, "TCP_KEEPALIVE_CNT", from(-1, -1), stored!(Int, tcp_keepalive_cnt)),
    row(36, "TCP_KEEPALIVE_IDLE", from(-1, -1), stored!(Int, tcp_keepalive_idle)),
    row(37, "TCP_KEEPALIVE_INTVL", from(-1, -1), stored!(Int, tcp_keepalive_intvl)),
    row(38, "TCP_ACCEPT_FILTER", bytes(0, SHORT), Store::Parsed(filters::add_address)).set_only(),
    row(39, "IMMEDIATE", flag(0), switch!(immediate)),
    row(40, "XPUB_VERBOSE", from(0, 0), VERBOSE).pattern(PUBLISHERS).set_only(),
    row(41, "ROUTER_RAW", from(0, 0), switch!(router_raw)).pattern(&[Router]).set_only(),
    row(42, "IPV6", flag(0), switch!(ipv6)),
    socket(43, "MECHANISM", int(0, 3, 0), Mechanism),
    row(44, "PLAIN_SERVER", flag(0), PLAIN_SERVER),
    row(45, "PLAIN_USERNAME", text(SHORT), PLAIN_USERNAME),
    row(46, "PLAIN_PASSWORD", text(SHORT), PLAIN_PASSWORD),
    row(47, "CURVE_SERVER", flag(0), CURVE_SERVER),
    row(48, "CURVE_PUBLICKEY", OptionKind::Key, curve_key!(Key, public_key, |key: &SecretKey| **key)),
    row(49, "CURVE_SECRETKEY", OptionKind::Key, curve_key!(SecretKey, secret_key, SecretKey::clone)),
    row(50, "CURVE_SERVERKEY", OptionKind::Key, CURVE_SERVERKEY),
    row(51, "PROBE_ROUTER", from(0, 0), switch!(probe_router)).pattern(PROBERS).set_only(),
    row(52, "REQ_CORRELATE", from(0, 0), switch!(req_correlate)).pattern(&[Req]).set_only(),
    row(53, "REQ_RELAXED", from(0, 0), switch!(req_relaxed)).pattern(&[Req]).set_only(),
    row(54, "CONFLATE", flag(0), switch!(conflate)),
    row(55, "ZAP_DOMAIN", text(SHORT), ZAP_DOMAIN),
    row(56, "ROUTER_HANDOVER", from(0, 0), switch!(router_handover)).pattern(ROUTERS).set_only(),
    row(57, "TOS", from(0, 0), stored!(Int, tos)),
    row(58, "IPC_FILTER_PID", bytes(0, 4), Store::Parsed(filters::add_pid)).set_only(),
    row(59, "IPC_FILTER_UID", bytes(0, 4), Store::Parsed(filters::add_uid)).set_only(),
    row(60, "IPC_FILTER_GID", bytes(0, 4), Store::Parsed(filters::add_gid)).set_only(),
    row(61, "CONNECT_ROUTING_ID", bytes(1, SHORT), blob!(Bytes, connect_routing_id))
        .only(&[Router, Rep, Stream])
        .set_only(),
    absent(62, "GSSAPI_SERVER", flag(0)),
    absent(63, "GSSAPI_PRINCIPAL", text(SHORT)),
    absent(64, "GSSAPI_SERVICE_PRINCIPAL", text(SHORT)),
    absent(65, "GSSAPI_PLAINTEXT", flag(0)),
    row(66, "HANDSHAKE_IVL", from(0, 30_000), duration!(handshake_ivl)),
    row(68, "SOCKS_PROXY", text(SHORT), blob!(Text, socks.proxy)),
    row(69, "XPUB_NODROP", from(0, 0), switch!(xpub.nodrop)).pattern(&[XPub, Pub, Radio]).set_only(),
    row(71, "XPUB_MANUAL", from(0, 0), MANUAL).pattern(PUBLISHERS).set_only(),
    row(72, "XPUB_WELCOME_MSG", bytes(0, usize::MAX), blob!(Bytes, xpub.welcome_msg))
        .pattern(PUBLISHERS)
        .set_only(),
    row(73, "STREAM_NOTIFY", flag(1), switch!(stream_notify)).pattern(&[Stream]).set_only(),
    row(74, "INVERT_MATCHING", from(i32::MIN, 0), switch!(invert_matching)).pattern(&[]),
    row(75, "HEARTBEAT_IVL", from(0, 0), duration!(heartbeat_ivl)),
    row(76, "HEARTBEAT_TTL", int(0, TTL_MAX_MS, 0), HEARTBEAT_TTL),
    row(77, "HEARTBEAT_TIMEOUT", from(-1, -1), time_limit!(heartbeat_timeout)),
    row(78, "XPUB_VERBOSER", from(0, 0), VERBOSER).pattern(PUBLISHERS).set_only(),
    row(79, "CONNECT_TIMEOUT", from(0, 0), duration!(connect_timeout)),
    row(80, "TCP_MAXRT", from(0, 0), stored!(Int, tcp_maxrt_ms)),
    socket(81, "THREAD_SAFE", flag(0), ThreadSafe),
    row(84, "MULTICAST_MAXTPDU", from(1, 1500), stored!(Int, multicast_maxtpdu)),
    absent(85, "VMCI_BUFFER_SIZE", OptionKind::Bits { default: 65_546 }),
    absent(86, "VMCI_BUFFER_MIN_SIZE", OptionKind::Bits { default: 128 }),
    absent(87, "VMCI_BUFFER_MAX_SIZE", OptionKind::Bits { default: 262_144 }),
    absent(88, "VMCI_CONNECT_TIMEOUT", from(-1, -1)),
    row(89, "USE_FD", from(-1, -1), stored!(Int, use_fd)),
    absent(90, "GSSAPI_PRINCIPAL_NAMETYPE", int(0, 2, 0)),
    absent(91, "GSSAPI_SERVICE_PRINCIPAL_NAMETYPE", int(0, 2, 0)),
    row(92, "BINDTODEVICE", text(DEVICE_MAX), blob!(Text, bind_to_device)),
    row(93, "ZAP_ENFORCE_DOMAIN", flag(0), ZAP_ENFORCE_DOMAIN),
    row(94, "LOOPBACK_FASTPATH", flag(0), switch!(loopback_fastpath)),
    row(95, "METADATA", bytes(0, usize::MAX), Store::Parsed(metadata)).set_only(),
    row(96, "MULTICAST_LOOP", flag(1), switch!(multicast_loop)),
    row(97, "ROUTER_NOTIFY", int(0, 3, 0), stored!(Int, router_notify)).pattern(&[Router]),
    row(98, "XPUB_MANUAL_LAST_VALUE", from(0, 0), MANUAL_LAST_VALUE).pattern(PUBLISHERS).set_only(),
    row(99, "SOCKS_USERNAME", text(SHORT), blob!(Text, socks.username)),
    row(100, "SOCKS_PASSWORD", text(SHORT), blob!(SecretText, socks.password)),
    row(101, "IN_BATCH_SIZE", from(1, 8192), stored!(Int, in_batch_size)),
    row(102, "OUT_BATCH_SIZE", from(1, 8192), stored!(Int, out_batch_size)),
    row(103, "WSS_KEY_PEM", text(usize::MAX), blob!(SecretText, wss.key_pem)).set_only(),
    row(104, "WSS_CERT_PEM", text(usize::MAX), blob!(Text, wss.cert_pem)).set_only(),
    row(105, "WSS_TRUST_PEM", text(usize::MAX), blob!(Text, wss.trust_pem)).set_only(),
    row(106, "WSS_HOSTNAME", text(SHORT), blob!(Text, wss.hostname)).set_only(),
    row(107, "WSS_TRUST_SYSTEM", flag(0), switch!(wss.trust_system)).set_only(),
    row(108, "ONLY_FIRST_SUBSCRIBE", from(0, 0), switch!(only_first_subscribe))
        .pattern(&[XPub, Pub, XSub, Sub])
        .set_only(),
    row(109, "RECONNECT_STOP", int(0, 7, 0), stored!(Int, reconnect_stop)),
    row(110, "HELLO_MSG", bytes(0, usize::MAX), message!(hello_msg)).set_only(),
    row(111, "DISCONNECT_MSG", bytes(0, usize::MAX), message!(disconnect_msg)).set_only(),
    row(112, "PRIORITY", from(0, 0), stored!(Int, priority)),
    row(113, "BUSY_POLL", from(-1, 0), stored!(Int, busy_poll_us)),
    row(114, "HICCUP_MSG", bytes(0, usize::MAX), message!(hiccup_msg)).set_only(),
    row(115, "XSUB_VERBOSE_UNSUBSCRIBE", flag(0), switch!(xsub_verbose_unsubscribe))
        .pattern(&[XSub, Sub])
        .set_only(),
    socket(116, "TOPICS_COUNT", from(0, 0), TopicsCount).only(&[Pub, XPub, Sub, XSub]),
    absent(117, "NORM_MODE", from(0, 0)),
    absent(118, "NORM_UNICAST_NACK", flag(0)),
    absent(119, "NORM_BUFFER_SIZE", from(0, 0)),
    absent(120, "NORM_SEGMENT_SIZE", from(0, 0)),
    absent(121, "NORM_BLOCK_SIZE", from(0, 0)),
    absent(122, "NORM_NUM_PARITY", from(0, 0)),
    absent(123, "NORM_NUM_AUTOPARITY", from(0, 0)),
    absent(124, "NORM_PUSH", flag(0)),
    row(PINNACE_SNDBYTES, "PINNACE_SNDBYTES", BYTES, bytes_limit!(snd_bytes)).hwm(),
    row(PINNACE_RCVBYTES, "PINNACE_RCVBYTES", BYTES, bytes_limit!(rcv_bytes)).hwm(),
    row(PINNACE_SHARED_MEMORY, "PINNACE_SHARED_MEMORY", int(0, 2, 1), stored!(Int, shared_memory)),
    row(PINNACE_BORROW, "PINNACE_BORROW", flag(0), switch!(borrow)),
];

const MAXMSGSIZE: Store = Store::Int64(
    |options| options.maxmsgsize.map_or(-1, |size| size as i64),
    |options, value| options.maxmsgsize = u64::try_from(value).ok(),
);

/// The old, inverted form of IPV6.
const IPV4ONLY: Store =
    Store::Int(|options| i32::from(!options.ipv6), |options, value| options.ipv6 = value == 0);

/// The wire carries whole deciseconds; the remainder of the value is dropped.
const HEARTBEAT_TTL: Store = Store::Int(
    |options| ms(options.heartbeat_ttl),
    |options, value| options.heartbeat_ttl = from_ms(value / 100 * 100),
);

/// Reports repeated subscriptions, but not repeated unsubscriptions.
const VERBOSE: Store = Store::Int(
    |options| i32::from(options.xpub.verbose),
    |options, value| (options.xpub.verbose, options.xpub.verboser) = (value != 0, false),
);

/// Reports both.
const VERBOSER: Store = Store::Int(
    |options| i32::from(options.xpub.verboser),
    |options, value| (options.xpub.verbose, options.xpub.verboser) = (value != 0, value != 0),
);

/// Reports repeated subscriptions, and the application decides which ones take effect.
const MANUAL: Store = Store::Int(
    |options| i32::from(options.xpub.manual),
    |options, value| (options.xpub.manual, options.xpub.manual_last_value) = (value != 0, false),
);

/// As MANUAL, and the next message goes only to the last subscriber.
const MANUAL_LAST_VALUE: Store = Store::Int(
    |options| i32::from(options.xpub.manual_last_value),
    |options, value| (options.xpub.manual, options.xpub.manual_last_value) = (value != 0, value != 0),
);

const PLAIN_SERVER: Store = Store::Int(
    |options| i32::from(options.security.is_server(Wanted::Plain)),
    |options, value| options.security.serve(Wanted::Plain, value != 0),
);

const CURVE_SERVER: Store = Store::Int(
    |options| i32::from(options.security.is_server(Wanted::Curve)),
    |options, value| options.security.serve(Wanted::Curve, value != 0),
);

const PLAIN_USERNAME: Store = Store::Text(
    |options| &options.security.username,
    |options, name| {
        options.security.be_client(if name.is_empty() { Wanted::Null } else { Wanted::Plain });
        options.security.username = name;
    },
);

const PLAIN_PASSWORD: Store = Store::SecretText(
    |options| &options.security.password,
    |options, password| {
        options.security.be_client(if password.text().is_empty() { Wanted::Null } else { Wanted::Plain });
        options.security.password = password;
    },
);

const CURVE_SERVERKEY: Store = Store::Key(
    |options| &options.security.server_key,
    |options, key| {
        options.security.server_key = **key;
        options.security.be_client(Wanted::Curve);
    },
);

const ZAP_DOMAIN: Store = Store::Text(
    |options| &options.security.zap_domain,
    |options, domain| options.security.zap_domain = domain,
);

const ZAP_ENFORCE_DOMAIN: Store = Store::Int(
    |options| i32::from(options.security.zap_enforce_domain),
    |options, value| options.security.zap_enforce_domain = value != 0,
);

/// "X-name:value": a property that we send to peers (RFC 37, "Connection Metadata").
fn metadata(options: &mut Options, value: &[u8]) -> Result<(), Error> {
    let text = std::str::from_utf8(value.strip_suffix(b"\0").unwrap_or(value))
        .map_err(|_| Error::Invalid(Invalid::Text))?;
    let (name, value) = text.split_once(':').ok_or(Error::Invalid(Invalid::Metadata))?;
    let name_is_ours = name.len() > 2 && name.starts_with("X-");
    let fits = |bytes: &[u8]| pinnace_zmtp::metadata::encode(name, bytes, &mut Vec::new()).is_ok();
    if !name_is_ours || value.is_empty() || !fits(value.as_bytes()) || options.metadata.len() >= METADATA_MAX
    {
        return Err(Error::Invalid(Invalid::Metadata));
    }
    options.metadata.retain(|(other, _)| other != name);
    options.metadata.push((name.to_owned(), value.as_bytes().to_vec()));
    Ok(())
}
