//! A row of the option table, and the functions that build rows.

use pinnace_crypto::SecretKey;
use pinnace_zmtp::SocketType;

use super::Options;
use super::security::SecretText;
use crate::error::Error;

/// One option: its properties, and how its value is accessed.
pub struct OptionSpec {
    /// libzmq's number.
    pub number: i32,
    /// libzmq's name, without `ZMQ_`.
    pub name: &'static str,
    /// Type, range and default.
    pub kind: OptionKind,
    pub access: Access,
    pub when: When,
    /// The socket types that have the option; empty: all.
    pub types: &'static [SocketType],
    pub(super) then: Then,
    pub(super) store: Store,
}

/// The type of a value, with its range and default. Numbers are in native byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionKind {
    /// Four bytes.
    Int { min: i32, max: i32, default: i32 },
    /// Eight bytes.
    Int64 { min: i64, default: i64 },
    /// Eight bytes: a set of bits.
    Bits { default: u64 },
    /// At most `max` bytes of text; read with a trailing NUL. Empty by default.
    Text { max: usize },
    /// `min` to `max` bytes. Empty by default.
    Bytes { min: usize, max: usize },
    /// A CURVE key. Set as 32 bytes, or as 40 characters of Z85 (RFC 32) with or without a NUL. Read as 32 bytes, or
    /// as 41 with the NUL, whichever is exactly the buffer's length. Zeros by default.
    Key,
}

/// Whether an option can be set, read, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Both,
    Set,
    Get,
}

/// When a new value takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// At the next `bind` or `connect`; existing endpoints keep the old value.
    Link,
    /// At once, or at the next call that uses it.
    Now,
}

/// What the socket has to do after the value is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    Nothing,
    Patterns,
    Hwm,
}

/// Values that the socket knows and [`Options`] does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketValue {
    /// int: 1 if more frames of the message received last follow.
    ReceiveMore,
    /// int: the descriptor that signals changes.
    Fd,
    /// int: POLLIN and POLLOUT, as the socket is ready now.
    Events,
    /// int: libzmq's number of the socket type.
    Type,
    /// Text: the resolved endpoint of the last bind or connect.
    LastEndpoint,
    /// int: 0 NULL, 1 PLAIN, 2 CURVE, 3 GSSAPI.
    Mechanism,
    /// int: as in libzmq, 1 for its draft types only.
    ThreadSafe,
    /// int: number of topics that the peers, or this socket, have subscribed to.
    TopicsCount,
}

/// How the value is stored.
pub(super) enum Store {
    Int(fn(&Options) -> i32, fn(&mut Options, i32)),
    Int64(fn(&Options) -> i64, fn(&mut Options, i64)),
    Bits(fn(&Options) -> u64, fn(&mut Options, u64)),
    Text(fn(&Options) -> &str, fn(&mut Options, String)),
    /// As Text, for secrets, which are wiped from memory.
    SecretText(fn(&Options) -> &SecretText, fn(&mut Options, SecretText)),
    Bytes(fn(&Options) -> &[u8], fn(&mut Options, Vec<u8>)),
    /// The socket holds the value.
    Socket(SocketValue),
    Subscribe,
    Unsubscribe,
    Key(fn(&Options) -> &[u8; 32], fn(&mut Options, &SecretKey)),
    /// As Key, for a secret key.
    SecretKey(fn(&Options) -> &[u8; 32], fn(&mut Options, &SecretKey)),
    /// Bytes with a format of their own; cannot be read.
    Parsed(fn(&mut Options, &[u8]) -> Result<(), Error>),
    /// libzmq has the option if it was built with a library that we do not include. Here it is unknown, as in a
    /// libzmq without that library.
    Absent,
}

/// A row for all socket types that can be set and read, and takes effect at the next bind or connect.
pub(super) const fn row(number: i32, name: &'static str, kind: OptionKind, store: Store) -> OptionSpec {
    let (access, when, then) = (Access::Both, When::Link, Then::Nothing);
    OptionSpec { number, name, kind, access, when, types: &[], then, store }
}

/// A row for a value that the socket holds.
pub(super) const fn socket(
    number: i32,
    name: &'static str,
    kind: OptionKind,
    value: SocketValue,
) -> OptionSpec {
    let mut spec = row(number, name, kind, Store::Socket(value));
    spec.access = Access::Get;
    spec.now()
}

/// A row for an option that we do not have.
pub(super) const fn absent(number: i32, name: &'static str, kind: OptionKind) -> OptionSpec {
    row(number, name, kind, Store::Absent)
}

impl OptionSpec {
    /// Whether the value is a secret, which must not appear in an error text or a log.
    pub const fn is_secret(&self) -> bool {
        matches!(self.store, Store::SecretText(..) | Store::SecretKey(..))
    }

    pub(super) const fn now(mut self) -> OptionSpec {
        self.when = When::Now;
        self
    }

    pub(super) const fn set_only(mut self) -> OptionSpec {
        self.access = Access::Set;
        self
    }

    pub(super) const fn hwm(mut self) -> OptionSpec {
        self.then = Then::Hwm;
        self.now()
    }

    /// Used only by the patterns of `types`.
    pub(super) const fn pattern(mut self, types: &'static [SocketType]) -> OptionSpec {
        self.then = Then::Patterns;
        self.only(types)
    }

    pub(super) const fn only(mut self, types: &'static [SocketType]) -> OptionSpec {
        self.types = types;
        self.now()
    }
}

pub(super) const fn int(min: i32, max: i32, default: i32) -> OptionKind {
    OptionKind::Int { min, max, default }
}

/// An int of at least `min`.
pub(super) const fn from(min: i32, default: i32) -> OptionKind {
    int(min, i32::MAX, default)
}

/// An int of 0 or 1.
pub(super) const fn flag(default: i32) -> OptionKind {
    int(0, 1, default)
}

pub(super) const fn text(max: usize) -> OptionKind {
    OptionKind::Text { max }
}

pub(super) const fn bytes(min: usize, max: usize) -> OptionKind {
    OptionKind::Bytes { min, max }
}
