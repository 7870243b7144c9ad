//! What one row of the table says, and how rows are written.

use pinnace_crypto::SecretKey;
use pinnace_zmtp::SocketType;

use super::Options;
use super::security::SecretText;
use crate::error::Error;

/// One option: its facts, and where its value lives.
pub struct OptionSpec {
    /// libzmq's number.
    pub number: i32,
    /// libzmq's name, without `ZMQ_`.
    pub name: &'static str,
    /// Type, range and default.
    pub kind: Kind,
    pub access: Access,
    pub when: When,
    /// The socket types that know it; empty: all.
    pub types: &'static [SocketType],
    pub(super) then: Then,
    pub(super) store: Store,
}

/// The type of a value, with its range and its default. Numbers are in the machine's byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Four bytes.
    Int { min: i32, max: i32, default: i32 },
    /// Eight bytes.
    Int64 { min: i64, default: i64 },
    /// Eight bytes: a set of bits.
    Bits { default: u64 },
    /// Text of at most `max` bytes; read with a NUL at its end. Empty by default.
    Text { max: usize },
    /// `min` to `max` bytes. None by default.
    Bytes { min: usize, max: usize },
    /// A CURVE key: 32 bytes, or 40 characters of Z85 (RFC 32), with or without a NUL; read as 32 bytes or as 41
    /// with the NUL, whichever there is room for exactly. Zeros by default.
    Key,
}

/// Whether it can be set, read, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Both,
    Set,
    Get,
}

/// When a new value counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// At the next `bind` or `connect`; what is bound and connected keeps the old one.
    Link,
    /// At once, or at the next call that looks at it.
    Now,
}

/// What the socket has to do once the value is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    Nothing,
    Patterns,
    Hwm,
}

/// What the socket itself knows and [`Options`] does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketValue {
    /// int: the last frame received has more after it.
    ReceiveMore,
    /// int: the descriptor that signals changes.
    Fd,
    /// int: POLLIN and POLLOUT as they are now.
    Events,
    /// int: libzmq's number of the socket type.
    Type,
    /// Text: what the last bind or connect came to.
    LastEndpoint,
    /// int: 0 NULL, 1 PLAIN, 2 CURVE, 3 GSSAPI.
    Mechanism,
    /// int: libzmq's answer is 1 for its draft types alone.
    ThreadSafe,
    /// int: how many topics a socket's peers have subscribed to, or a socket has.
    TopicsCount,
}

/// Where the value lives.
pub(super) enum Store {
    Int(fn(&Options) -> i32, fn(&mut Options, i32)),
    Int64(fn(&Options) -> i64, fn(&mut Options, i64)),
    Bits(fn(&Options) -> u64, fn(&mut Options, u64)),
    Text(fn(&Options) -> &str, fn(&mut Options, String)),
    /// As Text, for one that must not lie about.
    SecretText(fn(&Options) -> &SecretText, fn(&mut Options, SecretText)),
    Bytes(fn(&Options) -> &[u8], fn(&mut Options, Vec<u8>)),
    /// The socket has it.
    Socket(SocketValue),
    Subscribe,
    Unsubscribe,
    Key(fn(&Options) -> &[u8; 32], fn(&mut Options, &SecretKey)),
    /// Bytes with a form of their own; cannot be read.
    Parsed(fn(&mut Options, &[u8]) -> Result<(), Error>),
    /// libzmq has it where it was built with a library that we do not carry; here it is unknown, as it is in a
    /// libzmq without that library.
    Absent,
}

/// A row that can be set and read, for all socket types, and counts at the next bind or connect.
pub(super) const fn row(number: i32, name: &'static str, kind: Kind, store: Store) -> OptionSpec {
    let (access, when, then) = (Access::Both, When::Link, Then::Nothing);
    OptionSpec { number, name, kind, access, when, types: &[], then, store }
}

/// A row whose value the socket knows.
pub(super) const fn socket(number: i32, name: &'static str, kind: Kind, value: SocketValue) -> OptionSpec {
    let mut spec = row(number, name, kind, Store::Socket(value));
    spec.access = Access::Get;
    spec.now()
}

/// A row of something that we do not have.
pub(super) const fn absent(number: i32, name: &'static str, kind: Kind) -> OptionSpec {
    row(number, name, kind, Store::Absent)
}

impl OptionSpec {
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

    /// Only patterns look at it: those of `types`.
    pub(super) const fn pattern(mut self, types: &'static [SocketType]) -> OptionSpec {
        self.then = Then::Patterns;
        self.only(types)
    }

    pub(super) const fn only(mut self, types: &'static [SocketType]) -> OptionSpec {
        self.types = types;
        self.now()
    }
}

pub(super) const fn int(min: i32, max: i32, default: i32) -> Kind {
    Kind::Int { min, max, default }
}

/// An int of `min` and more.
pub(super) const fn from(min: i32, default: i32) -> Kind {
    int(min, i32::MAX, default)
}

/// An int of 0 or 1.
pub(super) const fn flag(default: i32) -> Kind {
    int(0, 1, default)
}

pub(super) const fn text(max: usize) -> Kind {
    Kind::Text { max }
}

pub(super) const fn bytes(min: usize, max: usize) -> Kind {
    Kind::Bytes { min, max }
}
