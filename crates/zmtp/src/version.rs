//! Versions of ZMTP, and what each can.

use std::fmt;

/// The version of ZMTP that a connection speaks: the lower of what the two sides can.
///
/// Versions are ordered: `version >= Version::V3_0` asks whether there are commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// RFC 13: what libzmq 2.x speaks. Frames of its own kind ([`v1`](crate::v1)), no socket types.
    ///
    /// Such a peer may not forward its subscriptions: libzmq's PUB and XPUB treat it as subscribed to
    /// everything.
    V1_0,
    /// RFC 15: what libzmq 3.2 speaks. Frames as in 3.x, subscriptions as messages, no commands.
    V2_0,
    /// RFC 23: what libzmq 4.0 and 4.1 speak. Mechanisms and commands; subscriptions still travel as
    /// messages.
    V3_0,
    /// RFC 37: what libzmq 4.2 and later speak. Subscriptions and heartbeats are commands.
    V3_1,
}

impl Version {
    /// Whether frames have the form of ZMTP 1.0 ([`v1`](crate::v1)) instead of that of
    /// [`frame`](crate::frame).
    pub fn uses_v1_framing(self) -> bool {
        self == Version::V1_0
    }

    /// Whether command frames exist, and with them ERROR and the heartbeats.
    ///
    /// RFC 37 has heartbeats from 3.1 on; libzmq sends PING to 3.0 peers as well.
    pub fn has_commands(self) -> bool {
        self >= Version::V3_0
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Version::V1_0 => "1.0",
            Version::V2_0 => "2.0",
            Version::V3_0 => "3.0",
            Version::V3_1 => "3.1",
        })
    }
}
